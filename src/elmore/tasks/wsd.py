"""Word senses by the nearest neighbour: the uses of a lemma in SemCor, tagged with their senses,
against a use whose sense is asked for. No weights are trained. Which layer and which of the two
rules to trust is chosen on one of the sets, the development set, and said in the report.
"""

# L layers, n uses in SemCor and m asked for of one lemma, S its senses, D vector dim
from collections import Counter, defaultdict
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count, islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from elmore.errors import ConfigError, InputError
from elmore.tasks.readers.raganato import (
    DATA,
    Lemma,
    SenseSentence,
    SenseUse,
    read_raganato,
    set_name,
)
from elmore.tasks.readers.semcor import read_semcor
from elmore.tasks.uses import (
    Floats,
    Half,
    LayerEncoder,
    Marked,
    Rows,
    Watch,
    unit,
    unwatched,
    use_vectors,
    view,
    views,
)

DEV = "semeval2007"
FIRST_SENSE = "first sense"
_AS_NEAR = 1e-5  # cosines of equal vectors differ by this much and no more, from rounding

Answer = str | None
Tags = NDArray[np.float32]  # (n, S), 1 where a use is of a sense
Rule = Callable[[Floats, Tags, Floats], NDArray[np.int64]]


# Scores -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SenseScore:
    """As the evaluation framework's scorer counts: an instance left open costs recall only."""

    instances: int
    answered: int
    right: int

    @property
    def precision(self) -> float:
        return 100 * self.right / self.answered if self.answered else 0.0

    @property
    def recall(self) -> float:
        return 100 * self.right / self.instances if self.instances else 0.0

    @property
    def f1(self) -> float:
        both = self.instances + self.answered
        return 100 * 2 * self.right / both if both else 0.0

    def __add__(self, other: "SenseScore") -> "SenseScore":
        return SenseScore(
            self.instances + other.instances,
            self.answered + other.answered,
            self.right + other.right,
        )


def score_senses(gold: Sequence[Sequence[str]], answers: Sequence[Answer]) -> SenseScore:
    """Of each instance the senses that are right, and the answer; None leaves it open."""
    given = [(senses, answer) for senses, answer in zip(gold, answers, strict=True) if answer]
    return SenseScore(len(gold), len(given), sum(answer in senses for senses, answer in given))


@dataclass(frozen=True, slots=True)
class WsdRow:
    """One way to answer, and how it did on every set."""

    vectors: str
    rule: str
    scores: dict[str, SenseScore]

    def total(self, without: str | None = None) -> SenseScore:
        """All sets taken as one, or all but one of them."""
        kept = [score for name, score in self.scores.items() if name != without]
        return sum(kept, start=SenseScore(0, 0, 0))


@dataclass(frozen=True, slots=True)
class WsdReport:
    """The first sense of every lemma, and every layer and rule beside it."""

    first_sense: WsdRow
    rows: tuple[WsdRow, ...]
    dev: str
    unseen: int
    """Instances whose lemma SemCor does not have: no way answers them."""

    @property
    def chosen(self) -> WsdRow:
        """The best on the development set."""
        return max(self.rows, key=lambda row: row.scores[self.dev].f1)

    def table(self) -> list[dict[str, Any]]:
        """F1 in percent: each set, all but the development set, and all."""
        return [self._cells(row) for row in (self.first_sense, *self.rows)]

    def _cells(self, row: WsdRow) -> dict[str, Any]:
        return {
            "vectors": row.vectors,
            "rule": row.rule,
            **{name: score.f1 for name, score in row.scores.items()},
            f"all but {self.dev}": row.total(without=self.dev).f1,
            "all": row.total().f1,
            "chosen": row is self.chosen,
        }


# The two rules ------------------------------------------------------------------------------------


def by_mean(known: Floats, tags: Tags, asked: Floats) -> NDArray[np.int64]:
    """The sense whose uses have the nearest mean."""
    means = tags.T @ known / tags.sum(axis=0)[:, None]  # (S, D)
    near = unit(asked) @ unit(means).T  # (m, S)
    return _first_best(near)


def by_nearest(known: Floats, tags: Tags, asked: Floats) -> NDArray[np.int64]:
    """The sense of the nearest use; of several as near, the sense most of them have."""
    near = unit(asked) @ unit(known).T  # (m, n)
    nearest = near >= near.max(axis=1, keepdims=True) - _AS_NEAR
    return _first_best(nearest.astype(np.float32) @ tags)  # (m, S) votes


RULES: dict[str, Rule] = {"mean": by_mean, "nearest": by_nearest}


def _first_best(scores: Floats) -> NDArray[np.int64]:
    """Senses come most frequent first: where nothing tells them apart the first one is taken."""
    equal = scores >= scores.max(axis=1, keepdims=True) - _AS_NEAR
    return np.asarray(equal.argmax(axis=1))  # (m,)


# The experiment -----------------------------------------------------------------------------------


def wsd(
    encoder: LayerEncoder,
    semcor: Sequence[str | Path],
    sets: Sequence[str | Path],
    *,
    dev: str = DEV,
    watch: Watch = unwatched,
) -> WsdReport:
    """Senses from `semcor` (JSON lines, or `.data.xml` with its key file) for the instances of
    `sets` (`.data.xml`); every sentence is embedded once."""
    asked = _read_sets(sets, dev)
    uses = [use for sentences in asked.values() for use in _uses(sentences)]
    wanted = {use.lemma for use in uses}
    known = [s for path in semcor for s in _with(wanted, read_tagged(path))]
    senses = sense_order(_uses(known))
    if not senses:
        raise InputError(f"{_listed(semcor)}: has no sense of any word of {_listed(sets)}.")
    first = [first_sense(senses, use.lemma) for use in uses]
    ways = _answer(encoder, senses, known, [s for found in asked.values() for s in found], watch)
    gold = {name: [use.senses for use in _uses(found)] for name, found in asked.items()}
    rows = tuple(
        WsdRow(vectors, rule, _scores(gold, first, found))
        for (vectors, rule), found in ways.items()
    )
    return WsdReport(
        WsdRow(FIRST_SENSE, "", _scores(gold, first, {})), rows, dev, first.count(None)
    )


