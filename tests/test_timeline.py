"""Timelines: interval arithmetic against a brute-force oracle, recording, faults, figures."""

import _thread
import copy
import gzip
import itertools
import json
import os
import pickle
import subprocess
import sys
import threading
import time
import types

import matplotlib
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib import pyplot as plt
from matplotlib.collections import LineCollection, PolyCollection
from matplotlib.colors import to_hex

import d2lperf as d2l
from d2lperf import (
    EmptyTimeline,
    InvalidSpan,
    OverlappingSpans,
    ProfilerBusy,
    Span,
    Timeline,
    UnknownLane,
    plot,
    record,
    timeline,
)

sees_all_threads = pytest.mark.skipif(
    timeline._all_threads() is None, reason="this torch cannot watch threads it was not started in"
)


@pytest.fixture(autouse=True)
def no_traces():
    """Nothing may change a setting of matplotlib, or leave a profiler, hook or variable behind."""

    def state():
        return (
            dict(matplotlib.rcParams),
            timeline._profiling(),
            threading.getprofile(),
            sys.getprofile(),
            os.environ.get("KINETO_LOG_LEVEL"),
        )

    before = state()
    yield
    assert state() == before
    plt.close("all")


# intervals --------------------------------------------------------------------------------

GRID = 24
intervals = st.lists(st.tuples(st.integers(0, GRID), st.integers(0, GRID)).map(sorted), max_size=12)


def cells(pairs):
    """The oracle: which cells of the grid are covered, looked up one by one."""
    return [any(a <= cell < b for a, b in pairs) for cell in range(-3, GRID + 3)]


def is_canonical(found):
    """Sorted, apart, none of them empty."""
    flat = np.asarray(found).ravel().tolist()
    return all(a < b for a, b in itertools.pairwise(flat))


@given(intervals)
def test_union_covers_the_same_cells_in_few_intervals(a):
    found = timeline.union(a)
    assert is_canonical(found)
    assert cells(found) == cells(a)
    assert timeline.length(a) == sum(cells(a))
    assert timeline.union(found).tolist() == found.tolist()


@given(intervals, intervals)
def test_intersection_covers_the_cells_of_both(a, b):
    found = timeline.intersection(a, b)
    assert is_canonical(found)
    assert cells(found) == [x and y for x, y in zip(cells(a), cells(b), strict=True)]
    assert found.tolist() == timeline.intersection(b, a).tolist()


@given(intervals, st.tuples(st.integers(-3, GRID + 3), st.integers(-3, GRID + 3)).map(sorted))
def test_gaps_cover_the_cells_of_the_window_that_are_free(a, window):
    found = timeline.gaps(a, *window)
    assert is_canonical(found)
    inside = cells([window])
    assert cells(found) == [w and not x for w, x in zip(inside, cells(a), strict=True)]


@given(intervals, intervals, st.integers(-5, 5), st.sampled_from([0.25, 0.5, 2.0]))
def test_lengths_add_up_and_move_with_shift_and_scale(a, b, shift, scale):
    both = timeline.length(timeline.intersection(a, b))
    together = timeline.length(a + b)
    assert timeline.length(a) + timeline.length(b) == together + both
    moved = [[scale * (x + shift) for x in pair] for pair in a]
    assert timeline.length(moved) == scale * timeline.length(a)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [([(2, 1)], r"\(2, 1\) ends before it starts"), ([1, 2, 3], r"shape \(n, 2\).*shape \(3,\)")],
)
@pytest.mark.parametrize(
    "function",
    [
        timeline.union,
        timeline.length,
        lambda x: timeline.gaps(x, 0, 9),
        lambda x: timeline.intersection([], x),
    ],
)
def test_intervals_that_are_none_are_refused(function, wrong, words):
    with pytest.raises(ValueError, match=words):
        function(wrong)


def test_a_window_that_ends_before_it_starts_is_refused():
    with pytest.raises(ValueError, match=r"\(3, 1\) ends before"):
        timeline.gaps([], 3, 1)


# spans of one's own -----------------------------------------------------------------------


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


def test_spans_come_back_by_start_with_their_depth():
    t = nested()
    assert [(s.name, s.depth) for s in t.spans] == [
        ("outer", 0),
        ("inner", 1),
        ("innermost", 2),
        ("copy", 0),
        ("next", 0),
        ("signal", 0),
    ]
    assert t.spans[1] == Span("inner", 1.0, 1.0, "a", "CPU", 1) and t.spans[1].end_s == 2.0
    assert (len(t), t.lanes, t.devices) == (6, ["a", "b"], ["CPU", "disk"])
    assert (t.window_s, t.duration_s) == ((0.0, 8.0), 8.0)


def test_busy_time_counts_nested_spans_once():
    t = nested()
    assert (t.busy_s("a"), t.busy_s("b")) == (6.0, 2.0)
    assert (t.busy_fraction("a"), t.busy_fraction("b")) == (0.75, 0.25)


def test_overlap_is_a_fraction_of_the_shorter_lane():
    t = Timeline.from_spans([("a", 0, 10, "long"), ("b", 8, 4, "short"), ("c", 20, 1, "late")])
    assert t.overlap("long", "short") == t.overlap("short", "long") == 0.5
    assert t.overlap("long", "late") == 0
    assert t.overlap("long", "long") == 1


@given(intervals.filter(lambda a: sum(cells(a))), intervals.filter(lambda a: sum(cells(a))))
def test_fractions_against_the_grid(a, b):
    """Each span in a lane of its own device, merged first so that none of a lane cross."""
    merged = {"a": timeline.union(a).tolist(), "b": timeline.union(b).tolist()}
    t = Timeline.from_spans([("x", s, e - s, lane) for lane in merged for s, e in merged[lane]])
    first = min(p[0] for v in merged.values() for p in v)
    last = max(p[1] for v in merged.values() for p in v)
    busy = {lane: sum(cells(merged[lane])) for lane in merged}
    both = sum(x and y for x, y in zip(cells(a), cells(b), strict=True))
    assert t.busy_fraction("a") == pytest.approx(busy["a"] / (last - first))
    assert t.overlap("a", "b") == pytest.approx(both / min(busy.values()))


