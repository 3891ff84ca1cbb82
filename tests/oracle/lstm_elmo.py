"""LSTM ELMo in float64 NumPy, one sentence at a time, straight from the HDF5 format's definition.

It shares no code with the package and prefers plain to fast: the tests believe these numbers.
`W` is a dictionary of arrays by dataset name, `options` is what options.json says.
"""

# n words, M characters a word, E character dim, F filters, P projection, C cells, L layers, V words

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
Weights = Mapping[str, npt.NDArray[Any]]
Options = Mapping[str, Any]
LayerState = tuple[Array, Array]  # h (P,), c (C,)
State = list[list[LayerState]]  # [direction][layer]; direction 0 reads forward, 1 backward

SENTENCE_BEGIN, SENTENCE_END, UNKNOWN = "<S>", "</S>", "<UNK>"
SENTENCE_MARK_BYTE = {SENTENCE_BEGIN: 256, SENTENCE_END: 257}
WORD_BEGIN, WORD_END, WORD_PADDING = 258, 259, 260
N_BYTES = 261


# Files


def read_hdf5(
    weights_path: Path | str, options_path: Path | str
) -> tuple[dict[str, Array], dict[str, Any]]:
    """Every dataset of the file by its full name, and the options beside it."""
    return read_weights(weights_path), json.loads(Path(options_path).read_text("utf-8"))


def read_weights(path: Path | str) -> dict[str, Array]:
    W: dict[str, Array] = {}

    def keep(name: str, item: Any) -> None:
        if isinstance(item, h5py.Dataset):
            W[name] = np.asarray(item[()], dtype=np.float64)

    with h5py.File(path, "r") as file:
        file.visititems(keep)
    return W


def write_hdf5(path: Path | str, W: Weights) -> None:
    """Write float32 datasets under exactly their published names."""
    with h5py.File(path, "w") as file:
        for name, array in W.items():
            file.create_dataset(name, data=np.asarray(array, dtype=np.float32))


# Characters


def char_ids(word: str, max_characters: int = 50) -> list[int]:
    """The ids of one word, already moved up by one so that 0 can mean "no word here"."""
    if word in SENTENCE_MARK_BYTE:
        body = [SENTENCE_MARK_BYTE[word]]
    else:
        body = list(word.encode("utf-8", "ignore")[: max_characters - 2])
    ids = [WORD_BEGIN, *body, WORD_END]
    ids += [WORD_PADDING] * (max_characters - len(ids))
    return [i + 1 for i in ids]


def sentence_char_ids(words: Sequence[str], max_characters: int = 50) -> list[list[int]]:
    """The ids of a sentence with its begin and end rows: (n + 2, M)."""
    marked = [SENTENCE_BEGIN, *words, SENTENCE_END]
    return [char_ids(word, max_characters) for word in marked]


def max_characters_of(options: Options) -> int:
    return int(options["char_cnn"].get("max_characters_per_token", 50))


# A word to its context-free vector


def sigmoid(x: Array) -> Array:
    return 0.5 * (1.0 + np.tanh(0.5 * x))  # this form never overflows


def relu(x: Array) -> Array:
    return np.maximum(x, 0.0)


ACTIVATIONS: dict[str, Callable[[Array], Array]] = {"relu": relu, "tanh": np.tanh}


def get(W: Weights, name: str) -> Array:
    return np.asarray(W[name], dtype=np.float64)


def convolve_and_max(characters: Array, kernel: Array, bias: Array) -> Array:
    """Valid convolution of (M, E) by (w, E, k), then the largest of all windows: (k,)."""
    width = kernel.shape[0]
    windows = []
    for start in range(len(characters) - width + 1):
        windows.append(characters[start : start + width].ravel())
    flat_kernel = kernel.reshape(-1, kernel.shape[-1])  # (w * E, k)
    best: Array = (np.stack(windows) @ flat_kernel + bias).max(axis=0)  # (k,)
    return best


def word_vector(W: Weights, options: Options, ids: Sequence[int]) -> Array:
    """Spell one word (M ids, 0 nowhere) into its vector (P,)."""
    char_embed = get(W, "char_embed")
    table = np.concatenate([np.zeros((1, char_embed.shape[1])), char_embed])  # (262, E)
    characters = table[np.asarray(ids)]  # (M, E)
    activation = ACTIVATIONS[options["char_cnn"]["activation"]]
    pieces = []
    for i in range(len(options["char_cnn"]["filters"])):
        kernel = get(W, f"CNN/W_cnn_{i}")[0]  # (w, E, k)
        pieces.append(activation(convolve_and_max(characters, kernel, get(W, f"CNN/b_cnn_{i}"))))
    x = np.concatenate(pieces)  # (F,)
    for k in range(options["char_cnn"].get("n_highway") or 0):
        x = highway(W, f"CNN_high_{k}", x)
    if "CNN_proj/W_proj" in W:
        x = x @ get(W, "CNN_proj/W_proj") + get(W, "CNN_proj/b_proj")  # (P,)
    return x


