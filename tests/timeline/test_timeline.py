"""Timelines made by hand: questions, faults, files, figures."""

import copy
import itertools
import json
import math
import pickle
import sys
import threading

import pytest
from drawn import boxes, names, texts
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib import pyplot as plt
from matplotlib.colors import same_color
from profiler_events import crossing, event
from racing import in_threads

from d2lperf.plotting import COLOURS
from d2lperf.timeline import Span, Timeline, TimelineError
from d2lperf.timeline.intervals import union
from d2lperf.timeline.lanes import Entry, arrange
from d2lperf.timeline.record import CALL, timeline_of

GRID = 20
pairs = st.lists(st.tuples(st.integers(0, GRID), st.integers(1, 5)), min_size=1, max_size=12)


def nested():
    return Timeline.from_spans(
        [
            Span("inner", 1.0, 1.0, "a"),
            ("outer", 0.0, 4.0, "a"),
            ("innermost", 1.0, 0.5, "a"),
            ("next", 4.0, 2.0, "a"),
            ("copy", 3.0, 2.0, "b", "disk"),
            ("signal", 8.0, 0.0, "b", "disk"),
        ]
    )


# Questions --------------------------------------------------------------------------------


def test_spans_come_by_start_with_their_depth():
    t = nested()
    assert [s.name for s in t.spans] == ["outer", "inner", "innermost", "copy", "next", "signal"]
    assert [s.depth for s in t.spans] == [0, 1, 2, 0, 0, 0]
    assert t.spans[1] == Span("inner", 1.0, 1.0, "a", "CPU", 1) and t.spans[1].end_s == 2.0
    assert (len(t), t.lanes, t.devices) == (6, ["a", "b"], ["CPU", "disk"])
    assert (t.window_s, t.duration_s) == ((0.0, 8.0), 8.0)


def test_nested_spans_are_busy_once_where_a_sum_over_spans_counts_them_twice():
    t = nested()
    assert [(t.busy_s(x), t.busy_fraction(x)) for x in "ab"] == [(6.0, 0.75), (2.0, 0.25)]
    assert t.to_frame().groupby("lane").duration_s.sum()["a"] == 7.5


def test_overlap_is_a_fraction_of_the_less_busy_lane():
    t = Timeline.from_spans([("a", 0, 10, "long"), ("b", 8, 4, "short"), ("c", 20, 1, "late")])
    assert t.overlap("long", "short") == t.overlap("short", "long") == 0.5
    assert t.overlap("long", "late") == 0
    assert t.overlap("long", "long") == 1


@given(pairs, pairs)
def test_fractions_against_a_grid(a, b):
    ends = {"a": [(s, s + d) for s, d in a], "b": [(s, s + d) for s, d in b]}
    spans = {lane: union(ends[lane]).tolist() for lane in ends}  # none of a lane cross
    t = Timeline.from_spans([("x", s, e - s, lane) for lane in spans for s, e in spans[lane]])
    busy = {lane: {c for s, e in ends[lane] for c in range(s, e)} for lane in ends}
    cells = busy["a"] | busy["b"]
    duration = max(cells) + 1 - min(cells)
    assert t.busy_fraction("a") == pytest.approx(len(busy["a"]) / duration)
    both = len(busy["a"] & busy["b"])
    assert t.overlap("a", "b") == pytest.approx(both / min(map(len, busy.values())))


@settings(max_examples=50)
@given(st.lists(st.floats(1e-6, 1e3), min_size=1, max_size=30), st.floats(0, 1e6))
def test_spans_one_after_the_other_never_overlap_by_rounding(durations, start):
    starts = itertools.accumulate(durations[:-1], initial=start)
    t = Timeline.from_spans([("x", s, d, "a") for s, d in zip(starts, durations, strict=True)])
    assert {s.depth for s in t.spans} == {0}
    assert t.busy_s("a") == pytest.approx(sum(durations), abs=1e-6)


