"""What ran when, on which thread or device: timelines, recorded by torch's profiler or by hand.

`record` runs a function under `torch.profiler` and returns a `Timeline`. One can also be filled
by the code that it watches (`Timeline.span`, from any thread) or made of spans that come from
elsewhere, such as other processes or a simulation (`Timeline.from_spans`).

A timeline has lanes: a thread of the host, a stream of a device, a worker. A lane does one thing
at a time, but a span may lie inside another (``aten::linear`` calls ``aten::addmm``). A lane's
*busy* time is the union of its spans, so that nothing counts twice. All times are kept as
integers in nanoseconds, and their arithmetic is exact.
"""

from __future__ import annotations

import gzip
import json
import math
import os
import re
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from d2lperf.device import num_gpus, synchronize
from d2lperf.results import format_seconds

__all__ = [
    "EmptyTimeline",
    "InvalidSpan",
    "OverlappingSpans",
    "ProfilerBusy",
    "Span",
    "Timeline",
    "UnknownLane",
    "gaps",
    "intersection",
    "length",
    "record",
    "union",
]

HOST = "CPU"


class EmptyTimeline(ValueError):
    """A timeline without spans, or without time in them, was asked for something."""


class InvalidSpan(ValueError):
    """A span has a duration or a start that is no time, or a lane of two devices."""


class OverlappingSpans(ValueError):
    """Two spans in a lane overlap, and neither lies inside the other."""


class UnknownLane(LookupError):
    """A lane was asked for that the timeline does not have."""


class ProfilerBusy(RuntimeError):
    """Another profiler runs, and torch can only have one at a time."""


# ------------------------------------------------------------------------------- intervals


def _as_intervals(intervals: Any) -> np.ndarray:
    array = np.asarray(intervals)
    if array.size == 0:
        return np.empty((0, 2), dtype=array.dtype if array.dtype.kind in "iuf" else np.int64)
    if array.ndim != 2 or array.shape[1] != 2:
        raise ValueError(
            f"intervals are pairs (start, end), shape (n, 2), but got shape {array.shape}."
        )
    if not (array[:, 0] <= array[:, 1]).all():
        bad = array[~(array[:, 0] <= array[:, 1])][0]
        raise ValueError(f"the interval ({bad[0]}, {bad[1]}) ends before it starts.")
    return array


def union(intervals: Any) -> np.ndarray:
    """Return the same points of time as few intervals: sorted, apart, none of them empty.

    Args:
        intervals: pairs (start, end), shape (n, 2), in any order and unit.

    Returns:
        Array of shape (m, 2). Intervals that touch become one; those of length 0 are gone.

    Raises:
        ValueError: not pairs, or an end before its start.

    >>> union([(4, 5), (0, 2), (1, 3), (3, 3.5)]).tolist()
    [[0.0, 3.5], [4.0, 5.0]]
    """
    array = _as_intervals(intervals)
    array = array[array[:, 0] < array[:, 1]]
    if not len(array):
        return array
    array = array[np.argsort(array[:, 0], kind="stable")]
    reach = np.maximum.accumulate(array[:, 1])
    first = np.concatenate([[True], array[1:, 0] > reach[:-1]])
    last = np.concatenate([first[1:], [True]])
    return np.stack([array[first, 0], reach[last]], axis=1)


def intersection(a: Any, b: Any) -> np.ndarray:
    """Return when both are busy.

    Args:
        a, b: pairs (start, end), shapes (n, 2) and (m, 2), in any order.

    Returns:
        Array of shape (k, 2), as from `union`.

    Raises:
        ValueError: not pairs, or an end before its start.

    >>> intersection([(0, 4), (6, 9)], [(3, 7)]).tolist()
    [[3, 4], [6, 7]]
    """
    a, b = union(a), union(b)
    points = np.concatenate([a[:, 0], b[:, 0], a[:, 1], b[:, 1]])
    steps = np.repeat([1, -1], len(a) + len(b))
    order = np.argsort(points, kind="stable")
    points, active = points[order], np.cumsum(steps[order])
    both = np.flatnonzero(active[:-1] == 2)
    return union(np.stack([points[both], points[both + 1]], axis=1))


