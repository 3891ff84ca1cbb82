"""heads/meaning.safetensors: the lens of a model, beside the weights of a native or a Hugging Face
folder. It is small, so it is read whenever it is there.
"""

# K layers the map reads, D vector dim
import json
from pathlib import Path

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import save_file

from elmore.checkpoint.weight_files import open_safetensors
from elmore.errors import FormatError
from elmore.files.atomic import atomic_file
from elmore.models.lens import MEANING, Lens

FILE = Path("heads") / f"{MEANING}.safetensors"
_FLOATS = ("F32", "F16")
_MOST_LAYERS = 1_000
_ABOUT = "lens"  # one name for all metadata: safetensors writes several in no fixed order


def read_lens(folder: Path, n_layers: int, dim: int) -> Lens | None:
    """The lens of a model with these layers; None if the folder has none."""
    path = folder / FILE
    if not path.is_file():
        return None
    with open_safetensors(path) as file:
        numbers, about = _metadata(file.metadata() or {}, path)
        if not numbers or max(numbers) >= n_layers:
            raise FormatError(
                f"{path}: a map of the layers {list(numbers)}, but the model has 0 to "
                f"{n_layers - 1}; it is probably of another model."
            )
        shapes = {"weight": (dim, len(numbers) * dim), "bias": (dim,)}
        found = {name: file.get_slice(name) for name in sorted(file.keys())}
        for name in sorted({*shapes, *found}):
            there = tuple(found[name].get_shape()) if name in found else None
            if there != shapes.get(name) or found[name].get_dtype() not in _FLOATS:
                raise FormatError(
                    f"{path}: '{name}' is {there or 'missing'}; expected {shapes.get(name)} in "
                    "float32 or float16. It is probably of another model."
                )
        weight, bias = (file.get_tensor(name).float().numpy() for name in ("weight", "bias"))
    if not (np.isfinite(weight).all() and np.isfinite(bias).all()):
        raise FormatError(f"{path}: contains NaN or infinite values; damaged.")
    return Lens(numbers, weight.copy(), bias.copy(), about)


def _metadata(found: dict[str, str], path: Path) -> tuple[tuple[int, ...], str]:
    try:
        read = json.loads(found[_ABOUT])
        numbers, about = read["layers"], read["about"]
        fits = isinstance(numbers, list) and len(numbers) <= _MOST_LAYERS and isinstance(about, str)
        if not fits or not all(type(number) is int and number >= 0 for number in numbers):
            raise ValueError
    except (KeyError, ValueError, TypeError, RecursionError):
        raise FormatError(
            f"{path}: does not say which layers it maps; expected the metadata '{_ABOUT}' with "
            '"layers", such as [2], and "about".'
        ) from None
    return tuple(numbers), about


def write_lens(lens: Lens, folder: Path, *, half: bool = False) -> None:
    """Into a model's folder, atomically; `half` writes float16."""
    kind = torch.float16 if half else torch.float32
    path = folder / FILE
    path.parent.mkdir(exist_ok=True)
    tensors = {
        name: torch.from_numpy(np.ascontiguousarray(array)).to(kind)
        for name, array in (("weight", lens.weight), ("bias", lens.bias))
    }
    about = {"layers": lens.layers, "about": lens.about}
    with atomic_file(path) as beside:
        try:
            save_file(tensors, beside, {_ABOUT: json.dumps(about, ensure_ascii=False)})
        except SafetensorError as error:
            raise OSError(str(error)) from None
