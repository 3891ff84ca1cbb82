"""Propositions in columns, one for each, with brackets: `(ARG1*` begins an argument, `*)` ends it.

CoNLL-2005 has the lemma of each predicate in a column (`-` for other words), and the propositions
in the columns after it; the words, if any, are in the first column. CoNLL-2012 has eleven fixed
columns, then the propositions, then the coreference.
"""

import re
from collections.abc import Iterator, Sequence
from itertools import zip_longest
from pathlib import Path

from elmore.errors import InputError
from elmore.tasks.propositions import PREDICATE, Proposition, RoleSentence
from elmore.tasks.readers.column_blocks import Block, column_blocks
from elmore.tasks.spans import Span

NOTHING = "-"
_CELL = re.compile(r"(?:\(([^\s()*]+))?\*(?:([^\s()*]*)(\)))?")
_WORD, _POS, _FRAME, _FIRST = 3, 4, 7, 11  # columns of CoNLL-2012
_COMMENT = "#"


def read_props(gold: Path, predicted: Path) -> tuple[list[list[Proposition]], ...]:
    """The propositions of two files as srl-eval.pl reads them: lemmas in the first column."""
    blocks = zip_longest(_some(gold), _some(predicted))
    pairs = [_both(*pair, gold, predicted) for pair in blocks]
    return [want for want, _ in pairs], [have for _, have in pairs]


def _both(
    gold: Block | None, found: Block | None, gold_path: Path, path: Path
) -> tuple[list[Proposition], list[Proposition]]:
    if gold is None or found is None:
        longer, shorter = (found, gold_path) if gold is None else (gold, path)
        assert longer is not None
        raise InputError(f"{longer.where()}: {shorter} ends before this sentence.")
    if len(gold.rows) != len(found.rows):
        raise InputError(
            f"{found.where()}: a sentence of {len(found.rows)} words, but {gold.where()} has "
            f"{len(gold.rows)}; expected the same sentences in both files."
        )
    return _propositions(gold, 0), _propositions(found, 0)


def read_conll2005(path: Path, predicate: int | None = None) -> Iterator[RoleSentence]:
    """Words in the first column. `predicate` is the column of the predicates' lemmas; None finds
    it: the number of lemmas in it is that of the columns after it."""
    blocks = _some(path)
    column = _lemma_column(blocks, path) if predicate is None else predicate
    for block in blocks:
        if block.width <= column:
            raise InputError(
                f"{block.where()}: {block.width} columns; expected the predicates in column "
                f"{column}, counted from 0 (task.predicate)."
            )
        yield RoleSentence(block.column(0), tuple(_propositions(block, column)))


def read_conll2012(path: Path) -> Iterator[RoleSentence]:
    """A predicate's place is where its column has `(V*`."""
    for block in _some(path, _COMMENT):
        if block.width <= _FIRST:
            raise InputError(
                f"{block.where()}: {block.width} columns; CoNLL-2012 has {_FIRST + 1} or more."
            )
        columns = range(_FIRST, block.width - 1)
        found = [_of_column(block, column) for column in columns]
        yield RoleSentence(block.column(_WORD), tuple(found))


def _of_column(block: Block, column: int) -> Proposition:
    pieces = _pieces(block, column)
    places = [piece.start for piece in pieces if piece.kind == PREDICATE]
    if len(places) != 1:
        raise InputError(
            f"{block.where()}: column {column + 1} has {len(places)} predicates (V*); expected one."
        )
    place = places[0]
    row = block.rows[place]
    return Proposition(place, row[_FRAME - 1], pieces, row[_POS].startswith("V"))


def _some(path: Path, comment: str | None = None) -> list[Block]:
    blocks = list(column_blocks(path, comment))
    if not blocks:
        raise InputError(f"{path}: no sentence found; expected one word per line, in columns.")
    return blocks


def _lemma_column(blocks: Sequence[Block], path: Path) -> int:
    """The only column after the words that can be that of the lemmas in every sentence."""
    possible = set(range(1, min(block.width for block in blocks)))
    for block in blocks:
        possible = {n for n in possible if _fits(block, n)}
    if len(possible) != 1:
        raise InputError(
            f"{path}: {len(possible) or 'no'} columns can be that of the predicates: as many "
            "lemmas in it (and '-' elsewhere) as columns after it; set task.predicate, from 0."
        )
    return possible.pop()


def _fits(block: Block, column: int) -> bool:
    """As many lemmas as columns after it, each with the predicate's brackets where the lemma is."""
    places = [i for i, lemma in enumerate(block.column(column)) if lemma != NOTHING]
    after = range(column + 1, block.width)
    return len(places) == len(after) and all(
        block.rows[place][n].startswith(f"({PREDICATE}*")
        for place, n in zip(places, after, strict=True)
    )


def _propositions(block: Block, column: int) -> list[Proposition]:
    lemmas = block.column(column)
    places = [i for i, lemma in enumerate(lemmas) if lemma != NOTHING]
    n_columns = block.width - column - 1
    if len(places) != n_columns:
        raise InputError(
            f"{block.where()}: {len(places)} predicates in column {column + 1}, but {n_columns} "
            "columns of arguments after it; expected one for each predicate."
        )
    return [
        Proposition(place, lemmas[place], _pieces(block, column + 1 + n))
        for n, place in enumerate(places)
    ]


def _pieces(block: Block, column: int) -> tuple[Span, ...]:
    """The spans between the brackets of a column."""
    found: list[Span] = []
    opened: tuple[int, str] | None = None
    for i, cell in enumerate(block.column(column)):
        where = f"{block.where(i)}, column {column + 1}"
        if (match := _CELL.fullmatch(cell)) is None:
            raise InputError(
                f"{where}: {cell[:40]!r}; expected '*', '(ROLE*', '*)' or '(ROLE*)', one argument "
                "at a time."
            )
        begins, named, ends = match.groups()
        if begins:
            if opened is not None:
                raise InputError(
                    f"{where}: {begins} begins inside {opened[1]}, which begins at "
                    f"{block.where(opened[0])}; arguments must not overlap."
                )
            opened = (i, begins)
        if ends:
            if opened is None:
                raise InputError(f"{where}: a bracket closes that was not opened.")
            start, role = opened
            if named and named != role:
                raise InputError(f"{where}: {named} is closed, but {role} is open.")
            found.append(Span(start, i + 1, role))
            opened = None
    if opened is not None:
        raise InputError(
            f"{block.where(opened[0])}, column {column + 1}: the bracket of {opened[1]} is not "
            "closed before the sentence ends."
        )
    return tuple(found)
