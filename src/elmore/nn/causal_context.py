"""What a causal model remembers of the words before: a stack of LSTM layers, or of Transformer
blocks, in one direction. Both are those of a biLM, with the other direction left out.
"""

# T steps, B rows, D input and output dim, L layers
import torch
from torch import Tensor, nn

from elmore.errors import InputError
from elmore.nn.dropout import Dropout
from elmore.nn.lstm import LSTMConfig, LSTMLayer, LSTMState
from elmore.nn.transformer import Stack, TransformerConfig, sinusoids

ONE = 1  # direction


class CausalLSTM(nn.Module):
    """Layers over rows of different lengths. A row's state stays as it is after its end."""

    def __init__(self, config: LSTMConfig):
        super().__init__()
        self.config = config
        self.layers = nn.ModuleList(LSTMLayer(config, ONE) for _ in range(config.n_layers))
        self.dropout = Dropout(config.dropout)

    def zero_state(self, n_rows: int) -> LSTMState:
        like, shape = next(self.parameters()), (self.config.n_layers, ONE, n_rows)
        h = like.new_zeros(*shape, self.config.dim)
        return LSTMState(h, like.new_zeros(*shape, self.config.cell_dim))

    def forward(
        self, x: Tensor, lengths: Tensor | None = None, state: LSTMState | None = None
    ) -> tuple[list[Tensor], LSTMState]:
        """x (B, T, D) -> (B, T, D) per layer, zero after a row's end, and the state there. Without
        `lengths` every row has T steps."""
        if lengths is None:
            return self._run(x, [x.shape[0]] * x.shape[1], state)
        order = torch.argsort(lengths, descending=True, stable=True)
        back = torch.argsort(order)
        step = torch.arange(x.shape[1], device=x.device)
        active = [int(n) for n in (lengths > step.unsqueeze(1)).sum(1)]
        if state is not None:
            state = rows_of(state, order)
        outputs, end = self._run(x[order], active, state)
        return [y[back] for y in outputs], rows_of(end, back)

    def _run(
        self, x: Tensor, active: list[int], state: LSTMState | None
    ) -> tuple[list[Tensor], LSTMState]:
        state = self.zero_state(x.shape[0]) if state is None else state
        y = x.transpose(0, 1).unsqueeze(0)  # (1, T, B, D)
        outputs, hs, cs = [], [], []
        for i, layer in enumerate(self.layers):
            y = self.dropout(y)  # the skip adds the input as the layer saw it
            z, h, c = layer(y, state.h[i], state.c[i], active)
            y = z + y if self.config.skip and i > 0 else z
            outputs.append(y.squeeze(0).transpose(0, 1))  # (B, T, D)
            hs.append(h)
            cs.append(c)
        return outputs, LSTMState(torch.stack(hs), torch.stack(cs))

    def floors(self) -> list[list[nn.Parameter]]:
        """Parameters by layer, top first."""
        return [[*layer.parameters()] for layer in reversed(self.layers)]


def rows_of(state: LSTMState, rows: Tensor) -> LSTMState:
    """Some rows of a state, in a new order."""
    return LSTMState(state.h[:, :, rows], state.c[:, :, rows])


class CausalTransformer(nn.Module):
    """Blocks that see a position and those before it; there is no state between batches."""

    def __init__(self, config: TransformerConfig):
        super().__init__()
        self.config = config
        self.stack = Stack(config)
        self.input_dropout = Dropout(config.input_dropout)
        for name, parameter in self.named_parameters():
            if parameter.dim() > 1:
                for part in parameter.chunk(3 if "qkv" in name else 1):
                    nn.init.xavier_uniform_(part)

    def forward(
        self, x: Tensor, lengths: Tensor | None = None, state: None = None
    ) -> tuple[list[Tensor], None]:
        """x (B, T, D) -> (B, T, D) per layer. What is after a row's end changes nothing before."""
        del lengths
        n_steps, most = x.shape[1], self.config.max_positions
        if n_steps > most:
            raise InputError(
                f"A text of {n_steps:,} pieces (the mark counted) is too long for this "
                f"Transformer, which has {most:,} positions; split it."
            )
        positions = sinusoids(n_steps, self.config.dim).to(x.device)  # (T, D)
        found: list[Tensor] = self.stack(self.input_dropout(x + positions))
        return found, None

    def floors(self) -> list[list[nn.Parameter]]:
        """Parameters by layer, top first; the last norm belongs to the top."""
        blocks = [[*block.parameters()] for block in reversed(self.stack.blocks)]
        return [[*self.stack.norm.parameters(), *blocks[0]], *blocks[1:]]
