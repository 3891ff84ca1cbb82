"""Sentences to predict for: raw text, one sentence per line, split into words by the tokenizer."""

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from elmore.errors import InputError
from elmore.files.sentence_files import SentenceFiles
from elmore.tasks.task import Corpus, Words

E = TypeVar("E")


def read_plain_sentences(path: Path, example: Callable[[Words], E]) -> Corpus[E]:
    """One example per line, and a note on the blank lines."""
    text = SentenceFiles([path], tokenize=True, lines="sentence", keep_blank=True)
    lines = [tuple(words) for words in text]
    examples = [example(words) for words in lines if words]
    if not examples:
        raise InputError(f"{path}: no words found; expected text, one sentence per line.")
    blank = len(lines) - len(examples)
    return Corpus(examples, (f"{blank:,} blank lines left out",) if blank else ())
