"""The front door: a sentence's vectors depend on that sentence alone, and bad input is named."""

import json
import shutil
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import torch

from elmore.checkpoint.native import write_native
from elmore.checkpoint.sources import load, save
from elmore.embedder import Embedder
from elmore.embedding import Embedding
from elmore.errors import ConfigError, ElmoreError, InputError
from tests.tiny_models import SENTENCES, WORDS, Tiny, make, options_with

TOLERANCE = (
    5e-6  # the promise is 1e-5; seen: 2.4e-6 on numbers up to 6, five units in the last place
)
LONG = [f"w{i % 29}" for i in range(300)]


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Tiny:
    return make(tmp_path_factory.mktemp("model"))


@pytest.fixture(scope="module")
def embedder(tiny: Tiny) -> Embedder:
    return Embedder.load(tiny.weights, device="cpu")


def crowd(n: int) -> list[list[str]]:
    rng = np.random.default_rng(1)
    return [[f"w{k}" for k in rng.integers(0, 50, size)] for size in rng.integers(0, 30, n)]


def assert_close(ours: Embedding, other: Embedding) -> None:
    assert ours.words == other.words
    np.testing.assert_allclose(ours.layers, other.layers, rtol=0, atol=TOLERANCE)


# Determinism --------------------------------------------------------------------------------------


def test_alone_in_a_crowd_and_twice_in_a_row(embedder: Embedder):
    others = crowd(200)
    (alone,) = embedder.embed(SENTENCES[:1])
    assert_close(embedder.embed([*others[:77], SENTENCES[0], *others[77:]])[77], alone)
    assert_close(embedder.embed([*others[:5], SENTENCES[0], *reversed(others)])[5], alone)
    (again,) = embedder.embed(SENTENCES[:1])
    np.testing.assert_array_equal(again.layers, alone.layers)


def test_beside_a_sentence_of_three_hundred_words(embedder: Embedder):
    for words in SENTENCES:
        (alone,) = embedder.embed([words])
        ours, long = embedder.embed([words, LONG], batch_words=10_000)
        assert_close(ours, alone)
        assert_close(long, embedder.embed([LONG])[0])


@pytest.mark.parametrize("batch_words", [-1, 0, 1, 7, 64, 10**9])
def test_the_batch_size_changes_nothing(embedder: Embedder, batch_words: int):
    sentences = [*SENTENCES, LONG, *crowd(30)]
    smaller = embedder.embed(sentences, batch_words=batch_words)
    streamed = embedder.stream(sentences, batch_words=batch_words)
    for a, b, c in zip(smaller, embedder.embed(sentences), streamed, strict=True):
        assert_close(a, b)
        assert_close(c, b)


def test_rounding_is_all_that_tells_a_crowd_from_solitude(tmp_path: Path):
    """In double precision the trace of a batch-mate must go below 1e-11, even in a model so lively
    that single precision is off by 3e-5 from the oracle and by as much from itself."""
    lively = make(tmp_path, options_with(lstm={"cell_clip": 1, "proj_clip": None}), seed=8)
    embedder = Embedder.load(lively.weights, device="cpu")
    embedder.model.double()
    sentences = [*SENTENCES, *crowd(60), LONG]
    for words, ours in zip(sentences, embedder.runner.embed(sentences), strict=True):
        (alone,) = embedder.runner.embed([words])
        np.testing.assert_allclose(ours, alone, rtol=0, atol=1e-11)


def test_a_stateful_run_leaves_no_trace(embedder: Embedder):
    (before,) = embedder.embed(SENTENCES[:1])
    with embedder.stateful() as run:
        run.embed(SENTENCES)
    np.testing.assert_array_equal(embedder.embed(SENTENCES[:1])[0].layers, before.layers)


def test_every_sentence_agrees_with_the_oracle(embedder: Embedder, tiny: Tiny):
    for words, ours in zip(SENTENCES, embedder.embed(SENTENCES), strict=True):
        np.testing.assert_allclose(ours.layers, tiny.layers(words)[0], rtol=0, atol=5e-6)


# Streams ------------------------------------------------------------------------------------------


def test_a_stream_is_the_same_in_the_same_order(embedder: Embedder):
    sentences = [*crowd(300), *SENTENCES]
    streamed = list(embedder.stream(iter(sentences), batch_words=100))
    assert [e.words for e in streamed] == sentences
    for ours, other in zip(streamed, embedder.embed(sentences), strict=True):
        assert_close(ours, other)


def test_a_stream_never_reads_more_than_a_window_ahead(embedder: Embedder):
    read = 0

    def endless() -> Iterator[list[str]]:
        nonlocal read
        while True:
            read += 1
            yield ["a", "b", "c", "d"]

    stream = embedder.stream(endless(), batch_words=64)
    assert read == 0
    for given in range(1, 1000):
        next(stream)
        assert read - given <= 8 * 64 // 4


