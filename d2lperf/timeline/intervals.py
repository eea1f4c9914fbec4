"""Arithmetic on intervals of time.

Intervals are pairs (start, end), shape (n, 2), in any order and unit. The functions raise a
ValueError for what are not pairs, and for an end before its start.
"""

from __future__ import annotations

from typing import Any

import numpy as np


def union(intervals: Any) -> np.ndarray:
    """Return the same points of time as sorted, disjoint intervals, shape (m, 2).

    Intervals that touch become one; those of length 0 are dropped.

    >>> union([(4, 5), (0, 2), (1, 3), (3, 3.5)]).tolist()
    [[0.0, 3.5], [4.0, 5.0]]
    """
    array = _pairs(intervals)
    array = array[array[:, 0] < array[:, 1]]
    if not len(array):
        return array
    array = array[np.argsort(array[:, 0], kind="stable")]
    latest_end = np.maximum.accumulate(array[:, 1])
    first = np.concatenate([[True], array[1:, 0] > latest_end[:-1]])
    last = np.concatenate([first[1:], [True]])
    return np.stack([array[first, 0], latest_end[last]], axis=1)


def intersection(a: Any, b: Any) -> np.ndarray:
    """Return the times that lie in both, as `union` does.

    >>> intersection([(0, 4), (6, 9)], [(3, 7)]).tolist()
    [[3, 4], [6, 7]]
    """
    a, b = union(a), union(b)
    points = np.concatenate([a[:, 0], b[:, 0], a[:, 1], b[:, 1]])
    steps = np.repeat([1, -1], len(a) + len(b))
    order = np.argsort(points, kind="stable")
    points, covered = points[order], np.cumsum(steps[order])
    both = np.flatnonzero(covered[:-1] == 2)
    return union(np.stack([points[both], points[both + 1]], axis=1))


def gaps(intervals: Any, start: float, end: float) -> np.ndarray:
    """Return the times from `start` to `end` that no interval covers, as `union` does.

    >>> gaps([(1, 2), (4, 9)], 0, 6).tolist()
    [[0, 1], [2, 4]]
    """
    window = _pairs([(start, end)])
    edges = np.clip(union(intervals).ravel(), start, end)
    return union(np.concatenate([window[0, :1], edges, window[0, 1:]]).reshape(-1, 2))


def length(intervals: Any) -> float:
    """Return how much time the intervals cover. Time that several of them share counts once.

    >>> length([(0, 2), (1, 3), (10, 11)])
    4
    """
    covered = union(intervals)
    return (covered[:, 1] - covered[:, 0]).sum().item()


def _pairs(intervals: Any) -> np.ndarray:
    array = np.asarray(intervals)
    if array.size == 0:
        return np.empty((0, 2), dtype=array.dtype if array.dtype.kind in "iuf" else np.int64)
    if array.ndim != 2 or array.shape[1] != 2:
        raise ValueError(
            f"intervals are pairs (start, end), shape (n, 2), but got shape {array.shape}."
        )
    backward = ~(array[:, 0] <= array[:, 1])
    if backward.any():
        start, end = array[backward][0]
        raise ValueError(f"the interval ({start}, {end}) ends before it starts.")
    return array
