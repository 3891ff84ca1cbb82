"""How well a biLM predicts a text, by the full softmax. Forward, `</S>` is predicted after the last
word and `<S>` never; backward it is the other way round, so each direction has n + 1 predictions.
"""

# S = 2 directions, T steps, B rows, N predictions
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice

import numpy as np
import torch

from elmore.checkpoint.bilm import language_model, speller_of
from elmore.checkpoint.checkpoint import Checkpoint
from elmore.errors import ConfigError, InputError
from elmore.models.language_model import LanguageModel, prediction_targets
from elmore.nn.transformer import TransformerConfig
from elmore.pretrain.batches import marked, pieces, row_batch, sentence_batch
from elmore.pretrain.sentences import Words
from elmore.text.batching import batches_by_length, windows
from elmore.text.reader import SENTENCE_BEGIN, Speller
from elmore.text.vocabulary import Vocabulary

_BATCH_WORDS = 4096
_CARRY_ROWS, _CARRY_WORDS = 16, 640  # rows of a carried text, and words computed together
_SECTION_WORDS = 1_000_000  # of a carried text that are in memory
_ATTENDED = 2000  # words that a Transformer reads together at most; memory grows with their square


@dataclass(frozen=True, slots=True)
class SentenceScore:
    """One sentence's log-probabilities, natural logarithm."""

    words: Words
    forward: float
    backward: float
    unknown: int
    """Words that are not in the vocabulary: predicted as <UNK>."""
    pieces: int = 1
    """More than one if it was too long and was cut; each piece has marks of its own."""


@dataclass(frozen=True, slots=True)
class Perplexity:
    """Weighted by predictions: exp of the mean negative log-probability."""

    forward: float
    backward: float
    average: float
    sentences: int
    words: int
    unknown: int
    cut: int = 0
    """Sentences that were read in pieces."""


def first_words(sentences: Iterable[Words], n_words: int | None) -> Iterator[Words]:
    """Whole sentences until there are `n_words` words; None for all."""
    found = 0
    for words in sentences:
        yield words
        found += len(words)
        if n_words is not None and found >= n_words:
            return


def evaluate(
    checkpoint: Checkpoint, sentences: Iterable[Words], source: str, max_words: int | None = None
) -> Iterator[SentenceScore]:
    """Each sentence by itself, streamed in input order. Sentences longer than `max_words` are read
    in pieces of that length."""
    model = language_model(checkpoint, source).eval()
    assert checkpoint.vocabulary is not None
    speller = speller_of(checkpoint)
    yield from _scores(model, speller, checkpoint.vocabulary, sentences, max_words)


def summarize(scores: Iterable[SentenceScore]) -> Perplexity:
    """Token-weighted perplexities of many sentences."""
    forward = backward = 0.0
    n_sentences = n_words = n_pieces = unknown = cut = 0
    for score in scores:
        forward, backward = forward + score.forward, backward + score.backward
        n_sentences, n_words = n_sentences + 1, n_words + len(score.words)
        unknown, n_pieces = unknown + score.unknown, n_pieces + score.pieces
        cut += score.pieces > 1
    return _perplexity(forward, backward, n_sentences, n_words, unknown, n_pieces, cut)


def perplexity(
    model: LanguageModel,
    vocabulary: Vocabulary,
    sentences: Iterable[Words],
    *,
    speller: Speller,
    carry: bool = False,
    max_words: int | None = None,
) -> Perplexity:
    """`carry` reads the sentences as one text, state kept from one to the next; otherwise each is
    read by itself, longer ones in pieces of `max_words`."""
    if carry:
        return _carried(model, speller, vocabulary, sentences)
    return summarize(_scores(model, speller, vocabulary, sentences, max_words))


def _scores(
    model: LanguageModel,
    speller: Speller,
    vocabulary: Vocabulary,
    sentences: Iterable[Words],
    max_words: int | None,
) -> Iterator[SentenceScore]:
    longest = _longest_piece(model, max_words)
    sized = ((words, len(words)) for words in sentences)
    for window in windows(sized, 8 * _BATCH_WORDS, 4096):
        cut = [list(pieces([words], longest)) if longest else [words] for words in window]
        flat = [piece for parts in cut for piece in parts]
        scores: dict[int, SentenceScore] = {}
        for batch in batches_by_length([speller.length(words) for words in flat], _BATCH_WORDS):
            found = _score_batch(model, speller, vocabulary, [flat[i] for i in batch])
            scores.update(zip(batch, found, strict=True))
        ordered = (scores[i] for i in range(len(flat)))
        for words, parts in zip(window, cut, strict=True):
            yield _whole(words, list(islice(ordered, len(parts))))


def _longest_piece(model: LanguageModel, max_words: int | None) -> int | None:
    """An LSTM can read on for ever; a Transformer has so many positions, two for marks."""
    match model.bilm.config.context:
        case TransformerConfig(max_positions=positions):
            return min(max_words or positions, positions - 2, _ATTENDED)
        case _:
            return max_words


def _whole(words: Words, parts: list[SentenceScore]) -> SentenceScore:
    """A sentence from its pieces."""
    if len(parts) == 1:
        return parts[0]
    forward, backward = sum(p.forward for p in parts), sum(p.backward for p in parts)
    return SentenceScore(words, forward, backward, sum(p.unknown for p in parts), len(parts))


