"""Every flipped byte is found and named, and what is not damaged can be read."""

import os
from pathlib import Path

import numpy as np
import pytest

from elmore.errors import ElmoreError, FormatError
from elmore.store import hash_table
from elmore.store import writer as writing
from elmore.store.keep import Projection
from elmore.store.layout import (
    MANIFEST,
    PROJECTION,
    RECORD_BYTES,
    RECORDS,
    WORDS,
    index_name,
    shard_name,
)
from elmore.store.store import Store
from tests.store.waves import sentences, wave, waves

N = 60


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(writing, "SHARD_BYTES", 8_000)
    Store.create(tmp_path / "s", waves()).fill(sentences(N))
    return tmp_path / "s"


def flip(path: Path, place: int) -> None:
    data = bytearray(path.read_bytes())
    data[place] ^= 0x10
    path.write_bytes(data)


def readable(store: Store) -> int:
    """Sentences that give the right vectors; the others must say that they do not."""
    right = 0
    for words in sentences(N):
        try:
            got = store.get(words)
        except FormatError:
            continue
        right += got is not None and np.array_equal(got.layers, wave(words))
    return right


def test_a_sound_store_is_said_to_be_sound(folder: Path):
    verdict = Store.open(folder).verify()
    assert verdict.damages == []
    assert verdict.sentences == N


def test_a_flipped_byte_of_a_vector_names_its_sentence(folder: Path):
    flip(folder / shard_name(1), 100)
    store = Store.open(folder)
    (damage,) = store.verify().damages
    assert damage.file == shard_name(1)
    assert damage.sentence is not None
    assert f"the vectors of '{' '.join(sentences(N)[damage.sentence])}' have changed" in str(damage)
    assert readable(store) == N - 1


def test_flipped_bytes_anywhere_are_found(folder: Path):
    rng = np.random.default_rng(0)
    names = [p.name for p in folder.iterdir() if p.name not in ("lock", MANIFEST)]
    for name in sorted(names):
        size = (folder / name).stat().st_size
        for place in rng.integers(0, size, 6):
            used = name != index_name(0) or (folder / name).read_bytes()[place // 8 * 8 :][
                :8
            ] != bytes(8)
            flip(folder / name, int(place))
            store = Store.open(folder)
            damages = store.verify().damages
            assert not used or name in {damage.file for damage in damages}
            assert readable(store) >= N - 1
            flip(folder / name, int(place))
    assert Store.open(folder).verify().damages == []


def test_a_flipped_byte_of_a_record_never_leads_to_other_vectors(folder: Path):
    for place in range(31 * RECORD_BYTES, 32 * RECORD_BYTES):
        flip(folder / RECORDS, place)
        store = Store.open(folder)
        assert [d.sentence for d in store.verify().damages if d.file == RECORDS] == [31]
        try:
            found = store.get(sentences(N)[31])
        except FormatError:
            found = None
        assert found is None
        flip(folder / RECORDS, place)


def test_a_flipped_byte_of_the_index_loses_a_sentence_and_is_named(folder: Path):
    path = folder / index_name(0)
    slots = np.flatnonzero(np.fromfile(path, np.uint64))
    for slot in slots[:10]:
        flip(path, int(slot) * 8 + 6)  # in the bits of the key
        store = Store.open(folder)
        (damage,) = store.verify().damages
        assert damage.file == path.name
        assert "does not find 1 sentence" in str(damage)
        assert readable(store) == N - 1
        flip(path, int(slot) * 8 + 6)
    path.unlink()
    assert readable(Store.open(folder)) == N


def test_a_flipped_byte_of_the_manifest_is_an_error_at_once(folder: Path):
    size = (folder / MANIFEST).stat().st_size
    for place in range(0, size - 1, 7):
        before = (folder / MANIFEST).read_bytes()
        flip(folder / MANIFEST, place)
        with pytest.raises(FormatError):
            Store.open(folder)
        (folder / MANIFEST).write_bytes(before)


