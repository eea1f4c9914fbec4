"""What ran when, on which thread or device: timelines, recorded by torch's profiler or by hand.

`record` runs a function under `torch.profiler` and returns a `Timeline`. One can also be filled
by the code that it watches (`Timeline.span`, from any thread) or made of spans that come from
elsewhere, such as other processes or a simulation (`Timeline.from_spans`).

A timeline has lanes: a thread of the host, a stream of a device, a worker. A lane does one thing
at a time, but a span may lie inside another (``aten::linear`` calls ``aten::addmm``). A lane's
*busy* time is the union of its spans, so that nothing counts twice. All times are kept as
integers in nanoseconds, and their arithmetic is exact.

Threads and processes of one machine share the clock, `time.perf_counter` ("system-wide", says
Python's documentation of the module `time`), so what they recorded can be put together:
`Timeline.merge`.
"""

from __future__ import annotations

import gzip
import json
import math
import os
import re
import sys
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
_FAR_S = 4e9  # more than a hundred years: two of them, in nanoseconds, are still integers


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
        self._unread: Callable[[], _Filling] | None = None  # what the profiler has for us

    # Filling it

    @classmethod
    def from_spans(cls, spans: Iterable[Span | Sequence[Any]]) -> Timeline:
        """Return a timeline of spans that you recorded or computed yourself.

        Args:
            spans: `Span`s, or tuples (name, start_s, duration_s, lane) with a device as a fifth
                if there are several. Times are in seconds, rounded to a nanosecond, from
                wherever you count: by `time.perf_counter()` if several processes are to agree.
                Lanes appear in the order of their first span.

        Raises:
            EmptyTimeline: there are no spans.
            InvalidSpan: a negative duration, a time that is no number, something that is no
                span, or a lane on two devices.
            OverlappingSpans: two spans of a lane overlap, and neither lies inside the other.
        """
        timeline = cls()
        timeline._origin = 0
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
            if abs(start) + duration > _FAR_S:
                raise InvalidSpan(
                    f"span {span.name!r} in lane {span.lane!r} starts at {start:g} s and takes "
                    f"{duration:g} s, which is centuries away: times are in seconds, not in "
                    "nanoseconds."
                )
            timeline._enter(str(span.lane), str(span.device))
            # Both ends are rounded: where one span ends as the next starts, they still meet.
            begin, end = round(start * 1e9), round((start + duration) * 1e9)
            timeline._spans.append((str(span.name), begin, end, str(span.lane)))
        timeline._arranged()
        return timeline

    @classmethod
    def merge(cls, timelines: Mapping[str, Timeline]) -> Timeline:
        """Return the timelines of several workers, threads or processes of one machine, as one.

        They are aligned by the clock that all processes of a machine share,
        `time.perf_counter`: a recording and a timeline filled by `span` know when they began.
        Of spans given to `from_spans` that clock is assumed. To get here from another process
        a timeline is pickled: return it from the worker.

        Args:
            timelines: by the worker's name, which becomes the device of its lanes and goes
                before their names: of "rank 0" come "rank 0 main thread" and, on device
                "rank 0 cuda:0", "rank 0 cuda:0 stream 7". Empty ones are left out.

        Raises:
            EmptyTimeline: none of them has a span.
            InvalidSpan: two workers would have the same lane.

        >>> a = Timeline.from_spans([("send", 0, 2, "link")])
        >>> b = Timeline.from_spans([("receive", 1, 2, "link")])
        >>> both = Timeline.merge({"rank 0": a, "rank 1": b})
        >>> both.lanes, both.overlap("rank 0 link", "rank 1 link")
        (['rank 0 link', 'rank 1 link'], 0.5)
        """
        merged = cls()
        parts = {str(worker): part for worker, part in timelines.items() if len(part)}
        merged._origin = min((part._origin for part in parts.values()), default=0)
        limits = []
        for worker, part in parts.items():
            with part._lock:
                spans, devices = list(part._spans), dict(part._device_of)
            used = {span[3] for span in spans}
            for lane in sorted(used, key=list(devices).index):
                if f"{worker} {lane}" in merged._device_of:
                    raise InvalidSpan(
                        f"two workers have a lane {worker + ' ' + lane!r}. Give the workers names "
                        "of which none begins like another's lane."
                    )
                device = devices[lane]
                merged._device_of[f"{worker} {lane}"] = (
                    worker if device == HOST else f"{worker} {device}"
                )
            shift = part._origin - merged._origin
            merged._spans += [
                (name, start + shift, end + shift, f"{worker} {lane}")
                for name, start, end, lane in spans
            ]
            merged._crossing |= part._crossing
            limits += [limit + shift for limit in part._limits()]
        merged._arranged()
        merged._window = min(limits), max(limits)
        return merged

    def __getstate__(self) -> dict[str, Any]:
        self._read()
        with self._lock:
            state = {**self.__dict__, "_spans": list(self._spans), "_table": None}
        del state["_lock"]
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._lock = threading.RLock()

    def _read(self) -> None:
        """Take what the profiler has seen, which `record` leaves for later.

        All of it or, where that is interrupted, nothing: then it is there to be asked again.
        """
        if self._unread is None:
            return
        with self._lock:
            if self._unread is not None:
                found = self._unread()
                self._device_of, self._spans = found.devices, found.spans
                self._window, self._origin = found.window, found.origin
                self._unread = None

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
        self._read()
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
        if not len(self):
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
        """Lanes with a span that has ended, in the order in which they came."""
        if not len(self):
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
        start, end = int(table.start.min()), int(table.end.max())
        if self._window is not None:
            start, end = min(start, self._window[0]), max(end, self._window[1])
        return start, end

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
        self._read()
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
        self._read()
        return len(self._spans)

    def __repr__(self) -> str:
        if not len(self):
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
        length_s: float | None = None,
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
            length_s: how much time the axis shows, in seconds from the start of `window_s`, so
                that two figures have one scale; all of it by default. How busy lanes are is
                always told of the whole.

        Returns:
            The axes, with time from the start of `window_s` along x.

        Raises:
            EmptyTimeline: there are no spans.
            UnknownLane: there is no such lane.
            ValueError: a depth below 1, no lanes, or a length that is no time.
        """
        from d2lperf import plot

        if depth is not None and depth < 1:
            raise ValueError(f"depth is the number of levels to draw, 1 or more, but got {depth}.")
        if length_s is not None and not 0 < length_s < math.inf:
            raise ValueError(f"length_s is the time to show, more than 0 s, but got {length_s} s.")
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
            length=(end - start) / 1e9 if length_s is None else length_s,
            colours=given,
            ax=ax,
        )

    def save(self, path: str | os.PathLike) -> Path:
        """Write a trace that Perfetto (ui.perfetto.dev) and Chrome (chrome://tracing) open.

        Devices become processes, lanes become threads; times start at 0. Spans of a lane that
        cross each other, as kernels of one stream may, are put on two threads: Perfetto drops
        what neither lies inside of another nor beside it.

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
        # As UTF-8: Perfetto shows an escape such as \u2202 in a name as these six characters.
        text = json.dumps(self._trace(), separators=(",", ":"), ensure_ascii=False)
        if not path.parent.is_dir():
            raise FileNotFoundError(
                f"cannot save the timeline as {str(path)!r}: there is no folder "
                f"{str(path.parent)!r}. Make it first, or choose another one."
            )
        data = text.encode(errors="backslashreplace")  # half a surrogate pair is an escape in JSON
        path.write_bytes(gzip.compress(data, mtime=0) if path.suffix == ".gz" else data)
        return path

    def _trace(self) -> dict:
        from d2lperf._version import __version__

        table, origin = self._arranged(), self._limits()[0]
        rows = _rows(table) if self._crossing else np.zeros_like(table.lane)
        last = np.zeros(len(self._device_of), dtype=np.int64)
        np.maximum.at(last, table.lane, rows)
        ids: dict[tuple[int, int], tuple[int, int]] = {}  # lane and row -> process and thread
        events: list[dict] = []

        def describe(what: str, pid: int, tid: int, **args: Any) -> None:
            events.append({"ph": "M", "name": what, "pid": pid, "tid": tid, "args": args})

        for pid, device in enumerate(self.devices, 1):
            describe("process_name", pid, 0, name=device)
            describe("process_sort_index", pid, 0, sort_index=pid)
            lanes = [lane for lane in self.lanes if self._device_of[lane] == device]
            for lane in lanes:
                index = self._index(lane)
                for row in range(last[index] + 1):
                    tid = len(ids) + 1
                    ids[index, row] = pid, tid
                    describe("thread_name", pid, tid, name=f"{lane} ({row + 1})" if row else lane)
                    describe("thread_sort_index", pid, tid, sort_index=tid)
        starts = _microseconds(table.start - origin)
        durations = _microseconds(table.end - table.start)
        columns = starts, durations, table.lane.tolist(), rows.tolist()
        for name, ts, dur, lane, row in zip(table.names, *columns):
            pid, tid = ids[lane, row]
            events.append({"ph": "X", "name": name, "ts": ts, "dur": dur, "pid": pid, "tid": tid})
        return {
            "traceEvents": events,
            "displayTimeUnit": "ms",
            "otherData": {"producer": f"d2lperf {__version__}"},
        }


def _rows(table: _Table) -> np.ndarray:
    """For each span a row of its lane in which it lies inside others or beside them."""
    rows: list[int] = []
    open_: list[list[list[int]]] = [[] for _ in range(int(table.lane.max()) + 1)]
    for a, b, lane in zip(table.start.tolist(), table.end.tolist(), table.lane.tolist()):
        for row in count():
            if row == len(open_[lane]):
                open_[lane].append([])
            stack = open_[lane][row]
            while stack and stack[-1] <= a:
                stack.pop()
            if not stack or b <= stack[-1]:
                stack.append(b)
                rows.append(row)
                break
    return np.array(rows, dtype=np.int64)


def _microseconds(times: np.ndarray) -> list[float]:
    """Nanoseconds as the numbers that a trace has, which readers multiply by 1000 again.

    Some round then, others cut off: where that would lose a nanosecond, and a span reach out of
    the one around it, it is the next larger number.
    """
    found = times / 1e3
    less = (found * 1e3).astype(np.int64) < times
    found[less] = np.nextafter(found[less], np.inf)
    return found.tolist()


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
        # What crosses another span does not lie inside it, and is drawn on the same level.
        depth[i] = sum(reach >= b for reach, _ in stack) if crossing else len(stack)
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
_END = "d2lperf.end"  # comes right after it
_EVALUATE = "autograd::engine::evaluate_function"
_recording = threading.Lock()  # torch can only have one profiler


def record(fn: Callable[[], Any], *, warmup: int = 1) -> Timeline:
    """Run a function under `torch.profiler` and return what ran when.

    The host's lanes are threads ("main thread", others by the name that Python knows them by,
    "backward thread"), with torch's operations and, on an accelerator, the calls into its
    driver. A device's lanes are its streams ("cuda:0 stream 7", "xpu:0 stream 3"), with kernels
    and copies; of Apple's devices (mps) the profiler sees the host's side only. Name parts of
    your own code by ``with torch.profiler.record_function("load"): ...``. What other
    processes do is not seen, nor, on versions of torch that cannot watch all threads (2.6), what
    other Python threads do: `Timeline.span` records that anywhere.

    Recording slows small operations down, so read lengths of gaps and bars as relative to each
    other and take times by `d2lperf.measure`. What the profiler has seen is read when the
    timeline is first asked for something.

    Args:
        fn: what to run, without arguments; what it returns is dropped. All its work on devices
            is waited for.
        warmup: how often to run it before the run that counts (these runs are profiled too,
            so that the profiler is warm as well).

    Returns:
        A `Timeline`, whose time 0 is the call of `fn`.

    Raises:
        EmptyTimeline: `fn` ran, but nothing of torch in it.
        ProfilerBusy: a profiler runs already, in this thread or another one, or `fn` used one
            itself.
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
    timeline, profiler = _profile(fn)
    if not _surely_saw_something(profiler) and not len(timeline):
        raise EmptyTimeline(
            "record ran the function, but the profiler saw no operation of torch in it. "
            "For other code make a Timeline() and write `with timeline.span('load'): ...` "
            "around its parts."
        )
    return timeline


def _profile(fn: Callable[[], Any]) -> tuple[Timeline, Any]:
    """Run `fn` once under a profiler; give the timeline, not read yet, and the stopped profiler."""
    if not _recording.acquire(blocking=False):
        raise ProfilerBusy(_BUSY)
    try:
        if _profiling():
            raise ProfilerBusy(_BUSY)
        return _profile_alone(fn)
    finally:
        _recording.release()


_BUSY = (
    "record cannot start: a profiler is running already, and torch can only have one. "
    "Stop it first, or call record outside of its block."
)


def _profile_alone(fn: Callable[[], Any]) -> tuple[Timeline, Any]:
    profiler = torch.profiler.profile(activities=_activities(), experimental_config=_all_threads())
    timeline = Timeline()
    timeline._crossing = True  # kernels of one stream may overlap; this is no fault of the reader
    failed: BaseException | None = None
    names: dict[int, str] = {}
    clock = _Clock(time.perf_counter_ns(), sys.maxsize, time.time_ns())
    label = _thread_label(threading.current_thread())
    try:
        with _quiet():
            profiler.start()
        with _thread_names(names):
            clock = _Clock(time.perf_counter_ns(), sys.maxsize, time.time_ns())
            with torch.profiler.record_function(_MARK):
                clock = clock._replace(after=time.perf_counter_ns())
                fn()
            synchronize()
            with torch.profiler.record_function(_END):
                pass
    except BaseException as error:
        failed = error
        raise
    finally:
        # Where another profiler has ended ours, stopping it once more would crash.
        alive = _profiling()
        if alive:
            with _quiet():
                profiler.stop()
            timeline._unread = lambda: _filling(_events(profiler), names, label, clock)
        if failed is not None:
            with suppress(AttributeError, TypeError):
                failed.partial = timeline
    if not alive:
        raise ProfilerBusy(
            "the function that record ran used a profiler itself, and torch can only have one. "
            "Take it out of the function."
        )
    return timeline, profiler


def _surely_saw_something(profiler: Any) -> bool:
    """Whether there are spans for certain: known long before they are read.

    The profiler numbers what a thread does in turn, our two marks too.
    """
    try:
        roots = profiler.profiler.kineto_results.experimental_event_tree()
        number = {root.name: root.correlation_id for root in roots}
        return number[_END] - number[_MARK] > 1
    except (AttributeError, KeyError):
        return False


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
    """What the profiler tells of one span.

    The device is its kind and number, or None for the host, of which `stream` is the thread.
    """

    name: str
    device: tuple[str, int] | None
    stream: int
    start: int  # nanoseconds
    end: int


class _Clock(NamedTuple):
    """When our mark starts: between two times of `time.perf_counter`; the first in time of day.

    The profiler tells the time of day (from 1970), in nanoseconds as all of these.
    """

    before: int
    after: int
    wall: int

    def of(self, start: int) -> int:
        """When the mark starts by `time.perf_counter`, given its start as the profiler tells it."""
        return min(max(self.before, start - self.wall + self.before), self.after)


class _Filling(NamedTuple):
    """What a recording puts into its timeline."""

    devices: dict[str, str]
    spans: list[tuple[str, int, int, str]]
    window: tuple[int, int] | None
    origin: int  # its time 0 by `time.perf_counter`, in nanoseconds


def _events(profiler: Any) -> list[_Event]:
    """All events of a stopped profiler.

    The list that its own tables are made of has the names as they were given, which its JSON
    has not, and is read several times faster than JSON or the public list. It is not public:
    where it moves to some day, the public one does.
    """
    try:
        return list(_events_of_kineto(profiler.profiler.kineto_results.events()))
    except AttributeError:
        return list(_events_of_list(profiler.events()))


_NOT_WORK = ("overhead", "cuda_sync", "gpu_user_annotation")  # of the profiler or seen from afar


def _events_of_kineto(events: Iterable[Any]) -> Iterator[_Event]:
    """What ran, out of the profiler's own list.

    Left out are copies of the host's names on a device's lines, waiting that is shown on a
    stream (both cross what really runs there), and what the profiler itself took, which is on
    no device's line (-1).
    """
    kinds: dict[Any, str | None] = {}
    for event in events:
        device_type = event.device_type()
        if device_type not in kinds:
            kinds[device_type] = _device_kind(device_type)
        kind, index = kinds[device_type], event.device_index()
        if kind is None:
            # Without kineto's library only torch's own number of the thread is known.
            stream = event.device_resource_id() or event.start_thread_id()
            left_out = index < 0
        else:
            stream = event.device_resource_id()
            left_out = event.is_user_annotation()
        if left_out or getattr(event, "activity_type", str)() in _NOT_WORK:
            continue
        start = event.start_ns()
        yield _Event(
            event.name(),
            None if kind is None else (kind, index),
            stream,
            start,
            start + max(0, event.duration_ns()),
        )


def _events_of_list(events: Iterable[Any]) -> Iterator[_Event]:
    for event in events:
        kind = _device_kind(event.device_type)
        if kind is not None and getattr(event, "is_user_annotation", False):
            continue
        if getattr(event, "activity_type", None) in _NOT_WORK or event.device_index < 0:
            continue
        yield _Event(
            event.name,
            None if kind is None else (kind, event.device_index),
            event.device_resource_id,
            round(event.time_range.start * 1e3),
            round(event.time_range.end * 1e3),
        )


def _device_kind(device_type: Any) -> str | None:
    """The name of a kind of device as in `torch.device`, None for the host."""
    kind = device_type.name.lower()
    if kind == "privateuse1":
        kind = torch._C._get_privateuse1_backend_name()
    return None if kind == "cpu" else kind


def _filling(
    events: Sequence[_Event], names: Mapping[int, str], label: str, clock: _Clock
) -> _Filling:
    """Lanes named and ordered, time 0 at the call of `fn`, made by the thread of that label."""
    mark = next((event for event in events if event.name == _MARK), None)
    caller = mark.stream if mark else None

    def belongs(event: _Event) -> bool:
        # After the call, its thread does nothing but wait for the devices, for us.
        ours = mark and event.stream == caller and event.device is None and event.start >= mark.end
        return event.name != _MARK and event.name != _END and not ours

    kept = sorted((e for e in events if belongs(e)), key=lambda e: (e.start, -e.end))
    if not kept:
        return _Filling({}, [], None, clock.before)
    start, end = kept[0].start, max(e.end for e in kept)
    if mark:
        start, end = min(start, mark.start), max(end, mark.end)

    devices: dict[str, str] = {}
    lane_of: dict[tuple[tuple[str, int] | None, int], str] = {}
    threads = dict.fromkeys(e.stream for e in kept if e.device is None)
    backward = {e.stream for e in kept if e.device is None and e.name.startswith(_EVALUATE)}
    others = count(1)
    for thread in sorted(threads, key=lambda thread: thread != caller):
        name = label if thread == caller else names.get(thread)
        if name is None:
            name = "backward thread" if thread in backward else f"thread {next(others)}"
        again = (f"{name} ({k})" for k in count(2))
        lane = name if name not in devices else next(n for n in again if n not in devices)
        lane_of[None, thread] = lane
        devices[lane] = HOST
    for (kind, index), stream in sorted({(e.device, e.stream) for e in kept if e.device}):
        lane = f"{kind}:{index} stream {stream}"
        lane_of[(kind, index), stream] = lane
        devices[lane] = f"{kind}:{index}"
    # Of two equal spans, the one that comes later is taken for the outer one.
    spans = [
        (e.name, e.start - start, e.end - start, lane_of[e.device, e.stream])
        for e in reversed(kept)
    ]
    origin = clock.of(mark.start) + start - mark.start if mark else clock.before
    return _Filling(devices, spans, (0, end - start), origin)
