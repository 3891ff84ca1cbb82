"""GAP: the official rules on cases worked by hand, files, and answers from clusters."""

import json
from pathlib import Path

import pytest

from elmore.cli.main import main
from elmore.errors import InputError
from elmore.tasks.gap import referents
from elmore.tasks.readers.gap import COLUMNS, read_gap, read_gap_answers
from elmore.tasks.scorers.counts import Counts
from elmore.tasks.scorers.gap import GoldReferents, Referents, score_gap
from tests.shared import SHARED, needs
from tests.tasks.test_coreference import trained as trained

TEXT = "Ann Lee met coach Eva Roy. Lee's dog liked her, said Roy."
HER = str(TEXT.index("her"))
ROW = ["t-1", TEXT, "her", HER, "Ann Lee", "0", "TRUE", "Eva Roy", "18", "FALSE", "http://x"]


def write(path: Path, *rows: list[str]) -> Path:
    path.write_text("".join("\t".join(row) + "\n" for row in (list(COLUMNS), *rows)))
    return path


def test_the_rules_of_the_official_scorer():
    """Four texts worked by hand. she: right about both names (1 right); her: says B, but it is A (1
    too much, 1 missed). he: no answer, so 2 missed though one is not meant. His: neither, which
    is right, so nothing to count; and an answer to a text that is not there."""
    gold = {
        "1": GoldReferents("she", Referents(True, False)),
        "2": GoldReferents("her", Referents(True, False)),
        "3": GoldReferents("he", Referents(False, True)),
        "4": GoldReferents("His", Referents(False, False)),
    }
    found = {
        "1": Referents(True, False),
        "2": Referents(False, True),
        "4": Referents(False, False),
        "9": Referents(True, True),
    }
    score = score_gap(gold, found)
    assert score.feminine == Counts(correct=1, excess=1, missed=1)
    assert score.masculine == Counts(correct=0, excess=0, missed=2)
    assert score.overall == Counts(correct=1, excess=1, missed=3)
    assert (score.overall.recall, score.overall.precision) == (25, 50)
    assert score.overall.f1 == pytest.approx(100 / 3)
    assert (score.missing, score.bias) == (1, 0.0)


def test_bias_is_feminine_over_masculine():
    gold = {n: GoldReferents(n, Referents(True, False)) for n in ("he", "his", "she", "hers")}
    found = {"he": Referents(True, False), "his": Referents(True, False)}
    found |= {"she": Referents(True, False), "hers": Referents(True, True)}
    assert score_gap(gold, found).bias == pytest.approx(0.8)  # 2 · 2 / (2 + 3) against 1


def test_words_of_the_pronoun_and_the_names_are_found(tmp_path: Path):
    (text,) = read_gap(write(tmp_path / "gap.tsv", ROW))
    words = text.document.words
    assert [words[i] for i, _ in (text.pronoun, text.a, text.b)] == ["her", "Ann", "Eva"]
    assert [words[j] for _, j in (text.pronoun, text.a, text.b)] == ["her", "Lee", "Roy"]
    assert len(text.document.sentences) == 2
    assert text.gold == GoldReferents("her", Referents(True, False))


def test_a_name_is_meant_if_a_mention_ends_with_it(tmp_path: Path):
    (text,) = read_gap(write(tmp_path / "gap.tsv", ROW))
    words = list(text.document.words)
    her, ann, eva = text.pronoun, text.a, text.b
    coach = (eva[0] - 1, eva[1])  # coach Eva Roy
    dog = (words.index("dog") - 2, words.index("dog"))  # Lee's dog
    assert referents(text, ((ann, her), (eva,))) == (True, False)
    assert referents(text, ((coach, her),)) == (False, True)
    assert referents(text, ((dog, her), (ann, eva))) == (False, False)
    assert referents(text, (((ann[0], ann[0]), her),)) == (False, False)  # the first name alone
    assert referents(text, ((ann, eva),)) == (False, False)  # the pronoun is no mention


@pytest.mark.parametrize(
    ("column", "value", "said"),
    [
        (2, "they", "the pronoun 'they'; expected one of he, her"),
        (3, "5", "'her' is not at character 5 of the text"),
        (5, "x", "'Ann Lee' is not at character x"),
        (6, "maybe", "the answer 'maybe'; expected TRUE or FALSE"),
        (10, "a\tb", "12 columns; expected 11"),
    ],
)
def test_bad_rows_are_told_with_their_line(column: int, value: str, said: str, tmp_path: Path):
    row = [*ROW]
    row[column] = value
    with pytest.raises(InputError, match=r"gap.tsv, line 2: ") as error:
        read_gap(write(tmp_path / "gap.tsv", row))
    assert said in str(error.value)


def test_empty_and_repeated_rows_are_errors(tmp_path: Path):
    for rows, said in (([], "no text found"), ([ROW, ROW], "the same ID occurs twice")):
        with pytest.raises(InputError, match=said):
            read_gap(write(tmp_path / "gap.tsv", *rows))
    (tmp_path / "answers").write_text("a\tTRUE\tFALSE\na\tTRUE\tTRUE\n")
    with pytest.raises(InputError, match="line 2: a second answer for 'a'"):
        read_gap_answers(tmp_path / "answers")


def test_answers_of_a_model_are_written_and_scored_again(
    tmp_path: Path, trained: Path, capsys: pytest.CaptureFixture[str]
):
    gold, answers = write(tmp_path / "gap.tsv", ROW), tmp_path / "answers.tsv"
    command = ["task", "evaluate", "gap", "--model", str(trained / "model"), "--test", str(gold)]
    assert main([*command, "--output", str(answers)]) == 0
    table = capsys.readouterr().out
    assert "| masculine |" in table
    assert answers.read_text().split("\t")[0] == "t-1"
    assert main(["score", "gap", str(gold), str(answers)]) == 0
    assert capsys.readouterr().out == table


def test_gold_scored_by_itself_is_perfect(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    gold = str(write(tmp_path / "gap.tsv", ROW))
    assert main(["score", "gap", gold, gold, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["overall"]["f1"] == found["feminine"]["f1"] == 100
    (tmp_path / "none.tsv").write_text("t-2\tTRUE\tFALSE\n")
    assert main(["score", "gap", gold, str(tmp_path / "none.tsv")]) == 0
    assert "1 texts have no answer" in capsys.readouterr().err


@needs("data", "tasks", "coref_gap", "gap-validation.tsv.xz")
def test_the_published_file_is_read():
    texts = read_gap(SHARED / "data" / "tasks" / "coref_gap" / "gap-validation.tsv.xz")
    assert len(texts) == 454
    pronouns = [text.document.words[text.pronoun[0]].lower() for text in texts]
    assert sum(p != t.gold.pronoun.lower() for p, t in zip(pronouns, texts, strict=True)) <= 1
