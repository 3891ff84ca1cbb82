"""Rows for masked language models: what stands in them, and the shares that are drawn."""

from collections.abc import Sequence

import numpy as np
import pytest

from elmore.pretrain.masked_instances import (
    Ids,
    Instance,
    InstancesConfig,
    Marks,
    instances,
    mask,
)

CLS, SEP, MASK, V = 1, 2, 3, 1000
MARKS = Marks(CLS, SEP, MASK, np.arange(V) % 3 == 2)  # every third piece continues a word


class Made:
    """Documents whose pieces say where they stand: no two sentences share one."""

    def __init__(self, lengths: Sequence[Sequence[int]]):
        starts = iter(range(10, V))
        self._all = [
            [np.array([next(starts) for _ in range(n)]) for n in sentences] for sentences in lengths
        ]

    def __len__(self) -> int:
        return len(self._all)

    def document(self, i: int) -> Sequence[Ids]:
        return self._all[i]


DOCUMENTS = Made([[3, 5, 2, 7, 4], [6], [2, 2, 2, 9, 1, 8], [30, 40]])


def drawn(i: int, seed: int, **settings: object) -> list[Instance]:
    config = InstancesConfig.model_validate({"length": 16, **settings})
    return list(instances(DOCUMENTS, i, config, MARKS, np.random.default_rng(seed)))


def texts(row: Instance) -> tuple[list[int], list[int]]:
    ids, segments = row.ids, row.segments
    assert ids[0] == CLS
    assert ids[-1] == SEP
    assert segments[0] == 0
    ends = np.flatnonzero(ids == SEP)
    first, second = ids[1 : ends[0]], ids[ends[0] + 1 : -1]
    assert (segments[: ends[0] + 1] == 0).all()
    assert (segments[ends[0] + 1 :] == 1).all()
    return list(first), list(second)


def home(piece: int) -> int:
    return next(i for i in range(len(DOCUMENTS)) for s in DOCUMENTS.document(i) if piece in s)


@pytest.mark.parametrize("i", range(4))
def test_rows_are_pairs_that_fit(i: int):
    for seed in range(200):
        for row in drawn(i, seed):
            first, second = texts(row)
            assert first
            assert second
            assert len(row.ids) <= 16
            assert {home(p) for p in first} == {i}
            assert (home(second[0]) == i) != row.random_next
            for text in (first, second):
                assert text == list(range(text[0], text[0] + len(text)))  # a run of the document


def test_no_sentence_of_a_document_is_left_out_but_what_is_cut():
    """With room for everything, the first texts and the real continuations cover the document."""
    everything = set(np.concatenate(DOCUMENTS.document(2)))
    for seed in range(50):
        seen: set[int] = set()
        for row in drawn(2, seed, length=400, short=0.0):
            first, second = texts(row)
            seen |= set(first) | (set() if row.random_next else set(second))
        assert seen == everything


def test_a_single_sentence_has_a_random_next():
    assert all(row.random_next for seed in range(20) for row in drawn(1, seed))


def test_half_of_the_rest_has():
    rows = [row for seed in range(500) for row in drawn(2, seed, length=400, short=0.0)]
    assert 0.5 < np.mean([row.random_next for row in rows]) < 0.7  # single sentences add to half


def test_without_pairs_the_text_runs_on():
    found = [row.ids[1:-1] for row in drawn(3, 0, next_sentence=False, short=0.0)]
    assert [len(f) for f in found] == [14, 14, 14, 14, 14]
    assert list(np.concatenate(found)) == list(np.concatenate(DOCUMENTS.document(3)))


def test_shares_of_masked_places():
    config = InstancesConfig(length=128)
    ids = np.concatenate([[CLS], np.arange(10, 136), [SEP]])
    rng = np.random.default_rng(0)
    found = [mask(ids, config, MARKS, rng) for _ in range(2000)]
    assert {len(m.places) for m in found} == {19}  # round(0.15 * 128)
    new = np.concatenate([m.ids[m.places] for m in found])
    old = np.concatenate([m.targets for m in found])
    assert abs(np.mean(new == MASK) - 0.8) < 0.01
    assert abs(np.mean(new == old) - 0.1) < 0.01
    places = np.concatenate([m.places for m in found])
    assert places.min() == 1
    assert places.max() == 126
    counts = np.bincount(places)[1:]
    assert counts.min() > 200  # each of 126 places about 302 times
    for m in found[:20]:
        untouched = np.setdiff1d(np.arange(len(ids)), m.places)
        assert (m.ids[untouched] == ids[untouched]).all()
        assert (m.targets == ids[m.places]).all()


def test_short_rows_have_one_and_long_ones_the_limit():
    rng = np.random.default_rng(0)
    assert len(mask(np.array([CLS, 10, SEP]), InstancesConfig(), MARKS, rng).places) == 1
    ids = np.concatenate([[CLS], np.arange(10, 500), [SEP]])
    assert len(mask(ids, InstancesConfig(), MARKS, rng).places) == 20


def test_whole_words():
    config, rng = InstancesConfig(whole_words=True), np.random.default_rng(0)
    ids = np.concatenate([[CLS], np.arange(10, 100), [SEP]])  # words: 10 11, 12, 13 14, 15, …
    for _ in range(100):
        chosen = set(mask(ids, config, MARKS, rng).targets)
        assert 0 < len(chosen) <= 14
        for piece in chosen:
            word = {piece} if piece % 3 == 0 else {piece // 3 * 3 + 1, piece // 3 * 3 + 2}
            assert word <= chosen
