"""What is kept of the layers, against the plain sums."""

import numpy as np
import pytest
import torch

from elmore.embedding import Average, Layers, Mix
from elmore.errors import ConfigError
from elmore.nn.scalar_mix import ScalarMix
from elmore.store.keep import keep_of

LAYERS = np.random.default_rng(0).normal(size=(3, 4, 5)).astype(np.float32)


def learnt() -> ScalarMix:
    mix = ScalarMix(3, initial=[0.3, -1.0, 2.0])
    mix.gamma.data.fill_(1.7)
    return mix


def test_layers_are_kept_in_the_order_given():
    for choice in ("2,0", [2, 0], (2, 0)):
        keep = keep_of(choice, 3)
        assert keep == Layers(numbers=(2, 0))
        np.testing.assert_array_equal(keep.select(LAYERS), LAYERS[[2, 0]])
    assert keep.shape(5) == (2, 5)


def test_all_and_top_are_layers():
    assert keep_of("all", 3) == Layers(numbers=(0, 1, 2))
    assert keep_of("top", 3) == Layers(numbers=(2,))


def test_the_average_is_one_layer():
    keep = keep_of("average", 3)
    assert isinstance(keep, Average)
    np.testing.assert_allclose(keep.select(LAYERS)[0], LAYERS.mean(0), rtol=0, atol=1e-6)
    assert keep.shape(5) == (1, 5)


def test_a_learnt_mix_gives_what_the_mix_gives():
    mix = learnt()
    layers = torch.from_numpy(LAYERS).unsqueeze(1)  # (L, B, T, D)
    with torch.no_grad():
        want = mix(layers, torch.ones(1, 4, dtype=torch.bool))[0].numpy()
    keep = keep_of(mix, 3)
    np.testing.assert_allclose(keep.select(LAYERS)[0], want, rtol=0, atol=1e-6)
    assert isinstance(keep, Mix)
    assert keep.gamma == pytest.approx(1.7)
    assert sum(keep.weights) == pytest.approx(1.0)


def test_a_mix_can_be_written_in_numbers():
    assert keep_of("mix:0.2,0.5,0.3", 3) == Mix(weights=(0.2, 0.5, 0.3), gamma=1.0)
    assert "0.200 0.500 0.300" in keep_of("mix:0.2,0.5,0.3", 3).described()


@pytest.mark.parametrize(
    ("choice", "said"),
    [
        ("3", "layers 0 to 2"),
        ([-1], "layers 0 to 2"),
        ([0.5], "layers 0 to 2"),
        ([], "layers 0 to 2"),
        ([1, 1], "each once"),
        ("best", "expected all"),
        ("mix:", "expected all"),
        ("mix:0.5,0.5", "2 mix weights given for 3 layers"),
        (ScalarMix(2), "2 mix weights given for 3 layers"),
        (ScalarMix(3, layer_norm=True), "whole batch"),
        (7, "keep is a int"),
    ],
)
def test_what_cannot_be_kept_is_refused(choice: object, said: str):
    with pytest.raises(ConfigError, match=said):
        keep_of(choice, 3)  # type: ignore[arg-type]
