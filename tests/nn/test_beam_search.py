"""Beam search against brute force on tiny vocabularies, and the ways in which it can go wrong."""

# B sentences, K hypotheses, V pieces, S source pieces
import itertools
import math
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from torch import Tensor

from elmore.errors import ConfigError
from elmore.nn.beam_search import Hypothesis, SearchConfig, Stepped, beam_search

BEGIN, END, N = 0, 1, 4  # two marks, two words


@dataclass(frozen=True)
class Prefixes:
    """The state of a table: what each hypothesis has written, and the number of each sentence."""

    written: list[list[tuple[int, ...]]]
    numbers: list[int]


class Table:
    """A model whose next-piece probabilities are drawn anew for every prefix and sentence, so that
    a state that follows the wrong hypothesis shows at once."""

    def __init__(self, n_pieces: int = N, n_source: int = 3, end: float = 0.0):
        self.n_pieces, self.n_source, self.end = n_pieces, n_source, end

    def start(self, numbers: list[int], beam: int) -> Prefixes:
        return Prefixes([[()] * beam for _ in numbers], numbers)

    def row(self, number: int, prefix: tuple[int, ...]) -> tuple[Tensor, Tensor]:
        rng = np.random.default_rng((number, *prefix, len(prefix)))
        scores = rng.normal(size=self.n_pieces) * 1.5
        scores[END] += self.end
        looks = rng.random(self.n_source)
        log_probs = torch.log_softmax(torch.from_numpy(scores), 0)
        return log_probs.float(), torch.from_numpy(looks / looks.sum()).float()

    def step(self, ids: Tensor, state: Prefixes) -> Stepped[Prefixes]:
        written = [
            [(*prefix, piece) for prefix, piece in zip(prefixes, row, strict=True)]
            for prefixes, row in zip(state.written, ids.tolist(), strict=True)
        ]
        rows = [
            [self.row(n, prefix) for prefix in prefixes]
            for n, prefixes in zip(state.numbers, written, strict=True)
        ]
        log_probs = torch.stack([torch.stack([p for p, _ in row]) for row in rows])
        attention = torch.stack([torch.stack([a for _, a in row]) for row in rows])
        return Stepped(log_probs, attention, Prefixes(written, state.numbers))

    def reorder(self, state: Prefixes, beams: Tensor) -> Prefixes:
        moved = [
            [prefixes[k] for k in row]
            for prefixes, row in zip(state.written, beams.tolist(), strict=True)
        ]
        return Prefixes(moved, state.numbers)

    def keep(self, state: Prefixes, sentences: Tensor) -> Prefixes:
        kept = sentences.tolist()
        return Prefixes([state.written[i] for i in kept], [state.numbers[i] for i in kept])


def search(
    table: Table, numbers: list[int], config: SearchConfig, n_best: int = 1
) -> list[list[Hypothesis]]:
    start, n_source = table.start(numbers, config.beam), [table.n_source] * len(numbers)
    return beam_search(table, start, n_source, config, begin=BEGIN, end=END, n_best=n_best)


def brute_force(table: Table, number: int, config: SearchConfig) -> list[tuple[float, tuple]]:
    """Every output there is, best first."""
    found = []
    words = [i for i in range(table.n_pieces) if i not in (BEGIN, END)]
    for n in range(config.min_length, config.max_length + 1):
        for ids in itertools.product(words, repeat=n):
            if config.no_repeat and _has_repeat(ids, config.no_repeat):
                continue
            total, looked = 0.0, torch.zeros(table.n_source)
            for i, piece in enumerate((*ids, END)):
                log_probs, attention = table.row(number, (BEGIN, *ids[:i]))
                total, looked = total + float(log_probs[piece]), looked + attention
            score = total / ((5 + n + 1) / 6) ** config.length_penalty
            score += config.coverage_penalty * float(looked.clamp(max=1).log().sum())
            score -= config.repeat_penalty * float((looked - 1).clamp(min=0).sum())
            found.append((score, ids))
    return sorted(found, reverse=True)


def _has_repeat(ids: tuple[int, ...], n: int) -> bool:
    grams = [ids[i : i + n] for i in range(len(ids) - n + 1)]
    return len(set(grams)) < len(grams)


@pytest.mark.parametrize(
    "settings",
    [
        {"length_penalty": 0.0},
        {"length_penalty": 1.0},
        {"length_penalty": 2.5, "min_length": 2},
        {"length_penalty": 0.7, "coverage_penalty": 0.4, "repeat_penalty": 0.3},
        {"min_length": 0},
        {"min_length": 3, "no_repeat": 2},
        {"min_length": 1, "no_repeat": 1},
    ],
    ids=str,
)
def test_a_beam_of_everything_finds_the_optimum(settings: dict):
    table = Table()
    config = SearchConfig(beam=4**4, max_length=4, max_ratio=None, **settings)
    for number, found in enumerate(search(table, list(range(6)), config, n_best=3)):
        best = brute_force(table, number, config)[:3]
        assert [h.ids for h in found] == [ids for _, ids in best]
        assert [h.score for h in found] == pytest.approx([score for score, _ in best], abs=1e-5)
        assert all(h.finished for h in found)


