"""What people try first: help, repr, indexing, names they know from elsewhere, and notebooks."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import elmore
from elmore.checkpoint.sources import load
from elmore.elmo import Elmo
from elmore.embedder import Embedder
from elmore.embedding import Embedding
from elmore.errors import ConfigError, InputError
from elmore.search.index import Index
from elmore.store.store import Store
from tests.tiny_models import Tiny, make

WORDS = ["the", "bank", "of", "the", "river"]


@pytest.fixture
def tiny(tmp_path: Path) -> Tiny:
    return make(tmp_path / "model")


@pytest.fixture
def embedder(tiny: Tiny) -> Embedder:
    return Embedder.load(tiny.weights)


@pytest.fixture
def embedding() -> Embedding:
    layers = np.random.default_rng(0).normal(size=(3, 5, 4)).astype(np.float32)
    return Embedding(WORDS, layers)


def test_help_and_dir_show_the_front_door():
    assert set(elmore.__all__) < set(dir(elmore))
    for name in elmore.__all__:
        assert f"\n{name} " in (elmore.__doc__ or ""), f"{name} is not in help(elmore)"
    assert all("torch" not in name for name in dir(elmore))


def test_tab_completion_finds_the_names_without_torch():
    code = (
        "import sys, elmore, rlcompleter; c = rlcompleter.Completer({'elmore': elmore});"
        "found = [c.complete('elmore.Emb', i) for i in range(3)];"
        "assert {f.rstrip('(') for f in found if f} == {'elmore.Embedder', 'elmore.Embedding'}"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


# One sentence


def test_a_word_is_found_by_its_number_by_itself_or_by_a_slice(embedding: Embedding):
    average = embedding.layers.mean(axis=0)
    assert np.array_equal(embedding[1], average[1])
    assert np.array_equal(embedding["bank"], average[1])
    assert np.array_equal(embedding[-1], embedding["river"])
    assert embedding[1:3].shape == (2, 4)
    assert [v.shape for v in embedding] == [(4,)] * 5
    with pytest.raises(IndexError):
        embedding[5]


def test_a_word_that_is_absent_or_stands_twice_is_told(embedding: Embedding):
    with pytest.raises(InputError, match=r"'bnak' is not a word .* Did you mean 'bank'\?"):
        embedding["bnak"]
    with pytest.raises(InputError, match=r"'the' stands 2 times, as words 0, 3: .*embedding\[0\]"):
        embedding["the"]


def test_numpy_takes_it_as_the_average(embedding: Embedding):
    found = np.asarray(embedding)
    assert (found.shape, found.dtype) == ((5, 4), np.float32)
    assert np.array_equal(found, embedding.average)
    assert np.asarray(embedding, dtype=np.float64).dtype == np.float64


def test_repr_is_one_short_line(embedding: Embedding):
    assert repr(embedding) == "<Embedding 'the bank of the river': 5 words, 3 layers × 4>"
    long = Embedding(["word"] * 40, np.zeros((1, 40, 2), np.float32))
    assert len(repr(long)) < 120


def test_a_notebook_shows_similarities_and_nothing_can_be_injected():
    layers = np.eye(3, dtype=np.float32)[None]
    shown = Embedding(["<script>", "b", "b"], layers)._repr_html_()
    assert "<script>" not in shown
    assert "&lt;script&gt;" in shown
    assert shown.count("<td") == 9
    assert shown.count("1.00") == 2 * 3  # on the diagonal: the number, and its color
    assert Embedding([], np.zeros((3, 0, 4), np.float32))._repr_html_().startswith("<table>")


# Names from elsewhere


def test_from_pretrained_call_and_save_pretrained_work(tiny: Tiny, tmp_path: Path):
    embedder = Embedder.from_pretrained(tiny.weights, device="cpu")
    assert np.array_equal(embedder([WORDS])[0].layers, embedder.embed([WORDS])[0].layers)
    embedder.save_pretrained(tmp_path / "saved")
    assert Embedder.load(tmp_path / "saved").fingerprint == embedder.fingerprint


def test_to_moves_and_returns_it(embedder: Embedder):
    before = embedder.embed([WORDS])[0].layers
    assert embedder.to("cpu") is embedder
    assert np.array_equal(embedder.embed([WORDS])[0].layers, before)
    with pytest.raises(ConfigError, match="device is 'tpu'"):
        embedder.to("tpu")


def test_encode_says_what_to_write(embedder: Embedder):
    with pytest.raises(ConfigError, match=r"embed\(sentences\).*sentence_vectors\(sentences\)"):
        embedder.encode(["a text"], convert_to_tensor=True)


def test_a_path_given_to_the_class_says_load():
    with pytest.raises(ConfigError, match=r"write Embedder\.load\('my-model'\)"):
        Embedder("my-model")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=r"write Elmo\.load\('my-model'\)"):
        Elmo("my-model")  # type: ignore[arg-type]


def test_sentence_vectors_are_means_of_words(tiny: Tiny, embedder: Embedder):
    sentences = [WORDS, ["bank"], []]
    found = embedder.sentence_vectors(sentences)
    assert (found.shape, found.dtype) == ((3, 16), np.float32)
    for row, words in zip(found, sentences[:2], strict=False):
        expected = tiny.layers(words)[0].mean(axis=(0, 1))
        np.testing.assert_allclose(row, expected, rtol=0, atol=1e-5)
    assert not found[2].any()
    top = embedder.sentence_vectors(sentences, layers="top")[0]
    np.testing.assert_allclose(top, tiny.layers(WORDS)[0][-1].mean(axis=0), rtol=0, atol=1e-5)
    with pytest.raises(ConfigError, match="layers is 'all', which is 3 vectors per word"):
        embedder.sentence_vectors(sentences, layers="all")


# What is on disk


def test_stores_and_indexes_say_what_they_hold(embedder: Embedder, tmp_path: Path):
    store = Store.create(tmp_path / "s.store", embedder, keep="average", precision="int8")
    store.fill([WORDS, ["bank"]])
    assert repr(Store.open(tmp_path / "s.store")) == (
        f"<Store '{tmp_path / 's.store'}': 2 sentences, the average of all layers, int8>"
    )
    sentences = [[*WORDS, str(i)] for i in range(6)]
    index = Index.build(sentences, embedder, tmp_path / "i.index")
    assert repr(index).startswith(f"<Index '{tmp_path / 'i.index'}': ")
    assert repr(index).endswith(" in 6 sentences>")
    near = index.neighbors(WORDS, 1, k=3)
    assert isinstance(near, list)
    assert near._repr_html_().count("<b>bank</b>") == 3
    senses = index.senses("bank")._repr_html_()
    assert "bank 1" in senses
    assert "<b>bank</b>" in senses


@pytest.mark.parametrize("name", ["model.zip", "model.tar.gz", "model.tgz"])
def test_a_model_is_packed_into_one_file(tiny: Tiny, tmp_path: Path, name: str):
    embedder = Embedder.load(tiny.weights)
    assert embedder.save(tmp_path / name) == [tmp_path / name]
    assert Embedder.load(tmp_path / name).fingerprint == embedder.fingerprint
    with pytest.raises(InputError, match="exists already"):
        embedder.save(tmp_path / name)


def test_packing_twice_gives_the_same_bytes(tiny: Tiny, tmp_path: Path):
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        for name in ("m.zip", "m.tar.gz"):
            Embedder(load(tiny.weights)).save(tmp_path / folder / name)
    for name in ("m.zip", "m.tar.gz"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()
