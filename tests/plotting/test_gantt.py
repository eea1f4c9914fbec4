"""Rows for lanes, bars for spans."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib import pyplot as plt
from matplotlib.colors import same_color

from d2lperf.plotting import colour_of, gantt

STEP = [
    ("forward", 0.0, 3.0, "rank 0", "device 0"),
    ("forward", 0.0, 3.0, "rank 1", "device 1"),
    ("backward", 3.0, 6.0, "rank 0", "device 0"),
    ("all-reduce", 5.0, 1.0, "link 0", "device 0"),
]


def boxes(ax):
    """(left, right, top, bottom, colour) of each bar."""
    (bars,) = ax.collections
    found = []
    for path, colour in zip(bars.get_paths(), bars.get_facecolors()):
        (left, top), (right, bottom) = path.vertices.min(axis=0), path.vertices.max(axis=0)
        found.append((left, right, top, bottom, tuple(colour)))
    return found


def names(ax):
    return [label.get_text() for label in ax.get_yticklabels()]


def legend(ax):
    return [text.get_text() for text in ax.get_legend().get_texts()] if ax.get_legend() else []


def written(ax):
    """Names inside bars: the texts in data coordinates."""
    return [text.get_text() for text in ax.texts if text.get_transform() == ax.transData]


def test_a_bar_lies_in_the_row_of_its_lane_from_start_to_end():
    ax = gantt(STEP, lanes=["rank 1", "link 0", "rank 0"])
    assert names(ax) == ["device 1 rank 1", "device 0 link 0", "device 0 rank 0"]
    rows = {"rank 1": 0, "link 0": 1, "rank 0": 2}
    for (name, start, duration, lane, _), box in zip(STEP, boxes(ax)):
        assert box[:2] == (start, start + duration)
        assert rows[lane] - 0.5 < box[2] < box[3] < rows[lane] + 0.5
        assert same_color(box[4], colour_of(name))


def test_lanes_of_a_device_stand_together_apart_from_the_next():
    ax = gantt(STEP)
    assert names(ax) == ["device 0 rank 0", "device 0 link 0", "device 1 rank 1"]
    assert [line.get_ydata()[0] for line in ax.lines] == [1.5]
    assert names(gantt([span[:4] for span in STEP])) == ["rank 0", "rank 1", "link 0"]


def test_nested_spans_lie_below_in_the_same_row_with_one_colour_for_a_name():
    """C: the colour of a name depended on its depth."""
    spans = [("a", 0, 9, "main"), ("b", 1, 4, "main", "", 1), ("a", 2, 2, "main", "", 2)]
    outer, middle, inner = boxes(gantt(spans))
    assert outer[3] <= middle[2] and middle[3] <= inner[2] < inner[3] < 0.5
    assert outer[4] == inner[4] != middle[4]


def test_a_name_keeps_its_colour_when_more_is_drawn():
    """C: drawn one level deeper, names changed their colours."""
    outer = [(f"outer {'abcd'[i]}", i, 1, "main") for i in range(4)]
    inner = [(f"inner {'ab'[i]}", i, 0.1, "main", "", 1) for i in range(2)]
    shades = [box[4] for box in boxes(gantt(outer))]
    deeper = [box[4] for box in boxes(gantt(inner + outer))]
    assert deeper[2:] == shades and len(set(deeper)) == 6


def test_a_name_stands_in_its_bar_where_it_fits_and_in_the_legend_otherwise():
    ax = gantt(STEP)
    assert sorted(written(ax)) == ["backward", "forward", "forward"]
    assert legend(ax) == ["all-reduce"]
    inside = {text.get_text(): text.get_position() for text in ax.texts}
    assert inside["backward"] == pytest.approx((6.0, 0.0))


def test_names_in_bars_fit_when_drawn():
    ax = gantt([(f"operation {i}", 10 * i, 9, "main") for i in range(6)])
    ax.figure.canvas.draw()
    for text in ax.texts:
        if text.get_text().startswith("operation"):
            (left, _), (right, _) = ax.transData.inverted().transform(text.get_window_extent())
            i = int(text.get_text()[-1])
            assert 10 * i <= left < right <= 10 * i + 9


def test_the_longest_names_have_colours_the_others_are_grey():
    spans = [(f"operation {'x' * i}", i, 0.01 * (i + 1), "main") for i in range(10)]
    ax = gantt(spans)
    shades = [box[4] for box in boxes(ax)]
    assert all(same_color(shade, "#A6A6A6") for shade in shades[:4])
    assert len(set(shades[4:])) == 6
    assert legend(ax)[-1] == "other" and len(legend(ax)) == 7


def test_a_number_at_the_end_makes_no_other_name():
    ax = gantt(
        [(f"decode {i}", 10.0 * i, 1.0, "main") for i in range(9)] + [("end", 99, 1, "main")]
    )
    shades = [box[4] for box in boxes(ax)]
    assert len(set(shades[:9])) == 1 and shades[9] != shades[0]
    assert legend(ax)[0] == "decode"


def test_given_colours_notes_and_length():
    ax = gantt(STEP, colours={"forward": "tab:red"}, notes={"rank 0": "90 %"}, notes_title="busy",
               length_s=20.0)  # fmt: skip
    assert same_color(boxes(ax)[0][4], "tab:red")
    assert {"90 %", "busy"} <= {text.get_text() for text in ax.texts}
    assert ax.get_xlim()[1] == pytest.approx(20.2)


def test_times_have_a_unit_on_the_axis():
    ax = gantt([("a", 0, 3e-3, "main")])
    ax.figure.canvas.draw()
    assert "1 ms" in [label.get_text() for label in ax.get_xticklabels()]
    assert ax.get_xlabel() == "time"


SPANS = st.lists(
    st.tuples(
        st.sampled_from(["forward", "backward", "aten::addmm", "x"]),
        st.floats(0, 10),
        st.one_of(st.just(0.0), st.floats(1e-9, 5)),
        st.sampled_from(["main", "worker", "stream 7"]),
        st.sampled_from(["", "cuda:0"]),
        st.integers(0, 3),
    ),
    min_size=1,
    max_size=30,
)


@settings(max_examples=30, deadline=None)
@given(SPANS)
def test_every_span_is_drawn_in_one_row_and_names_have_one_colour(spans):
    ax = gantt(spans)
    found = boxes(ax)
    assert len(found) == len(spans)
    colours = {}
    for (name, *_), (*_, top, bottom, colour) in zip(spans, found):
        assert round(top + 1e-6) == round(bottom - 1e-6)
        assert colours.setdefault(name, colour) == colour
    plt.close("all")


def test_many_spans_are_one_artist():
    spans = [("kernel", i * 1e-6, 5e-7, "stream 7") for i in range(20_000)]
    assert len(gantt(spans).get_children()) < 40


def test_gantt_refuses_what_it_cannot_draw():
    for spans in ([], [("a", 0, -1, "main")]):
        with pytest.raises(ValueError, match="spans or lanes"):
            gantt(spans)
    assert names(gantt([], lanes=["idle"])) == ["idle"]
    assert np.isfinite(gantt([], lanes=["idle"]).get_xlim()).all()
