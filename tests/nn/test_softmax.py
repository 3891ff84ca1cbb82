"""The softmaxes against the oracle's sums, plain autograd, torch's own, and the law of samples."""

# N predictions, V words, K samples, P dim
import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from elmore.nn import softmax as softmax_module
from elmore.nn.softmax import (
    AdaptiveSoftmax,
    AdaptiveSoftmaxConfig,
    FullSoftmaxConfig,
    SampledSoftmaxConfig,
    Softmax,
    build_softmax,
    log_expected_counts,
    log_uniform_sample,
)
from tests.oracle import sampled_softmax as oracle

V, P, N = 30, 5, 7
TARGETS = torch.tensor([0, 3, 3, 29, 11, 8, 2])
SAMPLES = torch.tensor([3, 0, 17, 8, 1])  # three of them are targets: accidental hits
TRIES = 9


def filled(n_samples: int | None = None) -> Softmax:
    """A softmax over float64 waves."""
    softmax = Softmax(V, P, n_samples).double()
    with torch.no_grad():
        softmax.weight.copy_(torch.sin(torch.arange(V * P, dtype=torch.float64)).view(V, P))
        softmax.bias.copy_(torch.cos(torch.arange(V, dtype=torch.float64)).view(V, 1))
    return softmax


def vectors() -> Tensor:
    return torch.sin(torch.arange(N * P, dtype=torch.float64) * 0.7).view(N, P) * 1.5


def tables(softmax: Softmax) -> tuple[np.ndarray, np.ndarray]:
    return softmax.weight.detach().numpy(), softmax.bias.detach().squeeze(1).numpy()


# Values -------------------------------------------------------------------------------------------


def test_the_full_loss_is_the_oracles():
    softmax, h = filled(), vectors()
    expected = oracle.full_softmax_loss(h.numpy(), TARGETS.numpy(), *tables(softmax)).sum()
    assert softmax.loss(h, TARGETS, np.random.default_rng(0)).item() == pytest.approx(expected)


def test_the_sampled_loss_is_the_oracles_with_accidental_hits_removed():
    softmax, h = filled(), vectors()
    expected = oracle.sampled_softmax_loss(
        h.numpy(), TARGETS.numpy(), SAMPLES.numpy(), TRIES, *tables(softmax)
    ).sum()
    found = softmax.sampled_loss(h, TARGETS, SAMPLES, TRIES).item()
    assert found == pytest.approx(expected, rel=1e-12)


def test_the_log_of_expected_counts_is_the_oracles():
    p = oracle.log_uniform_probabilities(793_471)
    ids = torch.tensor([0, 1, 50, 793_470])
    expected = np.log(oracle.expected_counts(p, 20_000))[ids.numpy()]
    found = log_expected_counts(ids, 793_471, 20_000).numpy()
    np.testing.assert_allclose(found, expected, rtol=1e-9)


def test_log_probs_are_the_oracles_and_sum_to_one():
    softmax, h = filled(), vectors()
    expected = -oracle.full_softmax_loss(h.numpy(), TARGETS.numpy(), *tables(softmax))
    np.testing.assert_allclose(softmax.log_probs(h, TARGETS).numpy(), expected, rtol=1e-12)
    every = torch.stack([softmax.log_probs(h, torch.full((N,), k)) for k in range(V)])
    torch.testing.assert_close(every.exp().sum(0), torch.ones(N, dtype=torch.float64))


def test_log_probs_of_nothing_are_nothing():
    assert filled().log_probs(vectors()[:0], TARGETS[:0]).shape == (0,)


# Gradients ----------------------------------------------------------------------------------------


