"""A causal language model: pieces of text in one direction, by an LSTM or a Transformer. It gives
layers of vectors like every model, and with its softmax it predicts the next piece.
"""

# B rows, T steps, P pieces of all words, W words of all, D dim, V pieces of the vocabulary
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Self

import numpy as np
import torch
from pydantic import Field, model_validator
from torch import Tensor, nn

from elmore.config import Frozen
from elmore.models.bert import means, padded
from elmore.models.layers import LayerModel, LayerStates
from elmore.nn.awd_lstm import AWDLSTM, AWDConfig
from elmore.nn.causal_context import CausalLSTM, CausalTransformer
from elmore.nn.dropout import Dropout, SharedDropout
from elmore.nn.gpt import GPT, GPTConfig
from elmore.nn.lstm import LSTMConfig, LSTMState
from elmore.nn.rounding import widened
from elmore.nn.softmax import Softmax
from elmore.nn.transformer import TransformerConfig
from elmore.text.causal_reader import CausalBatch

_NO_RNG = np.random.default_rng(0)  # the full softmax draws nothing
Context = LSTMConfig | AWDConfig | TransformerConfig | GPTConfig
CausalContextConfig = Annotated[Context, Field(discriminator="kind")]
WordPooling = Literal["last", "first", "mean"]
"""A word's vector: that of the piece that is read last, which has seen all of it (in the first
layer, where no piece has seen another, their mean), of the one that is read first, or the mean."""


class CausalConfig(Frozen):
    """How many pieces there are, and which network reads them."""

    kind: Literal["causal"] = "causal"
    n_pieces: int = Field(default=1, ge=1)
    context: CausalContextConfig = LSTMConfig(
        dim=256, cell_dim=256, n_layers=1, cell_clip=None, proj_clip=None
    )
    tied: bool = True
    """The softmax has the table of pieces for its weights, and only its biases are its own."""
    softmax_bias: bool = True
    """GPT-2 has none."""
    mark: bool = True
    """Whether texts are embedded after the mark of their begin."""
    word: WordPooling = "last"
    backward: bool = False
    """Whether texts are read from their end to their begin; pieces keep their bytes' order."""

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.backward and self.context.kind == "gpt":
            raise ValueError("a GPT-2 reads forward only: backward is for other contexts")
        return self

    @property
    def dim(self) -> int:
        return self.context.dim

    @property
    def has_state(self) -> bool:
        return self.context.kind in ("lstm", "awd")

    @property
    def max_positions(self) -> int | None:
        """None: a text of any length is read at once."""
        match self.context:
            case LSTMConfig() | AWDConfig():
                return None
            case context:
                return context.max_positions


def with_dropout_of(context: Context, other: Context) -> Context:
    """The same network with the other's dropout, as far as both have it."""
    names = [name for name in type(other).model_fields if name.endswith("dropout")]
    known = {name: getattr(other, name) for name in names if name in type(context).model_fields}
    return context.model_copy(update=known)


class Causal(LayerModel):
    """Pieces -> their rows in the table, and the output of every layer of the context; of an
    AWD-LSTM, that of the last layer, which alone has the width of the table."""

    def __init__(self, config: CausalConfig):
        super().__init__()
        self.config: CausalConfig = config
        one_width = config.context.kind != "awd"
        self.n_layers, self.dim = (config.context.n_layers if one_width else 1) + 1, config.dim
        self.context_free = config.context.kind != "gpt"  # whose first layer has positions
        self.pieces = nn.Embedding(config.n_pieces, config.dim)
        nn.init.normal_(self.pieces.weight, std=config.dim**-0.5)
        self.context = _context(config.context)

    def forward(self, batch: CausalBatch) -> LayerStates:
        device = self.pieces.weight.device
        ids, lengths = (torch.from_numpy(a).to(device) for a in (batch.ids, batch.lengths))
        (x, *contexts), _ = self.run(ids, lengths)
        contexts = contexts[1 - self.n_layers :]
        below = "mean" if self.config.word == "last" else self.config.word
        layers = [_words(x, batch, below), *(_words(y, batch, self.config.word) for y in contexts)]
        return padded(torch.stack(layers), batch.n_words, None)

    def run(
        self, ids: Tensor, lengths: Tensor | None = None, state: LSTMState | None = None
    ) -> tuple[list[Tensor], LSTMState | None]:
        """ids (B, T) -> the table's rows and each layer, (B, T, D) each (inner layers of an
        AWD-LSTM have a width of their own), and the last state. Without `lengths` every row has T
        steps."""
        if isinstance(self.context, AWDLSTM):
            x = self.context.rows(self.pieces.weight, ids)
        else:
            x = self.pieces(ids)
        if isinstance(self.context, CausalLSTM):
            contexts, end = self.context(x, lengths, state)
            return [x, *contexts], end
        assert state is None, "a Transformer has no state"
        if isinstance(self.context, GPT):
            return self.context(x), None
        return [x, *self.context(x, lengths)[0]], None

    def static(self, batch: CausalBatch) -> Tensor:
        """The mean of the rows of an input's pieces."""
        x = self.pieces(torch.from_numpy(batch.ids).to(self.pieces.weight.device))
        inputs = np.repeat(np.arange(len(batch.n_words)), batch.n_words)  # (W,)
        return means(_at(x, batch.places), inputs[batch.words], len(batch.n_words))  # (B, D)

    def floors(self) -> list[list[nn.Parameter]]:
        table = [*self.pieces.parameters()]
        if isinstance(self.context, GPT):
            table += self.context.positions.parameters()
        return [*self.context.floors(), table]


