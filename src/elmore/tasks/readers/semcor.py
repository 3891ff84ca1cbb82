"""SemCor as JSON lines: {"tokens": [[form, lemma, pos, sense key, synset], …]}, one sentence
per line, streamed. Expressions are joined by underscores in the file, and split into words here.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from elmore.errors import InputError
from elmore.tasks.readers.lines import parse_json, placed_lines
from elmore.tasks.readers.raganato import SenseSentence, SenseUse, split_words

_POS = {"1": "NOUN", "2": "VERB", "3": "ADJ", "4": "ADV", "5": "ADJ"}  # 5: a satellite of a 3
_SENSE = re.compile(r"(?P<pos>[1-5]):\d\d:\d\d:[^:%;]*:(\d\d)?")
_NAME = "NNP"


def read_semcor(path: str | Path) -> Iterator[SenseSentence]:
    """Sentences with their senses. Names of persons, groups and locations are left untagged: their
    lemma in the file is not the word but the class."""
    for where, line in placed_lines(path):
        yield _sentence(parse_json(line, where), where)


def _sentence(given: Any, where: str) -> SenseSentence:
    try:
        tokens = given["tokens"]
    except (KeyError, TypeError):
        raise InputError(f"{where}: expected a JSON object with 'tokens'.") from None
    if not isinstance(tokens, list):
        raise InputError(f"{where}: 'tokens' is a {type(tokens).__name__}; expected a list.")
    words: list[str] = []
    uses: list[SenseUse] = []
    for token in tokens:
        start = len(words)
        match token:
            case [str(form), None | str(), None | str(), None, *_]:
                words += split_words(form)
            case [str(form), str(lemma), None | str() as pos, str(key), *_]:
                words += split_words(form)
                if pos != _NAME and len(words) > start:
                    uses.append(_use(start, len(words), lemma, key, where))
            case _:
                raise InputError(
                    f"{where}: the token is {json.dumps(token, ensure_ascii=False)[:80]}; expected "
                    "[form, lemma, pos, sense key, …], the last three null where there are none."
                )
    return SenseSentence(tuple(words), tuple(uses))


def _use(start: int, stop: int, lemma: str, key: str, where: str) -> SenseUse:
    """A key may name several senses of its lemma: `year%1:28:02::;1:28:01::`."""
    of, _, senses = key.partition("%")
    found = [_SENSE.fullmatch(sense) for sense in senses.split(";")]
    if not all(found):
        raise InputError(f"{where}: {key!r} is not a WordNet sense key like 'bank%1:17:01::'.")
    pos = {_POS[sense["pos"]] for sense in found if sense}
    if len(pos) != 1:
        raise InputError(f"{where}: {key!r} names senses of different parts of speech.")
    keys = tuple(f"{of}%{sense}" for sense in senses.split(";"))
    return SenseUse(start, stop, (lemma.lower(), pos.pop()), keys)
