"""Word sense disambiguation by the nearest neighbor: a use is compared with the tagged uses of its
lemma in SemCor, by two rules. No weights are trained. The layer and the rule are chosen on one of
the sets, the development set, and named in the report.
"""

# n tagged uses and m asked for of one lemma, S its senses, D vector dim
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from elmore.embedder import LayerSource, lens_of
from elmore.errors import ConfigError, InputError
from elmore.tasks.readers.senses import (
    Lemma,
    SenseSentence,
    SenseUse,
    read_raganato,
    read_tagged,
    set_name,
)
from elmore.tasks.scorers.sense_score import SenseScore, score_senses
from elmore.uses.geometry import Floats, unit
from elmore.uses.use import Use
from elmore.uses.use_vectors import SentenceWatch, unwatched, use_vectors, view, views

DEV = "semeval2007"
FIRST_SENSE = "first sense"
_AS_NEAR = 1e-5  # cosines of equal vectors differ by at most this much, from rounding

Tags = NDArray[np.float32]  # (n, S), 1 where a use is of a sense
Rule = Callable[[Floats, Tags, Floats], NDArray[np.int64]]
InSentence = tuple[tuple[str, ...], SenseUse]  # the words of the sentence, and a use in it


@dataclass(frozen=True, slots=True)
class WsdRow:
    """One layer and rule, and its scores on every set."""

    vectors: str
    rule: str
    scores: dict[str, SenseScore]

    def total(self, without: str | None = None) -> SenseScore:
        """All sets taken as one, or all but one of them."""
        kept = [score for name, score in self.scores.items() if name != without]
        return sum(kept, start=SenseScore(0, 0, 0))


@dataclass(frozen=True, slots=True)
class WsdReport:
    """The baseline (the first sense of every lemma), and every layer and rule."""

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
        return [
            {
                "vectors": row.vectors,
                "rule": row.rule,
                **{name: score.f1 for name, score in row.scores.items()},
                f"all but {self.dev}": row.total(without=self.dev).f1,
                "all": row.total().f1,
                "chosen": row is self.chosen,
            }
            for row in (self.first_sense, *self.rows)
        ]


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
    uses = [found for own in asked.values() for found in own]
    wanted = {use.lemma for _, use in uses}
    tagged = (found for path in semcor for found in _uses(read_tagged(path)))
    known = [(words, use) for words, use in tagged if use.lemma in wanted]
    senses = sense_order(use for _, use in known)
    if not senses:
        raise InputError(f"{_listed(semcor)}: has no sense of any word of {_listed(sets)}.")
    first = [senses[use.lemma][0] if use.lemma in senses else None for _, use in uses]
    ways = nearest_senses(encoder, senses, known, uses, watch)
    gold = {name: [use.senses for _, use in own] for name, own in asked.items()}
    rows = tuple(
        WsdRow(vectors, rule, _scores(gold, first, found))
        for (vectors, rule), found in ways.items()
    )
    return WsdReport(
        WsdRow(FIRST_SENSE, "", _scores(gold, first, {})), rows, dev, first.count(None)
    )


def _uses(sentences: Iterable[SenseSentence]) -> Iterator[InSentence]:
    return ((sentence.words, use) for sentence in sentences for use in sentence.uses)


def sense_order(uses: Iterable[SenseUse]) -> dict[Lemma, list[str]]:
    """The senses of each lemma, the most frequent first; ties go to the one seen first."""
    counts: dict[Lemma, Counter[str]] = defaultdict(Counter)
    for use in uses:
        counts[use.lemma].update(use.senses)
    return {lemma: [key for key, _ in found.most_common()] for lemma, found in counts.items()}


def _read_sets(paths: Sequence[str | Path], dev: str) -> dict[str, list[InSentence]]:
    asked: dict[str, list[InSentence]] = {}
    for path in paths:
        if (name := set_name(path)) in asked:
            raise InputError(f"{path}: a set named {name} is there already; give each one once.")
        asked[name] = list(_uses(read_raganato(path)))
    if dev not in asked:
        raise ConfigError(
            f"The development set is {dev!r}, but the sets are {', '.join(asked) or 'none'}; "
            "name one of them."
        )
    return asked


def _listed(paths: Sequence[str | Path]) -> str:
    return ", ".join(Path(path).name for path in paths)


def _scores(
    gold: dict[str, list[tuple[str, ...]]], first: list[str | None], found: dict[int, str]
) -> dict[str, SenseScore]:
    """Of every set. Where nothing was found, the first sense is the answer."""
    answers = (found.get(place, answer) for place, answer in enumerate(first))
    return {
        name: score_senses(senses, list(islice(answers, len(senses))))
        for name, senses in gold.items()
    }


def by_mean(known: Floats, tags: Tags, asked: Floats) -> NDArray[np.int64]:
    """The sense whose uses have the nearest mean."""
    means = tags.T @ known / tags.sum(axis=0)[:, None]  # (S, D)
    near = unit(asked) @ unit(means).T  # (m, S)
    return _first_best(near)


def by_nearest(known: Floats, tags: Tags, asked: Floats) -> NDArray[np.int64]:
    """The sense of the nearest use; if several are equally near, the sense most of them have."""
    near = unit(asked) @ unit(known).T  # (m, n)
    nearest = near >= near.max(axis=1, keepdims=True) - _AS_NEAR
    return _first_best(nearest.astype(np.float32) @ tags)  # (m, S) votes


RULES: dict[str, Rule] = {"mean": by_mean, "nearest": by_nearest}


def _first_best(scores: Floats) -> NDArray[np.int64]:
    """The first of the best: the most frequent sense comes first and wins ties."""
    equal = scores >= scores.max(axis=1, keepdims=True) - _AS_NEAR
    return np.asarray(equal.argmax(axis=1))  # (m,)


def nearest_senses(
    source: LayerSource,
    senses: dict[Lemma, list[str]],
    known: Sequence[InSentence],
    asked: Sequence[InSentence],
    watch: SentenceWatch,
) -> dict[tuple[str, str], dict[int, str]]:
    """For each (vectors, rule), the senses found, by the place of the use in `asked`. Lemmas with
    one sense are not embedded and not answered here."""
    several = {lemma for lemma, found in senses.items() if len(found) > 1}
    uses = [(words, use) for words, use in (*known, *asked) if use.lemma in several]
    spans = [Use(words, use.start, use.stop - use.start) for words, use in uses]
    vectors, lens = use_vectors(source, spans, watch), lens_of(source)
    n_known = sum(use.lemma in several for _, use in known)
    places = [place for place, (_, use) in enumerate(asked) if use.lemma in several]
    rows_of: dict[Lemma, list[int]] = defaultdict(list)
    for row, (_, use) in enumerate(uses):
        rows_of[use.lemma].append(row)
    ways: dict[tuple[str, str], dict[int, str]] = {
        (name, rule): {} for name in views(source.n_layers, lens) for rule in RULES
    }
    for lemma, rows in rows_of.items():
        split = bisect_left(rows, n_known)
        seen, new = np.array(rows[:split]), np.array(rows[split:])  # (n,), (m,)
        own = senses[lemma]
        tags = np.array([[s in uses[row][1].senses for s in own] for row in seen], np.float32)
        for (name, rule), found in ways.items():
            near, far = (view(vectors, name, some, lens) for some in (seen, new))
            best = RULES[rule](near, tags, far)
            found |= {places[row - n_known]: own[s] for row, s in zip(new, best, strict=True)}
    return ways
