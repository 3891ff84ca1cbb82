"""Words and their senses, from two layouts. The unified WSD evaluation (Raganato): `X.data.xml` has
the words, `X.gold.key.txt` beside it the senses. SemCor as JSON lines, one sentence per line:
{"tokens": [[form, lemma, pos, sense key, synset], …]}.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.parsers import expat

from elmore.errors import InputError
from elmore.files.text_file import COMPRESSED
from elmore.tasks.readers.lines import parse_json, placed_lines, task_lines

DATA, GOLD = ".data.xml", ".gold.key.txt"
POS = ("NOUN", "VERB", "ADJ", "ADV")

_POS = {"1": "NOUN", "2": "VERB", "3": "ADJ", "4": "ADV", "5": "ADJ"}  # 5: a satellite of a 3
_SENSE = re.compile(r"(?P<pos>[1-5]):\d\d:\d\d:[^:%;]*:(\d\d)?")
_NAME = "NNP"

Lemma = tuple[str, str]  # the dictionary form in lower case, and one of POS


@dataclass(frozen=True, slots=True)
class SenseUse:
    """A word, or several words, whose sense is known."""

    start: int
    stop: int
    lemma: Lemma
    senses: tuple[str, ...]
    """WordNet sense keys; any of them is right."""


@dataclass(frozen=True, slots=True)
class SenseSentence:
    """Words, and those among them that carry a sense: `words[use.start:use.stop]`."""

    words: tuple[str, ...]
    uses: tuple[SenseUse, ...]


def read_raganato(path: str | Path) -> Iterator[SenseSentence]:
    """The sentences of a `.data.xml` file, with the senses of the key file beside it."""
    reading = _Reading(path, read_senses(gold_beside(path, DATA, GOLD)))
    for line in task_lines(path):
        yield from reading.feed(f"{line}\n")
    yield from reading.feed("", final=True)
    if reading.senses:
        raise InputError(
            f"{path}: {len(reading.senses)} instances of its key file are not in it "
            f"({next(iter(reading.senses))} first); the two are probably of different sets."
        )


def read_tagged(path: str | Path) -> Iterator[SenseSentence]:
    """Sentences of either layout, which the file's name tells apart."""
    return read_raganato(path) if DATA in Path(path).name else read_semcor(path)


def set_name(path: str | Path) -> str:
    """`semeval2007` of `semeval2007.data.xml.xz`."""
    return Path(path).name.partition(DATA)[0]


def read_senses(path: str | Path) -> dict[str, tuple[str, ...]]:
    """Of each line: an instance, and the sense keys that are right for it."""
    senses: dict[str, tuple[str, ...]] = {}
    for where, line in placed_lines(path):
        instance, *keys = line.split()
        if not keys:
            raise InputError(
                f"{where}: {instance} has no sense; expected an instance and its sense keys."
            )
        if instance in senses:
            raise InputError(f"{where}: {instance} is there twice.")
        senses[instance] = tuple(keys)
    return senses


def split_words(text: str) -> list[str]:
    """The words of an expression joined by spaces or underscores."""
    return text.replace("_", " ").split() or text.split()


class _Reading:
    """An XML file read line by line; every sentence is handed out as soon as it ends."""

    def __init__(self, path: str | Path, senses: dict[str, tuple[str, ...]]):
        self.path, self.senses = path, senses
        self.done: list[SenseSentence] = []
        self.words: list[str] | None = None  # None outside a sentence
        self.uses: list[SenseUse] = []
        self.instance: dict[str, str] | None = None
        self.text = ""
        self.parser = expat.ParserCreate()
        self.parser.StartElementHandler = self._start
        self.parser.EndElementHandler = self._end
        self.parser.CharacterDataHandler = self._characters
        self.parser.EntityDeclHandler = self._entity

    def feed(self, text: str, final: bool = False) -> list[SenseSentence]:
        """The sentences that are complete after some more of the file."""
        try:
            self.parser.Parse(text, final)
        except expat.ExpatError as error:
            what = expat.errors.messages[error.code]
            raise InputError(
                f"{self.path}, line {error.lineno}: not well-formed XML ({what})."
            ) from None
        done, self.done = self.done, []
        return done

    def _start(self, tag: str, attributes: dict[str, str]) -> None:
        if tag == "sentence":
            self.words, self.uses = [], []
        elif tag in ("wf", "instance"):
            if self.words is None:
                raise self._wrong(f"<{tag}> outside a <sentence>")
            self.text, self.instance = "", attributes if tag == "instance" else None

    def _characters(self, text: str) -> None:
        self.text += text

    def _entity(self, name: str, *_: object) -> None:
        """Entities can name files and grow without limit; no set of senses has them."""
        raise self._wrong(f"the entity {name!r} is declared; expected XML without declarations")

    def _end(self, tag: str) -> None:
        if self.words is None:
            return
        if tag == "sentence":
            self.done.append(SenseSentence(tuple(self.words), tuple(self.uses)))
            self.words = None
        elif tag in ("wf", "instance"):
            start = len(self.words)
            self.words += split_words(self.text)
            if self.instance is not None:
                self.uses.append(self._use(self.instance, start, len(self.words)))

    def _use(self, attributes: dict[str, str], start: int, stop: int) -> SenseUse:
        if start == stop:
            raise self._wrong("an <instance> without a word")
        if missing := {"id", "lemma", "pos"} - attributes.keys():
            raise self._wrong(f"an <instance> without {', '.join(sorted(missing))}")
        if (pos := attributes["pos"]) not in POS:
            raise self._wrong(f"pos {pos!r} where one of {', '.join(POS)} is expected")
        senses = self.senses.pop(attributes["id"], None)
        if senses is None:
            raise self._wrong(f"instance {attributes['id']} has no sense left in the key file")
        return SenseUse(start, stop, (attributes["lemma"].lower(), pos), senses)

    def _wrong(self, what: str) -> InputError:
        return InputError(f"{self.path}, line {self.parser.CurrentLineNumber}: {what}.")


# SemCor -------------------------------------------------------------------------------------------


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
                    uses.append(_semcor_use(start, len(words), lemma, key, where))
            case _:
                raise InputError(
                    f"{where}: the token is {json.dumps(token, ensure_ascii=False)[:80]}; expected "
                    "[form, lemma, pos, sense key, …], the last three null where there are none."
                )
    return SenseSentence(tuple(words), tuple(uses))


def _semcor_use(start: int, stop: int, lemma: str, key: str, where: str) -> SenseUse:
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


def gold_beside(path: str | Path, data: str, gold: str) -> Path:
    """The answers `X{gold}` for the data `X{data}`; either file may be compressed."""
    folder = Path(path).parent
    name, ending, _ = Path(path).name.partition(data)
    if not ending:
        raise InputError(f"{path}: expected a file whose name ends in {data}, with {gold} beside.")
    if not Path(path).exists():
        raise InputError(f"{path}: no such file.")
    for packed in ("", *COMPRESSED):
        if (found := folder / f"{name}{gold}{packed}").exists():
            return found
    raise InputError(f"{path}: its answers, {name}{gold}, are not beside it; put them there.")
