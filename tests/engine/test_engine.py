"""Exactness and determinism of every engine, at the tolerances of the ground floor."""

import pickle
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np
import pytest
import torch

from elmore.checkpoint.bilm import bilm_checkpoint
from elmore.checkpoint.checkpoint import Checkpoint
from elmore.checkpoint.sources import load
from elmore.embedder import Embedder
from elmore.engine.kernel import NoKernel
from elmore.engine.runner import check_precision, describe
from elmore.errors import ConfigError
from elmore.models.bilm import BiLM, BiLMConfig
from elmore.nn.char_cnn import CharCNNConfig
from elmore.nn.lstm import LSTMConfig
from tests.checkpoint.foreign_models import (
    CHAR_DIC,
    MANYLANGS,
    WORD_DIC,
    make_manylangs,
    make_transformer,
)
from tests.engine.engines import ENGINES, KERNELS, by_module, engine
from tests.oracle import manylangs
from tests.tiny_models import SENTENCES, Tiny, make, options_with

ORACLE = 5e-6
ALONE = 1e-5
VARIANTS: dict[str, dict[str, Any]] = {
    "as published": {},
    "no skip": {"use_skip_connections": False},
    "no clips": {"cell_clip": None, "proj_clip": None},
    "tight clips": {"cell_clip": 1.5, "proj_clip": 2},
    "no projection": {"dim": 8},
    "one layer": {"n_layers": 1},
    "three layers": {"n_layers": 3},
    "odd sizes": {"dim": 37, "projection_dim": 13},
    "whole tiles": {"dim": 32, "projection_dim": 16},
}
LONG = [f"w{i % 61}" for i in range(1000)]

every_engine = pytest.mark.parametrize("name", ENGINES)
every_kernel = pytest.mark.parametrize("name", list(KERNELS) or ["none built"])


def crowd(n: int) -> list[list[str]]:
    rng = np.random.default_rng(1)
    return [[f"w{k}" for k in rng.integers(0, 50, size)] for size in rng.integers(0, 30, n)]


@pytest.fixture(scope="module")
def checkpoint(tiny: Tiny) -> Checkpoint:
    return load(tiny.weights)


# Exactness ----------------------------------------------------------------------------------------


@every_engine
@pytest.mark.parametrize("variant", VARIANTS)
def test_every_variant_agrees_with_the_oracle(tmp_path: Path, name: str, variant: str):
    options = options_with(lstm=VARIANTS[variant])
    tiny = make(tmp_path, options)
    sentences = [*SENTENCES, *crowd(20)]
    for words, ours in zip(
        sentences, engine(load(tiny.weights), name).embed(sentences), strict=True
    ):
        assert ours.shape[1] == len(words)
        np.testing.assert_allclose(ours, tiny.layers(words)[0], rtol=0, atol=ORACLE)


@every_engine
def test_a_model_that_reads_words(tmp_path: Path, name: str):
    tiny = make(tmp_path, words=True)
    for words, ours in zip(
        SENTENCES, engine(load(tiny.weights), name).embed(SENTENCES), strict=True
    ):
        np.testing.assert_allclose(ours, tiny.layers(words)[0], rtol=0, atol=ORACLE)


@every_engine
@pytest.mark.parametrize("word_dim", [6, 0])
def test_a_model_with_dictionaries(tmp_path: Path, name: str, word_dim: int):
    config = {**MANYLANGS, "token_embedder": {**MANYLANGS["token_embedder"], "word_dim": word_dim}}
    W = make_manylangs(tmp_path / "model", config)
    sentences = SENTENCES[:5]  # the last holds a literal mark, which these models write otherwise
    found = engine(load(tmp_path / "model"), name).embed(sentences)
    for words, ours in zip(sentences, found, strict=True):
        truth, _ = manylangs.layers(W, config, words, WORD_DIC, CHAR_DIC)
        np.testing.assert_allclose(ours, truth, rtol=0, atol=ORACLE)


@every_engine
def test_a_transformer(tmp_path: Path, name: str):
    make_transformer(tmp_path / "model")
    checkpoint = load(tmp_path / "model")
    expected, _ = by_module(checkpoint, SENTENCES)
    for i, ours in enumerate(engine(checkpoint, name).embed(SENTENCES)):
        np.testing.assert_allclose(
            ours, expected.layers[:, i, : ours.shape[1]], rtol=0, atol=ORACLE
        )


