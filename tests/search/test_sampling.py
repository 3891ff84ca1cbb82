"""Which uses are taken: as many as allowed, spread over the corpus."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elmore.errors import ConfigError, InputError
from elmore.search.sampling import UsePlan, choose_words


@given(st.integers(1, 300), st.integers(1, 40))
def test_as_many_uses_as_allowed_are_taken_at_even_distances(n: int, most: int):
    plan = UsePlan({"a": n}, most)
    taken = [i for i in range(n) if plan.positions(["a"])]
    assert len(taken) == min(n, most)
    gaps = {after - before for before, after in pairwise(taken)}
    assert not gaps or max(gaps) - min(gaps) <= 1


def test_words_that_are_not_listed_are_passed_over():
    assert UsePlan({"a": 1, "c": 2}, 9).positions(["a", "b", "c", "c"]) == [0, 2, 3]


def test_the_most_frequent_words_are_chosen_and_ties_go_by_spelling():
    counts = {"b": 2, "a": 2, "c": 5, "d": 1}
    assert choose_words(counts, 2) == {"c": 5, "a": 2}
    assert choose_words(counts, None) == counts
    assert choose_words(counts, ["d", "absent"]) == {"d": 1}


def test_what_is_no_choice_is_said():
    with pytest.raises(ConfigError, match="words is 0"):
        choose_words({"a": 1}, 0)
    with pytest.raises(ConfigError, match="words is 'bank'"):
        choose_words({"a": 1}, "bank")
    with pytest.raises(InputError, match="None of the words"):
        choose_words({"a": 1}, ["b"])
