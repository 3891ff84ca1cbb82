"""What a run is begun with: a softmax that learns alone for a share of it, the model that run.json
names, what the user is told, and runs of an earlier version, which go on as they were begun.
"""

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from elmore.checkpoint.sources import load, save
from elmore.config import override
from elmore.errors import ConfigError
from elmore.models.bilm import BiLM
from elmore.pretrain.config import PretrainConfig
from elmore.pretrain.run import pretrain, read_run
from tests.checkpoint.foreign_models import make_transformer
from tests.pretrain import tiny_runs
from tests.pretrain.tiny_runs import corpus, logged


def config(*settings: str, kind: str = "rows") -> PretrainConfig:
    quiet = ["loop.checkpoint_minutes=60", "loop.steps=2"]
    return override(tiny_runs.KINDS[kind](), [*quiet, *settings])


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return corpus(tmp_path_factory.mktemp("text"))


@pytest.fixture(scope="module")
def bare(files: list[Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model without a softmax, of other sizes than the recipes here."""
    folder = tmp_path_factory.mktemp("bare")
    pretrain(files, folder / "run", config("model.context.cell_dim=10", "loop.steps=1"))
    for path in save(load(folder / "run", heads=True), folder / "weights.hdf5")[2:]:
        path.unlink()
    return folder / "weights.hdf5"


def moved(source: Path, run: Path) -> bool:
    """Whether any weight of the biLM has changed."""
    before, after = load(source).model.state_dict(), load(run).model.state_dict()
    return any(not torch.equal(after[name], tensor) for name, tensor in before.items())


# The softmax first --------------------------------------------------------------------------------


def test_a_short_run_from_a_model_without_a_softmax_trains_the_model(
    bare: Path, files: list[Path], tmp_path: Path
):
    """5 % of 40 steps are 2; the note is told, in run.json and in the log."""
    told: list[str] = []
    short = config("loop.steps=40", "loop.log_steps=1")
    pretrain(files, tmp_path / "run", short, source=bare, tell=told.append)
    assert moved(bare, tmp_path / "run")
    (note,) = told
    assert "only the new softmax is trained for the first 5% of the run, at most 500 steps" in note
    assert read_run(tmp_path / "run").notes == (note,)
    lines: list[Any] = logged(tmp_path / "run")
    assert lines[0] == {"step": 0, "note": note}
    assert [line["step"] for line in lines if line.get("softmax_alone")] == [1, 2]


def test_a_run_that_ends_before_the_model_is_trained_says_so(
    bare: Path, files: list[Path], tmp_path: Path
):
    with pytest.warns(UserWarning, match="the run has ended, but only the new softmax"):
        pretrain(files, tmp_path / "run", config("loop.steps=1"), source=bare)
    assert not moved(bare, tmp_path / "run")
    lines: list[Any] = logged(tmp_path / "run")
    assert "only the new softmax has been trained" in lines[-1]["note"]
    told: list[str] = []
    longer = config("loop.steps=3")
    pretrain(files, tmp_path / "run", longer, source=bare, resume=True, tell=told.append)
    assert moved(bare, tmp_path / "run")
    assert len(told) == 1  # what was said at the start


def test_a_share_that_is_over_stays_over_when_the_run_is_made_longer(
    bare: Path, files: list[Path], tmp_path: Path
):
    some = ["softmax_first=0.5", "loop.log_steps=1"]
    pretrain(files, tmp_path / "run", config("loop.steps=4", *some), source=bare)
    longer = config("loop.steps=20", *some)
    pretrain(files, tmp_path / "run", longer, source=bare, resume=True)
    alone = [line["step"] for line in logged(tmp_path / "run") if line.get("softmax_alone")]
    assert alone == [1, 2]


@pytest.mark.parametrize("value", ["-1", "1.0", "-0.5", "2.5"])
def test_a_share_is_below_one(value: str):
    with pytest.raises(ConfigError):
        config(f"softmax_first={value}")


# run.json -----------------------------------------------------------------------------------------


def test_run_json_names_the_model_that_is_trained(bare: Path, files: list[Path], tmp_path: Path):
    asked = config("model.context.dropout=0.3", "loop.steps=40")
    pretrain(files, tmp_path / "run", asked, source=bare)
    model = load(tmp_path / "run").model
    assert isinstance(model, BiLM)
    assert read_run(tmp_path / "run").config.model == model.config
    assert (model.config.context.cell_dim, model.config.context.dropout) == (10, 0.3)
    more = config("model.context.dropout=0.3", "loop.steps=41")
    assert pretrain(files, tmp_path / "run", more, source=bare, resume=True).step == 41
    other = config("model.context.dropout=0.2", "loop.steps=42")
    with pytest.raises(ConfigError, match=r"dropout \(0.3 there, 0.2 now\)"):
        pretrain(files, tmp_path / "run", other, source=bare, resume=True)


def test_a_transformer_too_is_trained_with_the_recipes_dropout(files: list[Path], tmp_path: Path):
    make_transformer(tmp_path / "source")
    asked = config("model.context.dropout=0.3", "model.context.input_dropout=0", kind="transformer")
    pretrain(files, tmp_path / "run", asked, source=tmp_path / "source")
    context: Any = read_run(tmp_path / "run").config.model.context
    assert (context.dropout, context.input_dropout) == (0.3, 0.0)


def as_version_1(run: Path, recipe: PretrainConfig, **changes: Any) -> None:
    """run.json as the version before wrote it."""
    kept = json.loads((run / "run.json").read_text())
    del kept["version"], kept["notes"]
    kept["config"] = {**recipe.model_dump(mode="json"), **changes}
    (run / "run.json").write_text(json.dumps(kept))


@pytest.mark.parametrize("kind", ["rows", "sentences"])
def test_a_run_of_the_version_before_goes_on_as_it_was_begun(
    kind: str, bare: Path, files: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Its softmax learns alone for 500 steps, its biases decay, and its recipe's model is another
    than the one it trains."""
    monkeypatch.setattr("elmore.pretrain.run.RUN_VERSION", 1)
    first = config("softmax_first=500", kind=kind)
    with pytest.warns(UserWarning, match="only the new softmax"):
        pretrain(files, tmp_path / "run", first, source=bare)
    monkeypatch.undo()
    as_version_1(tmp_path / "run", config(kind=kind), softmax_first=500)
    assert read_run(tmp_path / "run").version == 1
    with pytest.warns(UserWarning, match="only the new softmax"):
        pretrain(files, tmp_path / "run", config("loop.steps=4", kind=kind), resume=True)
    assert not moved(bare, tmp_path / "run")


def test_a_run_of_a_later_version_is_refused(files: list[Path], tmp_path: Path):
    pretrain(files, tmp_path / "run", config())
    path = tmp_path / "run" / "run.json"
    path.write_text(path.read_text().replace('"version": 3', '"version": 4'))
    with pytest.raises(Exception, match=r"run\.json: version: .* less than or equal to 3"):
        pretrain(files, tmp_path / "run", config(), resume=True)


# What else is told --------------------------------------------------------------------------------


def notes(files: list[Path], folder: Path, *settings: str, **given: Any) -> tuple[str, ...]:
    pretrain(files, folder, config(*settings), **given)
    return read_run(folder).notes


def test_an_ordinary_run_has_nothing_to_tell(files: list[Path], tmp_path: Path):
    assert notes(files, tmp_path / "run", valid=files[0]) == ()


def test_a_warmup_longer_than_the_run_is_told(files: list[Path], tmp_path: Path):
    (note,) = notes(files, tmp_path / "run", "loop.schedule.warmup=9")
    assert "still rising when the run ends: 2 steps, loop.schedule.warmup=9" in note


def test_a_validation_of_a_part_of_the_text_is_told(files: list[Path], tmp_path: Path):
    (note,) = notes(files, tmp_path / "run", "valid_words=20", valid=files[0])
    assert f"words of {files[0]} (valid_words)" in note
    assert "--first-words 20" in note


def test_words_outside_the_vocabulary_are_told(files: list[Path], tmp_path: Path):
    words = tmp_path / "words.txt"
    words.write_text("<S>\n</S>\n<UNK>\nw1\n")
    (note,) = notes(files, tmp_path / "run", vocabulary=words)
    assert "of the corpus is outside the vocabulary: learned as <UNK>" in note


def test_too_little_text_for_vectors_is_told(files: list[Path], tmp_path: Path):
    (note,) = notes(files, tmp_path / "run", "softmax_start=static")
    assert "too little text for softmax_start=static" in note


@pytest.mark.parametrize("setting", ["loop.patience=2", "loop.schedule.kind=plateau"])
def test_what_follows_a_validation_needs_one(setting: str, files: list[Path], tmp_path: Path):
    with pytest.raises(ConfigError, match="add --valid TEXT"):
        pretrain(files, tmp_path / "run", config(setting))
    assert not (tmp_path / "run").exists()
    assert pretrain(files, tmp_path / "run", config(setting), valid=files[0]).step == 2
