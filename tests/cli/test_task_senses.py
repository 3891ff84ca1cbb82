"""`elmore task evaluate wsd|wic|probes` on files of a few lines: tables, JSON, refusals."""

import json
from pathlib import Path

import pytest

from elmore.cli.main import main
from tests.tasks.contexts import write_semcor, write_set
from tests.tasks.tiny_data import write_columns

SHORE, MONEY = "bank%1:17:01::", "bank%1:14:00::"
KNOWN = [[("river", None), ("bank", SHORE)], [("savings", None), ("bank", MONEY)]]
CONLLU = "1\tit\tit\tPRON\t_\t_\t0\troot\t_\t_\n2\trained\train\tVERB\t_\t_\t1\tx\t_\t_\n\n"
PAIR = "board\tN\t2-2\tRoom and board .\tHe nailed boards across the windows ."


@pytest.fixture
def senses(tmp_path: Path) -> list[str]:
    """The options of a tiny SemCor, a development set and a test set."""
    write_semcor(tmp_path / "semcor1.jsonl", KNOWN)
    write_set(tmp_path / "semeval2007.data.xml", KNOWN)
    write_set(tmp_path / "senseval2.data.xml", [*KNOWN, [("new", "unseen%1:03:00::")]])
    return [f"--semcor={tmp_path / 'semcor*.jsonl'}", f"--sets={tmp_path / '*.data.xml'}"]


def evaluate(name: str, *arguments: object) -> int:
    return main(["task", "evaluate", name, *map(str, arguments)])


def test_senses_of_every_layer_and_rule_in_one_table(
    senses: list[str], tiny_model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    written = tmp_path / "wsd.json"
    assert evaluate("wsd", "--encoder", tiny_model, *senses, "--json", written) == 0
    out, err = capsys.readouterr()
    assert err.startswith("1 instances have a lemma that is not in SemCor")
    table = json.loads(written.read_text())
    assert [row["vectors"] for row in table] == [
        "first sense", *(name for name in ("layer 0", "layer 1", "layer 2", "average")
                         for _ in range(2)),
    ]  # fmt: skip
    assert len(out.splitlines()) == 2 + len(table)
    assert sum(row["chosen"] for row in table) == out.count(" yes |") == 1


def test_vectors_are_kept_when_asked_and_change_nothing_then(
    senses: list[str], tiny_model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    for _ in range(2):
        kept = ["--cache", tmp_path / "kept", "--quiet"]
        assert evaluate("wsd", "--encoder", tiny_model, *senses, *kept) == 0
    first, second = capsys.readouterr().out.split("| vectors ")[1:]
    assert first == second
    assert list((tmp_path / "kept").glob("*.store"))


def test_static_vectors_stand_beside_a_model(
    senses: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    write_columns(tmp_path)
    assert evaluate("wsd", "--encoder", f"glove:{tmp_path / 'glove.txt'}", *senses) == 0
    assert "| layer 1 " in capsys.readouterr().out


def test_wic_and_probes(
    senses: list[str], tiny_model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    for name in ("train", "test"):
        (tmp_path / f"{name}.data.txt").write_text(f"{PAIR}\n{PAIR}\n")
        (tmp_path / f"{name}.gold.txt").write_text("T\nT\n")
        (tmp_path / f"{name}.conllu").write_text(CONLLU)
    files = [f"--{name}={tmp_path / name}.data.txt" for name in ("train", "test")]
    assert evaluate("wic", "--encoder", tiny_model, *files) == 0
    assert "| all layers " in capsys.readouterr().out
    files = [f"--{name}={tmp_path / name}.conllu" for name in ("train", "test")]
    assert evaluate("probes", "--encoder", tiny_model, *files, *senses, "--quiet") == 0
    heading, _, *rows = capsys.readouterr().out.splitlines()
    assert [cell.strip() for cell in heading.split("|")[1:-1]] == ["vectors", "POS", "WSD"]
    assert len(rows) == 5


def test_words_longer_than_the_model_reads_are_told(
    tiny_model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    for name in ("train", "test"):
        (tmp_path / f"{name}.data.txt").write_text(f"{PAIR.replace('.', 'x' * 70)}\n")
        (tmp_path / f"{name}.gold.txt").write_text("T\n")
    files = [f"--{name}={tmp_path / name}.data.txt" for name in ("train", "test")]
    for kept in ([], ["--cache", tmp_path / "kept"]):
        assert evaluate("wic", "--encoder", tiny_model, *files, *kept) == 0
        assert f"1 different words are longer than {tiny_model} reads" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--encoder=none"], "one model"),
        (["--encoder=glove:a+b"], "one model"),
        (["--encoder=absent-model"], "absent-model"),
        (["--sets=absent*.data.xml"], "absent*.data.xml"),
        (["--dev=semeval2013"], "semeval2013"),
    ],
)
def test_refusals_are_one_line(
    arguments: list[str],
    said: str,
    senses: list[str],
    tiny_model: Path,
    capsys: pytest.CaptureFixture[str],
):
    assert evaluate("wsd", f"--encoder={tiny_model}", *senses, *arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("elmore: ")
    assert err.count("\n") == 1
    assert said in err
