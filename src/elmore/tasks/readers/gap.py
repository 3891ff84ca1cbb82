"""GAP's tab-separated files: a text, a pronoun and two names with their places in characters, and
whether the pronoun refers to each. And files of answers: an id and two of TRUE or FALSE.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from elmore.errors import InputError
from elmore.tasks.readers.coref import Document, Mention
from elmore.tasks.readers.lines import placed_lines
from elmore.tasks.scorers.gap import FEMININE, MASCULINE, GoldReferents, Referents
from elmore.text.sentences import sentences

COLUMNS = ("ID", "Text", "Pronoun", "Pronoun-offset", "A", "A-offset", "A-coref", "B", "B-offset",
           "B-coref", "URL")  # fmt: skip
_ANSWERS = {"true": True, "false": False}


@dataclass(frozen=True, slots=True)
class GapText:
    """A text as a document, and the words of its pronoun and its names."""

    id: str
    document: Document
    pronoun: Mention
    a: Mention
    b: Mention
    gold: GoldReferents


def read_gap(path: Path) -> list[GapText]:
    found = [_text(fields, where) for where, fields in _rows(path, len(COLUMNS))]
    if not found:
        raise InputError(f"{path}: no text found; expected GAP's columns {', '.join(COLUMNS)}.")
    if len({text.id for text in found}) < len(found):
        raise InputError(f"{path}: the same ID occurs twice; expected each once.")
    return found


def read_gap_answers(path: Path) -> dict[str, Referents]:
    """Lines of an id and two answers, or GAP's own columns."""
    answers: dict[str, Referents] = {}
    for where, fields in _rows(path, 3, len(COLUMNS)):
        given = (fields[1], fields[2]) if len(fields) == 3 else (fields[6], fields[9])
        if fields[0] in answers:
            raise InputError(f"{where}: a second answer for {fields[0]!r}; expected one.")
        answers[fields[0]] = Referents(*(_answer(text, where) for text in given))
    return answers


def _rows(path: Path, *widths: int) -> Iterator[tuple[str, list[str]]]:
    for number, (where, line) in enumerate(placed_lines(path)):
        fields = line.split("\t")
        if len(fields) not in widths:
            expected = " or ".join(map(str, widths))
            raise InputError(f"{where}: {len(fields)} columns; expected {expected}, split by tabs.")
        if number or fields[0] != COLUMNS[0]:
            yield where, fields


def _text(fields: list[str], where: str) -> GapText:
    name, text, pronoun, pronoun_at, a, a_at, a_coref, b, b_at, b_coref, _ = fields
    if pronoun.lower() not in FEMININE | MASCULINE:
        known = ", ".join(sorted(FEMININE | MASCULINE))
        raise InputError(f"{where}: the pronoun {pronoun[:20]!r}; expected one of {known}.")
    parts = sentences(text)
    tokens = [token for part in parts for token in part]
    starts, ends = [token.start for token in tokens], [token.end for token in tokens]

    def words(wanted: str, at: str) -> Mention:
        """Those that an expression covers, also in part."""
        start = int(at) if at.isdecimal() and len(at) < 10 else -1
        if not wanted.strip() or not text.startswith(wanted, max(start, 0)) or start < 0:
            raise InputError(f"{where}: {wanted[:20]!r} is not at character {at[:20]} of the text.")
        first = bisect_right(ends, start)
        return first, max(first, bisect_left(starts, start + len(wanted)) - 1)

    gold = GoldReferents(pronoun, Referents(_answer(a_coref, where), _answer(b_coref, where)))
    document = Document(name, tuple(tuple(token.text for token in part) for part in parts))
    return GapText(name, document, words(pronoun, pronoun_at), words(a, a_at), words(b, b_at), gold)


def _answer(text: str, where: str) -> bool:
    try:
        return _ANSWERS[text.strip().lower()]
    except KeyError:
        raise InputError(f"{where}: the answer {text[:20]!r}; expected TRUE or FALSE.") from None