def test_a_stream_of_empty_sentences_has_windows_too(embedder: Embedder):
    read = 0

    def endless() -> Iterator[list[str]]:
        nonlocal read
        while True:
            read += 1
            yield []

    next(embedder.stream(endless()))
    assert read <= 4096


def test_a_streams_memory_is_constant(embedder: Embedder):
    def peak(n: int) -> int:
        sentences = ([f"w{i % 50}"] * 20 for i in range(n))
        tracemalloc.start()
        for _ in embedder.stream(sentences, batch_words=400):
            pass
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return most

    peak(200)
    assert peak(2400) < 1.3 * peak(800)


def test_a_complaint_comes_when_its_sentence_does(embedder: Embedder):
    stream = embedder.stream(iter([["fine"], 3]), batch_words=0)
    assert next(stream).words == ["fine"]
    with pytest.raises(InputError, match="Sentence 1 is a int"):
        next(stream)


# What goes in, what comes out ---------------------------------------------------------------------


def test_strings_are_tokenised_and_keep_their_spans(embedder: Embedder):
    text = "We sat on the river bank, naïvely."
    ours, words, empty = embedder.embed([text, text.split(), " "])
    assert ours.spans is not None
    assert [text[start:end] for start, end in ours.spans] == ours.words
    assert ours.words[-2:] == ["naïvely", "."]
    assert words.spans is None
    assert words.words == text.split()
    assert (empty.words, empty.spans) == ([], [])


def test_an_empty_sentence_has_zero_words_of_full_shape(embedder: Embedder):
    for sentences in ([[]], [[], []], [[], ["a"]], [()]):
        ours = embedder.embed(sentences)[0]
        assert len(ours) == 0
        assert ours.layers.shape == (embedder.n_layers, 0, embedder.dim) == (3, 0, 16)
        assert ours.layers.dtype == np.float32
        assert ours.top.shape == ours.average.shape == ours.mix([1, 2, 3]).shape == (0, 16)


def test_no_sentences_give_no_embeddings(embedder: Embedder):
    assert embedder.embed([]) == []
    assert list(embedder.stream([])) == []
    assert embedder.stateful().embed([]) == []


def test_tuples_generators_and_numpy_strings_are_sentences(embedder: Embedder):
    (plain,) = embedder.embed([["river", "bank"]])
    for sentences in (
        (("river", "bank"),),
        (list(s) for s in [["river", "bank"]]),
        np.array(["river bank"]),
        [list(np.array(["river", "bank"]))],
    ):
        assert_close(embedder.embed(sentences)[0], plain)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("sentences", "expected"),
    [
        ("We sat.", "one string where a list of sentences is expected"),
        (b"We sat.", "one string where a list of sentences is expected"),
        (None, "Got a NoneType; expected a list of sentences"),
        (7, "Got a int"),
        ([["fine"], None], "Sentence 1 is a NoneType; expected a string or a list of words"),
        ([["fine"], b"bytes"], "Sentence 1 is a bytes"),
        ([["fine"], float("nan")], "Sentence 1 is a float"),
        ([{"a", "set"}], "Sentence 0 is a set"),
        ([np.array([["river", "bank"]])], "Sentence 0 is a ndarray"),
        ([["a", "b", 3]], "Sentence 0, word 2 is a int (3)"),
        ([["a"], ["b", None]], "Sentence 1, word 1 is a NoneType"),
        ([["a"], [["nested"]]], "Sentence 1, word 0 is a list"),
        ([["a", b"b"]], "Sentence 0, word 1 is a bytes"),
        ([bytearray(b"ab")], "Sentence 0"),
    ],
)
def test_bad_input_is_named_by_position(embedder: Embedder, sentences: Any, expected: str):
    for call in (embedder.embed, embedder.stateful().embed, lambda s: list(embedder.stream(s))):
        with pytest.raises(InputError) as caught:
            call(sentences)
        assert expected in str(caught.value)
        assert "\n" not in str(caught.value)


def test_top_average_and_mix(embedder: Embedder):
    (ours,) = embedder.embed(SENTENCES[:1])
    layers = ours.layers.astype(np.float64)
    np.testing.assert_array_equal(ours.top, ours.layers[2])
    np.testing.assert_allclose(ours.average, layers.mean(axis=0), rtol=0, atol=1e-6)
    mixed = 0.5 * (0.2 * layers[0] - 0.5 * layers[1] + 3 * layers[2])
    np.testing.assert_allclose(ours.mix([0.2, -0.5, 3], gamma=0.5), mixed, rtol=0, atol=2e-6)
    assert ours.mix([1, 0, 0]).dtype == ours.average.dtype == np.float32
    with pytest.raises(ConfigError, match="2 mix weights given for 3 layers"):
        ours.mix([0.5, 0.5])


def test_an_embedding_owns_its_numbers(embedder: Embedder):
    ours, other = embedder.embed([["a", "b"], ["a", "b"]])
    before = other.layers.copy()
    ours.layers[:] = 0
    np.testing.assert_array_equal(other.layers, before)
    assert ours.layers.base is None  # a kept sentence does not keep its whole batch in memory


