"""Scores of spans against a plain network over whole span vectors, gradients against finite
differences, and pruning against its definition."""

import itertools

import numpy as np
import pytest
import torch
from torch import Tensor

from elmore.nn.antecedents import Antecedents, antecedent_loss, bucket, with_none
from elmore.nn.span_ranking import Spans, TextStates, keep_best

LENGTHS = [3, 1, 4]


def tiny_spans(max_width: int = 3) -> Spans:
    torch.manual_seed(1)
    return Spans(5, 4, max_width, feature_dim=2, hidden=6, dropout=0.3).double().eval()


def tiny_antecedents(**changes: object) -> Antecedents:
    torch.manual_seed(2)
    settings = {
        "pair_dim": None, "feature_dim": 2, "hidden": 6, "dropout": 0.0, "most": 3, "rounds": 1,
        "chunk": 10_000, **changes,
    }  # fmt: skip
    return Antecedents(7, **settings).double()  # type: ignore[arg-type]


def text(seed: int = 0, scale: float = 1.0) -> TextStates:
    made = torch.Generator().manual_seed(seed)
    n = sum(LENGTHS)
    inputs, states = (
        torch.randn(n, dim, generator=made, dtype=torch.float64) * scale for dim in (5, 4)
    )
    return TextStates(inputs.requires_grad_(), states.requires_grad_(), LENGTHS)


def spans_in_sentences(max_width: int) -> set[tuple[int, int]]:
    begins = np.cumsum([0, *LENGTHS])
    return {
        (a, b)
        for begin, end in itertools.pairwise(begins.tolist())
        for a in range(begin, end)
        for b in range(a, min(a + max_width, end))
    }


@pytest.mark.parametrize("scale", [1.0, 30.0])
@pytest.mark.parametrize("max_width", [1, 3, 10])
def test_candidates_are_scored_as_by_one_network_over_whole_vectors(max_width: int, scale: float):
    spans, words = tiny_spans(max_width), text(scale=scale)
    found = spans.candidates(words)
    pairs = list(zip(found.first.tolist(), found.last.tolist(), strict=True))
    assert len(pairs) == len(set(pairs))
    assert set(pairs) == spans_in_sentences(max_width)
    vectors = spans(words, found.first, found.last)
    parts = [spans.of_first, spans.of_last, spans.of_head, spans.of_width]
    whole = torch.cat([part.weight for part in parts], dim=1)
    expected = spans.score(vectors @ whole.T + spans.of_first.bias)
    torch.testing.assert_close(found.scores, expected, rtol=1e-9, atol=1e-9)


def test_the_head_is_the_attended_mean_of_the_inputs():
    spans, words = tiny_spans(), text()
    vector = spans(words, torch.tensor([4]), torch.tensor([6]))[0]
    logits = [spans.attend(words.states[i]).item() for i in (4, 5, 6)]
    weights = np.exp(logits) / np.exp(logits).sum()
    head = sum(
        w * words.inputs[i].detach().numpy() for w, i in zip(weights, (4, 5, 6), strict=True)
    )
    np.testing.assert_allclose(vector[8:13].detach().numpy(), head, rtol=1e-12)
    np.testing.assert_array_equal(vector[13:].detach(), spans.width.weight[2].detach())


def numeric_gradient(loss: object, tensor: Tensor, at: int, step: float = 1e-6) -> float:
    flat = tensor.data.view(-1)
    kept = flat[at].item()
    values = []
    for moved in (kept + step, kept - step):
        flat[at] = moved
        values.append(loss().item())  # type: ignore[operator]
    flat[at] = kept
    return (values[0] - values[1]) / (2 * step)


@pytest.mark.parametrize(("rounds", "pair_dim"), [(1, None), (2, 3)])
def test_gradients_of_the_whole_scorer_are_those_of_finite_differences(
    rounds: int, pair_dim: int | None
):
    spans, words = tiny_spans(), text()
    links = Antecedents(
        spans.dim, pair_dim=pair_dim, feature_dim=2, hidden=6, dropout=0.0, most=3,
        rounds=rounds, chunk=4,
    ).double()  # fmt: skip
    torch.nn.init.normal_(links.coarse.weight, std=0.3)  # else its part is too small to see
    first, last = torch.tensor([0, 1, 3, 4, 6]), torch.tensor([1, 1, 3, 6, 7])
    gold, match = torch.tensor([0, -1, 0, 1, 0]), torch.randint(0, 3, (5, 5))

    def loss() -> Tensor:
        found = spans.candidates(words)
        pairs = list(zip(found.first.tolist(), found.last.tolist(), strict=True))
        kept = [pairs.index(pair) for pair in zip(first.tolist(), last.tolist(), strict=True)]
        others, scores = links(spans(words, first, last), found.scores[kept], match)
        return antecedent_loss(scores, others, gold) + found.scores.sigmoid().sum()

    loss().backward()
    rng = np.random.default_rng(0)
    tensors = [words.inputs, words.states, *spans.parameters(), *links.parameters()]
    for tensor in tensors:
        assert tensor.grad is not None
        for at in rng.integers(tensor.numel(), size=4).tolist():
            expected = numeric_gradient(loss, tensor, at)
            assert tensor.grad.view(-1)[at].item() == pytest.approx(expected, rel=1e-5, abs=1e-7)


# Pruning ------------------------------------------------------------------------------------------


def crosses(one: tuple[int, int], other: tuple[int, int]) -> bool:
    (a, b), (c, d) = one, other
    return a < c <= b < d or c < a <= d < b


