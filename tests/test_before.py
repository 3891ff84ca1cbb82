"""What the version before has written opens, goes on and gives the same: native folders, stores,
indexes, dumps, tasks, comparisons and stopped runs, as they lie in tests/before.

What is read, hashed or stored must be equal. What is computed may differ in its last bits, because
CPUs differ; how far is said in `TOLERANCES`.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.before.answers import CASES, HERE, answer, copied, is_computed

# Each is for numbers about 1, and grows with larger ones. They are some times what another set of
# instructions has made of it (vectors 1e-6, weights 5e-5). In resumed training a difference in the
# last bit grows with every step. Vectors that go into a store are rounded there, to float16 or to
# int8: a last bit may push them to the next number of that.
TOLERANCES = {
    "models": 3e-6,
    "stores": 2e-2,
    "indexes": 1e-3,
    "dumps": 1e-6,
    "runs": 5e-4,
    "tasks": 1e-3,
    "compare": 1e-3,
}


@pytest.fixture(scope="module")
def expected() -> dict[str, Any]:
    exact = json.loads((HERE / "expected.json").read_text(encoding="utf-8"))
    with np.load(HERE / "expected.npz") as arrays:
        return {**exact, **{name: arrays[name] for name in arrays}}


@pytest.mark.parametrize(("group", "name"), CASES)
def test_the_answers_are_those_of_the_version_before(
    group: str,
    name: str,
    expected: dict[str, Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(copied(tmp_path / "before"))
    found = {f"{group}/{name}/{key}": value for key, value in answer(group, name).items()}
    wanted = {key: expected[key] for key in expected if key.startswith(f"{group}/{name}/")}
    assert found.keys() == wanted.keys()
    for key, value in found.items():
        if is_computed(value):
            assert value.shape == wanted[key].shape, key
            off = np.abs(value - wanted[key]) / np.maximum(1, np.abs(wanted[key]))
            assert off.max(initial=0.0) <= TOLERANCES[group], key
        else:
            assert json.loads(json.dumps(value)) == wanted[key], key
