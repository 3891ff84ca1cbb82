"""What AllenNLP's archives hold, in float64 NumPy, one sentence at a time.

First Transformer ELMo: `W` is a dictionary of arrays by the names of weights.th, `config` is what
config.json says. At the end the LSTM ELMo inside a task archive, whose `config` is options.json.
"""

# n words, T = n + 2 with the marks, M characters, D width, L blocks, V words

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tests.oracle.lstm_elmo import (
    ACTIVATIONS,
    SENTENCE_BEGIN,
    SENTENCE_END,
    Array,
    Options,
    State,
    Weights,
    char_ids,
    get,
    log_softmax,
    max_characters_of,
    relu,
    sentence_char_ids,
)
from tests.oracle.torch_layout import (
    bidirectional_layers,
    convolve_and_max,
    count,
    highways,
    linear,
    random_convolutions,
    random_highways,
    random_linear,
    random_lstms,
)

EMBEDDER = "_text_field_embedder.token_embedder_token_characters"
ENCODER = f"{EMBEDDER}._encoder._module"
N_HEADS = 8
LAYER_NORM_EPS = 1e-13  # AllenNLP 0.9 had 1e-6


# A word to its context-free vector


def encoder_config(config: Options) -> Mapping[str, Any]:
    """The character encoder's section of config.json."""
    embedders = config["model"]["text_field_embedder"]
    embedders = embedders.get("token_embedders", embedders)
    encoder: Mapping[str, Any] = embedders["token_characters"]["encoder"]
    return encoder


def layer_norm(W: Weights, name: str, x: Array, eps: float = LAYER_NORM_EPS) -> Array:
    mean = x.mean(axis=-1, keepdims=True)
    deviation = np.sqrt(((x - mean) ** 2).mean(axis=-1, keepdims=True))
    normed: Array = (x - mean) / (deviation + eps)
    return get(W, f"{name}.gamma") * normed + get(W, f"{name}.beta")


def word_vector(
    W: Weights, config: Options, ids: Sequence[int], eps: float = LAYER_NORM_EPS
) -> Array:
    """Spell one word (M ids) into its vector (D,)."""
    encoder = encoder_config(config)
    characters = get(W, f"{EMBEDDER}._embedding._module.weight")[np.asarray(ids)]  # (M, E)
    activation = ACTIVATIONS[encoder.get("activation", "relu")]
    pieces = []
    for i in range(len(encoder["filters"])):
        pieces.append(activation(convolve_and_max(W, f"{ENCODER}.char_conv_{i}", characters)))
    x = np.concatenate(pieces)
    location = encoder.get("projection_location", "after_highway")
    if location == "after_cnn":
        x = highways(W, f"{ENCODER}._highways", linear(W, f"{ENCODER}._projection", x))
    else:
        assert location == "after_highway", location
        x = linear(W, f"{ENCODER}._projection", highways(W, f"{ENCODER}._highways", x))
    return layer_norm(W, f"{ENCODER}._layer_norm", x, eps) if encoder.get("do_layer_norm") else x


# The two stacks


def attention(W: Weights, name: str, x: Array, visible: npt.NDArray[np.bool_]) -> Array:
    """Self-attention over (T, D); visible[t, s] says whether position t may look at s."""
    query, key, value = (linear(W, f"{name}.linears.{i}", x) for i in range(3))
    width = x.shape[1] // N_HEADS
    heads = []
    for head in range(N_HEADS):
        part = slice(head * width, (head + 1) * width)
        scores = query[:, part] @ key[:, part].T / np.sqrt(width)  # (T, T)
        scores = np.where(visible, scores, -1e9)  # a position that sees nothing looks everywhere
        shares = np.exp(log_softmax(scores))
        heads.append(shares @ value[:, part])  # (T, D / heads)
    return linear(W, f"{name}.linears.3", np.concatenate(heads, axis=1))


