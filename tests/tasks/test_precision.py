"""Tasks trained in bfloat16: the loss is near that in float32, what must be exact is not rounded,
and predictions are in float32.
"""

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from elmore.checkpoint.sources import save
from elmore.config import override
from elmore.models import bert as bert_model
from elmore.nn.awd_lstm import AWDConfig
from elmore.tasks.compare.trials import CompareConfig, claim_folder
from elmore.tasks.encoded import Encoded
from elmore.tasks.encoders.encoder import build_encoder
from elmore.tasks.fit import FitConfig, fit
from elmore.tasks.model import TaskModel
from elmore.tasks.readers.texts import read_texts
from elmore.tasks.recipes import find_task
from elmore.tasks.tuning import task_of
from elmore.train.precision import Rounding
from tests.tasks.bert_tasks import TASKS, TinyTask, write_tiny_bert
from tests.tasks.tiny_texts import write_texts
from tests.tiny_causal import tiny_causal
from tests.tiny_gpt2 import tiny_gpt2

SST = TASKS[2]


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_bert(tmp_path_factory.mktemp("models") / "bert")


def built(tiny: TinyTask, source: str) -> TaskModel:
    config = tiny.config(source)
    torch.manual_seed(0)
    task, encoder = task_of(config), build_encoder(config.encoder, ("the", "river"))
    return TaskModel(task, encoder, task.start(tiny.examples(32, 1))).train()


def step(
    model: TaskModel, examples: list[Any], precision: Rounding
) -> tuple[float, list[torch.Tensor]]:
    """The loss of some examples and all gradients."""
    torch.manual_seed(1)
    model.zero_grad()
    loss = model.loss(examples, precision)
    assert loss.dtype == torch.float32
    loss.backward()  # type: ignore[no-untyped-call]
    return loss.item(), [p.grad.clone() for p in model.parameters() if p.grad is not None]


def check_near(model: TaskModel, examples: list[Any]) -> None:
    """The loss within 2 %, the gradient's direction within a cosine of 0.99."""
    model.encoder.begin_epoch(9)  # all of a model is trained
    exact, gradients = step(model, examples, "float32")
    rounded, others = step(model, examples, "bfloat16")
    assert rounded == pytest.approx(exact, rel=0.02)
    one, other = (torch.cat([g.flatten() for g in x]) for x in (gradients, others))
    assert not torch.equal(one, other)
    assert one.dtype == other.dtype == torch.float32
    assert torch.cosine_similarity(one, other, dim=0) > 0.99


@pytest.mark.parametrize("tiny", TASKS, ids=lambda tiny: tiny.name)
@pytest.mark.parametrize("below", [False, True], ids=["tuned as its paper", "below the task's own"])
def test_a_step_in_bfloat16_is_near_the_one_in_float32(
    tiny: TinyTask, below: bool, bert: Path, monkeypatch: pytest.MonkeyPatch
):
    """With as many rows in both, so that dropout is the same."""
    monkeypatch.setattr(bert_model, "free_rows", lambda n, device: -n % 64)
    model = built(tiny, f"{bert}+tune" if below else f"bert:{bert}+tune")
    check_near(model, tiny.examples(8, 2))


def test_so_is_one_of_a_gpt_and_one_of_a_language_model(tmp_path: Path):
    pytest.importorskip("tokenizers")
    save(tiny_gpt2(dim=16, max_positions=64), tmp_path / "gpt")
    save(tiny_causal(AWDConfig(dim=12, hidden_dim=16, n_layers=2)), tmp_path / "lm")
    for source in (f"gpt:{tmp_path / 'gpt'}+tune", f"lm:{tmp_path / 'lm'}+tune"):
        check_near(built(SST, source), SST.examples(8, 2))


@pytest.mark.parametrize("name", ["translate", "summarize"])
def test_so_is_one_of_sequence_to_sequence(name: str, tmp_path: Path):
    """With a pointer to the source too, and with coverage."""
    pytest.importorskip("tokenizers")
    write_texts(tmp_path)
    config = override(find_task(name), ["task.dim=16", "task.vocabulary=300"])
    train = list(read_texts(tmp_path / "train.tsv").examples)
    torch.manual_seed(0)
    task, encoder = task_of(config), build_encoder(config.encoder, ())
    model = TaskModel(task, encoder, task.start(train)).train()
    model.head.prepare(train)
    check_near(model, train[:6])
    with torch.autocast("cpu", torch.bfloat16):
        source = model.head._read([], [], train[:6])[0]
        memory, upper = model.head.model.encode(*source)
        decoded = model.head.model.decode(*source, memory, upper)
    assert upper.c.dtype == decoded.attention.dtype == decoded.h.dtype == torch.float32


def test_a_head_is_given_float32(bert: Path, monkeypatch: pytest.MonkeyPatch):
    """What a CRF, a softmax over spans or a loss computes is not rounded."""
    model, seen = built(SST, f"bert:{bert}+tune"), []
    head_loss = model.head.loss

    def watched(encoded: list[Encoded], places: object, examples: object) -> torch.Tensor:
        tensors = [t for e in encoded for t in (e.vectors, e.pooled) if t is not None]
        seen.append(({t.dtype for t in tensors}, torch.is_autocast_enabled("cpu")))
        return head_loss(encoded, places, examples)  # type: ignore[arg-type]

    monkeypatch.setattr(model.head, "loss", watched)
    model.loss(SST.examples(4, 2), "bfloat16")
    assert seen == [({torch.float32}, False)]


def test_a_task_trained_in_bfloat16_learns_and_predicts_in_float32(bert: Path, tmp_path: Path):
    config = SST.config(f"bert:{bert}+tune", "tuning.epochs=5", "precision=bfloat16")
    fitted = fit(config, SST.examples(32, 1), SST.examples(12, 2), tmp_path / "run", device="cpu")
    test = SST.examples(30, 3)
    assert fitted.model.evaluate(test).main > 90
    assert json.loads((tmp_path / "run" / "config.json").read_text())["fit"]["precision"]
    encoded, _ = fitted.model._encode(test)
    assert {e.pooled.dtype for e in encoded if e.pooled is not None} == {torch.float32}


def test_tasks_are_not_rounded_unless_asked():
    assert {find_task(name).precision for name in ("ner", "qa", "translate")} == {"float32"}


def test_an_older_comparison_goes_on_in_float32_only(tmp_path: Path):
    train = tmp_path / "train.txt"
    train.write_text("a O\n")

    def settings(fit: FitConfig) -> dict[str, object]:
        files = {"train": train, "dev": train, "test": train}
        config = CompareConfig(task="ner", fit=fit, encoders=("none",), **files)
        return config.shared_settings()

    now = settings(find_task("ner"))
    older = json.loads(json.dumps(now))
    del older["fit"]["precision"]
    folder = tmp_path / "out"
    folder.mkdir()
    (folder / "settings.json").write_text(json.dumps(older))
    claim_folder(now, folder)
    assert json.loads((folder / "settings.json").read_text()) == json.loads(json.dumps(now))
    rounded = settings(override(find_task("ner"), ["precision=bfloat16"]))
    with pytest.raises(Exception, match=r"other settings or files \(precision\)"):
        claim_folder(rounded, folder)
