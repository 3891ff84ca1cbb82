"""A few kills of every verb; many in `make test-slow`, and by hand as many as one likes."""

import pytest

from tests.kill.campaign import campaign
from tests.kill.verbs import VERBS


@pytest.mark.parametrize("name", VERBS)
def test_a_few_kills_lose_nothing(name: str):
    tally = campaign(name, 3)
    assert (tally.lost, tally.unequal) == (0, 0), "\n".join(tally.problems)


@pytest.mark.slow
@pytest.mark.parametrize("name", VERBS)
def test_many_kills_lose_nothing(name: str):
    tally = campaign(name, 145, seed=1)
    assert (tally.lost, tally.unequal) == (0, 0), "\n".join(tally.problems)
    assert tally.inside > 60