@every_engine
def test_the_model_itself_agrees_on_a_thousand_words(checkpoint: Checkpoint, name: str):
    expected, _ = by_module(checkpoint, [LONG])
    (ours,) = engine(checkpoint, name).embed([LONG])
    np.testing.assert_allclose(ours, expected.layers[:, 0], rtol=0, atol=ALONE)


@every_engine
def test_more_distinct_words_than_the_gate_table_holds(checkpoint: Checkpoint, name: str):
    """Then the input gates are computed where the words stand, to the same numbers."""
    roomy, narrow = engine(checkpoint, name), engine(checkpoint, name)
    narrow._inner.table.known.capacity = 20  # type: ignore[union-attr]
    sentences = crowd(30)
    for a, b in zip(roomy.embed(sentences), narrow.embed(sentences), strict=True):
        np.testing.assert_allclose(a, b, rtol=0, atol=ORACLE)


@every_engine
def test_empty_and_one_word_sentences(checkpoint: Checkpoint, name: str):
    fast = engine(checkpoint, name)
    assert fast.embed([]) == []
    for sentences in ([[]], [[], []], [["a"]], [[], ["a"], []]):
        for words, ours in zip(sentences, fast.embed(sentences), strict=True):
            assert ours.shape == (3, len(words), 16)
            assert ours.base is None
    with_company = fast.embed([[], ["a"], ["b", "c"]])[1]
    np.testing.assert_allclose(with_company, fast.embed([["a"]])[0], rtol=0, atol=ALONE)


# Determinism --------------------------------------------------------------------------------------


@every_engine
def test_alone_in_a_crowd_and_after_others(checkpoint: Checkpoint, name: str):
    fast, sentences = engine(checkpoint, name), [*SENTENCES, *crowd(100), LONG]
    together = fast.embed(sentences, 512)
    for words, ours in zip(sentences, together, strict=True):
        (alone,) = fast.embed([words])
        np.testing.assert_allclose(ours, alone, rtol=0, atol=ALONE)
    for first, again in zip(together, fast.embed(sentences, 512), strict=True):
        np.testing.assert_array_equal(first, again)


@pytest.mark.skipif(not KERNELS, reason="no kernel was built here")
@pytest.mark.parametrize("precision", ["float32", "int8"])
@every_kernel
def test_a_kernels_bits_do_not_depend_on_company(
    tmp_path: Path, name: str, precision: Any, checkpoint: Checkpoint
):
    odd = load(make(tmp_path, options_with(lstm={"dim": 37, "projection_dim": 13})).weights)
    sentences = [*SENTENCES, *crowd(12), LONG[:200]]
    for model in (checkpoint, odd):
        together = engine(model, name, precision).embed(sentences)
        for words, ours in zip(sentences, together, strict=True):
            np.testing.assert_array_equal(ours, engine(model, name, precision).embed([words])[0])


@pytest.mark.parametrize("threads", [1, 2, 5])
@every_engine
def test_threads_change_nothing(checkpoint: Checkpoint, name: str, threads: int):
    sentences = crowd(100)
    expected, _ = by_module(checkpoint, sentences)
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        found = engine(checkpoint, name).embed(sentences)
        assert torch.get_num_threads() == threads
    finally:
        torch.set_num_threads(before)
    for i, ours in enumerate(found):
        np.testing.assert_allclose(ours, expected.layers[:, i, : ours.shape[1]], rtol=0, atol=ALONE)


