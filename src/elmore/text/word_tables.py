"""Whether a file that should be text is a table of words instead: CoNLL-U, or words with tags. Read
as text, every row would be a sentence.
"""

import re
from collections.abc import Iterable
from enum import Enum

CONLLU_COLUMNS = 10
CONLLU_NUMBER = re.compile(r"[0-9]{1,9}([-.][0-9]{1,9})?")
"""Of a word, a range of words or an empty node."""
_TAG = re.compile(r"O|[BIESLU]-\S+")
_LONGEST_ROW = 2_000  # characters; what is longer is text, and is not looked at to its end
_LEAST_ROWS = 5  # fewer may be text that happens to look so


class Table(Enum):
    """The kinds that are told apart."""

    CONLLU = "CoNLL-U"
    TAGGED = "words and tags in columns"


def table_of(lines: Iterable[str]) -> Table | None:
    """The kind of table that the first lines of a file are part of, if any."""
    cut = (line[:_LONGEST_ROW] for line in lines)
    rows = [line for line in cut if line.strip() and not line.startswith(("#", "-DOCSTART-"))]
    if rows and is_conllu_row(rows[0]):
        return Table.CONLLU
    fields = [row.split() for row in rows]
    same_width = {len(row) for row in fields} in ({2}, {3}, {4})
    if len(rows) >= _LEAST_ROWS and same_width and all(_TAG.fullmatch(row[-1]) for row in fields):
        return Table.TAGGED
    return None


def is_conllu_row(line: str) -> bool:
    fields = line.split("\t")
    return len(fields) == CONLLU_COLUMNS and CONLLU_NUMBER.fullmatch(fields[0]) is not None