def gaps(intervals: Any, start: float, end: float) -> np.ndarray:
    """Return when nothing is busy between two times.

    Args:
        intervals: pairs (start, end), shape (n, 2), in any order.
        start, end: the window.

    Returns:
        Array of shape (m, 2), as from `union`.

    Raises:
        ValueError: not pairs, or an end before its start.

    >>> gaps([(1, 2), (4, 9)], 0, 6).tolist()
    [[0, 1], [2, 4]]
    """
    window = _as_intervals([(start, end)])
    busy = union(intervals)
    edges = np.concatenate([window[0, :1], np.clip(busy.ravel(), start, end), window[0, 1:]])
    return union(edges.reshape(-1, 2))


def length(intervals: Any) -> float:
    """Return for how long anything is busy: what two intervals share counts once.

    Args:
        intervals: pairs (start, end), shape (n, 2), in any order.

    Raises:
        ValueError: not pairs, or an end before its start.

    >>> length([(0, 2), (1, 3), (10, 11)])
    4
    """
    busy = union(intervals)
    return (busy[:, 1] - busy[:, 0]).sum().item()


# -------------------------------------------------------------------------------- timeline


class Span(NamedTuple):
    """Something that ran: a name, when, and where.

    Attributes:
        name: what ran, such as "aten::linear".
        start_s: when it started, in seconds from the timeline's origin.
        duration_s: how long it took, in seconds; 0 for something that only happened.
        lane: the thread, stream or worker that it ran on.
        device: what the lane belongs to; the timeline groups lanes by it.
        depth: how many spans of the lane it lies inside of (the timeline counts; yours is not
            looked at).
    """

    name: str
    start_s: float
    duration_s: float
    lane: str
    device: str = HOST
    depth: int = 0

    @property
    def end_s(self) -> float:
        """When it ended, in seconds from the timeline's origin."""
        return self.start_s + self.duration_s


class _Table(NamedTuple):
    """All spans by columns, sorted by start, the outer one of two first."""

    names: list[str]
    start: np.ndarray  # nanoseconds, integers
    end: np.ndarray
    lane: np.ndarray  # index into the timeline's lanes
    depth: np.ndarray
    used: list[int]  # the lanes that have spans


