"""A store from the outside: what goes in comes out, once, whoever asks."""

import pickle
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader

from elmore.embedder import Embedder
from elmore.embedding import Embedding, Mix
from elmore.errors import ConfigError, FormatError, InputError
from elmore.nn.scalar_mix import ScalarMix
from elmore.store import fill as filling
from elmore.store import writer as writing
from elmore.store.fill import FillProgress
from elmore.store.keep import Projection
from elmore.store.layout import MANIFEST
from elmore.store.precision import PRECISIONS, Precision
from elmore.store.store import MissingError, Store
from tests.store.waves import sentences, wave, waves
from tests.tiny_models import SENTENCES


def test_a_real_models_layers_come_back_exactly(tmp_path: Path, tiny_embedder: Embedder):
    store = Store.create(tmp_path / "s", tiny_embedder)
    report = store.fill([*SENTENCES, *SENTENCES, "The river bank."])
    assert (report.read, report.added, report.repeated) == (13, 6, 7)
    for want in tiny_embedder.embed(SENTENCES):
        for opened in (store, Store.open(tmp_path / "s")):
            got = opened[want.words]
            assert got.words == want.words
            np.testing.assert_allclose(got.layers, want.layers, rtol=0, atol=1e-5)
    assert len(store) == 6
    assert store.n_words == sum(map(len, SENTENCES))
    assert "The river bank." in store
    assert store["The river bank."].spans == [(0, 3), (4, 9), (10, 14), (14, 15)]


@pytest.mark.parametrize(
    ("precision", "error"), [("float32", 0), ("float16", 5e-4), ("int8", 4e-3)]
)
def test_each_precision_is_as_near_as_it_promises(
    tmp_path: Path, precision: Precision, error: float
):
    store = Store.create(tmp_path / "s", waves(), precision=precision)
    store.fill(sentences(50))
    for words in sentences(50):
        np.testing.assert_allclose(store[words].layers, wave(words), rtol=0, atol=error)


def test_a_store_remembers_what_it_keeps(tmp_path: Path):
    mix = ScalarMix(3, initial=[0.0, 1.0, -1.0])
    mix.gamma.data.fill_(2.0)
    Store.create(tmp_path / "s", waves(), keep=mix, precision="float16").fill(sentences(9))
    store = Store.open(tmp_path / "s")
    assert isinstance(store.keep, Mix)
    assert store.keep.weights == pytest.approx(mix.weights.tolist())
    assert (store.keep.gamma, store.precision, store.n_layers, store.dim) == (2.0, "float16", 1, 8)
    want = 2.0 * np.tensordot(mix.weights.detach().numpy(), wave(sentences(9)[5]), axes=1)
    np.testing.assert_allclose(store[sentences(9)[5]].layers[0], want, rtol=0, atol=2e-3)


def test_a_projection_lies_beside_and_can_be_undone(tmp_path: Path):
    sample = [Embedding(words, wave(words)) for words in sentences(60)]
    projection = Projection.learn(sample, 24)
    Store.create(tmp_path / "s", waves(), keep=projection).fill(sentences(60))
    store = Store.open(tmp_path / "s")
    assert (store.n_layers, store.dim) == (1, 24)
    assert store.projection is not None
    for words in sentences(60):
        back = store.projection.restore(store[words].layers, 3)
        np.testing.assert_allclose(back, wave(words), rtol=0, atol=1e-4)


def test_batches_are_padded_and_feed_a_data_loader(tmp_path: Path):
    store = Store.create(tmp_path / "s", waves())
    asked = sentences(10)
    store.fill(asked)
    states = store.batch(asked)
    assert states.layers.shape == (3, 10, 6, 8)
    assert states.mask.sum(dim=1).tolist() == [len(words) for words in asked]
    for i, words in enumerate(asked):
        np.testing.assert_array_equal(states.layers[:, i, : len(words)], wave(words))
        assert not states.layers[:, i, len(words) :].any()
    loader = DataLoader(asked, batch_size=4, collate_fn=store.batch)  # type: ignore[arg-type]
    assert torch.equal(torch.cat([b.layers[:, :, :1] for b in loader], 1), states.layers[:, :, :1])
    assert store.batch([]).layers.shape == (3, 0, 0, 8)


