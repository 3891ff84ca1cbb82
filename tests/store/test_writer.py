"""Whatever stops a writer, and wherever, the store is what the last commit made it and goes on.

Two ways of dying: for real, by SIGKILL at random moments, and at every single step in turn, where
the step and everything after it simply do not happen, as if the process had gone.
"""

import errno
import json
import os
import random
import resource
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from elmore.errors import FormatError, InputError
from elmore.store import fill as filling
from elmore.store import hash_table
from elmore.store import writer as writing
from elmore.store.layout import MANIFEST, RECORDS, WORDS, index_name, shard_name
from elmore.store.store import Store
from tests.store.waves import sentences, wave, waves

N = 40


class Killed(BaseException):
    """The process is gone."""


class Steps:
    """Counts what a writer asks of the disk, and from one step on fails it all."""

    def __init__(self, fail_at: int | None, failure: Callable[[], BaseException]):
        self.fail_at, self.failure, self.done = fail_at, failure, 0

    def wrap(self, real: Callable[..., Any], partly: Callable[..., Any] | None = None) -> Any:
        def step(*arguments: Any, **named: Any) -> Any:
            self.done += 1
            if self.fail_at is None or self.done < self.fail_at:
                return real(*arguments, **named)
            if self.done == self.fail_at and partly is not None:
                partly(*arguments)
            raise self.failure()

        return step


