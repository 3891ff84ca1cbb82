"""Every kind of model keeps every promise. A new kind is a row in `KINDS`; the toy, which `src` has
never heard of, goes through every verb as well.
"""

import json
import pickle
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from fastapi.testclient import TestClient

from elmore import Elmo, Embedder, Index, Store
from elmore.checkpoint.bilm import bilm_checkpoint
from elmore.checkpoint.checkpoint import Checkpoint
from elmore.checkpoint.sources import load, save
from elmore.checkpoint.word_models import word_checkpoint
from elmore.cli.main import main
from elmore.demo.demo import demo
from elmore.errors import ElmoreError
from elmore.models.bilm import BiLM, BiLMConfig
from elmore.models.context2vec import Context2vec, Context2vecConfig
from elmore.models.static_table import StaticConfig, StaticTable
from elmore.nn.awd_lstm import AWDConfig
from elmore.nn.char_cnn import CharCNNConfig
from elmore.nn.lstm import LSTMConfig
from elmore.nn.transformer import TransformerConfig
from elmore.nn.word_char import WordCharConfig, WordTableConfig
from elmore.serve.app import create_app
from elmore.text.dictionary_reader import CHARACTER_MARKS, WORD_MARKS, DictionaryReader
from elmore.text.vocabulary import MARKS, Vocabulary
from tests.tasks.tiny_data import write_columns
from tests.tiny_bert import tiny_bert
from tests.tiny_causal import TRANSFORMER as ONE_WAY
from tests.tiny_causal import tiny_causal
from tests.tiny_gpt2 import tiny_gpt2
from tests.toy_model import ToyConfig, toy_checkpoint

WORDS = "the river bank lent money we sat on a grassy . one".split()
SENTENCES = [
    "we sat on the river bank .".split(),
    ["one"],
    "the bank lent the money .".split(),
    [],
    [WORDS[i % len(WORDS)] for i in range(37)],
    ["never", "seen", "東京", "x" * 90],
]

FILTERS = ((1, 8), (2, 8))
SPELLED = CharCNNConfig(char_dim=4, filters=FILTERS, n_highway=1, dim=8)
LSTM = LSTMConfig(dim=8, cell_dim=12, n_layers=2)
TRANSFORMER = TransformerConfig(dim=8, ff_dim=16, n_layers=2, n_heads=2, max_positions=64)


def _bilm(words: Any, context: Any, **rest: Any) -> Checkpoint:
    torch.manual_seed(0)
    model = BiLM(BiLMConfig(words=words, context=context))
    for parameter in model.parameters():  # biases too, so that each of them counts
        torch.nn.init.normal_(parameter, std=0.3)
    return bilm_checkpoint(model.requires_grad_(False).eval(), **rest)


def _characters() -> Checkpoint:
    return _bilm(SPELLED, LSTM)


def _transformer() -> Checkpoint:
    return _bilm(SPELLED, TRANSFORMER)


def _word_table() -> Checkpoint:
    vocabulary = Vocabulary([*MARKS, *WORDS])
    return _bilm(WordTableConfig(n_words=len(vocabulary), dim=8), LSTM, vocabulary=vocabulary)


def _dictionary() -> Checkpoint:
    letters = sorted({letter for word in WORDS for letter in word})
    characters = {item: i for i, item in enumerate([*CHARACTER_MARKS, *letters])}
    words = {item: i for i, item in enumerate([*WORD_MARKS, *WORDS])}
    spelled = CharCNNConfig(
        n_characters=len(characters), char_dim=4, filters=FILTERS, n_highway=0, dim=16,
        project=False,
    )  # fmt: skip
    config = WordCharConfig(characters=spelled, n_words=len(words), word_dim=4, dim=8)
    reader = DictionaryReader(characters, words, config.max_characters)
    return _bilm(config, LSTM, dictionary=reader)


def _bert_means() -> Checkpoint:
    return tiny_bert(heads=True, pieces="mean")


def _distilbert() -> Checkpoint:
    return tiny_bert(heads=True, n_segments=0, pooler=False)


def _causal_transformer() -> Checkpoint:
    return tiny_causal(ONE_WAY, tied=False)


