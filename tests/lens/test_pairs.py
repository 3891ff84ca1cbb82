"""Pairs of uses and words near them: all that fit, none across sentences, drawn fairly."""

from collections import Counter

import numpy as np

from elmore.lens.config import LensConfig
from elmore.lens.nearby_pairs import PredictedWords, find_pairs

SENTENCES = [list("abcdefgh"), list("abxab"), ["rare"], list("ba")]
EVERY = LensConfig(frequent=1.0, min_count=2, window=2, pairs=4)


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def by_hand(config: LensConfig) -> set[tuple[int, str, int]]:
    """(place of the use, its neighbor, place of the neighbor), when nothing is passed over."""
    counts = Counter(word for words in SENTENCES for word in words)
    found, start = set(), 0
    for words in SENTENCES:
        for i, word in enumerate(words):
            for j, other in enumerate(words):
                near = i != j and abs(i - j) <= config.window
                if near and min(counts[word], counts[other]) >= config.min_count:
                    found.add((start + i, other, start + j))
        start += len(words)
    return found


def test_all_pairs_in_the_window_are_found_and_none_across_sentences():
    known = PredictedWords.counted(SENTENCES, EVERY)
    assert set(known.numbers) == {"a", "b"}  # the others occur once
    pairs = find_pairs(SENTENCES, known, EVERY, rng())
    words = list(known.numbers)
    found = Counter(
        (int(pairs.uses[p]), words[w]) for p, w in zip(pairs.places, pairs.words, strict=True)
    )
    assert found == Counter((i, word) for i, word, _ in by_hand(EVERY))


def test_of_too_many_pairs_some_are_drawn():
    config = EVERY.model_copy(update={"pairs": 1, "min_count": 1})
    known = PredictedWords.counted(SENTENCES, config)
    words, drawn = list(known.numbers), set()
    for seed in range(50):
        pairs = find_pairs(SENTENCES, known, config, rng(seed))
        assert Counter(pairs.places.tolist()).most_common(1)[0][1] == 1
        drawn |= {
            (int(pairs.uses[p]), words[w]) for p, w in zip(pairs.places, pairs.words, strict=True)
        }
    assert drawn == {(i, word) for i, word, _ in by_hand(config)}


def test_the_same_generator_gives_the_same_pairs():
    config = LensConfig(frequent=0.02, min_count=1)
    known = PredictedWords.counted(SENTENCES, config)
    one, same, other = (find_pairs(SENTENCES * 9, known, config, rng(seed)) for seed in (1, 1, 2))
    np.testing.assert_array_equal(one.uses, same.uses)
    np.testing.assert_array_equal(one.words, same.words)
    assert len(one.uses) != len(other.uses) or (one.uses != other.uses).any()


def test_frequent_words_are_passed_over_and_samples_follow_the_counts():
    text = [["often"] * 800, ["seldom"] * 200]
    config = LensConfig(frequent=0.2, min_count=1, power=0.5)
    known = PredictedWords.counted(text, config)
    np.testing.assert_allclose(known.keep, [0.5, 1.0])  # √(0.2 / 0.8), √(0.2 / 0.2)
    drawn = np.bincount(known.draw(30_000, rng()), minlength=2) / 30_000
    np.testing.assert_allclose(drawn, [2 / 3, 1 / 3], atol=0.01)  # √800 : √200
    uses = find_pairs(text, known, config, rng()).uses
    assert 350 < (uses < 800).sum() < 450
    assert (uses >= 800).sum() == 200


def test_words_that_are_not_known_predict_nothing():
    known = PredictedWords.counted(SENTENCES, EVERY)
    pairs = find_pairs([["rare", "x"]], known, EVERY, rng())
    assert len(pairs.uses) == len(pairs.places) == 0
