"""A tiny BERT fine-tuned in every task: all of it learns, at the rates of the paper, and a killed
run goes on to the same numbers.
"""

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from elmore.embedder import Embedder
from elmore.errors import ConfigError
from elmore.models.bert import Bert
from elmore.tasks.classification import Labelled
from elmore.tasks.encoded import Dims, Encoded
from elmore.tasks.encoders.encoder import build_encoder
from elmore.tasks.encoders.tuned_bert import TunedBert
from elmore.tasks.fit import EpochReport, Fitted, fit
from elmore.tasks.linear_heads import LabelHead, SpanHead, TagHead
from elmore.tasks.model import TaskModel
from elmore.tasks.objective import TaskObjective
from elmore.tasks.readers.squad import Question
from elmore.tasks.task import Labels
from elmore.tasks.tuning import as_trained, task_of
from elmore.tasks.tuning_bert import default_rate
from elmore.text.piece_reader import PieceReader
from elmore.text.reader import Pair
from tests.tasks.bert_tasks import TASKS, TinyTask, paragraph, write_tiny_bert
from tests.tasks.wave_encoder import one_each

NER, POS, SST, ENTAILMENT, QA = TASKS
each_task = pytest.mark.parametrize("tiny", TASKS, ids=lambda tiny: tiny.name)


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_bert(tmp_path_factory.mktemp("models") / "bert")


def run(tiny: TinyTask, bert: Path, output: Path, *settings: str, **more: Any) -> Fitted:
    config = tiny.config(f"bert:{bert}+tune", *settings)
    return fit(config, tiny.examples(32, 1), tiny.examples(12, 2), output, device="cpu", **more)


def fresh(tiny: TinyTask, bert: Path, *settings: str) -> TaskModel:
    config = tiny.config(f"bert:{bert}+tune", *settings)
    torch.manual_seed(0)
    task, encoder = task_of(config), build_encoder(config.encoder, ())
    return TaskModel(task, encoder, task.start(tiny.examples(32, 1)))


def tuned_bert(model: TaskModel) -> Bert:
    (source,) = model.encoder.sources
    assert isinstance(source, TunedBert)
    found = source.trainable.model
    assert isinstance(found, Bert)
    return found


# It learns ----------------------------------------------------------------------------------------


@each_task
def test_it_learns_and_opens_again_to_the_same_predictions(
    tiny: TinyTask, bert: Path, tmp_path: Path
):
    fitted = run(tiny, bert, tmp_path / "run", "tuning.epochs=5")
    test = tiny.examples(30, 3)
    assert fitted.model.evaluate(test).main > 90
    assert fitted.epochs == 5
    loaded = TaskModel.load(tmp_path / "run", device="cpu")
    assert loaded.predict(test) == fitted.model.predict(test)
    before = Embedder.load(bert).model.state_dict()
    after = tuned_bert(loaded).state_dict()
    kept = {name for name in before if torch.equal(before[name], after[name])}
    assert kept == (set() if tiny.pooled else {"pooler.weight", "pooler.bias"})


@each_task
def test_gradients_reach_every_parameter_of_every_floor_in_the_first_epoch(
    tiny: TinyTask, bert: Path
):
    model = fresh(tiny, bert).train()
    model.encoder.begin_epoch(1)
    model.loss(tiny.examples(8, 1)).backward()
    found = tuned_bert(model)
    assert [len(floor) for floor in found.floors()] == [len(f) for f in model.encoder.tuned()]
    without = {
        name for name, p in model.named_parameters() if p.grad is None or not p.grad.abs().sum()
    }
    pooler = {name for name, _ in model.named_parameters() if ".pooler." in name}
    assert without == (set() if tiny.pooled else pooler)


@each_task
def test_a_killed_run_goes_on_to_the_same_weights(tiny: TinyTask, bert: Path, tmp_path: Path):
    class Killed(Exception):
        pass

    def kill(now: EpochReport) -> None:
        if now.epoch == 2 and now.fraction > 0.4:
            raise Killed

    whole = run(tiny, bert, tmp_path / "whole")
    with pytest.raises(Killed):
        run(tiny, bert, tmp_path / "killed", report=kill)
    again = run(tiny, bert, tmp_path / "killed", resume=True)
    a, b = whole.model.state_dict(), again.model.state_dict()
    assert a.keys() == b.keys()
    assert all(torch.equal(a[name], b[name]) for name in a)
    assert (again.dev, again.best_epoch, again.epochs) == (whole.dev, whole.best_epoch, 3)


def test_a_bert_that_has_moved_is_found_with_or_without_tune(bert: Path, tmp_path: Path):
    fitted = run(SST, bert, tmp_path / "run", "tuning.epochs=1")
    moved = write_tiny_bert(tmp_path / "moved")
    test = SST.examples(10, 3)
    for source in (f"bert:{moved}", f"bert:{moved}+tune"):
        loaded = TaskModel.load(tmp_path / "run", source=source, device="cpu")
        assert loaded.predict(test) == fitted.model.predict(test)


