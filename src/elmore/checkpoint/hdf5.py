"""AllenNLP's and bilm-tf's HDF5 weights with options.json: the format most ELMos were published in.
The names below are the whole of it; every matrix there is applied as x @ W, ours as W @ x.
"""

# P projection dim, C cell dim, F filters
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

import h5py
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from elmore.checkpoint.bilm import (
    bilm_checkpoint,
    bilm_of,
    build_softmax,
    check_vocabulary,
    softmax_of,
)
from elmore.checkpoint.checkpoint import Checkpoint, build_model
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
from elmore.nn.word_table import WordTableConfig
from elmore.text.byte_reader import N_CHARACTER_IDS
from elmore.text.vocabulary import Vocabulary

Array = NDArray[np.float32]

_CELL = "RNN_{direction}/RNN/MultiRNNCell/Cell{layer}/LSTMCell/"
_IJFO_TO_IFGO = [0, 2, 1, 3]  # the same list undoes itself
_BOMB_BYTES, _BOMB_RATIO = 1 << 26, 50  # real weights hardly compress
_DAMAGE = (OSError, RuntimeError, ValueError, TypeError, KeyError)  # h5py's, in a broken file


def read_hdf5(
    weights: Path,
    options: Path,
    *,
    vocabulary: Path | None = None,
    softmax: Path | None = None,
) -> Checkpoint:
    """Weights and options, and if named the vocabulary and the softmax file."""
    raw = read_options(options)
    with _open(weights) as file:
        datasets = _Datasets(file, weights, options.name)
        config = config_from_options(raw, options, n_words=datasets.rows("embedding"))
        model = build_model(config, read_tensors(datasets, config), weights.name)
    output = None if softmax is None else _read_softmax(softmax, config.context.dim)
    words = None if vocabulary is None else Vocabulary.read(vocabulary)
    check_vocabulary(words, config, output, str(vocabulary))
    return bilm_checkpoint(model, vocabulary=words, softmax=output, options=raw)


def write_hdf5(checkpoint: Checkpoint, weights: Path, options: Path, softmax: Path | None) -> None:
    """The reverse. `softmax` is written when the checkpoint has one."""
    model, head = bilm_of(checkpoint), softmax_of(checkpoint)
    refuse_unwritable(model.config)
    text = json.dumps(options_from_config(model.config, checkpoint.options), indent=2)
    with atomic_file(weights) as path, hdf5_file(path) as (file, _):
        for name, array in _write_tensors(model):
            file.create_dataset(name, data=array)
    if softmax is not None and isinstance(head, nn.Linear):  # not one in clusters
        with atomic_file(softmax) as path, hdf5_file(path) as (file, _):
            file.create_dataset("softmax/W", data=_numpy(head.weight))
            file.create_dataset("softmax/b", data=_numpy(head.bias))
    with atomic_file(options) as path:
        path.write_text(text + "\n", encoding="utf-8")


# Weights ----------------------------------------------------------------------------------------


