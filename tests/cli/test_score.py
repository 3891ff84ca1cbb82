"""`elmore score` from the outside: tables, JSON, what is told and what is refused."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from elmore.cli.main import main
from tests.shared import SHARED, needs
from tests.tasks.tiny_data import squad

GOLD = "- (A0*)\nsee (V*)\n- (A1*)\n\nrun (V*)\n"
FOUND = "- (A0*)\nsee (V*)\n- (A2*)\n\n-\n"
SRL = """\
|         | correct | excess | missed | precision | recall |     f1 |
| ------- | ------: | -----: | -----: | --------: | -----: | -----: |
| overall |       1 |      1 |      1 |     50.00 |  50.00 |  50.00 |
| A0      |       1 |      0 |      0 |    100.00 | 100.00 | 100.00 |
| A1      |       0 |      0 |      1 |      0.00 |   0.00 |   0.00 |
| A2      |       0 |      1 |      0 |      0.00 |   0.00 |   0.00 |
| V       |       1 |      0 |      1 |    100.00 |  50.00 |  66.67 |
2 sentences, 2 propositions, 50.00 % of them perfect; V is not counted in overall
"""


def write(path: Path, text: str) -> str:
    path.write_text(text)
    return str(path)


@pytest.fixture
def props(tmp_path: Path) -> list[str]:
    return [write(tmp_path / "gold.props", GOLD), write(tmp_path / "found.props", FOUND)]


def test_roles_as_a_table(props: list[str], capsys: pytest.CaptureFixture[str]):
    assert main(["score", "srl", *props]) == 0
    out, err = capsys.readouterr()
    assert out == SRL  # `run` has no argument to miss: it is perfect, as in the script
    assert err == "1 gold propositions have no predicted one: all their arguments are missed\n"


def test_roles_as_json_have_every_digit(props: list[str], capsys: pytest.CaptureFixture[str]):
    assert main(["score", "srl", *props, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert list(found) == ["overall", "labels"]
    assert found["labels"]["V"] == {
        "correct": 1, "excess": 0, "missed": 1, "precision": 100, "recall": 50, "f1": 100 * (2 / 3),
    }  # fmt: skip
    assert found["overall"] == {
        "correct": 1, "excess": 1, "missed": 1, "precision": 50, "recall": 50, "f1": 50,
        "perfect": 50, "propositions": 2, "sentences": 2,
    }  # fmt: skip


def test_roles_in_json_lines_have_the_same_figures(
    props: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    """Gold as training reads it, predictions as `task predict srl` writes them."""

    def tags(last: str) -> list[str]:
        return ["B-A0", "B-V", f"B-{last}"]

    def line(words: list[str], kind: str, *found: dict[str, Any]) -> str:
        return json.dumps({"words": words, kind: found}) + "\n"

    see, run = ["I", "see", "it"], ["run"]
    gold = line(see, "props", {"predicate_index": 1, "lemma": "SEE", "tags": tags("A1")})
    gold += line(run, "props", {"predicate_index": 0, "tags": ["B-V"]})
    found = line(see, "propositions", {"index": 1, "predicate": "see", "tags": tags("A2")})
    found += line(run, "propositions")
    files = write(tmp_path / "gold.jsonl", gold), write(tmp_path / "found.jsonl", found)
    assert main(["score", "srl", *files]) == 0
    assert capsys.readouterr().out == SRL
    words = write(tmp_path / "gold.conll", "I - (A0*)\nsee see (V*)\nit - (A1*)\n\nrun run (V*)\n")
    assert main(["score", "srl", words, files[1]]) == 0
    assert capsys.readouterr().out == SRL
    other = write(tmp_path / "other.jsonl", found.replace("run", "ran"))
    assert main(["score", "srl", files[0], other]) == 2
    assert "sentence 2: 'ran', but " in capsys.readouterr().err
    less = write(tmp_path / "less.jsonl", found.splitlines()[0])
    assert main(["score", "srl", files[0], less]) == 2
    assert "1 sentences, but " in capsys.readouterr().err


@needs("fixtures", "srl-eval", "expected.json")
def test_every_table_has_the_figures_that_the_perl_script_prints(
    capsys: pytest.CaptureFixture[str],
):
    folder = SHARED / "fixtures" / "srl-eval"
    for case in range(1, 9):
        files = (str(folder / f"{case:02}.{kind}.props") for kind in ("gold", "pred"))
        assert main(["score", "srl", *files]) == 0
        table = [line.strip("| ").replace("|", "") for line in capsys.readouterr().out.splitlines()]
        ours = {fields[0].lower(): fields[1:] for fields in map(str.split, table[2:-1])}
        lines = (folder / f"{case:02}.out").read_text().splitlines()
        rows = [fields for fields in map(str.split, lines) if len(fields) == 7]
        assert len(rows) == len(ours)
        for name, *figures in rows:
            assert ours[name.lower()] == figures


TAGGED = "Anna B-PER B-PER\nsaw O O\nNew B-LOC B-LOC\nYork I-LOC O\n\nParis B-LOC B-ORG\n"
NER = """\
|         | correct | excess | missed | precision | recall |     f1 |
| ------- | ------: | -----: | -----: | --------: | -----: | -----: |
| overall |       1 |      2 |      2 |     33.33 |  33.33 |  33.33 |
| LOC     |       0 |      1 |      2 |      0.00 |   0.00 |   0.00 |
| ORG     |       0 |      1 |      0 |      0.00 |   0.00 |   0.00 |
| PER     |       1 |      0 |      0 |    100.00 | 100.00 | 100.00 |
2 sentences, 5 words, 60.00 % of their tags are right
"""


def test_entities_from_one_file_or_two(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    both = write(tmp_path / "both.txt", TAGGED)
    rows = [line.split() for line in TAGGED.splitlines()]
    files = [
        write(
            tmp_path / f"{n}.txt", "".join(" ".join([*r[:1], *r[n : n + 1]]) + "\n" for r in rows)
        )
        for n in (1, 2)
    ]
    for arguments in ([both], files):
        assert main(["score", "ner", *arguments]) == 0
        assert capsys.readouterr().out == NER
    assert main(["score", "ner", both, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["overall"]["f1"] == pytest.approx(100 / 3)
    assert found["overall"]["accuracy"] == 60
    assert found["labels"]["ORG"]["excess"] == 1


def test_answers_in_either_layout(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    gold = write(tmp_path / "gold.json", squad())
    official = write(tmp_path / "a.json", json.dumps({"1": "Anna!", "2": "Paris"}))
    lines = [{"id": "1", "answer": "Anna!"}, {"id": "2", "answer": "Paris", "start": 3}]
    ours = write(tmp_path / "a.jsonl", "".join(json.dumps(line) + "\n" for line in lines))
    for path in (official, ours):
        assert main(["score", "squad", gold, path, "--json"]) == 0
        found = json.loads(capsys.readouterr().out)
        assert found == {"exact_match": 50, "f1": pytest.approx(100 * (1 + 2 / 3) / 2)}
    one = write(tmp_path / "one.json", '{"2": "in Paris"}')
    assert main(["score", "squad", gold, one]) == 0
    out, err = capsys.readouterr()
    assert err == "1 questions have no prediction: they count as wrong\n"
    assert "50.00" in out


@pytest.mark.parametrize(
    ("name", "gold", "found", "said"),
    [
        ("srl", GOLD, "- (A0*)\nsee (V*)\n- (A1*\n", "found, line 3, column 2: the bracket of A1"),
        ("srl", GOLD, "a\n", "found, line 1: a sentence of 1 words, but "),
        ("srl", "", FOUND, "gold: no sentence found"),
        ("ner", "a B-X\n", "b B-X\n", "found, line 1: the word 'b', but "),
        ("ner", "a B-X\n", "a B-X\nb O\n", "found, line 2: the word 'b', but "),
        ("ner", "a B-X\n\nb O\n", "a B-X\n", "gold, line 3: "),
        ("ner", "a B-X\n", "a NNP\n", "found, line 1: the tag 'NNP'"),
        ("ner", "a\n", "a O\n", "gold, line 1: 1 columns; expected 2 or more"),
        ("squad", squad(), "[1]", "found: expected one JSON object"),
        ("squad", squad(), '{"7": "x"}', "found: answers no question of "),
        ("squad", squad(), '{"1": 3}', "found: the answer to '1' is no text"),
        ("squad", squad(), '{"id": "1", "answer": "x"}\n{"id": 2}', "found, line 2: expected"),
        ("squad", "{", "{}", "gold, line 1, place 2: not JSON"),
    ],
)
def test_bad_files_are_one_line_with_the_place(
    name: str, gold: str, found: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    files = [write(tmp_path / "gold", gold), write(tmp_path / "found", found)]
    assert main(["score", name, *files]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    assert said in err


def test_one_file_for_conlleval_needs_both_tags(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["score", "ner", write(tmp_path / "a", "a O\n")]) == 2
    assert "line 1: 2 columns; expected 3 or more" in capsys.readouterr().err


def test_scores_need_no_torch(props: list[str]):
    code = (
        "import sys; from elmore.cli.main import main; main(['score', 'srl', *sys.argv[1:]]); "
        "sys.exit('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code, *props], check=False, capture_output=True)
    assert done.returncode == 0