# As in the paper ----------------------------------------------------------------------------------


def test_every_step_has_the_rates_of_the_schedule_and_of_its_floor(
    bert: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    seen: list[list[float]] = []
    options: list[tuple[float, float]] = []
    step = torch.optim.AdamW.step

    def watched(self: torch.optim.AdamW, *arguments: Any) -> Any:
        seen.append([group["lr"] for group in self.param_groups])
        options[:] = [(group["eps"], group["weight_decay"]) for group in self.param_groups]
        return step(self, *arguments)

    monkeypatch.setattr(torch.optim.AdamW, "step", watched)
    run(SST, bert, tmp_path / "run", "tuning.floor_rate=0.5", "tuning.epochs=5", "tuning.batch=8")
    n = 5 * 4
    rise = [step / 2 for step in range(1, 3)]  # a tenth of the steps
    fall = [(n - step) / (n - 2) for step in range(3, n + 1)]
    rates = np.repeat([1, 1, 0.5, 0.25], 2)  # matrices, then vectors: head, floors from the top
    expected = 0.01 * np.outer([*rise, *fall], rates)
    np.testing.assert_allclose(seen, expected, rtol=1e-9, atol=1e-12)
    assert options == [(1e-6, 0.01), (1e-6, 0.0)] * 4


def test_the_floors_are_the_head_the_blocks_and_the_embeddings(bert: Path):
    config = SST.config(f"bert:{bert}", "encoder.fine_tune=true", "tuning.floor_rate=0.9")
    model = fresh(SST, bert)
    groups = TaskObjective(as_trained(config, model.encoder.dims), model, [], []).groups()
    assert [group.rate for group in groups] == pytest.approx([1.0, 1.0, 0.9, 0.81])
    found = tuned_bert(model)
    wanted = [
        [*model.head.parameters()],
        [*found.pooler.parameters(), *found.blocks[1].parameters()],
        [*found.blocks[0].parameters()],
        [*found.embed.parameters()],
    ]
    assert [{id(p) for p in group.parameters} for group in groups] == [
        {id(p) for p in part} for part in wanted
    ]


def test_defaults_are_those_of_the_paper(bert: Path):
    config = SST.config(f"bert:{bert}+tune", "tuning.lr=null", "tuning.batch=32")
    plan = as_trained(config, Dims(768))
    assert (plan.lr, plan.epochs, plan.batch, plan.clip) == (5e-5, 3, 32, 1.0)
    assert (plan.tuning.warmup, plan.tuning.dropout, plan.tuning.floor_rate) == (0.1, 0.1, 1.0)
    assert [default_rate(dim) for dim in (1024, 768, 384, 256, 128)] == [
        5e-5, 5e-5, 1e-4, 3e-4, 3e-4,
    ]  # fmt: skip
    untuned = SST.config("none")
    assert as_trained(untuned, Dims(768)) is untuned


def test_pairs_are_one_input_of_two_segments(bert: Path, monkeypatch: pytest.MonkeyPatch):
    read: list[list[int]] = []
    original = PieceReader.read

    def watched(self: PieceReader, inputs: Any) -> Any:
        batch = original(self, inputs)
        read.append(batch.segments.tolist())
        return batch

    monkeypatch.setattr(PieceReader, "read", watched)
    example = ENTAILMENT.examples(1, 1)[0]
    fresh(ENTAILMENT, bert).predict([example])
    n = len(example.hypothesis)
    assert read == [[0] * (len(example.premise) + 2) + [1] * (n + 1)]
    asked = QA.examples(1, 1)[0]
    (pair,) = fresh(QA, bert).task.inputs(asked)
    assert pair == Pair(asked.words, asked.paragraph.words)  # the question first


def test_a_label_is_a_linear_layer_on_what_is_pooled(bert: Path):
    model = fresh(ENTAILMENT, bert).eval()
    head = model.head
    assert isinstance(head, LabelHead)
    example = ENTAILMENT.examples(1, 1)[0]
    plain = Embedder.load(bert)
    states = plain.model(plain.reader.read([Pair(example.premise, example.hypothesis)]))
    scores = states.pooled @ head.output.weight.T + head.output.bias
    expected = -torch.log_softmax(scores[0], 0)[head.labels.index(example.label)]
    with torch.no_grad():
        torch.testing.assert_close(model.loss([example]), expected, rtol=0, atol=1e-6)


def test_a_tag_is_a_linear_layer_on_the_first_piece(bert: Path):
    model = fresh(POS, bert).eval()
    head = model.head
    assert isinstance(head, TagHead)
    words = ("the", "grassyyy", "bank")  # four pieces in the middle
    top = Embedder.load(bert).embed([words])[0].top
    scores = top @ head.output.weight.detach().numpy().T + head.output.bias.detach().numpy()
    example = POS.examples(1, 1)[0].__class__(words)
    assert model.predict([example]) == [tuple(head.labels[i] for i in scores.argmax(axis=1))]


def test_dropout_stands_before_labels_and_tags_and_not_before_answers():
    labels, tags = LabelHead("ab", Dims(4, pooled=4), 0.9), TagHead("ab", Dims(4), 0.9)
    span = SpanHead(Dims(4), 3)
    torch.manual_seed(0)
    states = Encoded(
        torch.ones(1, 5, 4), torch.ones(1, 5, dtype=torch.bool), None, torch.ones(1, 4)
    )
    asked = [Question("1", ("a",), paragraph(("b", "c", "d", "e")))]
    for head in (labels, tags, span):
        head.train()
    drawn = [
        {tuple(labels.scores(*one_each(states)).flatten().tolist()) for _ in range(20)},
        {tuple(tags.scores(states).flatten().tolist()) for _ in range(20)},
        {tuple(span.scores(states, asked)[0].flatten().tolist()) for _ in range(20)},
    ]
    assert [len(found) > 1 for found in drawn] == [True, True, False]


def test_the_loss_of_an_answer_is_the_mean_of_its_two_ends():
    """By hand: the question's word and the padding have no chance."""
    head = SpanHead(Dims(2), 3)
    with torch.no_grad():
        head.output.weight.copy_(torch.eye(2))
        head.output.bias.zero_()
    vectors = torch.tensor([[[9.0, 9], [1, 0], [0, 2], [3, 1], [9, 9]]])
    mask = torch.tensor([[True, True, True, True, False]])
    asked = [Question("1", ("a",), paragraph(("b", "c", "d")), ("b c",), ((0, 1),))]
    first, last = np.array([1.0, 0, 3]), np.array([0.0, 2, 1])
    expected = (np.log(np.exp(first).sum()) - first[0] + np.log(np.exp(last).sum()) - last[1]) / 2
    encoded = one_each(Encoded(vectors, mask))
    assert head.loss(*encoded, asked).item() == pytest.approx(expected, abs=1e-6)
    (answer,) = head.predict(*encoded, asked)
    chance = np.exp(3) / np.exp(first).sum() * np.exp(1) / np.exp(last).sum()
    assert (answer.text, answer.start) == ("d", 4)
    assert answer.probability == pytest.approx(chance, abs=1e-6)


def test_an_answer_may_be_anywhere_in_a_paragraph_longer_than_the_positions(bert: Path):
    """24 positions; the paragraph has 60 words: every one of them has a chance."""
    words = tuple(random.Random(0).choices(("grass", "money", "bank", "."), k=60))
    asked = Question("1", ("river",), paragraph(words), ("x",), ((59, 59),))
    model = fresh(QA, bert).eval()
    head = model.head
    assert isinstance(head, SpanHead)
    pairs = model.encoder([Pair(asked.words, words)])
    first, _ = head.scores(pairs, [asked])
    assert first.shape == (1, 61)
    assert first[0, 1:].exp().sum().item() == pytest.approx(1.0, abs=1e-5)
    assert (first[0, 1:] > -20).all()
    assert torch.isfinite(model.loss([asked]))


# What is told -------------------------------------------------------------------------------------


def test_texts_that_do_not_fit_are_told(bert: Path, tmp_path: Path):
    long = [Labelled(("grass",) * 40, "good")]
    config = SST.config(f"bert:{bert}+tune", "tuning.epochs=1")
    fitted = fit(config, [*SST.examples(8, 1), *long], SST.examples(4, 2), tmp_path / "run")
    assert fitted.notes[0].startswith("1 texts or pairs are longer than the 24 positions of bert:")


def test_text_that_it_cannot_read_is_told(bert: Path):
    encoder = build_encoder(SST.config(f"bert:{bert}+tune").encoder, ())
    strange = [chr(0x4E00 + i) for i in range(30)]
    assert "has one vector for 30 of 30 different words" in encoder.unread([tuple(strange)])[0]


def test_labels_need_a_pooler_and_tags_do_not(tmp_path: Path):
    bare = write_tiny_bert(tmp_path / "bare", pooler=False)
    with pytest.raises(ConfigError, match="has no pooler"):
        run(SST, bare, tmp_path / "sst")
    assert not (tmp_path / "sst").exists()
    assert run(NER, bare, tmp_path / "ner", "tuning.epochs=1").epochs == 1


def test_a_run_that_tunes_nothing_is_the_same_whatever_the_settings_of_tuning(tmp_path: Path):
    small = ("epochs=1", "task.hidden=4", "encoder.own.word_dim=4")
    examples = SST.examples(8, 1), SST.examples(4, 2)
    fit(SST.config("none", *small), *examples, tmp_path / "run")
    other = SST.config("none", *small, "tuning.epochs=7")
    assert fit(other, *examples, tmp_path / "run", resume=True).epochs == 1


def test_a_head_of_labels_knows_them():
    head = LabelHead(Labels(labels=("a", "b")).labels, Dims(4, pooled=4), 0.1)
    assert head.output.weight.std() < 0.03  # a normal distribution of 0.02
    assert not head.output.bias.any()
