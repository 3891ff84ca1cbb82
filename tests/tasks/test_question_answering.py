"""Answers within paragraphs: the official figures on published and hand-worked cases, spans against
brute force, and a model that neither sees padding nor reads a paragraph twice.
"""

import json
import math
import random
from pathlib import Path

import pytest
import torch
from torch import Tensor

from elmore.errors import InputError
from elmore.tasks.encoded import Dims
from elmore.tasks.fit import FitConfig, fit
from elmore.tasks.model import TaskModel
from elmore.tasks.question_answering import (
    Answer,
    QuestionAnswering,
    SpanFinder,
    best_spans,
)
from elmore.tasks.readers.squad import Paragraph, Question
from elmore.tasks.task import Labels
from tests.tasks.wave_encoder import DIMS, WITH_LATE, encode_examples, learn, predict

TASK = QuestionAnswering(hidden=8, dropout=0.0)


def paragraph(text: str) -> Paragraph:
    """Words split at single spaces."""
    words = tuple(text.split(" "))
    starts = [sum(len(word) + 1 for word in words[:i]) for i in range(len(words))]
    ends = [start + len(word) for start, word in zip(starts, words, strict=True)]
    return Paragraph(text, words, tuple(starts), tuple(ends))


RIVER = paragraph("The Rhine begins in the Swiss Alps , flows north and ends in the North Sea .")
SHORT = paragraph("Water is wet .")
QUESTIONS = [
    Question("1", ("Where", "does", "the", "Rhine", "end", "?"), RIVER, ("Sea",), ((13, 14),)),
    Question("2", ("What", "is", "wet", "?"), SHORT, ("Water",), ((0, 0), (0, 1))),
    Question("3", ("Where", "does", "it", "begin", "?"), RIVER, ("Alps",), ((5, 6),)),
]


def head(dims: Dims = DIMS) -> SpanFinder:
    torch.manual_seed(0)
    return TASK.head(Labels(), dims).eval()


def chances(model: SpanFinder, questions: list[Question], dims: Dims) -> tuple[Tensor, Tensor]:
    with torch.no_grad():
        first, last = model(*encode_examples(TASK, questions, dims)[0], questions)
    return first, last


# Figures ----------------------------------------------------------------------------------------


def test_figures_are_means_over_questions_and_f1_is_the_one_that_counts():
    guesses = [Answer(text, 0, 0.5) for text in ("North Sea", "Water", "nowhere")]
    score = TASK.score(QUESTIONS, guesses)
    assert score.figures["F1"] == pytest.approx(100 * (2 / 3 + 1 + 0) / 3)
    assert score.figures["exact match"] == pytest.approx(100 / 3)
    assert score.main == score.figures["F1"]


# Spans -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("max_words", [1, 3, 100])
def test_the_best_span_is_the_one_found_by_trying_all(max_words: int):
    wave = torch.sin(torch.arange(4 * 2 * 9) * 2.3).view(4, 2, 9) * 3
    first, last = wave.log_softmax(dim=-1).unbind(1)
    places, chance = best_spans(first, last, max_words)
    for row in range(4):
        tried = {
            (i, j): math.exp(first[row, i].item() + last[row, j].item())
            for i in range(9)
            for j in range(i, min(9, i + max_words))
        }
        best = max(tried, key=lambda span: tried[span])
        assert tuple(places[row].tolist()) == best
        assert chance[row].item() == pytest.approx(tried[best], abs=1e-6)


def test_a_prediction_is_cut_from_its_text_and_never_from_padding():
    model = head()
    for question, answer in zip(QUESTIONS, predict(TASK, model, QUESTIONS), strict=True):
        text = question.paragraph.text
        assert answer.text
        assert text[answer.start : answer.start + len(answer.text)] == answer.text
        assert 0 < answer.probability <= 1


def test_the_loss_is_the_chance_of_all_right_spans():
    model = head()
    first, last = (x.exp() for x in chances(model, QUESTIONS, DIMS))
    right = [
        first[0, 13] * last[0, 14],
        first[1, 0] * last[1, 0] + first[1, 0] * last[1, 1],
        first[2, 5] * last[2, 6],
    ]
    expected = -torch.stack(right).log().mean()
    loss = model.loss(*encode_examples(TASK, QUESTIONS), QUESTIONS)
    torch.testing.assert_close(loss, expected, rtol=0, atol=1e-5)


