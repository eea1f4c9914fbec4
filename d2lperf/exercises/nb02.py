"""Checkers of notebook 02, compilers and interpreters: they count bytes, calls and numbers.

Nothing is timed, and no C++ compiler is needed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from d2lperf.exercises import Feedback, checker, failed, gave, passed, show
from d2lperf.exercises.values import as_list, as_number, close, off

__all__ = ["check_bytes_moved", "check_calls_needed", "check_pays_from"]

# ------------------------------------------------------------------------------- bytes_moved

_CHAINS = {
    "a chain": [("a", ["z"]), ("b", ["a"]), ("c", ["b"])],
    "a chain that needs its input again": [("a", ["z"]), ("b", ["a", "z"]), ("c", ["b"])],
    "one with two inputs": [("a", ["x"]), ("b", ["a", "y"])],
    "one that uses a value twice": [("a", ["x", "x"]), ("b", ["a", "x"])],
}


def _moved(operations: Sequence, nbytes: int) -> tuple[int, int]:
    """Bytes unfused and fused."""
    made = {name for name, _ in operations}
    unfused = sum(len(set(inputs)) + 1 for _, inputs in operations)
    outside = {i for _, inputs in operations for i in inputs} - made
    return unfused * nbytes, (len(outside) + 1) * nbytes


@checker
def check_bytes_moved(bytes_moved: Callable[[list, int], tuple[int, int]]) -> Feedback:
    """Check a model of the memory traffic of pointwise operations, unfused and fused.

    Args:
        bytes_moved: function of the operations (name, names of inputs) and of the bytes of one
            vector that returns the bytes moved one by one and when fused into one loop.
    """
    for what, operations in _CHAINS.items():
        for nbytes in (1, 4_000_000):
            found = bytes_moved([(n, list(i)) for n, i in operations], nbytes)
            call = f"{what}: bytes_moved({operations}, {nbytes}) gave {show(found)}"
            pair = as_list(found, 2)
            if pair is None:
                return failed(f"{call}; wanted is a pair (unfused, fused)")
            kinds = ("one loop per operation", "one fused loop")
            for kind, one, right in zip(kinds, pair, _moved(operations, nbytes)):
                if not close(one, right):
                    return failed(f"{call}; for {kind}, {show(one)} is {off(one, right)}")
    return passed("Reads and writes counted right, with and without fusion.")


# ------------------------------------------------------------------------------ calls_needed

# first call, each call of eager, each later call (seconds), calls needed
_PAYMENTS = [
    (10.0, 3.0, 1.0, 5),  # after 4 calls 13 against 12, after 5 calls 14 against 15
    (9.0, 3.0, 1.0, 5),  # after 4 calls 12 against 12: only equal
    (2.0, 1.0, 1.0, math.inf),
    (2.0, 1.0, 1.5, math.inf),
    (0.5, 1.0, 2.0, 1),
    (0.5, 1.0, 0.25, 1),
    (1.0, 0.0625, 0.03125, 32),
]


@checker
def check_calls_needed(calls_needed: Callable[[float, float, float], float]) -> Feedback:
    """Check the number of calls after which a compilation has paid for itself.

    Args:
        calls_needed: function of the first call, of a call of eager and of a later call, all in
            seconds, that returns the smallest number of calls whose total is below eager's.
    """
    for *times, right in _PAYMENTS:
        found = calls_needed(*times)
        if close(found, right):
            continue
        call = gave(found, calls_needed, *times)
        n = as_number(found)
        if n is None or n < 1:
            return failed(f"{call}; wanted is a number of calls, at least one")
        if math.isinf(n):
            return failed(f"{call}, but some number of calls takes less in total than eager calls")
        first_s, eager_s, later_s = times
        compiled_s = first_s + (n - 1) * later_s
        why = f"{n:g} calls take {compiled_s:g} s compiled, {n * eager_s:g} s eager"
        fewer = "; fewer calls pay, too" if compiled_s < n * eager_s else ", which is not less"
        return failed(f"{call}: {why}{fewer}")
    return passed("The price of the first call and the saving of the others, set off.")


# --------------------------------------------------------------------------------- pays_from

# eager and compiled on almost no data, eager on n numbers (seconds), n, vectors moved: size
_SIZES = [
    ((8e-6, 12e-6, 60e-6, 100_000, 13, 2), 4e-6 / (52e-6 / 13 / 100_000 * 11)),
    ((4e-6, 10e-6, 20e-6, 1_000, 8, 4), 6e-6 / (16e-6 / 8 / 1_000 * 4)),
    ((4e-6, 3e-6, 20e-6, 1_000, 8, 4), 0.0),
    ((4e-6, 4e-6, 20e-6, 1_000, 8, 4), 0.0),
    ((4e-6, 10e-6, 20e-6, 1_000, 3, 3), math.inf),
]


@checker
def check_pays_from(
    pays_from: Callable[[float, float, float, int, int, int], float],
) -> Feedback:
    """Check the size from which a compiled pointwise chain is faster than the eager one.

    Args:
        pays_from: function of the times of an eager and of a compiled call on almost no data and
            of an eager call on n numbers (seconds), of n, and of the vectors that the eager
            operations and the fused loop move. It returns a size in numbers.
    """
    for case, right in _SIZES:
        found = pays_from(*case)
        if close(found, right):
            continue
        eager_s, compiled_s, _, _, separate, fused = case
        if compiled_s <= eager_s:
            why = "here the compiled call is not slower on almost no data"
        elif separate == fused:
            why = "here the loop moves as many vectors as the operations"
        else:
            why = f"this size is {off(found, right)}. Which part of the times grows with the size?"
        return failed(f"{gave(found, pays_from, *case)}; {why}")
    return passed("The price of a call against the vectors that fusion saves.")
