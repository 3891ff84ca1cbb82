"""From layers to answers: chosen or mixed, as JSON, NumPy bytes, cosines or means."""

# L layers of the model, K layers asked for, n words, N words of all sentences, D vector dim
import base64
import io
from collections.abc import Iterator, Sequence
from typing import Any, Literal

import numpy as np
import orjson

from elmore.embedding import Layers, Mix, ReadSentence, Vectors
from elmore.errors import ConfigError
from elmore.uses.geometry import unit

JSON, NPY, NPZ = "application/json", "application/x-npy", "application/x-npz"
PIECE = 1 << 20
"""Bytes per piece of an answer; no more than this waits for a slow client."""


def choose(
    layers: Literal["all", "mix"] | int,
    weights: Sequence[float] | None,
    n_layers: int,
    gamma: float = 1.0,
) -> Layers | Mix:
    """Which layers to send, checked."""
    if weights is not None and layers != "mix":
        raise ConfigError(f"weights are those of a mix, but the layer asked for is {layers!r}.")
    if gamma != 1.0 and layers != "mix":
        raise ConfigError(f"gamma is that of a mix, but the layer asked for is {layers!r}.")
    if layers == "mix":
        return Mix(weights=mix_weights(weights, n_layers), gamma=gamma)
    if layers != "all" and layers >= n_layers:
        raise ConfigError(f"layer {layers} is asked for; the model has 0 to {n_layers - 1}.")
    return Layers(numbers=tuple(range(n_layers)) if layers == "all" else (layers,))


def mix_weights(weights: Sequence[float] | None, n_layers: int) -> tuple[float, ...]:
    """The given weights, one per layer; equal weights if none are given."""
    if weights is None:
        return (1 / n_layers,) * n_layers
    if len(weights) != n_layers:
        raise ConfigError(f"{len(weights)} weights are given; the model has {n_layers} layers.")
    return tuple(weights)


def media_type(accept: str) -> str:
    """The first supported type that the client accepts; JSON by default."""
    wishes = [wish.partition(";")[0].strip().lower() for wish in accept.split(",")]
    return next((wish for wish in wishes if wish in (JSON, NPY, NPZ)), JSON)


def to_json(value: Any) -> bytes:
    """Each float32 as the shortest decimal number that reads back as the same float32."""
    return orjson.dumps(value, option=orjson.OPT_SERIALIZE_NUMPY)


def json_pieces(
    head: dict[str, Any], reads: Sequence[ReadSentence], layers: Sequence[Vectors]
) -> Iterator[bytes]:
    """An `EmbedAnswer`, one sentence at a time."""
    yield to_json(head)[:-1] + b',"sentences":['
    for i, (read, vectors) in enumerate(zip(reads, layers, strict=True)):
        sentence = {
            "words": read.words,
            "spans": read.spans,
            "layers": np.ascontiguousarray(vectors),
        }
        yield from _pieces(b"," * (i > 0) + to_json(sentence))
    yield b"]}"


def npy_pieces(layers: Sequence[Vectors], dim: int, n_layers: int) -> Iterator[bytes]:
    """All sentences end to end: (K, N, D)."""
    empty = np.zeros((n_layers, 0, dim), np.float32)
    file = io.BytesIO()
    np.save(file, np.concatenate([empty, *layers], axis=1), allow_pickle=False)
    return _pieces(file.getvalue())


def npz_pieces(layers: Sequence[Vectors]) -> Iterator[bytes]:
    """One array per sentence, named "0", "1", …, as `elmore embed` writes them."""
    file = io.BytesIO()
    arrays: dict[str, Any] = {str(i): vectors for i, vectors in enumerate(layers)}
    np.savez(file, **arrays)
    return _pieces(file.getvalue())


def _pieces(content: bytes) -> Iterator[bytes]:
    return (content[i : i + PIECE] for i in range(0, len(content), PIECE))


def cosines(a: Vectors, b: Vectors, weights: Sequence[float]) -> Vectors:
    """Of every word with every word, layer by layer and last of the mix: (L + 1, n_a, n_b)."""
    mix = Mix(weights=tuple(weights), gamma=1.0)
    a, b = (np.concatenate([side, mix.select(side)]) for side in (a, b))
    a, b = (unit(side, least=1e-12) for side in (a, b))
    return np.asarray(np.clip(a @ b.transpose(0, 2, 1), -1, 1), np.float32)


def mean_vector(layers: Vectors) -> Vectors:
    """Over words and layers: (L, n, D) -> (D,)."""
    return np.asarray(layers.mean(axis=(0, 1)), np.float32)


def to_base64(vector: Vectors) -> str:
    return base64.b64encode(vector.astype("<f4").tobytes()).decode()
