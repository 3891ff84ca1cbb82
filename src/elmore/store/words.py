"""A sentence in the store: its words as bytes, and the key, a hash of these bytes."""

from collections.abc import Iterator, Sequence
from hashlib import blake2b
from typing import NamedTuple, cast

from elmore.embedding import Sentence, checked, read_sentence, read_words
from elmore.errors import InputError

KEY_BYTES = 16


class PackedSentence(NamedTuple):
    """A sentence that has been read, and its words as bytes."""

    words: list[str]
    packed: bytes
    spans: list[tuple[int, int]] | None
    """The position of each word, if the sentence was a string."""
    text: str | None = None
    """The sentence, if it was a string."""


def packed_sentence(sentence: Sentence) -> PackedSentence:
    """A string is tokenized, a list of words is used as it is."""
    if type(sentence) is list:  # the common case: `pack` checks the words and is faster
        return PackedSentence(list(sentence), pack(sentence), None)
    read = read_sentence(sentence, 0)
    text = sentence if isinstance(sentence, str) else None
    return PackedSentence(read.words, pack(read.words), read.spans, text)


def packed_sentences(sentences: object) -> Iterator[PackedSentence]:
    """One after another; an error names the sentence's position."""
    for position, sentence in enumerate(checked(sentences)):
        try:
            read = packed_sentence(cast(Sentence, sentence))
        except InputError as error:
            said = str(error).replace("Sentence 0", f"Sentence {position}", 1)
            raise InputError(said) from None
        yield read


def pack(words: Sequence[str]) -> bytes:
    """Each word and a line end. Different sentences never give the same bytes."""
    try:
        text = "\n".join(words)
    except TypeError:
        read_words([words])  # raises an error that names the bad word
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
    """Hashes of packed sentences, different for each model."""

    def __init__(self, fingerprint: str):
        self._model = blake2b(fingerprint.encode(), digest_size=16).digest()

    def of(self, packed: bytes) -> bytes:
        return blake2b(packed, digest_size=KEY_BYTES, person=self._model).digest()


def shown(words: Sequence[str], most: int = 60) -> str:
    """A sentence, shortened for a message."""
    text = " ".join(words).encode("utf-8", "replace").decode()
    return repr(text if len(text) <= most else text[: most - 1] + "…")
