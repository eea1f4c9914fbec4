"""What ran when: spans of work in lanes.

A lane is a thread, a stream of a device, or a worker. It does one thing at a time, but a span may
lie inside another (``aten::linear`` calls ``aten::addmm``). A lane is *busy* where at least one of
its spans runs, so nested spans are not counted twice. Times are kept as integers, in nanoseconds.
"""

from __future__ import annotations

import json
import math
import re
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from d2lperf.formats import format_seconds
from d2lperf.timeline.intervals import length

HOST = "CPU"


class TimelineError(ValueError):
    """A timeline cannot be made, or cannot answer; the message says why and what to do."""


class Span(NamedTuple):
    """Something that ran; the timeline computes in how many spans of its lane it lies (depth)."""

    name: str
    start_s: float  # seconds from the timeline's origin
    duration_s: float  # 0 for a moment
    lane: str  # the thread, stream or worker
    device: str = HOST
    depth: int = 0

    @property
    def end_s(self) -> float:
        """When it ended."""
        return self.start_s + self.duration_s


class Timeline:
    """Spans in lanes. Fill it with `span`, or make one with `record` or `from_spans`.

    Several threads may fill one timeline. Questions are answered from the spans that have ended.

    >>> t = Timeline.from_spans([("load", 0, 3, "disk"), ("train", 2, 4, "gpu")])
    >>> t.busy_fraction("disk"), round(t.overlap("disk", "gpu"), 3)
    (0.5, 0.333)
    """

    def __init__(self):
        self._spans: list[tuple[str, int, int, str]] = []  # name, start, end, lane
        self._device_of: dict[str, str] = {}
        self._origin = time.perf_counter_ns()  # time 0 of the spans
        self._window = None  # start and end of a recording, in which spans of a lane may cross
        self._state: tuple = [], {}, None  # what `_now` found last

    @classmethod
    def _of(cls, spans: list, device_of: dict, origin: int, window: Any) -> Timeline:
        timeline = cls()
        timeline._spans, timeline._device_of = spans, device_of
        timeline._origin, timeline._window = origin, window and tuple(window)
        return timeline

    @classmethod
    def from_spans(cls, spans: Iterable[Span | Sequence[Any]]) -> Timeline:
        """Return a timeline of spans that were measured or computed elsewhere.

        Args:
            spans: `Span`s, or tuples (name, start_s, duration_s, lane) with the device as an
                optional fifth. Times in seconds, rounded to a nanosecond, from any origin; use
                `time.perf_counter()` where several processes must agree.

        Raises:
            TimelineError: impossible times, a lane on two devices, or spans of a lane that cross.
        """
        timeline = cls._of([], {}, 0, None)
        for given in spans:
            name, start, duration, lane, device, _ = Span(*given)
            if not (math.isfinite(start) and 0 <= duration < math.inf):
                what = f"span {name!r} starts at {start} s and takes {duration} s"
                raise TimelineError(f"{what}: pass finite (name, start, end - start, lane).")
            timeline._enter(str(lane), str(device))
            # Both ends are rounded, so a span that starts where another ends still does.
            ends = round(start * 1e9), round((start + duration) * 1e9)
            timeline._spans.append((str(name), *ends, str(lane)))
        timeline._now()
        return timeline

    @classmethod
    def merge(cls, timelines: Mapping[str, Timeline]) -> Timeline:
        """Return the timelines of several workers of one machine, by the workers' names, as one.

        They are aligned by `time.perf_counter`, which all processes of a machine share. Lane
        "main thread" of "rank 0" becomes "rank 0 main thread", its device "rank 0".
        """
        parts = {str(worker): part for worker, part in timelines.items() if len(part)}
        origin = min((part._origin for part in parts.values()), default=0)
        spans, device_of, limits = [], {}, []
        for worker, part in parts.items():
            shift, (rows, times, window) = part._origin - origin, part._now()
            limits += [limit + shift for limit in window]
            for lane in times:
                device = part._device_of[lane]
                device_of[f"{worker} {lane}"] = worker if device == HOST else f"{worker} {device}"
            for name, start, end, lane, _ in reversed(rows):
                spans.append((name, start + shift, end + shift, f"{worker} {lane}"))
        return cls._of(spans, device_of, origin, (min(limits), max(limits)) if limits else None)

    @contextmanager
    def span(self, name: str, *, lane: str | None = None, device: str = HOST) -> Iterator[None]:
        """Add the time that a block takes, from any thread, also if the block raises.

        Args:
            name: what the block does.
            lane: where it is shown, by default the name of the thread. Blocks that run at the same
                time need different lanes.
            device: what the lane belongs to; TimelineError if it belongs to another one.
        """
        lane = thread_label(threading.current_thread()) if lane is None else str(lane)
        self._enter(lane, str(device))
        start = time.perf_counter_ns()
        try:
            yield
        finally:
            end = time.perf_counter_ns()
            self._spans.append((str(name), start - self._origin, end - self._origin, lane))

    def _enter(self, lane: str, device: str) -> None:
        if (known := self._device_of.setdefault(lane, device)) != device:
            raise TimelineError(f"lane {lane!r} belongs to {known!r}, so not to {device!r}.")

    def _now(self) -> tuple[list[tuple], dict[str, list[tuple]], tuple[int, int] | None]:
        """Rows (name, start, end, lane, depth) in the order of `spans`; times by lane; window."""
        spans, state = list(self._spans), self._state  # other threads may add some meanwhile
        if len(state[0]) == len(spans):
            return state
        device_of = dict(self._device_of)
        devices = sorted(dict.fromkeys(device_of.values()), key=lambda device: device != HOST)
        lanes = sorted(device_of, key=lambda lane: devices.index(device_of[lane]))
        rows, times, running = [], {lane: [] for lane in lanes}, {}
        # `span` adds inner spans first, so of two equal spans the later one is the outer.
        for name, start, end, lane in sorted(reversed(spans), key=lambda s: (s[1], -s[2])):
            ends = running[lane] = [e for e in running.get(lane, ()) if e > start]
            depth = sum(e >= end for e in ends)
            if depth < len(ends) and not self._window:
                what = f"{name!r} ({start / 1e9:g} s to {end / 1e9:g} s) starts inside another span"
                raise TimelineError(f"{what} of lane {lane!r} and ends after it: use two lanes.")
            ends.append(end)
            times[lane].append((start, end))
            rows.append((name, start, end, lane, depth))
        limits = [*(self._window or ()), *(t for _, start, end, *_ in rows for t in (start, end))]
        times = {lane: those for lane, those in times.items() if those}
        self._state = rows, times, (min(limits), max(limits)) if rows else None
        return self._state

    def _known(self) -> tuple[list[tuple], dict[str, list[tuple]], tuple[int, int]]:
        """What `_now` finds, if there is something."""
        if not (state := self._now())[0]:
            raise TimelineError("the timeline has no spans: `with timeline.span('x'):` adds one.")
        return state

    def _times(self, lane: str) -> list[tuple[int, int]]:
        if lane not in (times := self._known()[1]):
            have = ", ".join(map(repr, times))
            raise TimelineError(f"there is no lane {lane!r} in this timeline. It has: {have}.")
        return times[lane]

    def __len__(self) -> int:
        return len(self._spans)

    @property
    def spans(self) -> list[Span]:
        """All spans by their start; an outer span comes before those inside it."""
        return [
            Span(name, start / 1e9, (end - start) / 1e9, lane, self._device_of[lane], depth)
            for name, start, end, lane, depth in self._now()[0]
        ]

    @property
    def lanes(self) -> list[str]:
        """The lanes that have spans, grouped by device, those of the host first."""
        return list(self._now()[1])

    @property
    def devices(self) -> list[str]:
        """The devices, the host first, others in the order in which they appeared."""
        return list(dict.fromkeys(self._device_of[lane] for lane in self._now()[1]))

    @property
    def window_s(self) -> tuple[float, float]:
        """First start and last end, in seconds; a recording starts with the function's call."""
        start, end = self._known()[2]
        return start / 1e9, end / 1e9

    @property
    def duration_s(self) -> float:
        """Length of the timeline, in seconds."""
        start, end = self._known()[2]
        return (end - start) / 1e9

    def busy_s(self, lane: str) -> float:
        """Return for how many seconds a lane is busy."""
        return length(self._times(lane)) / 1e9

    def busy_fraction(self, lane: str) -> float:
        """Return the busy fraction of the timeline's duration, 0 to 1; nan if that is 0."""
        busy_s, duration_s = self.busy_s(lane), self.duration_s
        return busy_s / duration_s if duration_s else math.nan

    def overlap(self, lane_a: str, lane_b: str) -> float:
        """Return how much of the work of two lanes runs at the same time, 0 to 1.

        It is the time in which both are busy, divided by the busy time of the less busy one: 1 if
        its work is hidden completely behind the other's, 0 if they take turns, nan if it is idle.
        """
        a, b = self._times(lane_a), self._times(lane_b)
        less, both = min(length(a), length(b)), length(a) + length(b) - length(a + b)
        return both / less if less else math.nan

    def __repr__(self) -> str:
        took = f" in {format_seconds(self.duration_s)}" if self._spans else ""
        busy = [f"  {lane}: busy {format_seconds(self.busy_s(lane))}" for lane in self.lanes]
        return "\n".join([f"timeline: {len(self)} spans{took}", *busy])

    def to_frame(self):
        """Return a `pandas.DataFrame` with a row for each span; its columns are those of `Span`."""
        import pandas as pd

        return pd.DataFrame(self.spans, columns=list(Span._fields))

    def busy_frame(self):
        """Return a `pandas.DataFrame` with a row for each lane; nested spans are not counted twice.

        Columns: `lane`, `device`, `spans` (how many), `busy_s`, `busy_fraction`.
        """
        import pandas as pd

        rows = [
            (lane, self._device_of[lane], len(times), self.busy_s(lane), self.busy_fraction(lane))
            for lane, times in self._now()[1].items()
        ]
        return pd.DataFrame(rows, columns=["lane", "device", "spans", "busy_s", "busy_fraction"])

    def plot(self, ax=None, *, depth: int | None = 1, lanes=None, length_s: float | None = None):
        """Draw a row for each lane, with a bar for each span; return the axes.

        Args:
            ax: matplotlib's axes to draw into; a new figure by default.
            depth: how many levels of nested spans to draw, 1 for the outer ones only, None for all.
            lanes: which lanes to draw, in this order; all by default. If there are none, the figure
                says so.
            length_s: seconds that the axis shows, from the start of `window_s`, to give several
                figures one scale; by default the timeline's duration.

        Raises:
            TimelineError: no spans, or no such lane. TypeError: `ax` is not matplotlib's axes.
        """
        from d2lperf import plotting

        rows, times, (zero, last) = self._known()
        lanes = list(times if lanes is None else dict.fromkeys(lanes))
        for lane in lanes:
            self._times(lane)  # raises for one that is not there
        short = {name: _short(name) for name in {row[0] for row in rows}}
        return plotting.gantt(
            [
                (short[name], (start - zero) / 1e9, (end - start) / 1e9, lane, level)
                for name, start, end, lane, level in rows
                if depth is None or level < depth
            ],
            lanes=lanes,
            length_s=(last - zero) / 1e9 if length_s is None else length_s,
            ax=ax,
        )

    def save(self, path: str | Path) -> None:
        """Write a JSON file that `load` reads back, and that Perfetto (ui.perfetto.dev) opens.

        Devices are its processes, lanes its threads. Of spans of a lane that cross, as kernels of a
        stream may, Perfetto shows the first. Source: Trace Event Format (Chromium project).
        """
        rows, times, limits = self._now()
        zero = limits[0] if limits else 0
        events = []
        for name, start, end, lane, _ in rows:
            where = {"ph": "X", "name": name, "pid": self._device_of[lane], "tid": lane}
            # Perfetto multiplies microseconds by 1000 and truncates; a bit more gives back `ns`.
            ts, dur = (math.nextafter(ns / 1e3, math.inf) for ns in (start - zero, end - start))
            events.append({**where, "ts": ts, "dur": dur})
        ours = {"start_ns": zero, "origin_ns": self._origin, "window_ns": self._window}
        ours["device_of"] = {lane: self._device_of[lane] for lane in times}
        # Perfetto shows escapes as they are, so only half of a surrogate pair becomes one.
        text = json.dumps({"traceEvents": events, "otherData": ours}, ensure_ascii=False)
        Path(path).write_text(text, encoding="utf-8", errors="backslashreplace")

    @classmethod
    def load(cls, path: str | Path) -> Timeline:
        """Return the timeline that `save` wrote, exactly; TimelineError for another file."""
        try:
            trace, spans = json.loads(Path(path).read_bytes()), []
            ours = trace["otherData"]
            for event in reversed(trace["traceEvents"]):
                start, took = (round(event[key] * 1e3) for key in ("ts", "dur"))
                start += ours["start_ns"]
                spans.append((event["name"], start, start + took, event["tid"]))
            return cls._of(spans, ours["device_of"], ours["origin_ns"], ours["window_ns"])
        except (ValueError, LookupError, TypeError) as error:
            raise TimelineError(f"{path} is not a file that Timeline.save wrote.") from error


def thread_label(thread: threading.Thread) -> str:
    """Return the name of a thread's lane."""
    return "main thread" if thread is threading.main_thread() else thread.name


def _short(name: str) -> str:
    """Return an operation's name for a figure: "linear" of "aten::linear"."""
    name = name.removeprefix("autograd::engine::evaluate_function: ")
    if "::" in name or name.startswith("void "):
        plain = name.removeprefix("void ").replace("(anonymous namespace)::", "")
        name = re.split(r"[<(]", plain)[0].rsplit("::", 1)[-1] or name
    return name if len(name) <= 36 else f"{name[:35]}…"
