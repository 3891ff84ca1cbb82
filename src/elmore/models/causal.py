"""A causal language model: pieces of text in one direction, by an LSTM or a Transformer. It gives
layers of vectors like every model, and with its softmax it predicts the next piece.
"""

# B rows, T steps, P pieces of all words, W words of all, D dim, V pieces of the vocabulary
from typing import Annotated, Any, Literal

import numpy as np
import torch
from pydantic import Field
from torch import Tensor, nn

from elmore.config import Frozen
from elmore.models.bert import means, padded
from elmore.models.layers import LayerModel, LayerStates
from elmore.nn.causal_context import CausalLSTM, CausalTransformer
from elmore.nn.dropout import Dropout
from elmore.nn.lstm import LSTMConfig, LSTMState
from elmore.nn.softmax import Softmax
from elmore.nn.transformer import TransformerConfig
from elmore.text.causal_reader import CausalBatch

CausalContextConfig = Annotated[LSTMConfig | TransformerConfig, Field(discriminator="kind")]


class CausalConfig(Frozen):
    """How many pieces there are, and which network reads them."""

    kind: Literal["causal"] = "causal"
    n_pieces: int = Field(default=1, ge=1)
    context: CausalContextConfig = LSTMConfig(
        dim=256, cell_dim=256, n_layers=1, cell_clip=None, proj_clip=None
    )
    tied: bool = True
    """The softmax has the table of pieces for its weights, and only its biases are its own."""

    @property
    def dim(self) -> int:
        return self.context.dim

    @property
    def has_state(self) -> bool:
        return self.context.kind == "lstm"


class Causal(LayerModel):
    """Pieces -> their rows in the table, and the output of every layer of the context."""

    context_free = True

    def __init__(self, config: CausalConfig):
        super().__init__()
        self.config: CausalConfig = config
        self.n_layers, self.dim = config.context.n_layers + 1, config.dim
        self.pieces = nn.Embedding(config.n_pieces, config.dim)
        nn.init.normal_(self.pieces.weight, std=config.dim**-0.5)
        self.context = _context(config.context)

    def forward(self, batch: CausalBatch) -> LayerStates:
        """In the first layer a word is the mean of its pieces, above the state after its last."""
        device = self.pieces.weight.device
        ids, lengths = (torch.from_numpy(a).to(device) for a in (batch.ids, batch.lengths))
        (x, *contexts), _ = self.run(ids, lengths)
        ends = np.flatnonzero(np.diff(batch.words, append=-1))  # (W,)
        n_words = int(batch.n_words.sum())
        first = means(_at(x, batch.places), batch.words, n_words)
        layers = [first, *(_at(y, batch.places[ends]) for y in contexts)]
        return padded(torch.stack(layers), batch.n_words, None)

    def run(
        self, ids: Tensor, lengths: Tensor | None = None, state: LSTMState | None = None
    ) -> tuple[list[Tensor], LSTMState | None]:
        """ids (B, T) -> the table's rows and each layer, (B, T, D) each, and the last state.
        Without `lengths` every row has T steps."""
        x = self.pieces(ids)
        if isinstance(self.context, CausalLSTM):
            contexts, end = self.context(x, lengths, state)
            return [x, *contexts], end
        assert state is None, "a Transformer has no state"
        return [x, *self.context(x, lengths)[0]], None

    def static(self, batch: CausalBatch) -> Tensor:
        """The mean of the rows of an input's pieces."""
        x = self.pieces(torch.from_numpy(batch.ids).to(self.pieces.weight.device))
        inputs = np.repeat(np.arange(len(batch.n_words)), batch.n_words)  # (W,)
        return means(_at(x, batch.places), inputs[batch.words], len(batch.n_words))  # (B, D)

    def floors(self) -> list[list[nn.Parameter]]:
        return [*self.context.floors(), [*self.pieces.parameters()]]


def _at(x: Tensor, places: "np.typing.NDArray[np.int64]") -> Tensor:
    """(B, T, D) -> (n, D)."""
    return x.flatten(0, 1).index_select(0, torch.from_numpy(places).to(x.device))


def _context(config: LSTMConfig | TransformerConfig) -> CausalLSTM | CausalTransformer:
    match config:
        case LSTMConfig():
            return CausalLSTM(config)
        case TransformerConfig():
            return CausalTransformer(config)


class CausalLM(nn.Module):
    """A causal model with its softmax: what is pretrained, and what a decoder starts from."""

    def __init__(self, causal: Causal, softmax: Softmax | None = None, dropout: float = 0.0):
        super().__init__()
        self.causal = causal
        config = causal.config
        self.softmax = Softmax(config.n_pieces, config.dim) if softmax is None else softmax
        if config.tied:
            table = causal.pieces.weight
            assert isinstance(table, nn.Parameter)
            self.softmax.weight = table
            # files have it once
            self.register_state_dict_post_hook(_leave_out)  # type: ignore[no-untyped-call]
            self.register_load_state_dict_pre_hook(_put_back)  # type: ignore[no-untyped-call]
        self.dropout = Dropout(dropout)  # on what the softmax sees

    def loss(self, ids: Tensor, lengths: Tensor) -> tuple[Tensor, int]:
        """Rows with both marks (B, T) -> Σ -log p of every piece after the first, and how many."""
        h, targets = self._predictions(ids, lengths)
        rng = np.random.default_rng(0)  # the full softmax draws nothing
        return self.softmax.loss(self.dropout(h), targets, rng), len(targets)

    @torch.no_grad()
    def log_probs(self, ids: Tensor, lengths: Tensor) -> Tensor:
        """The same for each prediction, row after row, (N,)."""
        return self.softmax.log_probs(*self._predictions(ids, lengths))

    def _predictions(self, ids: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        """What predicts (N, D), and what is to be predicted (N,)."""
        layers, _ = self.causal.run(ids[:, :-1], lengths - 1)
        step = torch.arange(ids.shape[1] - 1, device=ids.device)
        real = step < (lengths - 1).unsqueeze(1)  # (B, T - 1)
        return layers[-1][real], ids[:, 1:][real]


def _leave_out(module: nn.Module, state: dict[str, Any], prefix: str, _: Any) -> None:
    del state[f"{prefix}softmax.weight"]


def _put_back(module: nn.Module, state: dict[str, Any], prefix: str, *_: Any) -> None:
    table = f"{prefix}causal.pieces.weight"
    if table in state:
        state[f"{prefix}softmax.weight"] = state[table]
