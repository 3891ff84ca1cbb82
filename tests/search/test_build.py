"""A build takes what it should, and whatever stops it, the same call goes on to the same index."""

import os
import signal
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from elmore.errors import ConfigError, FormatError, InputError
from elmore.files.lock import BusyError
from elmore.search import build as building
from elmore.search import corpus_embedding
from elmore.search.index import Index
from elmore.search.index_writer import IndexWriter
from elmore.search.manifest import MANIFEST
from elmore.search.segment import vectors_name
from tests.search.corpora import corpus
from tests.store.waves import D, L, wave, waves

SENTENCES = corpus(40)
STEPS = ("fsync", "rename", "replace")


def build(path: Path, sentences=SENTENCES, name: str = "waves", **options) -> Index:
    return Index.build(sentences, waves(name), path, **{"max_uses": 9, **options})


def contents(index: Index) -> list[tuple[tuple[str, ...], int, bytes]]:
    """Every use with its vectors."""
    return sorted(
        (use.words, use.position, index._snapshot.vectors(word, "mix")[i].tobytes())
        for word in index.words
        for i, use in enumerate(index.uses(word))
    )


@pytest.fixture
def small_commits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(corpus_embedding, "COMMIT_BYTES", 6 * 5 * D * 4)  # every few sentences


def test_each_word_has_its_uses_up_to_the_most(tmp_path: Path):
    counts = Counter(word for words in SENTENCES for word in words)
    index = build(tmp_path / "i")
    assert set(index.words) == set(counts)
    assert {word: len(index.uses(word)) for word in counts} == {
        word: min(9, n) for word, n in counts.items()
    }
    numbers = [int(use.words[5][1:]) for use in index.uses("the")]
    assert min(numbers) < 8
    assert max(numbers) > 32  # from the corpus's beginning to its end


def test_only_the_words_asked_for_are_indexed(tmp_path: Path):
    assert build(tmp_path / "a", words=["bank", "absent"]).words == ["bank"]
    assert build(tmp_path / "b", words=2).words == [".", "the"]
    index = build(tmp_path / "c", words=["bank"])
    assert index.add([["river", "bank"], ["river", "only"]], embedder=waves()) == 1
    assert index.words == ["bank"]


def test_vectors_are_the_models_less_the_mean(tmp_path: Path):
    index = build(tmp_path / "i", keep=1, precision="float32", max_uses=100)
    rows = np.concatenate([wave(words)[1] for words in SENTENCES]).astype(np.float64)
    use = index.uses("bank")[0]
    want = wave(list(use.words))[1, use.position] - rows.mean(axis=0)
    found = index._snapshot.vectors("bank", "mix")[0]
    np.testing.assert_allclose(found, want / np.linalg.norm(want), atol=1e-5)


@pytest.mark.usefixtures("small_commits")
def test_many_commits_make_the_index_that_one_makes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    segments = []
    monkeypatch.setattr(building, "compact", lambda w: segments.append(len(w.manifest.segments)))
    build(tmp_path / "many")
    monkeypatch.undo()
    assert segments[0] > 5
    many = Index.open(tmp_path / "many", waves())
    before = contents(many)
    many.compact()
    assert contents(many) == before == contents(build(tmp_path / "one"))


def test_a_repeated_sentence_is_kept_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(corpus_embedding, "COMMIT_BYTES", 1)
    index = build(tmp_path / "i", [["a", "b", "a"], ["c"], ["a", "b", "a"]])
    assert index.n_sentences == 2
    assert [use.position for use in index.uses("a")] == [0, 2]


def killed_at(path: Path, step: int) -> bool:
    """Build in a process that dies before its n-th step on the disk; whether it died."""
    child = os.fork()
    if child == 0:
        left = step

        def counted(real):
            def call(*arguments, **options):
                nonlocal left
                left -= 1
                if left < 0:
                    os.kill(os.getpid(), signal.SIGKILL)
                return real(*arguments, **options)

            return call

        for name in STEPS:
            setattr(os, name, counted(getattr(os, name)))
        try:
            build(path)
        finally:
            os._exit(0)
    return os.WIFSIGNALED(os.waitpid(child, 0)[1])


@pytest.mark.usefixtures("small_commits")
def test_killed_before_any_step_a_build_opens_and_goes_on(tmp_path: Path):
    want = contents(build(tmp_path / "whole"))
    step, began = 0, 0
    while killed_at(tmp_path / f"i{step}", step):
        path = tmp_path / f"i{step}"
        if path.exists():
            began += 1
            assert set(contents(Index.open(path))) <= set(want)
        assert contents(build(path)) == want, step
        assert not list(path.glob(".*.elmore-tmp"))
        step += 1 if step < 30 else 13  # every step of the first commits, then some
    assert began > 20


