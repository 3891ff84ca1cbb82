"""A tiny language model fine-tuned as ULMFiT does: layers thaw one by one at rates of their own,
chunks bound the gradient, and a killed run goes on to the same numbers.
"""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from elmore.checkpoint.sources import save
from elmore.config import override
from elmore.embedder import Embedder
from elmore.errors import ConfigError
from elmore.nn.awd_lstm import AWDConfig
from elmore.tasks.encoded import Encoded
from elmore.tasks.encoders.encoder import build_encoder
from elmore.tasks.encoders.tuned_lm import LMTuningConfig, TunedLM
from elmore.tasks.fit import EpochReport, FitConfig, Fitted, fit
from elmore.tasks.model import TaskModel
from elmore.tasks.objective import TaskObjective
from elmore.tasks.pooled_head import BatchNorm
from elmore.tasks.recipes import find_task
from elmore.tasks.tuning import as_trained, fine_tuning, task_of
from elmore.text.causal_reader import CausalReader
from tests.tasks.bert_tasks import TASKS
from tests.tasks.wave_encoder import one_each
from tests.tiny_causal import PLAIN, TRANSFORMER, tiny_causal

pytest.importorskip("tokenizers")
SST = next(tiny for tiny in TASKS if tiny.name == "sst")
AWD = AWDConfig(dim=12, hidden_dim=16, n_layers=2)
QUICK = ["encoder.lm.lr=0.02", "encoder.lm.batch=4", "encoder.lm.hidden=8", "encoder.lm.epochs=4"]
NO_DROPOUT = [f"encoder.lm.{place}_dropout=0" for place in ("input", "embed", "weight", "hidden")]
LSTM_2015 = [
    'encoder.lm.pooling="last"', "encoder.lm.gradual=false", "encoder.lm.floor_rate=1",
    "encoder.lm.norm=false", "encoder.lm.schedule.kind=constant",
]  # fmt: skip


