"""The demo's sentences keep what is promised of them: counts, places, variety, no giveaways."""

import itertools
from collections import Counter, defaultdict
from importlib.resources import files

import numpy as np
import pytest

from elmore.demo.accuracy import chance
from elmore.demo.ambiguous_words import LANGUAGES, Language, language_of, read_uses
from elmore.errors import InputError
from elmore.uses.use import Use

STOPS = {".", "?", "。", "？"}


def by_word(uses: list[Use]) -> dict[str, list[Use]]:
    groups: dict[str, list[Use]] = defaultdict(list)
    for use in uses:
        groups[use.word].append(use)
    return groups


def test_every_line_belongs_to_a_language():
    text = (files("elmore.demo") / "senses.tsv").read_text(encoding="utf-8")
    assert len(text.splitlines()) == sum(len(read_uses(language)) for language in LANGUAGES)


@pytest.mark.parametrize(("language", "n_words"), [("en", 36), ("zh", 10)])
def test_there_are_enough_words_senses_and_sentences(language: Language, n_words: int):
    groups = by_word(read_uses(language))
    assert len(groups) >= n_words
    for word, uses in groups.items():
        counts = Counter(use.sense for use in uses)
        assert 2 <= len(counts) <= 3, word
        assert set(counts.values()) == {6}, word


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_word_stands_once_in_its_sentence_in_one_spelling(language: Language):
    for use in read_uses(language):
        assert [word.lower() for word in use.words].count(use.word) == 1, use.sentence
        assert use.words[use.position] == use.word
        assert all(use.words), use.sentence  # no two spaces in a row
        assert use.words[-1] in STOPS, use.sentence
        assert 6 <= sum(word.isalnum() for word in use.words) <= 20, use.sentence


@pytest.mark.parametrize("language", LANGUAGES)
def test_no_sentence_is_a_variant_of_another(language: Language):
    sets = [set(use.words) for use in read_uses(language)]
    for a, b in itertools.combinations(sets, 2):
        assert len(a & b) <= 0.5 * len(a | b), (sorted(a), sorted(b))


@pytest.mark.parametrize("language", LANGUAGES)
def test_words_stand_early_late_and_between(language: Language):
    places = Counter(min(2, len(use.words) - 2 - use.position) for use in read_uses(language))
    total = places.total()
    assert 0.15 * total < places[0] < 0.5 * total  # last before the stop


def surface_accuracy(uses: list[Use], likeness: dict[tuple[int, int], float]) -> float:
    """Leave-one-out, by any likeness of two uses; ties share."""
    shares = []
    for i, use in enumerate(uses):
        near = [(likeness[i, k], uses[k].sense) for k in range(len(uses)) if k != i]
        best = [sense for value, sense in near if value == max(near)[0]]
        shares.append(best.count(use.sense) / len(best))
    return float(np.mean(shares))


def beside(use: Use) -> set[tuple[int, str]]:
    return {(step, use.words[use.position + step]) for step in (-1, 1) if use.position + step >= 0}


@pytest.mark.parametrize("language", LANGUAGES)
def test_shared_words_and_neighbouring_words_do_not_give_the_sense_away(language: Language):
    """Matching spellings is worth little: what tells senses apart has to be understood."""
    overlap, neighbours, by_chance = [], [], []
    for uses in by_word(read_uses(language)).values():
        pairs = list(itertools.permutations(range(len(uses)), 2))
        words = [set(use.words) for use in uses]
        jaccard = {(i, k): len(words[i] & words[k]) / len(words[i] | words[k]) for i, k in pairs}
        sides = {(i, k): float(len(beside(uses[i]) & beside(uses[k]))) for i, k in pairs}
        overlap.append(surface_accuracy(uses, jaccard))
        neighbours.append(surface_accuracy(uses, sides))
        by_chance.append(chance([use.sense for use in uses]))
    assert np.mean(overlap) < np.mean(by_chance) + 0.1
    assert np.mean(neighbours) < np.mean(by_chance) + 0.1


def test_the_language_follows_from_the_word():
    assert (language_of("bank"), language_of("苹果")) == ("en", "zh")
    with pytest.raises(InputError, match="'sprng': the demo has no sentences with it; try spring"):
        language_of("sprng")
    with pytest.raises(InputError, match=r"try bank, play, .*机关\."):
        language_of("zyzzyva")
