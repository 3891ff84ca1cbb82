"""From layers to answers: chosen or mixed, as JSON, NumPy bytes, cosines or means."""

# L layers of the model, K layers asked for, n words, N words of all sentences, D vector dim
import base64
import io
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Literal

import numpy as np
import orjson
from pydantic import BaseModel

from elmore.embedding import Layers, Meaning, Mix, ReadSentence, Vectors, need_lens
from elmore.errors import ConfigError
from elmore.models.lens import Lens
from elmore.uses.geometry import unit

JSON, NPY, NPZ = "application/json", "application/x-npy", "application/x-npz"
PIECE = 1 << 18
"""Bytes of an answer that are made at once, when the client has taken the bytes before them."""
_NUMBER = 12  # bytes of a float32 in JSON, with the comma


def choose(
    layers: Literal["all", "mix", "meaning"] | int,
    weights: Sequence[float] | None,
    n_layers: int,
    gamma: float = 1.0,
    lens: Lens | None = None,
) -> Layers | Mix | Meaning:
    """Which layers to send, checked."""
    if weights is not None and layers != "mix":
        raise ConfigError(f"weights are those of a mix, but the layer asked for is {layers!r}.")
    if gamma != 1.0 and layers != "mix":
        raise ConfigError(f"gamma is that of a mix, but the layer asked for is {layers!r}.")
    if layers == "mix":
        return Mix(weights=mix_weights(weights, n_layers), gamma=gamma)
    if layers == "meaning":
        return Meaning(lens=need_lens(lens, "layers is 'meaning'").digest)
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
    option = orjson.OPT_SERIALIZE_NUMPY
    return orjson.dumps(value, default=BaseModel.model_dump, option=option)


def json_parts(
    head: dict[str, Any], reads: Sequence[ReadSentence], layers: Sequence[Vectors]
) -> Iterator[bytes]:
    """An `EmbedAnswer`."""
    yield to_json(head)[:-1] + b',"sentences":['
    for i, (read, vectors) in enumerate(zip(reads, layers, strict=True)):
        words = to_json({"words": read.words, "spans": read.spans})
        yield b"," * (i > 0) + words[:-1] + b',"layers":['
        for j, layer in enumerate(vectors):
            yield b"," * (j > 0) + b"["
            for k, rows in enumerate(_blocks(layer)):
                yield b"," * (k > 0) + to_json(rows)[1:-1]
            yield b"]"
        yield b"]}"
    yield b"]}"


def npy_parts(layers: Sequence[Vectors], dim: int, n_layers: int) -> Iterator[bytes]:
    """All sentences end to end: (K, N, D)."""
    n_words = sum(vectors.shape[1] for vectors in layers)
    yield _npy_head((n_layers, n_words, dim))
    for i in range(n_layers):
        for vectors in layers:
            yield from (rows.tobytes() for rows in _blocks(vectors[i]))


def npz_parts(layers: Sequence[Vectors]) -> Iterator[bytes]:
    """One array per sentence, named "0", "1", …, as `elmore embed` writes them."""
    pipe = _Pipe()
    with zipfile.ZipFile(pipe, "w") as archive:
        for i, vectors in enumerate(layers):
            with archive.open(f"{i}.npy", "w", force_zip64=True) as member:
                member.write(_npy_head(vectors.shape))
                for rows in (rows for layer in vectors for rows in _blocks(layer)):
                    member.write(rows.tobytes())
                    yield pipe.take()
    yield pipe.take()


class _Pipe(io.RawIOBase):
    """A file that can only be written to; what was written is taken out again."""

    def __init__(self) -> None:
        self._content = bytearray()

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self._content += data
        return len(data)

    def take(self) -> bytes:
        content = bytes(self._content)
        self._content.clear()
        return content


def _npy_head(shape: tuple[int, ...]) -> bytes:
    file = io.BytesIO()
    about = {"descr": np.dtype(np.float32).str, "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(file, about)
    return file.getvalue()


def _blocks(layer: Vectors) -> Iterator[Vectors]:
    """(n, D) -> rows that are at most about a piece in JSON."""
    n_rows = max(1, PIECE // (_NUMBER * layer.shape[1]))
    return (np.ascontiguousarray(layer[i : i + n_rows]) for i in range(0, len(layer), n_rows))


def gathered(parts: Iterable[bytes]) -> Iterator[bytes]:
    """Pieces of at least PIECE bytes, but for the last: each is work for a thread."""
    some, size = list[bytes](), 0
    for part in parts:
        some.append(part)
        size += len(part)
        if size >= PIECE:
            yield b"".join(some)
            some, size = [], 0
    yield b"".join(some)


def held_bytes(n_words: int, n_layers: int, dim: int) -> int:
    """Of an answer until it is sent: its vectors and the piece that is made and sent."""
    n_bytes = 4 * n_words * n_layers * dim
    return n_bytes + min(3 * n_bytes, 2 * PIECE)


def cosines(a: Vectors, b: Vectors, weights: Sequence[float]) -> Vectors:
    """Of every word with every word, layer by layer and last of the mix: (L + 1, n_a, n_b)."""
    mix = Mix(weights=tuple(weights), gamma=1.0)
    a, b = (np.concatenate([side, mix.select(side)]) for side in (a, b))
    return _cosines(a, b)


def meaning_cosines(a: Vectors, b: Vectors, lens: Lens | None) -> Vectors | None:
    """The same by a model's lens, (n_a, n_b); None if it has none."""
    if lens is None:
        return None
    return np.asarray(_cosines(lens(a)[None], lens(b)[None])[0])


def _cosines(a: Vectors, b: Vectors) -> Vectors:
    a, b = (unit(side, least=1e-12) for side in (a, b))
    return np.asarray(np.clip(a @ b.transpose(0, 2, 1), -1, 1), np.float32)


def mean_vector(layers: Vectors) -> Vectors:
    """Over words and layers: (L, n, D) -> (D,)."""
    return np.asarray(layers.mean(axis=(0, 1)), np.float32)


def to_base64(vector: Vectors) -> str:
    return base64.b64encode(vector.astype("<f4").tobytes()).decode()
