"""AllenNLP's and bilm-tf's HDF5 weights with options.json: the format most ELMos were published in.
All of its names are below. Matrices are applied as x @ W there, as W @ x here.
"""

# P projection dim, C cell dim, F filters
import json
import math
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import h5py
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from elmore.checkpoint.bilm import (
    bilm_checkpoint,
    bilm_of,
    build_softmax,
    read_vocabulary,
    softmax_of,
)
from elmore.checkpoint.checkpoint import Checkpoint, NamedTensors, build_model
from elmore.checkpoint.options import (
    config_from_options,
    options_from_config,
    read_options,
    refuse_unwritable,
)
from elmore.errors import FormatError
from elmore.files.atomic import atomic_file
from elmore.files.hdf5_file import hdf5_file
from elmore.models.bilm import BiLM, BiLMConfig
from elmore.nn.char_cnn import CharCNNConfig
from elmore.nn.lstm import LSTMConfig
from elmore.nn.word_char import WordTableConfig
from elmore.small_files import open_regular
from elmore.text.byte_reader import N_CHARACTER_IDS

Array = NDArray[np.float32]

_CELL = "RNN_{direction}/RNN/MultiRNNCell/Cell{layer}/LSTMCell/"
_IJFO_TO_IFGO = [0, 2, 1, 3]  # the same list undoes itself
_SPARE, _RATIO = 1 << 26, 4  # bytes beyond so many times the file; real weights hardly compress
_SHUFFLE, _DEFLATE, _FLETCHER = 2, 1, 3  # filters of HDF5 that cost memory in proportion
_DAMAGE = (
    OSError,
    RuntimeError,
    ValueError,
    TypeError,
    KeyError,
    zlib.error,
)  # by h5py, on broken files


def read_hdf5(
    weights: Path,
    options: Path,
    *,
    vocabulary: Path | None = None,
    softmax: Path | None = None,
) -> Checkpoint:
    """Weights and options; vocabulary and softmax too if their files are given."""
    raw = read_options(options)
    with _open(weights) as file:
        datasets = _Datasets(file, weights, options.name)
        config = config_from_options(raw, options, n_words=datasets.rows("embedding"))
        model = build_model(config, read_tensors(datasets, config), weights.name)
    output = None if softmax is None else _read_softmax(softmax, config.context.dim)
    words, notes = read_vocabulary(vocabulary, config, output)
    return bilm_checkpoint(model, vocabulary=words, softmax=output, options=raw, notes=notes)


def write_hdf5(checkpoint: Checkpoint, weights: Path, options: Path, softmax: Path | None) -> None:
    """The reverse. `softmax` is written when the checkpoint has one."""
    model, head = bilm_of(checkpoint), softmax_of(checkpoint)
    refuse_unwritable(model.config)
    text = json.dumps(options_from_config(model.config, checkpoint.options), indent=2)
    with atomic_file(weights) as path, hdf5_file(path) as (file, _):
        for name, array in _write_tensors(model):
            file.create_dataset(name, data=array)
    if softmax is not None and isinstance(head, nn.Linear):  # HDF5 has no adaptive softmax
        with atomic_file(softmax) as path, hdf5_file(path) as (file, _):
            file.create_dataset("softmax/W", data=_numpy(head.weight))
            file.create_dataset("softmax/b", data=_numpy(head.bias))
    with atomic_file(options) as path:
        path.write_text(text + "\n", encoding="utf-8")


# Weights ----------------------------------------------------------------------------------------


