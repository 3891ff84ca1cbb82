"""The hash table, against a dictionary."""

import hashlib
from pathlib import Path

import numpy as np
import pytest

from elmore.store import hash_table
from elmore.store.layout import Record


def key(i: int) -> bytes:
    return hashlib.blake2b(str(i).encode(), digest_size=16).digest()


def crowding(i: int) -> bytes:
    """Keys that all want the last places of the table, so that many run over its end."""
    return (0xFFFF_FFFF_FFFF_FFFE + i % 2).to_bytes(8, "little") + key(i)[8:]


def records(keys: list[bytes]) -> bytes:
    return b"".join(Record(k, 0, 0, 0, 0, 0, 0, 0).pack() for k in keys)


@pytest.mark.parametrize("make", [key, crowding])
@pytest.mark.parametrize("n", [0, 1, 600])
def test_a_table_made_at_once_finds_every_key_and_no_other(make: object, n: int):
    assert callable(make)
    keys = [make(i) for i in range(n)]
    data, table = records(keys), hash_table.build(records(keys), n).data
    assert [hash_table.find(table, data, n, k) for k in keys] == list(range(n))
    assert all(hash_table.find(table, data, n, make(n + i)) is None for i in range(50))


@pytest.mark.parametrize("make", [key, crowding])
def test_a_table_added_to_finds_old_and_new(make: object, tmp_path: Path):
    assert callable(make)
    keys = [make(i) for i in range(500)]
    table, path = hash_table.build(records(keys), 300), tmp_path / "index"
    path.write_bytes(table.data)
    hash_table.insert(path, table.data, keys[300:], 300)
    after = np.fromfile(path, np.uint64).data
    assert [hash_table.find(after, records(keys), 500, k) for k in keys] == list(range(500))
    assert len(after) == len(table)


def test_slots_of_a_commit_that_never_happened_do_no_harm(tmp_path: Path):
    keys = [key(i) for i in range(40)]
    path = tmp_path / "index"
    path.write_bytes(hash_table.build(records(keys[:20]), 20).data)
    lost = [key(1000 + i) for i in range(10)]
    for added in (lost, keys[20:]):  # the first never got its records; the second took its numbers
        hash_table.insert(path, np.fromfile(path, np.uint64).data, added, 20)
    table = np.fromfile(path, np.uint64).data
    assert [hash_table.find(table, records(keys), 40, k) for k in keys] == list(range(40))
    assert all(hash_table.find(table, records(keys), 40, k) is None for k in lost)
    assert all(hash_table.find(table, records(keys), 20, k) is None for k in keys[20:])


def test_a_table_without_an_end_is_not_searched_for_ever():
    full = np.full(1024, 7, np.uint64).data
    assert hash_table.find(full, records([key(0)]), 1, key(1)) is None


@pytest.mark.parametrize("n", [0, 1, 682, 683, 10_000_000])
def test_at_most_two_thirds_of_the_slots_are_used(n: int):
    slots = hash_table.slots_for(n)
    assert slots & (slots - 1) == 0
    assert n <= slots * 2 / 3
    assert slots == 1024 or n > slots / 3 - 1


@pytest.mark.parametrize("chunk", [64, 1 << 18])
@pytest.mark.parametrize("make", [key, crowding])
def test_a_damaged_table_is_noticed_if_and_only_if_it_loses_a_record(
    make: object, chunk: int, monkeypatch: pytest.MonkeyPatch
):
    assert callable(make)
    monkeypatch.setattr(hash_table, "_CHUNK", chunk)
    rng, keys = np.random.default_rng(0), [make(i) for i in range(600)]
    data = records(keys)
    sound, seen = hash_table.build(data, 600), set()
    assert hash_table.finds_all(sound.data, data, 600)
    for turn in range(60):
        table = sound.copy()
        for _ in range(turn % 3 + 1):
            place = rng.integers(len(table))
            other = table[rng.integers(len(table))]
            bit = np.uint64(1) << np.uint64(rng.integers(64))
            table[place] = (0, other, table[place] ^ bit)[turn % 3]
        truth = [hash_table.find(table.data, data, 600, k) for k in keys] == list(range(600))
        assert hash_table.finds_all(table.data, data, 600) == truth
        seen.add(truth)
    assert seen == {True, False}
