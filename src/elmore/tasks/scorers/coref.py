"""Coreference as the reference scorer (`scorer.pl` 8.01) counts it, and LEA. A mention is right if
both its ends are right. Numerators and denominators are summed over documents, then divided.
"""

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from elmore.tasks.scorers.assignment import best_matching

Cluster = Sequence[Hashable]
Metric = Literal["muc", "bcub", "ceafm", "ceafe", "blanc", "lea"]
METRICS: tuple[Metric, ...] = ("muc", "bcub", "ceafm", "ceafe", "blanc", "lea")
AVERAGED: tuple[Metric, ...] = ("muc", "bcub", "ceafe")
"""Their mean F1 is the figure that CoNLL-2012 ranks by."""
MENTIONS, CONLL = "mentions", "conll"


@dataclass(frozen=True, slots=True)
class Ratios:
    """Numerators and denominators of recall and precision."""

    recall_of: tuple[float, float] = (0.0, 0.0)
    precision_of: tuple[float, float] = (0.0, 0.0)

    @property
    def recall(self) -> float:
        return _ratio(*self.recall_of)

    @property
    def precision(self) -> float:
        return _ratio(*self.precision_of)

    @property
    def f1(self) -> float:
        return _f1(self.recall, self.precision)

    def __add__(self, other: "Ratios") -> "Ratios":
        (a, b), (c, d) = self.recall_of, self.precision_of
        (e, f), (g, h) = other.recall_of, other.precision_of
        return Ratios((a + e, b + f), (c + g, d + h))


@dataclass(frozen=True, slots=True)
class Figures:
    """Of one measure, as fractions of 1."""

    recall: float
    precision: float
    f1: float

    def percent(self) -> dict[str, float]:
        found = {"recall": self.recall, "precision": self.precision, "f1": self.f1}
        return {name: 100 * value for name, value in found.items()}

    def as_printed(self) -> list[str]:
        """In percent with two digits, the others cut off: as `scorer.pl` prints them."""
        found = (self.recall, self.precision, self.f1)
        return [f"{int(value * 10_000) / 100:.2f}" for value in found]


@dataclass(slots=True)
class CorefScore:
    """Sums over documents; `add` one after another, then ask for `figures`."""

    counts: dict[str, Ratios] = field(default_factory=lambda: defaultdict(Ratios))

    def add(self, key: Iterable[Cluster], response: Iterable[Cluster]) -> None:
        overlap = Overlap.of(key, response)
        for name, count in _COUNTS.items():
            self.counts[name] += count(overlap)

    def figures(self) -> dict[str, Figures]:
        """Every measure by name; `conll` is the mean of three."""
        plain = {name: self.counts[name] for name in (MENTIONS, "muc", "bcub", "ceafm", "ceafe")}
        found = {name: Figures(r.recall, r.precision, r.f1) for name, r in plain.items()}
        found["blanc"] = _blanc(self.counts["links"], self.counts["others"])
        lea = self.counts["lea"]
        found["lea"] = Figures(lea.recall, lea.precision, lea.f1)
        three = [found[name] for name in AVERAGED]
        found[CONLL] = Figures(
            *(sum(getattr(f, name) for f in three) / 3 for name in ("recall", "precision", "f1"))
        )
        return found


@dataclass(frozen=True, slots=True)
class Overlap:
    """All that the measures need of a document: the sizes of its clusters, and how many mentions
    each pair of a key and a response cluster shares."""

    key: list[int]
    response: list[int]
    shared: dict[tuple[int, int], int]
    """By key cluster and response cluster; only pairs that share any."""

    @classmethod
    def of(cls, key: Iterable[Cluster], response: Iterable[Cluster]) -> "Overlap":
        ours, theirs = once(key), once(response)
        cluster_of = {mention: i for i, cluster in enumerate(ours) for mention in cluster}
        shared = Counter(
            (cluster_of[mention], j)
            for j, cluster in enumerate(theirs)
            for mention in cluster
            if mention in cluster_of
        )
        return cls([len(c) for c in ours], [len(c) for c in theirs], dict(shared))

    @property
    def n_shared(self) -> int:
        return sum(self.shared.values())


def score_documents(
    key: Mapping[str, Iterable[Cluster]], response: Mapping[str, Iterable[Cluster]]
) -> CorefScore:
    """By the names of documents. A document that is not in the response is missed; one that is not
    in the key is ignored."""
    score = CorefScore()
    for name, clusters in key.items():
        score.add(clusters, response.get(name, ()))
    return score


def once(clusters: Iterable[Cluster]) -> list[list[Hashable]]:
    """Every mention in the first cluster that has it; a cluster that has none left is no more."""
    seen: set[Hashable] = set()
    kept = []
    for cluster in clusters:
        new = [mention for mention in dict.fromkeys(cluster) if mention not in seen]
        seen.update(new)
        kept.append(new)
    return [cluster for cluster in kept if cluster]


# The measures -------------------------------------------------------------------------------------


def _mentions(o: Overlap) -> Ratios:
    return Ratios((o.n_shared, sum(o.key)), (o.n_shared, sum(o.response)))


