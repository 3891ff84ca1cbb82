"""Encoders: what each part gives, what is kept of a biLM and how often it is asked."""

from pathlib import Path

import numpy as np
import pytest
import torch

from elmore.elmo import Elmo
from elmore.embedder import Embedder
from elmore.embedding import Embedding
from elmore.errors import ConfigError, InputError
from elmore.models.static import StaticVectors
from elmore.store.store import Store
from elmore.tasks.encoded import Dims
from elmore.tasks.encoders.encoder import Encoder, EncoderConfig, build_encoder
from elmore.tasks.encoders.layer_sources import (
    FrozenLayers,
    LayersInMemory,
    LayersInStore,
    TunedLayers,
)
from elmore.tasks.encoders.source import OwnConfig, StaticWords, batch_of, own_words
from elmore.text.reader import Pair
from tests.tasks.bert_tasks import write_tiny_bert
from tests.tasks.tiny_tasks import OWN, write_static

SENTENCES = [("We", "met", "in", "Jordan"), ("x" * 300,), ("Mrs", "Jordan")]
CPU = torch.device("cpu")


def build(source: str, *, cache: Path | None = None, **changes: object) -> Encoder:
    torch.manual_seed(0)
    config = EncoderConfig.model_validate({"source": source, "own": OWN, **changes})
    return build_encoder(config, ["We", "met"], cache=cache).eval()


def test_a_model_that_has_one_vector_for_most_words_is_told(tiny_model: Path):
    class Blind:
        """Reads every word as the same one."""

        n_layers, dim, fingerprint, reader = 3, 8, "blind", None

        def __init__(self, embedder: Embedder):
            self.embedder, self.model = embedder, embedder.model

        def embed(self, sentences: list[list[str]]) -> list[Embedding]:
            return self.embedder.embed([["one"] for _ in sentences])

    embedder = Embedder.load(str(tiny_model))
    words = [f"word{i}" for i in range(40)]
    for source, told in ((embedder, 0), (Blind(embedder), 1)):
        layers = FrozenLayers("x", "input", LayersInMemory(embedder), source, l2=0.0)  # type: ignore[arg-type]
        notes = layers.unread(words)
        assert len(notes) == told
        assert all("x has one vector for 40 of 40 different words" in note for note in notes)


def test_rare_words_share_the_vector_of_unknown_words():
    encoder = build("none")
    word_dim = OWN.word_dim
    words = encoder([("We", "Jordan", "never", "We")]).vectors[0, :, :word_dim]
    torch.testing.assert_close(words[1], words[2])
    torch.testing.assert_close(words[0], words[3])
    assert (words[0] != words[1]).any()
    spelled = encoder([("Jordan", "never")]).vectors[0, :, word_dim:]
    assert (spelled[0] != spelled[1]).any()  # and yet their spelling tells them apart


def test_words_with_vectors_of_their_own_are_the_frequent_ones_of_the_training_set():
    sentences = [("b", "a", "c"), ("a", "b"), ("d",)]
    assert own_words(OwnConfig(min_count=2), sentences) == ("a", "b")
    assert own_words(OwnConfig(min_count=1), sentences) == ("a", "b", "c", "d")


def test_vectors_beyond_a_sentences_end_are_zero_and_do_not_change_it(tiny_model: Path):
    encoder = build(str(tiny_model), join="both")
    both = encoder(SENTENCES)
    assert both.mask.sum(dim=1).tolist() == [4, 1, 2]
    assert both.late is not None
    assert not both.vectors[1, 1:].any()
    assert not both.late[1, 1:].any()
    alone = encoder(SENTENCES[2:])
    torch.testing.assert_close(both.vectors[2:, :2], alone.vectors, rtol=0, atol=1e-6)


def test_static_vectors_are_those_of_the_file_with_back_off_to_lower_case(tmp_path: Path):
    path = write_static(tmp_path)
    table = StaticVectors.load(path)
    encoder = build(f"glove:{path}")
    found = encoder([("We", "jordan", "river")]).vectors[0, :, -table.dim :]
    expected = np.stack([table.vectors[0], table.vectors[4], np.zeros(table.dim)])
    np.testing.assert_array_equal(found.detach().numpy(), expected)