class Timeline:
    """Spans in lanes. Empty at first: fill it by `span`, or make it by `record` or `from_spans`.

    Several threads may use one timeline. What is asked of it sees the spans that have ended.

    >>> t = Timeline.from_spans([("load", 0, 3, "disk"), ("train", 2, 4, "gpu")])
    >>> t.busy_fraction("disk"), round(t.overlap("disk", "gpu"), 3)
    (0.5, 0.333)
    """

    def __init__(self):
        self._lock = threading.RLock()
        self._spans: list[tuple[str, int, int, str]] = []
        self._device_of: dict[str, str] = {}
        self._window: tuple[int, int] | None = None  # of a recording
        self._crossing = False  # whether spans of a lane may cross each other
        self._origin = time.perf_counter_ns()
        self._table: _Table | None = None

    # Filling it

    @classmethod
    def from_spans(cls, spans: Iterable[Span | Sequence[Any]]) -> Timeline:
        """Return a timeline of spans that you recorded or computed yourself.

        Args:
            spans: `Span`s, or tuples (name, start_s, duration_s, lane) with a device as a fifth
                if there are several. Times are in seconds, rounded to a nanosecond; lanes appear
                in the order of their first span.

        Raises:
            EmptyTimeline: there are no spans.
            InvalidSpan: a negative duration, a time that is no number, something that is no
                span, or a lane on two devices.
            OverlappingSpans: two spans of a lane overlap, and neither lies inside the other.
        """
        timeline = cls()
        for given in spans:
            try:
                span = Span(*given)
                start, duration = float(span.start_s), float(span.duration_s)
            except (TypeError, ValueError):
                raise InvalidSpan(
                    "a span is (name, start_s, duration_s, lane) or with a device as a fifth, "
                    f"times in seconds, but got {given!r}."
                ) from None
            if not (math.isfinite(start) and math.isfinite(duration)):
                raise InvalidSpan(
                    f"span {span.name!r} in lane {span.lane!r} starts at {start} s and takes "
                    f"{duration} s: both must be finite numbers."
                )
            if duration < 0:
                raise InvalidSpan(
                    f"span {span.name!r} in lane {span.lane!r} takes {duration:g} s: a duration "
                    "is 0 or more. Pass (name, start, end - start, lane), not the end."
                )
            timeline._enter(str(span.lane), str(span.device))
            # Both ends are rounded: where one span ends as the next starts, they still meet.
            begin, end = round(start * 1e9), round((start + duration) * 1e9)
            timeline._spans.append((str(span.name), begin, end, str(span.lane)))
        timeline._arranged()
        return timeline

    @contextmanager
    def span(self, name: str, *, lane: str | None = None, device: str = HOST) -> Iterator[None]:
        """Add the time that a block takes; from any thread, also when the block raises.

        Args:
            name: what the block does.
            lane: where it shows; by default the name of the thread. Blocks that run at the same
                time need lanes of their own.
            device: what the lane belongs to.

        Raises:
            InvalidSpan: the lane belongs to another device already.

        >>> timeline = Timeline()
        >>> with timeline.span("load", lane="worker 0"):
        ...     with timeline.span("decode", lane="worker 0"):
        ...         pass
        >>> [(span.name, span.depth) for span in timeline.spans]
        [('load', 0), ('decode', 1)]
        """
        lane = _thread_label(threading.current_thread()) if lane is None else str(lane)
        self._enter(lane, str(device))
        start = time.perf_counter_ns()
        try:
            yield
        finally:
            end = time.perf_counter_ns()
            with self._lock:
                self._spans.append((str(name), start - self._origin, end - self._origin, lane))
                self._table = None

    def _enter(self, lane: str, device: str) -> None:
        with self._lock:
            known = self._device_of.setdefault(lane, device)
        if known != device:
            raise InvalidSpan(
                f"lane {lane!r} belongs to {known!r}, but a span puts it on {device!r}. "
                "Give each device lanes of its own."
            )

    # Asking it

    @property
    def spans(self) -> list[Span]:
        """All spans by their start, the outer one first where two start together."""
        if not self._spans:
            return []
        table, lanes = self._arranged(), list(self._device_of)
        rows = zip(
            table.names, table.start.tolist(), table.end.tolist(), table.lane, table.depth.tolist()
        )
        return [
            Span(name, a / 1e9, (b - a) / 1e9, lanes[i], self._device_of[lanes[i]], depth)
            for name, a, b, i, depth in rows
        ]

    @property
    def lanes(self) -> list[str]:
        """The lanes, grouped by device, the host's first."""
        devices = self.devices
        return sorted(self._used(), key=lambda lane: devices.index(self._device_of[lane]))

    @property
    def devices(self) -> list[str]:
        """The devices, the host first, others as they first appear."""
        found = dict.fromkeys(self._device_of[lane] for lane in self._used())
        return sorted(found, key=lambda device: device != HOST)

    def _used(self) -> list[str]:
        """Lanes with a span that has ended, in the order of their first start."""
        if not self._spans:
            return []
        table, lanes = self._arranged(), list(self._device_of)
        return [lanes[i] for i in table.used]

    @property
    def window_s(self) -> tuple[float, float]:
        """From when to when the timeline goes, in seconds.

        A recording goes from the call of the function to the end of the work that it started;
        any other timeline from its first start to its last end.

        Raises:
            EmptyTimeline: there are no spans.
        """
        start, end = self._limits()
        return start / 1e9, end / 1e9

    @property
    def duration_s(self) -> float:
        """How long the timeline is, in seconds.

        Raises:
            EmptyTimeline: there are no spans.
        """
        start, end = self._limits()
        return (end - start) / 1e9

    def _limits(self) -> tuple[int, int]:
        table = self._arranged()
        return self._window or (int(table.start.min()), int(table.end.max()))

    def busy_s(self, lane: str) -> float:
        """Return for how many seconds a lane is busy.

        Raises:
            EmptyTimeline: there are no spans.
            UnknownLane: there is no such lane.
        """
        return length(self._intervals(lane)) / 1e9

    def busy_fraction(self, lane: str) -> float:
        """Return the fraction of the timeline's duration in which a lane is busy, 0 to 1.

        Raises:
            EmptyTimeline: there are no spans, or all happen at one instant.
            UnknownLane: there is no such lane.
        """
        busy, (start, end) = length(self._intervals(lane)), self._limits()
        if start == end:
            raise EmptyTimeline(
                f"busy_fraction({lane!r}): all spans have zero length and happen at one instant, "
                "so there is no time to take a fraction of."
            )
        return busy / (end - start)

    def overlap(self, lane_a: str, lane_b: str) -> float:
        """Return how much of the work of two lanes runs at the same time, 0 to 1.

        It is the time in which both are busy, as a fraction of the busy time of the one that is
        busy for less: 1 if its work is wholly hidden behind the other's, 0 if they take turns.

        Raises:
            EmptyTimeline: there are no spans, or one of the lanes has only such of zero length.
            UnknownLane: there is no such lane.
        """
        a, b = self._intervals(lane_a), self._intervals(lane_b)
        for lane, spans in ((lane_a, a), (lane_b, b)):
            if not length(spans):
                raise EmptyTimeline(
                    f"overlap({lane_a!r}, {lane_b!r}): lane {lane!r} is never busy (its spans "
                    "have zero length), so there is nothing that could overlap."
                )
        return length(intersection(a, b)) / min(length(a), length(b))

    def _intervals(self, lane: str) -> np.ndarray:
        table = self._arranged()
        rows = table.lane == self._index(lane)
        return np.stack([table.start[rows], table.end[rows]], axis=1)

    def _index(self, lane: str) -> int:
        lanes = self._used()
        if lane not in lanes:
            raise UnknownLane(
                f"there is no lane {lane!r} in this timeline. It has: "
                f"{', '.join(map(repr, self.lanes))}."
            )
        return list(self._device_of).index(lane)

    def _arranged(self) -> _Table:
        """The columns, made again when spans have been added."""
        with self._lock:
            if not self._spans:
                raise EmptyTimeline(
                    "this timeline has no spans. Fill it: "
                    "`with timeline.span('load', lane='worker 0'): ...`."
                )
            if self._table is None:
                self._table = _arrange(self._spans, list(self._device_of), self._crossing)
            return self._table

    # Showing and keeping it

    def __len__(self) -> int:
        return len(self._spans)

    def __repr__(self) -> str:
        if not self._spans:
            return "timeline without spans"
        lanes = self.lanes
        head = (
            f"timeline of {format_seconds(self.duration_s)}: {len(self)} spans, {len(lanes)} lanes"
        )
        counts = np.bincount(self._arranged().lane, minlength=len(self._device_of))
        wide = max(map(len, lanes))
        rows = [
            f"  {lane:<{wide}}  {counts[self._index(lane)]:>7} spans, "
            f"busy {format_seconds(self.busy_s(lane))}"
            for lane in lanes
        ]
        return "\n".join([head, *rows])

    def to_frame(self):
        """Return a `pandas.DataFrame` with one row for each span, by their start.

        Columns: `name`, `start_s`, `duration_s`, `lane`, `device` and `depth` (0 for a span that
        lies in no other one).
        """
        import pandas as pd

        return pd.DataFrame(self.spans, columns=list(Span._fields))

    def plot(
        self,
        ax: Any = None,
        *,
        depth: int | None = 1,
        lanes: Sequence[str] | None = None,
        colours: Mapping[str, str] | None = None,
    ) -> Any:
        """Draw what ran when: a row for each lane, a bar for each span.

        Where a row is empty, the lane was idle; how much of the time it was busy stands at the
        right. The operations on which most time went have a colour, all others are grey; a number
        at the end of a name of yours ("load 0", "load 1") makes no other operation.

        Args:
            ax: where to draw; a new figure by default.
            depth: how many levels of nested spans to draw, one below the other: 1 for the outer
                ones alone, None for all.
            lanes: which to draw, in this order; all by default.
            colours: colours by the name or the operation, so that two figures can agree.

        Returns:
            The axes, with time from the start of `window_s` along x.

        Raises:
            EmptyTimeline: there are no spans.
            UnknownLane: there is no such lane.
            ValueError: a depth below 1, or no lanes.
        """
        from d2lperf import plot

        if depth is not None and depth < 1:
            raise ValueError(f"depth is the number of levels to draw, 1 or more, but got {depth}.")
        table = self._arranged()
        chosen = self.lanes if lanes is None else list(dict.fromkeys(lanes))
        if not chosen:
            raise ValueError("lanes is empty: name those to draw, or leave it out for all.")
        place = np.full(len(self._device_of), -1)
        for row, lane in enumerate(chosen):
            place[self._index(lane)] = row
        groups = [self._device_of[lane] for lane in chosen]
        several = len(set(groups)) > 1
        shown = place[table.lane] >= 0
        if depth is not None:
            shown &= table.depth < depth
        start, end = self._limits()
        fractions = [self.busy_fraction(lane) if end > start else 0.0 for lane in chosen]
        given = {_short_name(name): colour for name, colour in (colours or {}).items()}
        names = [name for name, draw in zip(table.names, shown.tolist()) if draw]
        short = {name: _short_name(name) for name in set(names)}
        kind = {name: s if s in given else _operation(name) for name, s in short.items()}
        return plot.gantt(
            [short[name] for name in names],
            (table.start[shown] - start) / 1e9,
            (table.end - table.start)[shown] / 1e9,
            place[table.lane[shown]],
            kinds=[kind[name] for name in names],
            levels=table.depth[shown],
            labels=[
                lane[len(group) :].strip() if several and lane.startswith(f"{group} ") else lane
                for lane, group in zip(chosen, groups)
            ],
            groups=groups if several else None,
            notes=[f"{100 * fraction:.0f} %" for fraction in fractions],
            notes_title="busy",
            length=(end - start) / 1e9,
            colours=given,
            ax=ax,
        )

    def save(self, path: str | os.PathLike) -> Path:
        """Write a trace that Perfetto (ui.perfetto.dev) and Chrome (chrome://tracing) open.

        Devices become processes, lanes become threads; times start at 0.

        Args:
            path: such as "trace.json", or "trace.json.gz" for a compressed file; a file that is
                there is overwritten.

        Returns:
            The path.

        Raises:
            EmptyTimeline: there are no spans.
            FileNotFoundError: the folder does not exist.

        Source: Trace Event Format, a document of the Chromium project, the sections on complete
        and metadata events.
        """
        path = Path(path)
        text = json.dumps(self._trace(), separators=(",", ":"))
        if not path.parent.is_dir():
            raise FileNotFoundError(
                f"cannot save the timeline as {str(path)!r}: there is no folder "
                f"{str(path.parent)!r}. Make it first, or choose another one."
            )
        data = text.encode()
        path.write_bytes(gzip.compress(data, mtime=0) if path.suffix == ".gz" else data)
        return path

    def _trace(self) -> dict:
        from d2lperf._version import __version__

        table, origin = self._arranged(), self._limits()[0]
        ids: dict[int, tuple[int, int]] = {}  # lane -> (process, thread)
        events: list[dict] = []

        def describe(what: str, pid: int, tid: int, **args: Any) -> None:
            events.append({"ph": "M", "name": what, "pid": pid, "tid": tid, "args": args})

        for pid, device in enumerate(self.devices, 1):
            describe("process_name", pid, 0, name=device)
            describe("process_sort_index", pid, 0, sort_index=pid)
            lanes = [lane for lane in self.lanes if self._device_of[lane] == device]
            for lane in lanes:
                tid = len(ids) + 1
                ids[self._index(lane)] = pid, tid
                describe("thread_name", pid, tid, name=lane)
                describe("thread_sort_index", pid, tid, sort_index=tid)
        starts = ((table.start - origin) / 1e3).tolist()
        durations = ((table.end - table.start) / 1e3).tolist()
        for name, ts, dur, lane in zip(table.names, starts, durations, table.lane.tolist()):
            pid, tid = ids[lane]
            events.append({"ph": "X", "name": name, "ts": ts, "dur": dur, "pid": pid, "tid": tid})
        return {
            "traceEvents": events,
            "displayTimeUnit": "ms",
            "otherData": {"producer": f"d2lperf {__version__}"},
        }