@pytest.mark.parametrize("name", [RECORDS, WORDS, shard_name(0), shard_name(1)])
def test_a_cut_file_names_what_is_gone(folder: Path, name: str):
    os.truncate(folder / name, (folder / name).stat().st_size // 2)
    store = Store.open(folder)
    verdict = store.verify()
    assert {damage.file for damage in verdict.damages} == {name}
    assert 0 < verdict.damaged_sentences < N
    assert readable(store) == N - verdict.damaged_sentences


@pytest.mark.parametrize("name", [shard_name(0), WORDS, RECORDS])
def test_a_lost_file_is_named(folder: Path, name: str):
    (folder / name).unlink()
    store = Store.open(folder)
    assert name in {damage.file for damage in store.verify().damages}
    assert readable(store) < N


def test_a_record_made_up_by_an_enemy_reads_nothing_it_should_not(folder: Path):
    """All bits set: offsets and lengths far beyond every file."""
    data = bytearray((folder / RECORDS).read_bytes())
    at = 30 * RECORD_BYTES + 16
    data[at : at + 36] = b"\xff" * 36
    (folder / RECORDS).write_bytes(data)
    store = Store.open(folder)
    with pytest.raises(ElmoreError):
        store[sentences(N)[30]]
    assert [d.sentence for d in store.verify().damages] == [30]
    assert readable(store) == N - 1


@pytest.mark.parametrize("name", ["words.txt", "sentences.bin"])
def test_going_through_a_store_does_not_pass_over_what_is_gone(folder: Path, name: str):
    (folder / name).write_bytes(b"")
    with pytest.raises(FormatError, match=name):
        list(Store.open(folder))


def test_a_lost_projection_is_named(tmp_path: Path):
    projection = Projection.learn(waves().stream(sentences(20)), 4)
    store = Store.create(tmp_path / "s", waves(), keep=projection)
    store.fill(sentences(5))
    (tmp_path / "s" / PROJECTION).unlink()
    assert [d.file for d in Store.open(tmp_path / "s").verify().damages] == [PROJECTION]


# A damaged hash table ---------------------------------------------------------------------------


def damage_table(folder: Path, how: str) -> None:
    path = folder / index_name(Store.open(folder).manifest.index)
    slots = np.fromfile(path, np.uint64)
    match how:
        case "zeros":
            slots[:] = 0
        case "half":
            slots[: len(slots) // 2] = 0
        case "shuffled":
            np.random.default_rng(0).shuffle(slots)
        case "noise":
            slots[:] = np.random.default_rng(0).integers(1 << 63, size=len(slots), dtype=np.uint64)
    path.write_bytes(slots.tobytes())


@pytest.mark.parametrize("how", ["zeros", "half", "shuffled", "noise"])
def test_a_damaged_table_is_built_again_before_anything_is_added(tmp_path: Path, how: str):
    store = Store.create(tmp_path / "s", waves())
    store.fill(sentences(40))
    damage_table(tmp_path / "s", how)
    (damage,) = Store.open(tmp_path / "s").verify().damages
    assert "`elmore store fill` builds it again" in str(damage)
    report = Store.open(tmp_path / "s", waves()).fill(sentences(50))
    assert (report.added, report.repeated) == (10, 40)
    after = Store.open(tmp_path / "s")
    assert len(after) == len(set(map(tuple, (e.words for e in after)))) == 50
    assert after.verify().damages == []
    assert len(list((tmp_path / "s").glob("index-*"))) == 1


def test_a_damaged_table_is_built_again_though_nothing_is_new(tmp_path: Path):
    store = Store.create(tmp_path / "s", waves())
    store.fill(sentences(40))
    damage_table(tmp_path / "s", "half")
    store = Store.open(tmp_path / "s", waves())
    assert store.fill(sentences(40)).added == 0
    assert Store.open(tmp_path / "s").verify().damages == []


def test_repeated_sentences_are_told_and_a_merge_removes_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """As an earlier version made them after its table was damaged."""
    store = Store.create(tmp_path / "s", waves())
    store.fill(sentences(40))
    damage_table(tmp_path / "s", "zeros")
    with monkeypatch.context() as patch:
        patch.setattr(hash_table, "finds_all", lambda *_: True)
        store.fill(sentences(10))
    (tmp_path / "s" / index_name(Store.open(tmp_path / "s").manifest.index)).unlink()
    Store.open(tmp_path / "s", waves()).fill(sentences(41))
    verdict = Store.open(tmp_path / "s").verify()
    assert [str(damage) for damage in verdict.damages] == [
        "sentences.bin: 10 sentence(s) are repeated; `elmore store merge` copies each once"
    ]
    assert not verdict.is_table_only
    Store.merge([tmp_path / "s"], tmp_path / "new")
    assert len(Store.open(tmp_path / "new")) == 41
    assert Store.open(tmp_path / "new").verify().damages == []
