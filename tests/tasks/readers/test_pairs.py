"""Pairs of sentences: the layouts of the published sets, and complaints by file and line."""

import json
import lzma
from collections import Counter
from pathlib import Path

import pytest

from elmore.errors import InputError
from elmore.tasks.readers.pairs import Pair, read_pairs
from tests.shared import SHARED, needs

DOG = Pair(("A", "dog", "runs", "."), ("It", "'s", "moving", "."), "entailment")
CAT = Pair(("A", "cat", "sleeps"), ("Nobody", "sleeps"), "contradiction")


def write(folder: Path, *lines: str, name: str = "pairs.txt") -> Path:
    path = folder / name
    path.write_text("".join(line + "\n" for line in lines), encoding="utf-8")
    return path


def complaint(path: Path, *, labelled: bool = True) -> str:
    with pytest.raises(InputError) as caught:
        read_pairs(path, labeled=labelled)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_three_columns_are_premise_hypothesis_and_label(tmp_path: Path):
    path = write(
        tmp_path,
        "A dog runs.\tIt's moving.\tentailment",
        "",
        "A cat sleeps\tNobody sleeps\tcontradiction",
    )
    corpus = read_pairs(path)
    assert list(corpus.examples) == [DOG, CAT]
    assert corpus.notes == ()


def test_text_that_is_tokenised_already_stays_as_it_is(tmp_path: Path):
    path = write(tmp_path, "A dog runs .\tIt 's moving .\tentailment")
    assert list(read_pairs(path).examples) == [DOG]


def test_labels_may_be_digits(tmp_path: Path):
    path = write(tmp_path, "a b\tc\t0", "a b\td\t2 ")
    assert [pair.label for pair in read_pairs(path).examples] == ["0", "2"]


@pytest.mark.parametrize(
    "header",
    [
        "premise\thypothesis\tlabel",
        "sentence1\tsentence2\tgold_label",
        "sentence1\tsentence2\tlabel",
        "sentence_A\tsentence_B\tentailment_judgment",
    ],
)
def test_a_first_line_of_names_is_not_a_pair(tmp_path: Path, header: str):
    path = write(tmp_path, header, "A dog runs.\tIt's moving.\tentailment")
    assert list(read_pairs(path).examples) == [DOG]


def test_names_find_their_columns_wherever_they_stand(tmp_path: Path):
    path = write(
        tmp_path,
        "gold_label\tparse\tsentence1\tsentence2\tlabel1",
        "entailment\t(x)\tA dog runs.\tIt's moving.\tneutral",
    )
    assert list(read_pairs(path).examples) == [DOG]


@pytest.mark.parametrize(
    "names",
    [("premise", "hypothesis", "label"), ("sentence1", "sentence2", "gold_label")],
)
def test_json_lines(tmp_path: Path, names: tuple[str, str, str]):
    objects = [
        dict(zip(names, row, strict=True), annotator_labels=["neutral"])
        for row in [
            ("A dog runs.", "It's moving.", "entailment"),
            ("A cat sleeps", "Nobody sleeps", "contradiction"),
        ]
    ]
    path = write(tmp_path, *map(json.dumps, objects), name="pairs.jsonl")
    assert list(read_pairs(path).examples) == [DOG, CAT]


def test_pairs_nobody_agreed_on_are_counted_and_left_out(tmp_path: Path):
    rows = [{"sentence1": "a", "sentence2": "b", "gold_label": g} for g in ("-", "neutral", "-")]
    rows.append({"sentence1": "a", "sentence2": "b", "label": -1})
    corpus = read_pairs(write(tmp_path, *map(json.dumps, rows)))
    assert [pair.label for pair in corpus.examples] == ["neutral"]
    [note] = corpus.notes
    assert note == "pairs left out, as their annotators did not agree on a label: 3"


