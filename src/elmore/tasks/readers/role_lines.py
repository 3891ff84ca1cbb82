"""Propositions as JSON lines: `{"words": […], "props": [{"predicate_index", "lemma", "tags"}]}`, a
BIO tag for each word, or as `task predict srl` writes them; and the one place that tells this
layout from columns.
"""

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

from elmore.errors import InputError
from elmore.tasks.corpus import Corpus
from elmore.tasks.propositions import Proposition, RoleSentence
from elmore.tasks.readers.lines import parse_json, placed_lines
from elmore.tasks.readers.role_columns import read_conll2005, read_conll2012, read_props
from elmore.tasks.spans import OUTSIDE, is_span_tag, spans_of

RoleLayout = Literal["auto", "jsonl", "conll2005", "conll2012"]


def read_roles(path: Path, layout: RoleLayout, predicate: int | None) -> Corpus[RoleSentence]:
    """`auto` goes by the first line: JSON, `#begin document` of CoNLL-2012, or CoNLL-2005."""
    match _layout(path) if layout == "auto" else layout:
        case "jsonl":
            return read_role_lines(path)
        case "conll2012":
            return Corpus(list(read_conll2012(path)))
        case _:
            return Corpus(list(read_conll2005(path, predicate)))


def _layout(path: Path) -> RoleLayout:
    for _, line in placed_lines(path):
        if line.lstrip().startswith("{"):
            return "jsonl"
        return "conll2012" if line.startswith("#") else "conll2005"
    raise InputError(f"{path}: no sentence found; expected JSON lines or CoNLL columns.")


def read_compared_roles(gold: Path, predicted: Path) -> tuple[list[list[Proposition]], ...]:
    """The propositions of both files, for scoring: columns as srl-eval.pl reads them, or JSON lines
    in one of them or both. The word then stands for the lemma, which predictions do not have."""
    if "jsonl" not in (_layout(gold), _layout(predicted)):
        return read_props(gold, predicted)
    wanted, found = (read_roles(path, "auto", None).examples for path in (gold, predicted))
    for number, (want, have) in enumerate(zip(wanted, found, strict=False), start=1):
        if want.words != have.words:
            raise InputError(
                f"{predicted}, sentence {number}: {' '.join(have.words)[:60]!r}, but {gold} has "
                f"{' '.join(want.words)[:60]!r}; expected the same sentences in both files."
            )
    if len(wanted) != len(found):
        raise InputError(
            f"{predicted}: {len(found):,} sentences, but {gold} has {len(wanted):,}; expected the "
            "same sentences in both files."
        )
    return [_by_words(one) for one in wanted], [_by_words(one) for one in found]


def _by_words(sentence: RoleSentence) -> list[Proposition]:
    given = sentence.propositions or ()
    return [replace(one, lemma=sentence.words[one.predicate].lower()) for one in given]


def read_role_lines(path: Path) -> Corpus[RoleSentence]:
    """A predicate is a verb if its `xpos` begins with V; without `xpos` all are."""
    sentences = []
    repeated = 0
    for where, line in placed_lines(path):
        found = _sentence(parse_json(line, where), where)
        given = found.propositions or ()
        kept = tuple(dict.fromkeys(given))
        repeated += len(given) - len(kept)
        for one, other in pairwise(kept):
            if one.predicate == other.predicate:
                raise InputError(
                    f"{where}: two different propositions have the predicate {one.predicate}."
                )
        sentences.append(RoleSentence(found.words, kept))
    if not sentences:
        raise InputError(f"{path}: no sentence found; expected one JSON object per line.")
    note = f"{repeated:,} propositions that are there twice are used once"
    return Corpus(sentences, (note,) if repeated else ())


def _sentence(given: Any, where: str) -> RoleSentence:
    match given:
        case {"words": list(words), "propositions": list(found), **rest} if _texts(words):
            props = [_as_given(one) for one in found]
            return _sentence({**rest, "words": words, "props": props}, where)
        case {"words": list(words), "props": list(props), **rest} if _texts(words):
            xpos: Any = rest.get("xpos") or ["V"] * len(words)
            if not _texts(xpos) or len(xpos) != len(words):
                raise InputError(f"{where}: 'xpos' must have a tag for each of the words.")
            found = [_proposition(one, words, xpos, where) for one in props]
            in_order = sorted(found, key=lambda proposition: proposition.predicate)
            return RoleSentence(tuple(words), tuple(in_order))
    raise InputError(
        f"{where}: expected an object with 'words', a list of one word or more, and 'props', a "
        "list."
    )


def _as_given(found: Any) -> Any:
    """A proposition of `task predict srl`."""
    return {**found, "predicate_index": found.get("index")} if isinstance(found, dict) else found


def _texts(found: Any) -> bool:
    return (
        isinstance(found, list)
        and bool(found)
        and all(isinstance(word, str) and word for word in found)
    )


def _proposition(given: Any, words: Sequence[str], xpos: Sequence[str], where: str) -> Proposition:
    match given:
        case {"predicate_index": int(place), "tags": list(tags), **rest} if _texts(tags):
            lemma = rest.get("lemma")
        case _:
            raise InputError(f"{where}: a proposition needs 'predicate_index' and 'tags'.")
    if not 0 <= place < len(words):
        raise InputError(
            f"{where}: predicate {place}, counted from 0, in a sentence of {len(words)} words."
        )
    if len(tags) != len(words):
        raise InputError(
            f"{where}: {len(tags)} tags for {len(words)} words; expected one for each."
        )
    for before, tag in zip([OUTSIDE, *tags], tags, strict=False):
        goes_on = tag[:2] == "I-" and before[2:] == tag[2:]
        if not is_span_tag(tag) or tag[0] not in "BIO" or (tag[0] == "I" and not goes_on):
            raise InputError(
                f"{where}: the tag {tag[:40]!r} after {before[:40]!r}; expected O, B-ROLE, or "
                "I-ROLE after B-ROLE or I-ROLE."
            )
    name = lemma if isinstance(lemma, str) else words[place].lower()
    return Proposition(place, name, tuple(spans_of(tags)), xpos[place].startswith("V"))
