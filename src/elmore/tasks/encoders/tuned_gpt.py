"""A GPT that is trained with a task as its paper does it: texts stand between marks that are new to
it, a label is predicted from the state at the last mark, and, as an option, the pieces of the text
are predicted too.
"""

# B inputs, T positions in the longest, N predictions, D vector dim, V pieces and marks
from collections.abc import Sequence

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from pydantic import ConfigDict, Field
from torch import Tensor, nn

from elmore.checkpoint.bilm import SOFTMAX
from elmore.checkpoint.causal import causal_of, subwords_of
from elmore.checkpoint.checkpoint import Checkpoint
from elmore.config import Frozen
from elmore.errors import ConfigError
from elmore.models.causal import Causal
from elmore.nn.rounding import widened
from elmore.tasks.encoded import Dims, Input
from elmore.tasks.encoders.layer_sources import alike
from elmore.tasks.encoders.source import Batch, SourceOutput, VectorSource
from elmore.text.marked_reader import N_MARKS, MarkedReader
from elmore.text.reader import Pair, Reader
from elmore.train.optimizer import Share

_STD = 0.02  # of new rows


class GPTTuningConfig(Frozen):
    """How a GPT is fine-tuned; defaults are its paper's."""

    model_config = ConfigDict(allow_inf_nan=False)

    lm_weight: float = Field(default=0.5, ge=0)
    """Of the loss of predicting the pieces of the text, beside that of the label; 0: without."""
    both_orders: bool = False
    """For pairs whose order says nothing: both orders are read, and their states are added."""
    lr: float | None = Field(default=None, gt=0)
    """null: by the width of the model, 6.25e-5 from 768 on, 3e-4 up to 256, 1e-4 between."""
    warmup: Share = 0.002
    """The share of the run in which the learning rate rises; then it falls to zero."""
    epochs: int = Field(default=3, ge=1, le=10**6)
    batch: int = Field(default=32, ge=1, le=10**6)
    weight_decay: float = Field(default=0.01, ge=0)
    """Of matrices; biases and norms have none."""
    clip: float = Field(default=1.0, gt=0)
    """Global norm of the gradient."""
    dropout: Share = 0.1
    """Inside of the model, and before the linear layer."""


class TunedGPT(VectorSource):
    """What a causal Transformer says of each text or pair at its last mark."""

    reader: Reader

    def __init__(self, name: str, checkpoint: Checkpoint, config: GPTTuningConfig):
        super().__init__()
        pretrained = causal_of(checkpoint)
        if pretrained.config.max_positions is None:
            raise ConfigError(
                f"encoder {name!r}: is an LSTM; write 'lm:' to fine-tune it as ULMFiT does."
            )
        self.name, self.config = name, config
        self.fingerprint, self.reader = checkpoint.fingerprint(), checkpoint.need_reader()
        self.marked = MarkedReader(subwords_of(checkpoint), pretrained.config.max_positions)
        self.model = with_marks(pretrained, config.dropout)
        self.next_piece = None
        if config.lm_weight:
            self.next_piece = NextPiece(self.model, checkpoint.heads.get(SOFTMAX), name)
        self.dims = Dims(0, pooled=self.model.dim)

    def forward(self, batch: Batch) -> SourceOutput:
        orders = [batch.inputs]
        if self.config.both_orders:
            orders.append([_turned(item) for item in batch.inputs])
        states: list[Tensor] = []
        losses: list[Tensor] = []
        for inputs in orders:
            read = self.marked.read(inputs)
            ids, lengths = (torch.from_numpy(array).to(batch.mask.device) for array in read)
            top = self.model.run(ids, lengths)[0][-1]  # (B, T, D)
            states.append(top[torch.arange(len(top), device=top.device), lengths - 1])
            if self.training and self.next_piece is not None:
                losses.append(self.next_piece(top, ids, lengths, self.model.pieces.weight))
        loss = self.config.lm_weight * torch.stack(losses).mean() if losses else None
        return SourceOutput(None, pooled=torch.stack(states).sum(dim=0), loss=loss)  # (B, D)

    def tuned(self) -> list[list[nn.Parameter]]:
        return self.model.floors()

    def long_inputs(self, inputs: Sequence[Input]) -> list[str]:
        most = self.marked.max_positions
        n = sum(self.marked.length(item) > most for item in inputs)
        note = f"{n:,} texts or pairs are longer than the {most} positions of {self.name}: their"
        return [f"{note} ends are cut"] if n else []

    def unread(self, words: Sequence[str]) -> list[str]:
        return alike(self.name, words, self.lowest)

    @torch.no_grad()
    def lowest(self, words: Sequence[str]) -> list[NDArray[np.float32]]:
        """The mean of the rows of each word's pieces."""
        return list(self.model.static(self.reader.read([(w,) for w in words])).cpu().numpy())


def _turned(item: Input) -> Input:
    return Pair(item.second, item.first) if isinstance(item, Pair) else item


def with_marks(pretrained: Causal, dropout: float) -> Causal:
    """A copy with the rows of three new pieces, and with the dropout of this training."""
    old = pretrained.config
    names = [name for name in type(old.context).model_fields if name.endswith("dropout")]
    context = old.context.model_copy(update=dict.fromkeys(names, dropout))
    new = old.model_copy(update={"n_pieces": old.n_pieces + N_MARKS, "context": context})
    model, state = Causal(new), dict(pretrained.state_dict())
    state["pieces.weight"] = torch.cat([state["pieces.weight"], _rows(old.dim)])
    model.load_state_dict(state)
    return model


def _rows(dim: int) -> Tensor:
    return torch.randn(N_MARKS, dim) * _STD


class NextPiece(nn.Module):
    """The model's softmax, which also predicts the marks: the mean loss of each row, and of these
    the mean. Where it is tied to the table of pieces, it has only its biases."""

    def __init__(self, model: Causal, softmax: nn.Module | None, name: str):
        super().__init__()
        found = {} if softmax is None else softmax.state_dict()
        tied = model.config.tied
        if not tied and not found:
            raise ConfigError(
                f"encoder {name!r}: has no softmax, so it cannot predict its text; add --set "
                "encoder.gpt.lm_weight=0."
            )
        own = None if tied else torch.cat([found["weight"], _rows(model.dim)])
        self.weight = None if own is None else nn.Parameter(own)
        bias = torch.zeros(model.config.n_pieces)
        if "bias" in found:
            bias[:-N_MARKS] = found["bias"].flatten()
        self.bias = nn.Parameter(bias) if model.config.softmax_bias else None

    def forward(self, top: Tensor, ids: Tensor, lengths: Tensor, table: Tensor) -> Tensor:
        """top (B, T, D), ids (B, T), table (V, D)."""
        step = torch.arange(ids.shape[1] - 1, device=ids.device)
        real = step < (lengths - 1).unsqueeze(1)  # (B, T - 1)
        weight = table if self.weight is None else self.weight
        scores = widened(F.linear(top[:, :-1][real], weight, self.bias))  # (N, V)
        losses = F.cross_entropy(scores, ids[:, 1:][real], reduction="none")
        means = torch.zeros_like(real, dtype=losses.dtype).masked_scatter(real, losses)
        return (means.sum(dim=1) / (lengths - 1)).mean()