# State --------------------------------------------------------------------------------------------


def test_rows_that_come_and_go_remember_what_they_last_read(embedder: Embedder, tiny: Tiny):
    state: dict[int, Any] = {}
    with embedder.stateful() as run:
        for n in (2, 5, 1, 3, 6, 2):
            batch = SENTENCES[-n:]
            for row, (words, ours) in enumerate(zip(batch, run.embed(batch), strict=True)):
                expected, state[row] = tiny.layers(words, state.get(row))
                np.testing.assert_allclose(ours.layers, expected, rtol=0, atol=5e-6)


def test_a_new_run_starts_from_zero(embedder: Embedder):
    (plain,) = embedder.embed(SENTENCES[:1])
    run = embedder.stateful()
    with run:
        assert_close(run.embed(SENTENCES[:1])[0], plain)
        assert np.abs(run.embed(SENTENCES[:1])[0].layers - plain.layers).max() > 1e-3
    assert_close(run.embed(SENTENCES[:1])[0], plain)


# Fingerprint --------------------------------------------------------------------------------------


def fingerprint(folder: Path) -> str:
    return Embedder.load(folder).fingerprint


def test_the_fingerprint_survives_a_change_of_format(tmp_path: Path):
    for name, words in (("characters", False), ("words", True)):
        tiny = make(tmp_path / name / "hdf5", words=words)
        first = fingerprint(tiny.weights.parent)
        write_native(load(tiny.weights), tmp_path / name / "native")
        (tmp_path / name / "again").mkdir()
        save(load(tmp_path / name / "native"), tmp_path / name / "again" / "out.hdf5")
        assert fingerprint(tmp_path / name / "native") == first
        assert fingerprint(tmp_path / name / "again") == first


def test_the_fingerprint_tells_every_tensor(tiny: Tiny, tmp_path: Path):
    seen = {fingerprint(tiny.weights.parent)}
    for name in tiny.W:
        folder = tmp_path / name.replace("/", "-")
        shutil.copytree(tiny.weights.parent, folder)
        with h5py.File(folder / "weights.hdf5", "a") as file:
            numbers = file[name][()]
            numbers.flat[-1] = np.nextafter(numbers.flat[-1], np.float32(9))
            file[name][...] = numbers
        seen.add(fingerprint(folder))
    assert len(seen) == 1 + len(tiny.W)


def test_the_fingerprint_tells_options_and_vocabularies(tiny: Tiny, tmp_path: Path):
    seen = set()
    for i, change in enumerate(
        [{}, {"cell_clip": 2}, {"proj_clip": None}, {"use_skip_connections": False}]
    ):
        shutil.copytree(tiny.weights.parent, tmp_path / str(i))
        (tmp_path / str(i) / "options.json").write_text(json.dumps(options_with(lstm=change)))
        seen.add(fingerprint(tmp_path / str(i)))
    words = make(tmp_path / "words", words=True)
    seen.add(fingerprint(tmp_path / "words"))
    swapped = [*WORDS[:-2], *WORDS[:-3:-1]]
    words.weights.with_name("vocab.txt").write_text("\n".join(swapped) + "\n", encoding="utf-8")
    seen.add(fingerprint(tmp_path / "words"))
    assert len(seen) == 6


def test_a_vocabulary_for_prediction_only_is_not_in_the_fingerprint(tiny: Tiny, tmp_path: Path):
    before = fingerprint(tiny.weights.parent)
    shutil.copytree(tiny.weights.parent, tmp_path / "more")
    (tmp_path / "more" / "vocab.txt").write_text("<S>\n</S>\n<UNK>\n")
    assert fingerprint(tmp_path / "more") == before


# Settings -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("device", ["banana", "cuda:97", "meta", ""])
def test_a_device_that_cannot_be_used(tiny: Tiny, device: str):
    with pytest.raises(ConfigError) as caught:
        Embedder.load(tiny.weights, device=device)
    assert f"device is {device!r}" in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.skipif(torch.cuda.is_available(), reason="a GPU is here")
def test_a_gpu_that_is_not_there(tiny: Tiny):
    with pytest.raises(ConfigError, match="device is 'cuda'"):
        Embedder.load(tiny.weights, device="cuda")


def test_a_precision_that_is_not_offered(tiny: Tiny):
    with pytest.raises(ElmoreError, match="precision is 'float8'; expected 'float32'"):
        Embedder.load(tiny.weights, precision="float8")


def test_words_may_be_a_numpy_array(embedder: Embedder):
    words = ["My", "bank"]
    expected = embedder.embed([words])[0]
    for kind in (np.str_, object):
        found = embedder.embed([np.array(words, dtype=kind)])[0]
        assert found.words == words
        np.testing.assert_array_equal(found.layers, expected.layers)
    with pytest.raises(InputError, match="Sentence 0 is a ndarray"):
        embedder.embed([np.array([words])])
