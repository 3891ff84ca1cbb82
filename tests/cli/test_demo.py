"""`elmore demo`: what it prints, what it draws, and what it says when it cannot."""

import json
import shutil
import sys
from pathlib import Path

import pytest

from elmore.cli.main import main
from elmore.demo.accuracy import chance
from elmore.demo.ambiguous_words import read_uses
from elmore.published import catalog


@pytest.fixture
def shipped(tmp_path: Path, tiny_model: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An installation whose only model is small-en."""
    monkeypatch.setattr(catalog, "files", lambda _: tmp_path)
    shutil.copytree(tiny_model, tmp_path / "pretrained" / "small-en")
    return tmp_path / "pretrained"


@pytest.mark.usefixtures("shipped")
def test_the_shipped_model_is_shown(capsys: pytest.CaptureFixture[str]):
    assert main(["demo"]) == 0
    said = capsys.readouterr().out
    assert "small-en has read 696 sentences with 55 ambiguous words" in said
    rows = {line.split()[0]: line.split() for line in said.splitlines() if line.split()}
    assert rows["bank"][-5:-4] == ["45"]  # static: 5 of 11 others
    assert rows["court"][-5:-4] == ["29"]  # three senses: 5 of 17
    assert rows["all"][1] == "43.0"
    assert "The shortstop made a brilliant play to end the inning." in said
    assert "Chinese is skipped: there is no small-zh here." in said
    assert "elmore demo --word spring --plot spring.html\n" in said


def test_both_languages_are_shown_when_both_models_are_there(
    shipped: Path, tiny_model: Path, capsys: pytest.CaptureFixture[str]
):
    shutil.copytree(tiny_model, shipped / "small-zh")
    assert main(["demo"]) == 0
    said = capsys.readouterr().out
    assert "small-zh has read 252 sentences with 21 ambiguous words" in said
    assert "skipped" not in said


def test_json_has_every_figure(tiny_model: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["demo", "--model", str(tiny_model), "--word", "bill", "--json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)["demos"]
    assert (found["language"], found["sentences"]) == ("en", 696)
    bill = next(word for word in found["words"] if word["word"] == "bill")
    assert bill["senses"] == ["invoice", "law", "beak"]
    by_chance = chance([use.sense for use in read_uses("en") if use.word == "bill"])
    assert bill["accuracy"]["static"] == pytest.approx(by_chance)
    assert set(found["total"]) == {"static", "sentence", "layers", "average", "meaning"}
    assert len(found["neighbors"]["contextual"]) == 3
    assert len(found["neighbors"]["static"]) == 8


def test_a_chinese_word_asks_for_chinese(tiny_model: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["demo", "--model", str(tiny_model), "--word", "出口", "--json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)["demos"]
    assert (found["language"], found["neighbors"]["word"]) == ("zh", "出口")


@pytest.mark.parametrize("name", ["x.html", "x.png"])
def test_a_picture_is_drawn(
    tiny_model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
):
    if name.endswith("png"):
        pytest.importorskip("matplotlib", reason="needs the extra plot")
    target = tmp_path / name
    assert main(["demo", "--model", str(tiny_model), "--plot", str(target)]) == 0
    assert target.read_bytes().startswith((b"<!doctype html>", b"\x89PNG"))
    assert f"{target} is drawn." in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "The model small-en is not part of this installation; add --model SOURCE"),
        (["--word", "苹果"], "The model small-zh is not part of this installation"),
        (["--word", "sprng"], "try spring"),
        (["--model", "nowhere"], "No model 'nowhere'"),
        (["--plot", "x.jpg"], "ends in '.jpg'; expected .html or .png."),
        (["--plot", "no/such/x.html"], "no such folder; create it first."),
    ],
)
def test_what_cannot_be_shown_is_said_in_one_line(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    said: str,
):
    monkeypatch.setattr(catalog, "files", lambda _: tmp_path)
    assert main(["demo", *arguments]) == 2
    err = capsys.readouterr().err
    assert said in err
    assert err.count("\n") == 1


def test_a_png_without_matplotlib_is_refused_before_the_work(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert main(["demo", "--model", "nowhere", "--plot", "x.png"]) == 2
    assert "pip install 'elmore[plot]'" in capsys.readouterr().err
