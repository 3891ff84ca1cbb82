"""Readers and writers of one index at the same time, and builds that go on or are replaced."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from elmore.errors import FormatError, InputError
from elmore.files.lock import BusyError
from elmore.search import approximate, manifest, replace, sampling
from elmore.search import build as building
from elmore.search.corpus_embedding import BuildProgress
from elmore.search.index import Index
from elmore.search.index_writer import IndexWriter
from elmore.search.verify import verify
from tests.search.corpora import corpus
from tests.search.damage import answers, made
from tests.store.waves import waves

SENTENCES = corpus(60)
ASKED = ["the", "bank", "was", "near", "the", "river"]


def build(path: Path, sentences=SENTENCES, **options) -> Index:
    return Index.build(sentences, waves(), path, **{"max_uses": 9, **options})


def asked(index: Index) -> list[object]:
    """Questions that read every file, some of them for the first time."""
    return [
        index.words,
        index._snapshot.counts,
        index.neighbors(ASKED, 1, 1000, same_word=False, distinct=False),
        index.static_neighbors("bank", 100),
        index.senses("bank"),
    ]


def test_an_open_reader_keeps_its_answers_while_others_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(approximate, "LEAST_USES", 100)
    folder = made(tmp_path / "i", waves())
    want = asked(Index.open(folder, waves()))
    reader, writer = Index.open(folder, waves()), Index.open(folder, waves())
    writer.compact()
    writer.add([["another", "bank", "here"]])
    writer.delete([["another", "bank", "here"]])
    writer.compact()
    assert not (folder / "segment-00000").exists()
    assert asked(reader) == want
    reader.refresh()
    assert reader.words == writer.words
    assert "another" not in reader


def test_opening_goes_on_with_the_new_manifest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A writer that replaces all segments after each reading of the manifest, many times."""
    folder = tmp_path / "i"
    build(folder)
    real, left = manifest.read_manifest, 30

    def read(path: Path) -> manifest.Manifest:
        nonlocal left
        found = real(path)
        if left and path == folder:
            left -= 1
            monkeypatch.setattr(manifest, "read_manifest", real)
            writer = Index.open(folder, waves())
            writer.add([["x", "bank", str(left)]])
            writer.compact()
            monkeypatch.setattr(manifest, "read_manifest", read)
        return found

    monkeypatch.setattr(manifest, "read_manifest", read)
    assert "bank" in Index.open(folder)
    assert left == 0


def test_a_missing_file_is_named_at_once(tmp_path: Path):
    build(tmp_path / "i")
    (path,) = (tmp_path / "i").rglob("keys.bin")
    path.unlink()
    with pytest.raises(FormatError, match=r"keys\.bin: missing; restore"):
        Index.open(tmp_path / "i")
    (line,) = verify(tmp_path / "i").damages
    assert line.endswith("keys.bin: missing")


class Stopped(Exception):
    pass


class Stopping(list[list[str]]):
    """A corpus that ends the build in its second reading."""

    reads = 0

    def __iter__(self) -> Iterator[list[str]]:
        self.reads += 1
        for i, words in enumerate(list.__iter__(self)):
            if self.reads == 2 and i == 20:
                raise Stopped
            yield words


def stopped(path: Path, **options) -> None:
    with pytest.raises(Stopped):
        build(path, Stopping(SENTENCES), **options)


@pytest.mark.parametrize(
    ("words", "others"), [(5, [6, None, ["bank"]]), (["bank", "the"], [["bank"], 2]), (None, [9])]
)
def test_a_stopped_build_refuses_other_words(tmp_path: Path, words, others):
    stopped(tmp_path / "i", words=words)
    for other in others:
        with pytest.raises(InputError, match=r"the stopped build has (words|any_word) .*, not "):
            build(tmp_path / "i", words=other)
    same = list(reversed(words)) if isinstance(words, list) else words
    assert build(tmp_path / "i", words=same).manifest.finished


def test_a_stopped_build_refuses_another_corpus_before_it_embeds(tmp_path: Path):
    stopped(tmp_path / "i")
    model = waves()
    other = [*SENTENCES[:40], ["something", "else"]]
    with pytest.raises(InputError, match="not the corpus of the stopped build"):
        Index.build(other, model, tmp_path / "i", max_uses=9)
    assert model.asked == 0
    # also if nothing was committed before it was stopped
    with pytest.raises(Stopped):
        build(tmp_path / "j", type("Early", (Stopping,), {"__iter__": _early})(SENTENCES))
    with pytest.raises(InputError, match="not the corpus of the stopped build"):
        build(tmp_path / "j", SENTENCES[:40])


def _early(self: Stopping) -> Iterator[list[str]]:
    self.reads += 1
    if self.reads == 2:
        raise Stopped
    yield from list.__iter__(self)


def test_a_corpus_that_changes_between_its_readings_is_told(tmp_path: Path):
    class Growing(list[list[str]]):
        def __iter__(self) -> Iterator[list[str]]:
            yield from list(list.__iter__(self))
            self.append(["one", "more", "bank"])

    with pytest.raises(InputError, match="the corpus has changed since its words were counted"):
        build(tmp_path / "i", Growing(SENTENCES))


