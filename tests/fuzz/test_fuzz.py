"""A few damaged files for every reader, always the same ones; hundreds with `-m slow`."""

import os
from typing import Any

import pytest

from tests.fuzz.campaign import GOOD, outcomes
from tests.fuzz.readers import READERS

FEW = 10
pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="mutants are opened in forks")


@pytest.fixture(scope="module")
def few() -> dict[str, list[Any]]:
    """One process for all readers, because torch takes seconds to import."""
    found: dict[str, list[Any]] = {}
    for outcome in outcomes([], FEW, 7, None):
        found.setdefault(outcome["reader"], []).append(outcome)
    return found


@pytest.mark.parametrize("reader", READERS)
def test_damaged_files_are_read_or_refused(few: dict[str, list[Any]], reader: str):
    assert len(few[reader]) == FEW
    assert [one for one in few[reader] if one["kind"] not in GOOD] == []


@pytest.mark.slow
@pytest.mark.parametrize("reader", READERS)
def test_hundreds_of_damaged_files_are_read_or_refused(reader: str):
    found = list(outcomes([reader], 300, 1, None))
    assert len(found) == 300
    assert [one for one in found if one["kind"] not in GOOD] == []
