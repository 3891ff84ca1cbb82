"""The CRF against the definition: every label sequence written out and summed, in float64."""

import itertools

import pytest
import torch
from torch import Tensor

from elmore.nn.crf import CRF

K, T = 4, 4
LENGTHS = (4, 2, 1)
WORDS = torch.tensor([[i < n for i in range(T)] for n in LENGTHS])


def make(seed: int, *, forbid: bool = True, scale: float = 3.0) -> tuple[CRF, Tensor]:
    torch.manual_seed(seed)
    allowed = torch.ones(K + 1, K + 1, dtype=torch.bool)
    if forbid:
        allowed[1, 2] = allowed[K, 3] = allowed[2, K] = False
    crf = CRF(allowed).double()
    torch.nn.init.normal_(crf.transitions)
    scores = scale * torch.randn(len(LENGTHS), T, K, dtype=torch.float64)
    return crf, scores.requires_grad_()


def written_out(crf: CRF, scores: Tensor, b: int) -> tuple[list[tuple[int, ...]], Tensor]:
    """Every label sequence of sentence b, and its score by the definition."""
    n = LENGTHS[b]
    pairs = crf.transitions + crf.barrier
    paths = list(itertools.product(range(K), repeat=n))
    totals = []
    for path in paths:
        marked = [K, *path, K]
        steps = [pairs[i, j] for i, j in itertools.pairwise(marked)]
        totals.append(sum(steps) + sum(scores[b, t, label] for t, label in enumerate(path)))
    return paths, torch.stack(totals)


@pytest.mark.parametrize("seed", range(5))
def test_likelihood_and_gradients_are_those_of_all_sequences_written_out(seed: int):
    crf, scores = make(seed)
    labels = torch.tensor([[0, 1, 0, 1], [1, 0, 3, 3], [0, 2, 2, 2]])  # beyond the end: anything
    expected = []
    for b, n in enumerate(LENGTHS):
        paths, totals = written_out(crf, scores, b)
        gold = paths.index(tuple(labels[b, :n].tolist()))
        expected.append(totals[gold] - torch.logsumexp(totals, dim=0))
    reference, weights = torch.stack(expected), torch.tensor([1.0, 2.0, -0.5]).double()
    found = crf(scores, labels, WORDS)
    torch.testing.assert_close(found, reference, rtol=0, atol=1e-10)
    inputs = [scores, crf.transitions]
    want = torch.autograd.grad((reference * weights).sum(), inputs)
    have = torch.autograd.grad((found * weights).sum(), inputs)
    for a, b in zip(have, want, strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=1e-10)


@pytest.mark.parametrize("seed", range(5))
def test_decoding_finds_the_best_of_all_sequences(seed: int):
    crf, scores = make(seed)
    best = []
    for b in range(len(LENGTHS)):
        paths, totals = written_out(crf, scores, b)
        best.append(list(paths[int(totals.argmax())]))
    assert crf.decode(scores, WORDS) == best


def test_what_is_forbidden_is_never_decoded_however_high_it_scores():
    crf, scores = make(0)
    with torch.no_grad():
        scores[0, :, 1], scores[0, 1, 2] = 50.0, 200.0  # asks for 1 2, which may not be
    labels = crf.decode(scores, WORDS)[0]
    assert (1, 2) not in itertools.pairwise(labels)
    assert labels[1] == 2  # and yet the best of what may be


def test_probabilities_of_allowed_sequences_sum_to_one():
    crf, scores = make(1)
    allowed = [
        path
        for path in itertools.product(range(K), repeat=2)
        if path[0] != 3 and path != (1, 2) and path[1] != 2
    ]
    rows = torch.tensor(allowed)
    repeated = scores[1, :2].expand(len(rows), -1, -1)
    mask = torch.ones_like(rows, dtype=torch.bool)
    total = crf(repeated, rows, mask).exp().sum().item()
    assert total == pytest.approx(1.0, abs=1e-9)


def test_large_scores_stay_numbers():
    crf, scores = make(2, scale=3000.0)
    likelihood = crf(scores, torch.tensor([[0, 1, 0, 1], [1, 0, 0, 0], [0, 0, 0, 0]]), WORDS)
    likelihood.sum().backward()
    assert scores.grad is not None
    assert torch.isfinite(likelihood).all()
    assert torch.isfinite(scores.grad).all()


def test_a_sentence_does_not_depend_on_its_batch_mates():
    crf, scores = make(3)
    labels = torch.zeros(3, T, dtype=torch.long)
    alone = crf(scores[1:2, :2], labels[1:2, :2], WORDS[1:2, :2])
    torch.testing.assert_close(crf(scores, labels, WORDS)[1:2], alone, rtol=0, atol=1e-12)
