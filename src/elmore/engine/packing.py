"""The order of work without padding: sentences by decreasing length, and at each step only the rows
that are not finished. Both directions have the same shape; they differ in which word a row reads.
"""

# B sentences, T steps, N words of all sentences together
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Positions = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Plan:
    """Where each word of some sentences, one after another, is read and found again."""

    order: Positions  # (B,), which sentence is row b
    starts: Positions  # (B,), where row b begins among all words
    lengths: Positions  # (B,), decreasing
    active: NDArray[np.int32]  # (T,), rows still reading
    reads: tuple[Positions, Positions]  # (N,) per direction: the word that each place reads
    places: tuple[Positions, Positions]  # (N,) per direction: the place where each word is read


def plan(lengths: Sequence[int]) -> Plan:
    """Rows of equal length keep their order, so that the same sentences give the same plan."""
    given = np.asarray(lengths, dtype=np.int64)
    order = np.argsort(-given, kind="stable")
    falling = given[order]  # (B,)
    starts = np.cumsum(falling) - falling
    n_steps = int(falling.max(initial=0))
    active = np.searchsorted(-falling, -np.arange(n_steps), side="left")  # (T,)
    step = np.repeat(np.arange(n_steps), active)  # (N,)
    row = np.arange(len(step)) - np.repeat(np.cumsum(active) - active, active)
    ahead, behind = starts[row] + step, starts[row] + falling[row] - 1 - step
    return Plan(
        order=order,
        starts=starts,
        lengths=falling,
        active=active.astype(np.int32),
        reads=(ahead, behind),
        places=(_inverse(ahead), _inverse(behind)),
    )


def _inverse(permutation: Positions) -> Positions:
    inverse = np.empty_like(permutation)
    inverse[permutation] = np.arange(len(permutation))
    return inverse
