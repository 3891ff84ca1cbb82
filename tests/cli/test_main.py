"""The command line as a whole: help without torch, errors in one line, exit codes."""

import signal
import subprocess
import sys

import pytest

from elmore import __version__
from elmore.cli import main as cli
from elmore.cli.main import main
from elmore.errors import InputError


def raising(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    def run(arguments: list[str]) -> int:
        raise error

    monkeypatch.setattr(cli, "_run", run)


def test_help_lists_the_verbs_and_does_not_import_torch():
    command = [sys.executable, "-X", "importtime", "-m", "elmore", "--help"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    for verb in ("embed", "convert", "doctor"):
        assert verb in done.stdout
    imported = {line.split("|")[-1].strip() for line in done.stderr.splitlines()}
    assert "elmore.cli.main" in imported
    assert not {"torch", "h5py", "numpy"} & imported


def test_version_is_printed(capsys: pytest.CaptureFixture[str]):
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"elmore {__version__}\n"


def test_no_arguments_print_the_help(capsys: pytest.CaptureFixture[str]):
    assert main([]) == 0
    assert "Usage: elmore" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["embd"], "embd"),
        (["--colour"], "--colour"),
        (["embed"], "input"),
        (["embed", "a", "b.hdf5"], "a: no such file"),
        (["embed", "a", "b.hdf5", "--model", "m", "--format", "csv"], "csv"),
        (["embed", "a", "b.hdf5", "--model", "m", "--batch-words", "many"], "--batch-words"),
        (["embed", "a", "b.hdf5", "--model", "m", "--batch-words", "0"], "--batch-words"),
        (["embed", "a", "b.hdf5", "--model", "m", "--no-such"], "--no-such"),
        (["convert", "a"], "target"),
    ],
)
def test_usage_errors_are_one_line_and_exit_2(
    capsys: pytest.CaptureFixture[str], arguments: list[str], said: str
):
    assert main(arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("elmore: ")
    assert err.count("\n") == 1
    assert said in err.lower()
    assert len(err) < 250


@pytest.mark.parametrize(
    ("error", "code", "line"),
    [
        (InputError("a: bad.\nReally."), 2, r"elmore: a: bad.\nReally."),
        (OSError(28, "No space left on device"), 2, "No space left on device"),
        (PermissionError(13, "Permission denied", "x"), 2, "x: Permission denied."),
        (KeyboardInterrupt(), 130, "elmore: stopped."),
        (KeyboardInterrupt(signal.SIGTERM), 143, "elmore: stopped."),
    ],
)
def test_what_a_user_can_mend_is_one_line(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    error: BaseException,
    code: int,
    line: str,
):
    error.add_note("And a note.")
    raising(monkeypatch, error)
    assert main(["doctor"]) == code
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert err.startswith("elmore: ")
    assert line in err
    assert err.endswith("And a note.\n")


@pytest.mark.parametrize("arguments", [["--debug", "embd"], ["embd", "--debug"]])
def test_debug_anywhere_shows_the_traceback(
    capsys: pytest.CaptureFixture[str], arguments: list[str]
):
    assert main(arguments) == 2
    err = capsys.readouterr().err
    assert err.startswith("Traceback")
    assert "embd" in err


def test_a_bug_is_not_hidden(monkeypatch: pytest.MonkeyPatch):
    raising(monkeypatch, ZeroDivisionError())
    with pytest.raises(ZeroDivisionError):
        main(["doctor"])
