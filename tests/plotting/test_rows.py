"""Figures with a row for each name: distributions, intervals, bars."""

import math

import numpy as np
import pytest
import torch
from drawn import names, texts
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib import pyplot as plt
from matplotlib.colors import same_color

from d2lperf.measuring.verdict import FASTER, NO_DIFFERENCE, NOT_DECIDED, SLOWER
from d2lperf.plotting import COLOURS, bars, colour_of, distributions, intervals

GREEN, RED, GREY = COLOURS["green"], COLOURS["vermillion"], "#A6A6A6"


def points(ax):
    """The lines with a marker alone: the estimates, from the top."""
    return [line for line in ax.lines if line.get_marker() == "o"]


# distributions ----------------------------------------------------------------------------


def test_distributions_draw_every_sample_and_mark_median_and_quartiles():
    quick, slow = np.linspace(1e-3, 2e-3, 101), np.array([4e-3])
    ax = distributions({"quick": quick, "slow": slow})
    assert names(ax) == ["quick", "slow"] and ax.yaxis_inverted()
    for row, cloud, drawn in zip((0, 1), ax.collections, (quick, slow)):
        x, y = cloud.get_offsets().T
        np.testing.assert_array_equal(x, drawn)
        assert (abs(y - row) < 0.4).all()
        bar, tick = ax.lines[2 * row : 2 * row + 2]
        np.testing.assert_allclose(bar.get_xdata(), np.percentile(drawn, [25, 75]))
        assert tick.get_xdata() == pytest.approx([np.median(drawn)])
    assert texts(ax) == ["median 1.50 ms", "median 4.00 ms"]


@pytest.mark.parametrize(("largest", "scale"), [(7.9e-3, "linear"), (8.1e-3, "log")])
def test_the_axis_follows_the_spread(largest, scale):
    ax = distributions({"a": [1e-3, 2e-3], "b": [largest]})
    assert ax.get_xscale() == scale
    assert ("logarithmic" in ax.get_xlabel()) == (scale == "log")


@pytest.mark.parametrize("seconds, spread", [(3e-9, 1e6), (2e-6, 1.1), (1.5e-3, 20), (2.0, 1.1)])
def test_ticks_of_times_have_a_unit_and_lie_inside(seconds, spread):
    ax = distributions({"a": [seconds, seconds * spread]})
    ax.figure.canvas.draw()
    low, high = ax.get_xlim()
    inside = [
        label.get_text() for label in ax.get_xticklabels() if low <= label.get_position()[0] <= high
    ]
    assert len(inside) >= 2 and len(set(inside)) == len(inside)
    assert all(label.endswith("s") for label in inside)


def test_equal_samples_one_sample_and_tensors():
    ax = distributions({"equal": [1.0, 1.0, 1.0], "one": torch.tensor([1.0])})
    assert texts(ax) == ["median 1.00 s", "median 1.00 s"]
    ax.figure.canvas.draw()


@pytest.mark.parametrize("samples", [{}, {"a": [1], "b": []}, {"a": [0.0]}, {"a": [-1]}])
def test_distributions_refuse_what_is_no_time(samples):
    with pytest.raises(ValueError, match="positive times"):
        distributions(samples)


# intervals --------------------------------------------------------------------------------

RATIOS = {"f": (0.8, 0.78, 0.82), "s": (1.3, 1.2, 1.4), "n": (1.0, 0.99, 1.01)}


def test_intervals_draw_estimate_interval_line_and_text():
    ax = intervals(RATIOS)
    assert names(ax) == ["f", "s", "n"]
    assert [point.get_xdata()[0] for point in points(ax)] == [0.8, 1.3, 1.0]
    spans = [line.get_xdata() for line in ax.lines if line.get_linewidth() == 8]
    np.testing.assert_allclose(spans, [row[1:] for row in RATIOS.values()])
    assert any(list(line.get_xdata()) == [1, 1] for line in ax.lines)
    assert texts(ax)[0] == "0.800 [0.780, 0.820]"


@pytest.mark.parametrize(
    ("word", "colour"),
    [(FASTER, GREEN), (SLOWER, RED), (NO_DIFFERENCE, GREY), (NOT_DECIDED, GREY), ("refused", GREY)],
)
def test_the_colour_is_the_verdicts_whatever_the_interval(word, colour):
    """A refused comparison whose interval lies below 1 was once green."""
    for ratio in RATIOS.values():
        ax = intervals({"a": ratio}, margin=0.01, verdicts={"a": word})
        assert same_color(points(ax)[0].get_color(), colour)
        assert texts(ax)[0].endswith(f"\n{word}")


