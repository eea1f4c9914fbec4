"""How the samples of one function spread: interval of the median, one level or two. Pure."""

from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np

from d2lperf.measuring import stats

__all__ = ["median_interval", "two_levels"]


def median_interval(
    samples_s: list[float], per_phase: int, confidence: float
) -> tuple[float, float]:
    """Return the interval of the median of samples that come in phases of dependent ones.

    The share of samples below the median varies from phase to phase; that variance, or the one of
    independent samples if larger, gives an interval of shares, whose quantiles are the ends
    (Woodruff, *JASA* 47, 1952, for samples in clusters). It always holds the median.

    Args:
        samples_s: times in order, phase after phase.
        per_phase: samples in a phase; the last one may have fewer.
        confidence: least probability that the interval covers the median.

    Returns:
        `(low, high)` in seconds; `(0, inf)` where there are too few phases.

    >>> median_interval([float(i) for i in range(1, 10)], 1, 0.95)
    (1.0, 9.0)
    """
    phases = [samples_s[i : i + per_phase] for i in range(0, len(samples_s), per_phase)]
    k, n = len(phases), len(samples_s)
    if k < stats.min_pairs(confidence):
        return 0.0, math.inf
    middle = stats.median(samples_s)
    below = [
        sum(1.0 if s < middle else 0.5 if s == middle else 0.0 for s in phase) / len(phase)
        for phase in phases
    ]
    mean = sum(below) / k
    variance = max(sum((b - mean) ** 2 for b in below) / (k * (k - 1)), 0.25 / n)
    z, v = NormalDist().inv_cdf(0.5 + confidence / 2), k - 1
    # Student's t from the normal quantile: Abramowitz and Stegun 26.7.5.
    t = z + (z**3 + z) / (4 * v) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * v**2)
    half = t * math.sqrt(variance)
    ordered = sorted(samples_s)
    first, last = math.floor(n * (0.5 - half)), math.ceil(n * (0.5 + half)) - 1
    return ordered[max(0, first)], ordered[min(n - 1, last)]


def two_levels(samples_s: list[float]) -> tuple[float, float] | None:
    """Return the medians of two clearly separate groups of samples; None where there is one group.

    The groups are those that differ most (Otsu, *IEEE Trans. SMC* 9, 1979). They count as separate
    where they account for 85 % of the variance of the logarithms: the halves of a single
    normal distribution account for 64 %, of a uniform one for 75 %.

    Args:
        samples_s: positive times; fewer than 20 are too few to tell.

    Returns:
        `(quiet, slow)` in seconds, each with at least 10 % of the samples, at least 25 % apart.

    >>> two_levels([1.0, 1.1] * 8 + [2.0, 2.2] * 4)
    (1.05, 2.1)
    """
    ordered = np.sort(samples_s)
    n = len(ordered)
    if n < 20 or not 0 < ordered[0] < ordered[-1] < math.inf:
        return None
    logs = np.log(ordered)
    below, sums = np.arange(1, n), np.cumsum(logs)
    apart = (sums[-1] - sums[:-1]) / (n - below) - sums[:-1] / below
    between = below * (n - below) / n**2 * apart**2
    cut = int(between.argmax()) + 1
    quiet, slow = float(np.median(ordered[:cut])), float(np.median(ordered[cut:]))
    separate = between[cut - 1] >= 0.85 * logs.var() and slow >= 1.25 * quiet
    return (quiet, slow) if separate and min(cut, n - cut) >= 0.1 * n else None
