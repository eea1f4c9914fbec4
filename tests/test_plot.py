"""Figures, by what their axes hold: artists, texts, limits, scales. Never by pixels."""

import subprocess
import sys

import matplotlib
import numpy as np
import pytest
import torch
from matplotlib import pyplot as plt
from matplotlib.colors import to_hex
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch

import d2lperf as d2l
from d2lperf import book, plot


@pytest.fixture(autouse=True)
def no_traces():
    """Nothing that draws may change a setting of matplotlib."""
    before = dict(matplotlib.rcParams)
    plt.close("all")
    yield
    assert dict(matplotlib.rcParams) == before
    plt.close("all")


def texts(ax):
    return [text.get_text() for text in ax.texts]


def ticks(ax):
    return [label.get_text() for label in ax.get_yticklabels()]


def colour(artist):
    return to_hex(artist.get_color()).upper()


def test_importing_the_module_imports_no_matplotlib():
    code = "import sys, d2lperf.plot; print('matplotlib' in sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout == "False\n"


# plot, set_figsize ------------------------------------------------------------------------

X = np.arange(0.0, 3.0, 0.5)
CALLS = {
    "values alone": ((X,), {}),
    "values in a list": (([1.0, 2.0, 4.0],), {}),
    "one line": ((X, X**2), {"xlabel": "x", "ylabel": "y"}),
    "two lines over one x": ((X, [X**2, 2 * X]), {"legend": ["a", "b"], "xlim": [0, 2]}),
    "two lines, each with its x": (([X, X + 1], [X**2, 2 * X]), {"ylim": (0, 5)}),
    "several values alone": (([X, 2 * X],), {}),
    "tensors": ((torch.arange(4), torch.arange(4.0) ** 2), {"xscale": "log", "yscale": "log"}),
    "two rows of a tensor": ((torch.arange(3), [torch.ones(3), torch.zeros(3)]), {}),
    "four formats": ((X, [X, X + 1, X + 2, X + 3]), {"fmts": ("r-", "b--", "k-.", "g:")}),
    "by position": ((X, X, "x", "y", ["line"], (0, 1), (0.1, 2), "linear", "log", ("-",)), {}),
}


@pytest.fixture
def quiet_book(monkeypatch):
    """The book's library, kept from making a shell of IPython's and from changing settings."""
    if not book.installed():
        pytest.skip("the book's library is not installed")
    module = book.load()
    monkeypatch.setattr(module, "set_figsize", lambda figsize: None)
    return module


@pytest.mark.parametrize("name", CALLS)
def test_plot_draws_the_same_lines_as_the_books(name, quiet_book):
    args, options = CALLS[name]
    mine, theirs = (plt.subplots()[1] for _ in range(2))
    assert plot.plot(*args, **options, axes=mine) is mine
    quiet_book.plot(*args, **options, axes=theirs)
    assert len(mine.lines) == len(theirs.lines)
    for a, b in zip(mine.lines, theirs.lines, strict=True):
        np.testing.assert_array_equal(a.get_xydata(), b.get_xydata())
        assert a.get_linestyle() == b.get_linestyle()
        if "fmts" in options and len(options["fmts"][0]) > 1:
            assert a.get_color() == b.get_color()
    for what in ("xlabel", "ylabel", "xlim", "ylim", "xscale", "yscale"):
        assert getattr(mine, f"get_{what}")() == getattr(theirs, f"get_{what}")(), what
    legends = [ax.get_legend() for ax in (mine, theirs)]
    assert [a and [t.get_text() for t in a.get_texts()] for a in legends[:1]] == [
        b and [t.get_text() for t in b.get_texts()] for b in legends[1:]
    ]


def test_plot_takes_what_the_books_cannot():
    weights = torch.arange(3.0, requires_grad=True)
    ax = d2l.plot(weights, [weights.to(torch.bfloat16) + i for i in range(6)])
    assert len(ax.lines) == 6  # the book's drops the fifth and sixth
    assert ax.lines[5].get_ydata().tolist() == [5, 6, 7]
    assert len({colour(line) for line in ax.lines}) == 6
    assert d2l.plot([torch.tensor(1.0), torch.tensor(3.0)]).lines[0].get_ydata().tolist() == [1, 3]


