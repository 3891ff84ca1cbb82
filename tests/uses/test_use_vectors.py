"""Vectors of uses: the mean of each use, every layer, and looks at them."""

import numpy as np

from elmore.embedder import Embedder
from elmore.uses.use import Use
from elmore.uses.use_vectors import use_vectors, view, views
from tests.tasks.contexts import D, WordBefore, word_vector


def test_a_use_of_several_words_is_their_mean():
    words = ("a", "b", "c")
    kept = use_vectors(WordBefore(), [Use(words, 1, n_words=2), Use(words, 0), Use(("d",), 0)])
    a, b, c, d = (word_vector(word) for word in "abcd")
    assert kept.shape == (2, 3, D)
    np.testing.assert_allclose(kept[0], [(b + c) / 2, a, d], atol=1e-3)  # half precision
    np.testing.assert_allclose(kept[1, 0], (a + b) / 2, atol=1e-3)  # the words before them


def test_vectors_are_those_of_the_model(tiny_embedder: Embedder):
    words = ("The", "river", "bank", ".")
    kept = use_vectors(tiny_embedder, [Use(words, 2)])
    expected = tiny_embedder.embed([words])[0].layers[:, 2]
    np.testing.assert_allclose(kept[:, 0], expected, rtol=1e-3, atol=1e-3)


def test_progress_counts_sentences():
    told: list[tuple[int, int]] = []
    words = ("a", "b")
    uses = [Use(words, 0), Use(words, 1), Use(("b",), 0)]
    use_vectors(WordBefore(), uses, lambda done, of: told.append((done, of)))
    assert told == [(1, 2), (2, 2)]


def test_a_view_is_a_layer_or_their_mean():
    kept = np.arange(12, dtype=np.float16).reshape(2, 3, 2)
    assert views(2) == ["layer 0", "layer 1", "average"]
    assert views(1) == ["layer 0"]
    np.testing.assert_array_equal(view(kept, "layer 1", np.array([2, 0])), [[10, 11], [6, 7]])
    np.testing.assert_array_equal(view(kept, "average"), [[3, 4], [5, 6], [7, 8]])
