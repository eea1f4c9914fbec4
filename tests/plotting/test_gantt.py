"""Rows for lanes, bars for spans."""

import pytest
from drawn import boxes, legend, names
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib import pyplot as plt
from matplotlib.colors import same_color

from d2lperf.plotting import colour_of, gantt

STEP = [
    ("forward", 0.0, 3.0, "rank 0", 0),
    ("forward", 0.0, 3.0, "rank 1", 0),
    ("backward", 3.0, 6.0, "rank 0", 0),
    ("all-reduce", 5.0, 1.0, "link 0", 0),
]


def written(ax):
    """Names inside bars: the texts in data coordinates."""
    return [text.get_text() for text in ax.texts if text.get_transform() == ax.transData]


def test_a_bar_lies_in_the_row_of_its_lane_from_start_to_end():
    ax = gantt(STEP, lanes=["rank 1", "link 0", "rank 0"])
    assert names(ax) == ["rank 1", "link 0", "rank 0"]
    in_order = [STEP[i] for i in (1, 3, 0, 2)]
    for (name, start, duration, lane, _), box in zip(in_order, boxes(ax), strict=True):
        row = names(ax).index(lane)
        assert box[:2] == (start, start + duration)
        assert row - 0.5 < box[2] < box[3] < row + 0.5
        assert same_color(box[4], colour_of(name))


def test_lanes_are_those_of_the_spans_in_their_order():
    assert names(gantt(STEP)) == ["rank 0", "rank 1", "link 0"]


def test_nested_spans_lie_below_in_the_same_row_with_one_colour_for_a_name():
    """C: the colour of a name depended on its depth."""
    spans = [("a", 0, 9, "main", 0), ("b", 1, 4, "main", 1), ("a", 2, 2, "main", 2)]
    outer, middle, inner = boxes(gantt(spans))
    assert outer[3] <= middle[2] and middle[3] <= inner[2] < inner[3] < 0.5
    assert outer[4] == inner[4] != middle[4]


def test_a_name_keeps_its_colour_when_more_is_drawn():
    """C: drawn one level deeper, names changed their colours."""
    outer = [(f"outer {'abcd'[i]}", i, 1, "main", 0) for i in range(4)]
    inner = [(f"inner {'ab'[i]}", i, 0.1, "main", 1) for i in range(2)]
    shades = [box[4] for box in boxes(gantt(outer))]
    deeper = [box[4] for box in boxes(gantt(inner + outer))]
    assert deeper[:4] == shades and len(set(deeper)) == 6


def test_a_name_stands_in_its_bar_where_it_fits_and_in_the_legend_otherwise():
    ax = gantt(STEP)
    assert sorted(written(ax)) == ["backward", "forward", "forward"]
    assert legend(ax) == ["all-reduce"]
    inside = {text.get_text(): text.get_position() for text in ax.texts}
    assert inside["backward"] == pytest.approx((6.0, 0.0))


def test_names_in_bars_fit_when_drawn():
    ax = gantt([(f"operation {i}", 10 * i, 9, "main", 0) for i in range(6)])
    ax.figure.canvas.draw()
    for text in ax.texts:
        if text.get_text().startswith("operation"):
            (left, _), (right, _) = ax.transData.inverted().transform(text.get_window_extent())
            i = int(text.get_text()[-1])
            assert 10 * i <= left < right <= 10 * i + 9


def test_the_longest_names_have_colours_the_others_are_grey():
    spans = [(f"operation {'x' * i}", i, 0.01 * (i + 1), "main", 0) for i in range(10)]
    ax = gantt(spans)
    shades = [box[4] for box in boxes(ax)]
    assert all(same_color(shade, "#A6A6A6") for shade in shades[:4])
    assert len(set(shades[4:])) == 6
    assert legend(ax)[-1] == "other" and len(legend(ax)) == 7


def test_a_number_at_the_end_makes_no_other_name():
    spans = [(f"decode {i}", 10.0 * i, 1.0, "main", 0) for i in range(9)]
    ax = gantt([*spans, ("end", 99, 1, "main", 0)])
    shades = [box[4] for box in boxes(ax)]
    assert len(set(shades[:9])) == 1 and shades[9] != shades[0]
    assert legend(ax)[0] == "decode"


def test_a_number_that_belongs_to_the_name_makes_another():
    first, second = boxes(gantt([("log2", 0, 1, "main", 0), ("log10", 1, 1, "main", 0)]))
    assert first[4] != second[4]


def test_times_have_a_unit_on_the_axis():
    ax = gantt([("a", 0, 3e-3, "main", 0)])
    ax.figure.canvas.draw()
    found = [label.get_text() for label in ax.get_xticklabels()]
    assert {"0.0 ms", "0.5 ms", "1.0 ms"} <= set(found)
    assert ax.get_xlabel() == "time"


@pytest.mark.parametrize("long", [1, 40])
@pytest.mark.parametrize("lanes", [1, 6])
@pytest.mark.filterwarnings("error")
def test_a_legend_lies_inside_the_figure(tmp_path, long, lanes):
    """Saving once said "constrained_layout not applied", and cut the legend."""
    spans = [(f"{c * long} name", i, 0.01, f"lane {i % lanes}", 3) for i, c in enumerate("abcdefg")]
    ax = gantt(spans)
    ax.figure.savefig(tmp_path / "t.png")
    box, page = ax.get_legend().get_window_extent(), ax.figure.bbox
    assert page.x0 <= box.x0 and box.x1 <= page.x1 and page.y0 <= box.y0 and box.y1 <= page.y1
    assert ax.get_window_extent().height > 20 * lanes


SPANS = st.lists(
    st.tuples(
        st.sampled_from(["forward", "backward", "aten::addmm", "x"]),
        st.floats(0, 10),
        st.one_of(st.just(0.0), st.floats(1e-9, 5)),
        st.sampled_from(["main", "worker", "stream 7"]),
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
    assert all(round(top + 1e-6) == round(bottom - 1e-6) for *_, top, bottom, _ in found)
    assert len({colour for *_, colour in found}) == len({name for name, *_ in spans})
    plt.close("all")


def test_a_span_without_length_is_a_line():
    moment, work = boxes(gantt([("mark", 0, 0, "main", 0), ("work", 1, 1, "main", 0)]))
    assert 0 < moment[1] - moment[0] < 0.02 * (work[1] - work[0])


def test_many_spans_are_few_artists():
    """One artist for each span took seconds."""
    spans = [("kernel", i * 1e-6, 5e-7, "stream 7", 0) for i in range(20_000)]
    assert len(gantt(spans).get_children()) < 40


@pytest.mark.parametrize("lanes", [["idle"], []])
def test_lanes_without_spans_and_no_lanes_at_all_are_drawn(lanes):
    for ax in (gantt([], lanes=lanes), gantt([(*STEP[0][:3], "main", 0)], lanes=lanes)):
        ax.figure.canvas.draw()
        assert names(ax) == (lanes or ["no lanes"]) and boxes(ax) == []