def stack(
    W: Weights, side: str, x: Array, visible: npt.NDArray[np.bool_], eps: float = LAYER_NORM_EPS
) -> list[Array]:
    """One direction's pre-norm blocks over (T, D); only the top output is normed at the end."""
    root = f"_contextualizer._{side}_transformer"
    outputs = []
    for layer in range(count(W, root + ".layers.{}.feed_forward.w_1.weight")):
        block = f"{root}.layers.{layer}"
        normed = layer_norm(W, f"{block}.sublayer.0.norm", x, eps)
        x = x + attention(W, f"{block}.self_attn", normed, visible)
        hidden = linear(
            W, f"{block}.feed_forward.w_1", layer_norm(W, f"{block}.sublayer.1.norm", x, eps)
        )
        x = x + linear(W, f"{block}.feed_forward.w_2", relu(hidden))
        outputs.append(x)
    outputs[-1] = layer_norm(W, f"{root}.norm", outputs[-1], eps)
    return outputs


def padded_layers(
    W: Weights,
    config: Options,
    words: Sequence[str],
    length: int,
    *,
    max_characters: int = 50,
    eps: float = LAYER_NORM_EPS,
) -> Array:
    """All layers of one sentence in a batch `length` wide, marks and padding kept: (L + 1, T, 2D).

    Padding has character ids 0; it is hidden from the words and the words from it.
    """
    marked = [SENTENCE_BEGIN, *words, SENTENCE_END]
    ids = [char_ids(word, max_characters) for word in marked]
    ids += [[0] * max_characters] * (length - len(marked))
    x = np.stack([word_vector(W, config, row, eps) for row in ids])  # (T, D)
    positioned = x + get(W, "_contextualizer._position.positional_encoding")[0, :length]
    causal = np.tril(np.ones((length, length), dtype=bool))
    real = np.arange(length) < len(marked)  # (T,)
    real_pair = np.outer(real, real)  # (T, T)
    forward = stack(W, "forward", positioned, causal & real_pair, eps)
    backward = stack(W, "backward", positioned, causal.T & real_pair, eps)
    pairs = zip([x, *forward], [x, *backward], strict=True)
    return np.stack([np.concatenate(pair, axis=1) for pair in pairs])


def layers(
    W: Weights,
    config: Options,
    words: Sequence[str],
    *,
    keep_marks: bool = False,
    max_characters: int = 50,
    eps: float = LAYER_NORM_EPS,
) -> Array:
    """All layers of one sentence: (L + 1, n, 2D); layer 0 is the context-free vector twice."""
    length = len(words) + 2
    both = padded_layers(W, config, words, length, max_characters=max_characters, eps=eps)
    return both if keep_marks else both[:, 1:-1]


# The language model


def softmax_weights(W: Weights) -> tuple[Array, Array]:
    """(V, D) and (V,), whether stored plain or as the tables of a sparse model."""
    root = "_softmax_loss.softmax_"
    suffix = ".weight" if f"{root}w.weight" in W else ""
    return get(W, f"{root}w{suffix}"), get(W, f"{root}b{suffix}").reshape(-1)


def marked_ids(words: Sequence[str], vocab: Sequence[str]) -> npt.NDArray[np.int64]:
    """Vocabulary ids of the marked sentence: padding is 0, unknown is 1."""
    position = {word: i for i, word in enumerate(vocab)}
    return np.array([position.get(w, 1) for w in [SENTENCE_BEGIN, *words, SENTENCE_END]])


def target_losses(W: Weights, h: Array, ids: npt.NDArray[np.int64]) -> Array:
    """-log P of each vocabulary id given its (T, D) output; softmax rows are ids less one."""
    weight, bias = softmax_weights(W)
    log_probs = log_softmax(h @ weight.T + bias)  # (T, V): every stored row takes part
    return -log_probs[np.arange(len(ids)), ids - 1]


def losses(
    W: Weights,
    config: Options,
    sentences: Sequence[Sequence[str]],
    vocab: Sequence[str],
    *,
    eps: float = LAYER_NORM_EPS,
) -> tuple[float, float, float]:
    """Forward, backward and average loss per target of sentences given without their marks.

    `vocab` lists all words by id, padding (0) and unknown (1) first.
    """
    totals, n_targets = np.zeros(2), 0
    for words in sentences:
        ids = marked_ids(words, vocab)  # (T,)
        forward, backward = np.split(layers(W, config, words, keep_marks=True, eps=eps)[-1], 2, 1)
        totals[0] += target_losses(W, forward[:-1], ids[1:]).sum()
        totals[1] += target_losses(W, backward[1:], ids[:-1]).sum()
        n_targets += len(ids) - 1
    means = totals / n_targets
    return float(means[0]), float(means[1]), float(means.mean())