def _static() -> Checkpoint:
    vocabulary = Vocabulary([*MARKS, *WORDS])
    model = StaticTable(StaticConfig(n_words=len(vocabulary), dim=8))
    torch.nn.init.normal_(model.vectors, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        model.vectors[vocabulary.unknown] = 0.0
    return word_checkpoint(model.requires_grad_(False).eval(), vocabulary)


def _awd_backward() -> Checkpoint:
    return tiny_causal(AWDConfig(dim=8, hidden_dim=12, n_layers=2), backward=True)


def _context2vec() -> Checkpoint:
    vocabulary = Vocabulary([*MARKS, *WORDS])
    torch.manual_seed(0)
    sizes = {"word_dim": 6, "hidden": 5, "dim": 8}
    model = Context2vec(Context2vecConfig(n_words=len(vocabulary), **sizes))
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    return word_checkpoint(model.requires_grad_(False).eval(), vocabulary)


KINDS: dict[str, Callable[[], Checkpoint]] = {
    "LSTM biLM": _characters,
    "Transformer biLM": _transformer,
    "word table": _word_table,
    "dictionary": _dictionary,
    "BERT": tiny_bert,
    "BERT, means of pieces": _bert_means,
    "DistilBERT": _distilbert,
    "causal LSTM": tiny_causal,
    "causal Transformer": _causal_transformer,
    "AWD-LSTM, backward": _awd_backward,
    "GPT-2": tiny_gpt2,
    "static": _static,
    "context2vec": _context2vec,
    "toy": toy_checkpoint,
}
# PyTorch adds up another number of rows in another order: these kinds are equal up to rounding.
ROUNDING = {"Transformer biLM": 2e-6, "word table": 2e-6}
ROUNDING |= {"causal LSTM": 2e-6, "causal Transformer": 2e-6, "GPT-2": 2e-6}
ROUNDING |= {"AWD-LSTM, backward": 2e-6}
ROUNDING |= {"context2vec": 2e-6}
ROUNDING |= {"BERT": 2e-6, "BERT, means of pieces": 2e-6, "DistilBERT": 2e-6}


@pytest.fixture(params=KINDS, scope="module")
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def checkpoint(kind: str) -> Checkpoint:
    return KINDS[kind]()


@pytest.fixture(scope="module")
def embedder(checkpoint: Checkpoint) -> Embedder:
    return Embedder(checkpoint, device="cpu")


# Promises -----------------------------------------------------------------------------------------


def test_a_sentence_has_the_same_vectors_alone_and_in_a_batch(kind: str, embedder: Embedder):
    together = embedder.embed(SENTENCES)
    for words, found in zip(SENTENCES, together, strict=True):
        (alone,) = embedder.embed([words])
        np.testing.assert_allclose(alone.layers, found.layers, rtol=0, atol=ROUNDING.get(kind, 0.0))


def test_the_runner_gives_what_the_model_gives(checkpoint: Checkpoint, embedder: Embedder):
    with torch.no_grad():
        states = checkpoint.model(checkpoint.need_reader().read(SENTENCES))
    assert states.layers.shape[::3] == (embedder.n_layers, embedder.dim)
    for i, found in enumerate(embedder.embed(SENTENCES)):
        assert int(states.mask[i].sum()) == len(SENTENCES[i])
        theirs = states.layers[:, i, : len(SENTENCES[i])].numpy()
        np.testing.assert_allclose(found.layers, theirs, rtol=0, atol=2e-6)
        assert not states.layers[:, i, len(SENTENCES[i]) :].any()


def test_vectors_stand_with_their_words(embedder: Embedder):
    """Another word in one place changes that place most, in layer 0."""
    base = "the river bank lent money".split()
    (before,) = embedder.embed([base])
    for place in range(len(base)):
        (after,) = embedder.embed([[*base[:place], "grassy", *base[place + 1 :]]])
        moved = np.abs(after.layers[0] - before.layers[0]).sum(axis=1)
        assert int(moved.argmax()) == place
        if embedder.context_free:
            assert not moved[np.arange(len(base)) != place].any()


def test_a_stream_pairs_items_with_their_embeddings(embedder: Embedder):
    items = list(enumerate(SENTENCES))
    found = list(embedder.stream(iter(items), key=lambda item: item[1], batch_words=12))
    assert [item for item, _ in found] == items
    assert [e.words for _, e in found] == SENTENCES
    plain = list(embedder.stream(iter(SENTENCES), batch_words=12))
    for (_, one), other in zip(found, plain, strict=True):
        np.testing.assert_array_equal(one.layers, other.layers)


def test_every_parameter_is_on_one_floor(checkpoint: Checkpoint):
    floors = [id(p) for floor in checkpoint.model.floors() for p in floor]
    assert sorted(floors) == sorted(id(p) for p in checkpoint.model.parameters())


def test_gradients_reach_every_trained_parameter(checkpoint: Checkpoint):
    elmo = Elmo(checkpoint, fine_tune=True, dropout=0.0)
    seen = {i for i, words in enumerate(SENTENCES) if words}
    mixed = elmo([SENTENCES[i] for i in sorted(seen)])
    loss = mixed.vectors[0].square().sum()
    pooled = elmo.layers([SENTENCES[i] for i in sorted(seen)]).pooled
    (loss if pooled is None else loss + pooled.square().sum()).backward()
    for name, parameter in elmo.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.isfinite().all(), name
        if checkpoint.model.n_layers > 1 or not name.endswith("scalars"):  # a share of one is one
            assert parameter.grad.any(), name


def test_the_fingerprint_follows_weights_and_reader(kind: str, checkpoint: Checkpoint):
    made = checkpoint.fingerprint()
    assert KINDS[kind]().fingerprint() == made
    other = KINDS[kind]()
    with torch.no_grad():
        next(other.model.parameters()).view(-1)[0] += 1
    assert other.fingerprint() != made
    assert made != checkpoint.fingerprint("int8")


def test_the_fingerprint_follows_config_and_reader_files():
    prints = {
        toy_checkpoint().fingerprint(),
        toy_checkpoint(salt=b"other").fingerprint(),
        toy_checkpoint(ToyConfig(n_ids=51)).fingerprint(),
    }
    assert len(prints) == 3
    words = _word_table()
    assert words.vocabulary is not None
    renamed = Vocabulary([*words.vocabulary.words[:-1], "another"])
    other = bilm_checkpoint(words.model, vocabulary=renamed)
    assert other.fingerprint() != words.fingerprint()


def test_saved_and_loaded_it_is_the_same(kind: str, checkpoint: Checkpoint, tmp_path: Path):
    if kind == "toy":
        pytest.skip("a kind that src does not know has no file in checkpoint/")
    save(checkpoint, tmp_path / "model")
    again = load(tmp_path / "model")
    assert again.fingerprint() == checkpoint.fingerprint()
    for one, other in zip(
        *(Embedder(c).embed(SENTENCES) for c in (checkpoint, again)), strict=True
    ):
        np.testing.assert_array_equal(one.layers, other.layers)


_CHILD = """
import pickle, sys
while True:
    embedder, sentences = pickle.load(sys.stdin.buffer)
    pickle.dump([e.layers for e in embedder.embed(sentences)], sys.stdout.buffer)
    sys.stdout.buffer.flush()
"""


@pytest.fixture(scope="module")
def another_process() -> Iterator["subprocess.Popen[bytes]"]:
    """One for all kinds: importing torch takes seconds."""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    root = Path(__file__).resolve().parents[1]
    with subprocess.Popen([sys.executable, "-c", _CHILD], cwd=root, **pipes) as process:  # type: ignore[call-overload]
        yield process
        process.kill()


def test_a_copy_works_in_another_process(
    embedder: Embedder, another_process: "subprocess.Popen[bytes]"
):
    expected = [e.layers for e in embedder.embed(SENTENCES)]
    given, answers = another_process.stdin, another_process.stdout
    assert given is not None
    assert answers is not None
    pickle.dump((embedder, SENTENCES), given)
    given.flush()
    for one, other in zip(expected, pickle.load(answers), strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=2e-6)


def test_the_repr_says_what_it_is(embedder: Embedder):
    said = repr(embedder)
    for part in (type(embedder.model).__name__, f"{embedder.n_layers} layers", "cpu", "float32"):
        assert part in said


# The toy through every verb -----------------------------------------------------------------------

CORPUS = [
    *(
        f"they sat on the grassy bank of the {x} and ate .".split()
        for x in ("river", "lake", "sea")
    ),
    *(f"the bank lent her the {x} at a high rate .".split() for x in ("money", "loan", "sum")),
]


@pytest.fixture
def toy(monkeypatch: pytest.MonkeyPatch) -> Embedder:
    """Found by the name `toy`, as a shipped model would be."""

    def load_toy(source: str | Path, *, options: Any = None, **_: Any) -> Checkpoint:
        return toy_checkpoint() if str(source) == "toy" else load(source, options=options)

    monkeypatch.setattr("elmore.embedder.load", load_toy)
    monkeypatch.setattr("elmore.elmo.load", load_toy)
    monkeypatch.setattr("elmore.cli.early.check_name", lambda name: None)
    return Embedder.load("toy", device="cpu")


def test_a_toy_is_embedded_into_files(toy: Embedder, tmp_path: Path):
    text = tmp_path / "text.txt"
    text.write_text("\n".join(" ".join(words) for words in CORPUS), encoding="utf-8")
    target = tmp_path / "vectors.npz"
    assert main(["embed", str(text), str(target), "--model", "toy", "--quiet"]) == 0
    with np.load(target) as archive:
        for i, found in enumerate(toy.embed(CORPUS)):
            np.testing.assert_array_equal(archive[str(i)], found.layers)


def test_a_toy_is_stored(toy: Embedder, tmp_path: Path):
    store = Store.create(tmp_path / "store", toy)
    store.fill(CORPUS)
    np.testing.assert_array_equal(store[CORPUS[0]].layers, toy.embed([CORPUS[0]])[0].layers)
    assert not store.context_free


def test_a_toy_is_indexed_and_served(toy: Embedder, tmp_path: Path):
    pytest.importorskip("sklearn", reason="the extra `search` is not installed")
    index = Index.build(CORPUS, toy, tmp_path / "index", keep="all")
    near = index.neighbors(CORPUS[0], 5, 2)
    assert {n.use.word for n in near} == {"bank"}
    static = index.static_neighbors("bank", 3)
    assert len(static) == 3
    assert index.senses("bank").n_uses == len(CORPUS)
    with TestClient(create_app(toy, index=index)) as client:
        answer = client.post("/neighbors", json={"sentence": CORPUS[0], "position": 5, "k": 2})
        assert [n["score"] for n in answer.json()["neighbors"]] == [
            pytest.approx(n.score) for n in near
        ]
        vectors = client.post("/embed", json={"sentences": [CORPUS[0]]}).json()
        np.testing.assert_allclose(
            vectors["sentences"][0]["layers"], toy.embed([CORPUS[0]])[0].layers, atol=1e-6
        )


def test_the_static_column_of_a_toy_is_the_word_alone(toy: Embedder, tmp_path: Path):
    index = Index.build(CORPUS, toy, tmp_path / "index")
    alone = {w: toy.embed([[w]])[0].layers[0, 0] for w in index.words}
    table = np.stack([alone[w] for w in index.words])
    table = table - table.mean(axis=0)
    table /= np.linalg.norm(table, axis=1, keepdims=True)
    scores = table @ table[index.words.index("bank")]
    best = [index.words[i] for i in np.argsort(-scores) if index.words[i] != "bank"][:3]
    assert [n.word for n in index.static_neighbors("bank", 3)] == best


def test_a_toy_is_shown_in_the_demo(toy: Embedder):
    found = demo(toy, "en", "bank")
    assert len(found.total.layers) == toy.n_layers  # no layer is taken for context-free


@pytest.mark.parametrize("tuned", [[], ["--fine-tune"]], ids=["frozen", "fine-tuned"])
def test_a_toy_serves_a_task(toy: Embedder, tmp_path: Path, tuned: list[str]):
    write_columns(tmp_path)
    train, dev = str(tmp_path / "train.txt"), str(tmp_path / "dev.txt")
    folder = str(tmp_path / "ner")
    small = ["--epochs", "3", "--set", "task.hidden=4", "--set", "encoder.own.word_dim=4"]
    given = ["--train", train, "--dev", dev, "--output", folder, "--encoder", "toy", "--quiet"]
    assert main(["task", "train", "ner", *given, *small, *tuned]) == 0
    assert main(["task", "evaluate", "ner", "--model", folder, "--test", dev, "--quiet"]) == 0


def test_a_toy_is_compared(toy: Embedder, tmp_path: Path):
    write_columns(tmp_path)
    files = [str(tmp_path / f"{part}.txt") for part in ("train", "dev", "test")]
    given = ["--train", files[0], "--dev", files[1], "--test", files[2], "--seeds", "1", "--quiet"]
    small = ["--epochs", "1", "--set", "task.hidden=4", "--set", "encoder.own.word_dim=4"]
    output = tmp_path / "out"
    encoders = ["--encoders", "none,toy", "--output", str(output)]
    assert main(["compare", "ner", *given, *small, *encoders]) == 0
    rows = [json.loads(path.read_text()) for path in (output / "results").iterdir()]
    assert {row["trial"]["encoder"] for row in rows} == {"none", "toy"}
    assert all(row["kind"] == "done" for row in rows)


def test_what_a_toy_cannot_do_is_said(toy: Embedder):
    with pytest.raises(ElmoreError, match="Only an LSTM carries state"):
        toy.stateful()
    with pytest.raises(ElmoreError, match="int8"):
        Embedder(toy_checkpoint(), precision="int8")
    with pytest.raises(ElmoreError, match="vocabulary is missing"):
        Embedder(replace(toy_checkpoint(), reader=None))
