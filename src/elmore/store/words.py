"""A sentence as the store knows it: its words as bytes, and the key that these hash to."""

from collections.abc import Iterable, Iterator, Sequence
from hashlib import blake2b
from typing import NamedTuple

from elmore.embedding import Sentence, read_words
from elmore.errors import InputError
from elmore.text.tokenize import tokenize

KEY_BYTES = 16


class Read(NamedTuple):
    """A sentence that has been looked at."""

    words: list[str]
    packed: bytes
    spans: list[tuple[int, int]] | None
    """Where each word stands, if the sentence was a string."""


def read_sentence(sentence: Sentence) -> Read:
    """A string is tokenised, a list of words is taken as it is."""
    if isinstance(sentence, str):
        tokens = tokenize(sentence)
        words = [t.text for t in tokens]
        return Read(words, pack(words), [(t.start, t.end) for t in tokens])
    # The common case is checked by `pack`, which is quicker than looking at every word.
    words = list(sentence) if type(sentence) is list else read_words([sentence])[0]
    return Read(words, pack(words), None)


def read_all(sentences: object) -> Iterator[Read]:
    """One after another; a complaint says which."""
    if isinstance(sentences, str | bytes) or not isinstance(sentences, Iterable):
        read_words(sentences)  # says what is wrong
        return
    for position, sentence in enumerate(sentences):
        try:
            read = read_sentence(sentence)
        except InputError as error:
            said = str(error).replace("Sentence 0", f"Sentence {position}", 1)
            raise InputError(said) from None
        yield read


def pack(words: Sequence[str]) -> bytes:
    """Each word and an end of line. No two sentences pack alike, whatever their words hold."""
    try:
        text = "\n".join(words)
    except TypeError:
        read_words([words])  # says which word is none
        raise
    if "\\" in text or text.count("\n") >= max(1, len(words)):
        text = "\n".join(word.replace("\\", "\\\\").replace("\n", "\\n") for word in words)
    return (text + "\n" if words else "").encode("utf-8", "surrogatepass")


def unpack(data: bytes) -> list[str]:
    """The words again."""
    text = data.decode("utf-8", "surrogatepass")
    words = text.split("\n")[:-1]
    return [_unescaped(word) for word in words] if "\\" in text else words


def _unescaped(word: str) -> str:
    return "\\".join(part.replace("\\n", "\n") for part in word.split("\\\\"))


class Keys:
    """Hashes of packed sentences, different for every model."""

    def __init__(self, fingerprint: str):
        self._model = blake2b(fingerprint.encode(), digest_size=16).digest()

    def of(self, packed: bytes) -> bytes:
        return blake2b(packed, digest_size=KEY_BYTES, person=self._model).digest()


def shown(words: Sequence[str], most: int = 60) -> str:
    """A sentence as a message names it."""
    text = " ".join(words).encode("utf-8", "replace").decode()
    return repr(text if len(text) <= most else text[: most - 1] + "…")
