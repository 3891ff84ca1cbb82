"""Files of `torch.save`, read as tensors and nothing else. They are pickles, and pickles can run
code: only torch's restricted reader ever sees them, and what it returns is checked once more.
"""

import io
import mmap
import pickletools
import warnings
import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import IO, cast

import torch
from torch import Tensor

from elmore.checkpoint.checkpoint import NamedTensors
from elmore.errors import FormatError
from elmore.small_files import open_regular

_ZIP, _PICKLE = b"PK\x03\x04", b"\x80"
_OLD_PARTS = ("mark", "version", "system", "tensors", "names of arrays")  # pickles of older files
_MAX_CODES = 1_000_000  # of a pickle; a tensor takes about 30
_SHARING = 4  # names may share arrays, but the total may be at most this many times the file


class TorchTensors(NamedTensors[Tensor]):
    """The tensors of one or more state dicts."""

    def __init__(self, tensors: Mapping[str, Tensor], where: str):
        super().__init__(where, "the model's config")
        self.tensors = tensors

    def __contains__(self, name: str) -> bool:
        return name in self.tensors

    def names(self) -> Iterable[str]:
        return self.tensors

    def find(self, name: str) -> tuple[str, tuple[int, ...]] | None:
        found = self.tensors.get(name)
        if found is None:
            return None
        return str(found.dtype).removeprefix("torch."), tuple(found.shape)

    def shape(self, name: str, rank: int) -> tuple[int, ...]:
        """The shape of a tensor that must be there with `rank` dimensions."""
        if (found := self.find(name)) is None:
            raise FormatError(f"{self.where}: the tensor '{name}' is missing.")
        if len(found[1]) != rank:
            raise FormatError(f"{self.where}: '{name}' has shape {found[1]}; expected {rank} axes.")
        return found[1]

    def take(self, name: str, shape: tuple[int, ...]) -> Tensor:
        """A float32 copy, so that nothing keeps the file or its sharing of memory alive."""
        self.claim(name, shape)
        return self.tensors[name].to(torch.float32, copy=True).contiguous()

    def count(self, pattern: str) -> int:
        """How many of pattern.format(0), pattern.format(1), … there are."""
        n = 0
        while pattern.format(n) in self.tensors:
            n += 1
        return n


def read_torch_file(path: Path) -> dict[str, Tensor]:
    """The state dict in a file. Anything but named tensors is an error, and nothing is executed."""
    loaded = _load(path)
    if not isinstance(loaded, dict):
        raise FormatError(f"{path}: contains a {type(loaded).__name__}; expected tensors by name.")
    left = _SHARING * path.stat().st_size
    for name, tensor in loaded.items():
        if not isinstance(name, str) or not isinstance(tensor, Tensor):
            raise FormatError(f"{path}: {name!r:.80} is a {type(tensor).__name__}, not a tensor.")
        # A few bytes can claim to be a table of any size; arrays in the file cannot.
        left -= tensor.nbytes if _is_array(tensor) else left + 1
        if left < 0:
            shape = tuple(tensor.shape)
            raise FormatError(f"{path}: '{name}' of shape {shape} is not stored in full; damaged.")
    return loaded


def _load(path: Path) -> object:
    try:
        is_zip = _is_plain_zip(path)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # from torch, about its older formats
            return torch.load(path, map_location="cpu", weights_only=True, mmap=is_zip)
    except FormatError:
        raise
    except OSError as error:
        raise FormatError(f"{path}: cannot be read ({error.strerror or error}).") from None
    except Exception as error:  # a damaged pickle can raise anything
        first = (str(error).strip().splitlines() or [type(error).__name__])[0][:120]
        raise FormatError(
            f"{path}: not a readable file of PyTorch tensors ({first}). Nothing in it was run."
        ) from None


def _check_pickle(path: Path, data: IO[bytes], most: int) -> None:
    """PyTorch's reader takes the memory that a pickle asks for: a text or an array of any length, a
    bytearray of any size. Here nothing is longer than the data, and no number larger than `most`.
    """
    for part in ("tensors",) if isinstance(data, io.BytesIO) else _OLD_PARTS:
        for n, (code, given, _) in enumerate(pickletools.genops(data)):
            if "bytearray" in str(given) or code.name == "BYTEARRAY8":
                raise FormatError(f"{path}: names bytearray; expected tensors. Nothing was run.")
            larger = part == "tensors" and isinstance(given, int) and given > most
            if larger or n > _MAX_CODES:
                raise FormatError(
                    f"{path}: asks for over {most:,} numbers or is over {_MAX_CODES:,} steps long; "
                    "the file is damaged or hostile. Nothing in it was run."
                )


def _is_plain_zip(path: Path) -> bool:
    """Newer files are zips of uncompressed arrays, which are mapped rather than read."""
    with open_regular(path) as file:
        start = file.read(4)
    if start[:1] != _PICKLE and start != _ZIP:
        raise FormatError(
            f"{path}: not a readable file of PyTorch tensors (it begins with {start!r}). "
            "Nothing in it was run."
        )
    size = path.stat().st_size
    if start != _ZIP:
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            _check_pickle(path, cast(IO[bytes], data), size)
        return False
    with zipfile.ZipFile(path) as archive:
        if any(member.compress_type != zipfile.ZIP_STORED for member in archive.infolist()):
            raise FormatError(f"{path}: its tensors are compressed, which torch.save never does.")
        if (damaged := archive.testzip()) is not None:  # torch itself does not look
            raise FormatError(f"{path}: the checksum of '{damaged}' is wrong; copy it again.")
        for name in archive.namelist():
            if name.endswith(".pkl"):
                _check_pickle(path, io.BytesIO(archive.read(name)), size)
    return True


def _is_array(tensor: Tensor) -> bool:
    return tensor.layout == torch.strided and tensor.device.type == "cpu"
