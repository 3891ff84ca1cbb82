"""AWD-LSTM, the language model of ULMFiT: plain LSTM layers, the inner ones wider than the first
input and the last output, with dropout everywhere. A pass draws each mask once: of vocabulary rows,
of the weights from state to gates (DropConnect), and one for all steps of a layer's input.
"""

# T steps, B rows, D input and output dim, H width of the inner layers, V pieces
from typing import Annotated, Literal

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor, nn

from elmore.config import Frozen
from elmore.nn.causal_context import ONE, CausalLSTM
from elmore.nn.dropout import Dropout, SharedDropout
from elmore.nn.lstm import LSTMConfig, LSTMLayer, LSTMState

Share = Annotated[float, Field(ge=0, lt=1)]


class AWDConfig(Frozen):
    """Sizes are the published ones; dropout is that of fine-tuning the language model. That of the
    output is not here: it belongs to what predicts."""

    kind: Literal["awd"] = "awd"
    dim: int = Field(default=400, ge=1)
    """Of the table of pieces, and of the last layer."""
    hidden_dim: int = Field(default=1150, ge=1)
    """Of the other layers."""
    n_layers: int = Field(default=3, ge=1, le=1000)
    input_dropout: Share = 0.25
    embed_dropout: Share = 0.02
    """Of whole rows of the table."""
    weight_dropout: Share = 0.2
    hidden_dropout: Share = 0.15
    """Between layers."""

    @property
    def widths(self) -> list[int]:
        """Of the output of each layer."""
        return [self.hidden_dim] * (self.n_layers - 1) + [self.dim]


class AWDLSTM(CausalLSTM):
    """Layers of different widths. A state has the widest one for all; narrower layers use its first
    numbers."""

    def __init__(self, config: AWDConfig):
        nn.Module.__init__(self)
        self.awd = config
        before = [config.dim, *config.widths]
        self.layers = nn.ModuleList(
            LSTMLayer(_plain(width), ONE, input_dim)
            for input_dim, width in zip(before, config.widths, strict=False)
        )
        self.embed_dropout = SharedDropout(config.embed_dropout, dim=-1)
        self.input_dropout = SharedDropout(config.input_dropout, dim=1)
        self.hidden_dropout = SharedDropout(config.hidden_dropout, dim=1)
        self.weight_dropout = Dropout(config.weight_dropout)

    def rows(self, table: Tensor, ids: Tensor) -> Tensor:
        """table (V, D), ids (B, T) -> (B, T, D); in training, some pieces are zero everywhere."""
        x = F.embedding(ids, table)
        scale = self.embed_dropout.scale(table)  # (V, 1)
        return x if scale is None else x * scale[ids]

    def zero_state(self, n_rows: int) -> LSTMState:
        like, widths = next(self.parameters()), self.awd.widths
        zeros = like.new_zeros(len(widths), ONE, n_rows, max(widths))
        return LSTMState(zeros, zeros)

    def _run(
        self, x: Tensor, active: list[int], state: LSTMState | None
    ) -> tuple[list[Tensor], LSTMState]:
        state = self.zero_state(x.shape[0]) if state is None else state
        widths, widest = self.awd.widths, max(self.awd.widths)
        y = x.transpose(0, 1).unsqueeze(0)  # (1, T, B, D)
        outputs, hs, cs = [], [], []
        for i, (layer, width) in enumerate(zip(self.layers, widths, strict=True)):
            y = (self.hidden_dropout if i else self.input_dropout)(y)
            h, c = (s[i, :, :, :width].contiguous() for s in (state.h, state.c))
            y, h, c = layer(y, h, c, active, self._kept(layer))
            outputs.append(y.squeeze(0).transpose(0, 1))  # (B, T, width)
            hs.append(F.pad(h, (0, widest - width)))
            cs.append(F.pad(c, (0, widest - width)))
        return outputs, LSTMState(torch.stack(hs), torch.stack(cs))

    def _kept(self, layer: nn.Module) -> Tensor | None:
        """Which weights from the state to the gates are there in this pass, and how much larger."""
        assert isinstance(layer, LSTMLayer)
        if not self.training or self.weight_dropout.p == 0:
            return None
        kept: Tensor = self.weight_dropout(torch.ones_like(layer.w_state))
        return kept


def _plain(width: int) -> LSTMConfig:
    """An LSTM as it is in PyTorch: no projection, nothing clipped, no help to the forget gate."""
    return LSTMConfig(
        dim=width, cell_dim=width, n_layers=1, cell_clip=None, proj_clip=None, skip=False,
        forget_bias=0.0,
    )  # fmt: skip
