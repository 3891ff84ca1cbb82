"""Word-in-Context: do two uses of a word mean the same? Yes, if the cosine of their vectors
is above a threshold: the one with the best accuracy on the training and development pairs.
"""

# L layers, N pairs, F features, D vector dim
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from elmore.embedder import LayerSource, lens_of
from elmore.errors import InputError
from elmore.models.lens import Lens
from elmore.tasks.readers.use_pairs import read_wic
from elmore.uses.geometry import unit
from elmore.uses.use_vectors import Half, SentenceWatch, unwatched, use_vectors, view, views

ALL_LAYERS = "all layers"
_RIDGE = 1.0  # keeps the weights finite when the pairs are perfectly separable
_STEPS = 25  # of Newton's method, which converges in six or seven

Doubles = NDArray[np.float64]
Truth = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class WicRow:
    """One way to decide, its threshold and its accuracy in percent."""

    vectors: str
    rule: str
    threshold: float
    fitted: float
    """On the pairs that the threshold was chosen on."""
    test: float


@dataclass(frozen=True, slots=True)
class WicReport:
    """Each layer alone, their mean, and a weighted sum of all."""

    rows: tuple[WicRow, ...]
    n_fitted: int
    n_test: int
    majority: float
    """Baseline: the accuracy of the more frequent answer on the test pairs."""

    @property
    def chosen(self) -> WicRow:
        """The best on the pairs that the thresholds were chosen on."""
        return max(self.rows, key=lambda row: row.fitted)

    def table(self) -> list[dict[str, Any]]:
        """Accuracy in percent."""
        return [
            {
                "vectors": row.vectors,
                "rule": row.rule,
                "threshold": row.threshold,
                "train+dev": row.fitted,
                "test": row.test,
                "chosen": row is self.chosen,
            }
            for row in self.rows
        ]


def wic(
    encoder: LayerSource,
    train: Sequence[str | Path],
    test: str | Path,
    *,
    watch: SentenceWatch = unwatched,
) -> WicReport:
    """Thresholds from all pairs of `train`, the development ones among them; files are `.data.txt`
    with their answers beside them, or `.jsonl`."""
    seen = [pair for path in train for pair in read_wic(path)]
    asked = list(read_wic(test))
    if not seen or not asked:
        raise InputError("The training or the test pairs of WiC are empty; expected some of both.")
    pairs = [*seen, *asked]
    vectors = use_vectors(encoder, [use for p in pairs for use in (p.first, p.second)], watch)
    lens = lens_of(encoder)
    names = views(encoder.n_layers, lens)
    cosines = np.stack([pair_cosines(vectors, name, lens) for name in names], axis=1)  # (N, F)
    truth = np.array([pair.same for pair in pairs])
    rows = [
        _row(name, "cosine", scores, truth, len(seen))
        for name, scores in zip(names, cosines.T, strict=True)
    ]
    if encoder.n_layers > 1:
        weighed = _weighed(cosines[:, : encoder.n_layers], truth, len(seen))
        rows.append(_row(ALL_LAYERS, "logistic", weighed, truth, len(seen)))
    majority = 100 * max(truth[len(seen) :].mean(), 1 - truth[len(seen) :].mean())
    return WicReport(tuple(rows), len(seen), len(asked), float(majority))


def pair_cosines(vectors: Half, name: str, lens: Lens | None = None) -> Doubles:
    """Of each pair: its two uses are rows next to each other. Rounded, so that no threshold falls
    between vectors that differ by rounding errors only."""
    units = unit(view(vectors, name, lens=lens)).astype(np.float64)  # (2 N, D)
    return np.asarray((units[::2] * units[1::2]).sum(axis=1).round(5))  # (N,)


def _row(name: str, rule: str, scores: Doubles, truth: Truth, n_seen: int) -> WicRow:
    threshold = best_threshold(scores[:n_seen], truth[:n_seen])
    right = (scores >= threshold) == truth  # (N,)
    seen, asked = right[:n_seen].mean(), right[n_seen:].mean()
    return WicRow(name, rule, threshold, 100 * float(seen), 100 * float(asked))


def best_threshold(scores: Doubles, truth: Truth) -> float:
    """The threshold with the best accuracy when scores from it upwards count as the same; of
    several, the lowest. It lies half-way between two scores, or just beyond the last."""
    order = np.argsort(scores, kind="stable")
    places = scores[order]
    # Right with k scores below the cut: the different ones among them, the same ones above.
    below = np.concatenate([[0], np.cumsum(~truth[order])])
    above = truth.sum() - np.concatenate([[0], np.cumsum(truth[order])])
    edges = np.concatenate([[places[0] - 1], places, [places[-1] + 1]])
    possible = edges[1:] > edges[:-1]  # no cut between equal scores
    k = int(np.where(possible, below + above, -1).argmax())
    return float((edges[k] + edges[k + 1]) / 2)


def _weighed(cosines: Doubles, truth: Truth, n_seen: int) -> Doubles:
    """All layers' cosines as one number, by logistic regression on the seen pairs."""
    mean, spread = cosines[:n_seen].mean(axis=0), cosines[:n_seen].std(axis=0)
    features = (cosines - mean) / np.where(spread > 0, spread, 1)  # (N, F)
    return np.asarray(features @ logistic_weights(features[:n_seen], truth[:n_seen]))  # (N,)


def logistic_weights(features: Doubles, truth: Truth) -> Doubles:
    """By Newton's method, with a small L2 penalty. Its bias is dropped for the threshold."""
    x = np.column_stack([features, np.ones(len(features))])  # (N, F + 1)
    penalty = np.diag([_RIDGE] * features.shape[1] + [0.0])
    weights = np.zeros(x.shape[1])
    for _ in range(_STEPS):
        chance = 1 / (1 + np.exp(-x @ weights))  # (N,)
        slope = x.T @ (chance - truth) + penalty @ weights
        curvature = (x * (chance * (1 - chance))[:, None]).T @ x + penalty
        weights -= np.linalg.solve(curvature, slope)
    return weights[:-1]  # (F,)