def test_corrections_to_static_vectors_are_learnt_for_training_words_alone(tmp_path: Path):
    encoder = build(f"glove:{write_static(tmp_path)}", tune_static=True)
    source = encoder.sources[1]
    assert isinstance(source, StaticWords)
    assert source.correction is not None
    vectors = source(batch_of([("We", "in")], CPU)).vectors
    assert vectors is not None
    vectors.sum().backward()
    grad = source.correction.weight.grad
    assert grad is not None
    assert grad.abs().sum(dim=1).gt(0).tolist() == [False, True, False]  # unknown, We, met


@pytest.mark.parametrize(
    ("join", "dims"),
    [("input", Dims(12 + 16, 0)), ("both", Dims(12 + 16, 16)), ("late", Dims(12, 16))],
)
def test_a_bilm_enters_where_it_is_asked_to(tiny_model: Path, join: str, dims: Dims):
    encoder = build(str(tiny_model), join=join)
    found = encoder(SENTENCES)
    assert encoder.dims == dims
    assert found.vectors.shape == (3, 4, dims.vectors)
    assert (0 if found.late is None else found.late.shape[-1]) == dims.late


def test_frozen_vectors_are_the_learnt_mix_of_the_embedders_layers(
    tiny_model: Path, tiny_embedder: Embedder
):
    encoder = build(str(tiny_model))
    source = encoder.sources[1]
    assert isinstance(source, FrozenLayers)
    assert source.input_mix is not None
    with torch.no_grad():
        source.input_mix.scalars.copy_(torch.tensor([0.3, -1.0, 2.0]))
        source.input_mix.gamma.fill_(1.7)
    (mix,) = encoder.mixes()
    assert (mix.source, mix.place) == (str(tiny_model), "input")
    layers = tiny_embedder.embed([SENTENCES[0]])[0].layers.astype(np.float16)  # as they are kept
    expected = mix.gamma * np.tensordot(mix.weights, layers.astype(np.float64), axes=1)
    found = encoder(SENTENCES[:1]).vectors[0, :, 12:].detach().numpy()
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5)


def test_store_memory_and_cache_give_the_same_numbers(
    tmp_path: Path, tiny_model: Path, tiny_embedder: Embedder
):
    store = Store.create(tmp_path / "a.store", tiny_embedder, precision="float16")
    store.fill([list(words) for words in SENTENCES])
    in_memory = build(str(tiny_model))(SENTENCES)
    cached = build(str(tiny_model), cache=tmp_path / "cache")(SENTENCES)
    from_store = build(f"store:{tmp_path / 'a.store'}")(SENTENCES)
    torch.testing.assert_close(cached.vectors, in_memory.vectors, rtol=0, atol=0)
    torch.testing.assert_close(from_store.vectors, in_memory.vectors, rtol=0, atol=0)


def test_what_a_store_keeps_is_part_of_what_it_is(
    tmp_path: Path, tiny_model: Path, tiny_embedder: Embedder
):
    def fingerprint(name: str, **kept: str) -> tuple[str, ...]:
        Store.create(tmp_path / name, tiny_embedder, **kept)
        return build(f"store:{tmp_path / name}").fingerprints()

    whole = fingerprint("whole", precision="float32")
    # as good as the model, which may take over where the store ends
    assert (
        whole == fingerprint("half", precision="float16") == build(str(tiny_model)).fingerprints()
    )
    others = [
        fingerprint("top", keep="top"),
        fingerprint("average", keep="average"),
        fingerprint("bytes", precision="int8"),
    ]
    assert len({whole, *others}) == 4


def test_a_corpus_is_embedded_once(
    tmp_path: Path, tiny_model: Path, monkeypatch: pytest.MonkeyPatch
):
    asked: list[int] = []
    stream = Embedder.stream

    def counted(self: Embedder, sentences: object, **more: int) -> object:
        found = list(sentences)  # type: ignore[call-overload]
        asked.append(len(found))
        return stream(self, found, **more)

    monkeypatch.setattr(Embedder, "stream", counted)
    for cache in (None, tmp_path / "cache"):
        asked.clear()
        encoder = build(str(tiny_model), cache=cache)
        encoder.prepare([*SENTENCES, *SENTENCES])
        for _ in range(3):
            encoder(SENTENCES)
        assert sum(asked) == len(SENTENCES)
    asked.clear()
    build(str(tiny_model), cache=tmp_path / "cache").prepare(SENTENCES)  # another run
    assert sum(asked) == 0


