"""Checker of notebook 08d, sending during the backward pass. Nothing is timed."""

from __future__ import annotations

from collections.abc import Callable

from d2lperf.exercises import Feedback, checker, failed, gave, passed
from d2lperf.exercises.values import as_list, as_whole, off

__all__ = ["check_buckets"]


# ----------------------------------------------------------------------------------- buckets


@checker
def check_buckets(buckets: Callable[[list[int], int, int], list[int]]) -> Feedback:
    """Check the buckets that DDP builds.

    Args:
        buckets: function of the bytes of all gradients (from the first layer to the last), the
            limit of the first bucket and that of the others; returns the bytes of each bucket.
    """
    cases = [
        ([10, 10, 10, 10], 10, 20, [10, 20, 10]),
        ([1, 2, 3, 4], 1, 100, [4, 6]),
        ([5, 5], 100, 100, [10]),
        ([4, 50, 3], 5, 10, [53, 4]),
        ([8, 1, 1, 1, 8], 2, 3, [8, 3, 8]),
        ([6], 6, 6, [6]),
    ]
    for sizes, first, cap, wanted in cases:
        found = buckets(list(sizes), first, cap)
        call, held = gave(found, buckets, sizes, first, cap), as_list(found)
        if held is None or None in map(as_whole, held):
            return failed(f"{call}; wanted is a list of bytes")
        if sum(held) != sum(sizes):
            return failed(f"{call}; these buckets hold {sum(held)} bytes in all")
        if 0 in held:
            return failed(f"{call}; a bucket without bytes is none")
        for k, (one, right) in enumerate(zip(held, wanted), 1):
            if one != right:
                return failed(f"{call}; all bytes are there, but bucket {k} is {off(one, right)}")
    return passed("From the last gradient to the first, closed as soon as full.")
