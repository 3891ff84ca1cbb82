"""The best one-to-one matching of rows and columns, by shortest augmenting paths (the Hungarian
method with potentials, as Jonker and Volgenant order it). NumPy alone: SciPy's is not a dependency.
"""

import numpy as np
from numpy.typing import NDArray

_NONE = -1


def best_matching(gains: NDArray[np.float64]) -> list[tuple[int, int]]:
    """Pairs (row, column), each row and each column at most once, whose gains have the largest
    sum. Gains are not negative; a pair without gain is left out."""
    if 0 in gains.shape:
        return []
    turned = gains.shape[0] > gains.shape[1]
    cost = -(gains.T if turned else gains)  # rows are the fewer
    pairs = enumerate(_columns(cost))
    found = sorted((column, row) if turned else (row, column) for row, column in pairs)
    return [pair for pair in found if gains[pair] > 0]


def _columns(cost: NDArray[np.float64]) -> list[int]:
    """For each row its column, at the least cost in all; no more rows than columns."""
    n_rows, n_columns = cost.shape
    row_of = np.full(n_columns, _NONE)
    u, v = np.zeros(n_rows), np.zeros(n_columns)
    for start in range(n_rows):
        _augment(cost, start, row_of, u, v)
    columns = np.empty(n_rows, dtype=np.intp)
    taken = np.flatnonzero(row_of != _NONE)
    columns[row_of[taken]] = taken
    return [int(column) for column in columns]


def _augment(
    cost: NDArray[np.float64],
    start: int,
    row_of: NDArray[np.int_],
    u: NDArray[np.float64],
    v: NDArray[np.float64],
) -> None:
    """Give `start` a column: along the cheapest path of changes to the pairs so far, as Dijkstra
    finds it over the reduced costs cost - u - v, which are never negative."""
    n_columns = cost.shape[1]
    distance = np.full(n_columns, np.inf)
    came_from = np.full(n_columns, _NONE)  # the column before, on the cheapest path
    done = np.zeros(n_columns, dtype=np.bool_)
    row, column, reached = start, _NONE, 0.0
    while True:
        through = reached + cost[row] - u[row] - v
        shorter = ~done & (through < distance)
        distance[shorter], came_from[shorter] = through[shorter], column
        column = int(np.where(done, np.inf, distance).argmin())
        reached, done[column] = float(distance[column]), True
        if row_of[column] == _NONE:
            break
        row = int(row_of[column])
    inside = done.copy()
    inside[column] = False
    u[row_of[inside]] += reached - distance[inside]
    u[start] += reached
    v[inside] -= reached - distance[inside]
    while column != _NONE:
        before = int(came_from[column])
        row_of[column] = start if before == _NONE else row_of[before]
        column = before
