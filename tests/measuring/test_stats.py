"""The statistics against oracles (scipy, brute force) and invariants (hypothesis)."""

import itertools
import math
import random

import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st

from d2lperf.measuring import stats

finite = st.floats(-1e6, 1e6, allow_nan=False)
samples = st.lists(finite, min_size=1, max_size=40)


def walsh_by_hand(x):
    return sorted((a + b) / 2 for a, b in itertools.combinations_with_replacement(x, 2))


@settings(deadline=None)
@given(samples)
def test_median_and_quartiles_are_numpys(x):
    assert stats.median(x) == np.median(x)
    assert stats.quartiles(x) == tuple(np.percentile(x, [25, 75]))


@settings(deadline=None)
@given(samples)
def test_hodges_lehmann_is_the_median_of_pairwise_means(x):
    assert stats.hodges_lehmann(x) == pytest.approx(np.median(walsh_by_hand(x)), abs=1e-9)


@pytest.mark.parametrize("n", [5, 6, 9, 14])
@pytest.mark.parametrize("confidence", [0.8, 0.95, 0.99])
def test_signed_rank_interval_against_all_sign_patterns(n, confidence):
    """As many pairwise means are cut at each end as the exact distribution allows."""
    sums = [
        sum(rank for rank, sign in enumerate(signs, 1) if sign)
        for signs in itertools.product([0, 1], repeat=n)
    ]
    below = np.cumsum(np.bincount(sums)) / 2**n
    k = int((below <= (1 - confidence) / 2 + 1e-12).sum())
    values = np.random.default_rng(n).normal(size=n)
    walsh = walsh_by_hand(values)
    expected = (walsh[k - 1], walsh[-k]) if k else (-math.inf, math.inf)
    assert stats.signed_rank_interval(values, confidence) == pytest.approx(expected)


@pytest.mark.parametrize("n", [20, 40, 60])
def test_signed_rank_interval_is_exact_up_to_60_values(n):
    """The normal approximation would cut fewer means: 565 instead of 568 of 60 values."""
    ways = [1]  # to reach each sum of ranks by signs, in whole numbers
    for rank in range(1, n + 1):
        without, with_it = [*ways, *[0] * rank], [*[0] * rank, *ways]
        ways = [a + b for a, b in zip(without, with_it)]
    k = sum(200 * below <= 2**n for below in itertools.accumulate(ways))  # 0.5 % at each end
    values = np.random.default_rng(n).normal(size=n)
    walsh = walsh_by_hand(values)
    assert stats.signed_rank_interval(values, 0.99) == pytest.approx((walsh[k - 1], walsh[-k]))


def test_many_pairs_are_averaged_and_give_nearly_the_same():
    values = np.random.default_rng(0).normal(size=1500)
    low, high = stats.signed_rank_interval(values, 0.95)
    half = 1.96 / math.sqrt(1500) * math.sqrt(math.pi / 3)
    assert (high - low) / 2 == pytest.approx(half, rel=0.1)
    assert stats.hodges_lehmann(values) == pytest.approx(values.mean(), abs=half / 4)


@settings(deadline=None, max_examples=40)
@given(
    st.lists(st.floats(-100, 100), min_size=2, max_size=7, unique=True),
    st.lists(st.floats(-100, 100), min_size=2, max_size=7, unique=True),
    st.sampled_from([0.8, 0.95, 0.99]),
)
def test_rank_sum_interval_holds_what_the_test_does_not_reject(x, y, confidence):
    estimate, low, high = stats.rank_sum_interval(x, y, confidence)
    assert low <= estimate <= high
    differences = sorted(a - b for a in x for b in y)
    for shift in (a + (b - a) / 2 for a, b in itertools.pairwise(differences) if b - a > 1e-6):
        moved = np.array(x) - shift
        p = scipy.stats.mannwhitneyu(moved, y, method="exact").pvalue
        assert (low <= shift <= high) == (p > 1 - confidence + 1e-9)


def test_rank_sum_interval_of_too_few_is_infinite():
    assert stats.rank_sum_interval([2.0], [1.0])[1:] == (-math.inf, math.inf)


@settings(deadline=None)
@given(st.lists(finite, min_size=6, max_size=40))
def test_signed_rank_interval_holds_its_estimate(x):
    low, high = stats.signed_rank_interval(x)
    assert low <= stats.hodges_lehmann(x) <= high


@pytest.mark.parametrize("confidence", [0.8, 0.9, 0.95, 0.99, 0.999])
def test_min_pairs_is_where_the_interval_becomes_finite(confidence):
    n = stats.min_pairs(confidence)
    assert math.isfinite(stats.signed_rank_interval(range(n), confidence)[0])
    if n > 1:
        assert stats.signed_rank_interval(range(n - 1), confidence) == (-math.inf, math.inf)


def test_signed_rank_interval_covers_as_often_as_it_says():
    chance = np.random.default_rng(0)
    covered = 0
    for _ in range(2000):
        low, high = stats.signed_rank_interval(chance.standard_t(2, size=16), 0.95)
        covered += low <= 0 <= high
    # 95 % and a bit (the statistic is discrete); 2000 draws have a standard error of 0.5 %.
    assert 0.935 <= covered / 2000 <= 0.975


@settings(deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 60), st.floats(0, 1))
def test_quiet_rounds_keeps_enough_and_knows_no_favourite(seed, n, spread):
    chance = np.random.default_rng(seed)
    first, second = np.exp(spread * chance.normal(size=(2, n, 2)))
    kept = stats.quiet_rounds(first, second)
    assert kept == sorted(set(kept)) and set(kept) <= set(range(n))
    assert len(kept) >= min(16, n / 2)
    assert kept == stats.quiet_rounds(second, first) == stats.quiet_rounds(first, 7 * second)