def _arrange(
    spans: Sequence[tuple[str, int, int, str]], lanes: list[str], crossing: bool
) -> _Table:
    """Sort spans and count their depths; two that cross are an error unless that is allowed."""
    number = {lane: i for i, lane in enumerate(lanes)}
    start = np.array([span[1] for span in spans], dtype=np.int64)
    end = np.array([span[2] for span in spans], dtype=np.int64)
    lane = np.array([number[span[3]] for span in spans], dtype=np.int64)
    # A span recorded by `Timeline.span` is added when it ends, the inner before the outer: of
    # two that are equal, the later one is the outer.
    order = np.lexsort((-np.arange(len(spans)), -end, start))
    start, end, lane = start[order], end[order], lane[order]
    names = [spans[i][0] for i in order.tolist()]
    depth = np.zeros(len(spans), dtype=np.int64)
    open_: list[list[tuple[int, int]]] = [[] for _ in lanes]
    for i, (a, b, where) in enumerate(zip(start.tolist(), end.tolist(), lane.tolist())):
        stack = open_[where]
        while stack and stack[-1][0] <= a:
            stack.pop()
        if stack and stack[-1][0] < b and not crossing:
            k = stack[-1][1]
            raise OverlappingSpans(
                f"lane {lanes[where]!r} has two spans that overlap, and neither lies inside the "
                f"other: {names[k]!r} ({start[k] / 1e9:g} s to {end[k] / 1e9:g} s) and "
                f"{names[i]!r} ({a / 1e9:g} s to {b / 1e9:g} s). A lane does one thing at a "
                "time: give them two lanes."
            )
        depth[i] = len(stack)
        stack.append((b, i))
        if crossing and len(stack) > 1 and stack[-2][0] < b:
            stack.sort(reverse=True)  # the one that ends first is to be popped first
    return _Table(names, start, end, lane, depth, np.unique(lane).tolist())