def test_another_process_gets_the_store_by_its_folder(tmp_path: Path):
    store = Store.create(tmp_path / "s", waves())
    store.fill(sentences(5))
    again = pickle.loads(pickle.dumps(store))
    np.testing.assert_array_equal(again[sentences(5)[4]].layers, wave(sentences(5)[4]))
    assert again.embedder is None


def test_what_is_stored_is_not_computed_again(tmp_path: Path):
    embedder = waves()
    Store.create(tmp_path / "s", embedder).fill(sentences(20) * 3)
    assert embedder.asked == 20  # type: ignore[attr-defined]
    Store.open(tmp_path / "s", embedder).fill(sentences(30))
    assert embedder.asked == 30  # type: ignore[attr-defined]


def test_sentences_are_given_in_the_order_they_were_stored(tmp_path: Path):
    store = Store.create(tmp_path / "s", waves())
    store.fill(sentences(7, first=10))
    store.fill(sentences(12, first=5))
    assert [e.words for e in store] == sentences(7, first=10) + sentences(5, first=5)


def test_commits_and_shards_do_not_show(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(filling, "COMMIT_SENTENCES", 20)
    monkeypatch.setattr(writing, "SHARD_BYTES", 5_000)
    store = Store.create(tmp_path / "s", waves())
    seen: list[int] = []
    store.fill(sentences(900), lambda now: seen.append(now.added))
    assert len(store) == 900
    assert len(store.manifest.shards) > 30
    assert store.manifest.index > 0  # the index has outgrown its file at least once
    assert seen == sorted(seen)
    assert seen[-1] == 900
    assert len(set(seen)) > 40
    for words in sentences(900):
        np.testing.assert_array_equal(store[words].layers, wave(words))
    assert store.verify().damages == []


@pytest.mark.parametrize("precision", PRECISIONS)
def test_numbers_are_given_where_they_lie(tmp_path: Path, precision: Precision):
    store = Store.create(tmp_path / "s", waves(), precision=precision)
    store.fill(sentences(9))
    stored = store.stored(sentences(9)[4])
    assert stored is not None
    assert stored.values.dtype == precision
    scales = 1 if stored.scales is None else stored.scales
    np.testing.assert_array_equal(stored.values * scales, store[sentences(9)[4]].layers)
    assert store.stored(["absent"]) is None


def test_readers_see_a_commit_when_they_refresh(tmp_path: Path):
    store = Store.create(tmp_path / "s", waves())
    store.fill(sentences(5))
    reader = Store.open(tmp_path / "s")
    held = reader.stored(sentences(5)[3])
    store.fill(sentences(3000))  # the index is replaced under the reader
    assert len(reader) == 5
    assert sentences(5)[4] in reader
    assert sentences(3000)[7] not in reader
    reader.refresh()
    assert len(reader) == 3000
    assert held is not None
    np.testing.assert_array_equal(held.values, wave(sentences(5)[3]))


def test_what_is_missing_is_none_or_an_error_that_says_so(tmp_path: Path):
    store = Store.create(tmp_path / "s", waves())
    assert store.get(["a", "bank"]) is None
    assert ["a", "bank"] not in store
    for error in (KeyError, InputError):
        with pytest.raises(error):
            store[["a", "bank"]]
    with pytest.raises(MissingError) as caught:
        store.batch([["a", "bank"]])
    assert str(caught.value) == f"'a bank' (2 words) is not in {tmp_path / 's'}."


def test_vectors_made_elsewhere_can_be_added(tmp_path: Path):
    store = Store.create(tmp_path / "s", waves())
    made = [Embedding(words, wave(words)) for words in sentences(8)]
    assert store.add(made + made) == 8
    assert store.add(made) == 0
    np.testing.assert_array_equal(store[sentences(8)[3]].layers, wave(sentences(8)[3]))
    with pytest.raises(InputError, match=r"2 layers × 8, but .* 3 × 8"):
        store.add([Embedding(["new"], np.zeros((2, 1, 8), np.float32))])


def test_another_model_is_refused_and_both_are_named(tmp_path: Path):
    one, other = waves("one"), waves("other")
    Store.create(tmp_path / "s", one)
    with pytest.raises(InputError, match=f"{one.fingerprint[:12]}.*{other.fingerprint[:12]}"):
        Store.open(tmp_path / "s", other)


def test_filling_needs_a_model(tmp_path: Path):
    Store.create(tmp_path / "s", waves())
    with pytest.raises(ConfigError, match="opened without a model"):
        Store.open(tmp_path / "s").fill(sentences(1))


def test_a_folder_that_is_taken_and_an_unknown_precision_are_refused(tmp_path: Path):
    with pytest.raises(InputError, match="exists already"):
        Store.create(tmp_path, waves())
    with pytest.raises(ConfigError, match="expected float32, float16, int8"):
        Store.create(tmp_path / "s", waves(), precision="int4")  # type: ignore[arg-type]
    assert not (tmp_path / "s").exists()


def test_one_string_is_not_a_list_of_sentences(tmp_path: Path):
    store = Store.create(tmp_path / "s", waves())
    with pytest.raises(InputError, match="write \\[text\\]"):
        store.fill("The river bank.")


def test_an_interruption_keeps_what_was_computed(tmp_path: Path):
    store = Store.create(tmp_path / "s", waves())

    def interrupted():
        yield from sentences(20)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt) as caught:
        store.fill(interrupted())
    assert caught.value.__notes__ == ["20 sentences were added; run it again to continue."]
    assert len(store) == len(Store.open(tmp_path / "s")) == 20


