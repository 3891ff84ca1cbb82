"""Leave-one-out by nearest neighbour, beside cases worked by hand and a plain loop."""

import numpy as np
import pytest

from elmore.demo.accuracy import (
    Accuracy,
    WordAccuracy,
    chance,
    sense_accuracy,
    total,
    word_accuracies,
)
from elmore.demo.ambiguous_words import read_uses
from elmore.demo.demo import demo, nearest_uses, nearest_words
from elmore.demo.embedded_uses import UseVectors, embed_uses
from elmore.embedder import Embedder
from elmore.uses.use import Use
from tests.store.waves import wave, waves


def as_vectors(*rows: tuple[float, ...]) -> np.ndarray:
    return np.array(rows, dtype=np.float32)


def test_two_clear_clusters_are_all_right_and_swapped_ones_all_wrong():
    vectors = as_vectors((1, 0.1), (2, 0.1), (0.1, 1), (0.1, 3))
    assert sense_accuracy(vectors, ["a", "a", "b", "b"]) == 1
    assert sense_accuracy(vectors, ["a", "b", "a", "b"]) == 0


def test_length_does_not_matter_and_half_right_is_half():
    # angles 0, 10, 60 and 65 degrees, and opposite each one its mirror, so that the mean is zero
    angles, lengths = np.radians([0, 10, 60, 65]), np.array([1, 9, 0.1, 4])
    half = (lengths * np.stack([np.cos(angles), np.sin(angles)])).T.astype(np.float32)
    vectors = np.concatenate([half, -half])
    assert sense_accuracy(vectors, ["a", "a", "a", "b"] * 2) == pytest.approx(0.5)


def test_what_all_uses_share_does_not_count():
    vectors = as_vectors((1, 0.1), (2, 0.1), (0.1, 1), (0.1, 3))
    for shift in ((0, 0), (50, -70)):
        moved = vectors + np.array(shift, dtype=np.float32)
        assert sense_accuracy(moved, ["a", "a", "b", "b"]) == 1


@pytest.mark.parametrize("value", [0.0, 0.7])
def test_vectors_that_do_not_differ_give_exactly_chance(value: float):
    senses = ["a"] * 6 + ["b"] * 6 + ["c"] * 3
    same = np.full((15, 4), value, dtype=np.float32)
    # 5 of 14 others for each of twelve, 2 of 14 for each of three
    assert chance(senses) == pytest.approx((12 * 5 / 14 + 3 * 2 / 14) / 15)
    assert sense_accuracy(same, senses) == pytest.approx(chance(senses))


def test_the_total_counts_uses_not_words():
    def word(uses: int, share: float) -> WordAccuracy:
        shares = Accuracy(static=share, sentence=share, layers=(share, 0.0), average=share)
        return WordAccuracy(word="w", senses=("a", "b"), uses=uses, accuracy=shares)

    both = total([word(12, 0.5), word(18, 1.0)])
    assert both.static == both.sentence == both.average == pytest.approx(0.8)
    assert both.layers == pytest.approx((0.8, 0.0))


@pytest.fixture(scope="module")
def vectors(tiny_embedder: Embedder) -> UseVectors:
    return embed_uses(tiny_embedder, read_uses("en"))


def test_vectors_are_the_embedders(vectors: UseVectors, tiny_embedder: Embedder):
    uses = read_uses("en")
    alone = [tiny_embedder.embed([use.words])[0] for use in uses]
    layers = np.stack([e.layers[:, use.position] for e, use in zip(alone, uses, strict=True)], 1)
    np.testing.assert_allclose(vectors.layers, layers, atol=2e-5)
    np.testing.assert_allclose(vectors.average, layers.mean(axis=0), atol=2e-5)
    bags = np.stack([e.layers[0].mean(axis=0) for e in alone])
    np.testing.assert_allclose(vectors.sentences, bags, atol=2e-5)
    assert set(vectors.lexicon) == {word for use in uses for word in use.words}


def test_static_vectors_of_a_real_model_give_exactly_chance(vectors: UseVectors):
    for found in word_accuracies(vectors):
        senses = [use.sense for use in vectors.uses if use.word == found.word]
        assert found.accuracy.static == pytest.approx(chance(senses)), found.word
        assert len(found.accuracy.layers) == 2


def test_a_words_accuracy_is_that_of_a_plain_loop(vectors: UseVectors):
    found = next(w for w in word_accuracies(vectors) if w.word == "spring")
    rows = [i for i, use in enumerate(vectors.uses) if use.word == "spring"]
    right = 0
    middle = vectors.layers[2, rows].astype(float).mean(axis=0)
    for i in rows:

        def cosine(k: int, i: int = i) -> float:
            a, b = vectors.layers[2, i] - middle, vectors.layers[2, k] - middle
            return float(a @ b / np.linalg.norm(a) / np.linalg.norm(b))

        nearest = max((k for k in rows if k != i), key=cosine)
        right += vectors.uses[i].sense == vectors.uses[nearest].sense
    assert found.accuracy.layers[1] == pytest.approx(right / 18)


def test_neighbours_are_ranked_and_never_the_query_itself():
    uses = [Use((str(i), "w"), 1, sense=sense) for i, sense in enumerate("aabb")]
    top = as_vectors((1, 0), (1, 0.2), (0.3, 1), (0, 1))
    made = UseVectors(uses, np.stack([top * 0, top]), top, ["w", "x", "y"], top[[0, 2, 1]])
    first, second = nearest_uses(made, "w", made.top)
    assert (first.use, second.use) == (uses[0], uses[2])
    assert [near.use for near in first.nearest] == [uses[1], uses[3], uses[2]]
    assert [near.use for near in second.nearest] == [uses[3], uses[1], uses[0]]
    a, b = top[:2] - top.mean(axis=0)
    assert first.nearest[0].score == pytest.approx(a @ b / np.linalg.norm(a) / np.linalg.norm(b))
    assert [word for word, _ in nearest_words(made, "w")] == ["y", "x"]


def test_the_demo_has_a_query_for_each_sense(tiny_embedder: Embedder):
    found = demo(tiny_embedder, "zh", "苹果")
    assert [query.use.sense for query in found.queries] == ["水果", "公司"]
    assert all(near.use.word == "苹果" for query in found.queries for near in query.nearest)
    assert len(found.words) == 21
    assert "苹果" not in [word for word, _ in found.static_neighbors]


def test_without_a_context_free_layer_words_are_embedded_alone_and_layer_0_is_contextual():
    vectors = embed_uses(waves(context_free=False), read_uses("en"))
    assert vectors.first_contextual == 0
    alone = np.stack([wave([word])[0, 0] for word in vectors.lexicon])
    np.testing.assert_allclose(vectors.static, alone - alone.mean(axis=0), atol=1e-6)
    for found in word_accuracies(vectors):
        senses = [use.sense for use in vectors.uses if use.word == found.word]
        assert found.accuracy.static == pytest.approx(chance(senses)), found.word
        assert len(found.accuracy.layers) == 3