def test_quiet_rounds_makes_no_difference_where_there_is_none():
    """The noise of two copies is cut alike: with a limit for each, 15 of 100 ratios were wrong."""
    chance, wrong = np.random.default_rng(1), 0
    for _ in range(300):
        first, second = np.log(1 + chance.exponential(size=(2, 200, 2)))
        kept = stats.quiet_rounds(np.exp(first), np.exp(second))
        logs = (second - first).mean(axis=1)[kept]
        low, high = stats.signed_rank_interval(logs, 0.99)
        wrong += not low <= 0 <= high
    assert wrong <= 9  # 1 % of 300, and three standard errors


def test_quiet_rounds_drops_disturbed_rounds_of_either_function():
    calm = [(1.0, 1.01)] * 20
    disturbed = list(calm)
    disturbed[3] = (1.0, 1.5)
    disturbed[7] = (2.0, 1.0)
    expected = [i for i in range(20) if i not in (3, 7)]
    assert stats.quiet_rounds(calm, disturbed) == expected
    assert stats.quiet_rounds(disturbed, calm) == expected


def test_quiet_rounds_keeps_all_on_a_machine_that_is_never_quiet():
    chance = random.Random(5)
    # Two levels, the upper one in most rounds: then it is the machine, not a disturbance.
    rounds = [(1.0, 1.0) if i % 3 == 0 else (2.0, chance.uniform(1.5, 2.5)) for i in range(30)]
    assert stats.quiet_rounds(rounds, rounds) == list(range(30))


def test_quiet_rounds_finds_the_quiet_third_of_a_busy_machine():
    chance = random.Random(5)
    busy = [(1.0, 1.01) if i % 3 == 0 else (chance.uniform(1.5, 3),) * 2 for i in range(90)]
    assert stats.quiet_rounds(busy, busy) == list(range(0, 90, 3))


def test_quiet_rounds_of_nothing_and_of_unequal_lengths():
    assert stats.quiet_rounds([], []) == []
    with pytest.raises(ValueError, match="same number of rounds"):
        stats.quiet_rounds([(1.0, 1.0)], [])


def test_limits_lie_alike_above_the_levels():
    """The steady function gets the limit of the noisy one: neither is slow more often by rule."""
    chance = np.random.default_rng(0)
    steady, noisy = (np.exp(s * chance.normal(size=(40, 2))) for s in (0.03, 0.2))
    assert stats.disturbed(steady, noisy)[0].sum() == 0
    assert stats.disturbed(steady, steady)[0].sum() <= 4
    assert stats.disturbed(1.3 * steady, [(1.0, 1.0)] * 39 + [(1.0, 2.0)])[1].tolist()[-1]


@settings(deadline=None)
@given(st.integers(0, 300), st.integers(0, 300), st.sampled_from([0.5, 0.7]))
def test_excess_p_is_the_binomial_test(more, fewer, share):
    if more + fewer == 0:
        return
    p = scipy.stats.binomtest(more, more + fewer, share, alternative="greater").pvalue
    assert stats.excess_p(more, fewer, share) == pytest.approx(p, rel=1e-6, abs=1e-11)


# ------------------------------------------------------------------------------------ levels


@given(st.integers(0, 2**32), st.sampled_from(["normal", "lognormal", "exponential", "uniform"]))
@settings(deadline=None, max_examples=50, derandomize=True)
def test_one_group_has_one_level(seed, shape):
    chance = np.random.default_rng(seed)
    noise = {
        "normal": lambda: 1 + 0.1 * chance.normal(size=200),
        "lognormal": lambda: chance.lognormal(sigma=0.5, size=200),
        "exponential": lambda: 1 + chance.exponential(size=200),
        "uniform": lambda: np.exp(chance.uniform(0, 1, size=200)),
    }
    assert stats.two_levels(noise[shape]()) is None


@given(st.integers(0, 2**32), st.floats(0.1, 0.9), st.floats(1.6, 300))
@settings(deadline=None, max_examples=50, derandomize=True)
def test_two_groups_have_two_levels(seed, share, factor):
    chance = np.random.default_rng(seed)
    slow = np.arange(200) < 200 * share
    x = 1e-4 * np.where(slow, factor, 1.0) * np.exp(0.05 * chance.normal(size=200))
    chance.shuffle(x)
    quiet_s, slow_s = stats.two_levels(x)
    assert quiet_s == pytest.approx(1e-4, rel=0.05)
    assert slow_s == pytest.approx(factor * 1e-4, rel=0.05)


def test_a_few_stray_samples_are_no_level():
    assert stats.two_levels([1.0] * 97 + [50.0] * 3) is None
    assert stats.two_levels([1.0, 2.0]) is None


@pytest.mark.parametrize("bad", [[], [[1.0, 2.0]], [1.0, math.nan]])
@pytest.mark.parametrize(
    "function", [stats.median, stats.quartiles, stats.hodges_lehmann, stats.signed_rank_interval]
)
def test_bad_samples_are_refused(function, bad):
    with pytest.raises(ValueError, match=r"non-empty|NaN"):
        function(bad)


@pytest.mark.parametrize("confidence", [0, 1, 95, -0.1])
def test_confidence_must_be_a_fraction(confidence):
    for call in (
        lambda: stats.signed_rank_interval([1.0], confidence),
        lambda: stats.min_pairs(confidence),
        lambda: stats.rank_sum_interval([1.0], [1.0], confidence),
    ):
        with pytest.raises(ValueError, match="between 0 and 1"):
            call()