def _short_name(name: str) -> str:
    """An operation's name without what is the same for many: for a figure.

    >>> _short_name("aten::linear"), _short_name("load batch 3")
    ('linear', 'load batch 3')
    >>> _short_name("autograd::engine::evaluate_function: AddmmBackward0")
    'AddmmBackward0'
    >>> _short_name("void at::native::elementwise<4, at::add<float> >(int, at::add<float>)")
    'elementwise'
    """
    name = name.removeprefix("autograd::engine::evaluate_function: ")
    if "::" in name or name.startswith("void "):
        kept, level = [], 0  # a kernel's template arguments and parameters go
        for letter in name.replace("(anonymous namespace)", "_").removeprefix("void "):
            level += letter in "<(" or 0
            if not level:
                kept.append(letter)
            level -= letter in ">)" or 0
        name = "".join(kept).split("::")[-1].strip() or name
    return name if len(name) <= 36 else f"{name[:35]}…"


def _operation(name: str) -> str:
    """What a name's colour goes by: the number at its end counts only in torch's own names.

    >>> _operation("load 3"), _operation("F0"), _operation("aten::log2"), _operation("7")
    ('load', 'F', 'log2', '7')
    """
    short = _short_name(name)
    if "::" in name or re.search(r"Backward\d+$", name):
        return short
    return re.sub(r"[\s_#]*\d+$", "", short) or short


