"""What every kind of predictor promises: places in company, bad input in one line, no head said."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import elmore.predictor.predictor as room
from elmore import Predictor
from elmore.checkpoint.checkpoint import Checkpoint
from elmore.checkpoint.sources import load
from elmore.errors import ElmoreError, FormatError
from elmore.predictor.place import Place, places_of
from tests.predictor.tiny_language_model import make_language_model
from tests.tiny_bert import tiny_bert
from tests.toy_model import toy_checkpoint

WORDS = "the river bank lent money .".split()


def elmo(tmp_path: Path) -> Checkpoint:
    make_language_model(tmp_path)
    return load(tmp_path / "weights.hdf5", heads=True)


@pytest.fixture(params=["bert", "elmo"])
def checkpoint(request: pytest.FixtureRequest, tmp_path: Path) -> Checkpoint:
    return tiny_bert(heads=True) if request.param == "bert" else elmo(tmp_path)


def test_a_place_has_the_same_substitutes_alone_and_in_company(
    checkpoint: Checkpoint, monkeypatch: pytest.MonkeyPatch
):
    predictor = Predictor(checkpoint)
    places = [(WORDS[: i % 6 + 1], i % (i % 6 + 1)) for i in range(40)]
    monkeypatch.setattr(room, "_SCORES", 4 * len(predictor._inner.words))  # 4 places at once
    together = predictor.substitutes(places, top=5, batch_words=50)
    for place, found in zip(places, together, strict=True):
        (alone,) = predictor.substitutes([place], top=5)
        assert [one.word for one in found] == [one.word for one in alone]
        for one, other in zip(found, alone, strict=True):
            assert one.probability == pytest.approx(other.probability, abs=1e-6)
    assert predictor.substitutes([]) == []


def test_a_sentence_may_be_a_string(checkpoint: Checkpoint):
    predictor = Predictor(checkpoint)
    assert predictor.substitutes([("the river bank lent money.", 2)]) == predictor.substitutes(
        [Place(WORDS, 2)]
    )


def test_there_are_as_many_as_asked_for_and_no_more_than_there_are(checkpoint: Checkpoint):
    predictor = Predictor(checkpoint)
    n_words = int(predictor._inner.whole.sum())
    for top in (1, 3, 10**6):
        (found,) = predictor.substitutes([(WORDS, 1)], top=top)
        assert len(found) == min(top, n_words)


@pytest.mark.parametrize(
    ("places", "said"),
    [
        ([(WORDS, 6)], "Place 0 is 6; .* has 6 words"),
        ([(WORDS, 1), (WORDS, -1)], "Place 1 is -1"),
        ([(WORDS, "bank")], "Place 0 is 'bank'"),
        ([([], 0)], "has 0 words"),
        ([WORDS], "expected a list of"),
        (["ab"], "expected a list of"),
        ("ab", "Got a str"),
        (7, "Got a int"),
        ([(["a", 3], 0)], "word 1 is a int"),
    ],
)
def test_a_bad_place_is_said(places: Any, said: str):
    with pytest.raises(ElmoreError, match=said):
        Predictor(tiny_bert(heads=True)).substitutes(places)


def test_none_at_all_cannot_be_asked_for():
    with pytest.raises(ElmoreError, match="top is 0"):
        Predictor(tiny_bert(heads=True)).substitutes([(WORDS, 1)], top=0)


def test_a_model_that_cannot_predict_says_what_it_lacks(tmp_path: Path):
    with pytest.raises(FormatError, match=r"mine: has no head for masked words .*--from"):
        Predictor(tiny_bert(heads=False), source="mine")
    made = elmo(tmp_path)
    with pytest.raises(FormatError, match=r"mine: has no softmax.*--from"):
        Predictor(replace(made, heads={}), source="mine")
    with pytest.raises(FormatError, match=r"mine: has no vocabulary"):
        Predictor(replace(made, vocabulary=None), source="mine")
    with pytest.raises(FormatError, match=r"mine: a Toy\w* does not predict words"):
        Predictor(toy_checkpoint(), source="mine")


def test_a_word_is_found_wherever_it_is():
    assert [place.position for place in places_of("the bank of the river", "the")] == [0, 3]
    with pytest.raises(ElmoreError, match="'The' is not a word of the sentence"):
        places_of("the bank", "The")