def test_without_labels_there_is_still_something_to_predict(tmp_path: Path):
    path = write(tmp_path, "A cat sleeps\tNobody sleeps", "A cat sleeps\tNobody sleeps\t-")
    question = Pair(CAT.premise, CAT.hypothesis)
    assert list(read_pairs(path, labeled=False).examples) == [question, question]
    path = write(tmp_path, json.dumps({"premise": "A cat sleeps", "hypothesis": "Nobody sleeps"}))
    assert list(read_pairs(path, labeled=False).examples) == [question]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("a\tb", "2 columns; expected 3"),
        ("a b c", "1 columns; expected 3"),
        ("a\tb\tc\td", "4 columns; expected 3"),
        ("a\t \t1", "the hypothesis has no words"),
        ("\tb\t1", "the premise has no words"),
        ("a\tb\t", "the label is ''"),
    ],
)
def test_a_bad_line_is_named(tmp_path: Path, line: str, words: str):
    path = write(tmp_path, "a\tb\t0", line)
    assert complaint(path).startswith(f"{path}, line 2: {words}")


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("{'premise': 'a'}", ", place 2: not JSON"),
        ("[1, 2]", ": a JSON list; expected an object"),
        ('{"premise": "a", "label": "x"}', ": no two sentences among ['label', 'premise']"),
        ('{"premise": "a", "hypothesis": ["b"], "label": "x"}', ": no two sentences"),
        ('{"premise": "a", "hypothesis": "b"}', ": the label is None"),
        ('{"premise": "a", "hypothesis": "b", "label": 0.5}', ": the label is 0.5"),
    ],
)
def test_a_bad_object_is_named(tmp_path: Path, line: str, words: str):
    path = write(tmp_path, '{"premise": "a", "hypothesis": "b", "label": 1}', line)
    assert complaint(path).startswith(f"{path}, line 2{words}")


def test_a_row_shorter_than_the_names(tmp_path: Path):
    path = write(tmp_path, "premise\thypothesis\tlabel", "a\tb")
    assert complaint(path) == f"{path}, line 2: 2 columns; expected 3 or more."


def test_names_without_a_label(tmp_path: Path):
    path = write(tmp_path, "premise\thypothesis", "a\tb")
    assert "no column label or gold_label" in complaint(path)
    assert list(read_pairs(path, labeled=False).examples) == [Pair(("a",), ("b",))]


@pytest.mark.parametrize("lines", [(), ("", " "), ("premise\thypothesis\tlabel",)])
def test_a_file_without_pairs(tmp_path: Path, lines: tuple[str, ...]):
    path = write(tmp_path, *lines)
    assert complaint(path).startswith(f"{path}: no pair found")


def test_a_file_of_pairs_nobody_agreed_on(tmp_path: Path):
    path = write(tmp_path, "a\tb\t-", "a\tb\t-")
    assert complaint(path).startswith(f"{path}: only pairs without an agreed label (2) found")


@needs("data", "tasks", "pairs")
@pytest.mark.parametrize(
    ("name", "n_pairs", "labels"),
    [
        ("snli/dev.txt.xz", 9842, {"0": 3329, "1": 3235, "2": 3278}),
        ("sick/train.txt.xz", 4439, {"0": 1274, "1": 2524, "2": 641}),
    ],
)
def test_published_sets_are_read_whole(name: str, n_pairs: int, labels: dict[str, int]):
    path = SHARED / "data" / "tasks" / "pairs" / name
    corpus = read_pairs(path)
    assert len(corpus.examples) == n_pairs
    assert Counter(pair.label for pair in corpus.examples) == labels
    with lzma.open(path, "rt", encoding="utf-8") as file:
        assert list(corpus.examples[0].premise) == next(file).split("\t")[0].split()


@needs("data", "tasks", "pairs", "snli_counterfactual")
def test_a_published_set_with_names_is_read_whole():
    corpus = read_pairs(SHARED / "data" / "tasks" / "pairs" / "snli_counterfactual" / "test.tsv.xz")
    assert len(corpus.examples) == 2000
    assert {pair.label for pair in corpus.examples} == {"entailment", "neutral", "contradiction"}
