"""heads/meaning.safetensors: what is written is read, and what does not fit is one line."""

from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from elmore.checkpoint.lens import FILE, read_lens, write_lens
from elmore.checkpoint.sources import load, save
from elmore.errors import FormatError
from tests.lens.lensed import wave_lens, with_lens

D = 6


def test_what_is_written_is_read(tmp_path: Path):
    lens = wave_lens(D, (0, 2))
    write_lens(lens, tmp_path)
    found = read_lens(tmp_path, 3, D)
    assert found is not None
    assert (found.layers, found.about, found.digest) == ((0, 2), "waves", lens.digest)
    write_lens(lens, tmp_path, half=True)
    half = read_lens(tmp_path, 3, D)
    assert half is not None
    assert half.weight.dtype == np.float32
    np.testing.assert_allclose(half.weight, lens.weight, atol=5e-4)
    assert half.digest != lens.digest


def test_a_folder_without_one_has_none(tmp_path: Path):
    assert read_lens(tmp_path, 3, D) is None


def test_a_lens_is_the_linear_map_of_its_layers():
    lens, layers = wave_lens(D, (0, 2)), np.random.default_rng(0).normal(size=(3, 4, D))
    joined = np.concatenate([layers[0], layers[2]], axis=-1)  # (n, 2 D)
    expected = joined @ lens.weight.T.astype(np.float64) + lens.bias
    np.testing.assert_allclose(lens(layers.astype(np.float32)), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("shapes", "layers", "told"),
    [
        ({"weight": (D, D), "bias": (D,)}, "[3]", "a map of the layers [3], but the model has 0"),
        ({"weight": (D, D), "bias": (D,)}, "[]", "a map of the layers []"),
        ({"weight": (D, D), "bias": (D,)}, "[-1]", "does not say which layers"),
        ({"weight": (D, D), "bias": (D,)}, '"2"', "does not say which layers"),
        ({"weight": (D, D), "bias": (D,)}, "[" * 9_000, "does not say which layers"),
        ({"weight": (D, D), "bias": (D,)}, None, "does not say which layers"),
        ({"weight": (D, D + 1), "bias": (D,)}, "[2]", "'weight' is (6, 7); expected (6, 6)"),
        ({"weight": (D, D)}, "[2]", "'bias' is missing"),
        ({"weight": (D, D), "bias": (D,), "x": (1,)}, "[2]", "'x' is (1,); expected None"),
    ],
)
def test_what_does_not_fit_is_one_line(
    tmp_path: Path, shapes: dict[str, tuple[int, ...]], layers: str | None, told: str
):
    (tmp_path / "heads").mkdir()
    tensors = {name: torch.zeros(shape) for name, shape in shapes.items()}
    about = None if layers is None else {"lens": f'{{"layers": {layers}, "about": ""}}'}
    save_file(tensors, tmp_path / FILE, about)
    with pytest.raises(FormatError) as error:
        read_lens(tmp_path, 3, D)
    assert told in str(error.value)
    assert str(tmp_path / FILE) in str(error.value)


@pytest.mark.parametrize("content", [b"", b"{}", b"\xff" * 80, b"\x10" + b"\0" * 40])
def test_damaged_files_are_one_line(tmp_path: Path, content: bytes):
    (tmp_path / "heads").mkdir()
    (tmp_path / FILE).write_bytes(content)
    with pytest.raises(FormatError, match="not a readable safetensors file"):
        read_lens(tmp_path, 3, D)


def test_numbers_must_be_finite(tmp_path: Path):
    (tmp_path / "heads").mkdir()
    tensors = {"weight": torch.full((D, D), torch.nan), "bias": torch.zeros(D)}
    save_file(tensors, tmp_path / FILE, {"lens": '{"layers": [2], "about": ""}'})
    with pytest.raises(FormatError, match="NaN or infinite"):
        read_lens(tmp_path, 3, D)


def test_it_goes_wherever_the_model_goes(tiny_model: Path, tmp_path: Path):
    once = load(with_lens(tiny_model, tmp_path / "once"))
    save(once, tmp_path / "twice")
    twice = load(tmp_path / "twice")
    assert once.lens is not None
    assert twice.lens is not None
    assert once.lens.digest == twice.lens.digest
    assert twice.fingerprint() == load(tiny_model).fingerprint()
