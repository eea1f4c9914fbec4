"""Medians, paired ratios and their intervals: pure functions on arrays of numbers.

Nothing here knows a clock, a device or a drawing. Every function takes any sequence of real
numbers and returns plain floats.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from statistics import NormalDist

import numpy as np

__all__ = [
    "hodges_lehmann",
    "median",
    "median_interval",
    "min_pairs",
    "quartiles",
    "quiet_rounds",
    "signed_rank_interval",
    "simultaneous_confidence",
    "wilson_interval",
]


def _as_vector(x: Sequence[float], what: str) -> np.ndarray:
    """Return `x` as a float64 vector; complain about anything that is not a list of numbers."""
    values = np.asarray(x, dtype=np.float64)
    if values.ndim != 1 or values.size == 0:
        raise ValueError(
            f"{what} needs a non-empty one-dimensional sequence of numbers, "
            f"but got shape {values.shape}. Pass the samples as a flat list."
        )
    if np.isnan(values).any():
        raise ValueError(
            f"{what} needs numbers, but {int(np.isnan(values).sum())} of {values.size} are NaN. "
            "Remove them, and find out why they are there."
        )
    return values


def _check_confidence(confidence: float) -> None:
    if not 0 < confidence < 1:
        raise ValueError(
            f"confidence must lie between 0 and 1, but got {confidence!r}. "
            "Write 0.95 for a 95 % interval."
        )


def median(x: Sequence[float]) -> float:
    """Return the median.

    Args:
        x: n >= 1 numbers, any unit.

    Returns:
        The middle value, or the mean of the two middle ones, in the unit of `x`.

    Raises:
        ValueError: `x` is empty, not flat, or holds NaN.

    >>> median([3.0, 1.0, 100.0])
    3.0
    """
    return float(np.median(_as_vector(x, "median")))


def quartiles(x: Sequence[float]) -> tuple[float, float]:
    """Return the lower and the upper quartile (linear interpolation between order statistics).

    Args:
        x: n >= 1 numbers, any unit.

    Returns:
        `(q25, q75)` in the unit of `x`.

    Raises:
        ValueError: `x` is empty, not flat, or holds NaN.

    >>> quartiles([1.0, 2.0, 3.0, 4.0, 5.0])
    (2.0, 4.0)
    """
    low, high = np.percentile(_as_vector(x, "quartiles"), [25, 75])
    return float(low), float(high)


@lru_cache(maxsize=512)
def _binomial_half_cdf(n: int) -> np.ndarray:
    """P(B <= k) for k = 0..n, where B counts heads in n fair coin flips."""
    weights = np.array([math.comb(n, k) for k in range(n + 1)], dtype=object)
    return np.array([float(c) for c in np.cumsum(weights) / 2**n])


def median_interval(x: Sequence[float], confidence: float = 0.95) -> tuple[float, float]:
    """Return the exact interval of the median from order statistics.

    The number of samples below the true median is binomial with p = 1/2, whatever the
    distribution (the sign test turned round; Conover, *Practical Nonparametric
    Statistics*, 3rd ed., section 3.2).

    Args:
        x: n independent samples, any unit.
        confidence: least probability that the interval covers the median.

    Returns:
        `(low, high)` in the unit of `x`; infinite where n is too small for the confidence
        asked (n < 6 at 0.95).

    Raises:
        ValueError: `x` is empty or holds NaN, or `confidence` is not between 0 and 1.

    >>> median_interval(range(1, 11))
    (2.0, 9.0)
    """
    values = np.sort(_as_vector(x, "median_interval"))
    _check_confidence(confidence)
    n = values.size
    # At n in the thousands the exact counts are exact to no purpose; the normal
    # approximation of the same binomial differs by less than one order statistic.
    if n > 500:
        z = NormalDist().inv_cdf(0.5 + confidence / 2)
        k = math.floor(n / 2 - z * math.sqrt(n) / 2)
    else:
        k = int(np.searchsorted(_binomial_half_cdf(n), (1 - confidence) / 2, side="right"))
    if k < 1:
        return -math.inf, math.inf
    return float(values[k - 1]), float(values[n - k])


@lru_cache(maxsize=512)
def _signed_rank_cdf(n: int) -> np.ndarray:
    """P(W <= w) for w = 0..n(n+1)/2, W the signed-rank statistic of n symmetric differences.

    Rank i is added with probability one half: one convolution for each rank, in probabilities
    rather than counts so that n = 128 does not overflow.
    """
    p = np.zeros(n * (n + 1) // 2 + 1)
    p[0] = 1.0
    for rank in range(1, n + 1):
        shifted = np.zeros_like(p)
        shifted[rank:] = p[:-rank]
        p = 0.5 * (p + shifted)
    return np.cumsum(p)


def _walsh_averages(values: np.ndarray) -> np.ndarray:
    """All (x_i + x_j) / 2 with i <= j, sorted: n(n+1)/2 of them."""
    i, j = np.triu_indices(values.size)
    # Halved before they are added, so that the largest floats do not overflow.
    return np.sort(values[i] / 2 + values[j] / 2)


def hodges_lehmann(x: Sequence[float]) -> float:
    """Return the Hodges-Lehmann estimate of the centre: the median of all pairwise means.

    It is nearly as precise as the mean for normal noise and hardly moves when up to
    29 % of the values are wild (Hodges and Lehmann, *Annals of Mathematical
    Statistics* 34, 1963).

    Args:
        x: n >= 1 numbers, any unit.

    Returns:
        The estimate in the unit of `x`.

    Raises:
        ValueError: `x` is empty, not flat, or holds NaN.

    >>> hodges_lehmann([1.0, 2.0, 3.0, 1000.0])
    2.75
    """
    return float(np.median(_walsh_averages(_as_vector(x, "hodges_lehmann"))))


def min_pairs(confidence: float = 0.95) -> int:
    """Return the least number of pairs for which `signed_rank_interval` is finite.

    Args:
        confidence: as in `signed_rank_interval`.

    Returns:
        The least n with 2 ** -n <= (1 - confidence) / 2.

    Raises:
        ValueError: `confidence` is not between 0 and 1.

    >>> min_pairs(0.95), min_pairs(0.99)
    (6, 8)
    """
    _check_confidence(confidence)
    return max(1, math.ceil(1 - math.log2(1 - confidence) - 1e-9))


def signed_rank_interval(x: Sequence[float], confidence: float = 0.95) -> tuple[float, float]:
    """Return the exact Wilcoxon signed-rank interval of the centre of `x`.

    The interval holds every centre that the two-sided signed-rank test does not reject; its
    ends are order statistics of the pairwise means (Hollander, Wolfe and Chicken,
    *Nonparametric Statistical Methods*, 3rd ed., section 3.3). It assumes that the values
    are independent and symmetric about their centre; no normality.

    Args:
        x: n values, such as the logarithms of n paired ratios.
        confidence: least probability that the interval covers the centre.

    Returns:
        `(low, high)` in the unit of `x`, or `(-inf, inf)` when n is below
        `min_pairs(confidence)`: so few values cannot support such an interval.

    Raises:
        ValueError: `x` is empty or holds NaN, or `confidence` is not between 0 and 1.

    >>> signed_rank_interval([1.0, 2.0, 3.0, 4.0, 5.0, 6.0])
    (1.0, 6.0)
    """
    values = _as_vector(x, "signed_rank_interval")
    _check_confidence(confidence)
    # The largest k with P(W <= k - 1) <= alpha / 2: that many Walsh averages are cut at each end.
    # The tiny slack keeps 2 ** -6 <= 0.025-like comparisons free of rounding in the sums.
    alpha_half = (1 - confidence) / 2
    k = int(np.searchsorted(_signed_rank_cdf(values.size), alpha_half * (1 + 1e-12), side="right"))
    if k < 1:
        return -math.inf, math.inf
    walsh = _walsh_averages(values)
    return float(walsh[k - 1]), float(walsh[walsh.size - k])


def simultaneous_confidence(confidence: float, intervals: int) -> float:
    """Return the confidence each of several intervals needs so that all hold together.

    The Bonferroni correction: the chances of error add up at worst, so each gets its share.

    Args:
        confidence: wanted for all the intervals together.
        intervals: how many there are, at least 1.

    Returns:
        The confidence for each single interval.

    Raises:
        ValueError: `confidence` is not between 0 and 1, or `intervals` is below 1.

    >>> round(simultaneous_confidence(0.95, 5), 4)
    0.99
    """
    _check_confidence(confidence)
    if intervals < 1:
        raise ValueError(f"intervals must be at least 1, but got {intervals!r}.")
    return 1 - (1 - confidence) / intervals


def quiet_rounds(*series: Sequence[tuple[float, float]]) -> list[int]:
    """Return the rounds in which no function was far above its own quiet level.

    A neighbour that takes a core away makes some rounds slower for everybody, by an amount
    that says nothing about the functions. A function's quiet level is the lower quartile of its
    phases; far above it is more than 10 % and more than three times the distance from the 5th
    to the 25th percentile. The rule looks at each function by itself and never at their ratio, so
    it favours neither. Where fewer than half of the rounds would be left, that is how this
    machine is, and all of them count.

    Args:
        series: for each function n pairs of positive times, any unit.

    Returns:
        The numbers of the rounds to use, in order.

    Raises:
        ValueError: no function, or functions with different numbers of rounds.

    >>> quiet_rounds([(1.0, 1.0)] * 9 + [(1.0, 3.0)], [(2.0, 2.0)] * 10)
    [0, 1, 2, 3, 4, 5, 6, 7, 8]
    """
    lengths = {len(pairs) for pairs in series}
    if len(lengths) != 1:
        raise ValueError(f"every function needs the same number of rounds, but got {lengths}.")
    n = lengths.pop()
    if n == 0:
        return []
    quiet = np.ones(n, dtype=bool)
    for pairs in series:
        logs = np.log(np.asarray(pairs, dtype=np.float64))
        low, level = np.quantile(logs, [0.05, 0.25])
        quiet &= logs.max(axis=1) <= level + max(math.log(1.1), 3 * (level - low))
    chosen = np.flatnonzero(quiet) if 2 * quiet.sum() >= n else np.arange(n)
    return chosen.tolist()


def wilson_interval(successes: int, trials: int, confidence: float = 0.95) -> tuple[float, float]:
    """Return Wilson's score interval of a proportion (*JASA* 22, 1927).

    It stays inside [0, 1] and is sensible for 0 of n, where the textbook interval has no width.

    Args:
        successes: how often it happened, 0 to `trials`.
        trials: how often it could have happened, at least 1.
        confidence: nominal coverage.

    Returns:
        `(low, high)`, fractions between 0 and 1.

    Raises:
        ValueError: the counts do not fit each other, or `confidence` is not between 0 and 1.

    >>> low, high = wilson_interval(0, 50)
    >>> low, round(high, 3)
    (0.0, 0.071)
    """
    _check_confidence(confidence)
    if trials < 1 or not 0 <= successes <= trials:
        raise ValueError(
            f"needs 0 <= successes <= trials and trials >= 1, but got {successes} of {trials}."
        )
    z = NormalDist().inv_cdf(0.5 + confidence / 2)
    p = successes / trials
    centre = (p + z * z / (2 * trials)) / (1 + z * z / trials)
    spread = z / (1 + z * z / trials) * math.sqrt(p * (1 - p) / trials + (z / (2 * trials)) ** 2)
    # At the ends centre and spread agree but for rounding; 0 of n has the lower end 0.
    low = 0.0 if successes == 0 else max(0.0, centre - spread)
    high = 1.0 if successes == trials else min(1.0, centre + spread)
    return low, high
