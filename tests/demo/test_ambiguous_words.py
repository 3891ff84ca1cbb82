"""The demo's sentences keep what is promised of them: counts, places, variety, no giveaways."""

import itertools
from collections import Counter, defaultdict
from importlib.resources import files
from string import ascii_lowercase

import numpy as np
import pytest

from elmore.demo.accuracy import chance
from elmore.demo.ambiguous_words import (
    FILES,
    LANGUAGES,
    Language,
    language_of,
    language_read_by,
    read_uses,
)
from elmore.errors import InputError
from elmore.text.byte_reader import ByteReader
from elmore.text.dictionary_reader import CHARACTER_MARKS, WORD_MARKS, DictionaryReader
from elmore.text.piece_reader import PieceReader
from elmore.text.tokenize import words as tokenized
from elmore.text.wordpiece import WordPiece, WordPieceConfig
from elmore.uses.use import Use
from tests.tiny_bert import MARKS

STOPS = {".", "?", "。", "？"}


def by_word(uses: list[Use]) -> dict[str, list[Use]]:
    groups: dict[str, list[Use]] = defaultdict(list)
    for use in uses:
        groups[use.word].append(use)
    return groups


def test_every_line_belongs_to_a_language():
    for language in LANGUAGES:
        text = (files("elmore.demo") / FILES[language]).read_text(encoding="utf-8")
        assert all(line.startswith(f"{language}\t") for line in text.splitlines())
        assert len(text.splitlines()) == len(read_uses(language))


@pytest.mark.parametrize(("language", "n_words"), [("en", 36), ("zh", 20)])
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
    with pytest.raises(InputError, match=r"try bank, play, .*骄傲\."):
        language_of("zyzzyva")


def test_a_model_is_asked_which_language_it_reads():
    """Pieces of words: English ones and single Han characters, as published models have them."""
    han = sorted({c for use in read_uses("zh") for word in use.words for c in word})
    english = sorted({word.lower() for use in read_uses("en") for word in use.words})
    letters = [*ascii_lowercase, *(f"##{c}" for c in ascii_lowercase)]
    models: dict[Language, list[str]] = {"zh": [*han, *letters], "en": [*english, *letters]}
    for language, pieces in models.items():
        wordpiece = WordPiece(
            tuple(dict.fromkeys([*MARKS, *pieces])), WordPieceConfig(lowercase=True)
        )
        assert language_read_by(PieceReader(wordpiece, 512)) == language
    both = WordPiece(
        tuple(dict.fromkeys([*MARKS, *han, *english, *letters])), WordPieceConfig(lowercase=True)
    )
    assert language_read_by(PieceReader(both, 512)) == "en"
    assert language_read_by(ByteReader(50)) == "en"


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_model_that_lists_words_reads_the_language_of_its_words(language: Language):
    """Whatever letters it knows: a Chinese model's list of characters has the Latin ones too."""
    letters = {
        c for uses in map(read_uses, LANGUAGES) for use in uses for w in use.words for c in w
    }
    words = [*WORD_MARKS, *{word for use in read_uses(language) for word in use.words[::2]}]
    items = [*CHARACTER_MARKS, *sorted(letters)]
    rows = ({item: row for row, item in enumerate(listed)} for listed in (items, words))
    assert language_read_by(DictionaryReader(*rows, 20)) == language


def test_chinese_sentences_are_cut_into_words_as_jieba_cuts_raw_text():
    """What is shown by the demo is what a user's own raw text gives."""
    for use in read_uses("zh"):
        assert list(use.words) == tokenized("".join(use.words))
