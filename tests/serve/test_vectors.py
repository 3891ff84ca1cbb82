"""Layers to bytes and numbers, against NumPy spelled out."""

import base64
import io
import json

import numpy as np
import pytest

from elmore.embedding import ReadSentence
from elmore.errors import ConfigError
from elmore.serve import vectors

A = np.sin(np.arange(3 * 4 * 5, dtype=np.float32)).reshape(3, 4, 5)
B = np.cos(np.arange(3 * 2 * 5, dtype=np.float32)).reshape(3, 2, 5)


def test_layers_are_chosen():
    np.testing.assert_array_equal(vectors.choose("all", None, 3).select(A), A)
    np.testing.assert_array_equal(vectors.choose(1, None, 3).select(A), A[1:2])
    mixed = vectors.choose("mix", [0.5, -1.0, 2.0], 3, gamma=3.0).select(A)
    np.testing.assert_allclose(mixed, [3 * (0.5 * A[0] - A[1] + 2 * A[2])], rtol=0, atol=1e-5)
    equal = vectors.choose("mix", None, 3).select(A)
    np.testing.assert_allclose(equal, [(A[0] + A[1] + A[2]) / 3], rtol=0, atol=1e-6)


@pytest.mark.parametrize(
    ("layers", "weights", "said"),
    [
        (3, None, "layer 3 is asked for; the model has 0 to 2."),
        ("mix", [1.0], "1 weights are given; the model has 3 layers."),
        ("all", [1.0, 1.0, 1.0], "weights are those of a mix, but the layer asked for is 'all'."),
        (0, [1.0, 1.0, 1.0], "weights are those of a mix, but the layer asked for is 0."),
    ],
)
def test_what_cannot_be_chosen_is_said(layers: "int", weights: list[float] | None, said: str):
    with pytest.raises(ConfigError) as error:
        vectors.choose(layers, weights, 3)
    assert str(error.value) == said


@pytest.mark.parametrize(
    ("accept", "chosen"),
    [
        ("", vectors.JSON),
        ("*/*", vectors.JSON),
        ("application/x-npy", vectors.NPY),
        ("text/html, Application/X-NPZ;q=0.9, */*", vectors.NPZ),
        ("application/json, application/x-npy", vectors.JSON),
        ("image/png", vectors.JSON),
    ],
)
def test_the_accept_header_is_understood(accept: str, chosen: str):
    assert vectors.media_type(accept) == chosen


def test_json_gives_back_every_bit():
    reads = [
        ReadSentence(["a", "東京", '"', "\x00"], [(0, 1), (2, 4), (5, 6), (7, 8)]),
        ReadSentence(["x", "y"], None),
    ]
    text = b"".join(vectors.json_parts({"model": "m", "dim": 5}, reads, [A, B]))
    answer = json.loads(text)
    assert (answer["model"], answer["dim"]) == ("m", 5)
    for found, read, layers in zip(answer["sentences"], reads, (A, B), strict=True):
        assert found["words"] == read.words
        assert found["spans"] == (read.spans and [list(span) for span in read.spans])
        np.testing.assert_array_equal(np.array(found["layers"], np.float32), layers)


def test_a_large_answer_comes_in_pieces():
    large = np.ones((3, 20_000, 5), np.float32)
    pieces = list(vectors.gathered(vectors.npy_parts([large], 5, 3)))
    assert max(map(len, pieces)) < 2 * vectors.PIECE
    assert min(map(len, pieces[:-1])) >= vectors.PIECE
    np.testing.assert_array_equal(np.load(io.BytesIO(b"".join(pieces))), large)
    sentence = ReadSentence(["w"] * 20_000, None)
    answers = [vectors.json_parts({}, [sentence], [large]), vectors.npz_parts([large])]
    for pieces in map(list, map(vectors.gathered, answers)):
        assert max(map(len, pieces)) < 2 * vectors.PIECE


def test_npy_has_all_sentences_end_to_end():
    content = b"".join(vectors.npy_parts([A, B], 5, 3))
    np.testing.assert_array_equal(np.load(io.BytesIO(content)), np.concatenate([A, B], axis=1))
    empty = np.load(io.BytesIO(b"".join(vectors.npy_parts([], 5, 3))))
    assert (empty.shape, empty.dtype) == ((3, 0, 5), np.float32)


def test_npz_has_an_array_a_sentence():
    with np.load(io.BytesIO(b"".join(vectors.npz_parts([A, B])))) as archive:
        assert archive.files == ["0", "1"]
        np.testing.assert_array_equal(archive["0"], A)
        np.testing.assert_array_equal(archive["1"], B)


def test_cosines_are_those_of_every_pair():
    weights = (0.2, 0.5, -0.3)
    found = vectors.cosines(A, B, weights)
    assert found.shape == (4, 4, 2)
    sides = [
        [*side, sum(w * layer for w, layer in zip(weights, side, strict=True))] for side in (A, B)
    ]
    for layer, i, j in np.ndindex(4, 4, 2):
        a, b = sides[0][layer][i].astype(float), sides[1][layer][j].astype(float)
        expected = a @ b / np.sqrt((a @ a) * (b @ b))
        assert found[layer, i, j] == pytest.approx(expected, abs=1e-5)


def test_a_vector_of_zeros_is_like_nothing():
    assert not vectors.cosines(np.zeros_like(A), B, (1.0, 0.0, 0.0)).any()


def test_means_and_base64():
    mean = vectors.mean_vector(A)
    np.testing.assert_allclose(mean, A.reshape(12, 5).sum(axis=0) / 12, rtol=0, atol=1e-6)
    decoded = np.frombuffer(base64.b64decode(vectors.to_base64(mean)), "<f4")
    np.testing.assert_array_equal(decoded, mean)
