"""A text as the ids of the words that get a vector, for static vectors; and the pairs of a word and
one near it, with words drawn by chance beside them.
"""

# N words of a stretch of text, P pairs, k words drawn for each, V words
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from elmore.errors import ConfigError, InputError
from elmore.files.atomic import write_text
from elmore.nn.word_pairs import Ids
from elmore.pretrain.config import Asked, VocabularyConfig
from elmore.pretrain.piece_corpus import PieceCorpus, write_texts
from elmore.pretrain.sentences import Counts
from elmore.pretrain.static_config import SgnsConfig, StaticRunConfig, StaticVocabularyConfig
from elmore.text.vocabulary import MARKS, VOCABULARY, Vocabulary

CORPUS, VALID = "words", "valid"
"""Folders of a run: the texts as word ids."""
_VALID_SEED = 0
_DRAWN = 1 << 20  # entries of the table that words are drawn from, at least; and
_ENTRIES = 8  # for each word


def prepare_words(
    asked: Asked, config: StaticRunConfig, files: list[Path], counts: Counts
) -> Vocabulary:
    """Write the vocabulary, and the texts as ids of its words."""
    if asked.source is not None:
        raise ConfigError("Static vectors are learned from the text alone; leave out --from.")
    vocabulary = chosen_vocabulary(asked, config.vocabulary, counts)
    ids = {word: i for word, i in vocabulary.ids.items() if word not in MARKS}
    texts = {CORPUS: files, VALID: [] if asked.valid is None else [asked.valid]}
    write_texts(asked, texts, lambda words: [(ids[word],) for word in words if word in ids])
    write_text(asked.output / VOCABULARY, "".join(vocabulary.lines()))
    return vocabulary


def chosen_vocabulary(
    asked: Asked, wanted: StaticVocabularyConfig | VocabularyConfig, counts: Counts
) -> Vocabulary:
    """What is given, or the words of the corpus that are frequent enough."""
    if asked.vocabulary is not None:
        return Vocabulary.read(asked.vocabulary)
    found = Vocabulary.from_counts(
        counts.words, min_count=wanted.min_count, max_size=wanted.max_size
    )
    if len(found) < len(MARKS) + 2:
        raise InputError(
            f"Fewer than two words occur {wanted.min_count} times in the corpus; give more text, "
            "or --set vocabulary.min_count=1."
        )
    return found


def check_vocabulary(asked: Asked) -> None:
    """A vocabulary that is given when a run is resumed must be the run's."""
    if asked.vocabulary is None:
        return
    kept = Vocabulary.read(asked.output / VOCABULARY)
    if Vocabulary.read(asked.vocabulary).words != kept.words:
        raise ConfigError(f"{asked.vocabulary}: not the vocabulary of {asked.output}; omit it.")


def n_blocks(n_words: int, words: int) -> int:
    """Steps of one epoch over a corpus of so many words, those without a vector included."""
    return max(1, -(-n_words // words))


def block(corpus: PieceCorpus, i: int, n: int) -> tuple[Ids, NDArray[np.int64]]:
    """The i-th of n equal parts of a corpus: ids (N,), and the sentence of each."""
    return corpus.part(corpus.n_pieces * i // n, corpus.n_pieces * (i + 1) // n)


class SkipGramMaker:
    """Pairs as word2vec makes them: frequent words are thinned out, every word has a window of its
    own size, and from each word near it the word in the middle is predicted."""

    def __init__(self, config: SgnsConfig, counts: NDArray[np.int64]):
        self.config = config
        self.kept = keep_shares(counts, config.sample)  # (V,)
        self.drawn = draw_table(counts, config.power)

    def pairs(
        self, ids: Ids, sentences: NDArray[np.int64], rng: np.random.Generator
    ) -> tuple[Ids, Ids]:
        """The words that predict (P,), and what they predict (P, 1 + k)."""
        kept = rng.random(len(ids), np.float32) < self.kept[ids]
        ids, sentences = ids[kept], sentences[kept]
        width = self.config.window
        near = np.concatenate([np.arange(-width, 0), np.arange(1, width + 1)])  # (2 width,)
        windows = rng.integers(1, width + 1, len(ids))
        places = np.arange(len(ids))[:, None] + near  # (N, 2 width)
        outside = np.full(width, -1)
        around = np.concatenate([outside, sentences, outside])[places + width]
        found = (np.abs(near) <= windows[:, None]) & (around == sentences[:, None])
        predicting = ids[places[found]]  # (P,)
        predicted = np.empty((len(predicting), 1 + self.config.negatives), np.int32)
        predicted[:, 0] = np.repeat(ids, found.sum(axis=1))
        shape = (len(predicting), self.config.negatives)
        predicted[:, 1:] = self.drawn[rng.integers(0, len(self.drawn), shape, np.uint32)]
        return predicting, predicted

    def held_out(self, corpus: PieceCorpus) -> tuple[Ids, Ids]:
        """The same pairs every time."""
        ids, sentences = corpus.part(0, min(corpus.n_pieces, self.config.valid_words))
        return self.pairs(ids, sentences, np.random.default_rng(_VALID_SEED))


def keep_shares(counts: NDArray[np.int64], sample: float) -> NDArray[np.float32]:
    """How often a word is kept: all of the time, or (√(f/t) + 1) · t/f with its share f of the
    text and t = sample."""
    if not sample:
        return np.ones(len(counts), np.float32)
    ratio = sample * counts.sum() / np.maximum(counts, 1)
    return np.asarray(np.minimum(1.0, np.sqrt(ratio) + ratio), np.float32)


def draw_table(counts: NDArray[np.int64], power: float) -> Ids:
    """Words in proportion to a power of their counts: an entry drawn at random is such a word."""
    shares = np.where(counts > 0, counts.astype(np.float64) ** power, 0.0)
    size = max(_DRAWN, _ENTRIES * len(counts))
    ends = np.cumsum(shares) / shares.sum()
    places = np.searchsorted(ends, (np.arange(size) + 0.5) / size)
    return np.minimum(places, len(counts) - 1).astype(np.int32)
