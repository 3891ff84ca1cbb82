"""Sentences to predict for: text, one a line, split into words by the tokeniser."""

from pathlib import Path

from elmore.errors import InputError
from elmore.files.text_file import read_lines
from elmore.tasks.task import Corpus, Words
from elmore.text.tokenize import tokenize


def read_plain_sentences(path: Path) -> Corpus[Words]:
    """A sentence a line, and how many lines were blank."""
    lines = [tuple(token.text for token in tokenize(line)) for line in read_lines(path)]
    sentences = [words for words in lines if words]
    if not sentences:
        raise InputError(f"{path}: no words found; expected text, a sentence a line.")
    blank = len(lines) - len(sentences)
    return Corpus(sentences, (f"{blank:,} blank lines left out",) if blank else ())
