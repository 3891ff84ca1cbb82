"""Perplexities against the oracle's log-probabilities: by sentence, summed up, and carried on."""

import json
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from elmore.checkpoint.bilm import language_model
from elmore.checkpoint.checkpoint import Checkpoint
from elmore.checkpoint.sources import load
from elmore.errors import ConfigError, FormatError, InputError
from elmore.models.bilm import BiLM
from elmore.models.language_model import LanguageModel
from elmore.nn.softmax import Softmax
from elmore.pretrain.evaluate import (
    SentenceScore,
    evaluate,
    first_words,
    perplexity,
    summarize,
)
from elmore.text.byte_reader import ByteReader
from elmore.text.vocabulary import Vocabulary
from tests.oracle import lstm_elmo
from tests.pretrain.tiny_runs import TRANSFORMER
from tests.tiny_models import OPTIONS, WORDS

SENTENCES = [
    ["the", "river", "bank", "."],
    ["naïve", "東京", "bank"],  # the middle one is not in the vocabulary
    ["one"],
    ["the"] * 23,
    ["<UNK>", "river", "x" * 80],
]
Weights = dict[str, np.ndarray]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> tuple[Checkpoint, Weights]:
    """A small random model with its softmax, read from the HDF5 format."""
    folder = tmp_path_factory.mktemp("lm")
    W = lstm_elmo.random_weights(OPTIONS, np.random.default_rng(2), len(WORDS))
    softmax = {name: W.pop(name) for name in ("softmax/W", "softmax/b")}
    lstm_elmo.write_hdf5(folder / "weights.hdf5", W)
    lstm_elmo.write_hdf5(folder / "softmax.hdf5", softmax)
    (folder / "options.json").write_text(json.dumps(OPTIONS))
    (folder / "vocab.txt").write_text("".join(w + "\n" for w in WORDS), encoding="utf-8")
    return load(folder / "weights.hdf5", heads=True), {**W, **softmax}


def log_probs(W: Weights, words: list[str], state: Any = None) -> tuple[float, float, Any]:
    forward, backward, state = lstm_elmo.sentence_log_probs(W, OPTIONS, words, WORDS, state)
    return float(forward.sum()), float(backward.sum()), state


def test_each_sentence_has_the_oracles_log_probabilities(model: tuple[Checkpoint, Weights]):
    checkpoint, W = model
    scores = list(evaluate(checkpoint, SENTENCES, "model"))
    assert [score.words for score in scores] == SENTENCES
    for score in scores:
        forward, backward, _ = log_probs(W, score.words)
        assert score.forward == pytest.approx(forward, rel=1e-5)
        assert score.backward == pytest.approx(backward, rel=1e-5)


def test_words_outside_the_vocabulary_are_counted(model: tuple[Checkpoint, Weights]):
    scores = list(evaluate(model[0], SENTENCES, "model"))
    assert [score.unknown for score in scores] == [0, 1, 1, 0, 1]
    assert summarize(scores).unknown == 3


def test_the_summary_weighs_by_tokens_and_counts_the_closing_mark():
    scores = [SentenceScore(["a"], -2.0, -4.0, 0), SentenceScore(["a", "b", "c"], -10.0, -2.0, 2)]
    found = summarize(scores)  # 4 words and 2 closing marks: 6 predictions each way
    assert found.forward == pytest.approx(math.exp(12 / 6))
    assert found.backward == pytest.approx(math.exp(6 / 6))
    assert found.average == pytest.approx(math.exp(18 / 12))
    assert (found.sentences, found.words, found.unknown) == (2, 4, 2)


def test_a_hopeless_model_has_infinite_perplexity_and_no_traceback():
    assert summarize([SentenceScore(["a"], -1e6, -1.0, 0)]).forward == math.inf


def test_nothing_to_evaluate_is_said():
    with pytest.raises(InputError, match="No sentence"):
        summarize([])


def test_a_sentence_scores_the_same_whatever_stands_beside_it(model: tuple[Checkpoint, Weights]):
    checkpoint, _ = model
    together = list(evaluate(checkpoint, SENTENCES * 3, "model"))
    for words, score in zip(SENTENCES * 3, together, strict=True):
        (alone,) = evaluate(checkpoint, [words], "model")
        assert score.forward == pytest.approx(alone.forward, rel=1e-6)
        assert score.backward == pytest.approx(alone.backward, rel=1e-6)


def test_carried_state_is_the_oracles_over_one_row(model: tuple[Checkpoint, Weights]):
    checkpoint, W = model
    totals, state = np.zeros(2), None
    for words in SENTENCES:
        forward, backward, state = log_probs(W, words, state)
        totals += forward, backward
    found = carried(checkpoint, SENTENCES)
    n = sum(len(words) + 1 for words in SENTENCES)
    assert math.log(found.forward) == pytest.approx(-totals[0] / n, rel=1e-5)
    assert math.log(found.backward) == pytest.approx(-totals[1] / n, rel=1e-5)
    assert (found.sentences, found.words) == (5, n - 5)


def carried(checkpoint: Checkpoint, sentences: list[list[str]]):
    lm = language_model(checkpoint, "model").eval()
    assert checkpoint.vocabulary is not None
    speller = checkpoint.need_reader()
    return perplexity(lm, checkpoint.vocabulary, sentences, speller=speller, carry=True)


def test_carried_text_in_several_rows_begins_each_row_anew(model: tuple[Checkpoint, Weights]):
    """40 sentences are 5 rows of 8 consecutive ones, the rows of different lengths."""
    checkpoint, W = model
    rng = np.random.default_rng(0)
    text = [[WORDS[3 + i] for i in rng.integers(6, size=rng.integers(1, 15))] for _ in range(40)]
    totals = np.zeros(2)
    for row in range(5):
        state = None
        for words in text[8 * row : 8 * row + 8]:
            forward, backward, state = log_probs(W, words, state)
            totals += forward, backward
    found, n = carried(checkpoint, text), sum(len(words) + 1 for words in text)
    assert math.log(found.forward) == pytest.approx(-totals[0] / n, rel=1e-5)
    assert math.log(found.backward) == pytest.approx(-totals[1] / n, rel=1e-5)


