"""How well a biLM predicts a text, by the full softmax. Forward, `</S>` is predicted after the last
word and `<S>` never; backward it is the other way round, so each direction has n + 1 predictions.
"""

# S = 2 directions, T steps, B rows, N predictions
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from elmore.checkpoint.bilm import bilm_of, softmax_of, speller_of
from elmore.checkpoint.checkpoint import Checkpoint
from elmore.errors import ConfigError, FormatError, InputError
from elmore.models.language_model import LanguageModel, prediction_targets
from elmore.nn.softmax import AdaptiveSoftmax, Softmax
from elmore.pretrain.batches import marked, row_batch, sentence_batch
from elmore.pretrain.sentences import Words
from elmore.text.batching import batches_by_length, windows
from elmore.text.reader import Speller
from elmore.text.vocabulary import Vocabulary

_BATCH_WORDS = 4096
_CARRY_ROWS, _CARRY_STEPS = 16, 40


@dataclass(frozen=True, slots=True)
class SentenceScore:
    """One sentence's log-probabilities, natural logarithm."""

    words: Words
    forward: float
    backward: float
    unknown: int
    """Words that are not in the vocabulary: predicted as <UNK>."""


@dataclass(frozen=True, slots=True)
class Perplexity:
    """Weighted by predictions: exp of the mean negative log-probability."""

    forward: float
    backward: float
    average: float
    sentences: int
    words: int
    unknown: int


def language_model(checkpoint: Checkpoint, source: str) -> LanguageModel:
    """A checkpoint that can predict, or what it lacks."""
    softmax = softmax_of(checkpoint)
    if softmax is None or checkpoint.vocabulary is None:
        lacks = "softmax" if softmax is None else "vocabulary (vocab.txt)"
        raise FormatError(
            f"{source}: has no {lacks}, so it cannot predict words; most published ELMos come "
            "without one. Train one with: elmore pretrain CORPUS --from SOURCE."
        )
    plain = softmax if isinstance(softmax, AdaptiveSoftmax) else Softmax.from_linear(softmax)
    return LanguageModel(bilm_of(checkpoint), plain)


def evaluate(
    checkpoint: Checkpoint, sentences: Iterable[Words], source: str
) -> Iterator[SentenceScore]:
    """Each sentence by itself, streamed in input order."""
    model = language_model(checkpoint, source).eval()
    assert checkpoint.vocabulary is not None
    yield from _scores(model, speller_of(checkpoint), checkpoint.vocabulary, sentences)


def summarize(scores: Iterable[SentenceScore]) -> Perplexity:
    """Token-weighted perplexities of many sentences."""
    forward = backward = 0.0
    n_sentences = n_words = unknown = 0
    for score in scores:
        forward, backward = forward + score.forward, backward + score.backward
        n_sentences, n_words = n_sentences + 1, n_words + len(score.words)
        unknown += score.unknown
    return _perplexity(forward, backward, n_sentences, n_words, unknown)


def perplexity(
    model: LanguageModel,
    vocabulary: Vocabulary,
    sentences: Sequence[Words],
    *,
    speller: Speller,
    carry: bool = False,
) -> Perplexity:
    """Of sentences in memory; `carry` reads them as one text, state kept from one to the next."""
    if carry:
        return _carried(model, vocabulary, sentences, speller)
    return summarize(_scores(model, speller, vocabulary, sentences))


def _scores(
    model: LanguageModel, speller: Speller, vocabulary: Vocabulary, sentences: Iterable[Words]
) -> Iterator[SentenceScore]:
    sized = ((words, len(words)) for words in sentences)
    for window in windows(sized, 8 * _BATCH_WORDS, 4096):
        scores: dict[int, SentenceScore] = {}
        for batch in batches_by_length([speller.length(words) for words in window], _BATCH_WORDS):
            found = _score_batch(model, speller, vocabulary, [window[i] for i in batch])
            scores.update(zip(batch, found, strict=True))
        yield from (scores[i] for i in range(len(window)))


