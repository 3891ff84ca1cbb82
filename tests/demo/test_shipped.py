"""The models in the box: there, small, described, offline, and they tell senses apart."""

import json
import socket
from pathlib import Path

import pytest

import elmore
from elmore.checkpoint.source_names import shipped_names
from elmore.cli.main import main
from elmore.demo.demo import demo
from elmore.embedder import Embedder

PRETRAINED = Path(elmore.__file__).parent / "pretrained"
LIMITS = {"small-en": 25_000_000, "small-zh": 21_000_000}


@pytest.fixture
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("something asked for the network")

    monkeypatch.setattr(socket.socket, "connect", refuse)


@pytest.mark.parametrize("name", LIMITS)
def test_it_is_there_small_and_described(name: str):
    folder = PRETRAINED / name
    assert name in shipped_names()
    assert sum(file.stat().st_size for file in folder.rglob("*")) <= LIMITS[name]
    card = (folder / "MODEL_CARD.md").read_text(encoding="utf-8")
    for heading in ("## Model", "## Data", "## Training", "## Perplexity", "## Limits"):
        assert heading in card
    assert "CC BY-SA" in (folder / "LICENSE").read_text(encoding="utf-8")


def test_its_contextual_layers_are_25_points_above_static_vectors():
    found = demo(Embedder.load("small-en"), "en", "bank").total
    assert max(found.layers[-1], found.average) >= found.static + 0.25
    assert found.meaning is not None
    assert found.meaning >= found.layers[-1] + 0.03  # measured: 76.3 and 71.1


def test_small_zh_tells_senses_apart_better_than_chance_and_than_its_bag_of_words():
    found = demo(Embedder.load("small-zh"), "zh", "苹果").total
    assert found.meaning is not None
    assert found.meaning >= found.static + 0.25
    assert found.meaning >= found.sentence + 0.05


@pytest.mark.usefixtures("no_network")
def test_small_zh_is_shown_chinese_and_predicts(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["demo", "--model", "small-zh"]) == 0
    said = capsys.readouterr().out
    assert "21 ambiguous words" in said
    assert "elmore demo --word 苹果 --plot 苹果.html\n" in said
    text = tmp_path / "text.txt"
    text.write_text("他在大学学习数学。\n" * 3, encoding="utf-8")
    assert main(["evaluate", "small-zh", str(text), "--quiet"]) == 0
    assert main(["substitutes", "small-zh", "他在大学学习数学。", "--word", "数学"]) == 0


def test_characters_it_does_not_know_fall_into_classes():
    elmo = Embedder.load("small-zh")
    vectors = [e.layers[0, 0] for e in elmo.embed([["🎉🎊"], ["ლა"], ["ъы"]])]
    assert abs(vectors[0] - vectors[1]).max() > 1e-3
    assert abs(vectors[1] - vectors[2]).max() > 1e-3


@pytest.mark.usefixtures("no_network")
def test_the_demo_runs_offline_and_says_what_to_type_next(capsys: pytest.CaptureFixture[str]):
    assert main(["demo"]) == 0
    printed = capsys.readouterr().out
    assert "55 ambiguous words" in printed
    assert "21 ambiguous words" in printed
    assert "elmore " in printed.splitlines()[-1]


@pytest.mark.usefixtures("no_network")
def test_a_picture_of_one_word(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    target = tmp_path / "bank.html"
    assert main(["demo", "--word", "bank", "--plot", str(target), "--json"]) == 0
    figures = json.loads(capsys.readouterr().out)["demos"][0]
    assert figures["model"] == "small-en"
    assert "bank" in target.read_text(encoding="utf-8")


def test_spellings_it_never_saw_have_vectors_of_their_own():
    one, other = Embedder.load("small-en").embed([["xyzzyfication"], ["plughless"]])
    assert abs(one.layers - other.layers).max() > 1e-3