def test_plot_makes_a_figure_of_the_size_or_takes_the_current_axes():
    ax = plot.plot(X, figsize=(5, 4))
    assert ax.figure.get_size_inches().tolist() == [5, 4]
    again = plot.plot(X + 1)
    assert again is ax and len(ax.lines) == 1  # what was there is gone
    assert colour(ax.lines[0]) == plot.COLOURS["blue"].upper()


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (([X, X], [X, X, X]), "X has 2 lines and Y has 3"),
        ((X, [X, X[:2]]), "line 1 has 6 values of x and 2 of y"),
    ],
)
def test_plot_says_what_does_not_match(args, words):
    with pytest.raises(ValueError, match=words):
        plot.plot(*args)


def test_set_figsize():
    with matplotlib.rc_context():
        d2l.set_figsize((6, 1))
        assert plt.figure().get_size_inches().tolist() == [6, 1]
        d2l.set_figsize()
        assert plt.figure().get_size_inches().tolist() == [3.5, 2.5]


# distributions ----------------------------------------------------------------------------


def samples(median_s, n=40, seed=0):
    return median_s * np.exp(np.random.default_rng(seed).normal(0, 0.03, n))


def test_distributions_draw_every_sample_and_name_every_row():
    given = {"eager": samples(37e-6), "scripted": samples(28e-6, 25)}
    ax = plot.distributions(given)
    assert ticks(ax) == ["eager", "scripted"]
    for i, (cloud, times) in enumerate(zip(ax.collections, given.values(), strict=True)):
        x, y = cloud.get_offsets().T
        np.testing.assert_allclose(np.sort(x), np.sort(times) * 1e6)
        assert (np.abs(y - i) < 0.4).all() and len(set(y)) > 10
    assert ax.get_ylim()[0] > 1 and ax.get_ylim()[1] < 0  # the first row on top
    assert ax.get_xlabel() == "time per call (µs)"
    assert ax.get_xscale() == "linear"
    medians = [f"{1e6 * np.median(t):.1f} µs" for t in given.values()]
    assert texts(ax) == [*medians, "median"]


def test_distributions_mark_quartiles_and_median():
    times = samples(2e-3)
    ax = plot.distributions([times], labels=["f"])
    bar, tick = ax.lines
    lower, middle, upper = np.percentile(times * 1e3, [25, 50, 75])
    np.testing.assert_allclose(bar.get_xdata(), [lower, upper])
    np.testing.assert_allclose(tick.get_xdata(), [middle])
    assert ticks(ax) == ["f"]


@pytest.mark.parametrize(("largest", "scale"), [(7.9, "linear"), (8.1, "log"), (400, "log")])
def test_the_axis_follows_the_spread(largest, scale):
    ax = plot.distributions({"a": [1e-3, 1.1e-3], "b": [1e-3 * largest]})
    assert ax.get_xscale() == scale
    assert ("logarithmic" in ax.get_xlabel()) == (scale == "log")
    low, high = ax.get_xlim()
    assert low < 1 and high > largest


def test_log_axis_has_plain_numbers_that_lie_inside():
    ax = plot.distributions({"a": samples(20e-6), "b": [*samples(30e-6), 3e-3]})
    low, high = ax.get_xlim()
    shown = [t for t in ax.get_xticks() if low <= t <= high]
    assert len(shown) >= 4
    ax.figure.canvas.draw()
    assert "1000" in [t.get_text() for t in ax.get_xticklabels()]


@pytest.mark.parametrize(
    ("seconds", "unit", "median"),
    [
        (2.5, "s", "2.50 s"),
        (0.123, "ms", "123 ms"),
        (45e-6, "µs", "45.0 µs"),
        (3e-9, "ns", "3.00 ns"),
    ],
)
def test_units_are_chosen(seconds, unit, median):
    ax = plot.distributions({"a": [seconds] * 3})
    assert ax.get_xlabel() == f"time per call ({unit})"
    assert texts(ax)[0] == median


