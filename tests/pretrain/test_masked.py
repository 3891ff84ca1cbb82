"""A BERT pretrained as a whole: it learns, its folder is a model at once, it resumes with the same
bits and goes on from published models. The losses are those of `transformers`.
"""

import math
import re
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from elmore.checkpoint.bert import bert_checkpoint, write_bert
from elmore.checkpoint.checkpoint import Checkpoint
from elmore.checkpoint.sources import load
from elmore.config import override
from elmore.embedder import Embedder
from elmore.errors import ConfigError
from elmore.models import bert as bert_model
from elmore.models import masked_model
from elmore.models.bert import MASKED, NEXT, Bert, MaskedHead, next_head
from elmore.models.masked_model import MaskedModel, masked_loss
from elmore.pretrain.config import MaskedConfig
from elmore.pretrain.objectives.masked import CORPUS, TOKENIZER
from elmore.pretrain.piece_corpus import PieceCorpus
from elmore.pretrain.recipes import bert_laptop
from elmore.pretrain.run import pretrain, read_run
from elmore.text.piece_reader import PieceReader
from elmore.train.precision import products_in
from elmore.train.run_folder import checkpoints
from tests.pretrain.tiny_runs import logged
from tests.tiny_bert import tiny_bert

pytest.importorskip("tokenizers")