class _Datasets(NamedTensors[Array]):
    """The datasets of an HDF5 file."""

    def __init__(self, file: h5py.File, path: Path, judge: str):
        super().__init__(str(path), judge)
        self.file = file
        self._left = _SPARE + _RATIO * path.stat().st_size  # bytes that may still be read

    def names(self) -> Iterable[str]:
        names: list[str] = []
        with self._reading("/"):
            self.file.visititems(
                lambda name, item: names.append(name) if isinstance(item, h5py.Dataset) else None
            )
        return names

    def find(self, name: str) -> tuple[str, tuple[int, ...]] | None:
        with self._reading(name):
            for end in range(1, len(parts := name.strip("/").split("/")) + 1):
                link = self.file.get("/".join(parts[:end]), getlink=True)
                if isinstance(link, h5py.ExternalLink | h5py.SoftLink):
                    raise self._outside(name)
            item = self.file.get(name)
            if isinstance(item, h5py.Group):
                return "a group", ()
            return (item.dtype.name, item.shape) if isinstance(item, h5py.Dataset) else None

    def take(self, name: str, shape: tuple[int, ...]) -> Array:
        self.claim(name, shape)
        with self._reading(name):
            item = self.file[name]
            if item.external or item.is_virtual:
                raise self._outside(name)
            self._left -= max(item.nbytes, _chunk_bytes(item))  # names may share their numbers
            if self._left < 0:
                raise FormatError(
                    f"{self.where}: '{name}' declares {item.nbytes:,} bytes but stores "
                    f"{item.id.get_storage_size():,}; the file is damaged or hostile."
                )
            if _is_bomb(item):
                raise FormatError(
                    f"{self.where}: '{name}' is compressed in an unusual way or unpacks to more "
                    "than it declares; the file is damaged or hostile."
                )
            return np.asarray(item[...], dtype=np.float32)

    def _outside(self, name: str) -> FormatError:
        """Weights must be in the file itself: anybody could have written another file."""
        return FormatError(f"{self.where}: '{name}' is a link or is stored in another file.")

    @contextmanager
    def _reading(self, name: str) -> Iterator[None]:
        try:
            yield
        except _DAMAGE as error:
            reason = f"cannot be read ({_brief(error)}); the file is damaged."
            raise FormatError(f"{self.where}: '{name}' {reason}") from None


def _chunk_bytes(item: h5py.Dataset) -> int:
    """What HDF5 allocates for each piece of a dataset."""
    return int(math.prod(item.chunks or (0,)) * item.dtype.itemsize)


def _is_bomb(item: h5py.Dataset) -> bool:
    """Whether a piece may unpack to more than its declared size, which HDF5 would allocate."""
    pipeline = item.id.get_create_plist()
    filters = [pipeline.get_filter(i)[0] for i in range(pipeline.get_nfilters())]
    if _DEFLATE not in filters:
        return not {*filters} <= {_SHUFFLE, _FLETCHER}
    if filters not in ([_DEFLATE], [_SHUFFLE, _DEFLATE], [_SHUFFLE, _DEFLATE, _FLETCHER]):
        return True
    size = _chunk_bytes(item)
    for i in range(item.id.get_num_chunks()):
        skipped, raw = item.id.read_direct_chunk(item.id.get_chunk_info(i).chunk_offset)
        if not skipped and len(zlib.decompressobj().decompress(raw, size + 1)) > size:
            return True
    return False


def read_tensors(datasets: NamedTensors[Array], config: BiLMConfig) -> dict[str, Tensor]:
    """All tensors of the model, under our names."""
    words = config.words
    assert isinstance(config.context, LSTMConfig)
    if isinstance(words, CharCNNConfig):
        tensors = _read_char_cnn(datasets, words)
    else:
        assert isinstance(words, WordTableConfig)
        tensors = {"words.embed.weight": datasets.take("embedding", (words.n_words, words.dim))}
    for layer in range(config.context.n_layers):
        tensors |= _read_lstm_layer(datasets, config.context, layer)
    datasets.expect_nothing_else()
    return {name: torch.from_numpy(np.ascontiguousarray(a)) for name, a in tensors.items()}


def _read_char_cnn(datasets: NamedTensors[Array], cnn: CharCNNConfig) -> dict[str, Array]:
    take, n = datasets.take, cnn.n_filters
    embed = take("char_embed", (N_CHARACTER_IDS - 1, cnn.char_dim))
    tensors = {"words.embed.weight": np.pad(embed, ((1, 0), (0, 0)))}  # row 0: no word
    for i, (width, count) in enumerate(cnn.filters):
        kernel = take(f"CNN/W_cnn_{i}", (1, width, cnn.char_dim, count))
        tensors[f"words.convolutions.{i}.weight"] = kernel[0].transpose(2, 1, 0)
        tensors[f"words.convolutions.{i}.bias"] = take(f"CNN/b_cnn_{i}", (count,))
    for k in range(cnn.n_highway):
        at = f"CNN_high_{k}/"
        halves = [take(at + f"W_{part}", (n, n)).T for part in ("transform", "carry")]
        tensors[f"words.highway.layers.{k}.weight"] = np.concatenate(halves)
        biases = [take(at + f"b_{part}", (n,)) for part in ("transform", "carry")]
        tensors[f"words.highway.layers.{k}.bias"] = np.concatenate(biases)
    if cnn.project:
        tensors["words.project.weight"] = take("CNN_proj/W_proj", (n, cnn.dim)).T
        tensors["words.project.bias"] = take("CNN_proj/b_proj", (cnn.dim,))
    return tensors


