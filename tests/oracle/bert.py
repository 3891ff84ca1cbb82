"""BERT in float64 NumPy, one row at a time. `W` is a dictionary of arrays by the names of Hugging
Face without prefix, `config` is what config.json says. Also which pieces a word has, and which of
several windows a piece is read in, both the slow and obvious way.
"""

# T pieces of a row, D dim, H heads, V pieces in the vocabulary

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
Weights = Mapping[str, Array]

_erf = np.vectorize(math.erf, otypes=[np.float64])


def gelu(x: Array) -> Array:
    return np.asarray(0.5 * x * (1 + _erf(x / math.sqrt(2))))


def gelu_new(x: Array) -> Array:
    return np.asarray(0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))))


def relu(x: Array) -> Array:
    return np.maximum(x, 0)


ACTIVATIONS = {"gelu": gelu, "gelu_new": gelu_new, "relu": relu}


def linear(W: Weights, name: str, x: Array) -> Array:
    return x @ W[f"{name}.weight"].T + W[f"{name}.bias"]


def norm(W: Weights, name: str, x: Array, eps: float) -> Array:
    mean = x.mean(-1, keepdims=True)
    variance = ((x - mean) ** 2).mean(-1, keepdims=True)
    return (x - mean) / np.sqrt(variance + eps) * W[f"{name}.weight"] + W[f"{name}.bias"]


def softmax(x: Array) -> Array:
    e = np.exp(x - x.max(-1, keepdims=True))
    return np.asarray(e / e.sum(-1, keepdims=True))


def hidden_states(
    W: Weights, config: Mapping[str, Any], ids: Sequence[int], segments: Sequence[int]
) -> list[Array]:
    """The embedding output and the output of every layer, (T, D) each."""
    eps, heads = config["layer_norm_eps"], config["num_attention_heads"]
    x = W["embeddings.word_embeddings.weight"][list(ids)]
    x = x + W["embeddings.position_embeddings.weight"][: len(ids)]
    if "embeddings.token_type_embeddings.weight" in W:
        x = x + W["embeddings.token_type_embeddings.weight"][list(segments)]
    x = norm(W, "embeddings.LayerNorm", x, eps)
    states = [x]
    for n in range(config["num_hidden_layers"]):
        at = f"encoder.layer.{n}."
        q, k, v = (linear(W, f"{at}attention.self.{part}", x) for part in ("query", "key", "value"))
        seen = np.zeros_like(x)
        size = x.shape[1] // heads
        for h in range(heads):
            mine = slice(h * size, (h + 1) * size)
            weights = softmax(q[:, mine] @ k[:, mine].T / math.sqrt(size))  # (T, T)
            seen[:, mine] = weights @ v[:, mine]
        a = norm(
            W,
            f"{at}attention.output.LayerNorm",
            x + linear(W, f"{at}attention.output.dense", seen),
            eps,
        )
        grown = ACTIVATIONS[config["hidden_act"]](linear(W, f"{at}intermediate.dense", a))
        x = norm(W, f"{at}output.LayerNorm", a + linear(W, f"{at}output.dense", grown), eps)
        states.append(x)
    return states


def pooler(W: Weights, top: Array) -> Array:
    return np.asarray(np.tanh(linear(W, "pooler.dense", top[0])))


def masked_logits(W: Weights, config: Mapping[str, Any], top: Array) -> Array:
    """(T, V)."""
    grown = ACTIVATIONS[config["hidden_act"]](linear(W, "cls.predictions.transform.dense", top))
    h = norm(W, "cls.predictions.transform.LayerNorm", grown, config["layer_norm_eps"])
    return h @ W["embeddings.word_embeddings.weight"].T + W["cls.predictions.bias"]


def next_logits(W: Weights, top: Array) -> Array:
    """(2,): the second text follows the first, or it is a random one."""
    return linear(W, "cls.seq_relationship", pooler(W, top))


def longest_pieces(word: str, vocabulary: Sequence[str]) -> list[str]:
    """Greedy, longest first, of a word that is clean already; unknown as a whole or not at all."""
    pieces, start = [], 0
    while start < len(word):
        for end in range(len(word), start, -1):
            piece = ("##" if start else "") + word[start:end]
            if piece in vocabulary:
                break
        else:
            return ["[UNK]"]
        pieces.append(piece)
        start = end
    return pieces


def best_window(place: int, windows: Sequence[tuple[int, int]]) -> int:
    """The (begin, end) in which a piece has the largest min(left, right) context, the first of
    equals."""
    inside = [i for i, (begin, end) in enumerate(windows) if begin <= place < end]

    def context(i: int) -> int:
        begin, end = windows[i]
        return min(place - begin, end - 1 - place)

    return max(inside, key=lambda i: (context(i), -i))