def losses_as_allennlp_reports(
    W: Weights,
    config: Options,
    sentences: Sequence[Sequence[str]],
    vocab: Sequence[str],
    *,
    eps: float = LAYER_NORM_EPS,
) -> tuple[float, float, float]:
    """The same, with what AllenNLP's padding adds to the backward loss of a ragged batch.

    Backward targets are the ids moved one step right, so the first padding position behind a
    shorter sentence is asked for </S>. It joins the sum; the divisor counts forward targets.
    """
    forward, backward, _ = losses(W, config, sentences, vocab, eps=eps)
    n_targets = sum(len(words) + 1 for words in sentences)
    length = max(len(words) for words in sentences) + 2
    for words in sentences:
        if len(words) + 2 < length:
            h = padded_layers(W, config, words, length, eps=eps)[-1]  # (T, 2D)
            asked = np.split(h[len(words) + 2 : len(words) + 3], 2, axis=1)[1]
            end = marked_ids(words, vocab)[-1:]
            backward += float(target_losses(W, asked, end).sum()) / n_targets
    return forward, backward, (forward + backward) / 2


# Weights for tests


def positional_encoding(n_positions: int, dim: int) -> Array:
    """Even columns sin(t / 10000^(c / D)), odd columns the cosine of the same angle."""
    table = np.zeros((n_positions, dim))
    for column in range(0, dim, 2):
        angle = np.arange(n_positions) / 10000.0 ** (column / dim)
        table[:, column] = np.sin(angle)
        table[:, column + 1] = np.cos(angle)
    return table


def random_weights(
    config: Options, rng: np.random.Generator, vocab_size: int, *, n_positions: int = 5000
) -> dict[str, npt.NDArray[np.float32]]:
    """Float32 weights under the archive's names; `vocab_size` counts padding and unknown."""
    model = config["model"]
    dim, hidden = model["contextualizer"]["input_dim"], model["contextualizer"]["hidden_dim"]
    W = random_char_encoder(encoder_config(config), rng)
    for side in ("forward", "backward"):
        root = f"_contextualizer._{side}_transformer"
        for layer in range(model["contextualizer"]["num_layers"]):
            W.update(random_block(f"{root}.layers.{layer}", dim, hidden, rng))
        W.update(random_norm(f"{root}.norm", dim, rng))
    W["_contextualizer._position.positional_encoding"] = positional_encoding(n_positions, dim)[None]
    suffix = ".weight" if model.get("sparse_embeddings") else ""
    W[f"_softmax_loss.softmax_w{suffix}"] = rng.normal(0.0, dim**-0.5, (vocab_size, dim))
    b_shape = (vocab_size, 1) if suffix else (vocab_size,)
    W[f"_softmax_loss.softmax_b{suffix}"] = rng.normal(0.0, 0.5, b_shape)
    return {name: array.astype(np.float32) for name, array in W.items()}


def random_char_encoder(encoder: Mapping[str, Any], rng: np.random.Generator) -> dict[str, Array]:
    char_dim, dim = encoder["embedding_dim"], encoder["projection_dim"]
    total = sum(n_filters for _, n_filters in encoder["filters"])
    after_cnn = encoder.get("projection_location", "after_highway") == "after_cnn"
    table = rng.uniform(-1.0, 1.0, (262, char_dim))
    table[0] = 0.0
    W = {f"{EMBEDDER}._embedding._module.weight": table}
    W.update(random_convolutions(ENCODER + ".char_conv_{}", encoder["filters"], char_dim, rng))
    highway_dim = dim if after_cnn else total
    W.update(random_highways(f"{ENCODER}._highways", encoder["num_highway"], highway_dim, rng))
    W.update(random_linear(f"{ENCODER}._projection", dim, total, rng))
    if encoder.get("do_layer_norm"):
        W.update(random_norm(f"{ENCODER}._layer_norm", dim, rng))
    return W


def random_norm(name: str, dim: int, rng: np.random.Generator) -> dict[str, Array]:
    return {
        f"{name}.gamma": rng.normal(1.0, 0.2, dim),
        f"{name}.beta": rng.normal(0.0, 0.2, dim),
    }