# --------------------------------------------------------------------------------- record

_MARK = "d2lperf.record"  # the span of the function's own call
_EVALUATE = "autograd::engine::evaluate_function"


def record(fn: Callable[[], Any], *, warmup: int = 1) -> Timeline:
    """Run a function under `torch.profiler` and return what ran when.

    The host's lanes are threads ("main thread", others by the name that Python knows them by,
    "backward thread"), with torch's operations and, on an accelerator, the calls into its
    driver. A device's lanes are its streams ("cuda:0 stream 7"), with kernels and copies. Name
    parts of your own code by ``with torch.profiler.record_function("load"): ...``. What other
    processes do is not seen, nor, on versions of torch that cannot watch all threads (2.6), what
    other Python threads do: `Timeline.span` records that anywhere.

    Recording slows small operations down, so read lengths of gaps and bars as relative to each
    other and take times by `d2lperf.measure`.

    Args:
        fn: what to run, without arguments; what it returns is dropped. All its work on devices
            is waited for.
        warmup: how often to run it before the run that counts (these runs are profiled too,
            so that the profiler is warm as well).

    Returns:
        A `Timeline`, whose time 0 is the call of `fn`.

    Raises:
        EmptyTimeline: `fn` ran, but nothing of torch in it.
        ProfilerBusy: a profiler runs already, or `fn` used one itself.
        TypeError: `fn` cannot be called, or `warmup` is no integer.
        ValueError: `warmup` is negative.
        BaseException: what `fn` raises comes through, an interrupt too; its attribute `partial`
            is the timeline up to there.

    >>> timeline = record(lambda: torch.relu(torch.ones(3)))
    >>> "aten::relu" in {span.name for span in timeline.spans}
    True
    """
    if not callable(fn):
        raise TypeError(
            f"record needs a function without arguments, but got {type(fn).__name__}. "
            "Write record(lambda: f(x))."
        )
    if isinstance(warmup, bool) or not isinstance(warmup, int):
        raise TypeError(f"warmup is a number of runs, but got {warmup!r}.")
    if warmup < 0:
        raise ValueError(f"warmup is a number of runs, 0 or more, but got {warmup}.")
    for _ in range(warmup):
        _profile(fn)
    timeline = _timeline_of(*_profile(fn))
    if not len(timeline):
        raise EmptyTimeline(
            "record ran the function, but the profiler saw no operation of torch in it. "
            "For other code make a Timeline() and write `with timeline.span('load'): ...` "
            "around its parts."
        )
    return timeline


