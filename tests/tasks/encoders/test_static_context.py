"""Static vectors as two layers, against a plain loop."""

import numpy as np
import numpy.typing as npt
import pytest

from elmore.models.static import StaticVectors
from elmore.tasks.encoders.source import StaticContext

WORDS = tuple("abcdefgh")
TABLE = np.sin(np.arange(32, dtype=np.float32)).reshape(8, 4)


def around(words: list[str], place: int, window: int) -> npt.NDArray[np.float32]:
    found = [
        TABLE[WORDS.index(word)]
        for i, word in enumerate(words)
        if i != place and abs(i - place) <= window and word in WORDS
    ]
    return np.mean(found, axis=0) if found else np.zeros(4, np.float32)


@pytest.mark.parametrize("window", [1, 2, 50])
def test_a_word_has_its_own_vector_and_the_mean_of_its_neighbours(window: int):
    words = ["a", "b", "unknown", "c", "d", "a", "h", "g"]
    (embedding,) = StaticContext(StaticVectors(WORDS, TABLE), window).stream([words])
    own = [TABLE[WORDS.index(w)] if w in WORDS else np.zeros(4) for w in words]
    np.testing.assert_array_equal(embedding.layers[0], own)
    expected = [around(words, place, window) for place in range(len(words))]
    np.testing.assert_allclose(embedding.layers[1], expected, atol=1e-6)


@pytest.mark.parametrize("words", [[], ["a"], ["unknown"]])
def test_where_there_are_no_neighbours_there_are_zeros(words: list[str]):
    (embedding,) = StaticContext(StaticVectors(WORDS, TABLE)).stream([words])
    assert embedding.layers.shape == (2, len(words), 4)
    assert not embedding.layers[1].any()
