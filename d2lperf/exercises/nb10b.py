"""Checkers of notebook 10b, the fast script on more devices: arithmetic; nothing is timed."""

from __future__ import annotations

from collections.abc import Callable

from d2lperf.exercises import Feedback, checker, failed, gave, passed
from d2lperf.exercises.values import as_list, close, off

__all__ = ["check_bounds", "check_fixed_cost"]


@checker
def check_fixed_cost(
    fixed_cost: Callable[[tuple[float, float], tuple[float, float]], tuple[float, float]],
) -> Feedback:
    """Check the fixed time of a step and the time of a token.

    Args:
        fixed_cost: function of two pairs (tokens in a step, tokens per second) that returns
            (fixed seconds, seconds per token).
    """
    for fixed_s, each_s, n, m in ((2e-3, 1e-6, 1000, 8000), (0.0, 1e-5, 64, 512),
                                  (5e-2, 2e-6, 4096, 512)):  # fmt: skip
        pairs = [(tokens, tokens / (fixed_s + tokens * each_s)) for tokens in (n, m)]
        found = fixed_cost(*pairs)
        call, two = gave(found, fixed_cost, *pairs), as_list(found, 2)
        if two is None:
            return failed(f"{call}; wanted is a pair (fixed seconds, seconds per token)")
        call = gave(two, fixed_cost, *pairs)
        for name, one, wanted in zip(("fixed time", "time per token"), two, (fixed_s, each_s)):
            if not close(one, wanted):
                return failed(f"{call}: the {name} is {off(one, wanted)}")
    return passed("The fixed time is what a larger batch spreads over more tokens.")


@checker
def check_bounds(bounds: Callable[[float, float, int], tuple[float, float]]) -> Feedback:
    """Check the least and the largest speed-up by data-parallel training.

    Args:
        bounds: function of seconds of computing, seconds of an all-reduce on two devices, and the
            number of devices; returns the speed-up without and with full overlap.
    """
    for case in ((31.0, 34.0, 2), (31.0, 34.0, 4), (40.0, 10.0, 8), (10.0, 60.0, 3)):
        compute_s, reduce_s, devices = case
        sent_s = reduce_s * 2 * (devices - 1) / devices
        work = devices * compute_s
        right = work / (compute_s + sent_s), work / max(compute_s, sent_s)
        found = bounds(*case)
        call, two = gave(found, bounds, *case), as_list(found, 2)
        if two is None:
            return failed(f"{call}; wanted is a pair (without overlap, with full overlap)")
        call = gave(two, bounds, *case)
        for name, one, wanted in zip(("without any", "with full"), two, right):
            if not close(one, wanted):
                return failed(
                    f"{call}: the speed-up {name} overlap is {off(one, wanted)}. How long is the "
                    "all-reduce, and how many rows are done meanwhile?"
                )
    return passed("The published speed-ups of two and four GPUs lie between these bounds.")
