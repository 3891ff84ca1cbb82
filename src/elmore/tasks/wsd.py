"""Word senses by the nearest neighbor: the uses of a lemma in SemCor, tagged with their senses,
against a use whose sense is asked for. No weights are trained. The layer and the rule are chosen on
one of the sets, the development set, and named in the report.
"""

from collections import Counter, defaultdict
from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from elmore.embedder import LayerSource
from elmore.errors import ConfigError, InputError
from elmore.tasks.nearest_sense import RULES, ambiguous, answers
from elmore.tasks.readers.raganato import (
    DATA,
    Lemma,
    SenseSentence,
    SenseUse,
    read_raganato,
    set_name,
)
from elmore.tasks.readers.semcor import read_semcor
from elmore.tasks.scorers.raganato import SenseScore, score_senses
from elmore.uses.use import Use
from elmore.uses.use_vectors import SentenceWatch, unwatched, use_vectors, views

DEV = "semeval2007"
FIRST_SENSE = "first sense"

Answer = str | None


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
    """Instances whose lemma is not in SemCor: they have no answer."""

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


def wsd(
    encoder: LayerSource,
    semcor: Sequence[str | Path],
    sets: Sequence[str | Path],
    *,
    dev: str = DEV,
    watch: SentenceWatch = unwatched,
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


def _answer(
    encoder: LayerSource,
    senses: dict[Lemma, list[str]],
    known: list[SenseSentence],
    asked: list[SenseSentence],
    watch: SentenceWatch,
) -> dict[tuple[str, str], dict[int, str]]:
    """For each (vectors, rule) the senses found, by place. Lemmas with one sense need no vectors:
    they are not embedded, and not answered here."""
    several = {lemma: found for lemma, found in senses.items() if len(found) > 1}
    embedded = [*_with(several, known), *_with(several, asked)]
    vectors = use_vectors(encoder, [use for s in embedded for use in _as_uses(s)], watch)
    lemmas = ambiguous(several, list(_uses(known)), list(_uses(asked)))
    return {
        (name, rule): dict(answers(lemmas, vectors, name, rule))
        for name in views(encoder.n_layers)
        for rule in RULES
    }


def _as_uses(sentence: SenseSentence) -> Iterator[Use]:
    return (Use(sentence.words, use.start, use.stop - use.start) for use in sentence.uses)