def _muc(o: Overlap) -> Ratios:
    """Links that join all mentions of a cluster; singletons have none."""
    right = sum(n - 1 for n in o.shared.values())
    return Ratios((right, sum(o.key) - len(o.key)), (right, sum(o.response) - len(o.response)))


def _bcub(o: Overlap) -> Ratios:
    """For each mention, the share of its cluster that is right."""
    recall = sum(n * (n / o.key[i]) for (i, _), n in o.shared.items())
    precision = sum(n * (n / o.response[j]) for (_, j), n in o.shared.items())
    return Ratios((recall, sum(o.key)), (precision, sum(o.response)))


def _ceafm(o: Overlap) -> Ratios:
    """Each cluster has at most one partner, φ3: the mentions that both have."""
    right = _matched(o, {pair: float(n) for pair, n in o.shared.items()})
    return Ratios((right, sum(o.key)), (right, sum(o.response)))


def _ceafe(o: Overlap) -> Ratios:
    """φ4 = 2 |K ∩ R| / (|K| + |R|), divided by the numbers of clusters."""
    gains = {(i, j): 2 * n / (o.key[i] + o.response[j]) for (i, j), n in o.shared.items()}
    right = _matched(o, gains)
    return Ratios((right, len(o.key)), (right, len(o.response)))


def _links(o: Overlap) -> Ratios:
    """Pairs of mentions of one cluster."""
    right = sum(map(_pairs, o.shared.values()))
    return Ratios((right, sum(map(_pairs, o.key))), (right, sum(map(_pairs, o.response))))


def _others(o: Overlap) -> Ratios:
    """Pairs of mentions of two clusters; right are those apart in both, of mentions in both."""
    in_key: Counter[int] = Counter()
    in_response: Counter[int] = Counter()
    for (i, j), n in o.shared.items():
        in_key[i] += n
        in_response[j] += n
    together = sum(map(_pairs, (*in_key.values(), *in_response.values())))
    right = _pairs(o.n_shared) - together + sum(map(_pairs, o.shared.values()))
    key, response = (_pairs(sum(n)) - sum(map(_pairs, n)) for n in (o.key, o.response))
    return Ratios((right, key), (right, response))


def _lea(o: Overlap) -> Ratios:
    """Clusters by size, each by the share of its links that is found. A singleton has one link, to
    itself, which only a singleton finds."""
    found: dict[tuple[str, int], float] = defaultdict(float)
    for (i, j), n in o.shared.items():
        alone = o.key[i] == o.response[j] == 1
        found["key", i] += alone or _pairs(n)
        found["response", j] += alone or _pairs(n)
    sums = {
        side: sum(n * found[side, i] / max(_pairs(n), 1) for i, n in enumerate(sizes))
        for side, sizes in (("key", o.key), ("response", o.response))
    }
    return Ratios((sums["key"], sum(o.key)), (sums["response"], sum(o.response)))


_COUNTS = {
    MENTIONS: _mentions,
    "muc": _muc,
    "bcub": _bcub,
    "ceafm": _ceafm,
    "ceafe": _ceafe,
    "links": _links,
    "others": _others,
    "lea": _lea,
}


def _blanc(links: Ratios, others: Ratios) -> Figures:
    """The mean of both kinds of pairs; if the key has only one kind, that one alone."""
    kinds = [kind for kind in (links, others) if kind.recall_of[1]]
    return Figures(
        *(
            sum(getattr(kind, name) for kind in kinds) / max(len(kinds), 1)
            for name in ("recall", "precision", "f1")
        )
    )


def _matched(o: Overlap, gains: dict[tuple[int, int], float]) -> float:
    """The largest sum of gains. Clusters that no chain of shared mentions joins are matched apart:
    in good responses that leaves small problems."""
    total = 0.0
    for rows, columns in _joined(gains):
        table = np.zeros((len(rows), len(columns)))
        for a, i in enumerate(rows):
            for b, j in enumerate(columns):
                table[a, b] = gains.get((i, j), 0.0)
        total += sum(float(table[pair]) for pair in best_matching(table))
    return total


def _joined(pairs: Iterable[tuple[int, int]]) -> list[tuple[list[int], list[int]]]:
    """Rows and columns of each connected part."""
    beside: dict[tuple[str, int], list[tuple[str, int]]] = defaultdict(list)
    for i, j in pairs:
        beside["row", i].append(("column", j))
        beside["column", j].append(("row", i))
    parts, seen = [], set[tuple[str, int]]()
    for start in beside:
        if start in seen:
            continue
        part, waiting = [], [start]
        seen.add(start)
        while waiting:
            node = waiting.pop()
            part.append(node)
            new = [other for other in beside[node] if other not in seen]
            seen.update(new)
            waiting += new
        parts.append(tuple(sorted(i for k, i in part if k == kind) for kind in ("row", "column")))
    return [(rows, columns) for rows, columns in parts]


def _pairs(n: int) -> int:
    return n * (n - 1) // 2


def _ratio(numerator: float, denominator: float) -> float:
    return numerator / denominator if denominator else 0.0


def _f1(recall: float, precision: float) -> float:
    return 2 * precision * recall / (precision + recall) if precision + recall else 0.0
