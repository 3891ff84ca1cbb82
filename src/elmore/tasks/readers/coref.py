"""Documents and their clusters of mentions: CoNLL-2012's columns (LitBank's too) and JSON lines.
Every error names the file and the line.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from elmore.errors import InputError
from elmore.files.sentence_files import SentenceFiles
from elmore.tasks.corpus import Words
from elmore.tasks.readers.lines import parse_json, placed_lines, task_lines

Mention = tuple[int, int]
"""Its first and its last word, counted from the beginning of the document."""
Clusters = tuple[tuple[Mention, ...], ...]

MOST_REPEATED = 10
"""Mentions given twice in a response; `scorer.pl` refuses more."""
_WORD = 3  # the column
_BEGIN, _END = re.compile(r"#\s*begin document(.*)"), re.compile(r"#\s*end document")
_UNMARKED = ("", "-", "_", "*")
_TOKEN = re.compile(r"[()]|[^()|]+")
_NAMES = ("doc_key", "document", "id")
_EXPECTED = "expected sentences (lists of words) and clusters (lists of [first, last] word)"


@dataclass(frozen=True, slots=True)
class Document:
    """Sentences and the clusters of mentions in them, which are empty where they are to be
    predicted."""

    name: str
    sentences: tuple[Words, ...]
    clusters: Clusters = ()

    @property
    def n_words(self) -> int:
        return sum(map(len, self.sentences))

    @property
    def words(self) -> Words:
        return tuple(word for sentence in self.sentences for word in sentence)


# Columns ------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Marks:
    """The clusters of a document while its lines are read."""

    open: dict[str, list[tuple[int, str]]] = field(default_factory=lambda: defaultdict(list))
    """By cluster: first words of mentions that are not closed yet, and their places in the file."""
    clusters: dict[str, list[tuple[Mention, str]]] = field(default_factory=dict)
    """In the order in which they are first named, as the reference scorer numbers them."""

    def read(self, label: str, word: int, where: str) -> None:
        """The label of one word: `-`, `(3`, `3)`, `(3)`, several joined by `|` or by nothing."""
        if label in _UNMARKED:
            return
        marks = _marks(label, where)
        for alone in (name for name, begins, ends in marks if begins and ends):
            self._cluster(alone).append(((word, word), where))
        for opened in (name for name, begins, ends in marks if begins and not ends):
            self._cluster(opened)
            self.open[opened].append((word, where))
        for closed in (name for name, begins, _ in marks if not begins):
            if not self.open[closed]:
                raise InputError(
                    f"{where}: the bracket {closed + ')'!r} closes a mention that was not opened; "
                    f"expected '({closed}' before it, in the same document."
                )
            first, _ = self.open[closed].pop()
            self._cluster(closed).append(((first, word), where))

    def _cluster(self, name: str) -> list[tuple[Mention, str]]:
        return self.clusters.setdefault(name, [])

    def check_closed(self) -> None:
        for name, left in self.open.items():
            for _, where in left[:1]:
                raise InputError(
                    f"{where}: the bracket '({name}' is not closed; expected '{name})' before the "
                    "end of the document."
                )


def _marks(label: str, where: str) -> list[tuple[str, bool, bool]]:
    """Names of clusters, and whether a mention begins and whether it ends there."""
    marks: list[tuple[str, bool, bool]] = []
    before = ""
    for token in _TOKEN.findall(label):
        if token == ")" and before not in ("", "(", ")"):
            marks[-1] = (before, marks[-1][1], True)
        elif token not in ("(", ")"):
            marks.append((token, before == "(", False))
        before = token
    right = all(begins or ends for _, begins, ends in marks)
    n_brackets = sum(begins + ends for _, begins, ends in marks)
    if not right or n_brackets != label.count("(") + label.count(")"):
        raise InputError(
            f"{where}: the label {label[:40]!r}; expected -, or clusters in brackets: (3, 3), "
            "(3), several joined by |."
        )
    return marks


@dataclass(slots=True)
class _Columns:
    """A document as its columns have it, while it is read and after."""

    name: str
    where: str
    sentences: list[list[list[str]]] = field(default_factory=lambda: [[]])
    marks: _Marks = field(default_factory=_Marks)
    n_words: int = 0
    width: int = 0

    def word(self, line: str, where: str) -> None:
        fields = _fields(line, self.width, where)
        self.width = len(fields)
        self.marks.read(fields[-1].strip(), self.n_words, where)
        self.sentences[-1].append(fields)
        self.n_words += 1

    def end_sentence(self) -> None:
        if self.sentences[-1]:
            self.sentences.append([])

    def ended(self) -> "_Columns":
        self.marks.check_closed()
        self.sentences = [sentence for sentence in self.sentences if sentence]
        return self


def _documents(path: Path) -> Iterator[_Columns]:
    current: _Columns | None = None
    names: set[str] = set()
    for number, line in enumerate(task_lines(path), start=1):
        where = f"{path}, line {number}"
        if (begin := _BEGIN.match(line)) is not None:
            if current is not None:
                raise InputError(f"{where}: a document begins inside another; expected its #end.")
            current = _Columns(begin[1].strip(), where)
            if current.name in names:
                raise InputError(f"{where}: the document {current.name!r} occurs twice; rename it.")
            names.add(current.name)
        elif current is None:
            if line.strip():
                raise InputError(
                    f"{where}: {line[:40]!r} outside of a document; expected '#begin document "
                    "(NAME); part 000' before it."
                )
        elif _END.match(line):
            yield current.ended()
            current = None
        elif not line.strip():
            current.end_sentence()
        else:
            current.word(line, where)
    if current is not None:
        raise InputError(f"{current.where}: the document has no '#end document'; is the file cut?")
    if not names:
        raise InputError(
            f"{path}: no document found; expected CoNLL-2012's columns, which begin with "
            "'#begin document (NAME); part 000'."
        )


def _fields(line: str, width: int, where: str) -> list[str]:
    """Split by tabs, where the last column may be empty, else by spaces."""
    fields = line.split("\t") if "\t" in line else line.split()
    if len(fields) == width + 1 and width and not fields[-1].strip():
        fields.pop()
    if len(fields) < 2 or (width and len(fields) != width):
        expected = f"the first word of the document has {width}" if width else "expected 2 or more"
        raise InputError(f"{where}: {len(fields)} columns ({line[:40]!r}); {expected}.")
    return fields


def read_clusters(path: Path, *, response: bool = False) -> tuple[dict[str, Clusters], int]:
    """The clusters of every document by its name, for the scorer, and how many mentions were given
    twice. Only a response may have these: the first one counts, as in `scorer.pl`."""
    found, repeated = {}, 0
    for document in _documents(path):
        clusters, again = _first_ones(document.marks.clusters.values())
        if again and not response:
            raise InputError(f"{again[0]}: the mention is given twice; remove one.")
        repeated += len(again)
        if repeated > MOST_REPEATED:
            raise InputError(
                f"{again[-1]}: more than {MOST_REPEATED} mentions are given twice; the response is "
                "refused, as by scorer.pl. Give each mention once."
            )
        found[document.name] = clusters
    return found, repeated


def _first_ones(clusters: Iterable[list[tuple[Mention, str]]]) -> tuple[Clusters, list[str]]:
    """Every mention once, and the places of those given again."""
    seen: set[Mention] = set()
    again, kept = [], []
    for cluster in clusters:
        new = []
        for mention, where in cluster:
            if mention in seen:
                again.append(where)
            else:
                seen.add(mention)
                new.append(mention)
        kept.append(tuple(new))
    return tuple(cluster for cluster in kept if cluster), again


def read_documents(path: Path) -> list[Document]:
    """Columns or JSON lines, whichever the file has."""
    is_json = _first_line(path).startswith("{")
    return list(_from_json(path, True) if is_json else _from_columns(path, True))


def read_any_document(path: Path) -> list[Document]:
    """Without clusters; a file of raw text is one document."""
    first = _first_line(path)
    if first.startswith("{"):
        return list(_from_json(path, False))
    if _BEGIN.match(first):
        return list(_from_columns(path, False))
    sentences = SentenceFiles([path], tokenize=True)
    return [Document(path.name, tuple(tuple(words) for words in sentences))]


def _first_line(path: Path) -> str:
    return next((line.strip() for line in task_lines(path) if line.strip()), "")


def _from_columns(path: Path, labeled: bool) -> Iterator[Document]:
    for document in _documents(path):
        if document.n_words and document.width < _WORD + 2:
            raise InputError(
                f"{document.where}: {document.width} columns; expected the words in column "
                f"{_WORD + 1} and the clusters in the last one."
            )
        clusters, again = _first_ones(document.marks.clusters.values())
        if again and labeled:
            raise InputError(f"{again[0]}: the mention is given twice; remove one.")
        words = tuple(tuple(row[_WORD] for row in rows) for rows in document.sentences)
        yield Document(document.name, words, clusters if labeled else ())


# JSON lines ---------------------------------------------------------------------------------------


def _from_json(path: Path, labeled: bool) -> Iterator[Document]:
    for number, (where, line) in enumerate(placed_lines(path), start=1):
        match parse_json(line, where):
            case {"sentences": [*sentences], **rest} if all(map(_is_words, sentences)):
                name = str(next((rest[key] for key in _NAMES if key in rest), number))
                kept = tuple(tuple(sentence) for sentence in sentences if sentence)
                n_words = sum(map(len, kept))
                given = rest.get("clusters") if labeled else []
                yield Document(name, kept, _json_clusters(given, n_words, where))
            case _:
                raise InputError(f"{where}: no sentences found; {_EXPECTED}.")


def _is_words(sentence: Any) -> bool:
    return isinstance(sentence, list) and all(isinstance(w, str) and w.strip() for w in sentence)


def _json_clusters(given: Any, n_words: int, where: str) -> Clusters:
    seen: set[Mention] = set()
    match given:
        case [*clusters]:
            found = tuple(tuple(_json_cluster(c, n_words, seen, where)) for c in clusters)
            return tuple(cluster for cluster in found if cluster)
    raise InputError(f"{where}: no clusters found; {_EXPECTED}.")


def _json_cluster(given: Any, n_words: int, seen: set[Mention], where: str) -> Iterable[Mention]:
    if not isinstance(given, list):
        raise InputError(f"{where}: the cluster {given!r:.40}; {_EXPECTED}.")
    for mention in given:
        match mention:
            case [int(first), int(last)] if 0 <= first <= last < n_words:
                if (first, last) in seen:
                    raise InputError(f"{where}: the mention {mention} is given twice; remove one.")
                seen.add((first, last))
                yield first, last
            case _:
                raise InputError(
                    f"{where}: the mention {mention!r:.40}; expected its first and its last word, "
                    f"from 0 to {n_words - 1}."
                )
