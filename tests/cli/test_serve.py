"""`elmore serve` before it serves: what is wrong is said in one line. tests/serve has the rest."""

import socket
from pathlib import Path

import pytest

from elmore.cli import serve
from elmore.cli.main import main


def said(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """The one line of a command that must fail."""
    assert main(["serve", *arguments]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    return error


def test_a_taken_port_is_said_before_the_model_is_loaded(capsys: pytest.CaptureFixture[str]):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        error = said(capsys, "--model", "no-such-model", "--port", port)
    assert error.startswith(f"elmore: 127.0.0.1 port {port}: Address already in use; choose")


def test_a_host_that_is_not_there_is_said(capsys: pytest.CaptureFixture[str]):
    assert "--host not a host: " in said(capsys, "--model", "x", "--host", "not a host")


def test_a_model_or_an_index_that_is_not_there_is_said(
    capsys: pytest.CaptureFixture[str], tiny_model: Path, tmp_path: Path
):
    assert "No model 'no-such-model'" in said(capsys, "--model", "no-such-model", "--port", "0")
    arguments = ("--model", str(tiny_model), "--port", "0", "--index", str(tmp_path))
    assert "not an index" in said(capsys, *arguments)


@pytest.mark.parametrize(
    ("option", "value", "error"),
    [
        ("--api-key", "", "The API key is empty"),
        ("--max-words", "0", "max_words is 0; expected more than 0."),
        ("--queue-words", "-1", "queue_words is -1; expected more than 0."),
        ("--port", "70000", "65535"),
    ],
)
def test_settings_that_cannot_be_are_said(
    capsys: pytest.CaptureFixture[str], option: str, value: str, error: str
):
    assert error in said(capsys, "--model", "x", option, value)


def test_a_missing_extra_is_named(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(serve, "_NEEDED", ("sys", "no_such_module"))
    error = said(capsys, "--model", "x")
    assert error == "elmore: no_such_module: not installed; pip install 'elmore[serve]'.\n"


def test_the_help_does_not_show_the_key(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("ELMORE_API_KEY", "sesame")
    assert main(["serve", "--help"]) == 0
    out = capsys.readouterr().out
    assert "ELMORE_API_KEY" in out
    assert "sesame" not in out


@pytest.mark.parametrize(
    ("options", "warned"),
    [
        (("--host", "0.0.0.0"), True),
        (("--host", "0.0.0.0", "--api-key", "sesame"), False),
        (("--host", "0.0.0.0", "--quiet"), False),
        (("--host", "localhost"), False),
        ((), False),
    ],
)
def test_being_open_to_others_without_a_key_is_warned_of(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tiny_model: Path,
    options: tuple[str, ...],
    warned: bool,
):
    monkeypatch.setattr(serve, "_run", lambda *_: None)
    monkeypatch.delenv("ELMORE_API_KEY", raising=False)
    assert main(["serve", "--model", str(tiny_model), "--port", "0", *options]) == 0
    out, err = capsys.readouterr()
    assert out == ""
    assert ("other machines can use 0.0.0.0, and no key is needed." in err) is warned
    assert "sesame" not in err
