"""Checkers of notebook 05, hardware. Everything is computed; nothing is timed."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from d2lperf.exercises import Feedback, call_text, checker, failed, passed, show

__all__ = [
    "check_cache_steps",
    "check_decode_batch",
    "check_intensity",
    "check_lines_touched",
    "check_most_terms",
    "check_roofline_time",
]


@checker
def check_intensity(intensity: Callable[[int, int, int, int], float]) -> Feedback:
    """Check the FLOPs for each byte of a product of matrices.

    Args:
        intensity: function of rows, inner size, columns and bytes of a number.
    """
    for m, k, n, size in ((1024, 1024, 1024, 4), (1, 4096, 4096, 2), (64, 512, 128, 4)):
        found = intensity(m, k, n, size)
        right = 2 * m * k * n / (size * (m * k + k * n + m * n))
        if not _near(found, right):
            return failed(
                f"{call_text(intensity, m, k, n, size)} is {right:.4g} FLOPs for each byte: "
                f"{2 * m * k * n:,} FLOPs, {size * (m * k + k * n + m * n):,} bytes; "
                f"you return {show(found)}"
            )
    return passed("A product with one row has hardly any intensity, whatever the other sizes.")


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
        found = roofline_time(*case)
        if not isinstance(found, tuple) or len(found) != 2:
            return failed(f"return a pair (seconds, regime), not {show(found)}")
        if not _near(found[0], times[regime]):
            parts = ", ".join(f"{name} {seconds:.3g} s" for name, seconds in times.items())
            return failed(f"{call_text(roofline_time, *case)}: {parts}; you return {show(found)}")
        if found[1] != regime:
            return failed(f"{call_text(roofline_time, *case)}: the regime is {regime!r}")
    return passed("The longest of three times, in all three regimes.")


@checker
def check_lines_touched(lines_touched: Callable[[int, int, int], int]) -> Feedback:
    """Check how many cache lines a strided access touches.

    Args:
        lines_touched: function of the count of numbers, the stride in numbers and the bytes of a
            number; lines have 64 bytes, the first number begins a line.
    """
    for case in ((16, 1, 4), (17, 1, 4), (100, 16, 4), (100, 32, 4), (10, 3, 8), (1, 1000, 4)):
        count, stride, size = case
        right = len({i * stride * size // 64 for i in range(count)})
        found = lines_touched(*case)
        if found != right:
            return failed(
                f"{call_text(lines_touched, *case)}: numbers begin at the bytes 0, "
                f"{stride * size}, {2 * stride * size}, ...; {right} lines, not {show(found)}"
            )
    return passed("Small strides share lines; from 64 bytes on each number has a line of its own.")


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
    ]
    for bandwidths, right in cases:
        found = cache_steps(sizes, bandwidths)
        if not isinstance(found, (list, tuple)):
            return failed(f"return a list of sizes, not {show(found)}")
        if list(found) != right:
            return failed(
                f"for the sizes 2**14 to 2**21 and the bandwidths {bandwidths} the steps are at "
                f"{right}, but you return {show(list(found))}"
            )
    return passed("Each fall counts once, noise does not count.")


@checker
def check_most_terms(most_terms: Callable[[int, int], int]) -> Feedback:
    """Check how many products of integers an accumulator can surely add.

    Args:
        most_terms: function of the bits of the signed factors and of the signed accumulator.
    """
    for bits, accumulator in ((8, 32), (8, 16), (4, 16), (16, 64), (8, 24)):
        right = (2 ** (accumulator - 1) - 1) // 4 ** (bits - 1)
        found = most_terms(bits, accumulator)
        if found != right:
            largest = 2 ** (accumulator - 1) - 1
            return failed(
                f"{call_text(most_terms, bits, accumulator)}: the largest product is "
                f"{4 ** (bits - 1):,}, the accumulator holds up to {largest:,}; {right:,} products "
                f"fit, not {show(found)}"
            )
    return passed("So products of int8 are summed in int32: 16 bits hold a single worst product.")


@checker
def check_decode_batch(decode_batch: Callable[[float, float, int], int]) -> Feedback:
    """Check the batch from which on a layer is bound by arithmetic instead of its weights.

    Args:
        decode_batch: function of FLOP/s, B/s and the bytes of a weight.
    """
    for rate, bandwidth, size in ((989e12, 3.35e12, 2), (1e11, 1e10, 4), (2e12, 2e12, 1)):
        right = math.ceil(size * rate / (2 * bandwidth))
        found = decode_batch(rate, bandwidth, size)
        if found != right:
            return failed(
                f"{call_text(decode_batch, rate, bandwidth, size)} is {right}: a weight takes "
                f"{size / bandwidth:.3g} s to read, and 2 FLOPs for each row take "
                f"{2 / rate:.3g} s; you return {show(found)}"
            )
    return passed("Below this batch, more rows cost almost no time.")


def _near(found: float, right: float) -> bool:
    try:
        return math.isclose(float(found), right, rel_tol=1e-6)
    except (TypeError, ValueError):
        return False
