"""Checkers of notebook 05, hardware.

What they judge is computed: nothing is timed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence

from d2lperf.exercises import Feedback, checker, failed, gave, passed, show
from d2lperf.exercises.values import as_list, as_whole, close, off

__all__ = ["check_blocks_time", "check_cache_steps", "check_lines_touched"]


# ------------------------------------------------------------------------------------- lines


@checker
def check_lines_touched(lines_touched: Callable[[int, int, int], int]) -> Feedback:
    """Check how many cache lines a strided access touches.

    Args:
        lines_touched: function of the count of numbers, the stride in numbers and the bytes of a
            number; lines have 64 bytes, the first number begins a line.
    """
    cases = [(16, 1, 4), (17, 1, 4), (100, 16, 4), (100, 32, 4), (10, 3, 8), (1, 1000, 4)]
    cases += [(2, 12, 4), (5, 12, 4), (7, 9, 4), (3, 15, 2), (6, 5, 8), (9, 20, 2)]
    for case in cases:
        count, stride, size = case
        right = len({i * stride * size // 64 for i in range(count)})
        found = lines_touched(*case)
        if not close(found, right):
            return failed(
                f"{gave(found, lines_touched, *case)}, which is {off(found, right)}: the numbers "
                f"begin at the bytes {_first(i * stride * size for i in range(count))}"
            )
    return passed("Small strides share lines; from 64 bytes on each number has a line of its own.")


def _first(values: Iterable) -> str:
    """The first of a series of numbers, as text."""
    values = list(values)
    return ", ".join(map(str, values[:5])) + (", ..." if len(values) > 5 else "")


# ------------------------------------------------------------------------------------- caches


@checker
def check_cache_steps(
    cache_steps: Callable[[Sequence[int], Sequence[float]], Sequence[int]],
) -> Feedback:
    """Check the sizes at which a measured bandwidth falls.

    Args:
        cache_steps: function of sizes in bytes and bandwidths; returns the last size before each
            fall by more than 30 % from one size to the next. Neighbouring falls count once.
    """
    sizes = [2**k for k in range(14, 22)]
    cases = [
        ([90, 92, 50, 51, 50, 20, 21, 20], [2**15, 2**18]),
        ([90, 90, 60, 30, 30, 29, 30, 29], [2**15]),
        ([40, 38, 36, 34, 32, 30, 28, 27], []),
        ([90, 60, 59, 60, 40, 26, 26, 10], [2**14, 2**17, 2**20]),
        ([90, 69, 53, 52, 38, 37, 25, 25], [2**19]),  # by 23 %, 23 %, 27 %: no steps; by 32 %
    ]
    for bandwidths, right in cases:
        found = cache_steps(list(sizes), list(bandwidths))
        steps = as_list(found)
        call = f"for the sizes 2**14 to 2**21 and the bandwidths {bandwidths} you return "
        if steps is None:
            return failed(f"{call}{show(found)}; wanted is a list of sizes")
        call += _powers(steps)
        extra = [size for size in steps if size not in right]
        if extra:
            return failed(f"{call}; {_powers(extra[:1])} is not the last size before a step")
        if len(steps) != len(right):
            return failed(f"{call}; {'a step is missing' if steps < right else 'one is twice'}")
        if steps != right:
            return failed(f"{call}; the steps are right, but not in the order of the sizes")
    return passed("Each fall counts once, noise does not count.")


def _powers(sizes: Sequence[int]) -> str:
    """Sizes as powers of two where they are some."""
    texts = []
    for size in sizes:
        whole = as_whole(size)
        if whole is not None and whole > 0 and whole.bit_count() == 1:
            texts.append(f"2**{whole.bit_length() - 1}")
        else:
            texts.append(show(size))
    return f"[{', '.join(texts)}]"


# ------------------------------------------------------------------------------------- blocks


@checker
def check_blocks_time(
    blocks_time: Callable[[int, int, int, float, float, float], float],
) -> Feedback:
    """Check the predicted time of several passes over an array in blocks.

    Args:
        blocks_time: function of the bytes of the array and of a block, the passes, the bandwidths
            of memory and of the cache in bytes read per second, and the seconds of overhead;
            returns seconds.
    """
    cases = [(2**27, 2**18, 8, 2e10, 8e10, 1e-6), (2**27, 2**18, 1, 2e10, 8e10, 1e-6)]
    cases += [(2**20, 2**12, 4, 1e10, 4e10, 2e-6), (1000, 300, 3, 1e9, 4e9, 1e-6)]
    for case in cases:
        size, block, passes, memory, cache, overhead = case
        calls = passes * math.ceil(size / block)
        parts = (size / memory, (passes - 1) * size / cache, calls * overhead)
        found = blocks_time(*case)
        if not close(found, sum(parts)):
            return failed(
                f"{gave(found, blocks_time, *case)}, which is {off(found, sum(parts))}: how often "
                "does each block come from memory, and from the cache? In how many calls? A pass "
                "reads each byte once"
            )
    return passed("The three parts of section 2 add up.")
