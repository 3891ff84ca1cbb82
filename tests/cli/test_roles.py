"""`elmore task … srl` and `elmore compare srl` with every kind of encoder, on a few sentences."""

import json
from pathlib import Path

import pytest

from elmore.cli.main import main
from tests.tasks.bert_tasks import write_tiny_bert
from tests.tasks.tiny_roles import write_roles
from tests.tasks.tiny_tasks import write_static

SIZES = ("task.hidden=8", "task.n_layers=2", "task.mark_dim=4", "task.finder_hidden=6", "batch=4")
SMALL = ["--quiet", "--epochs", "1", *(part for size in SIZES for part in ("--set", size))]


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    names = enumerate(("train", "dev"))
    paths = [str(write_roles(tmp_path / f"{name}.jsonl", 8, seed)) for seed, name in names]
    return ["--train", paths[0], "--dev", paths[1]]


def test_trained_scored_and_used(
    files: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    folder = str(tmp_path / "m")
    assert main(["task", "train", "srl", *files, "--output", folder, *SMALL]) == 0
    assert main(["task", "evaluate", "srl", "--model", folder, "--test", files[-1], "--quiet"]) == 0
    figures = capsys.readouterr().out
    assert all(f"{name} f1 " in figures for name in ("verbs", "predicates"))
    (tmp_path / "new.txt").write_text("Bob chased the cat.\n\nOh!\n")
    new = [str(tmp_path / "new.txt"), "--model", folder, "--quiet"]
    assert main(["task", "predict", "srl", *new, "--html", str(tmp_path / "a.html")]) == 0
    first, second = map(json.loads, capsys.readouterr().out.splitlines())
    assert first["words"] == ["Bob", "chased", "the", "cat", "."]
    assert second["words"] == ["Oh", "!"]
    assert (tmp_path / "a.html").read_text().count("<section>") == 2
    assert main(["task", "predict", "ner", *new]) == 2
    assert "is a model for srl, not for ner" in capsys.readouterr().err
    for option in (["--n-best", "2"], ["--text"], ["--picture", str(tmp_path / "a.svg")]):
        assert main(["task", "predict", "srl", *new, *option]) == 2
        told = f"elmore: {option[0]} is for translate and summarize; leave it out.\n"
        assert capsys.readouterr() == ("", told)


def test_every_encoder_is_compared(
    files: list[str], tmp_path: Path, tiny_model: Path, capsys: pytest.CaptureFixture[str]
):
    lines = [
        json.loads(line)["words"] for f in files[1::2] for line in Path(f).read_text().splitlines()
    ]
    (tmp_path / "all.txt").write_text("".join(" ".join(words) + "\n" for words in lines))
    store = [str(tmp_path / "all.txt"), str(tmp_path / "s"), "--model", str(tiny_model)]
    assert main(["store", "fill", *store, "--quiet", "--as-is"]) == 0
    glove = f"glove:{write_static(tmp_path)}"
    bert = write_tiny_bert(tmp_path / "bert", max_positions=64)
    encoders = f"none,{glove},{glove}+{tiny_model},store:{tmp_path / 's'},bert:{bert}"
    capsys.readouterr()
    asked = ["--encoders", encoders, *files, "--test", files[-1], "--seeds", "1"]
    assert main(["compare", "srl", *asked, "--output", str(tmp_path / "out"), *SMALL]) == 0
    heading, _, *rows = capsys.readouterr().out.splitlines()
    names = [cell.strip() for cell in heading.strip("|").split("|")]
    assert names[2:8] == ["f1", "gain", "precision", "recall", "verbs f1", "others f1"]
    assert len(rows) == 5
    mixes = [row.strip("| ").split("|")[-1].strip() for row in rows]
    assert [bool(mix) and "input 0." in mix for mix in mixes] == [False, False, True, True, True]


def test_bad_files_are_one_line(files: list[str], capsys: pytest.CaptureFixture[str]):
    path = Path(files[-1])
    path.write_text('{"words": ["a"], "props": [{"predicate_index": 4, "tags": ["O"]}]}\n')
    assert main(["task", "train", "srl", *files, "--output", str(path.parent / "m")]) == 2
    err = capsys.readouterr().err
    assert "dev.jsonl, line 1: predicate 4, counted from 0, in a sentence of 1 words" in err
    assert err.count("\n") == 1
    path.write_text('{"words": ["Oh", "!"], "props": []}\n')
    alone = ["--train", str(path), "--dev", str(path), "--output", str(path.parent / "m")]
    assert main(["task", "train", "srl", *alone]) == 2
    assert "dev.jsonl: no sentence has a predicate" in capsys.readouterr().err