def test_moments_are_kept_and_take_no_time():
    t = Timeline.from_spans([("work", 0, 2, "a"), ("mark", 1, 0, "a"), ("mark", 2, 0, "a")])
    assert [(s.name, s.depth) for s in t.spans] == [("work", 0), ("mark", 1), ("mark", 0)]
    assert t.busy_fraction("a") == 1
    t = Timeline.from_spans([("mark", 1, 0, "a"), ("work", 1, 2, "b")])
    assert t.busy_fraction("a") == 0 and math.isnan(t.overlap("a", "b"))
    assert math.isnan(Timeline.from_spans([("mark", 1, 0, "a")]).busy_fraction("a"))


def test_the_hosts_lanes_come_first():
    spans = [("k", 0, 1, "s7", "cuda:0"), ("op", 0, 1, "main thread"), ("k", 0, 1, "x")]
    assert Timeline.from_spans(spans).lanes == ["main thread", "x", "s7"]


def test_repr_says_how_busy_each_lane_is():
    assert repr(nested()).splitlines() == [
        "timeline: 6 spans in 8.00 s",
        "  a: busy 6.00 s",
        "  b: busy 2.00 s",
    ]


# Filling by hand --------------------------------------------------------------------------


def test_span_takes_the_time_of_a_block_and_nests():
    t = Timeline()
    with t.span("outer"):
        with t.span("inner"):
            pass
        with pytest.raises(KeyError), t.span("fails"):
            raise KeyError("x")
    names = [(s.name, s.depth, s.lane) for s in t.spans]
    assert names == [(n, d, "main thread") for n, d in (("outer", 0), ("inner", 1), ("fails", 1))]
    outer, *inside = t.spans
    assert all(outer.start_s <= s.start_s and s.end_s <= outer.end_s for s in inside)
    with t.span("later", lane="disk", device="disk"):
        pass
    assert len(t) == 4 and t.lanes == ["main thread", "disk"]  # asked before, and still seen


@pytest.mark.parametrize(
    "ask",
    [
        lambda t: t.lanes,
        lambda t: t.devices,
        lambda t: t.spans,
        lambda t: t.to_frame(),
        lambda t: t.overlap("x 0", "x 0"),
        repr,
    ],
)
def test_a_device_that_appears_during_a_question_does_no_harm(ask):
    """`Timeline.lanes` of the first edition raised then."""
    t, number = Timeline(), itertools.count(1)
    with t.span("first", lane="x 0"):
        pass

    def interrupt(frame, event, arg):  # what another thread may do before any step
        if event == "call" and "d2lperf" in frame.f_code.co_filename and (i := next(number)) < 20:
            with t.span("more", lane=f"x {i}", device=f"device {i}"):
                pass

    sys.setprofile(interrupt)
    try:
        ask(t)
    finally:
        sys.setprofile(None)
    assert len(t.lanes) == len(t.devices) == len(t) > 1


def test_many_threads_fill_a_timeline():
    t, together = Timeline(), threading.Barrier(4)

    def work():
        together.wait()
        for i in range(200):
            with t.span(f"step {i}"):
                pass

    in_threads(*[work] * 4)
    assert sorted(t.lanes) == [f"worker {i}" for i in range(4)]
    assert len(t) == len(t.spans) == 800
    assert all(0 <= t.busy_fraction(lane) <= 1 for lane in t.lanes)


def test_a_timeline_can_be_pickled_and_copied():
    for t in (nested(), crossing()):
        for other in (pickle.loads(pickle.dumps(t)), copy.deepcopy(t)):
            assert other.spans == t.spans and other.window_s == t.window_s
            with other.span("more"):
                pass
            assert len(other) == len(t) + 1


# Several workers --------------------------------------------------------------------------


def test_timelines_of_workers_are_merged_on_one_clock():
    a, b = Timeline(), Timeline()
    with a.span("wait", lane="x"), b.span("work", lane="x"):
        pass
    with b.span("copy", lane="copies", device="disk"):
        pass
    t = Timeline.merge({"rank 0": a, "rank 1": b, "rank 2": Timeline()})
    assert t.lanes == ["rank 0 x", "rank 1 x", "rank 1 copies"]
    assert t.devices == ["rank 0", "rank 1", "rank 1 disk"]
    spans = {s.name: s for s in t.spans}
    assert spans["wait"].start_s <= spans["work"].start_s
    assert spans["work"].end_s <= spans["wait"].end_s <= spans["copy"].start_s


