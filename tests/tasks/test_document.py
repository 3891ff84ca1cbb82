"""docs/tasks.md tells the truth: its commands and its Python run, in order, on a few lines of data.
Trainings are cut to one epoch."""

import re
import runpy
import shlex
import shutil
import sys
from pathlib import Path

import pytest

from elmore.cli.main import main
from tests.tasks.bert_tasks import write_tiny_bert
from tests.tasks.contexts import write_semcor, write_set
from tests.tasks.tiny_data import squad, write_columns
from tests.tasks.tiny_documents import columns, document
from tests.tasks.tiny_roles import write_roles

ROOT = Path(__file__).resolve().parents[2]
DOCUMENT = ROOT / "docs" / "tasks.md"
BLOCK = re.compile(r"^```(console|python)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
TRAINS = ("elmore task train", "elmore compare")
SENSES = [[("river", None), ("bank", "bank%1:17:01::")], [("my", None), ("bank", "bank%1:14:00::")]]
WORDS = "1\tit\tit\tPRON\t_\t_\t0\troot\t_\t_\n2\trained\train\tVERB\t_\t_\t1\tx\t_\t_\n\n"
GAP = "1\tAnn met Eva. She left.\tShe\t13\tAnn\t0\tTRUE\tEva\t8\tFALSE\thttp://x\n"
PAIR = "board\tN\t2-2\tRoom and board .\tHe nailed boards across the windows .\n"


@pytest.fixture
def reader(tmp_path: Path, tiny_model: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Somebody with a model and files of every kind."""
    shutil.copytree(tiny_model, tmp_path / "my-model")
    write_tiny_bert(tmp_path / "my-bert", n_layers=3, max_positions=64)
    write_columns(tmp_path)
    (tmp_path / "new.txt").write_text("Bob saw Carla.\n")
    write_semcor(tmp_path / "semcor.jsonl", SENSES)
    for folder in ("sets", "wic"):
        (tmp_path / folder).mkdir()
    for name in ("semeval2007", "senseval2"):
        write_set(tmp_path / "sets" / f"{name}.data.xml", SENSES)
    for name in ("train", "dev", "test"):
        (tmp_path / "wic" / f"{name}.data.txt").write_text(PAIR)
        (tmp_path / "wic" / f"{name}.gold.txt").write_text("F\n")
        (tmp_path / f"ud.{name}.conllu").write_text(WORDS)
        write_roles(tmp_path / f"roles.{name}.jsonl", 12, seed=len(name))
        documents = "".join(columns(document(seed)) for seed in range(2))
        (tmp_path / f"coref.{name}.conll").write_text(documents)
    (tmp_path / "story.txt").write_text("Anna slept. The dog barked at her.\n")
    (tmp_path / "gap.tsv").write_text(GAP)
    for name in ("gold", "found"):
        (tmp_path / f"{name}.props").write_text("- (A0*)\nsee (V*)\n")
    (tmp_path / "questions.json").write_text(squad())
    (tmp_path / "answers.json").write_text('{"1": "Anna", "2": "Paris"}')
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_every_block_runs(reader: Path):
    for language, block in BLOCK.findall(DOCUMENT.read_text(encoding="utf-8")):
        if language == "python":
            exec(compile(block, str(DOCUMENT), "exec"), {"__name__": "document"})
            continue
        for command in block.splitlines():
            cut = ["--epochs", "1"] if command.startswith(TRAINS) else []
            assert main([*shlex.split(command)[1:], *cut]) == 0, command
    assert (reader / "found.jsonl").read_text().count("\n") == 1
    assert "<svg" in (reader / "ner-compared" / "index.html").read_text()
    assert (reader / "roles.found.jsonl").read_text().count("\n") == 1
    assert (reader / "clusters.jsonl").read_text().count("\n") == 1
    assert "Clusters of mentions" in (reader / "clusters.html").read_text()
    assert "Semantic roles" in (reader / "roles.html").read_text()
    assert "bert + tune" in (reader / "bert-compared" / "index.html").read_text()


def test_the_example_is_a_model_of_fifteen_lines():
    (block,) = (
        text for language, text in BLOCK.findall(DOCUMENT.read_text()) if language == "python"
    )
    model = block[block.index("class Tagger") : block.index("\n\n\nscores")]
    assert len([line for line in model.splitlines() if line.strip()]) <= 15


def test_the_example_of_a_model_of_ones_own_learns(
    tiny_model: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    example = str(ROOT / "examples" / "own_model.py")
    monkeypatch.syspath_prepend(ROOT / "examples")
    monkeypatch.setattr(sys, "argv", [example, str(tiny_model)])
    runpy.run_path(example, run_name="__main__")
    out = capsys.readouterr().out
    right, of = re.findall(r"\d+", out)[:2]
    assert int(right) > 0.7 * int(of)  # random vectors: the words alone must tell
    assert "γ = " in out
