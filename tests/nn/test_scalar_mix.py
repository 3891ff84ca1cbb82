"""The mix of layers against its NumPy derivation."""

import numpy as np
import pytest
import torch
from torch import Tensor

from elmore.errors import ConfigError
from elmore.nn.scalar_mix import ScalarMix
from tests.oracle.scalar_mix import scalar_mix

MASK = torch.tensor([[True, True, True], [True, False, False]])


def layers() -> Tensor:
    wave = torch.sin(torch.arange(4 * 2 * 3 * 5, dtype=torch.float64) * 1.7) * 3 + 1
    return wave.view(4, 2, 3, 5) * MASK.unsqueeze(-1)  # (L, B, T, D)


@pytest.mark.parametrize("layer_norm", [False, True])
@pytest.mark.parametrize("weights", [[0.0] * 4, [1.0, -2.0, 0.5, 3.0], [50.0, -50.0, 0.0, 0.0]])
def test_the_mix_is_the_oracles(layer_norm: bool, weights: list[float]):
    mix = ScalarMix(4, layer_norm=layer_norm, initial=weights).double()
    with torch.no_grad():
        mix.gamma.fill_(0.3)
    ours = mix(layers(), MASK).detach()
    expected = scalar_mix(layers().numpy(), weights, 0.3, layer_norm=layer_norm, mask=MASK.numpy())
    np.testing.assert_allclose(ours[MASK], expected[MASK.numpy()], rtol=0, atol=1e-12)


def test_it_starts_as_the_plain_average():
    mix = ScalarMix(4).double()
    assert mix.weights.tolist() == pytest.approx([0.25] * 4)
    torch.testing.assert_close(mix(layers(), MASK), layers().mean(dim=0))


def test_what_stands_behind_the_mask_does_not_count_in_layer_norm():
    mix = ScalarMix(4, layer_norm=True).double()
    other = layers() + 1000 * (~MASK).unsqueeze(-1)
    torch.testing.assert_close(mix(other, MASK)[MASK], mix(layers(), MASK)[MASK])


def test_layer_norm_of_nothing_and_of_a_constant_is_finite():
    mix = ScalarMix(4, layer_norm=True).double()
    assert mix(layers(), torch.zeros_like(MASK)).isfinite().all()
    constant = mix(torch.ones(4, 2, 3, 5, dtype=torch.float64), MASK)
    assert constant.isfinite().all()


def test_the_penalty_is_on_the_weights_before_the_softmax():
    mix = ScalarMix(3, l2=0.5, initial=[1, 2, -3])
    assert mix.penalty().item() == pytest.approx(0.5 * 14)
    assert ScalarMix(3).penalty().item() == 0


def test_whole_numbers_may_start_it_and_it_may_be_held_still():
    mix = ScalarMix(3, initial=[1, 0, 0], trainable=False)
    assert mix.scalars.dtype == torch.float32
    assert not any(p.requires_grad for p in mix.parameters())


def test_as_many_weights_as_layers():
    with pytest.raises(ConfigError, match="2 mix weights given for 3 layers"):
        ScalarMix(3, initial=[0.5, 0.5])
