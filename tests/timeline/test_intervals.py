"""Interval arithmetic against an oracle that looks at each point of a grid."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from d2lperf.timeline.intervals import gaps, length, union

GRID = 24
intervals = st.lists(st.tuples(st.integers(0, GRID), st.integers(0, GRID)).map(sorted), max_size=12)
windows = st.tuples(st.integers(-3, GRID + 3), st.integers(-3, GRID + 3)).map(sorted)


def cells(pairs):
    """Which cells of the grid are covered."""
    return [any(a <= cell < b for a, b in pairs) for cell in range(-3, GRID + 3)]


def sorted_and_disjoint(found):
    return all(a < b for a, b in itertools.pairwise(np.asarray(found).ravel().tolist()))


@given(intervals)
def test_union_covers_the_same_cells(a):
    found = union(a)
    assert sorted_and_disjoint(found)
    assert cells(found) == cells(a)
    assert length(a) == sum(cells(a))
    assert union(found).tolist() == found.tolist()


@given(intervals, windows)
def test_gaps_cover_the_free_cells_of_the_window(a, window):
    found = gaps(a, *window)
    assert sorted_and_disjoint(found)
    inside = cells([window])
    assert cells(found) == [w and not x for w, x in zip(inside, cells(a), strict=True)]


@given(intervals, intervals, st.integers(-5, 5), st.sampled_from([0.25, 0.5, 2.0]))
def test_lengths_add_up_and_move_with_shift_and_scale(a, b, shift, scale):
    both = sum(x and y for x, y in zip(cells(a), cells(b), strict=True))
    assert length(a) + length(b) - length(a + b) == both
    moved = [[scale * (x + shift) for x in pair] for pair in a]
    assert length(moved) == scale * length(a)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [([(2, 1)], r"\[\[2 1\]\]"), ([(0, float("nan"))], "nan"), ([1, 2, 3], r"\[1 2 3\]")],
)
@pytest.mark.parametrize("function", [union, length, lambda x: gaps(x, 0, 9)])
def test_other_values_are_refused(function, wrong, words):
    with pytest.raises(ValueError, match=f"no end before its start: not .*{words}"):
        function(wrong)


def test_a_window_that_ends_before_it_starts_is_refused():
    with pytest.raises(ValueError, match=r"no end before its start: not \[\[3 1\]\]"):
        gaps([], 3, 1)
