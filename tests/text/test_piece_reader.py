"""How words become rows of pieces: marks, pairs, windows of long texts, and where each piece is."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elmore.errors import ConfigError, InputError
from elmore.text.piece_reader import PieceBatch, PieceReader, best_windows, window_starts
from elmore.text.reader import Input, Pair
from tests.oracle.bert import best_window
from tests.tiny_bert import tiny_wordpiece

WORDPIECE = tiny_wordpiece()
BEGIN, END = WORDPIECE.begin, WORDPIECE.end
WORDS = st.sampled_from(["the", "grassy", "bank", "x9z", "", "a.b", "東", "unseen"])
TEXTS = st.lists(WORDS, max_size=40)
INPUTS = st.one_of(TEXTS, st.builds(Pair, TEXTS, TEXTS))


def rows(batch: PieceBatch) -> list[list[int]]:
    return [list(row) for row in np.split(batch.ids, np.cumsum(batch.lengths)[:-1])]


def words_of(item: Input) -> list[str]:
    return [*item.first, *item.second] if isinstance(item, Pair) else list(item)


def test_a_text_stands_between_its_marks():
    batch = PieceReader(WORDPIECE, 24).read([["the", "grassy", "bank"]])
    pieces = [i for word in WORDPIECE.pieces(["the", "grassy", "bank"]) for i in word]
    assert rows(batch) == [[BEGIN, *pieces, END]]
    assert batch.words.tolist() == [0, 1, 1, 2]
    assert batch.places.tolist() == [1, 2, 3, 4]
    assert (batch.begins.tolist(), batch.n_words.tolist()) == ([0], [3])
    assert not batch.segments.any()


def test_a_pair_is_two_segments():
    batch = PieceReader(WORDPIECE, 24).read([Pair(["the"], ["bank", "the"])])
    the, bank = (WORDPIECE.ids[word] for word in ("the", "bank"))
    assert rows(batch) == [[BEGIN, the, END, bank, the, END]]
    assert batch.segments.tolist() == [0, 0, 0, 1, 1, 1]
    assert (batch.places.tolist(), batch.words.tolist()) == ([1, 3, 4], [0, 1, 2])


def test_empty_texts_are_marks_alone():
    batch = PieceReader(WORDPIECE, 24).read([[], Pair([], []), Pair([], ["the"])])
    assert rows(batch)[:2] == [[BEGIN, END], [BEGIN, END, END]]
    assert batch.n_words.tolist() == [0, 0, 1]
    assert len(PieceReader(WORDPIECE, 24).read([]).ids) == 0


@given(st.lists(INPUTS, max_size=6), st.integers(5, 30))
@settings(max_examples=150, deadline=None)
def test_every_piece_is_read_once_whatever_the_length(inputs: list[Input], positions: int):
    reader = PieceReader(WORDPIECE, positions)
    batch = reader.read(inputs)
    pieces = [word for item in inputs for word in WORDPIECE.pieces(words_of(item))]
    assert batch.ids[batch.places].tolist() == [i for word in pieces for i in word]
    assert np.bincount(batch.words, minlength=len(pieces)).tolist() == [*map(len, pieces)]
    assert batch.n_words.tolist() == [len(words_of(item)) for item in inputs]
    assert batch.lengths.tolist() == sorted(batch.lengths)
    assert batch.lengths.max(initial=0) <= positions
    assert batch.ids[batch.begins].tolist() == [BEGIN] * len(inputs)
    assert len(batch.segments) == len(batch.ids) == batch.lengths.sum()
    assert sum(reader.length(item) for item in inputs) == len(batch.ids)
    alone = [reader.read([item]) for item in inputs]
    assert sorted(row for one in alone for row in rows(one)) == sorted(
        rows(batch) if inputs else []
    )


@given(st.integers(0, 300), st.integers(1, 40))
def test_windows_cover_a_text_and_each_piece_is_where_it_has_most_context(n: int, size: int):
    starts = window_starts(n, size)
    windows = [(start, min(start + size, n)) for start in starts]
    assert windows[0][0] == 0
    assert windows[-1][1] == n
    assert all(b[0] <= a[1] - size // 2 for a, b in pairwise(windows))
    found, places = best_windows(n, size, starts)
    assert found.tolist() == [best_window(i, windows) for i in range(n)]
    assert places.tolist() == [i - starts[w] for i, w in enumerate(found)]


def test_a_short_text_is_whole_in_every_window_of_a_long_one():
    question, text = ["the", "bank"], ["grassy", "river"] * 20
    batch = PieceReader(WORDPIECE, 24).read([Pair(question, text)])
    ids = [WORDPIECE.ids[word] for word in question]
    assert len(rows(batch)) > 1
    assert all(row[:4] == [BEGIN, *ids, END] for row in rows(batch))


def test_too_few_positions_are_refused():
    with pytest.raises(ConfigError, match="expected 5 or more"):
        PieceReader(WORDPIECE, 4)


def test_one_segment_reads_no_pairs():
    reader = PieceReader(WORDPIECE, 24, pairs=False)
    assert len(reader.read([["the"]]).ids) == 3
    with pytest.raises(InputError, match="one segment"):
        reader.read([Pair(["the"], ["bank"])])


def test_a_word_that_is_too_long_is_reported():
    reader = PieceReader(WORDPIECE, 24)
    assert reader.cuts("a" * 101)
    assert not reader.cuts("a" * 100)
    assert not reader.cuts("a.b." * 30)  # split at its dots
