"""No padding, and nothing lost: every word is read once in each direction, in its own order."""

import numpy as np
import pytest

from elmore.engine.lstm import plan

CASES = [[], [0], [1], [3, 3], [0, 5, 2, 0, 5, 1], [1000], list(range(40))]


@pytest.mark.parametrize("lengths", CASES, ids=str)
def test_each_row_reads_its_sentence_forwards_and_backwards(lengths: list[int]):
    work = plan(lengths)
    assert int(work.active.sum()) == sum(lengths) == len(work.reads[0]) == len(work.reads[1])
    offsets = np.cumsum(work.active) - work.active
    for row, (start, n) in enumerate(zip(work.starts, work.lengths, strict=True)):
        at = offsets[:n] + row
        assert (work.active[:n] > row).all()
        np.testing.assert_array_equal(work.reads[0][at], start + np.arange(n))
        np.testing.assert_array_equal(work.reads[1][at], start + np.arange(n)[::-1])
    for reads, places in zip(work.reads, work.places, strict=True):
        np.testing.assert_array_equal(reads[places], np.arange(sum(lengths)))


def test_rows_stand_by_falling_length_and_equals_keep_their_order():
    work = plan([2, 5, 2, 7])
    assert work.order.tolist() == [3, 1, 0, 2]
    assert work.lengths.tolist() == [7, 5, 2, 2]
    assert work.active.tolist() == [4, 4, 2, 2, 2, 1, 1]
