"""Propositions of PropBank: a predicate and its arguments, as spans of a sentence. `C-ARG1` goes on
with the last ARG1, `R-ARG1` refers to it, and `V` is the predicate itself.
"""

from dataclasses import dataclass

from elmore.tasks.corpus import Words
from elmore.tasks.spans import Span

PREDICATE = "V"
CONTINUES = "C-"


@dataclass(frozen=True, slots=True)
class Proposition:
    """The pieces of the arguments do not overlap and are in the order of the text."""

    predicate: int
    """The place of the word."""
    lemma: str
    pieces: tuple[Span, ...]
    """With the predicate's own, if it is marked."""
    is_verb: bool = True


@dataclass(frozen=True, slots=True)
class RoleSentence:
    """A sentence and its propositions; None where the predicates have to be found."""

    words: Words
    propositions: tuple[Proposition, ...] | None = None


@dataclass(frozen=True, slots=True)
class Argument:
    """A role and the words that have it: several pieces if it is discontinuous."""

    role: str
    pieces: tuple[tuple[int, int], ...]
    """Start and end of each, the end exclusive."""


def arguments_of(pieces: tuple[Span, ...]) -> list[Argument]:
    """A piece `C-X` belongs to the last X before it; without one it is an X of its own."""
    found: list[Argument] = []
    last: dict[str, int] = {}  # where in `found` the last argument of each role is
    for start, end, label in pieces:
        role = label.removeprefix(CONTINUES)
        if label != role and role in last:
            before = found[last[role]]
            found[last[role]] = Argument(role, (*before.pieces, (start, end)))
        else:
            last[role] = len(found)
            found.append(Argument(role, ((start, end),)))
    return found
