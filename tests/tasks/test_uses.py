"""Vectors of chosen words: the mean of each stretch, every layer, and looks at them."""

import numpy as np

from elmore.embedder import Embedder
from elmore.tasks.uses import Marked, unit, use_vectors, view, views
from tests.tasks.contexts import D, WordBefore, word_vector


def test_a_stretch_of_several_words_is_their_mean():
    marked = [Marked(["a", "b", "c"], [(1, 3), (0, 1)]), Marked([], []), Marked(["d"], [(0, 1)])]
    kept = use_vectors(WordBefore(), marked)
    a, b, c, d = (word_vector(word) for word in "abcd")
    assert kept.shape == (2, 3, D)
    np.testing.assert_allclose(kept[0], [(b + c) / 2, a, d], atol=1e-3)  # half precision
    np.testing.assert_allclose(kept[1, 0], (a + b) / 2, atol=1e-3)  # the words before them


def test_vectors_are_those_of_the_model(tiny_embedder: Embedder):
    words = ["The", "river", "bank", "."]
    kept = use_vectors(tiny_embedder, [Marked(words, [(2, 3)])])
    expected = tiny_embedder.embed([words])[0].layers[:, 2]
    np.testing.assert_allclose(kept[:, 0], expected, rtol=1e-3, atol=1e-3)


def test_progress_counts_sentences():
    told: list[tuple[int, int]] = []
    marked = [Marked(["a"], []), Marked(["b"], [(0, 1)])]
    use_vectors(WordBefore(), marked, lambda done, of: told.append((done, of)))
    assert told == [(1, 2), (2, 2)]


def test_a_view_is_a_layer_or_their_mean():
    kept = np.arange(12, dtype=np.float16).reshape(2, 3, 2)
    assert views(2) == ["layer 0", "layer 1", "average"]
    assert views(1) == ["layer 0"]
    np.testing.assert_array_equal(view(kept, "layer 1", np.array([2, 0])), [[10, 11], [6, 7]])
    np.testing.assert_array_equal(view(kept, "average"), [[3, 4], [5, 6], [7, 8]])


def test_units_have_length_one_and_nothing_stays_nothing():
    vectors = np.array([[3, 4], [0, 0]], np.float32)
    np.testing.assert_allclose(unit(vectors), [[0.6, 0.8], [0, 0]], atol=1e-7)