def _profile(fn: Callable[[], Any]) -> tuple[Any, dict[int, str]]:
    """Run `fn` once under a profiler; give the stopped profiler and the names of threads."""
    if _profiling():
        raise ProfilerBusy(
            "record cannot start: a profiler is running already, and torch can only have one. "
            "Stop it first, or call record outside of its block."
        )
    profiler = torch.profiler.profile(activities=_activities(), experimental_config=_all_threads())
    failed: BaseException | None = None
    names: dict[int, str] = {}
    with _quiet():
        profiler.start()
    try:
        with _thread_names(names):
            with torch.profiler.record_function(_MARK):
                fn()
            synchronize()
    except BaseException as error:
        failed = error
        raise
    finally:
        # Where another profiler has ended ours, stopping it once more would crash.
        alive = _profiling()
        if alive:
            with _quiet():
                profiler.stop()
        if failed is not None:
            partial = Timeline()
            if alive:
                with suppress(Exception):  # the error of `fn` matters more
                    partial = _timeline_of(profiler, names)
            with suppress(AttributeError, TypeError):
                failed.partial = partial
    if not alive:
        raise ProfilerBusy(
            "the function that record ran used a profiler itself, and torch can only have one. "
            "Take it out of the function."
        )
    return profiler, names


def _profiling() -> bool:
    """Whether a profiler of torch is on, of this thread or of all."""
    flag = getattr(torch.autograd.profiler, "_is_profiler_enabled", False)
    return bool(flag or torch.autograd._profiler_enabled())


def _activities() -> list[Any]:
    """The host, and the accelerator if there is one: asking for one that is not there is noisy."""
    wanted = [torch.profiler.ProfilerActivity.CPU]
    if num_gpus():
        kind = torch.accelerator.current_accelerator().type.upper()
        activity = getattr(torch.profiler.ProfilerActivity, kind, None)
        if activity in torch.profiler.supported_activities():
            wanted.append(activity)
    return wanted


def _all_threads() -> Any:
    """The setting by which the profiler sees threads that it was not started in, or None."""
    from torch._C._profiler import _ExperimentalConfig

    try:
        return _ExperimentalConfig(profile_all_threads=True)
    except TypeError:  # torch 2.6
        return None


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep the profiler's library from logging to stderr (it asks when it is first used)."""
    name = "KINETO_LOG_LEVEL"
    before = os.environ.get(name)
    if before is None:
        os.environ[name] = "99"
    try:
        yield
    finally:
        if before is None:
            os.environ.pop(name, None)


def _thread_label(thread: threading.Thread) -> str:
    return "main thread" if thread is threading.main_thread() else thread.name


@contextmanager
def _thread_names(names: dict[int, str]) -> Iterator[None]:
    """Note how Python calls the threads that run meanwhile, by the number the system gives them.

    Threads may end before anybody asks, so each tells its name as it starts: by a hook for
    profilers, which it takes off again at once.
    """

    def note(frame: Any, event: str, arg: Any) -> None:
        sys.setprofile(None)
        names[threading.get_native_id()] = _thread_label(threading.current_thread())

    free = threading.getprofile() is None
    if free:
        threading.setprofile(note)
    try:
        yield
    finally:
        if free:
            threading.setprofile(None)
        for thread in threading.enumerate():
            if thread.native_id is not None and not thread.name.startswith("Dummy-"):
                names[thread.native_id] = _thread_label(thread)


class _Event(NamedTuple):
    """What the profiler tells of one span; device None is the host, stream is its thread then."""

    name: str
    device: int | None
    stream: int
    start: int  # nanoseconds
    end: int


