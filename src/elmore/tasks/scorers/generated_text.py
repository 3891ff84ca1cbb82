"""Scores of written text: BLEU and chrF by sacrebleu, whose signature goes with the figures, and
ROUGE by rouge-score.
"""

import re
from collections.abc import Sequence
from typing import Any

from elmore.errors import ConfigError
from elmore.tasks.scorers.score import Score
from elmore.text.subwords import INSTALL
from elmore.text.tokenize import HAN, HIRAGANA, KATAKANA

_UNSPACED = re.compile(f"([{HAN}{HIRAGANA}{KATAKANA}])")


def bleu_score(
    outputs: Sequence[str], references: Sequence[Sequence[str]], tokenize: str, lowercase: bool
) -> Score:
    """Of a whole corpus. `tokenize` is sacrebleu's name: 13a, zh, none …"""
    try:
        from sacrebleu.metrics.bleu import BLEU
        from sacrebleu.metrics.chrf import CHRF
    except ImportError:
        raise ConfigError(f"BLEU needs `sacrebleu`, which is not installed: {INSTALL}.") from None
    streams = _streams(references)
    try:
        bleu = BLEU(tokenize=tokenize, lowercase=lowercase)
    except Exception as error:  # it raises what its tokenizers raise
        raise ConfigError(f"bleu_tokenize={tokenize}: {error!s:.200}") from None
    chrf = CHRF(lowercase=lowercase)
    figures = {
        "BLEU": bleu.corpus_score(list(outputs), streams).score,
        "chrF": chrf.corpus_score(list(outputs), streams).score,
    }
    return Score(figures, (f"BLEU {bleu.get_signature()}", f"chrF {chrf.get_signature()}"))


def _streams(references: Sequence[Sequence[str]]) -> Any:
    """One list per number of the reference, with None where a text has fewer."""
    most = max(map(len, references))
    return [[own[i] if i < len(own) else None for own in references] for i in range(most)]


def rouge_score(outputs: Sequence[str], references: Sequence[Sequence[str]]) -> Score:
    """F of ROUGE-1, -2 and -L, with stems. Of several references the one with the highest ROUGE-1
    counts, and its own -2 and -L."""
    try:
        from rouge_score.rouge_scorer import RougeScorer
        from rouge_score.tokenizers import DefaultTokenizer
    except ImportError:
        raise ConfigError(f"ROUGE needs `rouge-score`, not installed: {INSTALL}.") from None
    names = {"ROUGE-1": "rouge1", "ROUGE-2": "rouge2", "ROUGE-L": "rougeL"}
    tokens = _Tokens(DefaultTokenizer(use_stemmer=True))
    scorer = RougeScorer([*names.values()], tokenizer=tokens)
    sums = dict.fromkeys(names, 0.0)
    for output, own in zip(outputs, references, strict=True):
        found: list[dict[str, Any]] = [scorer.score(reference, output) for reference in own]
        best = max(found, key=lambda scores: scores["rouge1"].fmeasure)
        for name, theirs in names.items():
            sums[name] += best[theirs].fmeasure
    figures = {name: 100 * total / max(1, len(outputs)) for name, total in sums.items()}
    notes = ["ROUGE by rouge-score, F, with stems, best reference by ROUGE-1"]
    if any(_UNSPACED.search(text) for own in references for text in own):
        notes.append("every character of Chinese or Japanese counts as a word")
    unread = sum(not any(map(tokens.tokenize, own)) for own in references)
    if unread:
        notes.append(f"{unread:,} texts count as 0: rouge-score reads a-z and 0-9 alone")
    return Score(figures, tuple(notes))


class _Tokens:
    """The words of rouge-score, which are of a-z and 0-9 alone; and of scripts without spaces,
    which it leaves out, every character."""

    def __init__(self, own: Any):
        self.own = own

    def tokenize(self, text: str) -> list[str]:
        """Of text without such a script: exactly rouge-score's words."""
        between = _UNSPACED.split(text)  # and at odd places the characters themselves
        return [
            token
            for i, part in enumerate(between)
            for token in ([part] if i % 2 else self.own.tokenize(part))
        ]


def lead(source: Sequence[str], n_words: int) -> str:
    """The baseline of a summary: the first words of the text."""
    return " ".join(source[:n_words])
