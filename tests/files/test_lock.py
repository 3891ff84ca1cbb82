"""One writer, told apart by name; any number of readers."""

import errno
import fcntl
import json
import os
import signal
import socket
from pathlib import Path

import numpy as np
import pytest

from elmore.errors import InputError
from elmore.files import lock
from elmore.files.lock import LOCK, BusyError, Lock
from elmore.store import fill as filling
from elmore.store import writer as writing
from elmore.store.store import Store
from elmore.store.writer import StoreWriter
from tests.store.waves import sentences, wave, waves


def test_a_second_writer_is_told_who_holds_it(tmp_path: Path):
    store = Store.create(tmp_path / "s", waves())
    ready, go = os.pipe(), os.pipe()
    child = os.fork()
    if child == 0:
        with StoreWriter(tmp_path / "s"):
            os.write(ready[1], b"x")
            os.read(go[0], 1)
        os._exit(0)
    os.read(ready[0], 1)
    with pytest.raises(BusyError, match=f"process {child} on {socket.gethostname()} \\(since 20"):
        store.fill(sentences(3))
    os.write(go[1], b"x")
    os.waitpid(child, 0)
    store.fill(sentences(3))
    assert len(store) == 3


def test_readers_read_while_somebody_writes(tmp_path: Path):
    Store.create(tmp_path / "s", waves()).fill(sentences(3))
    with StoreWriter(tmp_path / "s"):
        reader = Store.open(tmp_path / "s")
        np.testing.assert_array_equal(reader[sentences(3)[2]].layers, wave(sentences(3)[2]))


def test_readers_see_whole_commits_whenever_they_look(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """A writer in a process of its own outgrows its shards and its index under a reader's eyes."""
    monkeypatch.setattr(filling, "COMMIT_SENTENCES", 25)
    monkeypatch.setattr(writing, "SHARD_BYTES", 20_000)
    asked = sentences(1000)
    Store.create(tmp_path / "s", waves())
    child = os.fork()
    if child == 0:
        try:
            Store.open(tmp_path / "s", waves()).fill(asked)
        finally:
            os._exit(0)
    reader, seen = Store.open(tmp_path / "s"), set[int]()
    while os.waitpid(child, os.WNOHANG) == (0, 0):
        n = len(reader)
        seen.add(n)
        assert n % 25 == 0
        for words in asked[max(0, n - 30) : n]:
            np.testing.assert_array_equal(reader[words].layers, wave(words))
        assert not any(words in reader for words in asked[n : n + 30])
        reader.refresh()
    assert len(seen) > 3
    reader.refresh()
    assert len(reader) == 1000


def test_a_holder_that_did_not_sign_is_another_process(tmp_path: Path):
    held = Lock(tmp_path)
    (tmp_path / LOCK).write_text("{")
    with pytest.raises(BusyError, match="another process is writing"):
        Lock(tmp_path)
    held.release()
    Lock(tmp_path).release()
    assert json.loads((tmp_path / LOCK).read_text())["pid"] == os.getpid()


def test_a_killed_holder_leaves_the_lock_free(tmp_path: Path):
    ready = os.pipe()
    child = os.fork()
    if child == 0:
        held = Lock(tmp_path)
        os.write(ready[1], b"x")
        signal.pause()
        held.release()
    os.read(ready[0], 1)
    with pytest.raises(BusyError, match=f"process {child} on "):
        Lock(tmp_path)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    Lock(tmp_path).release()


def test_a_file_signed_by_the_first_version_names_its_holder(tmp_path: Path):
    held = Lock(tmp_path)
    (tmp_path / LOCK).write_text('{"pid": 7, "host": "h", "since": "2026-01-02 03:04:05"}')
    with pytest.raises(BusyError, match=r"process 7 on h \(since 2026-01-02 03:04:05\)"):
        Lock(tmp_path)
    held.release()
    Lock(tmp_path).release()


def test_the_first_byte_names_nobody(tmp_path: Path):
    """Windows lets nobody but the holder read the locked byte, which is the first."""
    held = Lock(tmp_path)
    signed = (tmp_path / LOCK).read_bytes()
    (tmp_path / LOCK).write_bytes(b"\0" + signed[1:])
    with pytest.raises(BusyError, match=f"process {os.getpid()} on "):
        Lock(tmp_path)
    held.release()


def test_the_first_version_and_this_one_exclude_each_other(tmp_path: Path):
    with (tmp_path / LOCK).open("a+b") as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        with pytest.raises(BusyError, match="another process"):
            Lock(tmp_path)
    held = Lock(tmp_path)
    with (tmp_path / LOCK).open("a+b") as file, pytest.raises(BlockingIOError):
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    held.release()


def test_an_error_lets_go_of_the_lock(tmp_path: Path):
    store = Store.create(tmp_path / "s", waves())
    with pytest.raises(ZeroDivisionError):
        store.fill(["a"] if i else 1 / 0 for i in range(1))  # type: ignore[misc]
    store.fill([["a"]])
    assert len(store) == 1


# Locks beside a file ------------------------------------------------------------------------------


def test_a_file_has_its_lock_beside_it_until_the_end(tmp_path: Path):
    target = tmp_path / "out.hdf5"
    with Lock(target, beside=True):
        assert [path.name for path in tmp_path.iterdir()] == [".out.hdf5.elmore-lock"]
        with pytest.raises(BusyError, match=rf"out\.hdf5: process {os.getpid()} on .* \(since 20"):
            Lock(target, beside=True)
        Lock(tmp_path / "other.hdf5", beside=True).release()
    assert list(tmp_path.iterdir()) == []


def test_a_lock_file_that_a_dead_process_left_is_no_obstacle(tmp_path: Path):
    (tmp_path / ".a.elmore-lock").write_text(' {"pid": 1, "host": "h", "since": "2026"} and more')
    with Lock(tmp_path / "a", beside=True):
        signed = (tmp_path / ".a.elmore-lock").read_text()
        assert json.loads(signed)["pid"] == os.getpid()


def test_a_lock_file_removed_by_its_last_holder_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Between opening the file and locking it, its holder may end and remove it."""
    held, real = Lock(tmp_path / "a", beside=True), lock.lock_descriptor

    def end_first(handle: int, *, blocking: bool) -> bool:
        held.release()
        return real(handle, blocking=blocking)

    monkeypatch.setattr(lock, "lock_descriptor", end_first)
    mine = Lock(tmp_path / "a", beside=True)
    with pytest.raises(BusyError):
        Lock(tmp_path / "a", beside=True)
    mine.release()
    mine.release()  # twice does no harm
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("beside", [True, False])
def test_a_link_in_the_place_of_the_lock_is_not_followed(tmp_path: Path, beside: bool):
    victim, folder = tmp_path / "victim", tmp_path / "folder"
    victim.write_text("mine")
    folder.mkdir()
    (tmp_path / ".folder.elmore-lock" if beside else folder / LOCK).symlink_to(victim)
    with pytest.raises(InputError, match="folder: cannot be written"):
        Lock(folder, beside=beside)
    assert victim.read_text() == "mine"


def test_a_file_system_without_locks_is_told_once_and_written_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    def no_locks(handle: int, *, blocking: bool) -> bool:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(lock, "lock_descriptor", no_locks)
    with pytest.warns(UserWarning, match="a: its file system has no locks") as told:
        Lock(tmp_path / "a", beside=True).release()
    assert len(told) == 1
