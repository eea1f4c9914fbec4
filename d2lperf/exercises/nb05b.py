"""Checkers of notebook 05b, the roofline.

What they judge is computed or runs by a simulated clock. Only the numbers of the learner's own
machine, told after the verdict of `check_ridge`, are timed.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from fractions import Fraction

import torch

from d2lperf.exercises import Feedback, checker, failed, gave, passed, show
from d2lperf.exercises.values import as_list, as_number, close, off

__all__ = ["check_decode_batch", "check_ridge", "check_roofline_time"]


# ------------------------------------------------------------------------------------- ridge


# How much slower the first call is, and which calls are interrupted. If both functions were
# disturbed alike, it would cancel in the ridge.
_DISTURBED = {"product": (100.0, (3, 7, 8)), "addition": (10.0, (2, 6))}


class _SimulatedMachine:
    """A clock that only two functions move; some of their calls are disturbed.

    Args:
        product_s: seconds of an undisturbed product.
        addition_s: seconds of an undisturbed addition.
    """

    def __init__(self, product_s: float, addition_s: float):
        self.times_s = {"product": product_s, "addition": addition_s}
        self.calls = {"product": 0, "addition": 0}
        self.now_s = 50.0

    def clock(self) -> float:
        return self.now_s

    def product(self) -> None:
        self._run("product")

    def addition(self) -> None:
        self._run("addition")

    def _run(self, name: str) -> None:
        number = self.calls[name] = self.calls[name] + 1
        first, interrupted = _DISTURBED[name]
        slowness = 1 + 0.002 * (number % 5)
        if number == 1:
            slowness = first
        elif number in interrupted or number % 97 == 0:
            slowness = 20.0
        self.now_s += slowness * self.times_s[name]


@checker
def check_ridge(ridge: Callable[..., float]) -> Feedback:
    """Check a measurement of the ridge on two simulated machines, then tell that of this machine.

    Args:
        ridge: function of a product, its FLOPs, an addition, the bytes it reads and a clock, that
            measures both and returns FLOPs per byte.
    """
    for product_s, addition_s, flops, size in ((2e-3, 1e-3, 2e8, 1.2e7), (1e-4, 4e-3, 1e8, 2.4e7)):
        machine = _SimulatedMachine(product_s, addition_s)
        found = ridge(machine.product, flops, machine.addition, size, machine.clock)
        what = (
            f"a product of {flops:g} FLOPs takes {product_s * 1e3:g} ms, an addition that reads "
            f"{size:g} bytes {addition_s * 1e3:g} ms if nothing disturbs them; you return "
            f"{show(found)}"
        )
        for name, calls in machine.calls.items():
            if calls < 2:
                return failed(f"{what} after {calls} calls of {name}; the first does not count")
        right = (flops / product_s) / (size / addition_s)
        number = as_number(found)
        if number is None or not abs(number / right - 1) <= 0.05:
            return failed(
                f"{what}, which is {off(found, right)}. Is it the rate of the product divided by "
                "the bandwidth of the addition? Do first or interrupted calls count?"
            )
    return passed(_ridge_here(ridge))


def _ridge_here(ridge: Callable[..., float]) -> str:
    """Run the learner's measurement on this machine, and say what follows from its result."""
    n, length = 512, 2**23
    a, b = torch.rand(2, n, n)
    x, y, z = torch.rand(3, length)
    arguments = (lambda: a @ b, 2 * n**3, lambda: torch.add(x, y, out=z), 3 * 4 * length)
    here = float(ridge(*arguments, time.perf_counter))
    return (
        f"Your machine's ridge: {here:.3g} FLOPs per byte, with {torch.get_num_threads()} "
        f"thread(s). Square float32 products, which have n / 6, are bound by memory below "
        f"n = {math.ceil(6 * here)} in this model."
    )


# ------------------------------------------------------------------------------------- roofline


@checker
def check_roofline_time(
    roofline_time: Callable[[float, float, float, float, float], tuple[float, str]],
) -> Feedback:
    """Check the time and the regime that a roofline with overhead predicts.

    Args:
        roofline_time: function of FLOPs, bytes, FLOP/s, B/s and seconds of overhead that returns
            (seconds, "overhead", "memory" or "compute").
    """
    cases = [(2e9, 12e6, 1e11, 1e10, 1e-6), (1e6, 12e6, 1e11, 1e10, 1e-6)]
    cases += [(8, 96, 1e11, 1e10, 2e-6), (2e9, 12e6, 1e14, 1e12, 1e-5)]
    for case in cases:
        flops, size, rate, bandwidth, overhead = case
        times = {"overhead": overhead, "memory": size / bandwidth, "compute": flops / rate}
        regime = max(times, key=times.__getitem__)
        right = overhead + max(times["memory"], times["compute"])
        found = roofline_time(*case)
        call, pair = gave(found, roofline_time, *case), as_list(found, 2)
        if pair is None:
            return failed(f"{call}; wanted is a pair (seconds, regime)")
        if not close(pair[0], right):
            return failed(f"{call}; the time {show(pair[0])} is {off(pair[0], right)}")
        if pair[1] != regime:
            return failed(f"{call}; the time is right, but another part is the longest")
    return passed("The overhead and the longer of two times, in all three regimes.")


# ------------------------------------------------------------------------------------- decoding


@checker
def check_decode_batch(decode_batch: Callable[[float, float, int], int]) -> Feedback:
    """Check the batch from which on a layer is bound by arithmetic instead of its weights.

    Args:
        decode_batch: function of FLOP/s, B/s and the bytes of a weight.
    """
    # Where a case comes out at a whole number its arguments are powers of two, or two right
    # formulas might round to two answers.
    cases = [(989e12, 3.35e12, 2), (2.0**37, 2.0**33, 4), (2e12, 2e12, 1), (3e11, 7e9, 4)]
    for case in cases:
        rate, bandwidth, size = case
        right = math.ceil(Fraction(size) * Fraction(rate) / (2 * Fraction(bandwidth)))
        found = decode_batch(*case)
        if not close(found, right):
            return failed(
                f"{gave(found, decode_batch, *case)}, which is {off(found, right)}: a weight takes "
                f"{size / bandwidth:.3g} s to read, and 2 FLOPs for each row take {2 / rate:.3g} s"
            )
    return passed("Below this batch, reading the weights takes longer than the arithmetic.")
