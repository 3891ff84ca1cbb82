"""CoNLL's columns, with every complaint's file and line."""

from pathlib import Path

import pytest

from elmore.errors import InputError
from elmore.tasks.readers.columns import TaggedSentence, read_columns
from tests.shared import SHARED, needs

TEXT = "-DOCSTART- -X- O O\n\nEU NNP I-NP I-ORG\nrejects VBZ I-VP O\n\n\n. . O O\n"


def write(folder: Path, text: str) -> Path:
    path = folder / "a.txt"
    path.write_text(text, encoding="utf-8")
    return path


def test_sentences_end_at_blank_lines_and_document_marks_are_no_words(tmp_path: Path):
    assert list(read_columns(write(tmp_path, TEXT))) == [
        TaggedSentence(("EU", "rejects"), ("I-ORG", "O"), 3),
        TaggedSentence((".",), ("O",), 7),
    ]


def test_any_column_can_be_chosen_from_either_end(tmp_path: Path):
    first = next(read_columns(write(tmp_path, TEXT), word=0, tag=1))
    assert first.tags == ("NNP", "VBZ")
    first = next(read_columns(write(tmp_path, TEXT), word=1, tag=-2))
    assert (first.words, first.tags) == (("NNP", "VBZ"), ("I-NP", "I-VP"))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("EU NNP O\nrejects VBZ\n", r"a.txt, line 2: 2 columns \('rejects VBZ'\).*has 3"),
        ("EU\n", r"a.txt, line 1: 1 columns \('EU'\); expected words in column 0"),
        ("", "no sentence found"),
        ("\n\n", "no sentence found"),
        ("-DOCSTART- -X- O O\n\n", "no sentence found"),
    ],
)
def test_missing_columns_and_empty_files_are_told(tmp_path: Path, text: str, said: str):
    with pytest.raises(InputError, match=said):
        list(read_columns(write(tmp_path, text)))


def test_a_column_beyond_the_last_is_told(tmp_path: Path):
    with pytest.raises(InputError, match=r"line 3: 4 columns .* tags in column 5"):
        list(read_columns(write(tmp_path, TEXT), tag=5))
    with pytest.raises(InputError, match=r"line 3: 4 columns .* tags in column -4"):
        list(read_columns(write(tmp_path, TEXT), tag=-4))  # the words themselves


@needs("data", "tasks", "ner_conll2003")
def test_conll_2003_has_its_published_counts():
    found = list(read_columns(SHARED / "data/tasks/ner_conll2003/eng.testb.xz"))
    assert (len(found), sum(len(sentence.words) for sentence in found)) == (3453, 46435)


def test_the_places_of_weibos_characters_are_left_out(tmp_path: Path):
    path = tmp_path / "weibo.conll"
    path.write_text("科0\tB-ORG\n技1\tI-ORG\n，0\tO\n\n3\tO\n年0\tO\n", encoding="utf-8")
    found = [(sentence.words, sentence.tags) for sentence in read_columns(path)]
    assert found == [
        (("科", "技", "，"), ("B-ORG", "I-ORG", "O")),
        (("3", "年"), ("O", "O")),
    ]


@pytest.mark.parametrize("text", ["第2 O\n名 O\n。 O\n", "A1 O\nB2 O\nC3 O\n"])
def test_words_that_end_in_a_number_stay(tmp_path: Path, text: str):
    path = tmp_path / "x.conll"
    path.write_text(text, encoding="utf-8")
    (sentence,) = read_columns(path)
    assert list(sentence.words) == [line.split()[0] for line in text.splitlines()]


@pytest.mark.parametrize("first", ["# sent_id = 1\n", ""])
def test_conllu_is_recognized_and_its_reader_named(tmp_path: Path, first: str):
    path = tmp_path / "x.conllu"
    path.write_text(first + "1\tthe\tthe\tDET\t_\t_\t2\tdet\t_\t_\n")
    with pytest.raises(InputError, match=r"line 1: this is CoNLL-U.*task\.layout\.kind=conllu"):
        list(read_columns(path))