def test_each_median_has_its_own_unit():
    ax = plot.distributions({"fast": [20e-6], "slow": [75e-3]})
    assert texts(ax)[:2] == ["20.0 µs", "75.0 ms"]
    assert ax.get_xlabel() == "time per call (µs, logarithmic axis)"


def test_units_are_given():
    ax = plot.distributions({"a": [0.002, 0.003]}, unit="µs", xlabel="time per epoch")
    assert ax.get_xlabel() == "time per epoch (µs)"
    assert texts(ax)[0] == "2500 µs"
    assert ax.collections[0].get_offsets()[0, 0] == pytest.approx(2000)
    with pytest.raises(ValueError, match="unit 'hours' is none of s, ms, µs, ns"):
        plot.distributions({"a": [1.0]}, unit="hours")


def test_one_sample_and_equal_samples():
    ax = plot.distributions({"one": [0.01]})
    assert len(ax.collections[0].get_offsets()) == 1
    assert len(ax.lines) == 1  # a median, no quartiles
    low, high = plot.distributions({"same": [0.01] * 30}).get_xlim()
    assert low < 10 < high


def test_heights_do_not_change_from_one_drawing_to_the_next():
    given = {"a": samples(1e-3)}
    one, two = (plot.distributions(given).collections[0].get_offsets() for _ in range(2))
    np.testing.assert_array_equal(one, two)


def test_many_functions_with_long_names():
    given = {f"compiled, mode={i}, with a very long name": samples(1e-3, 5) for i in range(6)}
    ax = plot.distributions(given)
    assert len(ax.collections) == 6
    assert len({tuple(c.get_facecolor()[0]) for c in ax.collections}) == 6
    assert all("\n" in label for label in ticks(ax))
    assert ax.figure.get_figheight() > 3


def test_a_row_without_samples_says_so():
    ax = plot.distributions({"raised": [], "kept": [1e-3, 2e-3]})
    assert ticks(ax) == ["raised", "kept"]
    assert texts(ax)[:2] == ["no samples", "1.50 ms"]
    assert len(ax.collections) == 1


def test_tensors_are_samples_too():
    ax = plot.distributions({"a": torch.tensor([1e-3, 2e-3])})
    assert ax.collections[0].get_offsets()[:, 0].tolist() == pytest.approx([1, 2])


@pytest.mark.parametrize(
    ("given", "options", "words"),
    [
        ({}, {}, "no samples"),
        ({"a": [], "b": []}, {}, "no samples"),
        ({"a": [1.0, float("nan")]}, {}, "'a' has a sample that is no positive time: nan s"),
        ({"a": [0.0]}, {}, "'a' .* 0.0 s"),
        ({"a": [1.0]}, {"labels": ["x", "y"]}, "2 labels for 1 rows"),
    ],
)
def test_distributions_errors(given, options, words):
    with pytest.raises(ValueError, match=words):
        plot.distributions(given, **options)


# intervals --------------------------------------------------------------------------------

ROWS = (
    [1.0, 0.76, 1.003, 2.02, 1.02],
    [1.0, 0.752, 0.996, 1.99, 1.005],
    [1.0, 0.768, 1.011, 2.05, 1.03],
    ["eager", "scripted", "copy", "compiled", "close"],
)


def test_intervals_draw_a_row_each_with_its_numbers():
    ax = plot.intervals(*ROWS, margin=0.01, xlabel="time relative to eager")
    assert ticks(ax) == ROWS[3]
    assert ax.get_xlabel() == "time relative to eager"
    assert texts(ax)[:5] == [
        "1",
        "0.760 [0.752, 0.768]",
        "1.003 [0.996, 1.011]",
        "2.020 [1.990, 2.050]",
        "1.020 [1.005, 1.030]",
    ]
    assert texts(ax)[5:] == ["← faster", "slower →"]
    lines = [line for line in ax.lines if line.get_linewidth() == 8]
    for line, low, high in zip(lines, ROWS[1], ROWS[2], strict=True):
        assert list(line.get_xdata()) == [low, high]


