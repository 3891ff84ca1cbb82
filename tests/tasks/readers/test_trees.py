"""Sentiment trees: every phrase with its words, complaints with file and line."""

import time
from pathlib import Path

import pytest

from elmore.errors import InputError
from elmore.tasks.readers.trees import Phrase, Tree, read_trees
from tests.shared import SHARED, needs


def write(folder: Path, text: str) -> Path:
    path = folder / "a.txt"
    path.write_text(text, encoding="utf-8")
    return path


def test_phrases_are_spans_of_words_and_the_last_is_the_sentence(tmp_path: Path):
    path = write(tmp_path, "(3 (2 It) (4 (2 's) (4 lovely)))\n\n(0 Bad)\n")
    assert list(read_trees(path)) == [
        Tree(
            ("It", "'s", "lovely"),
            (
                Phrase(0, 1, "2"),
                Phrase(1, 2, "2"),
                Phrase(2, 3, "4"),
                Phrase(1, 3, "4"),
                Phrase(0, 3, "3"),
            ),
        ),
        Tree(("Bad",), (Phrase(0, 1, "0"),)),
    ]


def test_the_treebanks_escapes_are_undone(tmp_path: Path):
    path = write(tmp_path, r"(2 (2 -LRB-) (2 and\/or) (2 \*) (2 -RRB-))" + "\n")
    assert next(read_trees(path)).words == ("(", "and/or", "*", ")")


def test_a_tree_may_be_deeper_than_python_recurses(tmp_path: Path):
    deep = "(1 x " * 5000 + "y" + ")" * 5000
    assert len(next(read_trees(write(tmp_path, deep))).phrases) == 5000


def test_a_tree_a_million_brackets_deep_is_refused_at_once(tmp_path: Path):
    path = write(tmp_path, "(2 fine)\n" + "(1 x " * 1_000_000 + "y" + ")" * 1_000_000)
    begin = time.process_time()
    with pytest.raises(InputError, match=r"a\.txt, line 2: 6,000,001 characters in one tree; exp"):
        list(read_trees(path))
    assert time.process_time() - begin < 1


@pytest.mark.parametrize(
    "line", ["(3 (2 It)", "(3 It))", "3 It", "(3)", "()", "(3 ())", "(", "(2 a) (2 b)", "x (2 a)"]
)
def test_a_broken_tree_is_told_with_its_line(tmp_path: Path, line: str):
    with pytest.raises(InputError, match=r"a.txt, line 2: .* is not a tree; expected brackets"):
        list(read_trees(write(tmp_path, f"(2 fine)\n{line}\n")))


def test_an_empty_file_is_told(tmp_path: Path):
    with pytest.raises(InputError, match="no tree found"):
        list(read_trees(write(tmp_path, "\n")))


@needs("data", "tasks", "sst5")
def test_sst_has_its_published_counts():
    trees = list(read_trees(SHARED / "data/tasks/sst5/test.txt.xz"))
    roots = [tree.phrases[-1].label for tree in trees]
    assert len(trees) == 2210
    assert [roots.count(label) for label in "01234"] == [279, 633, 389, 510, 399]
