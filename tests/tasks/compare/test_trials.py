"""Outcomes on disk, and what several of them come to."""

import json
from pathlib import Path

import pytest

from elmore.errors import FormatError
from elmore.tasks.compare.report import summarize
from elmore.tasks.compare.trials import (
    TrialFiles,
    claim_folder,
    labels,
    names_in,
    read_outcome,
    read_outcomes,
    write_outcome,
)
from tests.tasks.compare.outcomes import ELMO, GLOVE, MIX, done, failed


@pytest.mark.parametrize("outcome", [done("none", 80.0, mixes=[MIX]), failed("none")])
def test_an_outcome_comes_back_from_disk_as_it_was(outcome, tmp_path: Path):
    write_outcome(outcome, tmp_path / "x.json")
    assert read_outcome(tmp_path / "x.json") == outcome
    assert [path.name for path in tmp_path.iterdir()] == ["x.json"]


@pytest.mark.parametrize(
    "damage",
    [
        {"scores": {}},
        {"scores": {"F1": 1e300}},
        {"scores": {"F2": 80.0}},
        {"examples": 0},
        {"mixes": [{**MIX.model_dump(), "weights": [0.5, 0.5]}]},
        {"trial": {"encoder": "none", "fraction": 1.0, "seed": 7}},
        {"trial": {"encoder": "none", "fraction": -1.0, "seed": 2}},
    ],
)
def test_a_folder_with_a_damaged_result_is_one_line(damage: dict[str, object], tmp_path: Path):
    (tmp_path / "results").mkdir()
    for seed in (1, 2):
        outcome = done("none", 80.0, seed=seed, mixes=[MIX])
        write_outcome(outcome, TrialFiles(tmp_path, outcome.trial).result)
    assert len(list(read_outcomes(tmp_path))) == 2
    path = TrialFiles(tmp_path, outcome.trial).result
    path.write_text(json.dumps({**json.loads(path.read_text()), **damage}))
    with pytest.raises(FormatError) as caught:
        list(read_outcomes(tmp_path))
    assert str(caught.value).startswith(f"{path}: ")
    assert "\n" not in str(caught.value)


def test_results_linked_to_a_device_are_one_line(tmp_path: Path):
    (tmp_path / "results").mkdir()
    (tmp_path / "results" / "x.json").symlink_to("/dev/zero")
    with pytest.raises(FormatError, match=r"x\.json"):
        list(read_outcomes(tmp_path))
    (tmp_path / "settings.json").symlink_to("/dev/zero")
    with pytest.raises(FormatError, match=r"settings\.json"):
        claim_folder({}, tmp_path)


@pytest.mark.parametrize("content", ["", "{", '{"kind": "done"}', '{"kind": "maybe"}'])
def test_a_damaged_outcome_is_named(content: str, tmp_path: Path):
    path = tmp_path / "x.json"
    path.write_text(content)
    with pytest.raises(FormatError, match=r"x\.json: not a comparison's result .* remove it"):
        read_outcome(path)


def test_mean_and_spread_over_seeds():
    """Of 80, 82 and 87: mean 83, squared deviations 9 + 1 + 16 = 26, sd = sqrt(26 / 2)."""
    (row,) = summarize([done("none", f1, seed=s) for s, f1 in ((1, 80), (2, 82), (3, 87))])
    assert row.measure == "F1"
    assert row.mean == pytest.approx(83.0)
    assert row.spread == pytest.approx(13**0.5)
    assert row.scores["precision"] == (81.0, 83.0, 88.0)


def test_one_seed_has_no_spread():
    assert summarize([done("none", 80.0)])[0].spread is None


def test_a_failed_seed_is_counted_and_takes_no_part_in_the_mean():
    (row,) = summarize([done("none", 80.0), failed("none", seed=2), done("none", 84.0, seed=3)])
    assert (row.failed, row.mean) == (1, 82.0)


def test_an_encoder_without_a_finished_seed_has_no_row():
    rows = summarize([done("none", 80.0), failed(GLOVE)])
    assert [row.encoder for row in rows] == ["none"]


def test_a_gain_is_over_the_same_model_without():
    rows = summarize([done("none", 80.0), done(GLOVE, 85.0), done(ELMO, 84.0), done("x", 81.5)])
    found = {row.encoder: row.gain for row in rows}
    assert found["none"] is None
    assert (found[GLOVE].over, found[GLOVE].difference) == ("none", 5.0)
    assert (found[ELMO].over, found[ELMO].difference) == (GLOVE, -1.0)
    assert (found["x"].over, found["x"].difference) == ("none", 1.5)


def test_a_gain_pairs_seeds_and_counts_those_in_which_it_holds():
    """Seed 3 failed without: (85 - 80, 80 - 81) are what is left."""
    rows = summarize(
        [done("none", 80.0), done("none", 81.0, seed=2), failed("none", seed=3)]
        + [done("x", f1, seed=s) for s, f1 in ((1, 85.0), (2, 80.0), (3, 99.0))]
    )
    gain = rows[1].gain
    assert (gain.difference, gain.seeds_above, gain.seeds) == (2.0, 1, 2)


def test_a_gain_is_over_the_same_training_size():
    rows = summarize(
        [done("none", 80.0), done("none", 50.0, fraction=0.1), done("x", 60.0, fraction=0.1)]
    )
    assert rows[2].gain.difference == 10.0


def test_the_sources_in_a_stack():
    assert names_in("none") == frozenset()
    assert names_in(ELMO) == {GLOVE, "models/small-en"}


def test_labels_are_short_while_they_tell_encoders_apart():
    assert list(labels(["none", GLOVE, ELMO]).values()) == ["none", "glove", "glove + small-en"]
    two = ["glove:a/50d.txt", "glove:b/100d.txt"]
    assert list(labels(two).values()) == ["glove:50d.txt", "glove:100d.txt"]
    same = ["glove:a/50d.txt", "glove:b/50d.txt"]
    assert list(labels(same).values()) == same