@given(pairs, st.integers(0, 10**9))
def test_merging_changes_neither_spans_nor_busy_time(spans, shift):
    lanes = {}
    for start, duration in spans:
        lane = lanes.setdefault(f"w{start % 3}", [])
        if all(start >= a + d or start + duration <= a for a, d in lane):
            lane.append((start, duration))
    rows = {w: [("op", shift + a, d, "x") for a, d in lane] for w, lane in lanes.items()}
    together = Timeline.from_spans([(*r[:3], f"{w} x") for w, lane in rows.items() for r in lane])
    merged = Timeline.merge({w: Timeline.from_spans(lane) for w, lane in rows.items()})
    assert [s[:4] for s in merged.spans] == [s[:4] for s in together.spans]
    assert merged.window_s == together.window_s
    assert all(merged.busy_s(lane) == together.busy_s(lane) for lane in merged.lanes)


def test_merged_recordings_keep_spans_that_cross_and_their_whole_window():
    both = Timeline.merge({"rank 0": crossing(), "rank 1": crossing()})
    assert both.lanes == ["rank 0 cuda:0 stream 7", "rank 1 cuda:0 stream 7"]
    assert both.window_s == (0.0, 8e-6) and len(both) == 6
    assert len(Timeline.merge({"a": Timeline()})) == 0


# Faults -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "ask",
    [
        lambda t: t.busy_fraction("a"),
        lambda t: t.busy_s("a"),
        lambda t: t.overlap("a", "b"),
        lambda t: t.window_s,
        lambda t: t.duration_s,
        lambda t: t.plot(),
    ],
)
def test_an_empty_timeline_says_so(ask):
    t = Timeline()
    with pytest.raises(TimelineError, match=r"has no spans.*adds one"):
        ask(t)
    assert (t.spans, t.lanes, t.devices, len(t)) == ([], [], [], 0)
    assert repr(t) == "timeline: 0 spans" and t.to_frame().empty


@pytest.mark.parametrize(
    "ask",
    [
        lambda t: t.busy_fraction("c"),
        lambda t: t.busy_s("c"),
        lambda t: t.overlap("a", "c"),
        lambda t: t.plot(lanes=["c"]),
    ],
)
def test_an_unknown_lane_is_named_with_those_that_there_are(ask):
    with pytest.raises(TimelineError, match=r"no lane 'c'.*'a', 'b'"):
        ask(nested())


def test_spans_of_a_lane_that_cross_are_refused():
    spans = [("load", 0, 2, "disk"), ("decode", 1, 2, "disk")]
    words = r"'decode' \(1 s to 3 s\) starts inside another span of lane 'disk'.*two lanes"
    with pytest.raises(TimelineError, match=words):
        Timeline.from_spans(spans)
    spans[1] = ("decode", 1, 2, "another")
    assert Timeline.from_spans(spans).overlap("disk", "another") == 0.5


def test_blocks_of_one_lane_that_cross_get_lanes_of_their_own(tmp_path):
    """Asking raised from then on, and saving too: what was recorded was lost."""
    t = Timeline()
    with t.span("first", lane="x (2)"):
        pass
    blocks = [t.span(name, lane="x", device="disk") for name in "abc"]
    for block in blocks:
        block.__enter__()
    for block in blocks:
        block.__exit__(None, None, None)
    assert t.lanes == ["x (2)", "x", "x (3)", "x (4)"] and t.devices == ["CPU", "disk"]
    found = [(s.name, s.lane, s.depth) for s in t.spans[1:]]
    assert found == [("a", "x", 0), ("b", "x (3)", 0), ("c", "x (4)", 0)]
    assert t.busy_s("x (3)") > 0 and len(t.to_frame()) == 4
    assert same(saved_and_loaded(t, tmp_path / "t.json"), t)
    assert Timeline.merge({"a": t}).lanes == [f"a {lane}" for lane in t.lanes]


