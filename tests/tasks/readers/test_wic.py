"""WiC pairs: both uses and the answer, complaints with file and line."""

import json
from pathlib import Path

import pytest

from elmore.errors import InputError
from elmore.tasks.readers.use_pairs import UsePair, read_wic
from elmore.uses.use import Use
from tests.shared import SHARED, needs

LINE = "board\tN\t2-2\tRoom and board .\tHe nailed boards across the windows ."


def write(folder: Path, *lines: str, gold: str = "") -> Path:
    path = folder / "toy.data.txt"
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    (folder / "toy.gold.txt").write_text(gold or "F\n" * len(lines), encoding="utf-8")
    return path


def test_a_pair_is_two_places_and_an_answer(tmp_path: Path):
    first = Use(("Room", "and", "board", "."), 2)
    second = Use(tuple("He nailed boards across the windows .".split()), 2)
    same, other = read_wic(write(tmp_path, LINE, LINE, gold="T\nF\n"))
    assert same == UsePair("board", "N", first, second, same=True)
    assert other == UsePair("board", "N", first, second, same=False)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("board\tN\t2-2\tRoom and board .", r"line 2: 4 columns between tabs; expected 5"),
        (LINE.replace("2-2", "2"), r"line 2: the places are '2'; expected two numbers"),
        (LINE.replace("2-2", "4-2"), r"line 2: word 4 is asked for, .* in a sentence of 4"),
        ("", r"line 2: 1 columns"),
    ],
)
def test_what_is_wrong_is_named_with_its_line(tmp_path: Path, line: str, message: str):
    with pytest.raises(InputError, match=message):
        list(read_wic(write(tmp_path, LINE, line)))


@pytest.mark.parametrize(
    ("gold", "message"),
    [
        ("T\n", r"toy\.data\.txt, line 2: .*toy\.gold\.txt ends before it"),
        ("T\nF\nF\n", r"toy\.gold\.txt, line 3: .*toy\.data\.txt ends before it"),
        ("T\nyes\n", r"toy\.gold\.txt, line 2: found 'yes'; expected T or F"),
    ],
)
def test_answers_must_fit_the_pairs(tmp_path: Path, gold: str, message: str):
    with pytest.raises(InputError, match=message):
        list(read_wic(write(tmp_path, LINE, LINE, gold=gold)))


def test_pairs_without_answers_are_refused(tmp_path: Path):
    path = write(tmp_path, LINE)
    (tmp_path / "toy.gold.txt").unlink()
    with pytest.raises(InputError, match=r"its answers, toy\.gold\.txt, are not beside it"):
        list(read_wic(path))


@needs("data", "tasks", "wic")
@pytest.mark.parametrize(("part", "published"), [("train", 5428), ("dev", 638), ("test", 1400)])
def test_the_published_pairs_are_balanced(part: str, published: int):
    pairs = list(read_wic(SHARED / "data" / "tasks" / "wic" / f"{part}.data.txt.xz"))
    assert len(pairs) == published
    assert sum(pair.same for pair in pairs) * 2 == published


ROW = {
    "id": "dev.zh-zh.0", "lemma": "程序", "pos": "NOUN", "tag": "F", "start1": "2", "end1": "4",
    "sentence1": "电脑程序很长。", "sentence2": "审判程序很慢。", "start2": "2", "end2": "4",
}  # fmt: skip


def write_json(folder: Path, **changes: str | None) -> Path:
    path = folder / "toy.zh-zh.jsonl"
    row = {name: value for name, value in {**ROW, **changes}.items() if value is not None}
    path.write_text(f"{json.dumps(row, ensure_ascii=False)}\n", encoding="utf-8")
    return path


def test_raw_sentences_with_places_in_characters(tmp_path: Path):
    (pair,) = read_wic(write_json(tmp_path))
    assert (pair.word, pair.same) == ("程序", False)
    assert pair.first == Use(("电脑", "程序", "很长", "。"), 1)
    assert pair.second == Use(("审判", "程序", "很", "慢", "。"), 1)


def test_a_word_that_a_tokenizer_would_join_stays_by_itself(tmp_path: Path):
    (pair,) = read_wic(write_json(tmp_path, sentence1="公安机关来了。", lemma="机关"))
    assert pair.first.words[:2] == ("公安", "机关")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"tag": "yes"}, "line 1: the tag is 'yes'; expected T or F"),
        ({"tag": None}, "line 1: expected a JSON object with the texts lemma, pos"),
        ({"start1": "40", "end1": "42"}, "places '40' to '42' of sentence1 hold no word"),
        ({"start2": "-1"}, "places '-1' to '4' of sentence2 hold no word"),
    ],
)
def test_what_is_wrong_with_json_is_named(
    tmp_path: Path, changes: dict[str, str | None], message: str
):
    with pytest.raises(InputError, match=message):
        list(read_wic(write_json(tmp_path, **changes)))