@torch.no_grad()
def _score_batch(
    model: LanguageModel, speller: Speller, vocabulary: Vocabulary, sentences: list[Words]
) -> list[SentenceScore]:
    if len(sentences) == 1 and len(sentences[0]) > _BATCH_WORDS and model.bilm.config.has_state:
        forward, backward = _totals(model, speller, vocabulary, [sentences])
        return [SentenceScore(sentences[0], forward, backward, _unknown(sentences[0], vocabulary))]
    device = next(model.parameters()).device
    batch = sentence_batch(sentences, speller, vocabulary)
    arrays = (batch.words.spelled, batch.words.index, batch.words.lengths, batch.ids)
    rows, index, lengths, ids = (torch.from_numpy(a).to(device) for a in arrays)
    h = model.read_sentences(rows, index, lengths)
    log_probs = model.softmax.log_probs(h, prediction_targets(ids, lengths)).double().cpu()
    sizes = [len(words) + 1 for words in sentences]
    ahead, behind = (part.split(sizes) for part in log_probs.chunk(2))
    return [
        SentenceScore(words, float(f.sum()), float(b.sum()), _unknown(words, vocabulary))
        for words, f, b in zip(sentences, ahead, behind, strict=True)
    ]


def _carried(
    model: LanguageModel, speller: Speller, vocabulary: Vocabulary, sentences: Iterable[Words]
) -> Perplexity:
    """The text as a few long rows, each a run of consecutive sentences from zero state."""
    if not model.bilm.config.has_state:
        raise ConfigError("This model is a Transformer: it has no state to carry.")
    forward = backward = 0.0
    n_sentences = n_words = unknown = 0
    sized = ((words, len(words) + 1) for words in sentences)
    for section in windows(sized, _SECTION_WORDS, _SECTION_WORDS):
        n_rows = max(1, min(_CARRY_ROWS, len(section) // 8))
        parts = np.array_split(np.arange(len(section)), n_rows)
        rows = [[section[i] for i in part] for part in parts]
        ahead, behind = _totals(model, speller, vocabulary, rows)
        forward, backward = forward + ahead, backward + behind
        n_sentences, n_words = n_sentences + len(section), n_words + sum(map(len, section))
        unknown += sum(_unknown(words, vocabulary) for words in section)
    return _perplexity(forward, backward, n_sentences, n_words, unknown, n_sentences, 0)


@torch.no_grad()
def _totals(
    model: LanguageModel, speller: Speller, vocabulary: Vocabulary, rows: list[list[Words]]
) -> tuple[float, float]:
    """Forward and backward log-probabilities of rows that are read a few steps at a time."""
    device = next(model.parameters()).device
    both = [[_joined(row, backward=backward) for row in rows] for backward in (False, True)]
    state, totals = model.bilm.zero_state(len(rows)), torch.zeros(2, dtype=torch.float64)
    n_steps = _CARRY_WORDS // len(rows)
    for start in range(0, max(len(read) for read, _ in both[0]), n_steps):
        cut = [[_padded(row, start, n_steps) for row in part] for part in both]
        batch = row_batch(cut, speller, vocabulary)
        spelled, index, targets = (
            torch.from_numpy(np.ascontiguousarray(a)).to(device)
            for a in (batch.spelled, batch.index, batch.targets)
        )
        top, state = model.read_rows(spelled, index, state)
        step = torch.arange(start, start + n_steps).unsqueeze(1)
        for d, part in enumerate(both):
            real = (step < torch.tensor([len(read) for read, _ in part])).to(device)  # (T, B)
            found = model.softmax.log_probs(top[d][real], targets[d][real])
            totals[d] += found.double().sum().cpu()
    return float(totals[0]), float(totals[1])


def _joined(sentences: list[Words], *, backward: bool) -> tuple[Words, Words]:
    sequences = [marked(words, backward=backward) for words in sentences]
    read = [word for sequence in sequences for word in sequence[:-1]]
    return read, [word for sequence in sequences for word in sequence[1:]]


def _padded(row: tuple[Words, Words], start: int, n_steps: int) -> tuple[Words, Words]:
    """T steps of a row; beyond its end it repeats a mark, which is not counted."""
    read, predicted = (words[start : start + n_steps] for words in row)
    spare = [SENTENCE_BEGIN] * (n_steps - len(read))
    return read + spare, predicted + spare


def _unknown(words: Words, vocabulary: Vocabulary) -> int:
    return sum(word not in vocabulary for word in words)


def _perplexity(
    forward: float,
    backward: float,
    n_sentences: int,
    n_words: int,
    unknown: int,
    n_pieces: int,
    cut: int,
) -> Perplexity:
    n = n_words + n_pieces  # predictions in each direction
    if n == 0:
        raise InputError("No sentence to evaluate; expected one per line.")
    means = (forward / n, backward / n, (forward + backward) / (2 * n))
    # the perplexity of a diverged model may be too large for a float
    forward, backward, average = (math.exp(-m) if -m < 700 else math.inf for m in means)
    return Perplexity(forward, backward, average, n_sentences, n_words, unknown, cut)
