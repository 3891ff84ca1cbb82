"""An index knows where its sentences stand, and old ones that do not still open."""

import shutil
from pathlib import Path

import pytest

from elmore.files.sentence_files import SentenceFiles
from elmore.search import corpus_embedding
from elmore.search.index import Index
from elmore.search.manifest import write_manifest
from elmore.search.verify import verify
from elmore.uses.use import Origin
from tests.store.waves import waves

BEFORE = Path(__file__).parents[1] / "before" / "indexes"
FIRST = "The boat lay at the bank. It's old.\n\nShe went to the bank—“quickly,” he said.\n"
SECOND = "他去了银行。\nIt rained at the bank, all day.\n\n\nThe bank was shut (again).\n"


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    paths = [tmp_path / "a.txt", tmp_path / "b.txt"]
    for path, text in zip(paths, (FIRST, SECOND), strict=True):
        path.write_text(text, encoding="utf-8")
    return paths


def found(index: Index, word: str) -> list[tuple[str, int, str]]:
    origins = [use.origin for use in index.uses(word)]
    return sorted((Path(o.file).name, o.line, o.text) for o in origins if o is not None)


BANKS = [
    ("a.txt", 1, "The boat lay at the bank."),
    ("a.txt", 3, "She went to the bank—“quickly,” he said."),
    ("b.txt", 2, "It rained at the bank, all day."),
    ("b.txt", 5, "The bank was shut (again)."),
]


@pytest.mark.parametrize("commit_bytes", [1, corpus_embedding.COMMIT_BYTES])
def test_each_use_has_its_file_line_and_text(
    tmp_path: Path, files: list[Path], monkeypatch: pytest.MonkeyPatch, commit_bytes: int
):
    monkeypatch.setattr(corpus_embedding, "COMMIT_BYTES", commit_bytes)  # 1: a segment a sentence
    index = Index.build(SentenceFiles(files, tokenize=True), waves(), tmp_path / "i")
    assert index.has_origins
    assert found(index, "bank") == BANKS
    assert verify(index.path).damages == []
    for use in index.uses("bank"):
        again, around = index.use(use.id or 0)
        assert again == use
        assert around is not None
        assert around.text == (use.origin or Origin("", 0, "")).text
    boat = next(use for use in index.uses("bank") if "boat" in use.words)
    _, around = index.use(boat.id or 0)
    assert around is not None
    assert (around.before, around.after) == ("", " It's old.")


def test_added_sentences_have_their_places_and_compacting_keeps_all(
    tmp_path: Path, files: list[Path]
):
    index = Index.build(SentenceFiles(files[:1], tokenize=True), waves(), tmp_path / "i")
    index.add(SentenceFiles(files[1:], tokenize=True))
    index.add(["The bank: a string."])
    index.add([["a", "list", "bank"]])
    index.delete(["It rained at the bank, all day."])
    kept = [one for one in BANKS if "rained" not in one[2]]
    for _ in range(2):
        assert found(index, "bank") == [("", 0, "The bank: a string."), *kept]
        assert sum(use.origin is None for use in index.uses("bank")) == 1
        index.compact()
    assert verify(index.path).damages == []


def test_lists_of_words_have_no_places(tmp_path: Path):
    index = Index.build([["the", "bank"]], waves(), tmp_path / "i")
    assert not index.has_origins
    assert index.use(0)[1] is None
    assert not list(index.path.rglob("origins.bin"))


def test_an_old_index_has_none_and_can_be_added_to(tmp_path: Path):
    index = Index.open(shutil.copytree(BEFORE / "mix", tmp_path / "i"))
    assert not index.has_origins
    assert all(use.origin is None for word in index.words for use in index.uses(word))
    index.compact()
    assert not index.has_origins


def test_an_index_of_version_3_opens_and_learns_places_of_what_is_added(tmp_path: Path):
    index = Index.build([["the", "bank"]], waves(), tmp_path / "i")
    write_manifest(index.path, index.manifest.model_copy(update={"version": 3}))
    old = Index.open(index.path, waves())
    assert (old.manifest.version, old.has_origins) == (3, False)
    old.add(["The bank, again."])
    assert (old.manifest.version, old.manifest.finished, old.has_origins) == (4, True, True)
    old.compact()
    assert sorted(use.origin is None for use in old.uses("bank")) == [False, True]
    assert verify(old.path).damages == []


def test_frequencies_are_those_of_the_corpus_and_deleted_uses_do_not_count(tmp_path: Path):
    sentences = [["the", "bank", f"x{i}"] for i in range(9)]
    index = Index.build(sentences, waves(), tmp_path / "i", max_uses=4)
    assert index.frequencies["the"] == 9
    assert index.frequencies["x3"] == 1
    index.delete([["the", "bank", "x3"]])
    assert "x3" not in index.frequencies
