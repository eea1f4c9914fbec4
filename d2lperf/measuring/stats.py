"""Medians, paired ratios, intervals and levels: pure functions on flat sequences of numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple, TypeAlias

import numpy as np

Pair = tuple[float, float]
Pairs = Sequence[Pair]
Numbers: TypeAlias = "Sequence[float] | np.ndarray"

MOST_PAIRS = 400  # more are averaged in groups: their pairwise means would fill the memory


def _as_vector(x: Numbers, what: str) -> np.ndarray:
    values = np.asarray(x, dtype=np.float64)
    if values.ndim != 1 or values.size == 0:
        raise ValueError(f"{what} needs a non-empty flat list of numbers: shape {values.shape}.")
    if lost := int(np.isnan(values).sum()):
        raise ValueError(f"{what} needs numbers, but {lost} of {values.size} are NaN.")
    return values


def _tail(confidence: float) -> float:
    """The probability beyond either end of an interval."""
    if not 0 < confidence < 1:
        raise ValueError(f"confidence must lie between 0 and 1, such as 0.95: {confidence!r}.")
    return (1 - confidence) / 2


def median(x: Numbers) -> float:
    """Return the median."""
    return float(np.median(_as_vector(x, "median")))


def quartiles(x: Numbers) -> Pair:
    """Return the lower and the upper quartile (linear interpolation)."""
    lower, upper = np.percentile(_as_vector(x, "quartiles"), [25, 75]).tolist()
    return lower, upper


def _pairwise_means(x: Sequence[float], what: str) -> tuple[int, np.ndarray]:
    """The number n of values, and all (x_i + x_j) / 2 with i <= j, sorted."""
    values = _as_vector(x, what)
    if values.size > MOST_PAIRS:
        groups = -(-values.size // -(-values.size // MOST_PAIRS))
        values = np.array([part.mean() for part in np.array_split(values, groups)])
    i, j = np.triu_indices(values.size)
    # Halved before they are added, so that the largest floats do not overflow.
    return values.size, np.sort(values[i] / 2 + values[j] / 2)


def hodges_lehmann(x: Sequence[float]) -> float:
    """Return the Hodges-Lehmann estimate of the centre: the median of all pairwise means.

    It is nearly as precise as the mean for normal noise and hardly moves when up to 29 % of the
    values are wild (Hodges and Lehmann, *Annals of Mathematical Statistics* 34, 1963).

    >>> hodges_lehmann([1.0, 2.0, 3.0, 1000.0])
    2.75
    """
    return float(np.median(_pairwise_means(x, "hodges_lehmann")[1]))


@lru_cache(maxsize=512)
def _signed_rank_cdf(n: int) -> np.ndarray:
    """P(W <= w) for w = 0..n(n+1)/2, W the signed-rank statistic of n symmetric differences."""
    p = np.zeros(n * (n + 1) // 2 + 1)
    p[0] = 1.0
    for rank in range(1, n + 1):  # each rank is added with probability one half
        p[rank:] += p[:-rank]
        p /= 2
    return np.cumsum(p)


def min_pairs(confidence: float = 0.95) -> int:
    """Return the least n for which `signed_rank_interval` is finite."""
    return max(1, math.ceil(-math.log2(_tail(confidence)) - 1e-9))


def signed_rank_interval(x: Sequence[float], confidence: float = 0.95) -> Pair:
    """Return the Wilcoxon signed-rank interval of the centre of `x`.

    It holds every centre that the two-sided signed-rank test does not reject; its ends are order
    statistics of the pairwise means (Hollander, Wolfe and Chicken, *Nonparametric Statistical
    Methods*, 3rd ed., section 3.3). It assumes that the values are independent and symmetric about
    their centre; no normality. Exact up to 60 values, the normal approximation beyond.

    Args:
        x: n values, such as the logarithms of n paired ratios.
        confidence: least probability that the interval covers the centre.

    Returns:
        `(low, high)` in the unit of `x`, or `(-inf, inf)` when n is below `min_pairs(confidence)`.

    >>> signed_rank_interval([1.0, 2.0, 3.0, 4.0, 5.0, 6.0])
    (1.0, 6.0)
    """
    n, means = _pairwise_means(x, "signed_rank_interval")
    tail = _tail(confidence)
    if n > 60:
        from statistics import NormalDist  # it brings decimals and fractions along

        z = NormalDist().inv_cdf(1 - tail)
        k = math.floor(n * (n + 1) / 4 - z * math.sqrt(n * (n + 1) * (2 * n + 1) / 24))
    else:
        # The largest k with P(W <= k - 1) <= tail; the slack is for rounding in the sums.
        k = int(np.searchsorted(_signed_rank_cdf(n), tail * (1 + 1e-12), side="right"))
    return _cut(means, k)


def _cut(ordered: np.ndarray, k: int) -> Pair:
    """The k-th value from either end, infinite for k below 1."""
    return (float(ordered[k - 1]), float(ordered[-k])) if k >= 1 else (-math.inf, math.inf)


@lru_cache(maxsize=64)
def _rank_sum_cdf(m: int, n: int) -> np.ndarray:
    """P(U <= u) for u = 0..mn, U the Mann-Whitney statistic of m and n values of one kind."""
    ways = np.zeros((m + 1, m * n + 1))
    ways[0, 0] = 1.0
    for above in range(n + 1):  # a value may lie above 0..n of the others
        for taken in range(1, m + 1):
            ways[taken, above:] += ways[taken - 1, : m * n + 1 - above]
    return np.cumsum(ways[m]) / math.comb(m + n, n)


class Shift(NamedTuple):
    """How far one sample lies above another: the median difference and its interval."""

    centre: float
    low: float
    high: float


def rank_sum_interval(x: Sequence[float], y: Sequence[float], confidence: float = 0.95) -> Shift:
    """Return how far `x` lies above `y`: the median difference and the exact rank-sum interval.

    For few values: four and four that do not overlap differ at 97 %. It assumes independent values
    of the same distribution but for the shift (Hollander, Wolfe and Chicken, section 4.3).
    """
    a, b = _as_vector(x, "rank_sum_interval"), _as_vector(y, "rank_sum_interval")
    differences = np.sort(np.subtract.outer(a, b).ravel())
    tail = _tail(confidence) * (1 + 1e-12)
    k = int(np.searchsorted(_rank_sum_cdf(a.size, b.size), tail, side="right"))
    return Shift(float(np.median(differences)), *_cut(differences, k))


class Quiet(NamedTuple):
    """A function's quiet level, and the limit above which a time counts as disturbed."""

    level: float
    limit: float


