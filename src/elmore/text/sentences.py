"""A paragraph to sentences, by a few rules over its words: a final mark ends a sentence, with the
quotes and brackets that close right after it, unless the next words continue the sentence.
"""

from collections.abc import Sequence

from elmore.text.tokenize import STARTERS, TITLES, Token, tokenize

ENDS_ALWAYS = frozenset("。！？｡।॥۔؟።")
ENDS = frozenset(".!?…") | ENDS_ALWAYS
CLOSERS = frozenset("'\"’”»›)]}_*」』）】》〉］｝") | {"''", "’’"}
OPENERS = frozenset("'\"‘“„‚«‹¡¿([{_*「『（【《〈") | {"''", "``"}
CARRY_ON = frozenset("-–—―,;:")


def sentences(text: str) -> list[list[Token]]:
    """The tokens of one paragraph, sentence by sentence; a line break counts as a space."""
    tokens = tokenize(text)
    parts: list[list[Token]] = []
    start = end = 0
    for at in [i for i, token in enumerate(tokens) if token.text[-1] in ENDS]:
        if at < end or not _may_end(tokens[at].text):
            continue
        end = _end_of_mark(tokens, at)
        if _breaks(tokens, at, end):
            parts.append(tokens[start:end])
            start = end
    if start < len(tokens):
        parts.append(tokens[start:])
    return parts


def _is_mark(word: str) -> bool:
    return word[0] in ENDS and word[-1] in ENDS


def _may_end(word: str) -> bool:
    """False for titles and initials: the capital after them is a name."""
    return _is_mark(word) or (len(word) > 2 and word[:-1] not in TITLES)


def _end_of_mark(tokens: Sequence[Token], at: int) -> int:
    """Where the final mark at `at` ends, further marks and touching closers included."""
    end = at + 1
    while end < len(tokens):
        word = tokens[end].text
        touches = tokens[end].start == tokens[end - 1].end
        if not (_is_mark(word) or (touches and word in CLOSERS)):
            break
        end += 1
    return end


def _breaks(tokens: Sequence[Token], at: int, end: int) -> bool:
    """Whether a new sentence starts at `end`, after the final mark that starts at `at`."""
    marks = [token.text for token in tokens[at:end] if _is_mark(token.text)]
    if end == len(tokens) or any(mark[0] in ENDS_ALWAYS for mark in marks):
        return True
    if tokens[end].text[0] in CARRY_ON:
        return False
    while tokens[end].text in OPENERS and end + 1 < len(tokens):
        end += 1
    first = tokens[end].text
    if not marks:  # an abbreviation: a capital is not enough
        return first in STARTERS
    return not first[0].islower()
