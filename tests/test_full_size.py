"""The published original at its full size, random weights: it loads in seconds and embeds."""

import json
from pathlib import Path
from time import process_time

import h5py
import numpy as np
import pytest

from elmore.checkpoint.options import options_from_config
from elmore.embedder import Embedder
from elmore.models.bilm import BiLMConfig

N_PARAMETERS = 93_600_848  # of the published file


def shapes() -> dict[str, tuple[int, ...]]:
    """Dataset by dataset, as published: 2x4096_512 with 2048 filters."""
    widths = [(1, 32), (2, 32), (3, 64), (4, 128), (5, 256), (6, 512), (7, 1024)]
    found: dict[str, tuple[int, ...]] = {"char_embed": (261, 16)}
    for i, (width, count) in enumerate(widths):
        found |= {f"CNN/W_cnn_{i}": (1, width, 16, count), f"CNN/b_cnn_{i}": (count,)}
    for k in range(2):
        for part in ("carry", "transform"):
            found |= {f"CNN_high_{k}/W_{part}": (2048, 2048), f"CNN_high_{k}/b_{part}": (2048,)}
    found |= {"CNN_proj/W_proj": (2048, 512), "CNN_proj/b_proj": (512,)}
    for direction in range(2):
        for layer in range(2):
            at = f"RNN_{direction}/RNN/MultiRNNCell/Cell{layer}/LSTMCell"
            found |= {f"{at}/W_0": (1024, 16384), f"{at}/B": (16384,), f"{at}/W_P_0": (4096, 512)}
    return found


@pytest.fixture
def model(tmp_path: Path):
    rng = np.random.default_rng(0)
    path = tmp_path / "weights.hdf5"
    with h5py.File(path, "w") as file:
        for name, shape in shapes().items():
            array = rng.random(shape, dtype=np.float32)
            array -= 0.5
            array *= 2 * shape[-2] ** -0.5 if len(shape) > 1 else 0.1
            file.create_dataset(name, data=array)
    options = options_from_config(BiLMConfig(), {})
    (tmp_path / "options.json").write_text(json.dumps(options))
    yield path
    path.unlink()  # 374 MB


def test_the_original_loads_in_seconds_and_embeds(model: Path):
    with h5py.File(model) as file:
        assert sum(file[name].size for name in shapes()) == N_PARAMETERS
    start = process_time()
    embedder = Embedder.load(model, device="cpu")
    assert process_time() - start < 10
    n_parameters = sum(p.numel() for p in embedder.model.parameters())
    assert n_parameters == N_PARAMETERS + 16  # the row of characters that means "no word"
    first, second = embedder.embed(["We sat on the river bank.", ["My", "bank", "account"]])
    assert first.layers.shape == (3, 7, 1024)
    assert second.layers.shape == (3, 3, 1024)
    for ours in (first, second):
        assert np.isfinite(ours.layers).all()
        assert np.abs(ours.layers[1:]).max() < 7
        assert (ours.layers.std(axis=(1, 2)) > 1e-3).all()
    alone = embedder.embed([["My", "bank", "account"]])[0]
    np.testing.assert_allclose(alone.layers, second.layers, rtol=0, atol=1e-5)