@torch.no_grad()
def _score_batch(
    model: LanguageModel, speller: Speller, vocabulary: Vocabulary, sentences: list[Words]
) -> list[SentenceScore]:
    device = next(model.parameters()).device
    batch = sentence_batch(sentences, speller, vocabulary)
    arrays = (batch.words.spelled, batch.words.index, batch.words.lengths, batch.ids)
    rows, index, lengths, ids = (torch.from_numpy(a).to(device) for a in arrays)
    h = model.read_sentences(rows, index, lengths)
    log_probs = model.softmax.log_probs(h, prediction_targets(ids, lengths)).double().cpu()
    sizes = [len(words) + 1 for words in sentences]
    forward, backward = (part.split(sizes) for part in log_probs.chunk(2))
    return [
        SentenceScore(words, float(f.sum()), float(b.sum()), _unknown(words, vocabulary))
        for words, f, b in zip(sentences, forward, backward, strict=True)
    ]


@torch.no_grad()
def _carried(
    model: LanguageModel, vocabulary: Vocabulary, sentences: Sequence[Words], speller: Speller
) -> Perplexity:
    """The text as a few long rows, each a run of consecutive sentences from zero state."""
    if not model.bilm.config.has_state:
        raise ConfigError("This model is a Transformer: it has no state to carry.")
    device = next(model.parameters()).device
    n_rows = max(1, min(_CARRY_ROWS, len(sentences) // 8))
    sections = np.array_split(np.arange(len(sentences)), n_rows)
    both = [
        [_joined([sentences[i] for i in part], backward=backward) for part in sections]
        for backward in (False, True)
    ]
    state, totals = model.bilm.zero_state(n_rows), torch.zeros(2, dtype=torch.float64)
    longest = max(len(read) for read, _ in both[0])
    for start in range(0, longest, _CARRY_STEPS):
        cut = [[_padded(row, start) for row in rows] for rows in both]
        batch = row_batch(cut, speller, vocabulary)
        rows, index, targets = (
            torch.from_numpy(np.ascontiguousarray(a)).to(device)
            for a in (batch.spelled, batch.index, batch.targets)
        )
        top, state = model.read_rows(rows, index, state)
        for d, part in enumerate(both):
            real = _real(part, start).to(device)  # (T, B)
            totals[d] += (
                model.softmax.log_probs(top[d][real], targets[d][real]).double().sum().cpu()
            )
    unknown = sum(_unknown(words, vocabulary) for words in sentences)
    n_words = sum(len(words) for words in sentences)
    return _perplexity(float(totals[0]), float(totals[1]), len(sentences), n_words, unknown)


def _joined(sentences: list[Words], *, backward: bool) -> tuple[Words, Words]:
    sequences = [marked(words, backward=backward) for words in sentences]
    read = [word for sequence in sequences for word in sequence[:-1]]
    return read, [word for sequence in sequences for word in sequence[1:]]


def _padded(row: tuple[Words, Words], start: int) -> tuple[Words, Words]:
    """T steps of a row; beyond its end it repeats a mark, which is not counted."""
    read, predicted = (words[start : start + _CARRY_STEPS] for words in row)
    spare = [marked([], backward=False)[0]] * (_CARRY_STEPS - len(read))
    return read + spare, predicted + spare


def _real(rows: list[tuple[Words, Words]], start: int) -> torch.Tensor:
    """Which of T steps each row really has."""
    step = torch.arange(start, start + _CARRY_STEPS).unsqueeze(1)
    return step < torch.tensor([len(read) for read, _ in rows])  # (T, B)


def _unknown(words: Words, vocabulary: Vocabulary) -> int:
    return sum(word not in vocabulary for word in words)


def _perplexity(
    forward: float, backward: float, n_sentences: int, n_words: int, unknown: int
) -> Perplexity:
    n = n_words + n_sentences
    if n == 0:
        raise InputError("No sentence to evaluate; expected one per line.")
    means = (forward / n, backward / n, (forward + backward) / (2 * n))
    # the perplexity of a diverged model may be too large for a float
    forward, backward, average = (math.exp(-m) if -m < 700 else math.inf for m in means)
    return Perplexity(forward, backward, average, n_sentences, n_words, unknown)