def _read_lstm_layer(
    datasets: NamedTensors[Array], lstm: LSTMConfig, layer: int
) -> dict[str, Array]:
    dim, cell = lstm.dim, lstm.cell_dim
    both: dict[str, list[Array]] = {}
    for direction in (0, 1):
        at = _CELL.format(direction=direction, layer=layer)
        gates = _reorder(datasets.take(at + "W_0", (2 * dim, 4 * cell)).T)  # (4C, 2P)
        both.setdefault("w_input", []).append(gates[:, :dim])
        both.setdefault("w_state", []).append(gates[:, dim:])
        both.setdefault("bias", []).append(_reorder(datasets.take(at + "B", (4 * cell,))))
        if lstm.project:
            projection = datasets.take(at + "W_P_0", (cell, dim)).T
            both.setdefault("w_project", []).append(projection)
    return {f"context.layers.{layer}.{name}": np.stack(pair) for name, pair in both.items()}


def _write_tensors(model: BiLM) -> Iterator[tuple[str, Array]]:
    tensors = {name: _numpy(tensor) for name, tensor in model.state_dict().items()}
    words, lstm = model.config.words, model.config.context
    assert isinstance(lstm, LSTMConfig)
    if isinstance(words, CharCNNConfig):
        yield from _write_char_cnn(tensors, words)
    else:
        yield "embedding", tensors["words.embed.weight"]
    for layer in range(lstm.n_layers):
        ours = f"context.layers.{layer}."
        for direction in (0, 1):
            at = _CELL.format(direction=direction, layer=layer)
            gates = [tensors[ours + name][direction] for name in ("w_input", "w_state")]
            yield at + "W_0", _reorder(np.concatenate(gates, axis=1)).T
            yield at + "B", _reorder(_unfolded(tensors[ours + "bias"][direction], lstm))
            if lstm.project:
                yield at + "W_P_0", tensors[ours + "w_project"][direction].T


def _write_char_cnn(tensors: dict[str, Array], cnn: CharCNNConfig) -> Iterator[tuple[str, Array]]:
    yield "char_embed", tensors["words.embed.weight"][1:]
    for i in range(len(cnn.filters)):
        kernel = tensors[f"words.convolutions.{i}.weight"]
        yield f"CNN/W_cnn_{i}", kernel.transpose(2, 1, 0)[None]
        yield f"CNN/b_cnn_{i}", tensors[f"words.convolutions.{i}.bias"]
    for k in range(cnn.n_highway):
        weight = np.split(tensors[f"words.highway.layers.{k}.weight"], 2)
        bias = np.split(tensors[f"words.highway.layers.{k}.bias"], 2)
        for part, w, b in zip(("transform", "carry"), weight, bias, strict=True):
            yield f"CNN_high_{k}/W_{part}", w.T
            yield f"CNN_high_{k}/b_{part}", b
    if cnn.project:
        yield "CNN_proj/W_proj", tensors["words.project.weight"].T
        yield "CNN_proj/b_proj", tensors["words.project.bias"]


def _unfolded(bias: Array, lstm: LSTMConfig) -> Array:
    """HDF5 files leave 1.0 of the forget bias out; a bias that does too is not touched."""
    if lstm.forget_bias == 1.0:
        return bias
    gates = bias.reshape(4, -1).copy()
    gates[1] += lstm.forget_bias - 1.0
    return gates.reshape(-1)


def _reorder(gates: Array) -> Array:
    """Gates i, j, f, o <-> i, f, j, o along the first axis."""
    return gates.reshape(4, -1, *gates.shape[1:])[_IJFO_TO_IFGO].reshape(gates.shape)


def _read_softmax(path: Path, dim: int) -> nn.Linear:
    with _open(path) as file:
        datasets = _Datasets(file, path, "the model")
        n_words = datasets.rows("softmax/W")
        if n_words is None:
            raise FormatError(f"{path}: no table 'softmax/W'; expected shape (words, {dim}).")
        weight = datasets.take("softmax/W", (n_words, dim))
        bias = datasets.take("softmax/b", (n_words,))
    return build_softmax(torch.from_numpy(weight), torch.from_numpy(bias))


@contextmanager
def _open(path: Path) -> Iterator[h5py.File]:
    try:
        open_regular(path).close()  # HDF5 would wait for the writer of a pipe
        file = h5py.File(path, "r")
    except FileNotFoundError:
        raise FormatError(f"{path}: no such file.") from None
    except OSError as error:
        raise FormatError(f"{path}: not a readable HDF5 file ({_brief(error)}).") from None
    with file:
        yield file


def _brief(error: Exception) -> str:
    return " ".join(str(error).split())  # messages of HDF5 may have several lines


def _numpy(tensor: Tensor) -> Array:
    array: Array = tensor.detach().float().cpu().numpy()
    return array