# The model ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("dims", [DIMS, WITH_LATE])
def test_chances_do_not_depend_on_the_batch(dims: Dims):
    model = head(dims)
    together = chances(model, QUESTIONS, dims)
    for row, question in enumerate(QUESTIONS):
        n = len(question.paragraph.words)
        for ours, alone in zip(together, chances(model, [question], dims), strict=True):
            torch.testing.assert_close(ours[row, :n], alone[0], rtol=0, atol=1e-5)
            assert ours[row].exp().sum().item() == pytest.approx(1, abs=1e-5)
    assert (together[0][0] - together[0][2]).abs().max() > 1e-3


def test_a_paragraph_is_read_once_for_all_its_questions(monkeypatch: pytest.MonkeyPatch):
    model, n_rows = head(), []
    forward = model.read.forward
    monkeypatch.setattr(
        model.read, "forward", lambda x, mask: n_rows.append(len(x)) or forward(x, mask)
    )
    chances(model, QUESTIONS, DIMS)
    assert n_rows == [2, 3]  # two paragraphs, three questions


def test_words_of_the_question_are_marked_whatever_their_case():
    model = head()
    plain, lower, other = (
        Question("x", (word, "?"), RIVER) for word in ("Rhine", "rhine", "Danube")
    )
    encoded, _ = encode_examples(TASK, [plain])
    with torch.no_grad():
        found = [model(*encoded, [question])[0] for question in (plain, lower, other)]
    for i, j in ((0, 1), (1, 2), (0, 2)):  # the vectors are the same, so the marks differ
        assert (found[i] - found[j]).abs().max() > 1e-4


def asked(rng: random.Random) -> Question:
    """The answer is what follows the word asked for."""
    words = rng.sample([f"word{i}" for i in range(60)], rng.randint(6, 12))
    place = rng.randrange(len(words) - 1)
    text = paragraph(" ".join(words))
    return Question("x", (words[place],), text, (words[place + 1],), ((place + 1, place + 1),))


def test_it_learns_to_find():
    rng = random.Random(1)
    train, test = ([asked(rng) for _ in range(n)] for n in (600, 200))
    model = head().train()
    learn(TASK, model, train, epochs=3)
    found = predict(TASK, model, test)
    assert TASK.score(test, found).figures["exact match"] > 90


# Files -------------------------------------------------------------------------------------------


def write(folder: Path, *qas: dict[str, object]) -> Path:
    path = folder / "squad.json"
    data = [{"paragraphs": [{"context": "Water is wet.", "qas": list(qas)}]}]
    path.write_text(json.dumps({"data": data}))
    return path


GOOD = {"id": "g", "question": "What?", "answers": [{"text": "Water", "answer_start": 0}]}
LOST = {"id": "l", "question": "What?", "answers": [{"text": "Fire", "answer_start": 0}]}


def test_what_cannot_be_trained_on_is_still_scored(tmp_path: Path):
    path = write(tmp_path, GOOD, LOST)
    assert [question.id for question in TASK.read(path).examples] == ["g", "l"]
    training = TASK.read(path, training=True)
    assert [question.id for question in training.examples] == ["g"]
    assert len(training.notes) == 2


def test_unanswerable_questions_are_refused_but_may_be_asked(tmp_path: Path):
    path = write(tmp_path, GOOD, {**GOOD, "id": "i", "answers": [], "is_impossible": True})
    with pytest.raises(InputError, match=r"qas\[1\] \(id i\): it has no answer"):
        TASK.read(path)
    assert [question.id for question in TASK.read_plain(path).examples] == ["g", "i"]


def test_the_limit_of_words_is_a_setting(tmp_path: Path):
    task = QuestionAnswering(max_words=2)
    corpus = task.read(write(tmp_path, GOOD))
    assert corpus.examples[0].paragraph.words == ("Water", "is")
    assert corpus.notes == ("paragraphs read only up to their word 2: 1",)


def test_a_prediction_is_shown_with_its_question():
    shown = TASK.shown(QUESTIONS[1], Answer("Water", 0, 0.75))
    assert shown == {
        "id": "2",
        "question": "What is wet ?",
        "answer": "Water",
        "start": 0,
        "probability": 0.75,
    }


def test_it_is_trained_saved_and_opened_again(tmp_path: Path):
    config = FitConfig(task=TASK, epochs=1)
    fitted = fit(config, QUESTIONS, QUESTIONS, tmp_path / "run", device="cpu")
    again = TaskModel.load(tmp_path / "run", device="cpu")
    assert again.task == TASK
    assert again.predict(QUESTIONS) == fitted.model.predict(QUESTIONS)