def highway(W: Weights, name: str, x: Array) -> Array:
    gate = sigmoid(x @ get(W, f"{name}/W_carry") + get(W, f"{name}/b_carry"))
    candidate = relu(x @ get(W, f"{name}/W_transform") + get(W, f"{name}/b_transform"))
    return gate * candidate + (1.0 - gate) * x


def marked_inputs(
    W: Weights, options: Options, words: Sequence[str], vocab: Sequence[str] | None = None
) -> Array:
    """The context-free vectors of <S>, the words and </S>: (n + 2, P)."""
    if "embedding" in W:
        assert vocab is not None, "a word-input model needs its vocabulary"
        ids = word_ids([SENTENCE_BEGIN, *words, SENTENCE_END], vocab)
        return get(W, "embedding")[ids]
    rows = sentence_char_ids(words, max_characters_of(options))
    return np.stack([word_vector(W, options, row) for row in rows])


def word_ids(words: Sequence[str], vocab: Sequence[str]) -> list[int]:
    """Vocabulary positions; an unknown word takes the place of <UNK>."""
    position = {word: i for i, word in enumerate(vocab)}
    return [position.get(word, position[UNKNOWN]) for word in words]


# The two stacks of LSTMs


def clip(x: Array, limit: float | None) -> Array:
    return x if limit is None else np.clip(x, -limit, limit)


def cell_name(direction_index: int, layer: int) -> str:
    return f"RNN_{direction_index}/RNN/MultiRNNCell/Cell{layer}/LSTMCell"


def zero_layer_state(W: Weights, name: str) -> LayerState:
    n_cells = W[f"{name}/B"].shape[0] // 4
    n_outputs = W[f"{name}/W_P_0"].shape[1] if f"{name}/W_P_0" in W else n_cells
    return np.zeros(n_outputs), np.zeros(n_cells)


def lstm_layer(
    W: Weights, options: Options, name: str, inputs: Array, state: LayerState
) -> tuple[Array, LayerState]:
    """Read (n, P) in the order given; returns the outputs (n, P) and the last state."""
    kernel, bias = get(W, f"{name}/W_0"), get(W, f"{name}/B")
    cell_clip, proj_clip = options["lstm"].get("cell_clip"), options["lstm"].get("proj_clip")
    h, c = np.asarray(state[0], dtype=np.float64), np.asarray(state[1], dtype=np.float64)
    outputs = []
    for x in inputs:
        i, j, f, o = np.split(np.concatenate([x, h]) @ kernel + bias, 4)  # (C,) each
        c = clip(sigmoid(f + 1.0) * c + sigmoid(i) * np.tanh(j), cell_clip)
        h = sigmoid(o) * np.tanh(c)
        if f"{name}/W_P_0" in W:  # the original clips the projection, so none is no clipping
            h = clip(h @ get(W, f"{name}/W_P_0"), proj_clip)  # (P,)
        outputs.append(h)
    return np.array(outputs).reshape(len(inputs), len(h)), (h, c)


def direction(
    W: Weights,
    options: Options,
    direction_index: int,
    inputs: Array,
    state: Sequence[LayerState] | None = None,
) -> tuple[list[Array], list[LayerState]]:
    """One stack over inputs already in its reading order: every layer's (n, P), last states."""
    outputs: list[Array] = []
    last: list[LayerState] = []
    x = inputs
    for layer in range(options["lstm"]["n_layers"]):
        name = cell_name(direction_index, layer)
        before = zero_layer_state(W, name) if state is None else state[layer]
        y, after = lstm_layer(W, options, name, x, before)
        if layer > 0 and options["lstm"].get("use_skip_connections", False):
            y = y + x
        outputs.append(y)
        last.append(after)
        x = y
    return outputs, last


def layers(
    W: Weights,
    options: Options,
    words: Sequence[str],
    state: State | None = None,
    vocab: Sequence[str] | None = None,
) -> tuple[Array, State]:
    """All layers of one sentence, marks fed and stripped: (L + 1, n, 2P), and the state after."""
    x = marked_inputs(W, options, words, vocab)  # (n + 2, P)
    forward, forward_state = direction(W, options, 0, x, state[0] if state else None)
    backward, backward_state = direction(W, options, 1, x[::-1], state[1] if state else None)
    rows = [np.concatenate([x, x], axis=1)]
    for ahead, behind in zip(forward, backward, strict=True):
        rows.append(np.concatenate([ahead, behind[::-1]], axis=1))  # (n + 2, 2P)
    return np.stack(rows)[:, 1:-1], [forward_state, backward_state]


# The language model


def log_softmax(logits: Array) -> Array:
    shifted = logits - logits.max(axis=-1, keepdims=True)
    return np.asarray(shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True)))