def test_a_finished_index_is_not_continued_after_sentences_were_added(tmp_path: Path):
    build(tmp_path / "i").add([["a", "new", "bank"]], embedder=waves())
    with pytest.raises(InputError, match=r"complete already; add to it \(--add\), replace it"):
        build(tmp_path / "i", [["quite", "another", "corpus"]])


def test_a_stopped_add_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    index = build(tmp_path / "i", SENTENCES[:10])
    whole = Stopping(SENTENCES)
    whole.reads = 1
    with pytest.raises(Stopped) as caught:
        index.add(whole, embedder=waves())
    assert "run it again" in caught.value.__notes__[0]
    model = waves()
    seen: list[int] = []

    def watch(now: BuildProgress) -> None:
        seen.append(now.read)

    assert index.add(SENTENCES, embedder=model, progress=watch) == model.asked == 40
    assert seen[-1] >= 0
    assert index.n_sentences == 60
    assert {use.words for word in index.words for use in index.uses(word)} == {
        tuple(words) for words in SENTENCES
    }


def test_a_very_long_sentence_is_cut_everywhere_alike(tmp_path: Path):
    long = [f"w{i}" for i in range(2 * sampling.LONGEST)] + ["bank", "end"]
    index = build(tmp_path / "i", [*SENTENCES, long])
    assert max(len(use.words) for word in index.words for use in index.uses(word)) <= 1000
    (use,) = index.uses("end")
    assert use.words == ("bank", "end")
    assert index.add([long], embedder=waves()) == 0
    near = index.neighbors_of(waves().embed([["bank", "end"]])[0].layers[:, 0], "bank", 1000)
    assert ("bank", "end") in {n.use.words for n in near}
    assert index.delete([long]) == 3
    assert "end" not in index


def test_the_mean_is_taken_of_a_bounded_sample(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(building, "_SAMPLE_WORDS", 30)
    model = waves()
    Index.build(SENTENCES, model, tmp_path / "i")
    assert model.asked == len(SENTENCES) + 5  # of 6 or 7 words each


# Replacing ----------------------------------------------------------------------------------------


def test_the_old_index_answers_until_the_new_one_is_ready(tmp_path: Path):
    path = tmp_path / "i"
    build(path)

    def make(target: Path) -> None:
        assert "bank" in Index.open(path)
        with pytest.raises(BusyError):
            IndexWriter(path)
        build(target, [["only", "this"]])

    reader = Index.open(path, waves())
    want = asked(Index.open(path, waves()))
    replace.replace(path, make)
    assert Index.open(path).words == ["only", "this"]
    assert asked(reader) == want
    assert [found.name for found in tmp_path.iterdir()] == ["i"]


def test_a_stopped_replacement_loses_nothing_and_goes_on(tmp_path: Path):
    path = tmp_path / "i"
    build(path, [["only", "this"]])

    def stop(target: Path) -> None:
        stopped(target)
        raise Stopped

    with pytest.raises(Stopped):
        replace.replace(path, stop)
    assert Index.open(path).words == ["only", "this"]
    model = waves()
    replace.replace(path, lambda to: Index.build(SENTENCES, model, to, max_uses=9) and None)
    assert model.asked == 40  # not from the beginning
    assert "bank" in Index.open(path)


@pytest.mark.parametrize("renames", [0, 1])
def test_a_kill_between_the_renames_is_mended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, renames: int
):
    path = tmp_path / "i"
    build(path, [["only", "this"]])
    child = os.fork()
    if child == 0:
        real, left = Path.rename, renames

        def rename(self: Path, target: Path) -> Path:
            nonlocal left
            left -= 1
            if left < 0:
                os._exit(0)
            return real(self, target)

        replaced = build
        try:
            replace.replace(path, lambda to: (replaced(to), setattr(Path, "rename", rename))[1])
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    replace.restore(path)
    assert Index.open(path).words == (["only", "this"] if renames == 0 else build_words(tmp_path))
    replace.replace(path, lambda to: pytest.fail("built again") if renames == 0 else build(to))
    assert "bank" in Index.open(path)


def build_words(tmp_path: Path) -> list[str]:
    return build(tmp_path / "same").words


def test_only_an_index_is_replaced(tmp_path: Path):
    path = tmp_path / "i"
    path.mkdir()
    with pytest.raises(InputError, match="not an index, so --force does not replace it"):
        replace.replace(path, pytest.fail)
    path.rmdir()
    build(path)
    (path / "thesis.tex").touch()
    with pytest.raises(InputError, match=r"thesis\.tex: no part of an index"):
        replace.replace(path, pytest.fail)
    assert "bank" in Index.open(path)
    (path / "thesis.tex").unlink()
    (path / manifest.MANIFEST).write_text("damaged")
    replace.replace(path, lambda to: build(to) and None)
    assert len(answers(path, waves())) > 0
    shutil.rmtree(path)