def test_a_transformer_has_no_state_to_carry(model: tuple[Checkpoint, Weights]):
    torch.manual_seed(0)
    checkpoint = replace(model[0], model=BiLM(TRANSFORMER))
    with pytest.raises(ConfigError, match="no state to carry"):
        carried(checkpoint, SENTENCES)


@pytest.mark.parametrize(("part", "name"), [("heads", "softmax"), ("vocabulary", "vocab.txt")])
def test_a_model_that_cannot_predict_says_what_it_lacks(
    part: str, name: str, model: tuple[Checkpoint, Weights]
):
    with pytest.raises(FormatError, match=f"some.hdf5: has no {name[:5]}"):
        next(
            evaluate(
                replace(model[0], **{part: {} if part == "heads" else None}), SENTENCES, "some.hdf5"
            )
        )


def test_the_text_is_read_as_it_is_scored(model: tuple[Checkpoint, Weights]):
    """The first scores come before a broken end is reached: nothing is held back for the whole."""

    def text():
        for _ in range(5000):
            yield ["the"]
        raise InputError("broken")

    scores = evaluate(model[0], text(), "model")
    assert next(scores).words == ["the"]
    with pytest.raises(InputError, match="broken"):
        list(scores)


# Long lines, and text without end -----------------------------------------------------------------


def test_a_long_sentence_is_read_on_and_on_with_the_same_result(
    model: tuple[Checkpoint, Weights], monkeypatch: pytest.MonkeyPatch
):
    """23 words with a budget of 16: in pieces whose state is carried, the oracle's numbers."""
    checkpoint, W = model
    monkeypatch.setattr("elmore.pretrain.evaluate._BATCH_WORDS", 16)
    monkeypatch.setattr("elmore.pretrain.evaluate._CARRY_WORDS", 5)
    for score in evaluate(checkpoint, SENTENCES, "model"):
        forward, backward, _ = log_probs(W, score.words)
        assert score.forward == pytest.approx(forward, rel=1e-5)
        assert score.backward == pytest.approx(backward, rel=1e-5)
        assert score.pieces == 1


def test_a_line_of_many_words_takes_no_more_memory_than_a_batch(
    model: tuple[Checkpoint, Weights], monkeypatch: pytest.MonkeyPatch
):
    largest = 0
    whole = BiLM.run

    def watched(self: BiLM, spelled: Any, index: Any, *rest: Any) -> Any:
        nonlocal largest
        largest = max(largest, index.numel())
        return whole(self, spelled, index, *rest)

    monkeypatch.setattr(BiLM, "run", watched)
    (score,) = evaluate(model[0], [["the", "river"] * 5_000], "model")
    assert largest <= 4096
    assert len(score.words) == 10_000
    assert math.isfinite(score.forward)


def test_sentences_are_cut_where_training_cuts_them(model: tuple[Checkpoint, Weights]):
    checkpoint, W = model
    scores = list(evaluate(checkpoint, SENTENCES, "model", max_words=10))
    assert [score.words for score in scores] == SENTENCES
    assert [score.pieces for score in scores] == [1, 1, 1, 3, 1]
    parts = [log_probs(W, ["the"] * n) for n in (10, 10, 3)]
    assert scores[3].forward == pytest.approx(sum(p[0] for p in parts), rel=1e-5)
    assert scores[3].backward == pytest.approx(sum(p[1] for p in parts), rel=1e-5)
    found = summarize(scores)
    assert (found.sentences, found.cut) == (5, 1)
    n = sum(map(len, SENTENCES)) + 5 + 2  # each piece has a mark to predict
    assert math.log(found.forward) == pytest.approx(-sum(s.forward for s in scores) / n, rel=1e-9)


def test_a_transformer_reads_a_line_beyond_its_positions_in_pieces():
    torch.manual_seed(0)
    context = TRANSFORMER.context.model_copy(update={"max_positions": 12})
    lm = LanguageModel(BiLM(TRANSFORMER.model_copy(update={"context": context})), Softmax(9, 8))
    words = Vocabulary(["<S>", "</S>", "<UNK>", "a", "b", "c", "d", "e", "f"])
    found = perplexity(lm.eval(), words, [["a"] * 25, ["b"]], speller=ByteReader(12))
    assert (found.sentences, found.words, found.cut) == (2, 26, 1)


def test_a_long_text_is_carried_in_sections(
    model: tuple[Checkpoint, Weights], monkeypatch: pytest.MonkeyPatch
):
    checkpoint, _ = model
    one, two = carried(checkpoint, SENTENCES[:4]), carried(checkpoint, SENTENCES[4:])
    n_one, n_two = (r.words + r.sentences for r in (one, two))
    monkeypatch.setattr("elmore.pretrain.evaluate._SECTION_WORDS", n_one)
    found = carried(checkpoint, SENTENCES)
    mean = (n_one * math.log(one.forward) + n_two * math.log(two.forward)) / (n_one + n_two)
    assert math.log(found.forward) == pytest.approx(mean, rel=1e-6)
    assert (found.sentences, found.words) == (5, n_one + n_two - 5)


def test_the_first_words_end_with_a_sentence():
    text = [["a", "b"], ["c"], ["d", "e"], ["f"]]
    assert list(first_words(text, 3)) == text[:2]
    assert list(first_words(text, 4)) == text[:3]
    assert list(first_words(text, None)) == text
