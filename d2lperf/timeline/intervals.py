"""Arithmetic on intervals of time.

Intervals are pairs (start, end), shape (n, 2), in any order and unit. The functions raise a
ValueError for what are not pairs, and for an end before its start.
"""

from typing import Any

import numpy as np


def union(intervals: Any) -> np.ndarray:
    """Return the same points of time as sorted, disjoint intervals, shape (m, 2).

    Intervals that touch become one; those of length 0 are dropped.

    >>> union([(4, 5), (0, 2), (1, 3), (3, 3.5)]).tolist()
    [[0.0, 3.5], [4.0, 5.0]]
    """
    array = np.asarray(intervals)
    if array.size == 0:
        return np.empty((0, 2), dtype=array.dtype if array.dtype.kind in "iuf" else np.int64)
    if array.ndim != 2 or array.shape[1] != 2 or not (array[:, 0] <= array[:, 1]).all():
        raise ValueError(f"intervals are pairs (start, end), no end before its start: not {array}")
    array = array[array[:, 0] < array[:, 1]]
    array = array[np.argsort(array[:, 0], kind="stable")]
    latest_end = np.maximum.accumulate(array[:, 1])
    first = np.ones(len(array), dtype=bool)
    first[1:] = array[1:, 0] > latest_end[:-1]
    return np.stack([array[first, 0], latest_end[np.roll(first, -1)]], axis=1)


def gaps(intervals: Any, start: float, end: float) -> np.ndarray:
    """Return the times from `start` to `end` that no interval covers, as `union` does.

    >>> gaps([(1, 2), (4, 9)], 0, 6).tolist()
    [[0, 1], [2, 4]]
    """
    union([(start, end)])  # raises where it is no interval
    edges = np.clip(union(intervals).ravel(), start, end)
    return union(np.concatenate([[start], edges, [end]]).reshape(-1, 2))


def length(intervals: Any) -> float:
    """Return how much time the intervals cover. Time that several of them share counts once.

    >>> length([(0, 2), (1, 3), (10, 11)])
    4
    """
    return np.diff(union(intervals)).sum().item()