def test_a_bad_sentence_stops_the_filling_but_costs_nothing(tmp_path: Path):
    store = Store.create(tmp_path / "s", waves())
    with pytest.raises(InputError, match="expected a string"):
        store.fill([["fine"], ["not", 7]])  # type: ignore[list-item]
    assert ["fine"] in store


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "damaged"),
        ("[]", "damaged"),
        ("{" * 100_000, "damaged"),
        ('{"version": 2}', "version 2, but this elmore reads version 1"),
        ('{"version": 1}', "damaged"),
    ],
)
def test_a_manifest_that_is_none_is_refused(tmp_path: Path, text: str, said: str):
    Store.create(tmp_path / "s", waves())
    (tmp_path / "s" / MANIFEST).write_text(text)
    with pytest.raises(FormatError, match=said):
        Store.open(tmp_path / "s")


def test_a_changed_number_in_the_manifest_is_noticed(tmp_path: Path):
    Store.create(tmp_path / "s", waves()).fill(sentences(3))
    path = tmp_path / "s" / MANIFEST
    path.write_text(path.read_text().replace('"sentences": 3', '"sentences": 2'))
    with pytest.raises(FormatError, match="checksum"):
        Store.open(tmp_path / "s")


def test_a_folder_that_is_no_store_is_refused(tmp_path: Path):
    for folder in (tmp_path, tmp_path / "absent"):
        with pytest.raises(FormatError, match="not a store"):
            Store.open(folder)


def test_progress_is_told(tmp_path: Path):
    seen: list[FillProgress] = []
    Store.create(tmp_path / "s", waves()).fill(sentences(4), seen.append)
    assert seen[-1].added_words == sum(map(len, sentences(4)))


def test_opening_many_sentences_reads_next_to_nothing(tmp_path: Path):
    """The index is looked at where it lies: no list, no dictionary, no pass over the records."""
    import tracemalloc

    store = Store.create(tmp_path / "s", waves(), keep=[0])
    store.add(Embedding([f"w{i}"], np.ones((3, 1, 8), np.float32)) for i in range(30_000))
    tracemalloc.start()
    opened = Store.open(tmp_path / "s")
    assert ["w29999"] in opened
    assert ["w30000"] not in opened
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 200_000  # 30,000 keys alone would be 480,000


def test_as_many_vectors_as_words_are_asked_for(tmp_path: Path, tiny_embedder: Embedder):
    store = Store.create(tmp_path / "s", tiny_embedder)
    (found,) = tiny_embedder.embed([["My", "bank"]])
    with pytest.raises(InputError, match="2 words with 1 vectors per layer"):
        store.add([Embedding(found.words, found.layers[:, :1], None)])


@pytest.mark.parametrize("weights", ["mix:nan,0.5,0.5", "mix:inf,0,0"])
def test_a_mix_of_no_numbers_is_refused(tmp_path: Path, tiny_embedder: Embedder, weights: str):
    with pytest.raises(ConfigError, match="finite"):
        Store.create(tmp_path / "s", tiny_embedder, keep=weights)