@pytest.mark.parametrize("seed", range(20))
def test_pruning_is_greedy_and_never_crosses(seed: int):
    rng = np.random.default_rng(seed)
    n = 8
    spans = [(a, b) for a in range(n) for b in range(a, n)]
    scores = rng.integers(0, 12, size=len(spans)).astype(np.float64)  # many are equal
    for most in (1, 3, 7, 100):
        expected: list[tuple[int, int]] = []
        for i in sorted(range(len(spans)), key=lambda i: -scores[i]):
            if len(expected) < most and not any(crosses(spans[i], kept) for kept in expected):
                expected.append(spans[i])
        found = [spans[i] for i in keep_best(np.array(spans).T, scores, most)]
        assert found == sorted(expected)


# Antecedents --------------------------------------------------------------------------------------


def scored(links: Antecedents, k: int = 6) -> tuple[Tensor, Tensor]:
    made = torch.Generator().manual_seed(3)
    spans = torch.randn(k, 7, generator=made, dtype=torch.float64)
    mention = torch.randn(k, generator=made, dtype=torch.float64)
    match = torch.randint(0, 3, (k, k), generator=made)
    return links(spans, mention, match)


def test_pairs_are_scored_as_by_one_network_over_whole_pairs():
    links = tiny_antecedents(most=10).eval()
    others, scores = scored(links)
    made = torch.Generator().manual_seed(3)
    g = torch.randn(6, 7, generator=made, dtype=torch.float64)
    mention = torch.randn(6, generator=made, dtype=torch.float64)
    match = torch.randint(0, 3, (6, 6), generator=made)
    parts = [links.of_span, links.of_other, links.of_product, links.of_distance, links.of_match]
    whole = torch.cat([part.weight for part in parts], dim=1)
    for i in range(6):
        for j in range(6):
            at = others[i].tolist().index(j)
            if j >= i:
                assert scores[i, at] == -torch.inf
                continue
            distance, same = links.distance.weight[i - j - 1], links.match.weight[match[i, j]]
            pair = torch.cat([g[i], g[j], g[i] * g[j], distance, same])
            coarse = mention[i] + mention[j] + (links.coarse.weight @ g[i]) @ g[j]
            expected = coarse + links.score(whole @ pair + links.of_span.bias)
            torch.testing.assert_close(scores[i, at], expected, rtol=1e-9, atol=1e-9)


def test_only_the_best_by_the_coarse_score_are_antecedents():
    every, few = tiny_antecedents(most=6).eval(), tiny_antecedents(most=2).eval()
    for row, (all_of, some) in enumerate(zip(scored(every)[0], scored(few)[0], strict=True)):
        usable = min(2, row)
        assert all_of[:usable].tolist() == some[:usable].tolist()


@pytest.mark.parametrize("rounds", [1, 2])
def test_chunks_and_recomputation_change_nothing(rounds: int):
    results = []
    for chunk in (1, 4, 10_000):
        links = tiny_antecedents(chunk=chunk, rounds=rounds).train()
        others, scores = scored(links)
        antecedent_loss(scores, others, torch.tensor([0, 1, 0, 1, 0, -1])).backward()
        grads = [p.grad for p in links.parameters() if p.grad is not None]
        results.append([scores.detach(), *grads])
    for other in results[1:]:
        for one, two in zip(results[0], other, strict=True):
            torch.testing.assert_close(one, two, rtol=1e-12, atol=1e-12)


def test_dropout_is_the_same_when_pairs_are_computed_again():
    """Finite differences under one seed: both passes must draw the same."""
    links = tiny_antecedents(chunk=3, dropout=0.4).train()

    def loss() -> Tensor:
        torch.manual_seed(5)
        others, scores = scored(links)
        return antecedent_loss(scores, others, torch.tensor([0, 1, 0, 1, 0, -1]))

    loss().backward()
    weight = links.of_product.weight
    assert weight.grad is not None
    for at in range(0, weight.numel(), 5):
        expected = numeric_gradient(loss, weight, at)
        assert weight.grad.view(-1)[at].item() == pytest.approx(expected, rel=1e-5, abs=1e-8)


def test_the_loss_sums_over_all_right_antecedents():
    """Worked by hand: span 1 refers to span 0 (score 1); span 2 to span 0 or 1 (scores 2 and 0),
    span 3 to nothing (scores 1, -1, 0)."""
    inf = torch.inf
    others = torch.tensor([[0, 1, 2], [0, 1, 2], [0, 1, 2], [0, 1, 2]])
    scores = torch.tensor([[-inf, -inf, -inf], [1, -inf, -inf], [2, 0, -inf], [1, -1, 0]])
    gold = torch.tensor([0, 0, 0, -1])
    e = np.exp
    expected = [
        0.0,
        np.log(1 + e(1)) - 1,
        np.log(1 + e(2) + 1) - np.log(e(2) + 1),
        np.log(1 + e(1) + e(-1) + 1),
    ]
    assert antecedent_loss(scores, others, gold).item() == pytest.approx(sum(expected), rel=1e-6)


def test_a_span_whose_antecedents_were_pruned_refers_to_none():
    scores, others = torch.tensor([[3.0]]), torch.tensor([[0]])
    found = antecedent_loss(scores, others, torch.tensor([-1])).item()
    assert found == pytest.approx(np.log(1 + np.exp(3.0)), rel=1e-6)
    assert with_none(scores).tolist() == [[0.0, 3.0]]


def test_distances_fall_into_nine_buckets():
    first = {1: 0, 2: 1, 3: 2, 4: 3, 5: 4, 7: 4, 8: 5, 15: 5, 16: 6, 31: 6, 32: 7, 63: 7, 64: 8}
    found = bucket(torch.tensor([*first, 10_000, -3])).tolist()
    assert found == [*first.values(), 8, 0]