def _words(x: Tensor, batch: CausalBatch, word: WordPooling) -> Tensor:
    """(B, T, D) -> (W, D)."""
    match word:
        case "last":
            chosen = np.flatnonzero(np.diff(batch.words, append=-1))  # (W,)
        case "first":
            chosen = np.flatnonzero(np.diff(batch.words, prepend=-1))
        case "mean":
            return means(_at(x, batch.places), batch.words, int(batch.n_words.sum()))
    return _at(x, batch.places[chosen])


def _at(x: Tensor, places: "np.typing.NDArray[np.int64]") -> Tensor:
    """(B, T, D) -> (n, D)."""
    return x.flatten(0, 1).index_select(0, torch.from_numpy(places).to(x.device))


def _context(config: Context) -> CausalLSTM | CausalTransformer | GPT:
    match config:
        case LSTMConfig():
            return CausalLSTM(config)
        case AWDConfig():
            return AWDLSTM(config)
        case TransformerConfig():
            return CausalTransformer(config)
        case GPTConfig():
            return GPT(config)


@dataclass(frozen=True, slots=True)
class StatePenalty:
    """AWD-LSTM's: `large` · the mean square of what the softmax sees, and `sudden` · the mean
    square of how much the top layer changes from one step to the next."""

    large: float
    sudden: float

    def __call__(self, seen: Tensor, top: Tensor, real: Tensor) -> Tensor:
        """seen (N, D), top (B, T, D), real (B, T)."""
        found = self.large * seen.square().mean()
        changes = (top[:, 1:] - top[:, :-1])[real[:, 1:]]  # (N - B, D)
        return found + self.sudden * changes.square().mean() if changes.numel() else found


class CausalLM(nn.Module):
    """A causal model with its softmax: what is pretrained, and what a decoder starts from."""

    def __init__(
        self,
        causal: Causal,
        softmax: Softmax | None = None,
        dropout: float = 0.0,
        penalty: StatePenalty | None = None,
    ):
        super().__init__()
        self.causal, self.penalty = causal, penalty
        config = causal.config
        self.softmax = Softmax(config.n_pieces, config.dim) if softmax is None else softmax
        if config.tied:
            table = causal.pieces.weight
            assert isinstance(table, nn.Parameter)
            self.softmax.weight = table
            # files have it once
            self.register_state_dict_post_hook(_leave_out)  # type: ignore[no-untyped-call]
            self.register_load_state_dict_pre_hook(_put_back)  # type: ignore[no-untyped-call]
        if not config.softmax_bias:  # zero, and not learned
            bias = self.softmax.bias.detach()
            del self.softmax.bias
            self.softmax.register_buffer("bias", bias)
        over_time = config.context.kind == "awd"
        # on what the softmax sees
        self.dropout = SharedDropout(dropout, dim=1) if over_time else Dropout(dropout)

    def loss(self, ids: Tensor, lengths: Tensor) -> tuple[Tensor, int]:
        """Rows with both marks (B, T) -> Σ -log p of every piece after the first, and how many."""
        return self.penalized(ids, lengths)[:2]

    def penalized(self, ids: Tensor, lengths: Tensor) -> tuple[Tensor, int, Tensor]:
        """The same, and the penalty on the states, once for every prediction."""
        top, real = self.top(ids, lengths), _real(ids, lengths)
        if isinstance(self.dropout, SharedDropout):
            h = self.dropout(top)[real]  # (N, D)
        else:
            h = self.dropout(top[real])
        loss, n = self.softmax_loss(h, ids[:, 1:][real]), len(h)
        if self.penalty is None or not self.training:
            return loss, n, loss.new_zeros(())
        return loss, n, n * self.penalty(h, top, real)

    def softmax_loss(self, h: Tensor, targets: Tensor) -> Tensor:
        """Σ -log p of h (N, D) at targets (N,); inside autocast, too, of scores in full."""
        return self.softmax.loss(widened(h), targets, _NO_RNG)

    @torch.no_grad()
    def log_probs(self, ids: Tensor, lengths: Tensor) -> Tensor:
        """The same for each prediction, row after row, (N,)."""
        real = _real(ids, lengths)
        return self.softmax.log_probs(self.top(ids, lengths)[real], ids[:, 1:][real])

    def top(self, ids: Tensor, lengths: Tensor) -> Tensor:
        """What predicts the piece after each but the last, (B, T - 1, D)."""
        return self.causal.run(ids[:, :-1], lengths - 1)[0][-1]


def _real(ids: Tensor, lengths: Tensor) -> Tensor:
    """Where there is something to predict, (B, T - 1)."""
    step = torch.arange(ids.shape[1] - 1, device=ids.device)
    return step < (lengths - 1).unsqueeze(1)


def _leave_out(module: nn.Module, state: dict[str, Any], prefix: str, _: Any) -> None:
    del state[f"{prefix}softmax.weight"]


def _put_back(module: nn.Module, state: dict[str, Any], prefix: str, *_: Any) -> None:
    table = f"{prefix}causal.pieces.weight"
    if table in state:
        state[f"{prefix}softmax.weight"] = state[table]