@pytest.mark.parametrize("inside", [True, False])
def test_threads_that_share_a_named_lane_lose_nothing(tmp_path, inside):
    """A block of another thread is not nested, even where it happens to lie inside."""
    t, entered, leave = Timeline(), threading.Event(), threading.Event()

    def other():
        with t.span("theirs", lane="disk"):
            with t.span("part", lane="disk"):
                entered.set()
            leave.wait(10)

    thread = threading.Thread(target=other)
    with t.span("ours", lane="disk"):
        thread.start()
        assert entered.wait(10)
        if inside:
            leave.set()
            thread.join()
    leave.set()
    thread.join()
    found = {(s.name, s.lane, s.depth) for s in t.spans}
    assert found == {("ours", "disk", 0), ("theirs", "disk (2)", 0), ("part", "disk (2)", 1)}
    assert same(saved_and_loaded(t, tmp_path / "t.json"), t)
    assert "disk (2): busy" in repr(t)


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 5), st.integers(0, 2)), max_size=12))
def test_no_span_is_lost_and_lanes_nest_whatever_was_noted(blocks):
    noted = [Entry(str(i), a, a + d, "x", thread) for i, (a, d, thread) in enumerate(blocks)]
    if not noted:
        return
    found = arrange(noted, {"x": "CPU"}, None)
    assert sorted(row[:3] for row in found.rows) == sorted(entry[:3] for entry in noted)
    threads = {entry.name: entry.thread for entry in noted}
    for lane in found.times:
        rows = [row for row in found.rows if row.lane == lane]
        for one, two in itertools.combinations(rows, 2):
            apart = two.start >= one.end
            inside = two.end <= one.end and threads[one.name] == threads[two.name]
            assert apart or inside


# Summary ----------------------------------------------------------------------------------


def test_the_summary_has_time_by_name_and_lane():
    spans = [("load", 0, 2, "disk"), ("load", 3, 1, "disk"), ("step", 1, 6, "main")]
    spans += [("step", 2, 1, "main"), ("load", 7, 1, "main")]  # one inside the other; another lane
    summary = Timeline.from_spans(spans).summary()
    assert summary.rows == [
        ("step", "main", 2, 6.0, 0.75),
        ("load", "disk", 2, 3.0, 0.375),
        ("load", "main", 1, 1.0, 0.125),
    ]
    assert summary.nested and "counts for both" in str(summary)
    assert summary.to_frame().to_dict("list") == {
        "name": ["step", "load", "load"],
        "lane": ["main", "disk", "main"],
        "calls": [2, 2, 1],
        "total_s": [6.0, 3.0, 1.0],
        "share": [0.75, 0.375, 0.125],
    }
    assert "75.0 %" in str(summary) and "<td" in summary._repr_html_()


def test_a_long_summary_shows_what_took_longest_and_says_how_many_there_are():
    t = Timeline.from_spans([(f"op {i}", 100 * i, i, "main") for i in range(30)])
    lines = str(t.summary()).splitlines()
    assert lines[1].startswith("op 29") and "op 9 " not in str(t.summary())
    assert lines[-1].startswith("and 10 more") and len(t.summary().to_frame()) == 30
    with pytest.raises(TimelineError, match="no spans"):
        Timeline().summary()
    moment = Timeline.from_spans([("mark", 1, 0, "a")]).summary()
    assert "unknown" in str(moment)


@pytest.mark.parametrize(
    ("span", "words"),
    [
        (("load", 0, -1, "a"), r"'load' starts at 0 s and takes -1 s.*end - start"),
        (("load", float("nan"), 1, "a"), "starts at nan s.*finite"),
        (("load", 0, float("nan"), "a"), "takes nan s.*finite"),
        (("load", 0, float("inf"), "a"), "takes inf s.*finite"),
        (("load", 0, 1, "a", "disk"), "lane 'a' belongs to 'CPU'.*'disk'"),
    ],
)
def test_values_that_are_no_spans_are_refused(span, words):
    with pytest.raises(TimelineError, match=words):
        Timeline.from_spans([("first", 0, 0, "a"), span])


