"""A tiny GPT-2 fine-tuned: its loss is what `transformers` computes from the same weights, with and
without that of its text; it learns, opens again, and goes on after a kill.
"""

from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from elmore.checkpoint.sources import save
from elmore.errors import ConfigError
from elmore.tasks.encoders.encoder import build_encoder
from elmore.tasks.encoders.tuned_gpt import TunedGPT
from elmore.tasks.fit import EpochReport, Fitted, fit
from elmore.tasks.model import TaskModel
from elmore.tasks.tuning import as_trained, fine_tuning, task_of, with_used_settings
from elmore.text.marked_reader import MarkedReader
from elmore.text.reader import Pair
from tests.tasks.bert_tasks import TASKS, TinyTask
from tests.tiny_causal import TRANSFORMER, tiny_causal, tiny_pieces
from tests.tiny_gpt2 import tiny_gpt2

_, _, SST, ENTAILMENT, QA = TASKS
FAST = ("encoder.gpt.lr=0.01", "encoder.gpt.batch=4", "encoder.gpt.dropout=0.0")


@pytest.fixture(scope="module")
def gpt(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models") / "gpt2"
    save(tiny_gpt2(dim=16, max_positions=64), folder)
    return folder


def fresh(tiny: TinyTask, gpt: Path, *settings: str) -> TaskModel:
    config = tiny.config(f"gpt:{gpt}+tune", *FAST, *settings)
    torch.manual_seed(0)
    task, encoder = task_of(config), build_encoder(config.encoder, ())
    return TaskModel(task, encoder, task.start(tiny.examples(32, 1)))


def tuned_gpt(model: TaskModel) -> TunedGPT:
    (source,) = model.encoder.sources
    assert isinstance(source, TunedGPT)
    return source


def run(tiny: TinyTask, gpt: Path, output: Path, *settings: str, **more: Any) -> Fitted:
    config = tiny.config(f"gpt:{gpt}+tune", *FAST, *settings)
    return fit(config, tiny.examples(32, 1), tiny.examples(12, 2), output, device="cpu", **more)


def theirs(model: TaskModel, gpt: Path, examples: list[Any], weight: float, both: bool) -> float:
    """The loss, example by example, by GPT2Model, without padding."""
    transformers = pytest.importorskip("transformers")
    source, head = tuned_gpt(model), model.head
    table = source.model.pieces.weight.detach()
    other = transformers.GPT2Model.from_pretrained(gpt, attn_implementation="eager").eval()
    other.resize_token_embeddings(len(table))
    other.wte.weight.data.copy_(table)
    start, delimiter, classify = range(len(table) - 3, len(table))
    total = 0.0
    for example in examples:
        texts = [example.words] if hasattr(example, "words") else [
            example.premise, example.hypothesis
        ]  # fmt: skip
        state, predicted = torch.zeros(table.shape[1]), []
        for order in [texts, texts[::-1]] if both else [texts]:
            parts = [[i for p in source.marked.subwords.pieces(t) for i in p] for t in order]
            row = [start, *parts[0]]
            for part in parts[1:]:
                row += [delimiter, *part]
            row.append(classify)
            with torch.no_grad():
                h = other(torch.tensor([row])).last_hidden_state[0]
            state = state + h[-1]
            predicted.append(F.cross_entropy(h[:-1] @ table.T, torch.tensor(row[1:])).item())
        scores = state @ head.output.weight.detach().T + head.output.bias.detach()
        gold = torch.tensor(head.labels.index(example.label))
        total += F.cross_entropy(scores, gold).item()
        total += weight * sum(predicted) / len(predicted)
    return total / len(examples)


@pytest.mark.parametrize(
    ("tiny", "weight", "both"),
    [(SST, 0.0, False), (SST, 0.5, False), (ENTAILMENT, 0.5, False), (ENTAILMENT, 0.25, True)],
    ids=["text", "text and its pieces", "pairs", "both orders"],
)
def test_the_loss_is_that_of_transformers(tiny: TinyTask, gpt: Path, weight: float, both: bool):
    settings = (f"encoder.gpt.lm_weight={weight}", f"encoder.gpt.both_orders={str(both).lower()}")
    model = fresh(tiny, gpt, *settings).train()
    examples = tiny.examples(6, 1)
    found = float(model.loss(examples).detach())
    assert found == pytest.approx(theirs(model, gpt, examples, weight, both), abs=1e-5)
    model.eval()  # in use, nothing of the text is predicted
    label_alone = float(model.loss(examples).detach())
    assert label_alone == pytest.approx(theirs(model, gpt, examples, 0.0, both), abs=1e-5)


def test_it_learns_and_opens_again_to_the_same_predictions(gpt: Path, tmp_path: Path):
    fitted = run(SST, gpt, tmp_path / "run", "encoder.gpt.epochs=5")
    test = SST.examples(30, 3)
    assert fitted.model.evaluate(test).main > 90
    loaded = TaskModel.load(tmp_path / "run", device="cpu")
    assert loaded.predict(test) == fitted.model.predict(test)


def test_a_killed_run_goes_on_to_the_same_weights(gpt: Path, tmp_path: Path):
    class Killed(Exception):
        pass

    def kill(now: EpochReport) -> None:
        if now.epoch == 2 and now.fraction > 0.4:
            raise Killed

    dropout = "encoder.gpt.dropout=0.1"
    whole = run(ENTAILMENT, gpt, tmp_path / "whole", dropout)
    with pytest.raises(Killed):
        run(ENTAILMENT, gpt, tmp_path / "killed", dropout, report=kill)
    again = run(ENTAILMENT, gpt, tmp_path / "killed", dropout, resume=True)
    a, b = whole.model.state_dict(), again.model.state_dict()
    assert a.keys() == b.keys()
    assert all(torch.equal(a[name], b[name]) for name in a)


@pytest.mark.parametrize("tied", [True, False])
def test_a_transformer_of_our_own_is_tuned_too_with_its_softmax(tmp_path: Path, tied: bool):
    save(tiny_causal(TRANSFORMER, tied=tied), tmp_path / "model")
    model = fresh(SST, tmp_path / "model").train()
    model.loss(SST.examples(8, 1)).backward()
    without = {n for n, p in model.named_parameters() if p.grad is None or not p.grad.any()}
    assert without == set()
    assert any(".next_piece.weight" in name for name, _ in model.named_parameters()) != tied


def test_it_is_trained_as_in_the_paper(gpt: Path):
    config = SST.config(f"gpt:{gpt}+tune")
    way = fine_tuning(config.encoder)
    assert way is not None
    wide = as_trained(config, build_encoder(config.encoder, ()).dims.__class__(0, pooled=768))
    assert (wide.lr, wide.epochs, wide.batch, wide.clip) == (6.25e-5, 3, 32, 1.0)
    loop = way.loop(wide, 1000)
    assert loop.steps == 3000
    factors = [loop.schedule.factor(1, x, 0) for x in (0.001, 0.002, 0.501, 1.0)]
    assert factors == pytest.approx([0.5, 1.0, 0.5, 0.0])
    other = with_used_settings(SST.config("none", "encoder.gpt.lm_weight=0.1"))
    assert other.encoder.gpt.lm_weight == 0.5


def test_long_texts_lose_their_ends_and_pairs_share_the_places():
    reader = MarkedReader(tiny_pieces(), 12)
    words = tuple("abcdefghijklmnop")
    (row,), (length,) = reader.read([words])
    assert (row[0], row[-1], length) == (reader.start, reader.classify, 12)
    assert reader.length(words) > 12
    rows, lengths = reader.read(
        [Pair(words, words), Pair(words[:1], words), Pair(words, words[:1])]
    )
    assert lengths.tolist() == [12, 12, 12]
    places = [row.tolist().index(reader.delimiter) for row in rows]
    n = len([i for p in tiny_pieces().pieces(words[:1]) for i in p])
    assert places == [1 + 9 // 2, 1 + n, 11 - n - 1]


def test_what_cannot_be_tuned_is_said(gpt: Path, tmp_path: Path):
    save(tiny_causal(), tmp_path / "lstm")
    with pytest.raises(ConfigError, match="is an LSTM; write 'lm:'"):
        fresh(SST, tmp_path / "lstm")
    with pytest.raises(ConfigError, match=r"not for (qa|question)"):
        task_of(QA.config(f"gpt:{gpt}+tune"))
    with pytest.raises(ConfigError, match="expected a causal language model"):
        build_encoder(SST.config("gpt:small-en+tune").encoder, ())
    save(tiny_gpt2(heads=False, tied=False), tmp_path / "headless")
    with pytest.raises(ConfigError, match=r"lm_weight=0"):
        fresh(SST, tmp_path / "headless")
    fresh(SST, tmp_path / "headless", "encoder.gpt.lm_weight=0")