def sentence_log_probs(
    W: Weights,
    options: Options,
    words: Sequence[str],
    vocab: Sequence[str],
    state: State | None = None,
) -> tuple[Array, Array, State]:
    """Log-probabilities by the full softmax, each direction in its own reading order.

    Forward (n + 1,): w1 .. wn </S> after <S> w1 .. wn. Backward (n + 1,): wn .. w1 <S> after
    </S> wn .. w1. The state is the one after these inputs: the closing mark is never read.
    """
    x = marked_inputs(W, options, words, vocab)  # (n + 2, P)
    targets = word_ids([SENTENCE_BEGIN, *words, SENTENCE_END], vocab)
    log_probs, states = [], []
    for d, step in enumerate((1, -1)):
        outputs, last = direction(W, options, d, x[::step][:-1], state[d] if state else None)
        scores = log_softmax(outputs[-1] @ get(W, "softmax/W").T + get(W, "softmax/b"))
        log_probs.append(scores[np.arange(len(scores)), targets[::step][1:]])
        states.append(last)
    return log_probs[0], log_probs[1], states


def place_probabilities(
    W: Weights, options: Options, words: Sequence[str], index: int, vocab: Sequence[str]
) -> Array:
    """The normalized product of what both directions predict for a place, (V,). Each reads its own
    side of the place only."""
    x = marked_inputs(W, options, words, vocab)  # (n + 2, P)
    product = np.ones(len(vocab))
    for d, seen in enumerate((x[: index + 1], x[index + 2 :][::-1])):
        outputs, _ = direction(W, options, d, seen)
        product = product * np.exp(
            log_softmax(outputs[-1][-1] @ get(W, "softmax/W").T + get(W, "softmax/b"))
        )
    return np.asarray(product / product.sum())


# Weights for tests


def random_weights(
    options: Options, rng: np.random.Generator, vocab_size: int | None = None
) -> dict[str, npt.NDArray[np.float32]]:
    """Float32 weights of the right names and shapes, lively enough to reach clips of 3 at times.

    Without `char_cnn` in the options it is a word-input model. With `vocab_size`: a softmax too.
    """
    n_outputs = options["lstm"]["projection_dim"]
    W: dict[str, Array] = {}
    if "char_cnn" in options:
        W.update(random_char_cnn(options["char_cnn"], n_outputs, rng))
    else:
        assert vocab_size is not None, "a word-input model needs a vocabulary size"
        W["embedding"] = rng.normal(0.0, 1.0, (vocab_size, n_outputs))
    for d in (0, 1):
        for layer in range(options["lstm"]["n_layers"]):
            W.update(random_cell(cell_name(d, layer), options["lstm"]["dim"], n_outputs, rng))
    if vocab_size is not None:
        W["softmax/W"] = rng.normal(0.0, n_outputs**-0.5, (vocab_size, n_outputs))
        W["softmax/b"] = rng.normal(0.0, 0.5, vocab_size)
    return {name: array.astype(np.float32) for name, array in W.items()}


def random_char_cnn(
    char_cnn: Options, n_outputs: int, rng: np.random.Generator
) -> dict[str, Array]:
    dim = char_cnn["embedding"]["dim"]
    W = {"char_embed": rng.uniform(-1.0, 1.0, (N_BYTES, dim))}
    for i, (width, count) in enumerate(char_cnn["filters"]):
        W[f"CNN/W_cnn_{i}"] = rng.normal(0.0, (width * dim) ** -0.5, (1, width, dim, count))
        W[f"CNN/b_cnn_{i}"] = rng.normal(0.0, 0.3, count)
    total = sum(count for _, count in char_cnn["filters"])
    for k in range(char_cnn.get("n_highway") or 0):
        for part, offset in (("carry", -0.5), ("transform", 0.0)):
            W[f"CNN_high_{k}/W_{part}"] = rng.normal(0.0, total**-0.5, (total, total))
            W[f"CNN_high_{k}/b_{part}"] = rng.normal(offset, 0.3, total)
    if total != n_outputs:
        W["CNN_proj/W_proj"] = rng.normal(0.0, total**-0.5, (total, n_outputs))
        W["CNN_proj/b_proj"] = rng.normal(0.0, 0.3, n_outputs)
    return W


def random_cell(
    name: str, n_cells: int, n_outputs: int, rng: np.random.Generator
) -> dict[str, Array]:
    shape = (n_outputs, 4 * n_cells)
    from_input = rng.normal(0.0, 0.6 * n_outputs**-0.5, shape)
    # a livelier recurrence is chaotic: then no float32 program can be held to 1e-5
    from_state = rng.normal(0.0, 0.25 * n_outputs**-0.5, shape)
    W = {
        f"{name}/W_0": np.concatenate([from_input, from_state]),
        f"{name}/B": rng.normal(0.0, 2.0, 4 * n_cells),  # some cells fill up and meet the clip
    }
    if n_cells != n_outputs:
        W[f"{name}/W_P_0"] = rng.normal(0.0, 5.0 * n_cells**-0.5, (n_cells, n_outputs))
    return W