def test_a_lane_of_two_devices_is_refused_before_the_block_runs():
    t = Timeline()
    with t.span("a", lane="x"):
        pass
    block = t.span("b", lane="x", device="y")
    with pytest.raises(TimelineError, match="'x' belongs to 'CPU'"), block:
        pytest.fail("the block ran")


# Files ------------------------------------------------------------------------------------


def check_trace(path):
    """What Perfetto needs; it names processes and threads by texts as pid and tid."""
    events = json.loads(path.read_text(encoding="utf-8"))["traceEvents"]
    for turn in (int, round):  # versions of Perfetto truncate or round to nanoseconds
        open_ = {}
        for e in events:
            assert e["ph"] == "X" and e["ts"] >= 0 and e["dur"] >= 0
            assert all(isinstance(e[key], str) for key in ("name", "pid", "tid"))
            start, duration = turn(e["ts"] * 1e3), turn(e["dur"] * 1e3)
            stack = open_.setdefault(e["tid"], [])
            while stack and stack[-1] <= start:
                stack.pop()
            crosses = bool(stack) and start + duration > stack[-1]
            assert not crosses or "gemm" in e["name"]  # kernels may
            stack.append(start + duration)
    return events


def saved_and_loaded(t, path):
    t.save(str(path))
    assert len(check_trace(path)) == len(t)
    return Timeline.load(path)


def same(a, b):
    return (a.spans, a.lanes, a.devices) == (b.spans, b.lanes, b.devices)


@pytest.mark.parametrize("make", [nested, crossing, Timeline])
def test_a_saved_timeline_comes_back_exactly(tmp_path, make):
    t, path = make(), tmp_path / "t.json"
    again = saved_and_loaded(t, path)
    assert same(again, t) and repr(again) == repr(t)
    again.save(tmp_path / "2.json")
    assert (tmp_path / "2.json").read_bytes() == path.read_bytes()
    with again.span("more"):  # it can be filled further
        pass
    assert len(again.spans) == len(t) + 1


@settings(max_examples=60)
@given(st.lists(st.tuples(st.integers(0, 10**15), st.integers(0, 10**6)), min_size=1, max_size=9))
def test_any_nanosecond_survives_a_file(tmp_path_factory, times):
    path = tmp_path_factory.mktemp("traces") / "t.json"
    events = [event("kernel", "gemm", s / 1e3, d / 1e3, 0, 7) for s, d in times]
    t = timeline_of([event("user_annotation", CALL, 0, 1), *events], {}, called_ns=7)
    assert same(saved_and_loaded(t, path), t) and len(t) == len(times)


def test_loaded_timelines_of_two_processes_are_on_one_clock(tmp_path):
    a, b = Timeline(), Timeline()
    with a.span("outer", lane="x"), b.span("inner", lane="x"):
        pass
    a.save(tmp_path / "a")
    b.save(tmp_path / "b")
    merged = Timeline.merge({name: Timeline.load(tmp_path / name) for name in "ab"})
    assert same(merged, Timeline.merge({"a": a, "b": b}))


def test_names_are_saved_as_they_are_read(tmp_path):
    # Perfetto's UI (version 52) shows an escape as backslash, u, 2202.
    names = ["∂L", "half \udc80", 'a "q" \\ é\n', "$x"]
    t = Timeline.from_spans([(name, i, 1, "läne") for i, name in enumerate(names)])
    again = saved_and_loaded(t, tmp_path / "t.json")
    assert "∂L" in (tmp_path / "t.json").read_text(encoding="utf-8")
    assert [s.name for s in again.spans] == names


@pytest.mark.parametrize("text", ["", "[1, 2]", "{}", '{"traceEvents": []}', "\x00", "7"])
def test_a_file_of_something_else_is_refused(tmp_path, text):
    path = tmp_path / "other.json"
    path.write_text(text)
    with pytest.raises(TimelineError, match=r"other.json is not a file that Timeline.save wrote"):
        Timeline.load(path)