@settings(max_examples=50)
@given(st.lists(st.floats(1e-6, 1e3), min_size=1, max_size=30), st.floats(0, 1e6))
def test_spans_one_after_the_other_never_overlap_by_rounding(durations, start):
    spans = []
    for d in durations:
        spans.append(("work", start, d, "lane"))
        start += d
    t = Timeline.from_spans(spans)
    assert {s.depth for s in t.spans} == {0}
    assert t.busy_s("lane") == pytest.approx(sum(durations), abs=1e-6)


def test_zero_length_spans_count_nothing_and_are_kept():
    t = Timeline.from_spans([("work", 0, 2, "a"), ("mark", 1, 0, "a"), ("mark", 2, 0, "a")])
    assert [(s.name, s.depth) for s in t.spans] == [("work", 0), ("mark", 1), ("mark", 0)]
    assert t.busy_fraction("a") == 1


def test_the_hosts_lanes_come_first():
    spans = [
        ("k", 0, 1, "cuda:0 stream 7", "cuda:0"),
        ("op", 0, 1, "main thread"),
        ("k", 0, 1, "x"),
    ]
    assert Timeline.from_spans(spans).lanes == ["main thread", "x", "cuda:0 stream 7"]


# recording by hand ------------------------------------------------------------------------


def test_span_takes_the_time_of_a_block_and_nests():
    t = Timeline()
    with t.span("outer"):
        with t.span("inner"):
            time.sleep(0.002)
        with pytest.raises(KeyError), t.span("fails"):
            raise KeyError("x")
    names = [(s.name, s.depth, s.lane) for s in t.spans]
    assert names == [(n, d, "main thread") for n, d in (("outer", 0), ("inner", 1), ("fails", 1))]
    assert t.spans[0].duration_s >= t.spans[1].duration_s >= 0.002
    with t.span("later", lane="disk", device="disk"):
        pass
    assert len(t) == 4 and t.lanes == ["main thread", "disk"]  # what was asked before is no limit


