"""CoNLL-U: words only, any column of tags, complaints with file and line."""

from pathlib import Path

import pytest

from elmore.errors import InputError
from elmore.tasks.readers.columns import TaggedSentence, read_conllu
from tests.shared import SHARED, needs

TEXT = """# text = vámonos al mar
1-2\tvámonos\t_\t_\t_\t_\t_\t_\t_\t_
1\tvamos\tir\tVERB\tVB\t_\t0\troot\t_\t_
2\tnos\tnosotros\tPRON\tPP\t_\t1\tobj\t_\t_
2.1\tquedo\tquedar\tVERB\tVB\t_\t_\t_\t_\t_

# the second
1\tNew York\tNew York\tPROPN\tNNP\t_\t0\troot\t_\t_
"""


def write(folder: Path, text: str) -> Path:
    path = folder / "a.conllu"
    path.write_text(text, encoding="utf-8")
    return path


def test_ranges_and_empty_nodes_are_no_words(tmp_path: Path):
    assert list(read_conllu(write(tmp_path, TEXT))) == [
        TaggedSentence(("vamos", "nos"), ("VERB", "PRON"), 3),
        TaggedSentence(("New York",), ("PROPN",), 8),
    ]


def test_other_columns_of_tags_are_read(tmp_path: Path):
    path = write(tmp_path, TEXT)
    assert next(read_conllu(path, "xpos")).tags == ("VB", "PP")
    assert next(read_conllu(path, "deprel")).tags == ("root", "obj")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("1\tEU\tEU\tPROPN\n", r"a.conllu, line 1: 4 columns .*CoNLL-U has 10"),
        ("EU NNP I-NP I-ORG\n", r"a.conllu, line 1: 1 columns"),
        (TEXT + "x" + "\ta" * 9 + "\n", r"a.conllu, line 9: 'x' is no word number"),
        ("1\tEU\tEU" + "\t_" * 7 + "\n", r"a.conllu, line 1: the word has no upos"),
        ("1\t" + "\t_" * 8 + "\n", r"line 1: the word itself is empty"),
        ("2" + "\ta" * 9 + "\n", r"line 1: word 2 where word 1 should be"),
        (("1" + "\ta" * 9 + "\n") * 2, r"line 2: word 1 where word 2 should be"),
        ("1-" + "\ta" * 9 + "\n", r"line 1: '1-' is no word number"),
        ("²" + "\ta" * 9 + "\n", r"line 1: '²' is no word number"),
        ("", "no sentence found"),
        ("# only a comment\n\n", "no sentence found"),
    ],
)
def test_what_is_no_conllu_is_told_with_its_line(tmp_path: Path, text: str, said: str):
    with pytest.raises(InputError, match=said):
        list(read_conllu(write(tmp_path, text)))


@needs("data", "tasks", "pos_ud_ewt")
def test_ewt_has_its_published_counts():
    found = list(read_conllu(SHARED / "data/tasks/pos_ud_ewt/en_ewt-ud-test.conllu.xz"))
    assert (len(found), sum(len(sentence.words) for sentence in found)) == (2077, 25094)
