"""From what a client sends to words, and no further than the limits allow."""

from collections.abc import Iterable

from elmore.embedding import ReadSentence, read_sentence
from elmore.serve.config import ServeConfig
from elmore.serve.problems import too_large


def read_all(sentences: Iterable[str | list[str]], config: ServeConfig) -> list[ReadSentence]:
    """All of a request's, or the refusal of the first word too many."""
    reads: list[ReadSentence] = []
    n_words = 0
    for sentence in sentences:
        reads.append(read_sentence(sentence, len(reads)))
        n_words += len(reads[-1].words)
        if len(reads) > config.max_sentences:
            raise too_large("sentences or more", len(reads), config.max_sentences)
        if n_words > config.max_words:
            raise too_large("words or more", n_words, config.max_words)
    return reads
