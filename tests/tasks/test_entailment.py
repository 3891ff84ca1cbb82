"""Sentence pairs: ESIM sees neither padding nor batch-mates, learns a rule, is scored plainly."""

import random
from pathlib import Path

import pytest
import torch
from pydantic import ValidationError

from elmore.tasks.encoded import Dims
from elmore.tasks.entailment import ESIM, Entailment
from elmore.tasks.fit import FitConfig, fit
from elmore.tasks.model import TaskModel
from elmore.tasks.readers.pairs import Pair
from elmore.tasks.task import Labels
from tests.tasks.wave_encoder import DIMS, WITH_LATE, encode_examples, learn, predict

TASK = Entailment(hidden=12, dropout=0.2)
LABELS = ("follows", "not")
PAIRS = [
    Pair(("a", "dog", "runs", "fast"), ("it", "runs"), "follows"),
    Pair(("the", "cat"), ("no", "cat", "is", "here", "now"), "not"),
    Pair(("one",), ("one",), "follows"),
]


def head(dims: Dims = DIMS) -> ESIM:
    torch.manual_seed(0)
    return TASK.head(Labels(labels=LABELS), dims)


def scores(model: ESIM, pairs: list[Pair], dims: Dims) -> torch.Tensor:
    with torch.no_grad():
        return model.eval()(*encode_examples(TASK, pairs, dims)[0])


@pytest.mark.parametrize("dims", [DIMS, WITH_LATE])
def test_a_pairs_scores_do_not_depend_on_its_batch(dims: Dims):
    model = head(dims)
    together = scores(model, PAIRS, dims)
    for row, pair in enumerate(PAIRS):
        alone = scores(model, [pair], dims)
        torch.testing.assert_close(together[row], alone[0], rtol=0, atol=1e-5)
    assert (together[0] - together[1]).abs().max() > 1e-3


def test_late_vectors_count():
    model = head(WITH_LATE)
    (premise, hypothesis), _ = encode_examples(TASK, PAIRS, WITH_LATE)
    assert premise.late is not None
    with torch.no_grad():
        before = model.eval()(premise, hypothesis)
        premise.late.mul_(-1)
        after = model(premise, hypothesis)
    assert (before - after).abs().max() > 1e-3


def test_premise_and_hypothesis_are_not_the_same():
    model = head()
    swapped = [Pair(pair.hypothesis, pair.premise) for pair in PAIRS]
    difference = scores(model, PAIRS, DIMS) - scores(model, swapped, DIMS)
    assert difference[:2].abs().min() > 1e-4


def test_the_loss_is_the_mean_cross_entropy_of_the_labels():
    model = head().eval()
    encoded, places = encode_examples(TASK, PAIRS)
    chances = model(*encoded).softmax(dim=-1)
    gold = [chances[0, 0], chances[1, 1], chances[2, 0]]
    expected = -sum(chance.log() for chance in gold) / 3
    torch.testing.assert_close(model.loss(encoded, places, PAIRS), expected, rtol=0, atol=1e-6)


def test_labels_are_those_of_training_in_a_fixed_order():
    assert TASK.start(PAIRS).labels == LABELS
    assert TASK.start(list(reversed(PAIRS))).labels == LABELS


def test_the_score_is_accuracy_and_an_unseen_label_is_wrong():
    pairs = [*PAIRS, Pair(("x",), ("y",), "never seen")]
    score = TASK.score(pairs, ["follows", "follows", "follows", "not"])
    assert score.figures == {"accuracy": 50.0}
    assert score.main == 50.0


def test_a_prediction_is_shown_with_its_sentences():
    assert TASK.shown(PAIRS[0], "not") == {
        "premise": "a dog runs fast",
        "hypothesis": "it runs",
        "label": "not",
    }


def test_files_are_read_for_training_and_for_prediction(tmp_path: Path):
    path = tmp_path / "pairs.tsv"
    path.write_text("one\tone\tfollows\n")
    assert list(TASK.read(path, training=True).examples) == [PAIRS[2]]
    assert list(TASK.read_plain(path).examples) == [Pair(("one",), ("one",))]


def test_settings_are_strict():
    with pytest.raises(ValidationError):
        Entailment.model_validate({"hiden": 3})
    with pytest.raises(ValidationError):
        Entailment(dropout=1.0)


def follows(rng: random.Random) -> Pair:
    """Whether the one word of the hypothesis stands in the premise, wherever it does."""
    words = rng.sample([f"word{i}" for i in range(30)], 9)
    premise, other = tuple(words[: rng.randint(3, 6)]), words[-1]
    inside = rng.random() < 0.5
    return Pair(premise, (rng.choice(premise) if inside else other,), LABELS[not inside])


def test_it_learns_to_compare_and_not_to_remember():
    rng = random.Random(1)
    train, test = ([follows(rng) for _ in range(n)] for n in (1000, 200))
    model = head()
    learn(TASK, model, train, epochs=8)
    assert TASK.score(test, predict(TASK, model, test)).main > 85  # a guess is right half the time


def test_it_is_trained_saved_and_opened_again(tmp_path: Path):
    config = FitConfig(task=TASK, epochs=1)
    fitted = fit(config, PAIRS, PAIRS, tmp_path / "run", device="cpu")
    again = TaskModel.load(tmp_path / "run", device="cpu")
    assert again.task == TASK
    assert again.state.labels == LABELS
    assert again.predict(PAIRS) == fitted.model.predict(PAIRS)
    unseen = [Pair(("x",), ("y",), "never seen")]
    assert again.evaluate(unseen).main == 0
    assert "never seen" in again.evaluate(unseen).notes[0]
