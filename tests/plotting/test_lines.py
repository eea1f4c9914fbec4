"""Curves with markers."""

import numpy as np
import pytest
import torch
from drawn import legend
from matplotlib.colors import same_color

from d2lperf.plotting import COLOURS, lines

X = [1, 10, 100]


def ticks(axis):
    axis.figure.canvas.draw()
    low, high = axis.get_view_interval()
    return [t.label1.get_text() for t in axis.get_major_ticks() if low <= t.get_loc() <= high]


def test_one_curve_has_markers_and_no_legend():
    ax = lines(X, torch.tensor([1.0, 2.0, 3.0]), xlabel="rows", ylabel="time (ms)")
    (line,) = ax.lines
    assert line.get_xydata().tolist() == [[1, 1], [10, 2], [100, 3]]
    assert line.get_marker() not in ("", "None", None)
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("rows", "time (ms)")
    assert ax.get_legend() is None


def test_several_curves_differ_in_colour_and_marker_and_are_named():
    ax = lines({"eager": X, "compiled": X[:2]}, {"eager": [1, np.nan, 3], "compiled": [3, 2]})
    assert same_color(ax.lines[0].get_color(), COLOURS["blue"])
    assert same_color(ax.lines[1].get_color(), COLOURS["vermillion"])
    assert ax.lines[0].get_marker() != ax.lines[1].get_marker()
    assert legend(ax) == ["eager", "compiled"]
    ax.plot(X, [1, 1, 1], label="model")
    ax.legend()  # a reader's own curve joins ours
    assert legend(ax) == ["eager", "compiled", "model"]


def test_ticks_have_units_or_are_plain_numbers():
    ax = lines(X, [1e-6, 1e-4, 1e-2], log="xy", yunit="s")
    assert {"1", "10", "100"} <= set(ticks(ax.xaxis))
    assert {"1 µs", "10 µs", "1 ms", "10 ms"} <= set(ticks(ax.yaxis))


def test_names_along_x_stay():
    ax = lines(["small", "large"], {"a": [1, 2]})
    assert ticks(ax.xaxis) == ["small", "large"]


def test_intervals_of_some_curves():
    ax = lines(X, {"a": [1, 2, 3], "b": [3, 2, 1]}, low={"a": [0, 1, 2]}, high={"a": [2, 3, 4]})
    (ends,) = ax.collections
    expected = [[[x, y - 1], [x, y + 1]] for x, y in zip(X, [1, 2, 3])]
    np.testing.assert_array_equal(ends.get_segments(), expected)


@pytest.mark.parametrize(
    ("args", "options", "words"),
    [
        (({}, {}), {}, "at least one curve"),
        ((X, {"a": X}), {"low": {"a": X}}, "needs low and high"),
        ((X, {"a": X}), {"low": {"b": X}, "high": {"b": X}}, r"\['b'\].*only \['a'\]"),
        ((X, {"a": X}), {"predicted": {"b": X}}, r"\['b'\].*only \['a'\]"),
    ],
)
def test_lines_say_what_cannot_be_drawn(args, options, words):
    """No curves once raised UnboundLocalError; an end without the other was dropped."""
    with pytest.raises(ValueError, match=words):
        lines(*args, **options)


def test_predictions_are_dashed_in_the_colour_of_their_curve():
    ax = lines(X, {"eager": [1, 2, 3], "b": [3, 2, 1]}, predicted={"eager": [2, 2, 2]})
    measured, said = ax.lines[:2]
    assert said.get_linestyle() == "--" and said.get_ydata().tolist() == [2, 2, 2]
    assert same_color(said.get_color(), measured.get_color())
    assert legend(ax) == ["eager", "b", "predicted"]
    assert legend(lines(X, [1, 2, 3], predicted=[1, 1, 1])) == ["measured", "predicted"]


@pytest.mark.parametrize(
    ("values", "log", "unit", "expected"),
    [
        ([1e-6, 1e-3], "y", "", {"10⁻⁶", "10⁻⁵", "10⁻⁴", "10⁻³"}),
        ([1e-4, 1e-1], "y", "", {"0.0001", "0.001", "0.01", "0.1"}),
        ([1, 1e6], "y", "", {"1", "100", "10,000", "1,000,000"}),
        ([1, 1e9], "y", "", {"10⁰", "10³", "10⁹"}),
        ([1e3, 1e9], "y", "B", {"1 kB", "1 MB", "100 MB", "1 GB"}),
        ([1e-6, 1e-2], "y", "s", {"1 µs", "100 µs", "10 ms"}),
        ([0, 0.002], "", "s", {"0.00 ms", "0.25 ms", "2.00 ms"}),
        ([0, 1.5], "", "s", {"0.0 s", "0.4 s", "1.4 s"}),
        ([0, 2e-6], "", "", {"0", "0.25·10⁻⁶", "2·10⁻⁶"}),
        ([0, 2e6], "", "", {"0", "250,000", "2,000,000"}),
    ],
)
def test_ticks_of_an_axis_have_one_format(values, log, unit, expected):
    """An axis once read 0.0001 beside 1e-06, and 500 ms beside 1 s."""
    ax = lines([1, 2], values, log=log, yunit=unit)
    assert expected <= set(ticks(ax.yaxis))
