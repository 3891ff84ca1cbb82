"""The notebooks in examples/ run from top to bottom, and what they show is there. Their cells are
executed here without Jupyter, which they do not need."""

import ast
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"


def shown(notebook: str) -> tuple[list[Any], dict[str, Any]]:
    """The value of the last line of each code cell, as a notebook shows it, and all names."""
    content = json.loads((EXAMPLES / notebook).read_text(encoding="utf-8"))
    assert (content["nbformat"], content["nbformat_minor"]) == (4, 5)
    values: list[Any] = []
    names: dict[str, Any] = {"__name__": "notebook"}
    for cell in content["cells"]:
        assert set(cell) >= {"id", "cell_type", "metadata", "source"}
        if cell["cell_type"] != "code":
            continue
        assert cell["outputs"] == []  # kept without outputs, so that they cannot be out of date
        tree = ast.parse("".join(cell["source"]))
        last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
        exec(compile(tree, notebook, "exec"), names)
        if isinstance(last, ast.Expr):
            values.append(eval(compile(ast.Expression(last.value), notebook, "eval"), names))
        else:
            values.append(None)
    return values, names


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    shutil.copy(EXAMPLES / "harbor.txt", tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_senses_of_a_word(here: Path):
    pytest.importorskip("sklearn", reason="needs the extra search")
    (_, embedding, index, senses, near), names = shown("senses.ipynb")
    assert embedding._repr_html_().startswith("<table>")
    assert repr(index).startswith("<Index 'harbor.index'")
    assert "bank 1" in senses._repr_html_()
    assert len(near) == 5
    assert near._repr_html_().count("<b>bank</b>") == 5
    assert names["embedder"].dim > 0


def test_vectors_in_your_own_model(here: Path):
    (_, trained, loss, (right, of, weights)), _ = shown("own_model.ipynb")
    assert trained[0] < 10_000
    assert loss < 0.1
    assert right >= 3 * of / 4  # in sentences it has not seen
    assert sum(weights) == pytest.approx(1.0, abs=1e-5)
