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
from typing import TYPE_CHECKING, Any, NamedTuple

from d2lperf.files import write_whole
from d2lperf.formats import format_seconds
from d2lperf.timeline.intervals import length
from d2lperf.timeline.lanes import HOST, NOTHING, Arranged, Entry, Interval, arrange
from d2lperf.timeline.summary import Summary

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes


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

    def __init__(self) -> None:
        self._spans: list[Entry] = []
        self._device_of: dict[str, str] = {}
        self._origin = time.perf_counter_ns()  # time 0 of the spans
        self._window: Interval | None = None  # of a recording, in which spans of a lane may cross
        self._state = NOTHING  # what `_now` found last

    @classmethod
    def _of(
        cls, spans: list[Entry], device_of: dict[str, str], origin: int, window: Interval | None
    ) -> Timeline:
        timeline = cls()
        timeline._spans, timeline._device_of = spans, device_of
        timeline._origin, timeline._window = origin, window
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
            timeline._spans.append(Entry(str(name), *ends, str(lane)))
        found = timeline._now()
        for row in found.rows:
            if row.lane in found.added:
                what = f"{row.name!r} ({row.start / 1e9:g} s to {row.end / 1e9:g} s) starts inside"
                lane = f"another span of lane {found.added[row.lane]!r} and ends after it"
                raise TimelineError(f"{what} {lane}: use two lanes.")
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
            shift, found = part._origin - origin, part._now()
            limits += [limit + shift for limit in found.window]
            for lane in found.times:
                device = found.device_of[lane]
                device_of[f"{worker} {lane}"] = worker if device == HOST else f"{worker} {device}"
            for row in reversed(found.rows):
                times = row.start + shift, row.end + shift
                spans.append(Entry(row.name, *times, f"{worker} {row.lane}"))
        window = Interval(min(limits), max(limits)) if limits else None
        return cls._of(spans, device_of, origin, window)

    @contextmanager
    def span(self, name: str, *, lane: str | None = None, device: str = HOST) -> Iterator[None]:
        """Add the time that a block takes, from any thread, also if the block raises.

        Args:
            name: what the block does.
            lane: where it is shown, by default the name of the thread. A lane does one thing at a
                time: where blocks of a lane "x" cross, or blocks of several threads run in it at
                the same time, the later ones get a lane "x (2)" of their own.
            device: what the lane belongs to; TimelineError if it belongs to another one.
        """
        lane = thread_label(threading.current_thread()) if lane is None else str(lane)
        self._enter(lane, str(device))
        start = time.perf_counter_ns()
        try:
            yield
        finally:
            end = time.perf_counter_ns()
            times = start - self._origin, end - self._origin
            self._spans.append(Entry(str(name), *times, lane, threading.get_ident()))

    def _enter(self, lane: str, device: str) -> None:
        known = self._device_of.setdefault(lane, device)
        if known != device:
            raise TimelineError(f"lane {lane!r} belongs to {known!r}, so not to {device!r}.")

    def _now(self) -> Arranged:
        """All spans that have ended, in their places."""
        spans, state = list(self._spans), self._state  # other threads may add some meanwhile
        if state.seen != len(spans):
            state = self._state = arrange(spans, dict(self._device_of), self._window)
        return state

    def _known(self) -> Arranged:
        """What `_now` finds, if there is something."""
        state = self._now()
        if not state.rows:
            raise TimelineError("the timeline has no spans: `with timeline.span('x'):` adds one.")
        return state

    def _times(self, lane: str) -> list[Interval]:
        times = self._known().times
        if lane not in times:
            have = ", ".join(map(repr, times))
            raise TimelineError(f"there is no lane {lane!r} in this timeline. It has: {have}.")
        return times[lane]

    def __len__(self) -> int:
        return len(self._spans)

    @property
    def spans(self) -> list[Span]:
        """All spans by their start; an outer span comes before those inside it."""
        found = self._now()
        return [
            Span(name, start / 1e9, (end - start) / 1e9, lane, found.device_of[lane], depth)
            for name, start, end, lane, depth in found.rows
        ]

    @property
    def lanes(self) -> list[str]:
        """The lanes that have spans, grouped by device, those of the host first."""
        return list(self._now().times)

    @property
    def devices(self) -> list[str]:
        """The devices, the host first, others in the order in which they appeared."""
        found = self._now()
        return list(dict.fromkeys(found.device_of[lane] for lane in found.times))

    @property
    def window_s(self) -> tuple[float, float]:
        """First start and last end, in seconds; a recording starts with the function's call."""
        start, end = self._known().window
        return start / 1e9, end / 1e9

    @property
    def duration_s(self) -> float:
        """Length of the timeline, in seconds."""
        start, end = self._known().window
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

    def summary(self) -> Summary:
        """Return how long each thing took, by name and lane: calls, time, share of the duration.

        The result shows itself as a table, the longest first; `to_frame()` gives a
        `pandas.DataFrame`. Spans of a name that lie inside each other are not counted twice.

        >>> spans = [("load", 0, 3, "disk"), ("load", 3, 1, "disk"), ("train", 3, 5, "cpu")]
        >>> Timeline.from_spans(spans).summary()
        name    lane   calls     time    share
        train   cpu        1   5.00 s   62.5 %
        load    disk       2   4.00 s   50.0 %
        share: of the timeline's 8.00 s
        """
        return Summary(self._known())

    def to_frame(self) -> pd.DataFrame:
        """Return a `pandas.DataFrame` with a row for each span; its columns are those of `Span`."""
        import pandas as pd

        return pd.DataFrame(self.spans, columns=list(Span._fields))

    def plot(
        self,
        ax: Axes | None = None,
        *,
        depth: int | None = 1,
        lanes: Iterable[str] | None = None,
        length_s: float | None = None,
        palette: Mapping[str, str] | None = None,
    ) -> Axes:
        """Draw a row for each lane, with a bar for each span; return the axes.

        Args:
            ax: matplotlib's axes to draw into; a new figure by default.
            depth: how many levels of nested spans to draw, 1 for the outer ones only, None for all.
            lanes: which lanes to draw, in this order; all by default. If there are none, the figure
                says so.
            length_s: seconds that the axis shows, from the start of `window_s`, to give several
                figures one scale; by default the timeline's duration.
            palette: colours of some names, as `plotting.gantt` takes them.

        Raises:
            TimelineError: no spans, or no such lane. TypeError: `ax` is not matplotlib's axes.
        """
        from d2lperf import plotting

        found = self._known()
        zero, last = found.window
        lanes = list(found.times if lanes is None else dict.fromkeys(lanes))
        for lane in lanes:
            self._times(lane)  # raises for one that is not there
        short = {name: _short(name) for name in {row.name for row in found.rows}}
        return plotting.gantt(
            [
                plotting.DrawnSpan(
                    short[name], (start - zero) / 1e9, (end - start) / 1e9, lane, level
                )
                for name, start, end, lane, level in found.rows
                if depth is None or level < depth
            ],
            lanes=lanes,
            length_s=(last - zero) / 1e9 if length_s is None else length_s,
            palette=palette,
            ax=ax,
        )

    def save(self, path: str | Path) -> None:
        """Write a JSON file that `load` reads back, and that Perfetto (ui.perfetto.dev) opens.

        Devices are its processes, lanes its threads. Of spans of a lane that cross, as kernels of a
        stream may, Perfetto shows the first. Source: Trace Event Format (Chromium project).
        """
        found = self._now()
        zero = found.window.start
        events = []
        for row in found.rows:
            where = {"ph": "X", "name": row.name, "pid": found.device_of[row.lane], "tid": row.lane}
            # Perfetto multiplies microseconds by 1000 and truncates; a bit more gives back `ns`.
            times_ns = row.start - zero, row.end - row.start
            ts, dur = (math.nextafter(ns / 1e3, math.inf) for ns in times_ns)
            events.append({**where, "ts": ts, "dur": dur})
        ours = {
            "start_ns": zero,
            "origin_ns": self._origin,
            "window_ns": self._window,
            "device_of": {lane: found.device_of[lane] for lane in found.times},
        }
        # Perfetto shows escapes as they are, so only half of a surrogate pair becomes one.
        text = json.dumps({"traceEvents": events, "otherData": ours}, ensure_ascii=False)
        write_whole(path, text, errors="backslashreplace")

    @classmethod
    def load(cls, path: str | Path) -> Timeline:
        """Return the timeline that `save` wrote, exactly; TimelineError for another file."""
        try:
            trace, spans = json.loads(Path(path).read_bytes()), []
            ours = trace["otherData"]
            for event in reversed(trace["traceEvents"]):
                start, took = (round(event[key] * 1e3) for key in ("ts", "dur"))
                start += ours["start_ns"]
                spans.append(Entry(event["name"], start, start + took, event["tid"]))
            window = ours["window_ns"] and Interval(*ours["window_ns"])
            return cls._of(spans, ours["device_of"], ours["origin_ns"], window)
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
