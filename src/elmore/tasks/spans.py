"""Spans and the tags that encode them. IOB1, BIO, BIOES and BILOU are all read, in conlleval's way;
only BIO and BIOES are written.
"""

from collections.abc import Sequence
from typing import Literal, NamedTuple

Encoding = Literal["bioes", "bio"]
OUTSIDE = "O"

_ENDS = "ESLU"  # a span ends with these,
_BEGINS = "BSU"  # begins with these, and goes on with I, E or L
_PREFIXES = "BIESLU"


class Span(NamedTuple):
    """Words start … end - 1 are one `kind`."""

    start: int
    end: int
    kind: str


def is_span_tag(tag: str) -> bool:
    """`O`, or a prefix, a hyphen and a kind."""
    return tag == OUTSIDE or (len(tag) > 2 and tag[0] in _PREFIXES and tag[1] == "-")


def spans_of(tags: Sequence[str]) -> list[Span]:
    """A span begins at its prefix, or where another kind begins without one (IOB1)."""
    spans = []
    start, kind = 0, ""
    for i, tag in enumerate([*tags, OUTSIDE]):
        prefix, new = tag[0], tag[2:]
        if kind and (new != kind or prefix in _BEGINS):
            spans.append(Span(start, i, kind))
            kind = ""
        if new and not kind:
            start, kind = i, new
        if kind and prefix in _ENDS:
            spans.append(Span(start, i + 1, kind))
            kind = ""
    return spans


def tags_of(spans: Sequence[Span], n_words: int, encoding: Encoding) -> list[str]:
    """Spans as one tag per word."""
    tags = [OUTSIDE] * n_words
    last = {"bioes": "E", "bio": "I"}[encoding]
    alone = {"bioes": "S", "bio": "B"}[encoding]
    for start, end, kind in spans:
        inside = ["I"] * (end - start - 2)
        prefixes = [alone] if end - start == 1 else ["B", *inside, last]
        tags[start:end] = [f"{prefix}-{kind}" for prefix in prefixes]
    return tags


def span_labels(kinds: Sequence[str], encoding: Encoding) -> list[str]:
    """Every tag that spans of these kinds may need."""
    prefixes = {"bioes": "BIES", "bio": "BI"}[encoding]
    return [OUTSIDE, *(f"{prefix}-{kind}" for kind in kinds for prefix in prefixes)]


def may_follow(before: str, after: str, encoding: Encoding) -> bool:
    """Whether one tag may come before another; the end of a sentence counts as outside."""
    is_open = before[0] in "BI"
    if after[0] in "IE":
        return is_open and before[2:] == after[2:]
    return not (is_open and encoding == "bioes")


def allowed_pairs(labels: Sequence[str], encoding: Encoding) -> list[list[bool]]:
    """For a CRF over K labels: what may follow what, (K + 1, K + 1). The last row and column are
    the sentence's beginning and end, which are outside of any span."""
    names = [*labels, OUTSIDE]
    return [[may_follow(before, after, encoding) for after in names] for before in names]
