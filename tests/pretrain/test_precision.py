"""`precision` of a run: decided once and kept in run.json, resumed with whatever the machine is;
and every kind of model learns in bfloat16.
"""

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from elmore.config import override
from elmore.errors import ConfigError
from elmore.pretrain.config import AnyConfig
from elmore.pretrain.recipes import find_recipe
from elmore.pretrain.run import RUN, pretrain, read_run
from elmore.train import precision
from tests.pretrain.test_causal import SMALL
from tests.pretrain.tiny_runs import corpus, logged, weights

FASTER, SLOWER = 2.14, 0.9
NOTE = "Products are computed in bfloat16: 2.1 times as fast here as float32 (precision=auto)."
CONTEXT2VEC = ["model.word_dim=12", "model.hidden=16", "model.dim=16"]
SIZES: dict[str, list[str]] = {**SMALL, "context2vec": CONTEXT2VEC}
LOOP = [
    "epochs=null", "loop.minutes=null", "loop.log_steps=1", 'loop.schedule={"kind":"constant"}',
    "batches.pieces=60", "batches.longest=12",
]  # fmt: skip


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return corpus(tmp_path_factory.mktemp("text"))


def config(recipe: str, *settings: str, steps: int = 3) -> AnyConfig:
    vocabulary = [] if recipe == "context2vec" else ["vocabulary.size=290"]
    given = [*SIZES[recipe], *LOOP, *vocabulary, f"loop.steps={steps}", *settings]
    return override(find_recipe(recipe), given)


def machine(monkeypatch: pytest.MonkeyPatch, speedup: float) -> None:
    """One on which `auto` measures this, for a model of any size."""
    monkeypatch.setattr(precision, "bfloat16_speedup", lambda: speedup)
    monkeypatch.setattr(precision, "SMALLEST_DIM", 1)


def kept(run: Path) -> Any:
    return json.loads((run / RUN).read_text())["config"].get("precision")


def rewrite(run: Path, change: Any) -> None:
    found = json.loads((run / RUN).read_text())
    change(found["config"])
    (run / RUN).write_text(json.dumps(found))


@pytest.mark.parametrize(("speedup", "chosen"), [(FASTER, "bfloat16"), (SLOWER, "float32")])
def test_run_json_keeps_what_auto_was_decided_to_be(
    speedup: float,
    chosen: str,
    files: list[Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
):
    machine(monkeypatch, speedup)
    told: list[str] = []
    pretrain(files, tmp_path / "run", config("causal-laptop"), tell=told.append)
    assert kept(tmp_path / "run") == chosen
    assert (NOTE in told) == (chosen == "bfloat16")
    assert (NOTE in read_run(tmp_path / "run").notes) == (chosen == "bfloat16")


def test_a_small_model_is_not_rounded_and_nothing_is_measured(
    files: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    def never() -> float:
        raise AssertionError("nothing had to be measured")

    monkeypatch.setattr(precision, "bfloat16_speedup", never)
    pretrain(files, tmp_path / "run", config("causal-laptop"))
    assert kept(tmp_path / "run") == "float32"


def test_a_resumed_run_goes_on_as_it_was_begun_whatever_the_machine(
    files: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    machine(monkeypatch, FASTER)
    pretrain(files, tmp_path / "whole", config("causal-laptop", steps=6))
    pretrain(files, tmp_path / "parts", config("causal-laptop"))
    machine(monkeypatch, SLOWER)
    pretrain(files, tmp_path / "parts", config("causal-laptop", steps=6), resume=True)
    assert kept(tmp_path / "parts") == "bfloat16"
    assert logged(tmp_path / "parts") == logged(tmp_path / "whole")
    assert weights(tmp_path / "parts") == weights(tmp_path / "whole")
    with pytest.raises(ConfigError, match='precision \\("bfloat16" there, "float32" now\\)'):
        pretrain(
            files,
            tmp_path / "parts",
            config("causal-laptop", "precision=float32", steps=7),
            resume=True,
        )


@pytest.mark.parametrize("recipe", ["causal-laptop", "context2vec", "sa-lstm-laptop"])
@pytest.mark.parametrize("older", ["auto", None])
def test_an_older_run_goes_on_in_float32(
    older: str | None,
    recipe: str,
    files: list[Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
):
    """Its run.json says `auto`, which was float32 on a CPU, or nothing."""
    plain = config(recipe, "precision=float32", steps=5)
    pretrain(files, tmp_path / "whole", plain)
    run = tmp_path / "run"
    pretrain(files, run, config(recipe, "precision=float32"))
    rewrite(run, lambda c: c.pop("precision") if older is None else c.update(precision=older))
    machine(monkeypatch, FASTER)
    pretrain(files, run, config(recipe, steps=5), resume=True)
    assert weights(run) == weights(tmp_path / "whole")


@pytest.mark.parametrize("recipe", list(SIZES))
def test_it_learns_in_bfloat16_and_resumes_with_the_same_bits(
    recipe: str, files: list[Path], tmp_path: Path
):
    """The first loss is within 1 % of the one in float32, and not the same."""
    rate = ["loop.optimizer.lr=0.01", "loop.seed=3"]
    rounded = [*rate, "precision=bfloat16"]
    pretrain(files, tmp_path / "whole", config(recipe, *rounded, steps=12))
    for steps in (4, 12):
        part = config(recipe, *rounded, steps=steps)
        pretrain(files, tmp_path / "parts", part, resume=True)
    assert logged(tmp_path / "parts") == logged(tmp_path / "whole")
    assert weights(tmp_path / "parts") == weights(tmp_path / "whole")
    pretrain(files, tmp_path / "full", config(recipe, *rate, "precision=float32", steps=2))
    losses, full = (
        [line["loss"] for line in logged(tmp_path / name) if "loss" in line]
        for name in ("whole", "full")
    )
    assert losses[0] == pytest.approx(full[0], rel=0.01)
    assert losses[:2] != full[:2]
    assert losses[-1] < losses[0]


def test_the_loss_itself_is_not_rounded(files: list[Path], tmp_path: Path):
    """Of a run in bfloat16, all weights and states of the optimizer are float32."""
    pretrain(files, tmp_path / "run", config("causal-laptop", "precision=bfloat16"))
    newest = max((tmp_path / "run" / "checkpoints").glob("step-*"))
    state = torch.load(newest / "training.pt", weights_only=True)
    tensors = [t for o in state["optimizers"] for s in o["state"].values() for t in s.values()]
    assert {t.dtype for t in tensors if isinstance(t, torch.Tensor)} == {torch.float32}