def _events(profiler: Any) -> Iterator[_Event]:
    """All events of a stopped profiler.

    The trace that it exports is read much faster than its list of events. But depending on the
    version, it is no JSON or lacks the name if one has a quotation mark or an accent in it; then
    the list it is.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "trace.json")
        profiler.export_chrome_trace(path)
        text = Path(path).read_text(encoding="utf-8", errors="replace")
    try:
        events = list(_events_of_trace(json.loads(text, strict=False)["traceEvents"]))
    except ValueError:
        events = []
    if not events or any(event.name == "unknown" for event in events):
        events = list(_events_of_list(profiler.events()))
    return iter(events)


def _events_of_trace(rows: Iterable[dict]) -> Iterator[_Event]:
    for row in rows:
        kind = row.get("cat", "")
        if row.get("ph") != "X":
            continue
        args = row.get("args", {})
        if kind in ("kernel", "gpu_memcpy", "gpu_memset"):
            device, stream = args.get("device", row["pid"]), args.get("stream", row["tid"])
        elif kind in ("cpu_op", "user_annotation") or kind.endswith(("_runtime", "_driver")):
            device, stream = None, row["tid"]
        else:  # the profiler's own, and copies of the host's names on a device's line
            continue
        start = round(row["ts"] * 1e3)
        end = round((row["ts"] + row.get("dur", 0)) * 1e3)
        yield _Event(row["name"], device, stream, start, end)


def _events_of_list(events: Iterable[Any]) -> Iterator[_Event]:
    for event in events:
        on_host = event.device_type == torch.autograd.DeviceType.CPU
        if not on_host and getattr(event, "is_user_annotation", False):
            continue
        yield _Event(
            event.name,
            None if on_host else event.device_index,
            event.device_resource_id,
            round(event.time_range.start * 1e3),
            round(event.time_range.end * 1e3),
        )


def _timeline_of(profiler: Any, names: Mapping[int, str]) -> Timeline:
    return _build(list(_events(profiler)), names)


def _build(events: Sequence[_Event], names: Mapping[int, str]) -> Timeline:
    """A timeline of the profiler's events: lanes named and ordered, time 0 at the call of `fn`."""
    timeline = Timeline()
    timeline._crossing = True  # kernels of one stream may overlap; this is no fault of the reader
    mark = next((event for event in events if event.name == _MARK), None)
    caller = mark.stream if mark else None

    def belongs(event: _Event) -> bool:
        # After the call, its thread does nothing but wait for the devices, for us.
        ours = mark and event.stream == caller and event.device is None and event.start >= mark.end
        return event.name != _MARK and not ours

    kept = sorted((e for e in events if belongs(e)), key=lambda e: (e.start, -e.end))
    if not kept:
        return timeline
    start = min(e.start for e in ([mark] if mark else kept))
    start = min(start, kept[0].start)
    end = max(e.end for e in [*kept, *([mark] if mark else [])])

    threads = dict.fromkeys(e.stream for e in kept if e.device is None)
    backward = {e.stream for e in kept if e.device is None and e.name.startswith(_EVALUATE)}
    lane_of: dict[tuple[int | None, int], str] = {}
    taken: set[str] = set()
    others = count(1)
    for thread in sorted(threads, key=lambda thread: thread != caller):
        label = names.get(thread)
        if label is None:
            label = "backward thread" if thread in backward else f"thread {next(others)}"
        again = (f"{label} ({k})" for k in count(2))
        lane_of[None, thread] = lane = label if label not in taken else next(
            other for other in again if other not in taken
        )  # fmt: skip
        taken.add(lane)
        timeline._enter(lane, HOST)
    kind = torch.accelerator.current_accelerator().type if num_gpus() else "cuda"
    for device, stream in sorted({(e.device, e.stream) for e in kept if e.device is not None}):
        lane_of[device, stream] = lane = f"{kind}:{device} stream {stream}"
        timeline._enter(lane, f"{kind}:{device}")
    # Of two equal spans, the one that comes later is taken for the outer one.
    timeline._spans = [
        (e.name, e.start - start, e.end - start, lane_of[e.device, e.stream])
        for e in reversed(kept)
    ]
    timeline._window = (0, end - start)
    return timeline
