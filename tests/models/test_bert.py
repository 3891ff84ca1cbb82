"""BERT against recorded outputs, an independent NumPy oracle and `transformers`; a sentence has the
same vectors alone and in company."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch

from elmore import Embedder
from elmore.checkpoint.bert import _named, bert_of
from elmore.checkpoint.bert_config import WordOptions, options_from_config
from elmore.checkpoint.checkpoint import Checkpoint
from elmore.checkpoint.sources import load, save
from elmore.models.bert import MASKED, NEXT, Bert, MaskedHead, equal_lengths
from elmore.text.piece_reader import PieceReader, window_starts
from elmore.text.reader import Pair
from tests.oracle import bert as oracle
from tests.shared import SHARED, needs
from tests.tiny_bert import tiny_bert, tiny_config

FIXTURES = SHARED / "fixtures" / "bert"
FOLDERS = ("uncased", "cased", "old-names", "sentence-transformers", "token-classification")
HIDDEN, LOGITS = 1e-5, 5e-5  # as the fixtures state them; measured 2.6e-6 and 1.3e-5

Outputs = dict[str, npt.NDArray[Any]]


def run(checkpoint: Checkpoint, ids: Any, segments: Any, mask: Any) -> Iterator[Outputs]:
    """A padded batch, row by row: all outputs of the model and its heads, marks included."""
    model, heads, mask = bert_of(checkpoint), checkpoint.heads, np.asarray(mask, bool)
    order = np.argsort(mask.sum(axis=1), kind="stable")
    lengths = mask.sum(axis=1)[order].astype(np.int64)
    flat = (
        np.concatenate([a[i][mask[i]] for i in order]).astype(np.int64) for a in (ids, segments)
    )
    with torch.no_grad():
        states = model.run(*map(torch.from_numpy, flat), lengths)  # type: ignore[misc]
        split = zip(*(x.split(lengths.tolist()) for x in states), strict=True)  # by row
        rows: dict[int, Outputs] = {}
        for i, parts in zip(order, split, strict=True):
            rows[i] = {"hidden_states": torch.stack(parts).numpy()}
            pooled = model.pool(parts[-1][:1])
            if pooled is not None:
                rows[i]["pooler_output"] = pooled[0].numpy()
            if NEXT in heads and pooled is not None:
                rows[i]["seq_relationship_logits"] = heads[NEXT](pooled)[0].numpy()
            if MASKED in heads:
                logits = heads[MASKED](parts[-1], model.embed.pieces.weight)
                rows[i]["prediction_logits"] = logits.numpy()
            if "classifier" in heads:
                rows[i]["logits"] = heads["classifier"](parts[-1]).numpy()
    yield from (rows[i] for i in range(len(mask)))


def compare_with_fixture(checkpoint: Checkpoint, folder: Path) -> set[str]:
    """Every recorded output; returns the kinds of output that were compared."""
    compared: set[str] = set()
    with np.load(folder / "expected.npz") as expected:
        for item in json.loads((folder / "inputs.json").read_text("utf-8")):
            at = f"{item['i']}."
            ids, mask, segments = (
                expected[at + name] for name in ("input_ids", "attention_mask", "token_type_ids")
            )
            for b, found in enumerate(run(checkpoint, ids, segments, mask)):
                n = int(mask[b].sum())
                for name, values in found.items():
                    if at + name not in expected:
                        continue
                    wanted = expected[at + name]
                    wanted = wanted[:, b] if name == "hidden_states" else wanted[b]
                    if name == "hidden_states":
                        wanted = wanted[:, :n]
                    elif wanted.ndim == 2:
                        wanted = wanted[:n]
                    atol = LOGITS if name.endswith("logits") else HIDDEN
                    np.testing.assert_allclose(values, wanted, rtol=0, atol=atol)
                    compared.add(name)
    return compared


@needs("fixtures", "bert")
@pytest.mark.parametrize("name", FOLDERS)
def test_recorded_outputs(name: str):
    compared = compare_with_fixture(load(FIXTURES / name, heads=True), FIXTURES / name)
    heads = {"pooler_output", "prediction_logits", "seq_relationship_logits"}
    rest = {"sentence-transformers": {"pooler_output"}, "token-classification": {"logits"}}
    assert compared == {"hidden_states"} | rest.get(name, heads)


@needs("fixtures", "bert-tf")
def test_recorded_outputs_of_a_tensorflow_checkpoint():
    read = load(SHARED / "fixtures" / "bert-tf", heads=True, words=WordOptions(lowercase=True))
    assert "prediction_logits" in compare_with_fixture(read, FIXTURES / "old-names")


@needs("fixtures", "bert")
@pytest.mark.parametrize("name", FOLDERS)
def test_words_give_the_recorded_vectors(name: str):
    """From words to vectors: what was recorded for pieces, pooled to words."""
    read = load(FIXTURES / name)
    reader = read.need_reader()
    assert isinstance(reader, PieceReader)
    done = 0
    with np.load(FIXTURES / name / "expected.npz") as expected:
        for item in json.loads((FIXTURES / name / "inputs.json").read_text("utf-8")):
            if not item["kind"].startswith("words"):
                continue
            words = [word for word in item["text"] if word]  # an empty one has no piece there
            n = sum(map(len, reader.wordpiece.pieces(words)))
            hidden = expected[f"{item['i']}.hidden_states"][:, 0, 1 : n + 1]  # (L, P, D)
            counts = [len(word) for word in reader.wordpiece.pieces(words)]
            ends = np.cumsum(counts)
            first = hidden[:, ends - counts]
            spans = zip(ends - counts, ends, strict=True)
            means = np.stack([hidden[:, start:end].mean(1) for start, end in spans], 1)
            for pieces, wanted in (("first", first), ("mean", means)):
                embedder = Embedder.load(FIXTURES / name, pieces=pieces)
                (found,) = embedder.embed([words])
                np.testing.assert_allclose(found.layers, wanted, rtol=0, atol=HIDDEN)
            done += 1
    assert done == 1


@needs("fixtures", "bert")
def test_sentence_vectors_of_sentence_transformers():
    """The mean over all pieces, marks included."""
    folder = FIXTURES / "sentence-transformers"
    read = load(folder)
    model, reader = bert_of(read), read.need_reader()
    assert isinstance(reader, PieceReader)
    sentences = json.loads((folder / "sentences.json").read_text("utf-8"))
    with np.load(folder / "expected_sentences.npz") as expected, torch.no_grad():
        for text, wanted in zip(sentences, expected["mean"], strict=True):
            ids = torch.tensor(reader.wordpiece.tokenizer.encode(text).ids)
            top = model.run(ids, torch.zeros_like(ids), np.array([len(ids)]))[-1]
            np.testing.assert_allclose(top.mean(0).numpy(), wanted, rtol=0, atol=HIDDEN)


# Random configurations ----------------------------------------------------------------------------

CONFIGS: list[dict[str, Any]] = [
    {},
    {"activation": "gelu_new", "n_layers": 3},
    {"activation": "relu", "norm_eps": 1e-5, "n_heads": 1},
    {"dim": 32, "n_heads": 8, "ff_dim": 5, "n_segments": 3},
    {"pooler": False, "max_positions": 40},
    {"n_layers": 1, "n_heads": 12, "norm_eps": 0.1},
]


def weights_of(checkpoint: Checkpoint) -> dict[str, npt.NDArray[np.float64]]:
    named = _named(checkpoint).items()
    return {name.removeprefix("bert."): t.numpy().astype(np.float64) for name, t in named}


@pytest.mark.parametrize("changed", CONFIGS, ids=str)
def test_the_oracle_agrees(changed: dict[str, Any]):
    made = tiny_bert(heads=True, **changed)
    W, config = weights_of(made), bert_of(made).config
    options = options_from_config(config, {}, made.heads)
    rng = np.random.default_rng(3)
    for n in (2, 7, 24):
        ids, segments = rng.integers(0, config.n_pieces, n), np.sort(rng.integers(0, 2, n))
        states = oracle.hidden_states(W, options, ids, segments)
        (found,) = run(made, ids[None], segments[None], np.ones((1, n)))
        np.testing.assert_allclose(found["hidden_states"], states, rtol=0, atol=HIDDEN)
        wanted = {"prediction_logits": oracle.masked_logits(W, options, states[-1])}
        if config.pooler:
            wanted["pooler_output"] = oracle.pooler(W, states[-1])
            wanted["seq_relationship_logits"] = oracle.next_logits(W, states[-1])
        for name, values in wanted.items():
            np.testing.assert_allclose(found[name], values, rtol=0, atol=LOGITS)


@pytest.mark.parametrize("changed", [*CONFIGS, {"n_segments": 0, "pooler": False}], ids=str)
def test_transformers_agrees_on_what_is_saved(changed: dict[str, Any], tmp_path: Path):
    transformers = pytest.importorskip("transformers", reason="transformers is not installed")
    made = tiny_bert(heads=True, **changed)
    config = bert_of(made).config
    save(made, tmp_path / "model")
    name = json.loads((tmp_path / "model" / "config.json").read_text())["architectures"][0]
    theirs = getattr(transformers, name).from_pretrained(tmp_path / "model").eval()
    rng = np.random.default_rng(4)
    lengths = [3, 11, config.max_positions]
    mask = np.arange(max(lengths)) < np.array(lengths)[:, None]
    ids = rng.integers(0, config.n_pieces, mask.shape)
    segments = np.sort(rng.integers(0, max(1, min(2, config.n_segments)), mask.shape))
    given = {"input_ids": ids, "attention_mask": mask.astype(np.int64), "token_type_ids": segments}
    if not config.n_segments:
        del given["token_type_ids"]
    with torch.no_grad():
        tensors = {key: torch.from_numpy(value) for key, value in given.items()}
        wanted = theirs(**tensors, output_hidden_states=True)
    logits = wanted["prediction_logits" if NEXT in made.heads else "logits"]
    for b, found in enumerate(run(made, ids, segments, mask)):
        states = torch.stack(wanted.hidden_states)[:, b, : lengths[b]].numpy()
        np.testing.assert_allclose(found["hidden_states"], states, rtol=0, atol=HIDDEN)
        predicted = logits[b, : lengths[b]].numpy()
        np.testing.assert_allclose(found["prediction_logits"], predicted, rtol=0, atol=LOGITS)
        if NEXT in made.heads:
            following = wanted.seq_relationship_logits[b].numpy()
            np.testing.assert_allclose(
                found["seq_relationship_logits"], following, rtol=0, atol=LOGITS
            )


# What a model of words promises -------------------------------------------------------------------

WORDS = "the river bank lent money we sat on grassy of a one . unseen".split()


def text(n: int, seed: int = 0) -> list[str]:
    rng = np.random.default_rng(seed)
    return [WORDS[i] for i in rng.integers(0, len(WORDS), n)]


@pytest.mark.parametrize("pieces", ["first", "mean"])
def test_a_sentence_is_the_same_alone_among_200_and_beside_a_long_one(pieces: str):
    embedder = Embedder(tiny_bert(pieces=pieces, max_positions=64))
    sentence = text(9)
    (alone,) = embedder.embed([sentence])
    others = [text(i % 40, seed=i) for i in range(200)]
    for company in (others, [text(500, seed=7)], [text(500, seed=7), *others]):
        found = embedder.embed([*company[:3], sentence, *company[3:]])[min(3, len(company))]
        np.testing.assert_allclose(found.layers, alone.layers, rtol=0, atol=1e-5)


def test_a_long_text_is_read_in_windows_and_nothing_is_cut():
    """Each word as in the one window where its first piece has the most context."""
    made = tiny_bert(max_positions=24)
    embedder, words = Embedder(made), text(120)
    (found,) = embedder.embed([words])
    assert found.layers.shape[1] == 120
    reader = made.need_reader()
    assert isinstance(reader, PieceReader)
    pieces = [i for word in reader.wordpiece.pieces(words) for i in word]
    counts = [len(word) for word in reader.wordpiece.pieces(words)]
    firsts = np.cumsum(counts) - counts
    windows = [(s, s + 22) for s in window_starts(len(pieces), 22)]
    W = weights_of(made)
    options = options_from_config(bert_of(made).config, {}, {})
    states = [
        np.stack(oracle.hidden_states(
            W, options, [reader.wordpiece.begin, *pieces[b:e], reader.wordpiece.end], [0] * 24
        ))
        for b, e in windows
    ]  # fmt: skip
    for word, first in enumerate(firsts):
        window = oracle.best_window(first, windows)
        wanted = states[window][:, 1 + first - windows[window][0]]
        np.testing.assert_allclose(found.layers[:, word], wanted, rtol=0, atol=HIDDEN)


def test_pooled_is_of_each_input():
    made = tiny_bert(max_positions=64)
    model, reader = bert_of(made), made.need_reader()
    inputs = [Pair(text(3), text(5)), text(8), [], text(70, seed=2)]
    with torch.no_grad():
        together = model(reader.read(inputs)).pooled
        assert together is not None
        for i, one in enumerate(inputs):
            alone = model(reader.read([one])).pooled
            np.testing.assert_allclose(together[i], alone[0], rtol=0, atol=HIDDEN)


def test_the_second_text_of_a_pair_is_another_segment():
    embedder = Embedder(tiny_bert())
    model, reader = embedder.model, embedder.reader
    with torch.no_grad():
        pair = model(reader.read([Pair(["the", "bank"], ["the", "river"])]))
        one = model(reader.read([["the", "bank", "[SEP]", "the", "river"]]))
    assert pair.layers.shape[2] == 4
    moved = (pair.layers[0, 0] - one.layers[0, 0, [0, 1, 3, 4]]).abs().amax(-1)
    assert (moved[:2] < 1e-6).all()
    assert (moved[2:] > 0.05).all()


def test_words_without_context_are_means_of_rows_of_the_table():
    made = tiny_bert()
    embedder, table = Embedder(made), bert_of(made).embed.pieces.weight.numpy()
    reader = made.need_reader()
    assert isinstance(reader, PieceReader)
    texts = [["grassy"], ["the"], ["the", "grassy", "東"]]
    for words, found in zip(texts, embedder.static(texts), strict=True):
        ids = [i for word in reader.wordpiece.pieces(words) for i in word]
        np.testing.assert_allclose(found, table[ids].mean(0), rtol=0, atol=1e-6)


def test_floors_are_the_layers_from_the_top_then_the_embeddings():
    model = bert_of(tiny_bert(n_layers=3))
    names = {id(p): name for name, p in model.named_parameters()}
    floors = [{names[id(p)].split(".")[0:2][0] for p in floor} for floor in model.floors()]
    assert floors == [{"pooler", "blocks"}, {"blocks"}, {"blocks"}, {"embed"}]
    assert all("blocks.2" in names[id(p)] or "pooler" in names[id(p)] for p in model.floors()[0])


def test_weights_begin_as_in_the_original():
    """A normal distribution of deviation 0.02 cut at two deviations, biases zero, norms one."""
    torch.manual_seed(0)
    model = Bert(tiny_config(dim=120, n_heads=2))
    table = model.embed.pieces.weight
    assert table.abs().max() <= 0.04
    assert 0.0165 < table.std() < 0.0185  # 0.88 of 0.02, for the cut tails
    for name, parameter in model.named_parameters():
        if name.endswith("bias"):
            assert not parameter.any(), name
        elif "norm" in name:
            assert (parameter == 1).all(), name


def test_dropout_is_for_training_only():
    made = tiny_bert()
    model, batch = bert_of(made), made.need_reader().read([text(8)])
    with torch.no_grad():
        quiet, loud = model(batch).layers, model.train()(batch).layers
        model.eval()
    assert (quiet - loud).abs().max() > 0.01
    assert torch.equal(model(batch).layers, quiet)


def test_rows_of_equal_length_are_found():
    assert equal_lengths(np.array([2, 2, 5, 7, 7, 7])) == [(2, 2), (1, 5), (3, 7)]
    assert equal_lengths(np.array([5, 5, 1, 1, 5])) == [(2, 5), (2, 1), (1, 5)]
    assert equal_lengths(np.array([], np.int64)) == []


def test_the_masked_head_uses_the_table_it_is_given():
    head, h = MaskedHead(tiny_config()), torch.randn(3, 12)
    table = torch.randn(5, 12)
    head.bias = torch.nn.Parameter(torch.zeros(5))
    assert head(h, table).shape == (3, 5)
    np.testing.assert_allclose(
        head(h, 2 * table).detach().numpy(), 2 * head(h, table).detach().numpy(), rtol=1e-5
    )