@pytest.fixture(scope="module")
def lm(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models") / "lm"
    save(tiny_causal(AWD), folder)
    return folder


def config(lm: Path, *settings: str) -> FitConfig:
    given = [f"encoder.source=lm:{lm}+tune", *QUICK, *settings]
    return override(find_task("sst"), given)


def run(lm: Path, output: Path, *settings: str, **more: Any) -> Fitted:
    examples = SST.examples(32, 1), SST.examples(12, 2)
    return fit(config(lm, *settings), *examples, output, device="cpu", **more)


def fresh(lm: Path, *settings: str) -> tuple[TaskModel, TunedLM]:
    wanted = config(lm, *settings)
    torch.manual_seed(0)
    task, encoder = task_of(wanted), build_encoder(wanted.encoder, ())
    (source,) = encoder.sources
    assert isinstance(source, TunedLM)
    return TaskModel(task, encoder, task.start(SST.examples(32, 1))), source


# Training -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("settings", [[], LSTM_2015], ids=["ulmfit", "2015"])
def test_it_learns_opens_again_and_a_killed_run_goes_on_to_the_same_weights(
    lm: Path, tmp_path: Path, settings: list[str]
):
    class Killed(Exception):
        pass

    def kill(now: EpochReport) -> None:
        if now.epoch == 3 and now.fraction > 0.4:
            raise Killed

    whole = run(lm, tmp_path / "whole", *settings)
    assert whole.dev.main > 80
    assert whole.epochs == 4
    with pytest.raises(Killed):
        run(lm, tmp_path / "killed", *settings, report=kill)
    again = run(lm, tmp_path / "killed", *settings, resume=True)
    a, b = whole.model.state_dict(), again.model.state_dict()
    assert a.keys() == b.keys()
    assert all(torch.equal(a[name], b[name]) for name in a)
    test = SST.examples(20, 3)
    loaded = TaskModel.load(tmp_path / "whole", device="cpu")
    assert loaded.predict(test) == whole.model.predict(test)


def test_exactly_the_floors_of_an_epoch_have_gradients(lm: Path):
    model, source = fresh(lm)
    floors = {
        "top layer": "context.layers.1.", "lower layer": "context.layers.0.", "table": "pieces.",
    }  # fmt: skip
    assert len(source.tuned()) == len(floors)
    for epoch in range(1, 6):
        model.encoder.begin_epoch(epoch)
        model.train().zero_grad()
        model.loss(SST.examples(8, 1)).backward()
        learned = {name for name, p in source.model.named_parameters() if p.grad is not None}
        thawed = list(floors.values())[: epoch - 1]
        assert learned == {
            name for name, _ in source.model.named_parameters() if name.startswith(tuple(thawed))
        }
        assert all(p.grad is not None for p in model.head.parameters())
    at_once, source = fresh(lm, "encoder.lm.gradual=false")
    at_once.train().loss(SST.examples(8, 1)).backward()
    assert all(p.grad is not None for p in source.model.parameters())


def test_each_floor_is_slower_by_2_6_and_steps_follow_the_slanted_triangle(
    lm: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    seen: list[list[float]] = []
    step = torch.optim.AdamW.step

    def watched(self: torch.optim.AdamW, *arguments: Any) -> Any:
        seen.append([group["lr"] for group in self.param_groups])
        return step(self, *arguments)

    monkeypatch.setattr(torch.optim.AdamW, "step", watched)
    run(lm, tmp_path / "run", "encoder.lm.epochs=5", "encoder.lm.batch=8")
    n, cut = 20, 2  # steps, a tenth of them
    p = [t / cut if t < cut else 1 - (t - cut) / (n - cut) for t in range(1, n + 1)]
    rates = np.repeat([1, 1 / 2.6, 1 / 6.76, 1 / 17.576], 2)  # matrices, then vectors
    expected = np.outer(0.02 * (1 + 31 * np.array(p)) / 32, rates)
    np.testing.assert_allclose(seen, expected, rtol=1e-9)


def test_settings_are_those_of_the_paper(lm: Path):
    wanted = override(find_task("sst"), [f"encoder.source=lm:{lm}", "encoder.fine_tune=true"])
    model, _ = fresh(lm)
    plan = as_trained(wanted, model.encoder.dims)
    assert (plan.lr, plan.clip) == (0.01, 25.0)
    objective = TaskObjective(plan, model, [], [])
    assert [round(1 / group.rate, 6) for group in objective.groups()] == [1, 2.6, 6.76, 17.576]
    way = fine_tuning(wanted.encoder)
    assert way is not None
    loop = way.loop(plan, 10)
    assert (loop.optimizer.kind, loop.schedule.kind) == ("adamw", "slanted")
    assert loop.optimizer.betas == (0.7, 0.99)


# Reading ------------------------------------------------------------------------------------------


def texts(n: int) -> list[tuple[str, ...]]:
    words = "we sat on a grassy bank by the one river".split()
    return [tuple(words[(i * j) % 10] for j in range(1, 4 + 3 * i)) for i in range(n)]


def test_chunks_give_the_vectors_of_the_whole_text(lm: Path):
    model, source = fresh(lm, "encoder.lm.chunk=3")
    model.eval()
    with torch.no_grad():
        found = model.encoder(texts(5)).pooled
        assert found is not None
        for row, words in zip(found, texts(5), strict=True):
            read = source.reader.read([words])
            (*_, top), _ = source.model.run(torch.from_numpy(read.ids))
            whole = torch.cat([top[0, -1], top[0].amax(0), top[0].mean(0)])
            torch.testing.assert_close(row, whole, rtol=0, atol=1e-6)


def test_gradients_stay_in_their_chunk_and_in_the_window(lm: Path):
    words = texts(5)[-1]
    chunked = ("encoder.lm.chunk=4", "encoder.lm.gradual=false", *NO_DROPOUT)
    _, source = fresh(lm, *chunked, 'encoder.lm.pooling="last"')
    ids = torch.from_numpy(source.reader.read([words]).ids)
    table = source.model.pieces.weight

    def learned() -> set[int]:
        source.model.zero_grad()
        outputs, pooled = source.outputs(ids, torch.tensor([ids.shape[1]]))
        outputs[pooled].sum().backward()
        assert table.grad is not None
        return set(table.grad.abs().sum(1).nonzero().flatten().tolist())

    assert learned() == set(ids[0].tolist())
    source.config = LMTuningConfig(chunk=4, window=2)
    n = ids.shape[1]
    assert learned() == set(ids[0, (n - 2) // 4 * 4 :].tolist())  # whole chunks
    _, pooled = source.outputs(ids, torch.tensor([n]))
    assert int(pooled.sum()) == 2


def test_forward_and_backward_are_two_classifiers_whose_probabilities_are_averaged(
    lm: Path, tmp_path: Path
):
    save(tiny_causal(AWD, backward=True, seed=1), tmp_path / "back")
    both = f"encoder.source=lm:{lm}+tune+lm:{tmp_path / 'back'}+tune"
    wanted = config(lm, both)
    torch.manual_seed(0)
    task, encoder = task_of(wanted), build_encoder(wanted.encoder, ())
    model = TaskModel(task, encoder, task.start(SST.examples(32, 1))).eval()
    examples = SST.examples(3, 1)
    encoded = encoder([example.words for example in examples])
    placed = one_each(encoded)
    forward, backward = model.head.each(*placed)
    found = model.head.scores(*placed)
    expected = (forward.softmax(-1) + backward.softmax(-1)) / 2
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-7)
    gold = torch.tensor([model.head.labels.index(example.label) for example in examples])
    losses = [torch.nn.functional.cross_entropy(x, gold) for x in (forward, backward)]
    torch.testing.assert_close(model.head.loss(*placed, examples), sum(losses))
    rates = [group.rate for group in TaskObjective(wanted, model, [], []).groups()]
    assert [round(1 / rate, 6) for rate in rates] == [1, 2.6, 6.76, 17.576, 2.6, 6.76, 17.576]


def test_a_backward_model_reads_the_text_from_its_end(lm: Path):
    (subwords,) = {source.reader.subwords for _, source in [fresh(lm)]}
    words, forward = ("one", "grassy", "naïve", "bank"), CausalReader(subwords)
    back = CausalReader(subwords, backward=True)
    ids = forward.read([words]).ids[0, 1:]
    read = back.read([words])
    assert read.ids[0, 1:].tolist() == ids[::-1].tolist()
    pieces = subwords.pieces(words)
    at = [tuple(read.ids[0, read.places[read.words == i]]) for i in range(len(words))]
    assert at == [piece[::-1] for piece in pieces]


def test_a_frozen_language_model_is_features_below_the_tasks_own_model(lm: Path):
    wanted = override(find_task("sst"), [f"encoder.source=lm:{lm}", "encoder.own=null"])
    encoder = build_encoder(wanted.encoder, ())
    found: Encoded = encoder(texts(2))
    assert (encoder.dims.vectors, encoder.dims.pooled) == (12, 0)
    (embedded,) = Embedder.load(lm, device="cpu").embed([texts(2)[1]])
    mixed = torch.from_numpy(embedded.layers.astype(np.float16).astype(np.float32)).mean(0)
    torch.testing.assert_close(found.vectors[1, : len(mixed)], mixed, rtol=0, atol=1e-6)


def test_batch_norm_is_pytorchs_and_one_row_is_normed_as_in_use():
    ours, theirs = BatchNorm(3), torch.nn.BatchNorm1d(3)
    x = torch.rand(4, 3)
    torch.testing.assert_close(ours(x), theirs(x))
    assert torch.equal(ours.mean, theirs.running_mean)
    assert torch.equal(ours.variance, theirs.running_var)
    torch.testing.assert_close(ours(x[:1]), theirs.eval()(x[:1]))


def test_what_cannot_be_tuned_so_is_refused(lm: Path, tmp_path: Path):
    tags = override(find_task("ner"), [f"encoder.source=lm:{lm}+tune"])
    with pytest.raises(ConfigError, match="labels of single texts, not for tagging"):
        task_of(tags)
    with pytest.raises(ConfigError, match=r"stands alone; .* leave out 'lm:'"):
        build_encoder(override(tags, [f"encoder.source=none+lm:{lm}+tune+small-en"]).encoder, ())
    save(tiny_causal(TRANSFORMER), tmp_path / "transformer")
    with pytest.raises(ConfigError, match="is a Transformer, which has no state"):
        fresh(tmp_path / "transformer")


def test_an_lstm_of_another_kind_keeps_its_dropout(tmp_path: Path):
    save(tiny_causal(PLAIN.model_copy(update={"dropout": 0.25})), tmp_path / "lm")
    _, source = fresh(tmp_path / "lm", *LSTM_2015)
    assert source.model.config.context.dropout == 0.25
    assert source.dims.pooled == 8