def config(*settings: str) -> MaskedConfig:
    small = [
        "model.dim=16", "model.n_heads=2", "model.ff_dim=32", "model.n_layers=2",
        "model.max_positions=32", "instances.length=24", "rows=4", "vocabulary.size=120",
        "loop.minutes=null", "loop.steps=6", "loop.log_steps=1", "loop.checkpoint_minutes=60",
        "model.dropout=0.1", "model.attention_dropout=0.1", "valid_rows=8",
    ]  # fmt: skip
    found = override(bert_laptop(), [*small, *settings])
    assert isinstance(found, MaskedConfig)
    return found


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Thirty documents; each is about one number and its double."""
    rng = np.random.default_rng(0)
    path = tmp_path_factory.mktemp("text") / "corpus.txt"
    documents = []
    for i in range(30):
        count = rng.integers(2, 6)
        lines = [f"Number {i} is not {int(rng.integers(99))}. It is {i}!" for _ in range(count)]
        documents.append("\n".join(lines))
    path.write_text("\n\n".join(documents) + "\n", encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def run(text: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("run") / "bert"
    pretrain([text], folder, config(), valid=text)
    return folder


def test_documents_are_separated_by_blank_lines(run: Path):
    assert len(PieceCorpus(run / CORPUS)) == 30


def test_the_folder_is_a_model(run: Path, text: Path):
    (embedding,) = Embedder.load(run, device="cpu").embed([["Number", "7"]])
    assert embedding.layers.shape == (3, 2, 16)
    found = load(run, heads=True)
    assert set(found.heads) == {MASKED, NEXT}
    run_config = read_run(run).config
    assert run_config.kind == "masked"
    assert found.model.config.n_pieces == run_config.model.n_pieces
    assert (run / TOKENIZER / "vocab.txt").read_text().startswith("[PAD]\n[UNK]\n")


def test_it_learns(text: Path, tmp_path: Path):
    """Better than from how often each piece occurs alone, which gives a loss of about 3.1."""
    settings = ("loop.steps=250", "loop.optimizer.lr=5e-3", "rows=16", "loop.log_steps=10")
    settings = (*settings, "model.dropout=0", "model.attention_dropout=0", "table_start=random")
    pretrain([text], tmp_path / "run", config(*settings))
    log = [line for line in logged(tmp_path / "run") if "mlm" in line]
    assert log[0]["mlm"] == pytest.approx(np.log(100), abs=1.0)
    assert log[-1]["mlm"] < 2.8
    assert log[-1]["mlm_accuracy"] > 0.3  # the most frequent piece alone: 0.2


@pytest.mark.parametrize("pairs", ["true", "false"])
def test_a_stopped_run_resumes_with_the_same_bits(text: Path, tmp_path: Path, pairs: str):
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    settings = ('loop.schedule={"kind": "constant"}', f"instances.next_sentence={pairs}")
    pretrain([text], whole, config(*settings))
    pretrain([text], parts, config(*settings, "loop.steps=2"))
    pretrain([text], parts, config(*settings, "loop.steps=4"), resume=True)
    pretrain([text], parts, config(*settings), resume=True)
    a, b = (load(checkpoints(folder)[-1], heads=True) for folder in (whole, parts))
    for name, tensor in a.model.state_dict().items():
        assert torch.equal(tensor, b.model.state_dict()[name]), name
    for head in a.heads:
        for name, tensor in a.heads[head].state_dict().items():
            assert torch.equal(tensor, b.heads[head].state_dict()[name]), name


def test_the_same_corpus_gives_the_same_vocabulary(text: Path, tmp_path: Path, run: Path):
    pretrain([text], tmp_path / "again", config("loop.steps=1"))
    for name in ("vocab.txt", "tokenizer.json"):
        again, first = (folder / TOKENIZER / name for folder in (tmp_path / "again", run))
        assert again.read_bytes() == first.read_bytes()


def test_going_on_from_a_model(run: Path, text: Path, tmp_path: Path):
    further = tmp_path / "further"
    pretrain([text], further, config("loop.optimizer.lr=1e-9"), source=run)
    old, new = load(run, heads=True), load(further, heads=True)
    assert old.need_reader().files() == new.need_reader().files()
    for name, tensor in old.model.state_dict().items():
        torch.testing.assert_close(new.model.state_dict()[name], tensor, rtol=0, atol=1e-6)


def test_a_vocabulary_that_does_not_know_the_text_is_said(text: Path, tmp_path: Path):
    few = config("loop.steps=1", "vocabulary.max_alphabet=6")
    pretrain([text], tmp_path / "few", few)
    (note,) = (note for note in read_run(tmp_path / "few").notes if "unknown" in note)
    assert re.match(r"\d+\.\d% of the pieces are unknown \(\[UNK\]\)", note)
    assert "vocabulary.max_alphabet" in note
    pretrain([text], tmp_path / "all", config("loop.steps=1"))
    assert not any("unknown" in note for note in read_run(tmp_path / "all").notes)


def test_rows_longer_than_the_positions_are_refused(text: Path, tmp_path: Path):
    with pytest.raises(ConfigError, match=r"instances.length is 64, but the model has 32"):
        pretrain([text], tmp_path / "run", config("instances.length=64"))


def test_another_vocabulary_is_refused_when_resumed(run: Path, text: Path, tmp_path: Path):
    other = tmp_path / "vocab.txt"
    other.write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\n", encoding="utf-8")
    with pytest.raises(ConfigError, match="not the vocabulary"):
        pretrain([text], run, config(), valid=text, vocabulary=other, resume=True)


@pytest.mark.parametrize("filled", [False, True])
def test_the_loss_is_that_of_transformers(filled: bool, monkeypatch: pytest.MonkeyPatch):
    """BertForPreTraining with the same weights, on a padded batch: loss to 1e-5, gradients too;
    with rows of nothing besides, as in bfloat16."""
    if filled:
        for module in (bert_model, masked_model):
            monkeypatch.setattr(module, "free_rows", lambda n, device: -n % 64)
    transformers = pytest.importorskip("transformers")
    checkpoint = tiny_bert(heads=True)
    model = checkpoint.model
    assert isinstance(model, Bert)
    config = model.config.model_copy(update={"dropout": 0.0, "attention_dropout": 0.0})
    torch.manual_seed(0)
    bert, masked, following = Bert(config), MaskedHead(config), next_head(config)
    bert.load_state_dict(model.state_dict())
    ours = MaskedModel(bert, masked, following).train()
    rng = np.random.default_rng(0)
    lengths = np.array([5, 9, 9])
    ids = torch.from_numpy(rng.integers(5, config.n_pieces, lengths.sum()))
    segments = torch.tensor([0] * 3 + [1] * 2 + [0] * 5 + [1] * 4 + [0] * 2 + [1] * 7)
    begins = torch.tensor([0, 5, 14])
    places = torch.tensor([1, 6, 8, 20])
    targets = torch.from_numpy(rng.integers(5, config.n_pieces, 4))
    random_next = torch.tensor([0, 1, 1])
    found = masked_loss(ours(ids, segments, lengths, begins, places), targets, random_next)
    assert found.following is not None
    total = found.pieces / 4 + found.following / 3
    total.backward()

    theirs = _as_transformers(transformers, ours, checkpoint)
    padded = torch.zeros(3, 9, dtype=torch.long)
    kinds, labels = torch.zeros_like(padded), torch.full_like(padded, -100)
    attention = torch.zeros_like(padded)
    for row, (start, n) in enumerate(zip(begins.tolist(), lengths.tolist(), strict=True)):
        padded[row, :n] = ids[start : start + n]
        kinds[row, :n] = segments[start : start + n]
        attention[row, :n] = 1
        for place, target in zip(places.tolist(), targets.tolist(), strict=True):
            if start <= place < start + n:
                labels[row, place - start] = target
    expected = theirs(
        input_ids=padded,
        token_type_ids=kinds,
        attention_mask=attention,
        labels=labels,
        next_sentence_label=random_next,
    ).loss
    expected.backward()
    assert total.item() == pytest.approx(expected.item(), abs=1e-5)
    table = theirs.bert.embeddings.word_embeddings.weight.grad
    torch.testing.assert_close(bert.embed.pieces.weight.grad, table, rtol=0, atol=1e-5)


def test_products_in_bfloat16_have_few_numbers_of_rows():
    """All but those of the whole row: a new number of rows costs time, and memory for good."""
    checkpoint = tiny_bert(heads=True)
    assert isinstance(checkpoint.model, Bert)
    model = MaskedModel(checkpoint.model, checkpoint.heads[MASKED], None).train()  # type: ignore[arg-type]
    seen: set[int] = set()
    for part in model.modules():
        if isinstance(part, torch.nn.Linear):
            part.register_forward_pre_hook(lambda part, x: seen.add(x[0].numel() // x[0].shape[-1]))
    ids, lengths = torch.arange(5, 28) % 20, np.array([5, 9, 9])
    places, targets = torch.tensor([1, 6, 8, 20]), torch.tensor([3, 4, 5, 6])
    for rounding, rows in (("float32", {23, 4}), ("bfloat16", {64})):
        seen.clear()
        with products_in(rounding, torch.device("cpu")):  # type: ignore[arg-type]
            found = model(ids, torch.zeros_like(ids), lengths, ids[:0], places)
        assert seen == rows
        assert math.isfinite(float(masked_loss(found, targets, ids[:0]).pieces))


def _as_transformers(transformers: Any, ours: MaskedModel, like: Checkpoint) -> Any:
    reader = like.need_reader()
    assert isinstance(reader, PieceReader)
    assert ours.following is not None
    heads = {MASKED: ours.masked, NEXT: ours.following}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "hf"
        write_bert(bert_checkpoint(ours.bert, reader.wordpiece, heads=heads), path)
        return transformers.BertForPreTraining.from_pretrained(path).train()