class _Datasets:
    """The file's datasets, each checked for its shape before a byte of it is read."""

    def __init__(self, file: h5py.File, path: Path, judge: str):
        self.file, self.path = file, path
        self.judge = judge  # who says which shapes: the options' name
        self.taken: set[str] = set()
        self._empty = 0  # bytes that are declared and hardly stored

    def rows(self, name: str) -> int | None:
        item = self._item(name)
        return int(item.shape[0]) if isinstance(item, h5py.Dataset) and item.shape else None

    def take(self, name: str, shape: tuple[int, ...]) -> Array:
        item = self._item(name)
        if not isinstance(item, h5py.Dataset):
            found = "missing" if item is None else "a group"
            raise FormatError(
                f"{self.path}: dataset '{name}' is {found}; {self.judge} calls for float32 "
                f"of shape {shape}."
            )
        try:
            return self._read(item, name, shape)
        except _DAMAGE as error:
            raise self._unreadable(name, error) from None

    def _read(self, item: h5py.Dataset, name: str, shape: tuple[int, ...]) -> Array:
        if item.shape != shape or item.dtype.kind != "f":
            raise FormatError(
                f"{self.path}: '{name}' is {item.dtype} of shape {item.shape}, but "
                f"{self.judge} calls for float32 of shape {shape}. The weights and the "
                "options are probably from different models."
            )
        if item.external or item.is_virtual:
            raise self._elsewhere(name)
        stored = item.id.get_storage_size()
        self._empty += max(0, item.nbytes - _BOMB_RATIO * stored)
        if self._empty > _BOMB_BYTES:
            raise FormatError(
                f"{self.path}: '{name}' declares {item.nbytes:,} bytes but stores {stored:,}; "
                "the file is damaged or hostile."
            )
        self.taken.add(name)
        return np.asarray(item[...], dtype=np.float32)

    def _item(self, name: str) -> Any:
        try:
            for end in range(1, len(parts := name.strip("/").split("/")) + 1):
                link = self.file.get("/".join(parts[:end]), getlink=True)
                if isinstance(link, h5py.ExternalLink | h5py.SoftLink):
                    raise self._elsewhere(name)
            return self.file.get(name)
        except _DAMAGE as error:
            raise self._unreadable(name, error) from None

    def _elsewhere(self, name: str) -> FormatError:
        """Weights are in the file itself; what is not might be anybody's."""
        return FormatError(f"{self.path}: '{name}' lies elsewhere, by a link or in another file.")

    def _unreadable(self, name: str, error: Exception) -> FormatError:
        reason = f"cannot be read ({_brief(error)}); the file is damaged."
        return FormatError(f"{self.path}: '{name}' {reason}")

    def expect_nothing_else(self) -> None:
        names: list[str] = []
        try:
            self.file.visititems(
                lambda name, item: names.append(name) if isinstance(item, h5py.Dataset) else None
            )
        except _DAMAGE as error:
            raise self._unreadable("/", error) from None
        if extra := sorted(set(names) - self.taken):
            raise FormatError(
                f"{self.path}: holds '{extra[0]}', which {self.judge} does not call for. "
                "The weights and the options are probably from different models."
            )


class TensorSource(Protocol):
    """Anything that has tensors under this format's names."""

    def take(self, name: str, shape: tuple[int, ...]) -> Array: ...

    def expect_nothing_else(self) -> None: ...


def read_tensors(datasets: TensorSource, config: BiLMConfig) -> dict[str, Tensor]:
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


def _read_char_cnn(datasets: TensorSource, cnn: CharCNNConfig) -> dict[str, Array]:
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


def _read_lstm_layer(datasets: TensorSource, lstm: LSTMConfig, layer: int) -> dict[str, Array]:
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
        part = {
            name: tensors.get(f"context.layers.{layer}.{name}")
            for name in ("w_input", "w_state", "bias", "w_project")
        }
        for direction in (0, 1):
            w_input, w_state, bias, w_project = (
                None if array is None else array[direction] for array in part.values()
            )
            assert w_input is not None
            assert w_state is not None
            assert bias is not None
            at = _CELL.format(direction=direction, layer=layer)
            yield at + "W_0", _reorder(np.concatenate([w_input, w_state], axis=1)).T
            yield at + "B", _reorder(_unfolded(bias, lstm))
            if w_project is not None:
                yield at + "W_P_0", w_project.T


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
    """HDF5 always means a forget gate opened by 1 beyond its bias; bits stay where that holds."""
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
        file = h5py.File(path, "r")
    except FileNotFoundError:
        raise FormatError(f"{path}: no such file.") from None
    except OSError as error:
        raise FormatError(f"{path}: not a readable HDF5 file ({_brief(error)}).") from None
    with file:
        yield file


def _brief(error: Exception) -> str:
    return " ".join(str(error).split())  # HDF5's own words can run over several lines


def _numpy(tensor: Tensor) -> Array:
    array: Array = tensor.detach().float().cpu().numpy()
    return array
