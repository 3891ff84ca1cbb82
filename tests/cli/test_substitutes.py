"""`elmore substitutes`: what it prints, which of several words it takes, and what it refuses."""

import json
from pathlib import Path

import pytest

from elmore import Predictor
from elmore.checkpoint.sources import save
from elmore.cli.main import main
from tests.predictor.tiny_language_model import make_language_model
from tests.tiny_bert import tiny_bert

SENTENCE = "the river bank lent the money."
WORDS = ["the", "river", "bank", "lent", "the", "money", "."]


@pytest.fixture(params=["bert", "elmo"])
def model(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "bert":
        save(tiny_bert(heads=True), tmp_path / "bert")
        return str(tmp_path / "bert")
    make_language_model(tmp_path)
    return str(tmp_path / "weights.hdf5")


def test_the_likeliest_words_are_printed(model: str, capsys: pytest.CaptureFixture[str]):
    assert main(["substitutes", model, SENTENCE, "--word", "bank", "--top", "3"]) == 0
    out, err = capsys.readouterr()
    (wanted,) = Predictor.load(model).substitutes([(WORDS, 2)], top=3)
    assert out.splitlines() == [f"{one.probability:.4f}  {one.word}" for one in wanted]
    assert err == ""


def test_as_json(model: str, capsys: pytest.CaptureFixture[str]):
    asked = ["substitutes", model, SENTENCE, "--word", "bank", "--json", "--all", "--top", "999"]
    assert main(asked) == 0
    answer = json.loads(capsys.readouterr().out)
    assert (answer["words"], answer["position"]) == (WORDS, 2)
    (wanted,) = Predictor.load(model).substitutes([(WORDS, 2)], top=999, whole_words=False)
    assert [one["word"] for one in answer["substitutes"]] == [one.word for one in wanted]
    total = sum(one["probability"] for one in answer["substitutes"])
    assert total == pytest.approx(1.0, abs=1e-5)


def test_a_word_that_occurs_twice(model: str, capsys: pytest.CaptureFixture[str]):
    asked = ["substitutes", model, SENTENCE, "--word", "the", "--json"]
    assert main(asked) == 0
    out, err = capsys.readouterr()
    assert json.loads(out)["position"] == 0
    assert err == (
        "elmore: 'the' is word 0, 4 of the sentence (counted from 0); this is about word 0. "
        "--position chooses another.\n"
    )
    assert main([*asked, "--position", "4"]) == 0
    out, err = capsys.readouterr()
    assert (json.loads(out)["position"], err) == (4, "")


@pytest.mark.parametrize(
    ("rest", "said"),
    [
        (["--word", "tree"], "'tree' is not a word of the sentence; its words are ['the',"),
        (["--word", "the", "--position", "1"], "Word 1 of the sentence is not 'the', which is"),
        (["--word", "the", "--top", "0"], "--top"),
        ([], "--word"),
    ],
)
def test_bad_questions_are_one_line(
    rest: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    assert main(["substitutes", str(tmp_path), SENTENCE, *rest]) == 2
    err = capsys.readouterr().err
    assert said in err
    assert err.count("\n") == 1


def test_a_model_without_a_head_says_what_to_do(
    tiny_model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    save(tiny_bert(heads=False), tmp_path / "bert")
    for source, lacks in ((tiny_model, "softmax"), (tmp_path / "bert", "head for masked words")):
        assert main(["substitutes", str(source), SENTENCE, "--word", "bank"]) == 2
        err = capsys.readouterr().err
        assert f"{source}: has no {lacks}" in err
        assert "elmore pretrain CORPUS --from SOURCE" in err
        assert err.count("\n") == 1
