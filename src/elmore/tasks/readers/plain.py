"""Sentences to predict for: text, one a line, split into words by the tokeniser."""

from collections.abc import Iterator
from pathlib import Path

from elmore.tasks.task import Words
from elmore.text.corpus import read_lines
from elmore.text.tokenize import tokenize


def read_plain_sentences(path: Path) -> Iterator[Words]:
    """Blank lines are none."""
    for line in read_lines(path):
        if words := tuple(token.text for token in tokenize(line)):
            yield words
