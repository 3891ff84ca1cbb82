"""The blocks of the PyTorch-born formats (AllenNLP archives, ELMoForManyLangs) in float64 NumPy.

Matrices are (out, in), gates come i, f, j, o with the +1 already in the bias, and a highway's
gate carries the input: y = g x + (1 - g) relu(candidate).
"""

# n words, M characters, E character dim, k filters of one width, P projection, C cells, L layers

from collections.abc import Mapping, Sequence

import numpy as np

from tests.oracle.lstm_elmo import Array, LayerState, State, Weights, clip, get, relu, sigmoid


def linear(W: Weights, name: str, x: Array) -> Array:
    y = x @ get(W, f"{name}.weight").T
    return y + get(W, f"{name}.bias") if f"{name}.bias" in W else y


def convolve_and_max(W: Weights, name: str, characters: Array) -> Array:
    """Slide (k, E, w) over (M, E), every window; keep each filter's largest: (k,)."""
    kernel, bias = get(W, f"{name}.weight"), get(W, f"{name}.bias")
    width = kernel.shape[2]
    scores = []
    for start in range(len(characters) - width + 1):
        window = characters[start : start + width].T  # (E, w)
        scores.append(np.tensordot(kernel, window, axes=2) + bias)  # (k,)
    return np.asarray(np.max(scores, axis=0))


def count(W: Weights, pattern: str) -> int:
    """How many of pattern.format(0), pattern.format(1), ... there are."""
    n = 0
    while pattern.format(n) in W:
        n += 1
    return n


def highways(W: Weights, name: str, x: Array) -> Array:
    for k in range(count(W, name + "._layers.{}.weight")):
        candidate, gate = np.split(linear(W, f"{name}._layers.{k}", x), 2, axis=-1)
        g = sigmoid(gate)
        x = g * x + (1.0 - g) * relu(candidate)
    return x


def zero_layer_state(W: Weights, name: str) -> LayerState:
    n_cells = W[f"{name}.state_linearity.bias"].shape[0] // 4
    n_outputs = W[f"{name}.state_linearity.weight"].shape[1]
    return np.zeros(n_outputs), np.zeros(n_cells)


def lstm_layer(
    W: Weights,
    name: str,
    inputs: Array,
    state: LayerState,
    clips: tuple[float | None, float | None],
) -> tuple[Array, LayerState]:
    """Read (n, P) in the order given with (cell, projection) clips: outputs (n, P), last state."""
    from_input = get(W, f"{name}.input_linearity.weight")  # (4C, P), no bias
    h, c = (np.asarray(part, dtype=np.float64) for part in state)
    outputs = []
    for x in inputs:
        z = from_input @ x + linear(W, f"{name}.state_linearity", h)
        i, f, j, o = np.split(z, 4)  # (C,) each
        c = clip(sigmoid(f) * c + sigmoid(i) * np.tanh(j), clips[0])
        h = sigmoid(o) * np.tanh(c)
        if f"{name}.state_projection.weight" in W:
            h = clip(linear(W, f"{name}.state_projection", h), clips[1])  # (P,)
        outputs.append(h)
    return np.array(outputs).reshape(len(inputs), len(h)), (h, c)


def bidirectional_layers(
    W: Weights,
    prefix: str,
    x: Array,
    clips: tuple[float | None, float | None],
    state: State | None = None,
) -> tuple[Array, State]:
    """Both stacks over marked inputs (n + 2, P); marks stripped: (L + 1, n, 2P), last states.

    From the second layer on, an output includes its input: these formats know nothing else.
    """
    rows = [[x], [x]]
    last: State = [[], []]
    for d, (side, step) in enumerate((("forward", 1), ("backward", -1))):
        y = x[::step]
        for layer in range(count(W, prefix + side + "_layer_{}.input_linearity.weight")):
            name = f"{prefix}{side}_layer_{layer}"
            before = zero_layer_state(W, name) if state is None else state[d][layer]
            out, after = lstm_layer(W, name, y, before, clips)
            y = out + y if layer > 0 else out
            rows[d].append(y[::step])
            last[d].append(after)
    both = [np.concatenate(pair, axis=1) for pair in zip(*rows, strict=True)]
    return np.stack(both)[:, 1:-1], last


# Weights for tests


def random_linear(
    name: str, n_out: int, n_in: int, rng: np.random.Generator, scale: float = 1.0
) -> dict[str, Array]:
    return {
        f"{name}.weight": rng.normal(0.0, scale * n_in**-0.5, (n_out, n_in)),
        f"{name}.bias": rng.normal(0.0, 0.3, n_out),
    }


def random_convolutions(
    pattern: str, filters: Sequence[Sequence[int]], dim: int, rng: np.random.Generator
) -> dict[str, Array]:
    W = {}
    for i, (width, n_filters) in enumerate(filters):
        name = pattern.format(i)
        shape = (n_filters, dim, width)
        W[f"{name}.weight"] = rng.normal(0.0, (width * dim) ** -0.5, shape)
        W[f"{name}.bias"] = rng.normal(0.0, 0.3, n_filters)
    return W


def random_highways(
    name: str, n_highway: int, dim: int, rng: np.random.Generator
) -> dict[str, Array]:
    W: dict[str, Array] = {}
    for k in range(n_highway):
        W.update(random_linear(f"{name}._layers.{k}", 2 * dim, dim, rng))
    return W


def random_lstms(
    prefix: str, lstm: Mapping[str, int], rng: np.random.Generator
) -> dict[str, Array]:
    """Both stacks, for {"n_layers", "dim", "projection_dim"}."""
    n_cells, n_outputs = lstm["dim"], lstm["projection_dim"]
    W = {}
    for side in ("forward", "backward"):
        for layer in range(lstm["n_layers"]):
            name = f"{prefix}{side}_layer_{layer}"
            for part, scale in (("input", 0.6), ("state", 0.25)):
                shape = (4 * n_cells, n_outputs)
                array = rng.normal(0.0, scale * n_outputs**-0.5, shape)
                W[f"{name}.{part}_linearity.weight"] = array
            bias = rng.normal(0.0, 2.0, 4 * n_cells)
            bias[n_cells : 2 * n_cells] += 1.0  # forget gates
            W[f"{name}.state_linearity.bias"] = bias
            shape = (n_outputs, n_cells)
            W[f"{name}.state_projection.weight"] = rng.normal(0.0, 5.0 * n_cells**-0.5, shape)
    return W