def full(h: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """The loss under test as a function of its numbers."""
    loss: Tensor = softmax_module._FullLoss.apply(h, weight, bias.squeeze(1), TARGETS)
    return loss


def sampled(h: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    ids = torch.cat([TARGETS, SAMPLES])
    rows, scores = weight[ids], bias[ids, 0] - log_expected_counts(ids, V, TRIES)
    parts = rows[:N], scores[:N], rows[N:], scores[N:]
    loss: Tensor = softmax_module._SampledLoss.apply(h, *parts, TARGETS, SAMPLES)
    return loss


def plain_full(h: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    return F.cross_entropy(h @ weight.T + bias[:, 0], TARGETS, reduction="sum")


def plain_sampled(h: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """The whole table of scores, everything but target and samples masked out: autograd's."""
    counts = log_expected_counts(torch.arange(V), V, TRIES)
    scores = h @ weight.T + bias[:, 0] - counts
    wanted = torch.zeros(N, V, dtype=torch.bool)
    wanted[:, SAMPLES] = True
    wanted[torch.arange(N), TARGETS] = True
    return F.cross_entropy(scores.masked_fill(~wanted, -torch.inf), TARGETS, reduction="sum")


def leaves() -> list[Tensor]:
    softmax = filled()
    numbers = (vectors(), softmax.weight.detach(), softmax.bias.detach())
    return [number.clone().requires_grad_(True) for number in numbers]


@pytest.mark.parametrize("loss", [full, sampled])
def test_gradients_equal_finite_differences(loss):
    assert torch.autograd.gradcheck(loss, leaves(), atol=1e-7)


@pytest.mark.parametrize(("mine", "plain"), [(full, plain_full), (sampled, plain_sampled)])
def test_losses_and_gradients_equal_plain_autograd(mine, plain):
    found, expected = leaves(), leaves()
    (3 * mine(*found)).backward()
    (3 * plain(*expected)).backward()
    torch.testing.assert_close(mine(*found), plain(*expected), rtol=1e-13, atol=0)
    for a, b in zip(found, expected, strict=True):
        torch.testing.assert_close(a.grad, b.grad, rtol=0, atol=1e-12)


def test_the_module_gives_sparse_gradients_that_add_up_to_the_plain_ones():
    softmax, h = filled(), vectors().requires_grad_(True)
    softmax.sampled_loss(h, TARGETS, SAMPLES, TRIES).backward()
    expected = leaves()
    plain_sampled(*expected).backward()
    assert softmax.weight.grad.is_sparse
    touched = {*TARGETS.tolist(), *SAMPLES.tolist()}
    assert set(softmax.weight.grad.coalesce().indices()[0].tolist()) == touched
    found = [h.grad, softmax.weight.grad.to_dense(), softmax.bias.grad.to_dense()]
    for a, b in zip(found, expected, strict=True):
        torch.testing.assert_close(a, b.grad, rtol=0, atol=1e-12)


@pytest.mark.parametrize("loss", [full, sampled])
@pytest.mark.parametrize("scores_in_a_slice", [1, 2 * V, 5 * len(SAMPLES)])
def test_how_it_is_sliced_does_not_matter(loss, scores_in_a_slice, monkeypatch):
    whole, cut = leaves(), leaves()
    expected = loss(*whole)
    expected.backward()
    monkeypatch.setattr(softmax_module, "_SCORES_IN_A_SLICE", scores_in_a_slice)
    found = loss(*cut)
    found.backward()
    torch.testing.assert_close(found, expected, rtol=1e-13, atol=0)
    for a, b in zip(cut, whole, strict=True):
        torch.testing.assert_close(a.grad, b.grad, rtol=0, atol=1e-12)


# Samples ------------------------------------------------------------------------------------------


def test_samples_are_distinct_words_and_took_as_many_tries_as_it_says():
    for seed in range(50):
        words, tries = log_uniform_sample(V, 12, np.random.default_rng(seed))
        assert len(set(words.tolist())) == 12
        assert words.min() >= 0
        assert words.max() < V
        # The same draws one at a time: the last word is new at the draw that `tries` counts.
        u = np.random.default_rng(seed).random(48)
        draws = np.floor(np.exp(u * np.log(V + 1))).astype(int) - 1
        if tries <= 48:
            assert len(set(draws[:tries])) == 12
            assert len(set(draws[: tries - 1])) == 11
            assert set(words.tolist()) == set(draws[:tries].tolist())


def test_all_words_but_one_can_be_drawn():
    words, tries = log_uniform_sample(200, 199, np.random.default_rng(0))
    assert len(set(words.tolist())) == 199
    assert tries > 199


def test_words_are_drawn_by_their_probability():
    """20,000 single draws; each frequency within 5 standard errors of P(k)."""
    n, rng = 20_000, np.random.default_rng(3)
    draws = [int(log_uniform_sample(V, 1, rng)[0][0]) for _ in range(n)]
    p = oracle.log_uniform_probabilities(V)
    frequency = np.bincount(draws, minlength=V) / n
    assert np.all(np.abs(frequency - p) < 5 * np.sqrt(p * (1 - p) / n))


def partitions(scores: Tensor, draw) -> tuple[float, float]:
    """Mean and standard error, over 600 draws, of Σ exp(score) / (chance to be sampled)."""
    rng, sums = np.random.default_rng(1), []
    for _ in range(600):
        words, tries = draw(rng)
        ids = torch.from_numpy(words)
        corrected = scores[ids] - log_expected_counts(ids, len(scores), tries)
        sums.append(float(corrected.exp().sum()))
    return float(np.mean(sums)), float(np.std(sums) / len(sums) ** 0.5)


def test_a_fixed_number_of_draws_expects_exactly_the_full_partition():
    """Within 4 standard errors, each under 2 %: here the expected counts are the true chances."""
    scores = torch.sin(torch.arange(V, dtype=torch.float64))

    def draw(rng: np.random.Generator) -> tuple[np.ndarray, int]:
        return rng.choice(V, 40, p=oracle.log_uniform_probabilities(V)), 40

    def distinct(rng: np.random.Generator) -> tuple[np.ndarray, int]:
        words, tries = draw(rng)
        return np.unique(words), tries

    full_sum = float(scores.exp().sum())
    mean, error = partitions(scores, distinct)
    assert error < 0.02 * full_sum
    assert abs(mean - full_sum) < 4 * error


def test_the_sampled_partition_expects_the_full_one():
    """Stopping at K distinct words ties `tries` to the draw, a bias that falls with K: at a tenth
    of 20,000 words none is seen within 4 standard errors of 0.15 %."""
    scores = torch.sin(0.37 * torch.arange(20_000, dtype=torch.float64))
    full_sum = float(scores.exp().sum())
    mean, error = partitions(scores, lambda rng: log_uniform_sample(20_000, 2000, rng))
    assert error < 0.002 * full_sum
    assert abs(mean - full_sum) < 4 * error


def test_more_samples_come_closer_to_the_full_loss():
    softmax, h = filled(), vectors()
    expected = softmax.loss(h, TARGETS, np.random.default_rng(0)).item()

    def distance(n_samples: int) -> float:
        softmax.n_samples = n_samples
        losses = [softmax.loss(h, TARGETS, np.random.default_rng(s)).item() for s in range(40)]
        return abs(float(np.mean(losses)) - expected) / expected

    few, many, nearly_all = distance(3), distance(15), distance(V - 1)
    assert nearly_all < many < few
    assert nearly_all < 0.005


# Torch's adaptive one, and building ---------------------------------------------------------------


def test_the_adaptive_softmax_agrees_with_torchs():
    torch.manual_seed(0)
    config = AdaptiveSoftmaxConfig(cutoffs=(5, 12), div_value=2.0)
    mine = AdaptiveSoftmax(V, P, config).double()
    theirs = nn.AdaptiveLogSoftmaxWithLoss(P, V, [5, 12], div_value=2.0, head_bias=True).double()
    theirs.load_state_dict(mine.inner.state_dict())
    h = vectors()
    every = theirs.log_prob(h)  # (N, V)
    expected = every.gather(1, TARGETS.unsqueeze(1)).squeeze(1)
    torch.testing.assert_close(mine.log_probs(h, TARGETS), expected.detach(), rtol=1e-12, atol=0)
    loss = mine.loss(h, TARGETS, np.random.default_rng(0))
    torch.testing.assert_close(loss, -expected.sum(), rtol=1e-12, atol=0)
    torch.testing.assert_close(every.exp().sum(1), torch.ones(N, dtype=torch.float64))


def test_the_config_decides_which_softmax_is_built():
    whole = build_softmax(FullSoftmaxConfig(), V, P)
    few = build_softmax(SampledSoftmaxConfig(n_samples=8), V, P)
    most = build_softmax(SampledSoftmaxConfig(n_samples=8192), V, P)
    clusters = build_softmax(AdaptiveSoftmaxConfig(cutoffs=(2000, 10000)), V, P)
    assert [whole.sparse, few.sparse, most.sparse, clusters.sparse] == [False, True, False, False]
    assert isinstance(few, Softmax)
    assert few.n_samples == 8
    assert isinstance(most, Softmax)
    assert most.n_samples is None, "drawing every word would be the full softmax, only slower"
    assert isinstance(clusters, AdaptiveSoftmax)
    assert clusters.out_features == V


def test_a_linear_layer_and_the_softmax_are_the_same_numbers():
    linear = nn.Linear(P, V).double()
    softmax = Softmax.from_linear(linear)
    expected = torch.log_softmax(linear(vectors()), -1).gather(1, TARGETS.unsqueeze(1)).squeeze(1)
    torch.testing.assert_close(softmax.log_probs(vectors(), TARGETS), expected.detach())
    back = softmax.linear()
    assert torch.equal(back.weight, linear.weight)
    assert torch.equal(back.bias, linear.bias)
