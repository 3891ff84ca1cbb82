"""Sentences to predict for: raw text, one sentence per line, split into words by the tokenizer."""

from pathlib import Path

from elmore.errors import InputError
from elmore.files.sentence_files import SentenceFiles
from elmore.tasks.task import Corpus, Words


def read_plain_sentences(path: Path) -> Corpus[Words]:
    """One sentence per line, and how many lines were blank."""
    lines = [tuple(words) for words in SentenceFiles([path], tokenize=True, keep_blank=True)]
    sentences = [words for words in lines if words]
    if not sentences:
        raise InputError(f"{path}: no words found; expected text, one sentence per line.")
    blank = len(lines) - len(sentences)
    return Corpus(sentences, (f"{blank:,} blank lines left out",) if blank else ())