def test_an_interruption_keeps_what_was_computed(tmp_path: Path):
    class Stopped(Exception):
        pass

    class Corpus(list):
        reads = 0

        def __iter__(self):
            self.reads += 1
            for i, words in enumerate(list.__iter__(self)):
                if self.reads == 2 and i == 20:
                    raise Stopped
                yield words

    with pytest.raises(Stopped) as caught:
        build(tmp_path / "i", Corpus(SENTENCES))
    assert "run it again" in caught.value.__notes__[0]
    assert Index.open(tmp_path / "i").manifest.reading.sentences == 20
    model = waves()
    Index.build(SENTENCES, model, tmp_path / "i", max_uses=9)
    assert model.asked == 20
    assert contents(Index.open(tmp_path / "i")) == contents(build(tmp_path / "whole"))


def stopped(path: Path) -> Path:
    """A build that got as far as its tenth sentence."""

    def broken(writer):
        raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(building, "compact", broken)
        with pytest.raises(KeyboardInterrupt):
            build(path, SENTENCES[:10])
    with IndexWriter(path) as writer:
        reading = writer.manifest.reading.model_copy(update={"complete": False})
        writer.commit(reading=reading)
    return path


def test_going_on_with_something_else_is_refused(tmp_path: Path):
    path = stopped(tmp_path / "i")
    with pytest.raises(InputError, match="max_uses 9, not 10"):
        build(path, max_uses=10)
    with pytest.raises(InputError, match="keep the average of all layers, not layers 0, 1, 2"):
        build(path, keep="all")
    with pytest.raises(InputError, match="fingerprint"):
        build(path, name="other")
    with pytest.raises(InputError, match="after 10 sentences, and this corpus does not start"):
        build(path, list(reversed(SENTENCES)))
    with pytest.raises(InputError, match="does not start"):
        build(path, SENTENCES[:5])


def test_what_cannot_be_built_is_said(tmp_path: Path):
    build(tmp_path / "i")
    with pytest.raises(InputError, match="complete already"):
        build(tmp_path / "i")
    with pytest.raises(InputError, match="read only once"):
        build(tmp_path / "j", iter(SENTENCES))
    with pytest.raises(InputError, match="no words"):
        build(tmp_path / "j", [[]])
    with pytest.raises(ConfigError, match="layers 0 to 2"):
        build(tmp_path / "j", keep=L)
    with pytest.raises(ConfigError, match="max_uses is 0"):
        build(tmp_path / "j", max_uses=0)
    with pytest.raises(ConfigError, match="precision is 'int4'"):
        build(tmp_path / "j", precision="int4")
    assert not (tmp_path / "j").exists()


def test_one_writer_at_a_time(tmp_path: Path):
    index = build(tmp_path / "i")
    with IndexWriter(tmp_path / "i"), pytest.raises(BusyError, match="is writing to it"):
        index.delete(SENTENCES[:1])


def test_damage_is_named(tmp_path: Path):
    index = build(tmp_path / "i")
    vectors = tmp_path / "i" / index.manifest.segments[0].name / vectors_name(0)
    os.truncate(vectors, 100)
    with pytest.raises(FormatError, match=r"vectors-0\.bin: truncated, 100 bytes of"):
        Index.open(tmp_path / "i")
    vectors.unlink()
    with pytest.raises(FormatError, match=r"vectors-0\.bin: missing; restore it from a copy"):
        Index.open(tmp_path / "i")
    (tmp_path / "i" / MANIFEST).write_text("{}")
    with pytest.raises(FormatError, match="damaged"):
        Index.open(tmp_path / "i")
    with pytest.raises(FormatError, match="not an index"):
        Index.open(tmp_path)


def test_a_flipped_byte_of_the_manifest_is_named(tmp_path: Path):
    build(tmp_path / "i")
    path = tmp_path / "i" / MANIFEST
    whole = path.read_bytes()
    for place in range(0, len(whole) - 1, 7):  # the last is the end of the line
        for bits in (0x01, 0x80):
            path.write_bytes(whole[:place] + bytes([whole[place] ^ bits]) + whole[place + 1 :])
            with pytest.raises(FormatError, match=r"index\.json: (damaged|version)") as caught:
                Index.open(tmp_path / "i")
            assert "\n" not in str(caught.value)
    path.write_bytes(whole)
    assert len(Index.open(tmp_path / "i").words) > 0


def test_a_changed_number_in_the_manifest_is_noticed(tmp_path: Path):
    build(tmp_path / "i")
    path = tmp_path / "i" / MANIFEST
    path.write_text(path.read_text().replace('"max_uses": 9', '"max_uses": 8'))
    said = r"index\.json: damaged, its checksum does not match; .* build the index again"
    with pytest.raises(FormatError, match=said):
        Index.open(tmp_path / "i")


@pytest.mark.parametrize(
    ("version", "said"), [(1, "version 1, .* make it again"), (5, "version 5, .* update elmore")]
)
def test_an_index_of_another_version_is_refused(tmp_path: Path, version: int, said: str):
    build(tmp_path / "i")
    path = tmp_path / "i" / MANIFEST
    path.write_text(path.read_text().replace('"version": 4', f'"version": {version}'))
    with pytest.raises(FormatError, match=said):
        Index.open(tmp_path / "i")
