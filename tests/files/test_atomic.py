"""Atomic writing: one complete version whoever writes, no link followed, nothing left over."""

import multiprocessing
import os
import signal
import threading
import time
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from elmore.files import atomic
from elmore.files.atomic import atomic_file, atomic_folder, discard, sweep, write_text

TURNS = 40


def write_slowly(target: Path, letter: str) -> None:
    """A file of one letter, written in pieces: two writers of one file would mix."""
    for _ in range(TURNS):
        with atomic_file(target) as beside, beside.open("w") as file:
            for _ in range(20):
                file.write(letter * 100)
                file.flush()
                time.sleep(0)


def complete(target: Path) -> bool:
    return target.read_text() in ("a" * 2000, "b" * 2000)


def test_two_threads_write_one_target_and_it_is_always_complete(tmp_path: Path):
    target = tmp_path / "a.txt"
    threads = [threading.Thread(target=write_slowly, args=(target, letter)) for letter in "ab"]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        assert not target.exists() or complete(target)
    assert complete(target)
    assert [path.name for path in tmp_path.iterdir()] == ["a.txt"]


def test_two_processes_with_one_pid_write_one_target(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """As in two containers: the number of a process says nothing."""
    monkeypatch.setattr(os, "getpid", lambda: 7)
    context = multiprocessing.get_context("fork")
    target = tmp_path / "a.txt"
    children = [context.Process(target=write_slowly, args=(target, letter)) for letter in "ab"]
    for child in children:
        child.start()
    for child in children:
        child.join()
        assert child.exitcode == 0
    assert complete(target)
    assert [path.name for path in tmp_path.iterdir()] == ["a.txt"]


def test_a_link_at_a_name_that_can_be_guessed_is_not_followed(tmp_path: Path):
    victim = tmp_path / "victim"
    victim.write_text("mine")
    for name in (f".a.txt.{os.getpid()}.elmore-tmp", ".a.txt.elmore-tmp", ".a.txt.1.elmore-tmp"):
        (tmp_path / name).symlink_to(victim)
    write_text(tmp_path / "a.txt", "text")
    assert victim.read_text() == "mine"
    assert (tmp_path / "a.txt").read_text() == "text"
    assert not (tmp_path / "a.txt").is_symlink()


def test_not_even_a_name_that_was_guessed_is_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(atomic.secrets, "token_hex", lambda _: "0" * 12)
    victim = tmp_path / "victim"
    (tmp_path / ".a.000000000000.elmore-tmp").symlink_to(victim)
    with pytest.raises(atomic.InputError, match="cannot be written"):
        write_text(tmp_path / "a", "text")
    with pytest.raises(atomic.InputError, match="cannot be written"), atomic_folder(tmp_path / "a"):
        pass
    assert not victim.exists()


def killed_while_writing(target: Path) -> None:
    """Leave a half-written file or folder behind, as SIGKILL does."""
    ready, tell = os.pipe()
    child = os.fork()
    if child == 0:
        writer = atomic_folder if target.suffix == "" else atomic_file
        with writer(target) as beside:
            (beside / "part" if beside.is_dir() else beside).write_text("half")
            os.write(tell, b"x")
            signal.pause()
    os.read(ready, 1)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)


@pytest.mark.parametrize("name", ["a.txt", "folder"])
def test_what_a_killed_writer_left_goes_when_its_target_is_written(tmp_path: Path, name: str):
    killed_while_writing(tmp_path / name)
    killed_while_writing(tmp_path / "other.txt")
    assert len(list(tmp_path.iterdir())) == 2
    with (atomic_folder if name == "folder" else atomic_file)(tmp_path / name):
        pass
    names = {path.name for path in tmp_path.iterdir()}
    assert name in names
    assert len(names) == 2, "what belongs to another target stays"
    sweep(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {name}


def test_a_kill_while_a_folder_is_deleted_leaves_no_half_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    for name in ("a", "b"):
        (tmp_path / "step" / name).mkdir(parents=True)

    def killed(folder: Path, **_: object) -> None:
        (folder / "a").rmdir()
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(atomic.shutil, "rmtree", killed)
        with pytest.raises(KeyboardInterrupt):
            discard(tmp_path / "step")
    assert not (tmp_path / "step").exists()
    sweep(tmp_path)
    assert list(tmp_path.iterdir()) == []
    discard(tmp_path / "step")  # what is not there needs no deleting


@pytest.mark.parametrize("writer", [atomic_file, atomic_folder])
def test_what_is_being_written_is_not_swept(tmp_path: Path, writer):
    with writer(tmp_path / "a") as beside:
        sweep(tmp_path)
        sweep(tmp_path, "a")
        assert beside.exists()
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_a_name_that_is_swept_before_it_is_locked_is_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    real, swept = os.open, []

    def sweep_first(path: object, flags: int, *mode: int) -> int:
        if str(path).endswith(".elmore-tmp") and not flags & os.O_CREAT and not swept:
            swept.append(path)
            sweep(tmp_path)
        return real(path, flags, *mode)  # type: ignore[arg-type]

    monkeypatch.setattr(os, "open", sweep_first)
    write_text(tmp_path / "a", "text")
    assert (tmp_path / "a").read_text() == "text"
    assert len(swept) == 1


@pytest.mark.parametrize("umask", [0o022, 0o027, 0o002])
def test_files_follow_umask_whoever_writes_them(tmp_path: Path, umask: int):
    before = os.umask(umask)
    try:
        with atomic_folder(tmp_path / "model") as folder:
            save_file({"a": torch.zeros(3)}, folder / "model.safetensors")
            (folder / "config.json").write_text("{}")
        with atomic_file(tmp_path / "b.safetensors") as beside:
            save_file({"a": torch.zeros(3)}, beside)
    finally:
        os.umask(before)
    files = [tmp_path / "b.safetensors", *(tmp_path / "model").iterdir()]
    assert [oct(path.stat().st_mode & 0o777) for path in files] == [oct(0o666 & ~umask)] * 3
    assert (tmp_path / "model").stat().st_mode & 0o777 == 0o777 & ~umask


def test_what_a_reader_has_open_stays_on_windows_and_is_an_error_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "in use")

    path = tmp_path / "a"
    path.touch()
    with monkeypatch.context() as patch:
        patch.setattr(Path, "unlink", refuse)
        with pytest.raises(PermissionError):
            atomic.remove(path)
        patch.setattr(atomic, "_WINDOWS", True)
        atomic.remove(path)
    assert path.exists()
    atomic.remove(path)
    atomic.remove(path)
    assert not path.exists()


def test_windows_writes_without_opening_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    real = os.open

    def open_as_windows(path: Path, flags: int, *more: int) -> int:
        if Path(path).is_dir() or not flags & os.O_RDWR:
            raise PermissionError(13, "Permission denied")
        return real(path, flags, *more)

    monkeypatch.setattr(atomic, "_WINDOWS", True)
    monkeypatch.setattr(os, "open", open_as_windows)
    with atomic.atomic_folder(tmp_path / "folder") as folder:
        (folder / "a").write_text("1")
    with atomic.atomic_file(tmp_path / "folder" / "a") as file:
        file.write_text("2")
    assert (tmp_path / "folder" / "a").read_text() == "2"
