"""The drop-in for simple_elmo: ten pieces of code as people write them, against the oracle."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from elmore.errors import ConfigError, InputError
from elmore.integrations.simple_elmo import ElmoModel
from tests.checkpoint.foreign_models import make_bilm_tf, pack_zip
from tests.oracle import lstm_elmo
from tests.tiny_models import OPTIONS, Tiny, make

TEXTS = [["The", "river", "bank", "."], ["bank"], ["naïve", "東京"]]
ATOL = 2e-5


@pytest.fixture
def tiny(tmp_path: Path) -> Tiny:
    return make(tmp_path / "model")


@pytest.fixture
def model(tiny: Tiny) -> ElmoModel:
    loaded = ElmoModel()
    loaded.load(str(tiny.weights.parent))
    return loaded


def padded(tiny: Tiny) -> np.ndarray[Any, Any]:
    layers = np.zeros((3, 3, 4, 16))  # texts, layers, words, dim
    for row, words in zip(layers, TEXTS, strict=True):
        row[:, : len(words)] = tiny.layers(words)[0]
    return layers


def test_1_load_says_so_and_tells_the_sizes(tiny: Tiny):
    model = ElmoModel()
    assert model.load(str(tiny.weights.parent), max_batch_size=2) == "The model is now loaded."
    assert (model.batch_size, model.vector_size, model.n_layers) == (2, 16, 3)


def test_2_a_zip_of_the_repository(tiny: Tiny, tmp_path: Path, model: ElmoModel):
    packed = ElmoModel()
    packed.load(pack_zip(tiny.weights.parent, tmp_path / "209.zip"))
    assert np.array_equal(packed.get_elmo_vectors(TEXTS), model.get_elmo_vectors(TEXTS))


def test_3_averages_of_layers_are_the_default(tiny: Tiny, model: ElmoModel):
    vectors = model.get_elmo_vectors(TEXTS)
    assert (vectors.shape, vectors.dtype) == ((3, 4, 16), np.float64)
    np.testing.assert_allclose(vectors, padded(tiny).mean(axis=1), rtol=0, atol=ATOL)


def test_4_the_top_layer(tiny: Tiny, model: ElmoModel):
    found = model.get_elmo_vectors(TEXTS, layers="top")
    np.testing.assert_allclose(found, padded(tiny)[:, -1], rtol=0, atol=ATOL)


def test_5_all_layers(tiny: Tiny, model: ElmoModel):
    found = model.get_elmo_vectors(TEXTS, layers="all")
    assert found.shape == (3, 3, 4, 16)
    np.testing.assert_allclose(found, padded(tiny), rtol=0, atol=ATOL)


def test_6_padding_is_zero_and_batchmates_change_nothing(model: ElmoModel):
    """What its README promises, and the program did not do."""
    vectors = model.get_elmo_vectors(TEXTS)
    assert not vectors[1, 1:].any()
    alone = model.get_elmo_vector_average([TEXTS[1]])
    np.testing.assert_allclose(model.get_elmo_vector_average(TEXTS)[1], alone[0], atol=1e-6)


@pytest.mark.parametrize("layers", ["average", "top", "all"])
def test_7_one_vector_per_text_has_length_one(tiny: Tiny, model: ElmoModel, layers: str):
    found = model.get_elmo_vector_average([*TEXTS, []], layers=layers)
    assert found.shape == ((4, 3, 16) if layers == "all" else (4, 16))
    for row, words in zip(found, TEXTS, strict=False):
        own = tiny.layers(words)[0]
        chosen = {"average": own.mean(axis=0), "top": own[-1], "all": own}[layers]
        mean = chosen.mean(axis=-2)
        np.testing.assert_allclose(row, mean / np.linalg.norm(mean), rtol=0, atol=ATOL)
    assert not found[3].any()


def test_8_similarity_of_two_texts(model: ElmoModel):
    one, two = model.get_elmo_vector_average([TEXTS[0], TEXTS[0][:3]])
    assert 0.5 < float(np.dot(one, two)) < 1.0


def test_9_old_numbers_with_a_warm_up_and_state(tiny: Tiny):
    model = ElmoModel(stateful=True)
    model.load(tiny.weights.parent, max_batch_size=2)
    states: list[Any] = [None, None]
    for warm, chunk in ((True, TEXTS[:2]), (False, TEXTS[:2]), (False, TEXTS[2:])):
        for row, words in enumerate(chunk):
            layers, states[row] = tiny.layers(words, states[row])
            if not warm:
                at = TEXTS.index(words)
                found = model.get_elmo_vectors(TEXTS, warmup=True, layers="all")[at]
                np.testing.assert_allclose(found[:, : len(words)], layers, rtol=0, atol=ATOL)
    cold = model.get_elmo_vectors(TEXTS, warmup=False, layers="top")[0, :4]
    np.testing.assert_allclose(cold, tiny.layers(TEXTS[0])[0][-1], rtol=0, atol=ATOL)


def test_10_substitutes_of_a_trained_checkpoint(tmp_path: Path):
    words = ["<S>", "</S>", "<UNK>", "the", "river", "bank", ".", "naïve", "shore"]
    W = make_bilm_tf(tmp_path / "tf", vocab_size=9)
    (tmp_path / "tf" / "vocab.txt").write_text("\n".join(words), encoding="utf-8")
    model = ElmoModel()
    model.load(tmp_path / "tf", full=True, max_batch_size=1)
    (answers,) = model.get_elmo_substitutes(["the river bank"], topn=9)
    assert [answer["word"] for answer in answers] == ["the", "river", "bank"]
    sentence = ["the", "river", "bank"]
    x = lstm_elmo.marked_inputs(W, OPTIONS, sentence)
    ahead = lstm_elmo.direction(W, OPTIONS, 0, x)[0][-1]  # (5, P), after each place
    behind = lstm_elmo.direction(W, OPTIONS, 1, x[::-1])[0][-1][::-1]
    for i, answer in enumerate(answers):
        for side, h in (("forward", ahead[i]), ("backward", behind[i + 2])):
            logits = W["softmax/W"].astype(np.float64) @ h + W["softmax/b"]
            logs = logits - np.log(np.exp(logits).sum())
            order = [j for j in np.argsort(-logs) if j > 1]  # without the marks
            assert answer[side]["candidate_words"] == [words[j] for j in order]
            np.testing.assert_allclose(answer[side]["logp"], logs[order], rtol=0, atol=1e-4)
    marks = model.get_elmo_substitutes([sentence], topn=9, nodelimiters=False)[0][0]["forward"]
    assert set(marks["candidate_words"]) == set(words)


def test_what_is_missing_is_said(model: ElmoModel):
    with pytest.raises(InputError, match=r"call load\(directory\) first"):
        ElmoModel().get_elmo_vectors(TEXTS)
    with pytest.raises(ConfigError, match=r"load\(full=True\)"):
        model.get_elmo_substitutes(["a"])
    with pytest.raises(ConfigError, match="'middle'; expected average, top or all"):
        model.get_elmo_vectors(TEXTS, layers="middle")
    with pytest.raises(InputError, match="Sentence 0 is a string"):
        model.get_elmo_vectors(["one text"])
    assert model.warmup(None, TEXTS) is None
