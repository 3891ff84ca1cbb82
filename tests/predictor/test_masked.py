"""Substitutes by a BERT: against recorded logits, `transformers` and the NumPy oracle."""

import json
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
import torch

from elmore import Predictor
from elmore.checkpoint.bert import bert_of
from elmore.checkpoint.bert_config import options_from_config
from elmore.checkpoint.sources import load, save
from elmore.predictor.place import Substitute
from elmore.text.piece_reader import PieceReader, window_starts
from elmore.text.wordpiece import WordPiece
from tests.models.test_bert import weights_of
from tests.oracle import bert as oracle
from tests.shared import SHARED, needs
from tests.tiny_bert import VOCABULARY, tiny_bert

FIXTURES = SHARED / "fixtures" / "bert"
TOLERANCE = 1e-5  # of a probability; measured 4.4e-7
SENTENCE = "we sat on the grassy river bank unseen .".split()


def wordpiece_of(folder: Path) -> WordPiece:
    reader = load(folder).need_reader()
    assert isinstance(reader, PieceReader)
    return reader.wordpiece


def compare(listed: list[Substitute], wanted: npt.NDArray[np.float64], pieces: WordPiece) -> None:
    """All of the vocabulary, the best first."""
    assert len(listed) == len(wanted)
    for one in listed:
        assert one.probability == pytest.approx(wanted[pieces.ids[one.word]], abs=TOLERANCE)
    assert [one.probability for one in listed] == sorted(s.probability for s in listed)[::-1]


@needs("fixtures", "bert")
@pytest.mark.parametrize("name", ["uncased", "cased", "old-names"])
def test_recorded_logits(name: str):
    folder = FIXTURES / name
    items = json.loads((folder / "inputs.json").read_text("utf-8"))
    (item,) = (item for item in items if item["kind"] == "masks")
    assert item["text"] == "The capital of [MASK] is [MASK]."
    predictor, pieces = Predictor.load(folder, device="cpu"), wordpiece_of(folder)
    places = [
        (["The", "capital", "of", "France", "is", "[MASK]", "."], 3),
        (["The", "capital", "of", "[MASK]", "is", "unheard-of", "."], 5),
    ]
    with np.load(folder / "expected.npz") as expected:
        ids = expected[f"{item['i']}.input_ids"][0]
        logits = expected[f"{item['i']}.prediction_logits"][0].astype(np.float64)
    wanted = oracle.softmax(logits[np.flatnonzero(ids == pieces.mask)])  # (2, V)
    assert len(wanted) == 2
    found = predictor.substitutes(places, top=10**6, whole_words=False)
    for listed, row in zip(found, wanted, strict=True):
        compare(listed, row, pieces)


@pytest.mark.parametrize("changed", [{}, {"activation": "gelu_new"}, {"n_segments": 0}], ids=str)
def test_transformers_fills_masks_alike(changed: dict[str, object], tmp_path: Path):
    transformers = pytest.importorskip("transformers", reason="transformers is not installed")
    made = tiny_bert(heads=True, pooler=changed.get("n_segments") != 0, **changed)
    save(made, tmp_path / "model")
    theirs = transformers.AutoModelForMaskedLM.from_pretrained(tmp_path / "model").eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "model")
    predictor, pieces = Predictor.load(tmp_path / "model"), wordpiece_of(tmp_path / "model")
    for index in range(len(SENTENCE)):
        masked = [*SENTENCE[:index], tokenizer.mask_token, *SENTENCE[index + 1 :]]
        given = tokenizer(masked, is_split_into_words=True, return_tensors="pt")
        if changed.get("n_segments") == 0:
            given.pop("token_type_ids", None)
        with torch.no_grad():
            logits = theirs(**given).logits[0]
        (at,) = torch.nonzero(given["input_ids"][0] == tokenizer.mask_token_id)
        wanted = logits[at[0]].double().softmax(-1).numpy()
        (listed,) = predictor.substitutes([(SENTENCE, index)], top=999, whole_words=False)
        compare(listed, wanted, pieces)


def test_only_whole_words_are_listed():
    made = tiny_bert(heads=True)
    (everything,) = Predictor(made).substitutes([(SENTENCE, 6)], top=999, whole_words=False)
    (listed,) = Predictor(made).substitutes([(SENTENCE, 6)], top=999)
    assert sorted(one.word for one in everything) == sorted(VOCABULARY)
    marks = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
    kept = [s for s in everything if s.word not in marks and not s.word.startswith("##")]
    assert listed == kept
    assert {"[", "]", ".", "#", "bank"} <= {one.word for one in listed}


@needs("fixtures", "bert", "cased")
def test_unused_pieces_are_not_listed():
    predictor = Predictor.load(FIXTURES / "cased")
    (listed,) = predictor.substitutes([(["The", "bank"], 1)], top=10**6)
    assert "[unused1]" in wordpiece_of(FIXTURES / "cased").ids
    assert not [one.word for one in listed if one.word.startswith("[unused")]


def test_a_word_of_several_pieces_is_one_mask():
    """`unseen` has six pieces, `bank` one, the empty word none, and `[MASK]` is a mask already."""
    predictor = Predictor(tiny_bert(heads=True))
    places = [
        ([*SENTENCE[:6], word, "."], 6) for word in ("bank", "unseen", "", "[MASK]", "\ud800")
    ]
    found = [predictor.substitutes([place], top=5) for place in places]
    assert all(listed == found[0] for listed in found)


def test_a_place_in_a_long_text_is_read_in_its_best_window():
    made = tiny_bert(heads=True, max_positions=24)
    reader = made.need_reader()
    assert isinstance(reader, PieceReader)
    pieces, W = reader.wordpiece, weights_of(made)
    options = options_from_config(bert_of(made).config, {}, made.heads)
    rng = np.random.default_rng(0)
    words = [SENTENCE[i] for i in rng.integers(0, len(SENTENCE), 60)]
    places = [(words, 0), (words, 31), (["bank"], 0), (words, 59)]
    found = Predictor(made).substitutes(places, top=999, whole_words=False)
    for (text, index), listed in zip(places, found, strict=True):
        ids = [i for word in pieces.pieces(text[:index]) for i in word]
        at = len(ids)
        ids += [pieces.mask, *(i for word in pieces.pieces(text[index + 1 :]) for i in word)]
        windows = [(s, min(s + 22, len(ids))) for s in window_starts(len(ids), 22)]
        begin, end = windows[oracle.best_window(at, windows)]
        row = [pieces.begin, *ids[begin:end], pieces.end]
        top = oracle.hidden_states(W, options, row, [0] * len(row))[-1]
        logits = oracle.masked_logits(W, options, top)[1 + at - begin]
        compare(listed, oracle.softmax(logits), pieces)
