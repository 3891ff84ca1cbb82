"""The blocks that AllenNLP and ELMoForManyLangs name alike: their LSTM, their highway, their
character convolutions. In both, gates are in the order i, f, j, o with the +1 inside the bias,
like ours with `forget_bias` 0; the gate of a highway weighs the input, ours the candidate.
"""

# P projection dim, C cell dim, F filters
import torch
from torch import Tensor

from elmore.checkpoint.torch_file import TorchTensors
from elmore.errors import FormatError
from elmore.nn.char_cnn import CharCNNConfig
from elmore.nn.lstm import LSTMConfig

SIDES = ("forward", "backward")
ASSUMED = "sizes are the tensors' own; relu, clips of 3 and 50 characters per word are assumed."


def read_lstm(tensors: TorchTensors, prefix: str, lstm: LSTMConfig) -> dict[str, Tensor]:
    """Both stacks, under the names of `BiLM.context`."""
    _refuse_square_projection(tensors, prefix, lstm)
    read: dict[str, Tensor] = {}
    parts = {
        "w_input": ("input_linearity.weight", (4 * lstm.cell_dim, lstm.dim)),
        "w_state": ("state_linearity.weight", (4 * lstm.cell_dim, lstm.dim)),
        "bias": ("state_linearity.bias", (4 * lstm.cell_dim,)),
    }
    if lstm.project:
        parts["w_project"] = ("state_projection.weight", (lstm.dim, lstm.cell_dim))
    for layer in range(lstm.n_layers):
        for ours, (theirs, shape) in parts.items():
            both = [tensors.take(f"{prefix}{s}_layer_{layer}.{theirs}", shape) for s in SIDES]
            read[f"context.layers.{layer}.{ours}"] = torch.stack(both)
    return read


def read_convolutions(
    tensors: TorchTensors, pattern: str, cnn: CharCNNConfig, at: str
) -> dict[str, Tensor]:
    read: dict[str, Tensor] = {}
    for i, (width, count) in enumerate(cnn.filters):
        name, ours = pattern.format(i), f"{at}convolutions.{i}."
        read[ours + "weight"] = tensors.take(f"{name}.weight", (count, cnn.char_dim, width))
        read[ours + "bias"] = tensors.take(f"{name}.bias", (count,))
    return read


def read_highways(
    tensors: TorchTensors, prefix: str, n_layers: int, dim: int, at: str
) -> dict[str, Tensor]:
    read: dict[str, Tensor] = {}
    for k in range(n_layers):
        weight = tensors.take(f"{prefix}._layers.{k}.weight", (2 * dim, dim))
        bias = tensors.take(f"{prefix}._layers.{k}.bias", (2 * dim,))
        # 1 - sigmoid(z) = sigmoid(-z): invert the gate.
        weight[dim:].neg_()
        bias[dim:].neg_()
        read[f"{at}highway.layers.{k}.weight"] = weight
        read[f"{at}highway.layers.{k}.bias"] = bias
    return read


def read_linear(
    tensors: TorchTensors, name: str, shape: tuple[int, int], at: str
) -> dict[str, Tensor]:
    return {
        f"{at}.weight": tensors.take(f"{name}.weight", shape),
        f"{at}.bias": tensors.take(f"{name}.bias", shape[:1]),
    }


# Sizes, if the file that should give them is missing: most can be read off the tensors -----------


def lstm_of(tensors: TorchTensors, prefix: str) -> LSTMConfig:
    """Sizes read off the tensors; clips of 3 and skips as in every published model."""
    dim, cell = tensors.shape(f"{prefix}forward_layer_0.state_projection.weight", 2)
    n_layers = tensors.count(prefix + "forward_layer_{}.input_linearity.weight")
    return LSTMConfig(dim=dim, cell_dim=cell, n_layers=n_layers, forget_bias=0.0)


def filters_of(tensors: TorchTensors, pattern: str) -> tuple[tuple[int, int], ...]:
    shapes = [
        tensors.shape(f"{pattern.format(i)}.weight", 3)
        for i in range(tensors.count(pattern + ".weight"))
    ]
    return tuple((width, count) for count, _, width in shapes)


def _refuse_square_projection(tensors: TorchTensors, prefix: str, lstm: LSTMConfig) -> None:
    name = f"{prefix}forward_layer_0.state_projection.weight"
    if not lstm.project and name in tensors:
        raise FormatError(
            f"{tensors.where}: cells and projection both have size {lstm.dim}, but there is a "
            f"projection '{name}'; such a model is not supported, and none was published."
        )