def test_intervals_are_coloured_by_what_lies_beyond_the_margin():
    def colours(margin):
        ax = plot.intervals(*ROWS, margin=margin)
        lines = [line for line in ax.lines if line.get_linewidth() == 8]
        names = {value.upper(): name for name, value in plot.COLOURS.items()}
        return [names.get(colour(line), "grey") for line in lines]

    assert colours(0.01) == ["grey", "green", "grey", "vermillion", "grey"]
    assert colours(None) == ["grey", "green", "grey", "vermillion", "vermillion"]


def test_intervals_show_one_and_the_margin_around_it():
    ax = plot.intervals([0.5], [0.4], [0.6], ["f"], margin=0.02, sides=None)
    one = next(line for line in ax.lines if list(line.get_xdata()) == [1, 1])
    assert one.get_linewidth() == 1
    assert ax.patches[0].get_extents().transformed(ax.transData.inverted()).intervalx == (
        pytest.approx([0.98, 1.02])
    )
    assert not plot.intervals([0.5], [0.4], [0.6], ["f"], sides=None).patches
    low, high = ax.get_xlim()
    assert low < 0.4 and high > 1.02
    assert texts(ax) == ["0.500 [0.400, 0.600]"]


def test_intervals_far_apart_get_a_logarithmic_axis():
    ax = plot.intervals([0.2, 17], [0.19, 15], [0.21, 20], "ab")
    assert ax.get_xscale() == "log"
    assert "17.0 [15.0, 20.0]" in texts(ax)
    assert plot.intervals([0.7, 1.1], [0.6, 1], [0.8, 1.2], "ab").get_xscale() == "linear"


def test_intervals_without_a_value():
    nan = float("nan")
    ax = plot.intervals([0.7, nan], [0.6, nan], [0.8, nan], ["a", "crashed"])
    assert "not known" in texts(ax)
    assert ticks(ax) == ["a", "crashed"]


def test_intervals_without_ends():
    ax = plot.intervals([0.8, 1.1], [0.0, 1.0], [np.inf, 1.2], ["few", "more"])
    assert "0.800, no interval" in texts(ax)
    low, high = ax.get_xlim()
    assert 0 < low < 0.8 and 1.2 < high < 2
    line = next(line for line in ax.lines if line.get_linewidth() == 8)
    assert list(line.get_xdata()) == [low, high]


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        (([1], [1, 2], [1], ["a"]), "1, 2, 1, 1"),
        (([], [], [], []), "one entry for each row"),
        (([2.0], [0.5], [1.5], ["f"]), r"f: the ratio 2 is not in \[0.5, 1.5\]"),
        (([-1.0], [-2.0], [1.5], ["f"]), "f: the ratio -1"),
    ],
)
def test_intervals_errors(rows, words):
    with pytest.raises(ValueError, match=words):
        plot.intervals(*rows)


# waterfall --------------------------------------------------------------------------------

STEPS = ([8e-3, 5e-3, 5e-3, 6e-3], ["first", "less work", "nothing", "more work"])


def bars(ax):
    return [(bar.get_x(), bar.get_x() + bar.get_width()) for bar in ax.patches]


def test_waterfall_draws_whole_times_and_the_changes_between_them():
    ax = plot.waterfall(*STEPS, total="last", xlabel="time per pass")
    assert ticks(ax) == ["first", "less work", "nothing", "more work", "last"]
    assert ax.get_xlabel() == "time per pass (ms)"
    assert ax.get_xscale() == "linear" and ax.get_xlim()[0] == 0
    whole, changes = bars(ax)[:2], bars(ax)[2:]
    assert whole == [(0, 8.0), (0, 6.0)]
    assert changes == [(8.0, 5.0), (5.0, 5.0), (5.0, 6.0)]
    assert texts(ax) == ["8.00 ms", "6.00 ms"]