def test_a_sentence_that_a_store_lacks_is_told(tmp_path: Path, tiny_embedder: Embedder):
    Store.create(tmp_path / "a.store", tiny_embedder)
    encoder = build(f"store:{tmp_path / 'a.store'}")
    with pytest.raises(InputError, match=r"We met in Jordan.* is not in .*a.store"):
        encoder.prepare(SENTENCES[:1])
    with pytest.raises(InputError, match="is not in"):
        encoder(SENTENCES[:1])


def test_fine_tuning_gives_what_elmo_gives_and_frees_floors_from_the_top(tiny_model: Path):
    encoder = build(str(tiny_model), fine_tune=True)
    elmo = Elmo.load(tiny_model, dropout=0.0).eval()
    expected = elmo(SENTENCES).vectors[0]
    found = encoder(SENTENCES).vectors[:, :, 12:]
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-6)
    source = encoder.sources[1]
    assert isinstance(source, TunedLayers)
    free = []
    for epoch in range(1, 6):
        encoder.begin_epoch(epoch)
        free.append([all(p.requires_grad for p in floor) for floor in source.floors])
    assert free == [[False] * 3, [True, False, False], [True, True, False], [True] * 3, [True] * 3]
    assert source.floors[0][0] is next(source.trainable.model.context.layers[-1].parameters())
    every = {id(p) for floor in source.floors for p in floor}
    assert every == {id(p) for floor in encoder.tuned() for p in floor}
    assert every == {id(p) for p in source.trainable.model.parameters()}
    encoder(SENTENCES).vectors.sum().backward()
    assert all(p.grad is not None for p in source.floors[0])


def test_stacks_stand_side_by_side(tmp_path: Path, tiny_model: Path):
    encoder = build(f"glove:{write_static(tmp_path)}+{tiny_model}")
    assert encoder.dims == Dims(12 + 6 + 16)
    assert len(encoder.fingerprints()) == 2
    bilm = sum(p.numel() for p in Embedder.load(tiny_model).model.parameters())
    assert encoder.n_frozen == 6 * 6 + bilm


def test_words_longer_than_a_part_reads_are_counted(tiny_model: Path):
    said = build(str(tiny_model)).notes([*SENTENCES, ("é" * 30, "y" * 48)])
    assert len(said) == 2
    assert "2 different words are longer than the trained spelling reads" in said[0]
    assert f"{tiny_model} reads, and are cut for it (the longest has 300 characters: 'xx" in said[1]
    assert build("none").notes([("short",)]) == ()


def test_a_batch_of_nothing_but_empty_sentences_is_encoded(tiny_model: Path):
    for source in ("none", str(tiny_model)):
        assert build(source)([(), ()]).vectors.shape[:2] == (2, 0)


def test_a_pair_is_encoded_as_the_words_of_both_texts(tiny_model: Path):
    first, second = SENTENCES[0], SENTENCES[2]
    encoder = build("none")
    torch.testing.assert_close(
        encoder([Pair(first, second)]).vectors, encoder([first + second]).vectors, rtol=0, atol=0
    )
    with pytest.raises(InputError, match="kept of single texts"):
        build(str(tiny_model))([Pair(first, second)])
    with pytest.raises(InputError, match="reads one text at a time"):
        build(str(tiny_model), fine_tune=True)([Pair(first, second)])


@pytest.mark.parametrize(
    ("source", "changes", "said"),
    [
        ("none+", {}, "a part of it is empty"),
        ("none", {"fine_tune": True}, "no model in it to fine-tune"),
    ],
)
def test_what_makes_no_encoder_is_told(source: str, changes: dict[str, object], said: str):
    with pytest.raises(ConfigError, match=said):
        build(source, **changes)


def test_a_missing_file_or_model_is_told(tmp_path: Path):
    with pytest.raises(InputError, match="no such file"):
        build(f"glove:{tmp_path / 'none.txt'}")
    with pytest.raises(InputError, match="No model 'nowhere'"):
        build("nowhere")