def quiet_limit(x: Numbers) -> Quiet:
    """Return a function's quiet level, and the limit above which a time counts as disturbed.

    The level is a low quantile, so that we find it even if most times are disturbed: the 25th
    percentile of fewer than 32 times, else the 10th. The limit lies 10 % above it, or three
    (five) times as far as the level lies above the 5th (2nd) percentile.
    """
    logs = np.log(_as_vector(x, "quiet_limit"))
    few = logs.size < 32
    low, level = np.quantile(logs, [0.05, 0.25] if few else [0.02, 0.10])
    limit = level + max(math.log(1.1), (3 if few else 5) * (level - low))
    return Quiet(math.exp(level), math.exp(limit))


def disturbed(first: Pairs, second: Pairs) -> tuple[np.ndarray, np.ndarray]:
    """Tell for each of two functions in which rounds one of its times was above its quiet limit."""
    pairs = [np.asarray(rounds, dtype=np.float64).reshape(-1, 2) for rounds in (first, second)]
    limits = [quiet_limit(p.ravel()) for p in pairs]
    # Both get the more generous limit, relative to their levels: the counts can be compared.
    most = max(quiet.limit / quiet.level for quiet in limits)
    return tuple(p.max(axis=1) > quiet.level * most for p, quiet in zip(pairs, limits))


def quiet_rounds(first: Pairs, second: Pairs) -> list[int]:
    """Return the numbers of the rounds in which two functions together were not far above quiet.

    The rule favours neither: it looks at the product of a round's four times only, which leaves
    their ratio symmetric. If fewer than 16 rounds and fewer than half would be left, all count.
    """
    if len(first) != len(second):
        raise ValueError(f"both need the same number of rounds: {len(first)}, {len(second)}.")
    if not len(first):
        return []
    # The geometric mean of two: a function that is 10 % slower moves it as much as the limit.
    means = np.exp(np.log(np.asarray([first, second], dtype=np.float64)).sum(axis=(0, 2)) / 2)
    quiet = np.flatnonzero(means <= quiet_limit(means).limit)
    return quiet.tolist() if quiet.size >= min(16, len(first) / 2) else list(range(len(first)))


def excess_p(more: int, fewer: int, share: float = 0.5) -> float:
    """Return P(X >= more) for X binomial of `more + fewer` trials with probability `share`."""
    if more == 0 or not 0 < share < 1:
        return 1.0
    from scipy.special import bdtrc

    return float(bdtrc(more - 1, more + fewer, share))


def two_levels(x: Sequence[float]) -> Pair | None:
    """Return the quiet and the slow level of times that fall into two groups, None for one group.

    The best split of the logarithms in two (Otsu, *IEEE Transactions on Systems, Man, and
    Cybernetics* 9, 1979) counts where it explains at least 80 % of the variance (for one evenly
    spread group it is 75 %, for a bell curve 64 %), each group holds a tenth of at least 20 times,
    and the levels, the groups' medians, differ by a quarter.
    """
    ordered = np.sort(np.asarray(x, dtype=np.float64))
    n = ordered.size
    if n < 20 or ordered[0] <= 0:
        return None
    logs = np.log(ordered)
    left = np.arange(1, n)
    sums = np.cumsum(logs)
    gap = sums[:-1] / left - (sums[-1] - sums[:-1]) / (n - left)
    between = left / n * (1 - left / n) * gap**2
    cut = int(np.argmax(between)) + 1
    quiet, slow = float(np.median(ordered[:cut])), float(np.median(ordered[cut:]))
    if min(cut, n - cut) / n < 0.1 or slow < 1.25 * quiet or between[cut - 1] < 0.8 * logs.var():
        return None
    return quiet, slow
