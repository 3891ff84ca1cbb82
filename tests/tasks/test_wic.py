"""Word-in-Context: the threshold against trying every one, the regression against its own
gradient, and the whole on pairs whose answers one layer knows."""

from pathlib import Path

import numpy as np
import pytest

from elmore.embedder import Embedder
from elmore.errors import InputError
from elmore.tasks.wic import best_threshold, logistic_weights, pair_cosines, wic
from tests.tasks.contexts import WordBefore


@pytest.mark.parametrize("seed", range(8))
def test_no_threshold_is_right_more_often(seed: int):
    draw = np.random.default_rng(seed)
    scores = draw.integers(12, size=30) / 12  # many are equal
    truth = draw.random(30) < scores
    found = best_threshold(scores, truth)
    tried = [((scores >= t) == truth).mean() for t in np.linspace(-0.5, 1.5, 4001)]
    assert ((scores >= found) == truth).mean() == max(tried)


@pytest.mark.parametrize("answer", [True, False])
def test_pairs_of_one_kind_get_one_answer(answer: bool):
    scores, truth = np.array([0.2, 0.8, 0.8]), np.full(3, answer)
    assert ((scores >= best_threshold(scores, truth)) == truth).all()


def test_the_regression_stands_where_its_slope_is_zero():
    draw = np.random.default_rng(3)
    features = draw.normal(size=(200, 3))
    truth = draw.random(200) < 1 / (1 + np.exp(-(features @ [2.0, -1.0, 0.0] + 0.5)))
    weights = logistic_weights(features, truth)
    bias = _best_bias(features @ weights, truth)
    chance = 1 / (1 + np.exp(-(features @ weights + bias)))
    slope = features.T @ (chance - truth) + weights  # of the loss and of |w|²/2
    np.testing.assert_allclose(slope, 0, atol=1e-6)


def _best_bias(scores: np.ndarray, truth: np.ndarray) -> float:
    """By bisection: the chances must add up to the number of true ones."""
    low, high = -20.0, 20.0
    for _ in range(100):
        middle = (low + high) / 2
        if (1 / (1 + np.exp(-(scores + middle)))).sum() < truth.sum():
            low = middle
        else:
            high = middle
    return low


def test_pairs_that_can_be_told_apart_leave_the_weights_finite():
    features = np.linspace(-1, 1, 50)[:, None]
    (weight,) = logistic_weights(features, features[:, 0] > 0)
    assert 1 < weight < 100


def test_equal_vectors_have_one_cosine_whatever_rounding_makes_of_them():
    uses = np.random.default_rng(0).normal(size=(1, 50, 300)).astype(np.float16)
    assert set(pair_cosines(uses.repeat(2, axis=1), "layer 0")) == {1.0}


def write(folder: Path, name: str, pairs: list[tuple[str, str]]) -> Path:
    """The same word after two others; it means the same where those are equal."""
    path = folder / f"{name}.data.txt"
    lines = [f"bank\tN\t1-1\t{a} bank\t{b} bank" for a, b in pairs]
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    gold = "".join("T\n" if a == b else "F\n" for a, b in pairs)
    (folder / f"{name}.gold.txt").write_text(gold, encoding="utf-8")
    return path


PAIRS = [("river", "river"), ("river", "money"), ("money", "money"), ("money", "fog")]


def test_context_tells_what_spelling_cannot(tmp_path: Path):
    train, dev = write(tmp_path, "train", PAIRS[:2]), write(tmp_path, "dev", PAIRS[2:])
    test = write(tmp_path, "test", [*PAIRS, ("fog", "fog"), ("fog", "river")])
    report = wic(WordBefore(), [train, dev], test)
    accuracy = {row.vectors: (row.fitted, row.test) for row in report.rows}
    assert accuracy["layer 0"] == (50, 50)
    assert accuracy["layer 1"] == accuracy["all layers"] == (100, 100)
    assert report.chosen.vectors == "layer 1"
    assert (report.n_fitted, report.n_test, report.majority) == (4, 6, 50)
    assert [row["vectors"] for row in report.table() if row["chosen"]] == ["layer 1"]


def test_test_pairs_do_not_move_the_thresholds(tmp_path: Path):
    train = write(tmp_path, "train", PAIRS)
    tests = write(tmp_path, "a", PAIRS[:1]), write(tmp_path, "b", [("fog", "river")] * 9)
    a, b = (wic(WordBefore(), [train], test) for test in tests)
    assert [row.threshold for row in a.rows] == pytest.approx([row.threshold for row in b.rows])


def test_a_model_sees_equal_sentences_as_equal(tmp_path: Path, tiny_embedder: Embedder):
    train = write(tmp_path, "train", PAIRS)
    report = wic(tiny_embedder, [train], train)
    accuracy = {row.vectors: row.test for row in report.rows}
    assert accuracy["layer 0"] == 50
    assert accuracy["layer 1"] == accuracy["layer 2"] == accuracy["average"] == 100


def test_no_pairs_are_refused(tmp_path: Path):
    some, none = write(tmp_path, "some", PAIRS), write(tmp_path, "none", [])
    with pytest.raises(InputError, match="pairs of WiC are empty"):
        wic(WordBefore(), [some], none)
