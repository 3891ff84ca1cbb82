"""docs/explorer.md tells the truth: its commands and its Python run on a small text."""

import shlex
from pathlib import Path

import pytest

from elmore.cli.main import main
from tests.test_documents import ROOT, blocks

DOCUMENT = "docs/explorer.md"
PYTHON = [text for language, text in blocks(DOCUMENT) if language == "python"]
COMMANDS = [text for language, text in blocks(DOCUMENT) if language == "console"]


@pytest.fixture
def text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A text with the words that the page speaks of, under the name of its corpus."""
    monkeypatch.chdir(tmp_path)
    lines = (ROOT / "examples" / "harbor.txt").read_text(encoding="utf-8")
    Path("wiki.train.txt").write_text(lines + "A cell of a plant .\n", encoding="utf-8")


@pytest.mark.usefixtures("text")
@pytest.mark.parametrize("block", PYTHON, ids=range(len(PYTHON)))
def test_every_python_block_runs(block: str):
    exec(compile(block, DOCUMENT, "exec"), {"__name__": "explorer"})


@pytest.mark.usefixtures("text")
def test_every_command_of_the_search_runs(capsys: pytest.CaptureFixture[str]):
    for command in COMMANDS[0].splitlines():
        assert main(shlex.split(command)[1:]) == 0, command
    assert "bank 1, 100% of 12 uses" in capsys.readouterr().out
    assert COMMANDS[1].startswith("elmore serve ")  # tests/cli/test_serve.py runs it
    assert len(COMMANDS) == 2