@pytest.mark.parametrize("beam", [1, 2, 5])
def test_batch_mates_change_nothing(beam: int):
    table = Table(n_pieces=9)
    config = SearchConfig(beam=beam, max_length=12, max_ratio=None)
    together = search(table, list(range(8)), config, n_best=min(beam, 3))
    for number, found in enumerate(together):
        (alone,) = search(table, [number], config, n_best=min(beam, 3))
        assert [h.ids for h in alone] == [h.ids for h in found]
        assert [h.score for h in alone] == pytest.approx([h.score for h in found], abs=1e-6)


def test_a_beam_of_one_is_greedy():
    table = Table(n_pieces=9)
    for number in range(6):
        config = SearchConfig(beam=1, max_length=8, max_ratio=None, length_penalty=0.0)
        ((found,),) = search(table, [number], config)
        ids: tuple[int, ...] = ()
        while len(ids) < 8:
            log_probs, _ = table.row(number, (BEGIN, *ids))
            log_probs[BEGIN] = -torch.inf
            if not ids:
                log_probs[END] = -torch.inf
            best = int(log_probs.argmax())
            if best == END:
                break
            ids = (*ids, best)
        assert found.ids == ids


def test_output_is_never_empty_unless_asked_for():
    table = Table(end=20.0)  # it would end at once
    (found,) = search(table, [0], SearchConfig(beam=3, max_length=5))
    assert len(found[0].ids) == 1
    (found,) = search(table, [0], SearchConfig(beam=3, max_length=5, min_length=0))
    assert found[0].ids == ()
    assert found[0].finished


def test_at_the_limit_the_unfinished_are_returned():
    table = Table(end=-1000.0)  # it never ends
    config = SearchConfig(beam=2, max_length=4, max_ratio=None)
    (found,) = search(table, [0], config, n_best=2)
    for h in found:
        assert not h.finished
        assert len(h.ids) == 4
        steps = [table.row(0, (BEGIN, *h.ids[:i]))[0][piece] for i, piece in enumerate(h.ids)]
        assert h.log_prob == pytest.approx(float(sum(steps)), abs=1e-4)
        assert h.attention.shape == (4, 3)


def test_the_search_goes_on_after_the_best_has_ended():
    """A short output ends first with the best sum, but a longer one is better when normalized."""

    class Two(Table):
        def row(self, number: int, prefix: tuple[int, ...]) -> tuple[Tensor, Tensor]:
            ends = {1: 0.05, 2: 0.5}.get(len(prefix), 0.001 if len(prefix) < 6 else 0.98)
            rest = (1 - ends) * 0.999
            found = torch.tensor([1e-9, ends, rest, (1 - ends) * 0.001])
            return found.log(), torch.ones(3) / 3

    (found,) = search(Two(), [0], SearchConfig(beam=2, max_length=10, max_ratio=None))
    expected = brute_force(Two(), 0, SearchConfig(beam=1, max_length=6, max_ratio=None))[0]
    assert found[0].ids == expected[1]
    assert len(found[0].ids) > 1


def test_attention_follows_its_hypothesis():
    table = Table(n_pieces=6)
    config = SearchConfig(beam=4, max_length=6, max_ratio=None)
    for number, found in enumerate(search(table, [0, 1, 2], config, n_best=3)):
        for h in found:
            n = len(h.ids) + h.finished
            looked = [table.row(number, (BEGIN, *h.ids[:i]))[1] for i in range(n)]
            torch.testing.assert_close(h.attention, torch.stack(looked))


def test_the_largest_length_follows_the_source():
    config = SearchConfig(max_length=50, max_ratio=2.0)
    assert [config.longest(n) for n in (1, 10, 100)] == [12, 30, 50]
    with pytest.raises(ValueError, match="min_length=9"):
        SearchConfig(min_length=9, max_length=5)


def test_more_outputs_than_hypotheses_are_refused():
    with pytest.raises(ConfigError, match="1 to 2, the beam"):
        search(Table(), [0], SearchConfig(beam=2), n_best=3)


def test_normalized_scores():
    """By hand: two pieces and the end, p = 0.5 each."""

    class Half(Table):
        def row(self, number: int, prefix: tuple[int, ...]) -> tuple[Tensor, Tensor]:
            best = 2 if len(prefix) < 3 else END
            found = torch.full((N,), 1e-9)
            found[best] = 0.5
            return found.log(), torch.ones(1)

    table = Half(n_source=1)
    ((found,),) = search(table, [0], SearchConfig(beam=1, max_length=5, length_penalty=2.0))
    assert found.ids == (2, 2)
    assert found.score == pytest.approx(3 * math.log(0.5) / (8 / 6) ** 2, rel=1e-6)