@every_engine
def test_callers_in_several_threads_get_their_own(checkpoint: Checkpoint, name: str):
    fast, sentences = engine(checkpoint, name), crowd(40)
    alone = [fast.embed([words])[0] for words in sentences]
    found: dict[int, Any] = {}

    def ask(i: int) -> None:
        found[i] = fast.embed([sentences[i]])[0]

    threads = [Thread(target=ask, args=(i,)) for i in range(len(sentences))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for i, expected in enumerate(alone):
        np.testing.assert_allclose(found[i], expected, rtol=0, atol=ALONE)


# State --------------------------------------------------------------------------------------------


@every_engine
@pytest.mark.parametrize("variant", ["as published", "no projection", "three layers", "odd sizes"])
def test_state_in_and_out_is_the_models_own(tmp_path: Path, name: str, variant: str):
    checkpoint = load(make(tmp_path, options_with(lstm=VARIANTS[variant])).weights)
    fast, state = engine(checkpoint, name), checkpoint.model.zero_state(6)
    theirs = state
    for batch in (SENTENCES, SENTENCES[::-1], [[], ["one"], *SENTENCES[:4]]):
        layers, state = fast.embed_on(batch, state)
        expected, after = by_module(checkpoint, batch, theirs)
        assert after is not None
        theirs = after
        for i, ours in enumerate(layers):
            truth = expected.layers[:, i, : ours.shape[1]]
            np.testing.assert_allclose(ours, truth, rtol=0, atol=ALONE)
        torch.testing.assert_close(state.h, theirs.h, rtol=0, atol=ALONE)
        torch.testing.assert_close(state.c, theirs.c, rtol=0, atol=ALONE)


# int8 ---------------------------------------------------------------------------------------------


def middling() -> Checkpoint:
    """Large enough for rounding errors to average out, with weights as a model begins."""
    torch.manual_seed(0)
    words = CharCNNConfig(filters=((1, 32), (2, 32), (3, 64)), n_highway=1, dim=64)
    model = BiLM(BiLMConfig(words=words, context=LSTMConfig(dim=64, cell_dim=256)))
    return bilm_checkpoint(model.requires_grad_(False).eval())


@pytest.mark.skipif(not KERNELS, reason="no kernel was built here")
@every_kernel
def test_int8_stays_close(name: str):
    """Relative error 2e-2 and cosine 0.999 at worst; seen: 1.1e-2 and 0.9998."""
    checkpoint, sentences = middling(), [words for words in crowd(60) if words]
    exact = np.concatenate(engine(checkpoint, name).embed(sentences), axis=1)
    rough = np.concatenate(engine(checkpoint, name, "int8").embed(sentences), axis=1)
    np.testing.assert_array_equal(rough[0], exact[0])  # words without context stay exact
    for ours, truth in zip(rough[1:], exact[1:], strict=True):
        assert np.linalg.norm(ours - truth) < 2e-2 * np.linalg.norm(truth)
        cosine = (
            (ours * truth).sum(1) / np.linalg.norm(ours, axis=1) / np.linalg.norm(truth, axis=1)
        )
        assert cosine.min() > 0.999


@pytest.mark.skipif(len(KERNELS) < 2, reason="fewer than two kernels to compare")
def test_int8_is_the_same_on_every_machine_but_for_rounding():
    checkpoint, sentences = middling(), crowd(20)
    first, *others = (engine(checkpoint, name, "int8").embed(sentences) for name in KERNELS)
    for other in others:
        for ours, theirs in zip(other, first, strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=0, atol=2e-2)


@pytest.mark.skipif(not KERNELS, reason="no kernel was built here")
def test_int8_through_the_front_door(tiny: Tiny):
    exact, rough = (Embedder.load(tiny.weights, precision=p) for p in ("float32", "int8"))
    assert exact.fingerprint != rough.fingerprint
    assert np.abs(exact.embed([["river"]])[0].top - rough.embed([["river"]])[0].top).max() > 0


def test_int8_that_cannot_be_is_refused_in_one_line(tmp_path: Path, checkpoint: Checkpoint):
    make_transformer(tmp_path / "model")
    cpu, gpu = torch.device("cpu"), torch.device("cuda")
    for words, arguments in {
        "which is for LSTM models and BERT": (load(tmp_path / "model").model, cpu),
        "device is 'cuda'": (checkpoint.model, gpu),
        "no kernel was built here": (checkpoint.model, cpu, NoKernel("no kernel was built here")),
    }.items():
        with pytest.raises(ConfigError, match=words) as caught:
            check_precision("int8", *arguments)
        assert "\n" not in str(caught.value)


# Use ----------------------------------------------------------------------------------------------


def test_an_embedder_travels_without_its_engine(tiny: Tiny):
    embedder = Embedder.load(tiny.weights, device="cpu")
    before = embedder.embed(SENTENCES)
    copied = pickle.loads(pickle.dumps(embedder))
    for a, b in zip(before, copied.embed(SENTENCES), strict=True):
        np.testing.assert_array_equal(a.layers, b.layers)


def test_the_engine_says_what_it_is():
    assert ("compiled kernel" if KERNELS else "PyTorch") in describe()
