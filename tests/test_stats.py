"""The statistics against oracles (scipy, brute force) and invariants (hypothesis)."""

import itertools
import math
import random

import numpy as np
import pytest
import scipy.stats
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from d2lperf import stats

finite = st.floats(-1e6, 1e6, allow_nan=False)
samples = st.lists(finite, min_size=1, max_size=40)
EMPTY_OR_BROKEN = [[], [[1.0, 2.0]], [1.0, math.nan]]


def walsh_by_hand(x):
    return sorted((a + b) / 2 for a, b in itertools.combinations_with_replacement(x, 2))


@given(samples)
def test_median_and_quartiles_are_numpys(x):
    assert stats.median(x) == np.median(x)
    assert stats.quartiles(x) == tuple(np.percentile(x, [25, 75]))


@given(samples)
def test_hodges_lehmann_is_the_median_of_pairwise_means(x):
    assert stats.hodges_lehmann(x) == pytest.approx(np.median(walsh_by_hand(x)), abs=1e-9)


@given(samples, finite)
def test_hodges_lehmann_moves_with_the_data(x, shift):
    moved = stats.hodges_lehmann([v + shift for v in x])
    assert moved == pytest.approx(stats.hodges_lehmann(x) + shift, abs=1e-6, rel=1e-6)


@given(samples)
def test_hodges_lehmann_turns_with_the_sign(x):
    assert stats.hodges_lehmann([-v for v in x]) == pytest.approx(-stats.hodges_lehmann(x))


def test_hodges_lehmann_hardly_moves_when_a_quarter_is_wild():
    chance = random.Random(1)
    calm = [chance.gauss(0, 1) for _ in range(40)]
    wild = calm[:30] + [1e6] * 10
    assert abs(stats.hodges_lehmann(wild) - stats.hodges_lehmann(calm)) < 2


@pytest.mark.parametrize("n", [1, 2, 5, 6, 9, 14])
def test_signed_rank_distribution_against_all_sign_patterns(n):
    sums = [
        sum(rank for rank, sign in enumerate(signs, 1) if sign)
        for signs in itertools.product([0, 1], repeat=n)
    ]
    counts = np.bincount(sums, minlength=n * (n + 1) // 2 + 1)
    np.testing.assert_allclose(stats._signed_rank_cdf(n), np.cumsum(counts) / 2**n, rtol=1e-12)


@settings(max_examples=60)
@given(
    st.lists(st.floats(-100, 100, allow_nan=False), min_size=6, max_size=24, unique=True),
    st.sampled_from([0.8, 0.9, 0.95]),
)
def test_signed_rank_interval_holds_what_the_test_does_not_reject(x, confidence):
    """Inside the interval scipy's exact test keeps the centre, outside it rejects it."""
    low, high = stats.signed_rank_interval(x, confidence)
    walsh = walsh_by_hand(x)
    assume(math.isfinite(low) and low < high)
    # Points between neighbouring pairwise means, where ties cannot blur the test.
    gaps = [(a + b) / 2 for a, b in itertools.pairwise(walsh) if b - a > 1e-6]
    for centre in gaps[:3] + gaps[len(gaps) // 2 :][:2] + gaps[-3:]:
        shifted = np.array(x) - centre
        if len(np.unique(np.abs(shifted))) < len(x) or (shifted == 0).any():
            continue
        p = scipy.stats.wilcoxon(shifted, method="exact").pvalue
        inside = low <= centre <= high
        assert inside == (p > 1 - confidence + 1e-12) or math.isclose(p, 1 - confidence)


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


@given(st.lists(finite, min_size=1, max_size=60), st.sampled_from([0.5, 0.9, 0.95, 0.99]))
def test_median_interval_is_the_widest_the_binomial_allows(x, confidence):
    low, high = stats.median_interval(x, confidence)
    ordered, n = sorted(x), len(x)
    k = 0  # order statistics cut at each end
    while k + 1 <= n // 2 and scipy.stats.binom.cdf(k, n, 0.5) <= (1 - confidence) / 2:
        k += 1
    if k == 0:
        assert (low, high) == (-math.inf, math.inf)
    else:
        assert (low, high) == (ordered[k - 1], ordered[n - k])


def test_median_interval_of_many_is_close_to_the_exact_one():
    chance = np.random.default_rng(0)
    x = np.sort(chance.normal(size=501))
    low, high = stats.median_interval(x, 0.95)
    k = int(scipy.stats.binom.ppf(0.025, 501, 0.5))
    assert abs(np.searchsorted(x, low) - (k - 1)) <= 1
    assert abs(np.searchsorted(x, high) - (501 - k)) <= 1


@given(st.integers(1, 300).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_wilson_interval_is_scipys(counts):
    successes, trials = counts
    ours = stats.wilson_interval(successes, trials)
    theirs = scipy.stats.binomtest(successes, trials).proportion_ci(0.95, method="wilson")
    assert ours == pytest.approx((theirs.low, theirs.high), abs=1e-9)


def test_simultaneous_confidence_shares_the_error():
    assert stats.simultaneous_confidence(0.95, 1) == 0.95
    assert stats.simultaneous_confidence(0.9, 10) == pytest.approx(0.99)


positive_pairs = st.tuples(st.floats(1e-7, 1e-2), st.floats(1e-7, 1e-2))


@given(
    st.integers(1, 30).flatmap(
        lambda n: st.lists(st.lists(positive_pairs, min_size=n, max_size=n), min_size=2, max_size=4)
    )
)
def test_quiet_rounds_keeps_at_least_half_and_knows_no_favourite(series):
    kept = stats.quiet_rounds(*series)
    n = len(series[0])
    assert kept == sorted(set(kept)) and set(kept) <= set(range(n))
    assert 2 * len(kept) >= n
    assert kept == stats.quiet_rounds(*reversed(series))


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


def test_quiet_rounds_of_nothing_and_of_unequal_lengths():
    assert stats.quiet_rounds([], []) == []
    with pytest.raises(ValueError, match="same number of rounds"):
        stats.quiet_rounds([(1.0, 1.0)], [])


@pytest.mark.parametrize("bad", EMPTY_OR_BROKEN)
@pytest.mark.parametrize(
    "function",
    [
        stats.median,
        stats.quartiles,
        stats.hodges_lehmann,
        stats.median_interval,
        stats.signed_rank_interval,
    ],
)
def test_bad_samples_are_refused(function, bad):
    with pytest.raises(ValueError, match=r"non-empty|NaN"):
        function(bad)


@pytest.mark.parametrize("confidence", [0, 1, 95, -0.1])
def test_confidence_must_be_a_fraction(confidence):
    for call in (
        lambda: stats.median_interval([1.0], confidence),
        lambda: stats.signed_rank_interval([1.0], confidence),
        lambda: stats.min_pairs(confidence),
        lambda: stats.simultaneous_confidence(confidence, 2),
        lambda: stats.wilson_interval(1, 2, confidence),
    ):
        with pytest.raises(ValueError, match="between 0 and 1"):
            call()


@pytest.mark.parametrize("counts", [(1, 0), (-1, 5), (6, 5)])
def test_counts_must_fit(counts):
    with pytest.raises(ValueError, match="successes"):
        stats.wilson_interval(*counts)


def test_at_least_one_interval():
    with pytest.raises(ValueError, match="at least 1"):
        stats.simultaneous_confidence(0.95, 0)
