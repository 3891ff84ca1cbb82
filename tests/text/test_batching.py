"""Sentences into batches: nothing lost, little padding, each distinct word spelled once."""

from time import process_time

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from elmore.text.batching import batches_by_length, windows
from elmore.text.byte_reader import ByteReader

SPELLER = ByteReader(12)


@given(st.lists(st.lists(st.sampled_from(["a", "bank", "", "<S>", "</S>", "naïve"]), max_size=7)))
def test_every_word_leads_back_to_its_own_spelling(sentences: list[list[str]]):
    batch = SPELLER.read(sentences)
    assert batch.index.shape[0] == len(sentences)
    assert len(np.unique(batch.spelled, axis=0)) == len(batch.spelled)
    for words, ids, length in zip(sentences, batch.index, batch.lengths, strict=True):
        marked = ["<S>", *words, "</S>"]
        assert length == len(marked)
        np.testing.assert_array_equal(batch.spelled[ids[:length]], SPELLER.spell(marked))
        assert not ids[length:].any()


def test_a_batch_of_nothing():
    batch = SPELLER.read([])
    assert batch.index.shape == (0, 2)
    assert batch.lengths.shape == (0,)


@given(st.lists(st.integers(2, 50)), st.integers(-3, 200))
def test_batches_hold_every_sentence_once_and_keep_to_the_budget(lengths: list[int], budget: int):
    batches = list(batches_by_length(lengths, budget))
    assert sorted(i for batch in batches for i in batch) == list(range(len(lengths)))
    for batch in batches:
        longest = max(lengths[i] for i in batch)
        assert len(batch) == 1 or len(batch) * longest <= budget
    seen = [lengths[i] for batch in batches for i in batch]
    assert seen == sorted(lengths, reverse=True)


def test_equal_lengths_keep_their_order():
    assert list(batches_by_length([5, 5, 5, 5], 10)) == [[0, 1], [2, 3]]


def test_many_sentences_take_time_in_proportion():
    """A batch must not copy all that remain: these took a minute when it did."""
    start = process_time()
    assert sum(1 for _ in batches_by_length([1] * 200_000, 1)) == 200_000
    assert process_time() - start < 5


@given(st.lists(st.integers(0, 9)), st.integers(1, 20), st.integers(1, 6))
def test_windows_keep_order_and_both_limits(sizes: list[int], max_words: int, max_items: int):
    items = [(i, size) for i, size in enumerate(sizes)]
    made = list(windows(items, max_words, max_items))
    assert [i for window in made for i in window] == list(range(len(sizes)))
    for window in made:
        assert 0 < len(window) <= max_items
        assert sum(sizes[i] for i in window[:-1]) < max_words


def test_windows_are_lazy():
    taken: list[int] = []
    items = ((taken.append(i) or i, 4) for i in range(100))
    assert next(windows(items, 10, 50)) == [0, 1, 2]
    assert taken == [0, 1, 2]
