"""How well a causal model predicts a text: each line by itself between its marks, by the full
softmax. Perplexity is given per piece, and per word, which can be compared between models whose
pieces differ.
"""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import torch

from elmore.checkpoint.causal import causal_lm, subwords_of
from elmore.checkpoint.checkpoint import Checkpoint
from elmore.errors import InputError
from elmore.models.causal import CausalLM
from elmore.pretrain.sentences import Words
from elmore.text.batching import batches_by_length, windows
from elmore.text.causal_reader import in_reading_order, padded
from elmore.text.subwords import Subwords

_BATCH_PIECES = 4096


@dataclass(frozen=True, slots=True)
class LineScore:
    """One line's log-probability, natural logarithm, its end included."""

    words: Words
    log_prob: float
    pieces: int
    """Predicted, ends included."""
    unknown: int


@dataclass(frozen=True, slots=True)
class CausalPerplexity:
    """exp of the mean negative log-probability; an end of line counts as a piece and as a word."""

    per_piece: float
    per_word: float
    lines: int
    words: int
    pieces: int
    unknown: int


def evaluate_causal(
    checkpoint: Checkpoint, sentences: Iterable[Words], source: str, max_words: int | None = None
) -> Iterator[LineScore]:
    """Streamed in input order. What is too long for a Transformer is read in parts, and so is what
    has more than `max_words` words."""
    model, subwords = causal_lm(checkpoint, source).eval(), subwords_of(checkpoint)
    sized = ((words, len(words)) for words in sentences)
    for window in windows(sized, 8 * _BATCH_PIECES, 4096):
        yield from _scores(model, subwords, window, max_words)


def _scores(
    model: CausalLM, subwords: Subwords, lines: list[Words], max_words: int | None
) -> list[LineScore]:
    rows, owners = [], []
    for i, words in enumerate(lines):
        size = max_words or max(1, len(words))
        for part in [words[j : j + size] for j in range(0, max(1, len(words)), size)]:
            pieces = [piece for word in subwords.pieces(part) for piece in word]
            pieces = in_reading_order(pieces, model.causal.config.backward)
            for cut in _parts(pieces, model):
                rows.append([subwords.begin, *cut, subwords.end])
                owners.append(i)
    totals, counts = [0.0] * len(lines), [0] * len(lines)
    for batch in batches_by_length([len(row) for row in rows], _BATCH_PIECES):
        ids, lengths = (torch.from_numpy(a) for a in padded([rows[i] for i in batch]))
        device = next(model.parameters()).device
        found = model.log_probs(ids.to(device), lengths.to(device)).double().cpu()
        for i, part in zip(batch, found.split((lengths - 1).tolist()), strict=True):
            totals[owners[i]] += float(part.sum())
            counts[owners[i]] += len(part)
    return [
        LineScore(words, total, count, sum(subwords.unknown(word) for word in words))
        for words, total, count in zip(lines, totals, counts, strict=True)
    ]


def _parts(pieces: list[int], model: CausalLM) -> list[list[int]]:
    most = model.causal.config.max_positions
    size = max(1, len(pieces)) if most is None else most - 1
    return [pieces[i : i + size] for i in range(0, max(1, len(pieces)), size)]


def summarize_causal(scores: Iterable[LineScore]) -> CausalPerplexity:
    total, lines, words, pieces, unknown = 0.0, 0, 0, 0, 0
    for score in scores:
        total, lines = total + score.log_prob, lines + 1
        words, pieces = words + len(score.words), pieces + score.pieces
        unknown += score.unknown
    if not lines:
        raise InputError("No sentence to evaluate; expected one per line.")
    # the perplexity of a diverged model may be too large for a float
    per_piece, per_word = (
        math.exp(-total / n) if -total / n < 700 else math.inf for n in (pieces, words + lines)
    )
    return CausalPerplexity(per_piece, per_word, lines, words, pieces, unknown)
