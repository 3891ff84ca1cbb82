"""The bidirectional language model under every ELMo: words to vectors, then context."""

# B sentences, T words, W distinct words, C places in a word's row, P projection dim, L layers
from dataclasses import dataclass
from typing import Annotated, Literal

import torch
import torch.nn.functional as F
from pydantic import Field, model_validator
from torch import Tensor, nn

from elmore.config import Frozen
from elmore.errors import ConfigError
from elmore.models.layers import LayerModel, LayerStates
from elmore.nn.char_cnn import CharCNN, CharCNNConfig
from elmore.nn.lstm import BiLSTM, LSTMConfig, LSTMState
from elmore.nn.transformer import BiTransformer, TransformerConfig
from elmore.nn.word_char import WordChar, WordCharConfig, WordTable, WordTableConfig
from elmore.text.byte_reader import N_CHARACTER_IDS
from elmore.text.reader import WordBatch

WordsConfig = Annotated[
    CharCNNConfig | WordTableConfig | WordCharConfig, Field(discriminator="kind")
]
ContextConfig = Annotated[LSTMConfig | TransformerConfig, Field(discriminator="kind")]


class BiLMConfig(Frozen):
    """Which words go in, and which network reads them."""

    kind: Literal["bilm"] = "bilm"
    words: WordsConfig = CharCNNConfig()
    context: ContextConfig = LSTMConfig()

    @model_validator(mode="after")
    def _fits(self) -> "BiLMConfig":
        if self.words.dim != self.context.dim:
            raise ValueError(f"words.dim={self.words.dim} but context.dim={self.context.dim}")
        if self.words.kind == "characters" and self.words.n_characters < N_CHARACTER_IDS:
            n = self.words.n_characters
            raise ValueError(f"words.n_characters={n}; bytes and marks are {N_CHARACTER_IDS}")
        return self

    @property
    def dim(self) -> int:
        """Of the vectors that come out: both directions side by side."""
        return 2 * self.context.dim

    @property
    def n_layers(self) -> int:
        """Layers that come out: the context-free one counts."""
        return self.context.n_layers + 1

    @property
    def has_state(self) -> bool:
        """Whether rows can carry a state from batch to batch."""
        return self.context.kind == "lstm"


@dataclass(frozen=True, slots=True)
class BiLMOutput:
    """Layers with the marks still in place, and what the rows remember."""

    states: LayerStates  # layers (L+1, B, T, 2P)
    state: LSTMState | None
    """None from a Transformer, which has no state."""


def without_marks(states: LayerStates) -> LayerStates:
    """Drop the first and last word of each sentence, and zero what is after its end."""
    mask = states.mask[:, 2:]  # (B, T - 2)
    layers = states.layers[:, :, 1:-1]
    return LayerStates(layers * mask.unsqueeze(-1).to(layers.dtype), mask)


class BiLM(LayerModel):
    """Words in their sentences -> all layers: [x; x], then [forward; backward] of each."""

    context_free = True

    def __init__(self, config: BiLMConfig):
        super().__init__()
        self.config: BiLMConfig = config
        self.n_layers, self.dim = config.n_layers, config.dim
        self.words = _words(config.words)
        self.context = _context(config.context)

    def zero_state(self, n_rows: int) -> LSTMState:
        """The initial state of so many rows."""
        if not isinstance(self.context, BiLSTM):
            raise ConfigError(
                "This model is a Transformer, which carries no state from batch to batch; "
                "use it without the stateful run."
            )
        return self.context.zero_state(n_rows)

    def forward(self, batch: WordBatch) -> LayerStates:
        device = next(self.parameters()).device
        arrays = (batch.spelled, batch.index, batch.lengths)
        spelled, index, lengths = (torch.from_numpy(array).to(device) for array in arrays)
        return without_marks(self.run(spelled, index, lengths).states)

    def run(
        self, spelled: Tensor, index: Tensor, lengths: Tensor, state: LSTMState | None = None
    ) -> BiLMOutput:
        """spelled (W, C), index (B, T), lengths (B,), marks included. Sentences do not mix."""
        # F.embedding, not indexing: its gradient adds up in a fixed order
        x = F.embedding(index, self.words(spelled))  # (B, T, P)
        contexts, state = self.context(x, lengths, state)
        layers = torch.stack([torch.cat([x, x], dim=-1), *contexts])  # (L+1, B, T, 2P)
        mask = torch.arange(index.shape[1], device=index.device) < lengths.unsqueeze(1)  # (B, T)
        return BiLMOutput(LayerStates(layers, mask), state)

    def floors(self) -> list[list[nn.Parameter]]:
        """The layers of context from the top down, then the words."""
        return [*self.context.floors(), [*self.words.parameters()]]


def _words(config: CharCNNConfig | WordTableConfig | WordCharConfig) -> nn.Module:
    match config:
        case CharCNNConfig():
            return CharCNN(config)
        case WordTableConfig():
            return WordTable(config)
        case WordCharConfig():
            return WordChar(config)


def _context(config: LSTMConfig | TransformerConfig) -> BiLSTM | BiTransformer:
    match config:
        case LSTMConfig():
            return BiLSTM(config)
        case TransformerConfig():
            return BiTransformer(config)