def test_waterfall_colours_say_the_direction_and_grey_that_it_is_not_clear():
    def colours(**options):
        ax = plot.waterfall(*STEPS, **options)
        names = {value.upper(): name for name, value in plot.COLOURS.items()}
        return [names.get(to_hex(bar.get_facecolor()).upper(), "grey") for bar in ax.patches[2:]]

    assert colours() == ["green", "grey", "vermillion"]
    assert colours(clear=[True, False, False]) == ["green", "grey", "grey"]


def test_waterfall_notes_stand_at_the_right_of_their_rows():
    notes = ["whole", "0.62", "1.00", "1.20"]
    ax = plot.waterfall(*STEPS, notes=notes, notes_title="time ratio")
    assert sorted(texts(ax)) == sorted([*notes, "6.00 ms", "time ratio"])


def test_waterfall_is_logarithmic_over_a_wide_range():
    ax = plot.waterfall([1.0, 0.5, 1e-3], ["a", "b", "c"])
    assert ax.get_xscale() == "log"
    assert ax.get_xlabel() == "time (ms, logarithmic axis)"
    low, high = ax.get_xlim()
    assert 0 < low < 1 and high > 1000


def test_waterfall_draws_where_it_is_told():
    ax = plt.subplots()[1]
    assert plot.waterfall(*STEPS, ax=ax) is ax


@pytest.mark.parametrize(
    ("times", "labels", "options", "words"),
    [
        ([1.0], ["a"], {}, "times: 1"),
        ([1.0, 2.0], ["a"], {}, "labels: 1"),
        ([1.0, 2.0], ["a", "b"], {"notes": ["x"]}, "notes: 1"),
        ([1.0, 2.0], ["a", "b"], {"clear": [True, True]}, r"clear \+ 1: 3"),
        ([1.0, 0.0], ["a", "b"], {}, "positive, but one is 0 s"),
    ],
)
def test_waterfall_refuses_what_it_cannot_draw(times, labels, options, words):
    with pytest.raises(ValueError, match=words):
        plot.waterfall(times, labels, **options)


# graph ------------------------------------------------------------------------------------

FANCY = ("abcdefg", ["ae", "be", "cf", "df", "eg", "fg"])


def boxes(ax):
    return {
        box.get_gid(): box.get_path().get_extents()
        for box in ax.patches
        if type(box) is FancyBboxPatch
    }


def arrows(ax):
    return [a._path_original for a in ax.patches if isinstance(a, FancyArrowPatch)]


def on_the_border(box, x, y):
    return box.y0 <= y <= box.y1 and min(abs(x - box.x0), abs(x - box.x1)) < 1e-6


def draw(**options):
    return plot.graph(*FANCY, labels={"e": "e = add(a, b)", "g": "g\n= add(e, f)"}, **options)


def test_graph_has_a_box_for_each_node_that_holds_its_text():
    ax = draw()
    found = boxes(ax)
    assert set(found) == {"a", "b", "c", "d", "e = add(a, b)", "f", "g\n= add(e, f)"}
    ax.figure.canvas.draw()
    for text in ax.texts:
        extent = text.get_window_extent().transformed(ax.transData.inverted())
        box = found[text.get_text()]
        assert box.x0 < extent.x0 and extent.x1 < box.x1
        assert min(box.y0, box.y1) < min(extent.y0, extent.y1)
        assert max(extent.y0, extent.y1) < max(box.y0, box.y1)


def test_graph_goes_from_left_to_right_without_boxes_that_overlap():
    found = list(boxes(draw()).values())
    middle = [(box.x0 + box.x1) / 2 for box in found]
    assert max(middle[:4]) < min(middle[4:6]) <= max(middle[4:6]) < middle[6]
    for i, a in enumerate(found):
        for b in found[:i]:
            assert a.x1 < b.x0 or b.x1 < a.x0 or a.y1 < b.y0 or b.y1 < a.y0


def test_arrows_run_from_border_to_border():
    ax = draw()
    found = boxes(ax)
    order = [found[n] for n in ("a", "b", "c", "d", "e = add(a, b)", "f", "g\n= add(e, f)")]
    paths = arrows(ax)
    assert len(paths) == 6
    for path, (source, target) in zip(paths, FANCY[1], strict=True):
        a, b = (order["abcdefg".index(n)] for n in (source, target))
        assert on_the_border(a, *path.vertices[0])
        assert on_the_border(b, *path.vertices[-1])
    ends = [tuple(path.vertices[-1]) for path in paths]
    assert len(set(ends)) == 6  # arrows into one box stay apart