def half_of_a_buffer(file: writing.AppendFile) -> None:
    os.write(file._file.fileno(), file._waiting[: len(file._waiting) // 2])


def half_of_a_file(path: Path, data: Any, **_: object) -> None:
    raw = data.encode() if isinstance(data, str) else bytes(data)
    with path.open("wb") as file:
        file.write(raw[: len(raw) // 2])


@contextmanager
def failing(steps: Steps, *, removing: bool) -> Iterator[None]:
    """With `removing`, taking things away fails as well: a dead process does not clean up, a live
    one on a full disk does."""
    with pytest.MonkeyPatch.context() as patch:
        write = writing.AppendFile._write
        patch.setattr(writing.AppendFile, "_write", steps.wrap(write, half_of_a_buffer))
        patch.setattr(Path, "write_bytes", steps.wrap(Path.write_bytes, half_of_a_file))
        patch.setattr(Path, "write_text", steps.wrap(Path.write_text, half_of_a_file))
        patch.setattr(hash_table, "_write_slot", steps.wrap(hash_table._write_slot))
        patch.setattr(os, "fsync", steps.wrap(lambda _: None))
        if removing:
            patch.setattr(Path, "replace", steps.wrap(Path.replace))
            patch.setattr(Path, "unlink", steps.wrap(Path.unlink))
            patch.setattr(os, "truncate", steps.wrap(os.truncate))
        yield


@pytest.fixture(autouse=True)
def _often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(filling, "COMMIT_SENTENCES", 9)
    monkeypatch.setattr(writing, "SHARD_BYTES", 3_000)


def check(folder: Path, at_least: int, asked: list[list[str]]) -> int:
    """Sound, holding all that was acknowledged and nothing that was not asked; how many."""
    store = Store.open(folder)
    assert len(store) >= at_least
    assert store.verify().damages == []
    for words, embedding in zip(asked, store, strict=False):
        assert embedding.words == words
        np.testing.assert_array_equal(embedding.layers, wave(words))
        np.testing.assert_array_equal(store[words].layers, wave(words))
    assert all(words not in store for words in asked[len(store) :])
    return len(store)


def fill_until_it_fails(folder: Path, steps: Steps, *, removing: bool) -> int:
    """How many sentences were said to be safe."""
    safe = 0

    def committed(_: object) -> None:
        nonlocal safe
        safe = len(Store.open(folder))

    store = Store.open(folder, waves())
    try:
        with failing(steps, removing=removing):
            store.fill(sentences(N), committed)
    except (Killed, InputError):
        pass
    return safe


def n_steps(tmp_path: Path, *, removing: bool) -> int:
    counting = Steps(None, Killed)
    Store.create(tmp_path / "count", waves())
    fill_until_it_fails(tmp_path / "count", counting, removing=removing)
    return counting.done


def test_a_death_at_any_step_loses_nothing_that_was_committed(tmp_path: Path):
    total = n_steps(tmp_path, removing=True)
    assert total > 60
    for last in range(1, total + 1, 2):
        folder = tmp_path / f"s{last}"
        Store.create(folder, waves())
        safe = fill_until_it_fails(folder, Steps(last, Killed), removing=True)
        check(folder, safe, sentences(N))
        with failing(Steps(None, Killed), removing=True):  # the disk need not wait
            Store.open(folder, waves()).fill(sentences(N))
        assert check(folder, N, sentences(N)) == N
        assert not list(folder.glob(".*"))


def test_a_full_disk_at_any_step_is_one_line_and_mends_itself(tmp_path: Path):
    total = n_steps(tmp_path, removing=False)

    def full() -> OSError:
        return OSError(errno.ENOSPC, "No space left on device")

    for last in range(2, total, 3):
        folder = tmp_path / f"s{last}"
        store = Store.create(folder, waves())
        with failing(Steps(last, full), removing=False), pytest.raises(InputError) as caught:
            store.fill(sentences(N))
        assert "cannot be written (No space left on device)" in str(caught.value)
        kept = check(folder, 0, sentences(N))
        assert len(store) == kept  # the same object goes on
        sizes = {path.name: path.stat().st_size for path in folder.glob("*-*.bin")}
        committed = {n: s.bytes for n, s in store.manifest.files.items() if n in sizes}
        assert sizes == {**committed, index_name(store.manifest.index): 8192}  # space given back
        store.fill(sentences(N))
        assert check(folder, N, sentences(N)) == N


def test_a_limit_of_the_system_is_one_line_and_loses_nothing(tmp_path: Path):
    """The same for real: the kernel lets no file grow beyond a size."""
    store = Store.create(tmp_path / "s", waves())
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, before[1]))
    try:
        with pytest.raises(InputError, match="cannot be written \\(File too large\\)"):
            store.fill(sentences(500))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    kept = check(tmp_path / "s", 100, sentences(500))
    assert kept < 500
    store.fill(sentences(500))
    assert check(tmp_path / "s", 500, sentences(500)) == 500


def one_life(folder: Path, asked: list[list[str]], seconds: float) -> int:
    """Fill in a process of its own that is killed; how many sentences it said were safe."""
    heard, tell = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            store = Store.open(folder, waves())
            store.fill(asked, lambda _: os.write(tell, len(Store.open(folder)).to_bytes(4)))
        finally:
            os._exit(0)
    os.close(tell)
    time.sleep(seconds)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    with os.fdopen(heard, "rb") as pipe:
        said = pipe.read()
    return int.from_bytes(said[-4:]) if len(said) >= 4 else 0


def kill_again_and_again(tmp_path: Path, kills: int, seed: int) -> None:
    rng, died, store = random.Random(seed), 0, 0
    asked = sentences(1000)
    while died < kills:
        folder = tmp_path / f"s{store}"
        Store.create(folder, waves())
        done, store = 0, store + 1
        while done < len(asked) and died < kills:
            done = check(folder, one_life(folder, asked, rng.uniform(0.0, 0.12)), asked)
            died += 1


def test_sigkill_at_random_moments_loses_nothing_that_was_committed(tmp_path: Path):
    kill_again_and_again(tmp_path, 12, seed=0)


@pytest.mark.slow
def test_hundreds_of_sigkills_lose_nothing_that_was_committed(tmp_path: Path):
    kill_again_and_again(tmp_path, 400, seed=1)


def test_the_disk_has_everything_before_the_manifest_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """What a power cut would find: only what was synced before the rename."""
    store = Store.create(tmp_path / "s", waves())
    synced: dict[int, tuple[int, int]] = {}
    replaced = 0
    fsync, replace = os.fsync, Path.replace

    def remember(handle: int) -> None:
        fsync(handle)
        status = os.fstat(handle)
        synced[status.st_ino] = (status.st_size, status.st_mtime_ns)

    def look(path: Path, target: Path) -> Path:
        nonlocal replaced
        if target.name == MANIFEST:
            replaced += 1
            state = json.loads(path.read_text())
            for name in [RECORDS, WORDS, index_name(state["index"])]:
                status = (tmp_path / "s" / name).stat()
                assert synced.get(status.st_ino) == (status.st_size, status.st_mtime_ns), name
            for i in range(len(state["shards"])):
                status = (tmp_path / "s" / shard_name(i)).stat()
                assert synced.get(status.st_ino, (0,))[0] == status.st_size, i
            assert (tmp_path / "s").stat().st_ino in synced  # the names of new files
        return replace(path, target)

    monkeypatch.setattr(os, "fsync", remember)
    monkeypatch.setattr(Path, "replace", look)
    store.fill(sentences(N))
    assert replaced > 3


def test_leftovers_are_not_seen_and_swept_by_the_next_writer(tmp_path: Path):
    store = Store.create(tmp_path / "s", waves())
    store.fill(sentences(20))
    for name in (RECORDS, WORDS, shard_name(len(store.manifest.shards) - 1)):
        with (tmp_path / "s" / name).open("ab") as file:
            file.write(b"left over" * 100)
    for name in (shard_name(99), index_name(99), ".manifest.json.1.elmore-tmp"):
        (tmp_path / "s" / name).write_bytes(b"left over")
    check(tmp_path / "s", 20, sentences(20))
    store.fill(sentences(30))
    check(tmp_path / "s", 30, sentences(30))
    assert not any(b"left over" in path.read_bytes() for path in (tmp_path / "s").iterdir())


@pytest.mark.parametrize("damage", ["lost", "cut", "odd"])
def test_a_lost_index_is_made_again(tmp_path: Path, damage: str):
    store = Store.create(tmp_path / "s", waves())
    store.fill(sentences(20))
    path = tmp_path / "s" / index_name(store.manifest.index)
    match damage:
        case "lost":
            path.unlink()
        case "cut":
            os.truncate(path, 1000)
        case "odd":
            path.write_bytes(path.read_bytes()[:-3])
    reader = Store.open(tmp_path / "s")
    assert all(words in reader for words in sentences(20))
    Store.open(tmp_path / "s", waves()).fill(sentences(25))
    check(tmp_path / "s", 25, sentences(25))


def test_a_cut_shard_cannot_be_added_to(tmp_path: Path):
    store = Store.create(tmp_path / "s", waves())
    store.fill(sentences(20))
    last = tmp_path / "s" / shard_name(len(store.manifest.shards) - 1)
    os.truncate(last, last.stat().st_size - 4)
    with pytest.raises(FormatError, match="truncated"):
        store.fill(sentences(21))