def read_tagged(path: str | Path) -> Iterator[SenseSentence]:
    """Sense-tagged sentences of either layout, told apart by the file's name."""
    return read_raganato(path) if DATA in Path(path).name else read_semcor(path)


def sense_order(uses: Iterable[SenseUse]) -> dict[Lemma, list[str]]:
    """The senses of each lemma, the most frequent first; of equals, the one met first."""
    counts: dict[Lemma, Counter[str]] = defaultdict(Counter)
    for use in uses:
        counts[use.lemma].update(use.senses)
    return {lemma: [key for key, _ in found.most_common()] for lemma, found in counts.items()}


def first_sense(senses: dict[Lemma, list[str]], lemma: Lemma) -> Answer:
    """The most frequent one; nothing for a lemma that was never seen."""
    return senses[lemma][0] if lemma in senses else None


def _read_sets(paths: Sequence[str | Path], dev: str) -> dict[str, list[SenseSentence]]:
    asked: dict[str, list[SenseSentence]] = {}
    for path in paths:
        if (name := set_name(path)) in asked:
            raise InputError(f"{path}: a set named {name} is there already; give each one once.")
        asked[name] = list(read_raganato(path))
    if dev not in asked:
        raise ConfigError(
            f"The development set is {dev!r}, but the sets are {', '.join(asked) or 'none'}; "
            "name one of them."
        )
    return asked


def _uses(sentences: Iterable[SenseSentence]) -> Iterator[SenseUse]:
    return (use for sentence in sentences for use in sentence.uses)


def _with(wanted: Container[Lemma], sentences: Iterable[SenseSentence]) -> Iterator[SenseSentence]:
    """Sentences with a wanted use, and only those uses of them."""
    for sentence in sentences:
        if uses := tuple(use for use in sentence.uses if use.lemma in wanted):
            yield SenseSentence(sentence.words, uses)


def _listed(paths: Sequence[str | Path]) -> str:
    return ", ".join(Path(path).name for path in paths)


def _scores(
    gold: dict[str, list[tuple[str, ...]]], first: list[Answer], found: dict[int, str]
) -> dict[str, SenseScore]:
    """Of every set, one after another; where nothing was found the first sense is the answer."""
    answers = (found.get(place, answer) for place, answer in enumerate(first))
    return {
        name: score_senses(senses, list(islice(answers, len(senses))))
        for name, senses in gold.items()
    }


# One lemma after another --------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Ambiguous:
    """A lemma of several senses: which rows of the vectors are its uses."""

    senses: list[str]
    known: Rows  # (n,)
    tags: Tags  # (n, S)
    asked: Rows  # (m,)
    places: list[int]
    """Which instances the asked ones are, counted over all sets."""


def _answer(
    encoder: LayerEncoder,
    senses: dict[Lemma, list[str]],
    known: list[SenseSentence],
    asked: list[SenseSentence],
    watch: Watch,
) -> dict[tuple[str, str], dict[int, str]]:
    """For each (vectors, rule) the senses found, by place. Lemmas with one sense need no vectors:
    they are not embedded, and not answered here."""
    several = {lemma: found for lemma, found in senses.items() if len(found) > 1}
    embedded = [*_with(several, known), *_with(several, asked)]
    vectors = use_vectors(encoder, [_marked(s) for s in embedded], watch)
    lemmas = _ambiguous(several, list(_uses(known)), list(_uses(asked)))
    return {
        (name, rule): dict(_found(lemmas, vectors, name, rule))
        for name in views(encoder.n_layers)
        for rule in RULES
    }


def _marked(sentence: SenseSentence) -> Marked:
    return Marked(sentence.words, [(use.start, use.stop) for use in sentence.uses])


def _ambiguous(
    several: dict[Lemma, list[str]], known: list[SenseUse], asked: list[SenseUse]
) -> list[_Ambiguous]:
    """Rows are counted as `_answer` embeds: first the known uses, then the asked ones."""
    tagged: dict[Lemma, list[tuple[int, SenseUse]]] = defaultdict(list)
    questions: dict[Lemma, list[tuple[int, int]]] = defaultdict(list)
    row = count()
    for use in known:
        if use.lemma in several:
            tagged[use.lemma].append((next(row), use))
    for place, use in enumerate(asked):
        if use.lemma in several:
            questions[use.lemma].append((next(row), place))
    return [
        _Ambiguous(
            senses,
            np.array([row for row, _ in tagged[lemma]]),
            np.array([[s in use.senses for s in senses] for _, use in tagged[lemma]], np.float32),
            np.array([row for row, _ in questions[lemma]]),
            [place for _, place in questions[lemma]],
        )
        for lemma, senses in several.items()
    ]


def _found(
    lemmas: Sequence[_Ambiguous], vectors: Half, name: str, rule: str
) -> Iterator[tuple[int, str]]:
    for lemma in lemmas:
        known, asked = view(vectors, name, lemma.known), view(vectors, name, lemma.asked)
        for place, sense in zip(lemma.places, RULES[rule](known, lemma.tags, asked), strict=True):
            yield place, lemma.senses[sense]
