"""What can be tested here of the differences between systems."""

import os
from pathlib import Path

import pytest

from elmore.files import atomic


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