def random_block(name: str, dim: int, hidden: int, rng: np.random.Generator) -> dict[str, Array]:
    W: dict[str, Array] = {}
    for i in range(4):
        W.update(random_linear(f"{name}.self_attn.linears.{i}", dim, dim, rng))
    W.update(random_linear(f"{name}.feed_forward.w_1", hidden, dim, rng))
    W.update(random_linear(f"{name}.feed_forward.w_2", dim, hidden, rng))
    for i in range(2):
        W.update(random_norm(f"{name}.sublayer.{i}.norm", dim, rng))
    return W


# LSTM ELMo inside a task archive

TASK_PREFIX = "_text_field_embedder.token_embedder_elmo._elmo."
CHAR_TABLE = "_elmo_lstm._token_embedder._char_embedding_weights"


def task_archive_prefix(W: Weights) -> str:
    """What stands before `_elmo_lstm.`: the task model decides it."""
    (name,) = (name for name in W if name.endswith(CHAR_TABLE))
    return name.removesuffix(CHAR_TABLE)


def task_archive_word_vector(W: Weights, config: Options, ids: Sequence[int]) -> Array:
    """Spell one word (M ids) into its vector (P,)."""
    root = task_archive_prefix(W) + "_elmo_lstm._token_embedder"
    characters = get(W, f"{root}._char_embedding_weights")[np.asarray(ids)]  # (M, E)
    activation = ACTIVATIONS[config["char_cnn"]["activation"]]
    pieces = []
    for i in range(count(W, root + ".char_conv_{}.weight")):
        pieces.append(activation(convolve_and_max(W, f"{root}.char_conv_{i}", characters)))
    x = highways(W, f"{root}._highways", np.concatenate(pieces))
    return linear(W, f"{root}._projection", x)


def task_archive_layers(
    W: Weights, config: Options, words: Sequence[str], state: State | None = None
) -> tuple[Array, State]:
    """All layers of one sentence, marks fed and stripped: (L + 1, n, 2P), and the state after."""
    rows = sentence_char_ids(words, max_characters_of(config))
    x = np.stack([task_archive_word_vector(W, config, row) for row in rows])  # (n + 2, P)
    clips = (config["lstm"].get("cell_clip"), config["lstm"].get("proj_clip"))
    return bidirectional_layers(
        W, task_archive_prefix(W) + "_elmo_lstm._elmo_lstm.", x, clips, state
    )


def task_archive_mix(W: Weights, k: int = 0) -> tuple[Array, float]:
    """The k-th mix: its weights before the softmax (L + 1,) and its gamma."""
    root = f"{task_archive_prefix(W)}scalar_mix_{k}"
    names = [
        f"{root}.scalar_parameters.{j}" for j in range(count(W, root + ".scalar_parameters.{}"))
    ]
    weights = np.concatenate([get(W, name).reshape(1) for name in names])
    return weights, float(get(W, f"{root}.gamma").reshape(()))


def task_archive_random_weights(
    config: Options, rng: np.random.Generator, *, n_mixes: int = 1, prefix: str = TASK_PREFIX
) -> dict[str, npt.NDArray[np.float32]]:
    """Float32 weights for options of the HDF5 format; here the projections are never absent."""
    char_cnn, lstm = config["char_cnn"], config["lstm"]
    char_dim = char_cnn["embedding"]["dim"]
    total = sum(n_filters for _, n_filters in char_cnn["filters"])
    root = prefix + "_elmo_lstm._token_embedder"
    table = rng.uniform(-1.0, 1.0, (262, char_dim))
    table[0] = 0.0
    W = {f"{root}._char_embedding_weights": table}
    W.update(random_convolutions(root + ".char_conv_{}", char_cnn["filters"], char_dim, rng))
    W.update(random_highways(f"{root}._highways", char_cnn["n_highway"], total, rng))
    W.update(random_linear(f"{root}._projection", lstm["projection_dim"], total, rng))
    W.update(random_lstms(prefix + "_elmo_lstm._elmo_lstm.", lstm, rng))
    for k in range(n_mixes):
        for j in range(lstm["n_layers"] + 1):
            W[f"{prefix}scalar_mix_{k}.scalar_parameters.{j}"] = rng.normal(0.0, 1.0, 1)
        W[f"{prefix}scalar_mix_{k}.gamma"] = rng.uniform(0.5, 1.5, 1)
    return {name: array.astype(np.float32) for name, array in W.items()}