def test_long_edges_pass_beside_the_boxes():
    nodes = ["x", "a", "b", "c", "out"]
    edges = [("x", "a"), ("a", "b"), ("b", "c"), ("c", "out"), ("x", "out")]
    ax = plot.graph(nodes, edges)
    found = boxes(ax)
    long = arrows(ax)[-1].interpolated(50).vertices
    for name in "abc":
        box = found[name]
        under = (long[:, 0] > box.x0) & (long[:, 0] < box.x1)
        assert under.any()
        assert ((long[under, 1] < box.y0) | (long[under, 1] > box.y1)).all()


def test_edges_do_not_cross_where_they_need_not():
    ax = plot.graph(["a", "b", "c", "x", "y", "z"], [("a", "z"), ("b", "y"), ("c", "x")])
    found = boxes(ax)
    heights = {name: (box.y0 + box.y1) / 2 for name, box in found.items()}
    assert heights["z"] == pytest.approx(heights["a"])
    assert heights["y"] == pytest.approx(heights["b"])
    assert heights["x"] == pytest.approx(heights["c"])


def test_kinds_of_nodes_look_different():
    ax = draw(highlight=["f"])
    fill = {box.get_gid(): to_hex(box.get_facecolor()) for box in ax.patches[:7]}
    assert len({fill["a"], fill["e = add(a, b)"], fill["f"], fill["g\n= add(e, f)"]}) == 4
    assert fill["a"] == fill["b"] == fill["c"] == fill["d"]


def test_text_beside_an_edge():
    ax = plot.graph(["a", "b"], [("a", "b", "32 floats")])
    assert texts(ax) == ["a", "b", "32 floats"]
    found = boxes(ax)
    x, _ = ax.texts[-1].get_position()
    assert found["a"].x1 < x < found["b"].x0


def test_graph_in_given_axes_is_made_to_fit():
    figure, ax = plt.subplots(figsize=(2, 1))
    assert draw(ax=ax) is ax
    assert figure.get_size_inches().tolist() == [2, 1]
    assert ax.texts[0].get_fontsize() < 6
    assert not ax.axison
    assert draw().texts[0].get_fontsize() == 10


def test_single_node_and_nodes_apart():
    assert len(boxes(plot.graph(["a"], []))) == 1
    found = boxes(plot.graph(["a", "b"], []))
    assert found["a"].y1 < found["b"].y0


def test_any_hashable_is_a_node():
    ax = plot.graph([(0, 1), 7], [((0, 1), 7)], labels={7: "seven"})
    assert texts(ax) == ["(0, 1)", "seven"]


@pytest.mark.parametrize(
    ("nodes", "edges", "options", "words"),
    [
        ([], [], {}, "no nodes"),
        (["a", "a"], [], {}, "nodes given twice: a"),
        (["a"], [("a", "b")], {}, r"\('a', 'b'\) has an end that is not a node: 'b'"),
        (["a"], [("a",)], {}, r"an edge is \(from, to\)"),
        ("abc", ["ab", "bc", "ca"], {}, "a cycle.*: a -> b -> c -> a|b -> c -> a -> b"),
        ("a", ["aa"], {}, "a -> a"),
        ("a", [], {"highlight": ["z"]}, "a node that is not given: 'z'"),
        ("a", [], {"labels": {"z": "zed"}}, "a node that is not given: 'z'"),
    ],
)
def test_graph_errors(nodes, edges, options, words):
    with pytest.raises(ValueError, match=words):
        plot.graph(nodes, edges, **options)


@pytest.mark.parametrize("colours", [list(plot.COLOURS.values())])
def test_colours_differ_in_lightness_or_hue(colours):
    assert len(set(colours)) == len(colours) == 7
    assert all(len(c) == 7 and c.startswith("#") for c in colours)