def test_many_threads_may_share_a_timeline():
    t, together = Timeline(), threading.Barrier(4)

    def work():
        together.wait()
        for i in range(200):
            with t.span(f"step {i}"):
                pass

    threads = [threading.Thread(target=work, name=f"worker {i}") for i in range(4)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        if len(t):
            assert t.spans  # asking meanwhile is allowed
    for thread in threads:
        thread.join()
    assert sorted(t.lanes) == [f"worker {i}" for i in range(4)]
    assert len(t) == 800 and all(0 <= t.busy_fraction(lane) <= 1 for lane in t.lanes)


# recording by the profiler ----------------------------------------------------------------


def test_record_sees_operations_their_nesting_and_names_of_ones_own():
    x = torch.ones(64, 64)
    calls = []

    def fn():
        calls.append(1)
        with torch.profiler.record_function("mine"):
            torch.nn.functional.linear(x, x)
        torch.relu(x)

    t = record(fn, warmup=2)
    assert len(calls) == 3
    depth = {s.name: s.depth for s in t.spans}
    assert (depth["mine"], depth["aten::linear"], depth["aten::relu"]) == (0, 1, 0)
    assert sum(s.name == "mine" for s in t.spans) == 1  # the warm-up does not count
    assert t.lanes == ["main thread"] and t.devices == ["CPU"]
    assert t.window_s[0] == 0 < t.spans[0].start_s  # from the call of fn
    assert t.spans[-1].end_s <= t.window_s[1]
    assert 0 < t.busy_fraction("main thread") <= 1
    assert not any(s.name == timeline._MARK for s in t.spans)


def test_times_of_a_recording_are_seconds():
    def fn():
        with torch.profiler.record_function("wait"):
            time.sleep(0.02)

    (span,) = record(fn, warmup=0).spans
    assert 0.02 <= span.duration_s < 2


@pytest.mark.parametrize("name", ['say "this"', "é", "back\\slash", "new\nline", "漢", "</script>"])
def test_names_with_odd_letters_come_through(name):
    def fn():
        with torch.profiler.record_function(name):
            torch.ones(3) + 1

    assert {"aten::add", name} <= {s.name for s in record(fn, warmup=0).spans}


@sees_all_threads
def test_threads_have_lanes_with_their_names():
    x = torch.ones(200, 200)
    together = threading.Barrier(2)

    def work():
        together.wait()
        for _ in range(3):
            x @ x

    def fn():
        threads = [threading.Thread(target=work, name=f"worker {i}") for i in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        torch.relu(x)

    t = record(fn)
    assert t.lanes[0] == "main thread" and sorted(t.lanes[1:]) == ["worker 0", "worker 1"]
    assert [sum(s.name == "aten::matmul" for s in t.spans if s.lane == w) for w in t.lanes] == [
        0,
        3,
        3,
    ]


@sees_all_threads
def test_recorded_threads_that_meet_overlap():
    """Both spans hold the moment in which the barrier falls, so they share time for certain."""
    together = threading.Barrier(2)

    def work():
        with torch.profiler.record_function("meeting"):
            together.wait()
            time.sleep(0.02)

    def fn():
        threads = [threading.Thread(target=work, name=f"worker {i}") for i in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    assert record(fn, warmup=0).overlap("worker 0", "worker 1") > 0


@sees_all_threads
def test_threads_of_one_name_have_two_lanes():
    def fn():
        threads = [threading.Thread(target=torch.ones, args=(3,), name="w") for _ in range(2)]
        together.extend(threads)
        for thread in threads:
            thread.start()
            time.sleep(0.001)
        for thread in threads:
            thread.join()

    together = []
    assert record(fn, warmup=0).lanes in (["w", "w (2)"], ["w"])  # a number may be used again


def test_recording_is_quiet_and_leaves_no_warning():
    code = """
import torch, warnings
warnings.simplefilter("error")
from d2lperf import record
for _ in range(2):
    record(lambda: torch.ones(3) + 1)
torch.relu(torch.ones(3))
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (run.returncode, run.stdout, run.stderr) == (0, "", "")


def test_a_hook_of_somebody_else_stays():
    def hook(frame, event, arg):
        pass

    threading.setprofile(hook)
    try:
        record(lambda: torch.ones(3) + 1)
        assert threading.getprofile() is hook
    finally:
        threading.setprofile(None)


def test_a_recording_is_read_once_and_only_when_asked_for_something(monkeypatch):
    reads, events = [], timeline._events

    def counted(profiler):
        reads.append(1)
        return events(profiler)

    monkeypatch.setattr(timeline, "_events", counted)
    t = record(lambda: torch.ones(3) + 1)
    assert reads == []
    assert len(t) and t.spans and t.lanes == ["main thread"] and t.save
    assert reads == [1]


def test_recordings_may_be_read_long_after_and_in_any_order():
    def named(name):
        def fn():
            with torch.profiler.record_function(name):
                torch.ones(3)

        return fn

    recordings = [record(named(f"part {i}"), warmup=0) for i in range(3)]
    for i in (2, 0, 1):
        mine = [s.name for s in recordings[i].spans if s.name.startswith("part")]
        assert mine == [f"part {i}"]


def test_reading_that_is_interrupted_can_be_done_again(monkeypatch):
    t = record(lambda: torch.relu(torch.ones(3)))
    with monkeypatch.context() as patch:
        patch.setattr(timeline, "_events", lambda profiler: [][1])
        with pytest.raises(IndexError):
            len(t)
    assert "aten::relu" in {s.name for s in t.spans}


def test_threads_may_ask_a_recording_at_the_same_time():
    t, found = record(lambda: torch.relu(torch.ones(3))), []
    threads = [threading.Thread(target=lambda: found.append(t.spans)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8 and all(spans == t.spans for spans in found)


def test_what_cannot_be_known_quickly_is_read(monkeypatch):
    monkeypatch.setattr(timeline, "_surely_saw_something", lambda profiler: False)
    assert record(lambda: torch.ones(3)).lanes == ["main thread"]
    assert not timeline._surely_saw_something(types.SimpleNamespace())


def test_nothing_is_seen_also_where_the_profiler_is_new():
    # The first profiler of a process loads its library: that must not count as events.
    program = """
import d2lperf
try:
    d2lperf.record(lambda: sum(range(10)), warmup=0)
except d2lperf.timeline.EmptyTimeline:
    print("empty")
"""
    run = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=120
    )
    assert run.stdout == "empty\n", run.stdout + run.stderr


def test_spans_may_be_added_to_a_recording():
    t = record(lambda: torch.relu(torch.ones(3)))
    with t.span("later", lane="notes"):
        pass
    assert t.lanes == ["main thread", "notes"] and t.spans[-1].name == "later"
    assert t.window_s[1] == pytest.approx(t.spans[-1].end_s, rel=1e-12)  # a sum of two floats
    assert t.spans[-1].end_s > t.spans[-2].end_s


def test_a_worker_thread_can_record():
    found = []
    worker = threading.Thread(
        target=lambda: found.append(record(lambda: torch.relu(torch.ones(3)))), name="pump"
    )
    worker.start()
    worker.join()
    (t,) = found
    assert t.lanes == ["pump"] and "aten::relu" in {s.name for s in t.spans}


# several workers --------------------------------------------------------------------------


def test_timelines_of_workers_are_merged_on_one_clock():
    a, b = Timeline(), Timeline()
    with a.span("wait", lane="x"), b.span("work", lane="x"):
        time.sleep(0.001)
    with b.span("copy", lane="copies", device="disk"):
        pass
    t = Timeline.merge({"rank 0": a, "rank 1": b, "rank 2": Timeline()})
    assert t.lanes == ["rank 0 x", "rank 1 x", "rank 1 copies"]
    assert t.devices == ["rank 0", "rank 1", "rank 1 disk"]
    assert t.overlap("rank 0 x", "rank 1 x") == 1  # the one lies inside the other
    starts = {s.name: s.start_s for s in t.spans}
    assert starts["wait"] < starts["work"] < starts["copy"]
    labels = [label.get_text() for label in t.plot().get_yticklabels()]
    assert labels == ["x", "x", "rank 1 copies"]


def test_a_recording_stands_beside_spans_of_ones_own():
    own = Timeline()

    def fn():
        with own.span("own"):
            torch.relu(torch.ones(3))

    t = Timeline.merge({"torch": record(fn, warmup=0), "own": own})
    (outer,) = (s for s in t.spans if s.name == "own")
    (inner,) = (s for s in t.spans if s.name == "aten::relu")
    assert outer.start_s <= inner.start_s and inner.end_s <= outer.end_s


@given(
    st.lists(st.tuples(st.integers(0, 50), st.integers(1, 5)), min_size=1, max_size=8),
    st.integers(0, 10**9),
)
def test_merging_keeps_spans_busy_time_and_overlap(pairs, shift):
    """The same spans, whether given at once or as a timeline for each lane."""
    lanes = {}
    for start, duration in pairs:
        lane = f"w{start % 3}"
        if all(start >= a + d or start + duration <= a for a, d in lanes.get(lane, [])):
            lanes.setdefault(lane, []).append((start, duration))
    rows = {k: [("op", shift + a, d, "x") for a, d in v] for k, v in lanes.items()}
    together = Timeline.from_spans([(*r[:3], f"{k} x") for k, v in rows.items() for r in v])
    merged = Timeline.merge({k: Timeline.from_spans(v) for k, v in rows.items()})
    assert [s[:4] for s in merged.spans] == [s[:4] for s in together.spans]
    assert merged.window_s == together.window_s
    for lane in merged.lanes:
        assert merged.busy_s(lane) == together.busy_s(lane)


@pytest.mark.parametrize(
    ("start", "found"),
    [(5_030, 130), (5_000, 100), (4_000, 100), (9_000, 200)],
)
def test_the_clocks_of_a_recording(start, found):
    """At 100 it was 5000 by time of day; what lies beyond the readings is a clock that was set."""
    assert timeline._Clock(100, 200, 5_000).of(start) == found


def test_workers_whose_lanes_have_one_name_are_refused():
    a = Timeline.from_spans([("op", 0, 1, "b c")])
    b = Timeline.from_spans([("op", 0, 1, "c")])
    with pytest.raises(InvalidSpan, match="two workers have a lane 'a b c'"):
        Timeline.merge({"a": a, "a b": b})
    with pytest.raises(EmptyTimeline, match="no spans"):
        Timeline.merge({"a": Timeline()})


def test_timelines_can_be_copied_and_pickled():
    t = record(lambda: torch.relu(torch.ones(3)))
    for other in (pickle.loads(pickle.dumps(t)), copy.copy(t), copy.deepcopy(t)):
        assert other.spans == t.spans and other.window_s == t.window_s
        with other.span("more"):
            pass
        assert len(other) == len(t) + 1


def test_processes_share_the_clock():
    """What a worker records lies between its start and its end as the parent saw them."""
    code = """
import pickle, sys, torch
from d2lperf import record
sys.stdout.buffer.write(pickle.dumps(record(lambda: torch.relu(torch.ones(3)), warmup=0)))
"""
    parent = Timeline()
    with parent.span("worker lives"):
        run = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    t = Timeline.merge({"parent": parent, "worker": pickle.loads(run.stdout)})
    assert t.lanes == ["parent main thread", "worker main thread"]
    whole = t.spans[0]
    assert whole.name == "worker lives" and len(t) > 1
    assert all(whole.start_s < s.start_s and s.end_s < whole.end_s for s in t.spans[1:])


# devices: no accelerator is at hand here, so its events are made up -------------------------

PID = 4711
DEVICE = torch.autograd.DeviceType
ON_DEVICE = ("kernel", "gpu_memcpy", "gpu_memset", "gpu_user_annotation", "cuda_sync")


def event(category, name, start_us, duration_us, device=PID, resource=1, kind=DEVICE.CUDA):
    """An event as torch's profiler lists it: a host's device is its process, its resource a thread;
    a device's resource is a stream. Times count from 1970, in nanoseconds."""
    base = 1_700_000_000_000_000_000
    says = {
        "name": name,
        "activity_type": category,
        "device_type": kind if category in ON_DEVICE else DEVICE.CPU,
        "device_index": device,
        "device_resource_id": resource,
        "start_thread_id": 1,
        "start_ns": base + round(1000 * start_us),
        "duration_ns": round(1000 * duration_us),
        "is_user_annotation": category.endswith("user_annotation"),
    }
    return types.SimpleNamespace(**{key: lambda value=value: value for key, value in says.items()})


GPU_EVENTS = [
    event("user_annotation", timeline._MARK, 10.0, 50),
    event("gpu_user_annotation", timeline._MARK, 30, 170, 0, 7),
    event("cpu_op", "aten::mm", 12, 20),
    event("cuda_runtime", "cudaLaunchKernel", 15, 10),
    event("cuda_driver", "cuLaunchKernelEx", 26, 2),
    event("cpu_op", "autograd::engine::evaluate_function: MmBackward0", 40, 10, PID, 2),
    event("kernel", "void gemm<float>(int)", 30, 60.5, 0, 7),
    event("kernel", "void gemm<float>(int)", 90.25, 50, 0, 7),  # crosses the one before
    event("gpu_memcpy", "Memcpy DtoH (Device -> Pinned)", 60, 100, 0, 20),
    event("gpu_memset", "Memset (Device)", 60, 1, 1, 7),
    event("cuda_runtime", "cudaDeviceSynchronize", 61, 130),  # ours, after the call
    event("user_annotation", timeline._END, 192, 1),
    event("overhead", "Activity Buffer Request", 5, 50, -1, 0),
]


def old(events):
    """As torch 2.6 lists them: without the kind of activity."""
    for e in events:
        yield types.SimpleNamespace(**{k: v for k, v in vars(e).items() if k != "activity_type"})


def timeline_of(events, names=(), label="main thread"):
    """What `record` returns where the profiler lists these events."""
    t = Timeline()
    t._crossing = True
    t._unread = lambda: timeline._filling(
        list(timeline._events_of_kineto(events)), dict(names), label, timeline._Clock(0, 9, 0)
    )
    return t


@pytest.mark.parametrize("version", [list, old])
def test_streams_of_devices_are_lanes(version):
    t = timeline_of(version(GPU_EVENTS))
    assert t.lanes == [
        "main thread",
        "backward thread",
        "cuda:0 stream 7",
        "cuda:0 stream 20",
        "cuda:1 stream 7",
    ]
    assert t.devices == ["CPU", "cuda:0", "cuda:1"]
    assert [s.name for s in t.spans if s.lane == "main thread"] == [
        "aten::mm",
        "cudaLaunchKernel",
        "cuLaunchKernelEx",
    ]
    assert t.window_s == (0.0, 150e-6)  # from the call to the end of the last copy
    # Two kernels of one stream overlap by a quarter of a microsecond: no fault of the reader.
    assert t.busy_s("cuda:0 stream 7") == pytest.approx(110.25e-6)
    assert t.overlap("cuda:0 stream 7", "cuda:0 stream 20") == pytest.approx(80.25 / 100)
    assert [(s.name[:9], s.depth) for s in t.spans if s.lane == "cuda:0 stream 7"] == [
        ("void gemm", 0),
        ("void gemm", 0),
    ]
    ax = t.plot()
    assert len(bars(ax)["gemm"]) == 2
    labels = [label.get_text() for label in ax.get_yticklabels()]
    assert labels == ["main thread", "backward thread", "stream 7", "stream 20", "stream 7"]
    assert {"CPU", "cuda:0", "cuda:1", "gemm"} <= {text.get_text() for text in ax.texts}


def test_waiting_that_the_profiler_shows_on_a_stream_is_no_work_of_it():
    sync = event("cuda_sync", "Stream Sync", 62, 100, 0, 7)
    assert timeline_of([*GPU_EVENTS, sync]).spans == timeline_of(GPU_EVENTS).spans


def test_kernels_that_cross_are_both_in_the_saved_trace(tmp_path):
    t = timeline_of(GPU_EVENTS)
    trace = read(t.save(tmp_path / "t.json"))
    assert len(check_trace(trace)) == len(t)
    names = {e["args"]["name"] for e in trace["traceEvents"] if e["name"] == "thread_name"}
    assert names == {*t.lanes, "cuda:0 stream 7 (2)"}


@pytest.mark.parametrize(
    ("kind", "words"), [(DEVICE.XPU, "xpu"), (DEVICE.HPU, "hpu"), (DEVICE.PrivateUse1, "npu")]
)
def test_devices_have_torchs_names(kind, words, monkeypatch):
    monkeypatch.setattr(torch._C, "_get_privateuse1_backend_name", lambda: "npu")
    devices = [10, 2, 0, 2]
    t = timeline_of(
        [event("user_annotation", timeline._MARK, 0, 9), event("cpu_op", "aten::mm", 1, 5)]
        + [event("xpu_runtime", "urEnqueueKernelLaunch", 2, 1)]
        + [event("kernel", "gemm_kernel", 3 + 9 * i, 8, d, 3, kind) for i, d in enumerate(devices)]
    )
    assert t.devices == ["CPU", f"{words}:0", f"{words}:2", f"{words}:10"]  # by number
    assert t.lanes[1:] == [f"{words}:{i} stream 3" for i in (0, 2, 10)]


def test_ranks_with_devices_are_merged():
    both = Timeline.merge({f"rank {i}": timeline_of(GPU_EVENTS) for i in range(2)})
    assert both.lanes[:3] == [
        "rank 0 main thread",
        "rank 0 backward thread",
        "rank 0 cuda:0 stream 7",
    ]
    assert both.devices[3:] == ["rank 1", "rank 1 cuda:0", "rank 1 cuda:1"]
    labels = [label.get_text() for label in both.plot().get_yticklabels()]
    assert labels[:3] == ["main thread", "backward thread", "stream 7"]


def test_threads_are_told_apart_where_only_torch_numbers_them():
    """Builds without kineto's library know no number of a process or a thread: both are 0."""
    events = [event("user_annotation", timeline._MARK, 0, 9, 0, 0)]
    events += [event("cpu_op", "aten::mm", i, 1, 0, 0) for i in (1, 3)]
    events[-1].start_thread_id = lambda: 2
    assert timeline_of(events).lanes == ["main thread", "thread 1"]


def test_threads_have_the_names_that_python_knows():
    events = [*GPU_EVENTS, event("cpu_op", "aten::mm", 12, 20, PID, 9)]
    lanes = timeline_of(events, {1: "x", 2: "autograd", 9: "pump"}, "pump").lanes
    assert lanes[:3] == ["pump", "pump (2)", "autograd"]  # in the order in which they start


def test_the_public_list_of_events_gives_the_same(monkeypatch):
    def public(e):
        start = e.start_ns() / 1e3
        return types.SimpleNamespace(
            name=e.name(),
            device_type=e.device_type(),
            device_index=e.device_index(),
            device_resource_id=e.device_resource_id(),
            is_user_annotation=e.is_user_annotation(),
            time_range=types.SimpleNamespace(start=start, end=start + e.duration_ns() / 1e3),
        )

    profiler = types.SimpleNamespace(events=lambda: map(public, GPU_EVENTS))
    found = timeline._events(profiler)
    wanted = list(timeline._events_of_kineto(GPU_EVENTS))
    assert [e[:3] for e in found] == [e[:3] for e in wanted]
    np.testing.assert_allclose([e[3:] for e in found], [e[3:] for e in wanted], atol=500, rtol=0)


def test_both_lists_of_the_profiler_agree():
    x = torch.ones(20, 20, requires_grad=True)
    with timeline._quiet(), torch.profiler.profile(activities=timeline._activities()) as profiler:
        (x @ x).sum().backward()
    found = timeline._events(profiler)
    public = timeline._events_of_list(profiler.events())
    # The public one leaves out what lies in a span of its own name.
    assert {e[:3] for e in found} == {e[:3] for e in public} and len(found) > 5


@pytest.mark.parametrize(("kind", "wanted"), [("cuda", 2), ("xpu", 1), ("mps", 1)])
def test_the_accelerator_is_recorded_where_the_profiler_can(monkeypatch, kind, wanted):
    both = {torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA}
    monkeypatch.setattr(timeline, "num_gpus", lambda: 1)
    monkeypatch.setattr(torch.accelerator, "current_accelerator", lambda: torch.device(kind))
    monkeypatch.setattr(torch.profiler, "supported_activities", lambda: both)
    assert len(timeline._activities()) == wanted


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU of NVIDIA's or AMD's")
def test_a_real_device_has_streams():
    x = torch.ones(1000, 1000, device="cuda")
    t = record(lambda: x @ x)
    assert any(device.startswith("cuda") for device in t.devices)


# faults -----------------------------------------------------------------------------------


def test_a_recording_of_nothing_says_what_to_do():
    with pytest.raises(EmptyTimeline, match=r"no operation of torch.*timeline\.span"):
        record(lambda: sum(range(10)))


@pytest.mark.parametrize(
    "ask",
    [
        lambda t: t.busy_fraction("a"),
        lambda t: t.busy_s("a"),
        lambda t: t.overlap("a", "b"),
        lambda t: t.window_s,
        lambda t: t.duration_s,
        lambda t: t.plot(),
        lambda t: t.save("never.json"),
        lambda t: Timeline.from_spans([]),
    ],
)
def test_an_empty_timeline_says_so(ask):
    t = Timeline()
    with pytest.raises(EmptyTimeline, match=r"has no spans. Fill it"):
        ask(t)
    assert (t.spans, t.lanes, t.devices, len(t)) == ([], [], [], 0)
    assert repr(t) == "timeline without spans" and t.to_frame().empty


class Refusing(Exception):
    """An error that takes no attributes."""

    def __setattr__(self, name, value):
        if name == "partial":
            raise AttributeError(name)
        super().__setattr__(name, value)


@pytest.mark.parametrize("warmup", [0, 1])
@pytest.mark.parametrize("kind", [ZeroDivisionError, KeyboardInterrupt, SystemExit, Refusing])
def test_an_error_comes_through_with_the_spans_so_far(kind, warmup):
    def fn():
        torch.relu(torch.ones(3))
        raise kind("broken")

    with pytest.raises(kind, match="broken") as caught:
        record(fn, warmup=warmup)
    if kind is not Refusing:
        partial = caught.value.partial
        assert "aten::relu" in {s.name for s in partial.spans}
        assert d2l.record(lambda: torch.ones(3)).lanes == ["main thread"]  # works again


def test_an_error_before_any_operation_has_an_empty_timeline():
    with pytest.raises(ZeroDivisionError) as caught:
        record(lambda: 1 / 0)
    assert len(caught.value.partial) == 0


def test_an_error_is_not_hidden_by_a_trace_that_cannot_be_read(monkeypatch):
    monkeypatch.setattr(timeline, "_events", lambda profiler: 1 / 0)
    with pytest.raises(KeyError, match="mine") as caught:
        record(lambda: {}["mine"])
    with pytest.raises(ZeroDivisionError):
        len(caught.value.partial)


def test_an_interrupt_from_outside_keeps_the_spans_so_far():
    def fn():
        torch.relu(torch.ones(3))
        threading.Timer(0.02, _thread.interrupt_main).start()
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            time.sleep(0.001)

    with pytest.raises(KeyboardInterrupt) as caught:
        record(fn, warmup=0)
    assert "aten::relu" in {s.name for s in caught.value.partial.spans}
    assert record(lambda: torch.ones(3)).lanes == ["main thread"]


def test_a_recording_is_refused_while_another_thread_records():
    started, go_on, found = threading.Event(), threading.Event(), []

    def fn():
        torch.ones(3)
        started.set()
        go_on.wait(30)

    worker = threading.Thread(target=lambda: found.append(record(fn, warmup=0)))
    worker.start()
    assert started.wait(30)
    with pytest.raises(ProfilerBusy, match="running already"):
        record(lambda: torch.ones(3))
    go_on.set()
    worker.join()
    assert len(found[0])


def test_record_inside_a_profiler_is_refused_and_harms_it_not():
    with timeline._quiet(), torch.profiler.profile(activities=timeline._activities()) as outer:
        with pytest.raises(ProfilerBusy, match="running already"):
            record(lambda: torch.ones(3))
        torch.relu(torch.ones(3))
    assert "aten::relu" in {event.name for event in outer.events()}


def test_record_inside_record_is_refused():
    with pytest.raises(ProfilerBusy, match="running already"):
        record(lambda: record(lambda: torch.ones(3)))
    assert record(lambda: torch.ones(3)).lanes == ["main thread"]


def test_a_function_that_profiles_itself_is_refused():
    """In a process of its own, since what is asked here can crash torch."""
    code = """
import torch
from d2lperf import ProfilerBusy, record

def fn():
    torch.ones(3) + 1
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]):
        torch.ones(3) + 1

try:
    record(fn)
except (ProfilerBusy, RuntimeError) as error:
    print(type(error).__name__)
print(record(lambda: torch.ones(3)).lanes)
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert run.stdout == "ProfilerBusy\n['main thread']\n", run.stderr


@pytest.mark.parametrize(
    ("arguments", "kind", "words"),
    [
        ({"fn": torch.ones(3)}, TypeError, "function without arguments, but got Tensor"),
        ({"warmup": -1}, ValueError, "0 or more, but got -1"),
        ({"warmup": 1.5}, TypeError, "number of runs, but got 1.5"),
        ({"warmup": True}, TypeError, "number of runs, but got True"),
    ],
)
def test_arguments_of_record_are_checked(arguments, kind, words):
    with pytest.raises(kind, match=words):
        record(**{"fn": lambda: torch.ones(3), **arguments})


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
    with pytest.raises(UnknownLane, match=r"no lane 'c'.*'a', 'b'"):
        ask(nested())


def test_spans_of_a_lane_that_cross_are_refused():
    spans = [("load", 0, 2, "disk"), ("decode", 1, 2, "disk")]
    with pytest.raises(
        OverlappingSpans, match=r"'disk'.*'load' \(0 s to 2 s\).*'decode' \(1 s to 3 s\).*two lanes"
    ):
        Timeline.from_spans(spans)
    spans[1] = ("decode", 1, 2, "another")
    assert Timeline.from_spans(spans).overlap("disk", "another") == 0.5


def test_spans_recorded_in_one_lane_by_two_threads_are_refused_when_asked():
    t = Timeline()
    a, b = t.span("a", lane="x"), t.span("b", lane="x")
    for enter_or_leave in (a.__enter__, b.__enter__):
        enter_or_leave()
        time.sleep(0.001)
    a.__exit__(None, None, None)
    time.sleep(0.001)
    b.__exit__(None, None, None)
    with pytest.raises(OverlappingSpans, match=r"'a'.*'b'"):
        t.busy_fraction("x")


@pytest.mark.parametrize(
    ("span", "words"),
    [
        (("load", 0, -1, "a"), "'load' in lane 'a' takes -1 s.*0 or more"),
        (("load", float("nan"), 1, "a"), "starts at nan s.*finite"),
        (("load", 0, float("inf"), "a"), "takes inf s.*finite"),
        (("load", "soon", 1, "a"), r"a span is \(name, start_s.*'soon'"),
        (("load", 5_000_000_000, 1, "a"), "starts at 5e.09 s.*not in nanoseconds"),
        (("load", 0, 1e15, "a"), "takes 1e.15 s.*not in nanoseconds"),
        (("load", 0, 1), r"a span is \(name, start_s"),
        (7, r"a span is .* got 7"),
        (("load", 0, 1, "a", "disk"), "lane 'a' belongs to 'CPU'.*'disk'"),
    ],
)
def test_spans_that_are_none_are_refused(span, words):
    with pytest.raises(InvalidSpan, match=words):
        Timeline.from_spans([("first", 0, 0, "a"), span])


def test_a_lane_of_two_devices_is_refused_before_the_block_runs():
    t = Timeline()
    with t.span("a", lane="x"):
        pass
    with (
        pytest.raises(InvalidSpan, match="'x' belongs to 'CPU'"),
        t.span("b", lane="x", device="y"),
    ):
        pytest.fail("the block ran")


def test_zero_length_alone_gives_no_fraction():
    t = Timeline.from_spans([("mark", 1, 0, "a"), ("work", 1, 2, "b")])
    assert t.busy_fraction("a") == 0
    with pytest.raises(EmptyTimeline, match=r"lane 'a' is never busy"):
        t.overlap("a", "b")
    with pytest.raises(EmptyTimeline, match=r"zero length.*one instant"):
        Timeline.from_spans([("mark", 1, 0, "a")]).busy_fraction("a")


# saving -----------------------------------------------------------------------------------


def read(path):
    raw = path.read_bytes()
    return json.loads(gzip.decompress(raw) if path.suffix == ".gz" else raw)


def check_trace(trace):
    """What the Trace Event Format asks for, and what Perfetto needs to show names."""
    assert isinstance(trace["traceEvents"], list)
    named, spans = set(), []
    for event in trace["traceEvents"]:
        assert type(event["pid"]) is int and type(event["tid"]) is int
        assert isinstance(event["name"], str)
        if event["ph"] == "M":
            named.add((event["name"], event["pid"], event["tid"]))
            assert len(event["args"]) == 1
        else:
            assert event["ph"] == "X" and event["ts"] >= 0 and event["dur"] >= 0
            spans.append(event)
    for event in spans:
        assert ("process_name", event["pid"], 0) in named
        assert ("thread_name", event["pid"], event["tid"]) in named
    for turn in (int, round):  # Perfetto's versions cut off or round to nanoseconds
        open_ = {}
        for event in spans:
            start, length = turn(event["ts"] * 1e3), turn(event["dur"] * 1e3)
            stack = open_.setdefault((event["pid"], event["tid"]), [])
            while stack and stack[-1] <= start:
                stack.pop()
            assert not stack or start + length <= stack[-1]  # it drops what crosses
            stack.append(start + length)
    return spans


@given(st.lists(st.integers(0, 10**15), min_size=1))
def test_microseconds_of_a_trace_are_exact(times):
    found = timeline._microseconds(np.array(times))
    assert [int(t * 1000.0) for t in found] == [round(t * 1000.0) for t in found] == times


@settings(max_examples=50)
@given(st.lists(st.tuples(st.integers(0, 40), st.integers(0, 9)), min_size=1, max_size=15))
def test_any_spans_of_a_stream_are_saved_so_that_none_cross(pairs):
    kernels = [event("kernel", "k", a + 0.057, d / 3, 0, 7) for a, d in pairs]
    t = timeline_of(kernels)
    assert len(check_trace(json.loads(json.dumps(t._trace())))) == len(pairs)


@pytest.mark.parametrize("name", ["trace.json", "trace.json.gz"])
def test_a_saved_trace_is_valid_and_holds_microseconds(tmp_path, name):
    t = nested()
    assert t.save(tmp_path / name) == tmp_path / name
    trace = read(tmp_path / name)
    spans = check_trace(trace)
    names = {(e["name"], *e["args"].values()) for e in trace["traceEvents"] if e["ph"] == "M"}
    assert {("process_name", "CPU"), ("process_name", "disk"), ("thread_name", "a")} <= names
    assert [(e["name"], e["ts"], e["dur"]) for e in spans[:2]] == [
        ("outer", 0.0, 4e6),
        ("inner", 1e6, 1e6),
    ]
    again = t.save(str(tmp_path / name)).read_bytes()
    assert again == (tmp_path / name).read_bytes()  # the same bytes again


def test_a_saved_trace_starts_at_zero_and_keeps_odd_names(tmp_path):
    t = Timeline.from_spans([('a "q" \\ é\n', 1e6, 1e-9, "läne")])
    (span,) = check_trace(read(t.save(tmp_path / "t.json")))
    assert (span["name"], span["ts"], span["dur"]) == ('a "q" \\ é\n', 0.0, 0.001)


def test_names_are_saved_as_they_are_read(tmp_path):
    # Perfetto (its UI, version 52) does not take escapes back: seen there as backslash, u, 2202.
    t = Timeline.from_spans([("∂L", 0.0, 1.0, "läne"), ("half \udc80", 1.0, 1.0, "läne")])
    path = t.save(tmp_path / "t.json")
    assert "∂L" in path.read_text(encoding="utf-8")
    assert [span["name"] for span in check_trace(read(path))] == ["∂L", "half \udc80"]


def test_a_recording_is_saved(tmp_path):
    t = record(lambda: torch.relu(torch.ones(3)))
    assert len(check_trace(read(t.save(tmp_path / "t.json.gz")))) == len(t)


def test_saving_to_a_folder_that_is_not_there(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"no folder '.*missing'. Make it first"):
        nested().save(tmp_path / "missing" / "t.json")
    assert not (tmp_path / "missing").exists()


def test_to_frame_has_a_row_for_each_span():
    frame = nested().to_frame()
    assert list(frame.columns) == ["name", "start_s", "duration_s", "lane", "device", "depth"]
    assert frame["duration_s"].sum() == pytest.approx(9.5)
    assert frame[frame.device == "disk"].name.tolist() == ["copy", "signal"]


def test_repr_says_how_busy_each_lane_is():
    lines = repr(nested()).splitlines()
    assert lines[0] == "timeline of 8.00 s: 6 spans, 2 lanes"
    assert lines[1].split() == ["a", "4", "spans,", "busy", "6.00", "s"]


# figures ----------------------------------------------------------------------------------


def bars(ax):
    """For each label the left end, width and vertical middle of its bars."""
    found = {}
    for collection in ax.collections:
        if isinstance(collection, PolyCollection) and collection.get_label()[0] != "_":
            boxes = [path.get_extents() for path in collection.get_paths()]
            rows = [(b.x0, b.width, (b.y0 + b.y1) / 2) for b in boxes]
            found.setdefault(collection.get_label(), []).extend(rows)
    return found


def legend(ax):
    return [text.get_text() for text in ax.get_legend().get_texts()]


def test_plot_draws_outer_spans_in_rows_with_units():
    ax = nested().plot()
    assert ax.get_xlabel() == "time (s)"
    assert set(bars(ax)) == {"outer", "next", "copy"}  # nested ones are left out
    assert bars(ax)["outer"][0][:2] == pytest.approx((0, 4))
    assert bars(ax)["copy"][0][2] > bars(ax)["outer"][0][2]  # a row below: y goes down
    low, high = ax.get_ylim()
    assert low > high
    (mark,) = [c for c in ax.collections if isinstance(c, LineCollection)]
    assert mark.get_label() == "signal" and mark.get_segments()[0][0][0] == 8
    words = {text.get_text() for text in ax.texts}
    assert {"75 %", "25 %", "busy", "CPU", "disk"} <= words


def test_plot_goes_into_given_axes_and_chooses_the_unit():
    ax = plt.subplots()[1]
    t = Timeline.from_spans([("a", 5, 0.02, "x"), ("b", 5.03, 0.01, "y")])
    assert t.plot(ax) is ax and t.plot(ax=ax) is ax
    assert ax.get_xlabel() == "time (ms)"
    assert bars(ax)["b"][0][:2] == pytest.approx((30, 10))  # from the start of the window


def test_plot_shows_levels_and_lanes_that_are_asked_for():
    t = nested()
    assert set(bars(t.plot(depth=2))) == {"outer", "next", "copy", "inner"}
    deep = bars(t.plot(depth=None))
    assert deep["outer"][0][2] < deep["inner"][0][2] < deep["innermost"][0][2]
    only = t.plot(lanes=["b", "a"])
    assert [label.get_text() for label in only.get_yticklabels()] == ["b", "a"]
    assert set(bars(t.plot(lanes=["b"]))) == {"copy"}
    for wrong in (0, -1):
        with pytest.raises(ValueError, match="levels to draw, 1 or more"):
            t.plot(depth=wrong)
    with pytest.raises(ValueError, match="lanes is empty"):
        t.plot(lanes=[])


def test_plots_can_have_one_scale():
    short = Timeline.from_spans([("a", 0, 2e-3, "x"), ("b", 1, 1e-3, "y")])
    ax = short.plot(length_s=4)
    assert ax.get_xlabel() == "time (s)" and 4 < ax.get_xlim()[1] < 4.1
    assert short.plot(length_s=0.001).get_xlim()[1] == pytest.approx(1.01)
    assert [text.get_text() for text in short.plot(length_s=4).texts][:1] == ["0 %"]
    for wrong in (0, -1, float("nan"), float("inf")):
        with pytest.raises(ValueError, match="more than 0 s"):
            short.plot(length_s=wrong)


def test_long_names_of_lanes_take_two_lines():
    t = Timeline.from_spans([("a", 0, 1, "word " * n) for n in (1, 8, 30)])
    labels = [label.get_text() for label in t.plot().get_yticklabels()]
    assert [label.count("\n") for label in labels] == [0, 1, 1]
    assert labels[2].endswith("…") and max(map(len, labels[2].split("\n"))) <= 28


def test_the_operations_that_take_most_time_have_colours_the_rest_is_grey():
    spans, start = [], 0
    for i in range(9):
        name = f"op {chr(97 + i)}"
        spans.append((name, start, 9 - i, "lane"))
        start += 9 - i
    ax = Timeline.from_spans(spans).plot()
    assert legend(ax) == [f"op {c}" for c in "abcdef"] + ["other"]
    colours = {c.get_label(): to_hex(c.get_facecolor()[0]).upper() for c in ax.collections}
    okabe = [colour.upper() for colour in plot.COLOURS.values()][:6]
    assert [colours[f"op {c}"] for c in "abcdef"] == okabe
    assert len(bars(ax)["other"]) == 3 and colours["other"] not in okabe


def test_colours_go_by_operation_and_can_be_given():
    spans = [("F0", 0, 1, "a"), ("F1", 1, 1, "a"), ("B0", 2, 3, "a"), ("aten::log2", 5, 1, "a")]
    t = Timeline.from_spans(spans)
    assert legend(t.plot()) == ["B", "F", "log2"]
    ax = t.plot(colours={"F1": "#123456", "aten::log2": "#654321"})
    assert legend(ax) == ["B", "F", "F1", "log2"]
    colours = {c.get_label(): to_hex(c.get_facecolor()[0]) for c in ax.collections}
    assert (colours["F1"], colours["log2"]) == ("#123456", "#654321")
    assert {"F0", "F1", "B0"} <= {text.get_text() for text in ax.texts}


def test_plot_of_one_instant_and_of_a_recording():
    ax = Timeline.from_spans([("mark", 3, 0, "a")]).plot()
    assert legend(ax) == ["mark"] and ax.get_xlim()[0] < ax.get_xlim()[1]
    ax = record(lambda: torch.relu(torch.ones(3))).plot(depth=None)
    assert "relu" in legend(ax)
    ax.figure.canvas.draw()


def test_many_spans_are_few_artists():
    n = 20_000
    t = Timeline.from_spans(
        [(f"op {'abcdefgh'[i % 8]}", i, 0.7, f"lane {i % 4}") for i in range(n)]
    )
    ax = t.plot()
    assert len(ax.collections) == 7 and len(ax.texts) < 20
    assert sum(map(len, bars(ax).values())) == n


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"starts": [0]}, "one entry for each bar, and there are 2, 1, 2, 2, 2, 2"),
        ({"labels": []}, "in 0 rows"),
        ({"rows": [0, 1]}, "rows go from 0 to 1, but 1 have labels"),
        ({"durations": [1, -1]}, "a bar takes -1 s"),
    ],
)
def test_gantt_says_what_does_not_fit(change, words):
    given = {"names": ["a", "b"], "starts": [0, 1], "durations": [1, 1], "rows": [0, 0], "labels": ["x"]}  # fmt: skip  # noqa: E501
    plot.gantt(**given)
    with pytest.raises(ValueError, match=words):
        plot.gantt(**{**given, **change})


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
def test_short_names(name, short):
    assert timeline._short_name(name) == short
