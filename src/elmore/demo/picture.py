"""The layout of a picture of the uses of a word: without context on the left, where all are one
point; in context on the right, colored by sense. `drawing.py` only draws it.
"""

# n uses of one word, D vector dim; positions are in pixels from the top left corner
import unicodedata
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from elmore.demo.embedded_uses import UseVectors
from elmore.uses.geometry import exact_plane
from elmore.uses.use import Use

WIDTH, HEIGHT = 960, 470
TITLE_SIZE, TEXT_SIZE, DOT = 17, 11, 5
COLORS = ("#0072b2", "#d55e00", "#009e73")
"""Okabe and Ito's colors, also for color-blind readers; each sense has its own shape too."""
GREY = "#808080"
LEGEND_MARK = 12

_AROUND = 3  # words shown on either side
_GAP = 6  # between a dot and its label
_MARGIN = 30
_UPWARDS = np.array([1, -1])

Anchor = Literal["start", "end"]


@dataclass(frozen=True, slots=True)
class Box:
    """A part of the picture."""

    left: float
    top: float
    right: float
    bottom: float

    @property
    def middle(self) -> tuple[float, float]:
        return (self.left + self.right) / 2, (self.top + self.bottom) / 2

    def meets(self, other: "Box") -> bool:
        aside = self.right <= other.left or other.right <= self.left
        return not (aside or self.bottom <= other.top or other.bottom <= self.top)

    def holds(self, other: "Box") -> bool:
        inside = self.left <= other.left and other.right <= self.right
        return inside and self.top <= other.top and other.bottom <= self.bottom


STATIC = Box(24, 72, 236, 424)
CONTEXT = Box(260, 72, 936, 424)


@dataclass(frozen=True, slots=True)
class Label:
    """A line of text, its left or right end at x, its middle at y."""

    text: str
    x: float
    y: float
    anchor: Anchor = "start"


@dataclass(frozen=True, slots=True)
class Dot:
    """One use."""

    use: Use
    x: float
    y: float
    sense: int
    label: Label


@dataclass(frozen=True, slots=True)
class Picture:
    """Everything to draw."""

    title: str
    static: str
    context: str
    dots: list[Dot]
    legend: list[Label]
    """The senses; the mark of each is `LEGEND_MARK` pixels before its name."""


def picture_uses(vectors: UseVectors, word: str, model: str) -> Picture:
    """The uses of `word`, by the first two principal components of the lens or the top layer."""
    rows = vectors.of(word)
    uses = [vectors.uses[i] for i in rows]
    senses = list(dict.fromkeys(use.sense for use in uses))
    points = _fitted(exact_plane(vectors.best[rows]), CONTEXT)
    seen = "top layer" if vectors.lens is None else "lens for meaning"
    labels = _labels(points, [use.snippet(_AROUND) for use in uses])
    dots = [
        Dot(use, float(x), float(y), senses.index(use.sense), label)
        for use, (x, y), label in zip(uses, points, labels, strict=True)
    ]
    return Picture(
        title=f"“{word}” in {len(uses)} sentences",
        static=f"without context: {len(uses)} uses, 1 vector",
        context=f"in context: {seen} of {model}, 2 principal components",
        dots=dots,
        legend=_legend(senses),
    )


def _fitted(points: NDArray[np.float64], box: Box) -> NDArray[np.float64]:
    """Fitted into the box, with the same scale in both directions."""
    room = np.array([box.right - box.left, box.bottom - box.top]) - 2 * _MARGIN
    spread = np.maximum(np.ptp(points, axis=0), np.finfo(np.float64).tiny)
    middle = (points.max(axis=0) + points.min(axis=0)) / 2
    fitted: NDArray[np.float64] = (
        np.array(box.middle) + (points - middle) * (room / spread).min() * _UPWARDS
    )
    return fitted


def _legend(senses: list[str]) -> list[Label]:
    labels, x = [], CONTEXT.left + LEGEND_MARK + DOT
    for sense in senses:
        labels.append(Label(sense, x, CONTEXT.bottom + 24))
        x += _text_width(sense) + 30 + LEGEND_MARK
    return labels


def _labels(points: NDArray[np.float64], texts: list[str]) -> list[Label]:
    """Each beside its dot, where no dot or earlier label is; without a free spot, right of it."""
    taken = [Box(x - DOT, y - DOT, x + DOT, y + DOT) for x, y in points]
    labels = []
    for (x, y), text in zip(points, texts, strict=True):
        spots = _spots(float(x), float(y), text)
        boxes = [(spot, _box(spot)) for spot in spots]
        free = [s for s, box in boxes if CONTEXT.holds(box) and not any(map(box.meets, taken))]
        label = (free or spots)[0]
        taken.append(_box(label))
        labels.append(label)
    return labels


def _spots(x: float, y: float, text: str) -> list[Label]:
    """Right and left of the dot, then farther above and below."""
    heights = [side * step * TEXT_SIZE for step in (0, 1, 1.4, 2, 2.8) for side in (1, -1)]
    ends: list[tuple[float, Anchor]] = [(x + DOT + _GAP, "start"), (x - DOT - _GAP, "end")]
    return [Label(text, at, y + up, anchor) for up in heights for at, anchor in ends]


def _box(label: Label) -> Box:
    width, half = _text_width(label.text), TEXT_SIZE * 0.6
    left = label.x if label.anchor == "start" else label.x - width
    return Box(left, label.y - half, left + width, label.y + half)


def _text_width(text: str) -> float:
    """An estimate: Chinese characters are square, Latin ones half as wide."""
    wide = sum(unicodedata.east_asian_width(letter) in "WF" for letter in text)
    return TEXT_SIZE * (wide + 0.54 * (len(text) - wide))
