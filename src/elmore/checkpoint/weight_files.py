"""The weights of a Hugging Face folder: safetensors or a file of torch.save, whole or in parts. No
file outside of the folder is read, and nothing is executed.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from torch import Tensor

from elmore.checkpoint.loose_json import read_json
from elmore.checkpoint.torch_file import read_torch_file
from elmore.errors import FormatError
from elmore.small_files import MAX_BYTES, open_regular

WEIGHT_FILES = ("model.safetensors", "pytorch_model.bin")


def find_weights(folder: Path) -> Path | None:
    """The file of weights, or the index of its parts."""
    names = [*WEIGHT_FILES, *(f"{name}.index.json" for name in WEIGHT_FILES)]
    found = (folder / name for name in names)
    return next((path for path in found if path.is_file()), None)


def read_weights(folder: Path) -> tuple[dict[str, Tensor], Path]:
    """Every tensor by its name there, and the file it is from."""
    if (path := find_weights(folder)) is None:
        looked = " and ".join(WEIGHT_FILES)
        raise FormatError(f"{folder}: no weights here. Looked for {looked}, whole or in parts.")
    if path.suffix != ".json":
        return _read(path), path
    tensors: dict[str, Tensor] = {}
    for part in _parts(path):
        for name, tensor in _read(part).items():
            if name in tensors:
                raise FormatError(f"{part}: '{name}' is in another part of the weights as well.")
            tensors[name] = tensor
    return tensors, path


def _parts(index: Path) -> list[Path]:
    """The files that an index names, which must be beside it."""
    places = read_json(index).get("weight_map")
    if not isinstance(places, dict) or not places:
        raise FormatError(f"{index}: no 'weight_map'; expected the index of weights in parts.")
    names = sorted({name for name in places.values() if isinstance(name, str)})
    for name in names:
        if Path(name).name != name or not (index.parent / name).is_file():
            raise FormatError(f"{index}: names the part {name[:80]!r}, which is not beside it.")
    return [index.parent / name for name in names]


def _read(path: Path) -> dict[str, Tensor]:
    if path.suffix != ".safetensors":
        return read_torch_file(path)
    with open_safetensors(path) as file:
        return {name: file.get_tensor(name) for name in list(file.keys())}


@contextmanager
def open_safetensors(path: Path) -> Iterator[Any]:
    """Whose tensors are mapped: they may be unaligned, and products with them round differently.
    They are copied before they are used."""
    try:
        with open_regular(path) as start:
            if (size := int.from_bytes(start.read(8), "little")) > MAX_BYTES:
                raise FormatError(
                    f"{path}: not a readable safetensors file (a header of {size:,} bytes)."
                )
        with safe_open(path, framework="pt") as file:
            yield file
    except (OSError, SafetensorError) as error:
        raise FormatError(f"{path}: not a readable safetensors file ({error}).") from None
