"""Checker of notebook 05c, latency and cores. Nothing is timed."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from d2lperf.exercises import Feedback, checker, failed, gave, passed
from d2lperf.exercises.values import as_list, as_whole

__all__ = ["check_following"]


@checker
def check_following(following: Callable[[list[int]], list[int]]) -> Feedback:
    """Check a chain that walks through all places.

    Args:
        following: function of the places 0 to n - 1 in the order of a walk; returns a list with
            the next place for each place. The last place of the walk leads to the first.
    """
    drawn = np.random.default_rng(0).permutation(50).tolist()
    for order in ([2, 0, 1], [1, 3, 0, 2], [0, 1], [0], drawn):
        found = following(list(order))
        call, held = gave(found, following, order), as_list(found)
        nexts = [-1 if place is None else place for place in map(as_whole, held or [])]
        if len(nexts) != len(order) or not all(0 <= place < len(order) for place in nexts):
            return failed(f"{call}; wanted is one of the {len(order)} places for each place")
        place = order[0]
        for step, wanted in enumerate([*order[1:], order[0]], 1):
            if nexts[place] != wanted:
                said = f"step {step} of the walk leads from {place} to {nexts[place]}"
                return failed(f"{call}; {said}, which is not the next place in the order")
            place = wanted
    return passed("A walk visits each place once, and ends where it began.")