def test_two_runs_may_share_a_cache_that_one_is_filling(
    tmp_path: Path, tiny_embedder: Embedder, monkeypatch: pytest.MonkeyPatch
):
    """The second waits, and finds the first one's work done."""
    from elmore.store.writer import StoreWriter

    kept = LayersInStore.cached(tiny_embedder, tmp_path)
    other = StoreWriter(kept.store.path)
    waits: list[float] = []

    def wait(seconds: float) -> None:
        waits.append(seconds)
        other.__exit__(None, None, None)

    monkeypatch.setattr("elmore.tasks.encoders.layer_sources.time.sleep", wait)
    with other:
        kept.prepare(SENTENCES)
    assert waits == [1.0]
    states = LayersInMemory(tiny_embedder).batch(SENTENCES)
    torch.testing.assert_close(kept.batch(SENTENCES).layers, states.layers, rtol=0, atol=0)


# BERT ---------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four layers of 24, with the embedding output."""
    return write_tiny_bert(tmp_path_factory.mktemp("models") / "bert", n_layers=3)


def test_a_frozen_bert_is_a_mix_of_all_its_layers(bert: Path):
    called = build(f"bert:{bert}")
    torch.testing.assert_close(
        called(SENTENCES).vectors, build(str(bert))(SENTENCES).vectors, rtol=0, atol=0
    )
    (mix,) = called.mixes()
    assert len(mix.weights) == 4
    assert not called.tuned()
    layers = Embedder.load(bert).embed(SENTENCES)[0].layers.astype(np.float16).astype(np.float32)
    found = called(SENTENCES[:1]).vectors[0, :, 12:].detach().numpy()
    np.testing.assert_allclose(found, layers.mean(axis=0), rtol=0, atol=1e-6)


@pytest.mark.parametrize("join", ["input", "both", "late"])
def test_the_last_four_layers_stand_side_by_side(bert: Path, tmp_path: Path, join: str):
    encoder = build(f"bert:{bert}+last4", join=join, cache=tmp_path)
    width = 4 * 24
    assert encoder.dims == Dims(12 + width * (join != "late"), width * (join != "input"))
    states = encoder(SENTENCES[:1])
    layers = Embedder.load(bert).embed(SENTENCES)[0].layers.astype(np.float16).astype(np.float32)
    expected = np.concatenate([*layers], axis=-1)
    found = states.late if states.late is not None else states.vectors[:, :, 12:]
    np.testing.assert_allclose(found[0].detach().numpy(), expected, rtol=0, atol=1e-6)
    assert encoder.fingerprints() != build(f"bert:{bert}").fingerprints()


def test_a_fine_tuned_bert_gives_its_top_layer_and_what_it_pools(bert: Path):
    encoder = build(f"bert:{bert}+tune")
    assert encoder.dims == Dims(24, pooled=24)
    plain = Embedder.load(bert)
    expected = plain.model(plain.reader.read(SENTENCES))
    found = encoder(SENTENCES)
    torch.testing.assert_close(found.vectors, expected.layers[-1], rtol=0, atol=1e-6)
    torch.testing.assert_close(found.pooled, expected.pooled, rtol=0, atol=1e-6)
    assert (encoder.n_frozen, encoder.mixes()) == (0, [])
    assert encoder.fingerprints() == (plain.fingerprint,)
    assert all(p.requires_grad for floor in encoder.tuned() for p in floor)


def test_a_model_not_called_bert_is_tuned_from_the_top_under_the_tasks_own_model(bert: Path):
    encoder = build(f"{bert}+tune")
    assert isinstance(encoder.sources[1], TunedLayers)
    assert encoder.dims == Dims(12 + 24)


def test_what_a_bert_cannot_be_is_told(bert: Path, tiny_model: Path, tmp_path: Path):
    with pytest.raises(ConfigError, match=r"encoder 'bert:.*': The model is a BiLM; expected a"):
        build(f"bert:{tiny_model}")
    with pytest.raises(ConfigError, match=r"has 3 layers; \+last4 needs 4"):
        build(f"{tiny_model}+last4")
    with pytest.raises(ConfigError, match=r"stands alone; .* leave out 'bert:'"):
        build(f"glove:{write_static(tmp_path)}+bert:{bert}+tune")
