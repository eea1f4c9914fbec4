"""Medians, paired ratios, intervals and levels: pure functions on arrays of numbers.

Nothing here knows a clock, a device or a drawing. Every function takes any flat sequence of real
numbers and returns plain numbers, in their unit. One that is empty or holds NaN raises ValueError,
as does a confidence that is not between 0 and 1.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from statistics import NormalDist

import numpy as np

__all__ = ["disturbed", "excess_p", "hodges_lehmann", "median", "min_pairs", "quartiles"]
__all__ += ["quiet_limit", "quiet_rounds", "rank_sum_interval", "signed_rank_interval"]
__all__ += ["simultaneous_confidence", "two_levels"]

Pairs = Sequence[tuple[float, float]]

MOST_PAIRS = 400  # more are averaged in groups: their pairwise means would fill the memory


def _as_vector(x: Sequence[float], what: str) -> np.ndarray:
    values = np.asarray(x, dtype=np.float64)
    if values.ndim != 1 or values.size == 0:
        raise ValueError(f"{what} needs a non-empty flat list of numbers: shape {values.shape}.")
    if lost := int(np.isnan(values).sum()):
        raise ValueError(f"{what} needs numbers, but {lost} of {values.size} are NaN.")
    return values


def _check_confidence(confidence: float) -> None:
    if not 0 < confidence < 1:
        raise ValueError(f"confidence must lie between 0 and 1, such as 0.95: {confidence!r}.")


def median(x: Sequence[float]) -> float:
    """Return the median of n >= 1 numbers.

    >>> median([3.0, 1.0, 100.0])
    3.0
    """
    return float(np.median(_as_vector(x, "median")))


def quartiles(x: Sequence[float]) -> tuple[float, float]:
    """Return the lower and the upper quartile (linear interpolation) of n >= 1 numbers.

    >>> quartiles([1.0, 2.0, 3.0, 4.0, 5.0])
    (2.0, 4.0)
    """
    low, high = np.percentile(_as_vector(x, "quartiles"), [25, 75])
    return float(low), float(high)


def _few(x: Sequence[float], what: str) -> np.ndarray:
    """At most `MOST_PAIRS` values: means of as many neighbours each as it takes."""
    values = _as_vector(x, what)
    group = -(-values.size // MOST_PAIRS)
    if group == 1:
        return values
    return np.array([part.mean() for part in np.array_split(values, -(-values.size // group))])


def _walsh_averages(values: np.ndarray) -> np.ndarray:
    """All (x_i + x_j) / 2 with i <= j, sorted: n(n+1)/2 of them."""
    i, j = np.triu_indices(values.size)
    # Halved before they are added, so that the largest floats do not overflow.
    return np.sort(values[i] / 2 + values[j] / 2)


def hodges_lehmann(x: Sequence[float]) -> float:
    """Return the Hodges-Lehmann estimate of the centre: the median of all pairwise means.

    It is nearly as precise as the mean for normal noise and hardly moves when up to
    29 % of the values are wild (Hodges and Lehmann, *Annals of Mathematical
    Statistics* 34, 1963). Of more than 400 values neighbours are averaged first.

    >>> hodges_lehmann([1.0, 2.0, 3.0, 1000.0])
    2.75
    """
    return float(np.median(_walsh_averages(_few(x, "hodges_lehmann"))))


@lru_cache(maxsize=512)
def _signed_rank_cdf(n: int) -> np.ndarray:
    """P(W <= w) for w = 0..n(n+1)/2, W the signed-rank statistic of n symmetric differences."""
    p = np.zeros(n * (n + 1) // 2 + 1)
    p[0] = 1.0
    for rank in range(1, n + 1):  # rank i is added with probability one half
        shifted = np.zeros_like(p)
        shifted[rank:] = p[:-rank]
        p = 0.5 * (p + shifted)
    return np.cumsum(p)


def min_pairs(confidence: float = 0.95) -> int:
    """Return the least number of pairs for which `signed_rank_interval` is finite.

    That is the least n with 2 ** -n <= (1 - confidence) / 2.

    >>> min_pairs(0.95), min_pairs(0.99)
    (6, 8)
    """
    _check_confidence(confidence)
    return max(1, math.ceil(1 - math.log2(1 - confidence) - 1e-9))


def signed_rank_interval(x: Sequence[float], confidence: float = 0.95) -> tuple[float, float]:
    """Return the Wilcoxon signed-rank interval of the centre of `x`.

    The interval holds every centre that the two-sided signed-rank test does not reject; its
    ends are order statistics of the pairwise means (Hollander, Wolfe and Chicken,
    *Nonparametric Statistical Methods*, 3rd ed., section 3.3). It assumes that the values
    are independent and symmetric about their centre; no normality. Exact up to 60 values, the
    normal approximation beyond.

    Args:
        x: n values, such as the logarithms of n paired ratios.
        confidence: least probability that the interval covers the centre.

    Returns:
        `(low, high)` in the unit of `x`, or `(-inf, inf)` when n is below
        `min_pairs(confidence)`: so few values cannot support such an interval.

    >>> signed_rank_interval([1.0, 2.0, 3.0, 4.0, 5.0, 6.0])
    (1.0, 6.0)
    """
    values = _few(x, "signed_rank_interval")
    _check_confidence(confidence)
    n, tail = values.size, (1 - confidence) / 2
    if n > 60:
        z = NormalDist().inv_cdf(1 - tail)
        k = math.floor(n * (n + 1) / 4 - z * math.sqrt(n * (n + 1) * (2 * n + 1) / 24))
    else:
        # The largest k with P(W <= k - 1) <= tail; the slack is for rounding in the sums.
        k = int(np.searchsorted(_signed_rank_cdf(n), tail * (1 + 1e-12), side="right"))
    return _cut(_walsh_averages(values), k)


def _cut(ordered: np.ndarray, k: int) -> tuple[float, float]:
    """The k-th value from either end, infinite for k below 1."""
    if k < 1:
        return -math.inf, math.inf
    return float(ordered[k - 1]), float(ordered[ordered.size - k])


@lru_cache(maxsize=64)
def _rank_sum_cdf(m: int, n: int) -> np.ndarray:
    """P(U <= u) for u = 0..mn, U the Mann-Whitney statistic of m and n values of one kind."""
    ways = np.zeros((m + 1, m * n + 1))
    ways[0, 0] = 1.0
    for above in range(n + 1):  # a value may lie above 0..n of the others
        for taken in range(1, m + 1):
            ways[taken, above:] += ways[taken - 1, : m * n + 1 - above]
    return np.cumsum(ways[m]) / math.comb(m + n, n)


def rank_sum_interval(
    x: Sequence[float], y: Sequence[float], confidence: float = 0.95
) -> tuple[float, float, float]:
    """Return how far `x` lies above `y`: the estimate and the exact rank-sum interval.

    For a few values, where pairs are too few for `signed_rank_interval`: four and four that
    do not overlap differ at 97 %. The estimate is the median of all differences (Hollander, Wolfe
    and Chicken, section 4.3). It assumes independent values of the same distribution but for the
    shift; a drift widens it.

    Returns:
        `(estimate, low, high)`; infinite ends where there are too few values for the confidence.

    >>> rank_sum_interval([5.0, 6.0, 7.0, 8.0], [1.0, 2.0, 3.0, 4.0])
    (4.0, 1.0, 7.0)
    """
    a, b = _as_vector(x, "rank_sum_interval"), _as_vector(y, "rank_sum_interval")
    _check_confidence(confidence)
    differences = np.sort(np.subtract.outer(a, b).ravel())
    tail = (1 - confidence) / 2
    k = int(np.searchsorted(_rank_sum_cdf(a.size, b.size), tail * (1 + 1e-12), side="right"))
    return (float(np.median(differences)), *_cut(differences, k))


def simultaneous_confidence(confidence: float, intervals: int) -> float:
    """Return the confidence of each of several intervals so that all hold together (Bonferroni).

    >>> round(simultaneous_confidence(0.95, 5), 4)
    0.99
    """
    _check_confidence(confidence)
    if intervals < 1:
        raise ValueError(f"intervals must be at least 1, but got {intervals!r}.")
    return 1 - (1 - confidence) / intervals


def quiet_limit(x: Sequence[float]) -> tuple[float, float]:
    """Return a function's quiet level, and the limit above which a time counts as disturbed.

    The level is a low quantile: the 25th percentile of fewer than 32 times, else the 10th, so that
    it is found also where most times are disturbed. The limit lies 10 % above it, or three
    (five) times as far as the level lies above the 5th (2nd) percentile: for a bell curve that is
    more than two standard deviations above the centre.

    >>> quiet_limit([1.0] * 9 + [3.0])
    (1.0, 1.1)
    """
    logs = np.log(_as_vector(x, "quiet_limit"))
    few = logs.size < 32
    low, level = np.quantile(logs, [0.05, 0.25] if few else [0.02, 0.10])
    limit = level + max(math.log(1.1), (3 if few else 5) * (level - low))
    return round(math.exp(level), 15), round(math.exp(limit), 15)


def disturbed(first: Pairs, second: Pairs) -> tuple[np.ndarray, np.ndarray]:
    """Tell for each of two functions in which rounds one of its times was above its quiet limit.

    The limit of both is as far above their levels as the more generous one, so that the counts
    can be compared.
    """
    pairs = [np.asarray(rounds, dtype=np.float64).reshape(-1, 2) for rounds in (first, second)]
    if not all(p.size for p in pairs):
        return tuple(np.zeros(len(p), dtype=bool) for p in pairs)
    limits = [quiet_limit(p.ravel()) for p in pairs]
    most = max(limit / level for level, limit in limits)
    return tuple(p.max(axis=1) > level * most for p, (level, _) in zip(pairs, limits))


def quiet_rounds(first: Pairs, second: Pairs) -> list[int]:
    """Return the rounds in which two functions together were not far above their quiet level.

    A neighbour that takes a core away makes some rounds slower, by an amount that says nothing
    about the functions. The rule must favour neither: a limit for each, from its own noisy times,
    would cut one noise higher than the other and so make a difference. So it looks at the product
    of a round's four times only, which leaves their ratio symmetric. Where neither half of the
    rounds nor 16 would be left, all of them count.

    Args:
        first: for each round two positive times of one function, any unit.
        second: those of the other.

    Returns:
        The numbers of the rounds to use, in order.

    >>> quiet_rounds([(1.0, 1.0)] * 9 + [(1.0, 3.0)], [(2.0, 2.0)] * 10)
    [0, 1, 2, 3, 4, 5, 6, 7, 8]
    """
    if len(first) != len(second):
        raise ValueError(f"both need the same number of rounds: {len(first)}, {len(second)}.")
    if not len(first):
        return []
    # The geometric mean of two: a function that is 10 % slower in both its phases moves it as much
    # as the limit.
    means = np.exp(np.log(np.asarray([first, second], dtype=np.float64)).sum(axis=(0, 2)) / 2)
    quiet = np.flatnonzero(means <= quiet_limit(means)[1])
    return quiet.tolist() if quiet.size >= min(16, len(first) / 2) else list(range(len(first)))


def excess_p(more: int, fewer: int, share: float = 0.5) -> float:
    """Return the chance of so uneven a split by luck: the one-sided binomial test.

    That is P(X >= more) for X binomial of `more + fewer` trials with probability `share`.

    >>> excess_p(5, 0), excess_p(0, 0)
    (0.03125, 1.0)
    """
    n = more + fewer
    if more == 0 or not 0 < share < 1:
        return 1.0

    def log_p(k: int) -> float:
        choose = math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)
        return choose + k * math.log(share) + (n - k) * math.log1p(-share)

    return min(1.0, round(math.fsum(math.exp(log_p(k)) for k in range(more, n + 1)), 12))


def two_levels(
    x: Sequence[float], *, least_share: float = 0.05, least_ratio: float = 1.25
) -> tuple[float, float] | None:
    """Return the quiet and the slow level of times that fall into two groups, None for one group.

    The best split of the logarithms in two (Otsu, *IEEE Transactions on Systems, Man, and
    Cybernetics* 9, 1979) counts where it explains at least 80 % of the variance: for one
    evenly spread group it is 75 %, for a bell curve 64 %.

    Args:
        x: n positive times.
        least_share: of the times that each group must hold.
        least_ratio: of the two levels, which are the medians of the groups.

    >>> two_levels([1.0, 1.1, 1.0, 8.0, 7.9, 8.2]), two_levels([1.0, 1.1, 1.2])
    ((1.0, 8.0), None)
    """
    ordered = np.sort(np.asarray(x, dtype=np.float64))
    n = ordered.size
    if n < 6 or ordered[0] <= 0:
        return None
    logs = np.log(ordered)
    left = np.arange(1, n)
    sums = np.cumsum(logs)
    gap = sums[:-1] / left - (sums[-1] - sums[:-1]) / (n - left)
    between = left / n * (1 - left / n) * gap**2
    cut = int(np.argmax(between)) + 1
    quiet, slow = float(np.median(ordered[:cut])), float(np.median(ordered[cut:]))
    share = min(cut, n - cut) / n
    if share < least_share or slow < least_ratio * quiet or between[cut - 1] < 0.8 * logs.var():
        return None
    return quiet, slow