def test_without_verdicts_no_row_is_judged():
    assert {point.get_color() for point in points(intervals(RATIOS))} == {COLOURS["blue"]}


def test_the_band_is_the_verdicts_margin():
    """It goes from 1 / (1 + margin), not from 1 - margin."""
    ax = intervals(RATIOS, margin=0.25)
    (band,) = ax.patches
    # Matplotlib made a polygon of it up to 3.8, and makes a rectangle since.
    corners = band.get_patch_transform().transform(band.get_path().vertices)
    assert (corners[:, 0].min(), corners[:, 0].max()) == pytest.approx((0.8, 1.25))


def test_small_ratios_keep_three_digits():
    """1.2e-4 was once labelled 0.000."""
    ax = intervals({"pass": (1.2e-4, 1.1e-4, 1.3e-4)})
    assert texts(ax)[0] == "0.000120 [0.000110, 0.000130]"
    assert ax.get_xscale() == "log"
    ax.figure.canvas.draw()
    assert len({label.get_text() for label in ax.get_xticklabels()}) == len(ax.get_xticks())


def test_intervals_without_ends_or_values_keep_their_rows():
    ax = intervals(
        {"unknown": [math.nan] * 3, "open": (1.1, 0, math.inf)}, verdicts={"open": NOT_DECIDED}
    )
    assert texts(ax)[0] == "unknown"
    assert texts(ax)[1].startswith("1.100") and texts(ax)[1].endswith("\nnot decided")
    ax.figure.canvas.draw()
    low, high = ax.get_xlim()
    assert 0 < low < 1 < high < 10


@given(st.floats(1e-6, 1e6), st.floats(1, 100), st.floats(1, 100))
@settings(max_examples=25, deadline=None)
def test_all_that_is_known_and_one_lie_inside_the_axes(ratio, below, beyond):
    ax = intervals({"a": (ratio, ratio / below, ratio * beyond)})
    low, high = ax.get_xlim()
    assert low < min(1, ratio / below) and max(1, ratio * beyond) < high
    plt.close("all")


# bars -------------------------------------------------------------------------------------


def test_bars_are_labelled_with_values():
    values = {"eager": 3.2e-3, "compiled": 1e-3}
    ax = bars(values, unit="s", xlabel="time per step")
    assert names(ax) == list(values) and ax.get_xlabel() == "time per step"
    assert [bar.get_width() for bar in ax.patches] == list(values.values())
    assert [bar.get_y() + bar.get_height() / 2 for bar in ax.patches] == pytest.approx([0, 1])
    assert all(same_color(bar.get_facecolor(), colour_of(n)) for bar, n in zip(ax.patches, values))
    assert texts(ax) == ["3.20 ms", "1.00 ms"]
    assert ax.get_xlim()[0] == 0


# predictions ------------------------------------------------------------------------------


def diamonds(ax):
    found = [line for line in ax.lines if line.get_marker() == "D"]
    return [(x, y) for line in found for x, y in zip(line.get_xdata(), line.get_ydata())]


def test_bars_and_intervals_mark_what_was_predicted_with_its_number():
    ax = bars({"a": 3.2e-3, "b": 1e-3}, unit="s", predicted={"b": 2e-3})
    assert diamonds(ax) == [(2e-3, 1)]
    assert texts(ax) == ["3.20 ms", "1.00 ms\n◇ 2.00 ms predicted"]
    ax = intervals(RATIOS, verdicts={"s": "slower"}, predicted={"s": 3.0})
    assert diamonds(ax) == [(3.0, 1)] and ax.get_xlim()[1] > 3
    assert texts(ax)[1].endswith("\nslower\n◇ 3.00 predicted")


def test_a_ratio_of_0_is_predicted_in_words_only():
    ax = intervals({"a": (0.1, 0.05, 0.2), "b": (1.0, 0.9, 1.1)}, predicted={"a": 0.0, "b": 1.0})
    assert ax.get_xscale() == "log"
    assert texts(ax)[0].endswith("◇ 0 predicted")
    assert diamonds(ax) == [(1.0, 1)]
