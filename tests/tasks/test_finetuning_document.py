"""docs/finetuning.md tells the truth: its commands run, in order, on a few lines of data, with
small models and short trainings."""

import random
import re
import shlex
from pathlib import Path

import pytest

from elmore.cli.main import main
from tests.tasks.bert_tasks import OPENINGS, write_tiny_bert

ROOT = Path(__file__).resolve().parents[2]
BLOCK = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
AWD = "--set model.context.dim=8 --set model.context.hidden_dim=12 --set model.context.n_layers=2"
SMALL = {
    "ulmfit-laptop": f"--steps 2 --set vocabulary.size=290 {AWD}",
    "ulmfit-tune": "--steps 2",
    "sa-lstm-laptop": "--steps 2 --set vocabulary.size=290 --set model.context.dim=8 "
    "--set model.context.cell_dim=8",
    "task train": "--epochs 2",
    "compare": "--epochs 1 --seeds 1 --fractions 1",
}


@pytest.fixture
def reader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    pytest.importorskip("tokenizers")
    rng = random.Random(0)
    nouns = {"river": "good", "money": "bad"}
    rows = [(" ".join((*rng.choice(OPENINGS), noun)), nouns[noun]) for noun in 20 * sorted(nouns)]
    lines = "".join(f"{text}\n" for text, _ in rows)
    for name in ("general.txt", "own.txt", "new.txt"):
        (tmp_path / name).write_text(lines)
    for name, some in {"train": rows[:24], "dev": rows[24:32], "test": rows[32:]}.items():
        table = "".join(f"{text}\t{label}\n" for text, label in some)
        (tmp_path / f"{name}.tsv").write_text(f"text\tlabel\n{table}")
    write_tiny_bert(tmp_path / "my-bert")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_every_command_runs(reader: Path, capsys: pytest.CaptureFixture[str]):
    document = (ROOT / "docs" / "finetuning.md").read_text(encoding="utf-8")
    commands = [line for block in BLOCK.findall(document) for line in block.splitlines()]
    assert len(commands) == 10
    for command in commands:
        short = next((f"{add} --quiet" for name, add in SMALL.items() if name in command), "")
        assert main([*shlex.split(command)[1:], *shlex.split(short)]) == 0, command
        if command.startswith("elmore task predict"):
            assert capsys.readouterr().out.count('"label"') == 40
    table = (reader / "compared" / "table.md").read_text()
    assert "peak MB" in table
    assert table.count("\n") == 2 + 5
