"""What an interval says: the four outcomes, and that a sharper one says at least as much."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from d2lperf.measuring.verdict import FASTER, NO_DIFFERENCE, NOT_DECIDED, SLOWER, decide


@pytest.mark.parametrize(
    ("low", "high", "verdict", "within"),
    [
        (0.90, 0.97, FASTER, None),
        (1.021, 1.05, SLOWER, None),
        (0.98, 1.02, NO_DIFFERENCE, 0.03),  # 1/0.98 is 1.0204
        (0.999, 1.029, NO_DIFFERENCE, 0.03),
        (1.002, 1.008, NO_DIFFERENCE, 0.01),
        (1.0, 1.0, NO_DIFFERENCE, 0.01),
        (1.01, 1.05, NO_DIFFERENCE, 0.05),
        (1.01, 1.051, NOT_DECIDED, None),
        (0.95, 1.0, NOT_DECIDED, None),
        (0.0, math.inf, NOT_DECIDED, None),
    ],
)
def test_outcomes_at_a_margin_of_two_per_cent(low, high, verdict, within):
    decision = decide(low, high, 0.02)
    assert decision.verdict == verdict
    assert decision.within == within


def test_a_margin_above_five_per_cent_is_what_no_difference_may_reach():
    assert decide(0.95, 1.08, 0.1) == (NO_DIFFERENCE, 0.08)
    assert decide(0.95, 1.11, 0.1).verdict == NOT_DECIDED


ends = st.floats(0.3, 3.0) | st.floats(0.93, 1.07)


@given(st.tuples(ends, ends, ends, ends).map(sorted), st.floats(0.0, 0.2))
def test_an_interval_inside_another_says_at_least_as_much(four, margin):
    """[0.98, 1.02] was decided and [1.002, 1.008], which lies inside, was not."""
    outer_low, low, high, outer_high = four
    outer, inner = decide(outer_low, outer_high, margin), decide(low, high, margin)
    if outer.verdict in (FASTER, SLOWER):
        assert inner.verdict == outer.verdict
    if outer.verdict == NO_DIFFERENCE:
        assert inner.verdict != NOT_DECIDED
        assert inner.verdict in (FASTER, SLOWER) or inner.within <= outer.within


@given(st.tuples(ends, ends).map(sorted), st.floats(0.0, 0.2))
def test_the_other_way_round_says_the_same(pair, margin):
    low, high = pair
    one, other = decide(low, high, margin), decide(1 / high, 1 / low, margin)
    edges = (1 + margin, 1 / (1 + margin), 1 + max(0.05, margin))
    if any(math.isclose(e, x, rel_tol=1e-9) for e in edges for x in (low, high, 1 / low, 1 / high)):
        return  # on an edge the rounding of 1 / x decides
    assert other.verdict == {FASTER: SLOWER, SLOWER: FASTER}.get(one.verdict, one.verdict)
