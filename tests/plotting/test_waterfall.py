"""What each step of an optimisation left of the time."""

import math

import numpy as np
import pytest
import torch
from drawn import legend, texts
from matplotlib import pyplot as plt

from d2lperf.plotting import waterfall

STEPS = ["as it was", "compiled", "bfloat16", "larger batch"]
TIMES = [0.08, 0.05, 0.06, 0.02]


def test_a_bar_for_each_step_in_order_with_its_value():
    ax = waterfall(STEPS, TIMES, ylabel="time per step")
    measured, saved = ax.containers
    assert [bar.get_height() for bar in measured] == TIMES
    assert [label.get_text() for label in ax.get_xticklabels()] == STEPS
    assert texts(ax) == ["80.0 ms", "50.0 ms", "60.0 ms", "20.0 ms"]
    assert ax.get_ylim()[0] == 0 and ax.get_ylim()[1] > 0.08
    assert ax.get_ylabel() == "time per step" and ax.get_legend() is None
    # What a step saved fills the room up to the step before; a step that lost has none.
    assert [bar.get_y() for bar in saved] == TIMES[1:]
    assert [bar.get_height() for bar in saved] == pytest.approx([0.03, 0, 0.04])


def test_intervals_and_predictions_stand_where_they_are_known():
    low, high = [0.07, None, 0.05, math.nan], [0.09, None, 0.07, math.nan]
    ax = waterfall(STEPS, TIMES, low, high, [None, 0.04, 0.03, 0.02])
    ends = ax.collections[-1].get_segments()
    assert [list(segment[:, 1]) for segment in (ends[0], ends[2])] == [[0.07, 0.09], [0.05, 0.07]]
    (marks,) = [line for line in ax.lines if line.get_marker() == "D"]
    np.testing.assert_array_equal(marks.get_ydata(), [math.nan, 0.04, 0.03, 0.02])
    bars = ax.containers[0]
    assert all(x > bar.get_x() + bar.get_width() for x, bar in zip(marks.get_xdata(), bars))
    assert legend(ax) == ["measured", "saved", "predicted"]


def test_a_prediction_above_all_bars_lies_inside():
    assert waterfall(["a"], [1.0], predicted=[3.0], unit="").get_ylim()[1] > 3


def test_tensors_and_other_units():
    ax = waterfall(["a", "b"], torch.tensor([2e9, 1e9]), unit="B")
    assert texts(ax) == ["2.00 GB", "1.00 GB"]


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (([], []), "at least one step"),
        ((["a"], [-1.0]), "none of them negative"),
        ((["a"], [math.nan]), "none of them negative"),
        ((["a", "b"], [1.0]), "2 labels, but 1 values"),
        ((["a"], [1.0], None, None, [1, 2]), "1 labels, but 2 predicted"),
    ],
)
def test_waterfall_says_what_it_cannot_draw(args, words):
    with pytest.raises(ValueError, match=words):
        waterfall(*args)
    assert not plt.get_fignums()