def test_a_missing_folder_or_file_is_named(tmp_path):
    for use in (nested().save, Timeline.load):
        with pytest.raises(FileNotFoundError, match="missing"):
            use(tmp_path / "missing" / "t.json")


# Figures ----------------------------------------------------------------------------------


def drawn(monkeypatch, t, **options):
    """What the timeline hands to the function that draws."""
    from d2lperf import plotting

    given = []
    monkeypatch.setattr(plotting, "gantt", lambda spans, **rest: given.append((spans, rest)))
    t.plot(**options)
    return given[0]


def test_plot_draws_outer_spans_from_the_start_of_the_window(monkeypatch):
    t = Timeline.from_spans([("aten::mm", 5, 2, "x"), ("inner", 5, 1, "x"), ("b", 7, 1, "y", "d")])
    spans, rest = drawn(monkeypatch, t)
    assert spans == [("mm", 0, 2, "x", 0), ("b", 2, 1, "y", 0)]
    assert rest["lanes"] == ["x", "y"] and rest["length_s"] == 3
    spans, rest = drawn(monkeypatch, t, depth=None, lanes=["y", "x"], length_s=9)
    assert [s[4] for s in spans] == [0, 1, 0]
    assert rest["lanes"] == ["y", "x"] and rest["length_s"] == 9


def test_plot_takes_a_palette():
    t = Timeline.from_spans([("aten::mm", 0, 1, "a")])
    (bar,) = boxes(t.plot(palette={"mm": "green"}))
    assert same_color(bar[4], COLOURS["green"])


def test_a_name_has_one_form_whatever_its_depth(monkeypatch):
    """Colours go by these names; the first edition told AddmmBackward0 from AddmmBackward."""
    names = ["autograd::engine::evaluate_function: AddmmBackward0", "AddmmBackward0"]
    t = Timeline.from_spans([(names[0], 0, 2, "a"), (names[1], 0, 1, "a")])
    spans, _ = drawn(monkeypatch, t, depth=None)
    assert {s[0] for s in spans} == {"AddmmBackward0"}


@pytest.mark.parametrize(
    ("name", "short"),
    [
        ("aten::linear", "linear"),
        ("torch::autograd::AccumulateGrad", "AccumulateGrad"),
        ("autograd::engine::evaluate_function: torch::autograd::AccumulateGrad", "AccumulateGrad"),
        ("void (anonymous namespace)::softmax_warp<float, 4>(float*, int)", "softmax_warp"),
        ("ampere_sgemm_128x64_tn", "ampere_sgemm_128x64_tn"),
        ("Memcpy HtoD (Pageable -> Device)", "Memcpy HtoD (Pageable -> Device)"),
        ("stage 1: send", "stage 1: send"),
        ("x" * 50, "x" * 35 + "…"),
        ("<>::", "<>::"),
    ],
)
def test_names_are_shortened(monkeypatch, name, short):
    spans, _ = drawn(monkeypatch, Timeline.from_spans([(name, 0, 1, "a")]))
    assert spans[0][0] == short


def test_figures_of_odd_names_of_one_moment_and_of_recordings_are_drawn():
    odd = Timeline.from_spans([("$x_{$", 0, 1, "$l_{$", "$d_{$"), ("_a", 1, 1, "$l_{$", "$d_{$")])
    for t in (odd, Timeline.from_spans([("mark", 3, 0, "a")]), crossing(), nested()):
        ax = t.plot(depth=None)
        ax.figure.canvas.draw()
        assert any(t.lanes[0] in text for text in texts(ax) + names(ax))
    ax = plt.subplots()[1]
    assert odd.plot(ax) is ax


def test_a_recording_without_lanes_of_a_device_says_so_and_goes_on():
    """Issue 10: cell 143 of notebook 03 raised where the profiler sees no device."""
    t = nested()
    ax = t.plot(lanes=[lane for lane in t.lanes if "stream" in lane])
    ax.figure.canvas.draw()
    assert names(ax) == ["no lanes"]
    assert ax.get_xlim()[1] == pytest.approx(8.08)
