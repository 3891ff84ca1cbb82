"""The one progress bar: in a terminal a bar, elsewhere lines, nothing when quiet."""

import io
import sys

import pytest

from elmore.cli.progress import Bar, counting_bar


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def shown(monkeypatch: pytest.MonkeyPatch, stderr: io.StringIO, quiet: bool) -> str:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setattr(sys, "stderr", stderr)
    with Bar(quiet) as bar:
        bar.update(1, 4, description="reading [b]", figures="7 words")
        bar.line("epoch 1 [b]")
        bar.update(2)
    return stderr.getvalue()


def test_a_terminal_shows_description_share_figures_and_lines(monkeypatch: pytest.MonkeyPatch):
    text = shown(monkeypatch, Terminal(), quiet=False)
    for part in ("reading [b]", "50%", "7 words", "0:00:00", "epoch 1 [b]"):
        assert part in text


def test_elsewhere_there_are_only_lines(monkeypatch: pytest.MonkeyPatch):
    assert shown(monkeypatch, io.StringIO(), quiet=False) == "epoch 1 [b]\n"


@pytest.mark.parametrize("stderr", [io.StringIO(), Terminal()])
def test_quiet_is_silent(monkeypatch: pytest.MonkeyPatch, stderr: io.StringIO):
    assert shown(monkeypatch, stderr, quiet=True) == ""


def test_who_interrupts_is_told_how_to_continue():
    with pytest.raises(KeyboardInterrupt) as caught, Bar(True, if_stopped="Run it again."):
        raise KeyboardInterrupt
    assert caught.value.__notes__ == ["Run it again."]


def test_counts_are_shown_with_their_total(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stderr", terminal := Terminal())
    with counting_bar(quiet=False) as watch:
        watch(1_000, 2_000)
    assert "1,000/2,000" in terminal.getvalue()
