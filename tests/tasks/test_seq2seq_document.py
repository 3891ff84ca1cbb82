"""docs/seq2seq.md tells the truth: its commands run, in order, on a few lines of data, with small
models and short trainings."""

import re
import shlex
from pathlib import Path

import pytest

from elmore.cli.main import main
from tests.tasks.tiny_texts import write_texts

ROOT = Path(__file__).resolve().parents[2]
BLOCK = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SHORT = {
    "pretrain": "--steps 2 --quiet --set model.context.dim=16 --set model.context.cell_dim=16 "
    "--set vocabulary.size=300",
    "task train": "--epochs 1 --quiet",
    "compare": "--epochs 1 --quiet",
}


@pytest.fixture
def reader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for package in ("tokenizers", "sacrebleu", "rouge_score"):
        pytest.importorskip(package)
    write_texts(tmp_path)
    (tmp_path / "new.de").write_text("Ein roter hund läuft.\nEin haus.\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_every_command_runs(reader: Path):
    document = (ROOT / "docs" / "seq2seq.md").read_text(encoding="utf-8")
    commands = [line for block in BLOCK.findall(document) for line in block.splitlines()]
    assert len(commands) == 10
    for command in commands:
        short = next(
            (add for name, add in SHORT.items() if command.startswith(f"elmore {name}")), ""
        )
        assert main([*shlex.split(command)[1:], *shlex.split(short)]) == 0, command
    assert (reader / "found.jsonl").read_text().count("\n") == 2
    assert "<svg" in (reader / "attention.svg").read_text()
    assert "<svg" in (reader / "compared" / "index.html").read_text()
