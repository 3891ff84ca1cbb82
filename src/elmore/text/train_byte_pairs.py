"""Byte pairs from word counts: bytes first, then the most frequent pair of pieces is joined again
and again. The same counts always give the same pieces: ties go to the pair that sorts first.
"""

from collections.abc import Mapping, Sequence

from elmore.text.train_wordpiece import Joiner, Pair


def byte_characters() -> list[str]:
    """A printable character for each byte, as GPT-2 has them: a byte that is a printable Latin-1
    character is that character, the others are characters from U+0100 on."""
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    others = iter(range(0x100, 0x200))
    return [chr(byte if byte in printable else next(others)) for byte in range(256)]


def train_byte_pairs(
    counts: Mapping[str, int], size: int, marks: Sequence[str], *, min_count: int = 2
) -> tuple[list[str], list[Pair]]:
    """`counts` are of words in `byte_characters`. Returns at most `size` pieces (marks, bytes,
    joined pairs in the order found) and the pairs."""
    found = dict.fromkeys([*marks, *byte_characters()])
    merges: list[Pair] = []
    joiner = Joiner([(list(word), counts[word]) for word in sorted(counts) if word], prefix="")
    while len(found) < size and (pair := joiner.join(min_count)) is not None:
        merges.append(pair)
        found.setdefault(joiner.joined(pair))
    return list(found), merges
