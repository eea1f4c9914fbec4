"""What ran when: spans of work in lanes.

A lane is a thread, a stream of a device, or a worker. It does one thing at a time, but a span may
lie inside another (``aten::linear`` calls ``aten::addmm``). A lane is *busy* where at least one of
its spans runs, so nested spans are not counted twice. Times are kept as integers, in nanoseconds.
"""

from __future__ import annotations

import json
import math
import os
import re
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from d2lperf._version import __version__
from d2lperf.measuring.formats import format_seconds
from d2lperf.timeline.intervals import intersection, length

HOST = "CPU"
_FAR_S = 4e9  # more than a century; the sum of two, in nanoseconds, fits into 64 bits


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


class _Row(NamedTuple):
    name: str
    start: int  # nanoseconds
    end: int
    lane: str
    depth: int
    track: int  # 0, or more for a span that crosses others of its lane


class _State(NamedTuple):
    """The spans at one moment, in order."""

    rows: list[_Row]  # by start, an outer span before those inside it
    device_of: dict[str, str]  # of the lanes with spans, the host's first
    times: dict[str, list[tuple[int, int]]]  # start and end of each lane's spans
    limits: tuple[int, int] | None

    def window(self) -> tuple[int, int]:
        if self.limits is None:
            raise TimelineError(
                "this timeline has no spans. Fill it: "
                "`with timeline.span('load', lane='worker 0'): ...`."
            )
        return self.limits

    def of(self, lane: str) -> list[tuple[int, int]]:
        self.window()
        if lane not in self.times:
            have = ", ".join(map(repr, self.device_of))
            raise TimelineError(f"there is no lane {lane!r} in this timeline. It has: {have}.")
        return self.times[lane]

    def fraction(self, lane: str) -> float:
        busy, (start, end) = length(self.of(lane)), self.window()
        return busy / (end - start) if end > start else math.nan


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
        # From the start to the end of a recording. Kernels of one stream may cross, so a
        # timeline with a window may hold such spans; one made by hand may not.
        self._window: tuple[int, int] | None = None
        self._state = _State([], {}, {}, None)  # as last asked for

    @classmethod
    def _of(cls, spans: list, device_of: dict, origin: int, window: Any) -> Timeline:
        timeline = cls()
        timeline._spans, timeline._device_of, timeline._origin = spans, device_of, origin
        timeline._window = window and tuple(window)
        return timeline

    @classmethod
    def from_spans(cls, spans: Iterable[Span | Sequence[Any]]) -> Timeline:
        """Return a timeline of spans that were measured or computed elsewhere.

        Args:
            spans: `Span`s, or tuples (name, start_s, duration_s, lane) with the device as an
                optional fifth. Times in seconds, rounded to a nanosecond, from any origin; use
                `time.perf_counter()` where several processes must agree.

        Raises:
            TimelineError: a time that is not a finite number of seconds, a negative duration, a
                lane on two devices, or two spans of a lane that cross.
        """
        timeline = cls._of([], {}, 0, None)
        for given in spans:
            try:
                name, start, duration, lane, device, _ = Span(*given)
                start, duration = float(start), float(duration)
            except (TypeError, ValueError):
                raise TimelineError(
                    "a span is (name, start_s, duration_s, lane) or with a device as a fifth, "
                    f"times in seconds, but got {given!r}."
                ) from None
            if not (abs(start) < _FAR_S and 0 <= duration < _FAR_S):
                raise TimelineError(
                    f"span {name!r} in lane {lane!r} starts at {start:g} s and takes {duration:g} "
                    "s. Times are finite and in seconds, and a duration is 0 or more: pass "
                    "(name, start, end - start, lane)."
                )
            timeline._enter(str(lane), str(device))
            # Both ends are rounded, so a span that starts where another ends still does.
            ends = round(start * 1e9), round((start + duration) * 1e9)
            timeline._spans.append((str(name), *ends, str(lane)))
        timeline._now()
        return timeline

    @classmethod
    def merge(cls, timelines: Mapping[str, Timeline]) -> Timeline:
        """Return the timelines of several workers of one machine as one.

        They are aligned by `time.perf_counter`, which all processes of a machine share; spans
        given to `from_spans` are assumed to use it. A worker process returns its timeline.

        Args:
            timelines: worker's name -> timeline. The name is put before the lanes' names and
                becomes their device: "main thread" of "rank 0" is lane "rank 0 main thread" on
                device "rank 0". Timelines without spans are left out.

        >>> a = Timeline.from_spans([("send", 0, 2, "link")])
        >>> b = Timeline.from_spans([("receive", 1, 2, "link")])
        >>> both = Timeline.merge({"rank 0": a, "rank 1": b})
        >>> both.lanes, both.overlap("rank 0 link", "rank 1 link")
        (['rank 0 link', 'rank 1 link'], 0.5)
        """
        parts = {str(worker): part for worker, part in timelines.items() if len(part)}
        origin = min((part._origin for part in parts.values()), default=0)
        spans, device_of, limits = [], {}, []
        for worker, part in parts.items():
            shift, state = part._origin - origin, part._now()
            limits += [limit + shift for limit in state.window()]
            for lane, device in state.device_of.items():
                device_of[f"{worker} {lane}"] = worker if device == HOST else f"{worker} {device}"
            for row in reversed(state.rows):
                spans.append((row.name, row.start + shift, row.end + shift, f"{worker} {row.lane}"))
        recorded = any(part._window for part in parts.values())
        return cls._of(spans, device_of, origin, (min(limits), max(limits)) if recorded else None)

    @contextmanager
    def span(self, name: str, *, lane: str | None = None, device: str = HOST) -> Iterator[None]:
        """Add the time that a block takes, from any thread, also if the block raises.

        Args:
            name: what the block does.
            lane: where it is shown; by default the name of the thread. Blocks that run at the
                same time need different lanes.
            device: what the lane belongs to.

        Raises:
            TimelineError: the lane belongs to another device.

        >>> timeline = Timeline()
        >>> with timeline.span("load", lane="worker 0"):
        ...     with timeline.span("decode", lane="worker 0"):
        ...         pass
        >>> [(span.name, span.depth) for span in timeline.spans]
        [('load', 0), ('decode', 1)]
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
        known = self._device_of.setdefault(lane, device)
        if known != device:
            raise TimelineError(
                f"lane {lane!r} belongs to {known!r}, but a span puts it on {device!r}. "
                "Give each device its own lanes."
            )

    def _now(self) -> _State:
        """The present state. A question asks once, as other threads may add spans meanwhile."""
        spans, state = list(self._spans), self._state
        if len(state.rows) != len(spans):
            self._state = state = _arrange(spans, dict(self._device_of), self._window)
        return state

    def __len__(self) -> int:
        return len(self._spans)

    @property
    def spans(self) -> list[Span]:
        """All spans by their start; an outer span comes before those inside it."""
        rows, device_of, *_ = self._now()
        return [
            Span(name, start / 1e9, (end - start) / 1e9, lane, device_of[lane], depth)
            for name, start, end, lane, depth, _ in rows
        ]

    @property
    def lanes(self) -> list[str]:
        """The lanes that have spans, grouped by device, those of the host first."""
        return list(self._now().device_of)

    @property
    def devices(self) -> list[str]:
        """The devices, the host first, others in the order in which they appeared."""
        return list(dict.fromkeys(self._now().device_of.values()))

    @property
    def window_s(self) -> tuple[float, float]:
        """First start and last end, in seconds; a recording starts with the function's call."""
        start, end = self._now().window()
        return start / 1e9, end / 1e9

    @property
    def duration_s(self) -> float:
        """Length of the timeline, in seconds."""
        start, end = self._now().window()
        return (end - start) / 1e9

    def busy_s(self, lane: str) -> float:
        """Return for how many seconds a lane is busy."""
        return length(self._now().of(lane)) / 1e9

    def busy_fraction(self, lane: str) -> float:
        """Return the busy fraction of the timeline's duration, 0 to 1; nan if that is 0."""
        return self._now().fraction(lane)

    def overlap(self, lane_a: str, lane_b: str) -> float:
        """Return how much of the work of two lanes runs at the same time, 0 to 1.

        It is the time in which both are busy, divided by the busy time of the less busy one: 1 if
        its work is hidden completely behind the other's, 0 if they take turns, nan if it is idle.
        """
        state = self._now()
        a, b = state.of(lane_a), state.of(lane_b)
        less = min(length(a), length(b))
        return length(intersection(a, b)) / less if less else math.nan

    def __repr__(self) -> str:
        lanes = self.lanes
        if not lanes:
            return "timeline without spans"
        wide = max(map(len, lanes))
        busy = [f"  {lane:<{wide}}  busy {format_seconds(self.busy_s(lane))}" for lane in lanes]
        head = f"timeline of {format_seconds(self.duration_s)}: {len(self)} spans"
        return "\n".join([head, *busy])

    def to_frame(self):
        """Return a `pandas.DataFrame` with a row for each span, by start.

        Columns: `name`, `start_s`, `duration_s`, `lane`, `device` and `depth`. The time of a
        nested span is also part of the outer span's: for the time of a lane see `busy_frame`.
        """
        import pandas as pd

        return pd.DataFrame(self.spans, columns=list(Span._fields))

    def busy_frame(self):
        """Return a `pandas.DataFrame` with a row for each lane.

        Columns: `lane`, `device`, `spans` (how many), `busy_s`, and `busy_fraction` of the
        timeline's duration (nan if that is 0). Nested spans are not counted twice.
        """
        import pandas as pd

        state = self._now()
        rows = [
            (lane, device, len(times), length(times) / 1e9, state.fraction(lane))
            for lane, device in state.device_of.items()
            for times in [state.of(lane)]
        ]
        return pd.DataFrame(rows, columns=["lane", "device", "spans", "busy_s", "busy_fraction"])

    def plot(
        self,
        ax: Any = None,
        *,
        depth: int | None = 1,
        lanes: Sequence[str] | None = None,
        colours: Mapping[str, str] | None = None,
        length_s: float | None = None,
    ) -> Any:
        """Draw what ran when: a row for each lane, a bar for each span, and how busy a lane was.

        Args:
            ax: matplotlib's axes to draw into; a new figure by default.
            depth: how many levels of nested spans to draw, 1 for the outer ones only, None for all.
            lanes: which lanes to draw, in this order; all by default.
            colours: name -> colour, where the colours of the collection do not fit.
            length_s: seconds that the axis shows, to give several figures one scale; by default
                the timeline's duration.

        Returns:
            The axes, with the time since the start of `window_s` along x.

        Raises:
            TimelineError: no spans, no such lane, or no lanes.
            TypeError: `ax` is not matplotlib's axes.
        """
        from d2lperf import plotting

        state = self._now()
        (zero, last), known = state.window(), list(state.device_of)
        lanes = known if lanes is None else list(dict.fromkeys(lanes))
        if not lanes:
            raise TimelineError(f"lanes is empty. Choose from {', '.join(map(repr, known))}.")
        busy = {lane: state.fraction(lane) for lane in lanes}
        short = {name: _short(name) for name in {row.name for row in state.rows}}
        return plotting.gantt(
            [
                (short[name], (a - zero) / 1e9, (b - a) / 1e9, lane, state.device_of[lane], level)
                for name, a, b, lane, level, _ in state.rows
                if depth is None or level < depth
            ],
            lanes=lanes,
            notes={lane: f"{100 * part:.0f} %" for lane, part in busy.items() if last > zero},
            notes_title="busy",
            length_s=(last - zero) / 1e9 if length_s is None else length_s,
            colours={_short(name): colour for name, colour in (colours or {}).items()},
            ax=ax,
        )

    def save(self, path: str | os.PathLike) -> None:
        """Write a JSON file that `load` reads back, and that Perfetto (ui.perfetto.dev) opens.

        Devices are its processes, lanes its threads. Spans of a lane that cross, as kernels of one
        stream may, are put on two threads: Perfetto drops them otherwise.
        Source: Trace Event Format (Chromium project), complete and metadata events.
        """
        rows, device_of, _, limits = self._now()
        zero = limits[0] if limits else 0
        pids = {device: i for i, device in enumerate(dict.fromkeys(device_of.values()), 1)}
        tids = {key: i for i, key in enumerate(dict.fromkeys((r.lane, r.track) for r in rows), 1)}
        events: list[dict] = []
        for device, pid in pids.items():
            name = {"name": device}
            events.append({"ph": "M", "name": "process_name", "pid": pid, "tid": 0, "args": name})
        for (lane, track), tid in tids.items():
            where = {"pid": pids[device_of[lane]], "tid": tid}
            args = {"name": f"{lane} ({track + 1})" if track else lane, "lane": lane}
            events.append({"ph": "M", "name": "thread_name", **where, "args": args})
        for name, start, end, lane, _, track in rows:
            where = {"pid": pids[device_of[lane]], "tid": tids[lane, track]}
            when = {"ts": _microseconds(start - zero), "dur": _microseconds(end - start)}
            events.append({"ph": "X", "name": name, **when, **where})
        ours = {"start_ns": zero, "origin_ns": self._origin, "window_ns": self._window}
        other = {"producer": f"d2lperf {__version__}", **ours, "lanes": list(device_of.items())}
        trace = {"traceEvents": events, "displayTimeUnit": "ms", "otherData": other}
        # Perfetto shows escapes as they are, so only half of a surrogate pair becomes one.
        text = json.dumps(trace, separators=(",", ":"), ensure_ascii=False)
        Path(path).write_bytes(text.encode(errors="backslashreplace"))

    @classmethod
    def load(cls, path: str | os.PathLike) -> Timeline:
        """Return the timeline that `save` wrote, exactly as it was.

        Raises:
            TimelineError: the file is not one that `save` wrote.
        """
        data, spans = Path(path).read_bytes(), []
        try:
            trace = json.loads(data)
            events, ours = trace["traceEvents"], trace["otherData"]
            lane_of = {e["tid"]: e["args"].get("lane") for e in events if e["ph"] == "M"}
            for e in reversed([e for e in events if e["ph"] == "X"]):
                start = ours["start_ns"] + round(e["ts"] * 1e3)
                spans.append((e["name"], start, start + round(e["dur"] * 1e3), lane_of[e["tid"]]))
            return cls._of(spans, dict(ours["lanes"]), ours["origin_ns"], ours["window_ns"])
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            wrong = f"{Path(path).name} is not a file that Timeline.save wrote ({error!r})."
            raise TimelineError(wrong) from error


def _arrange(spans: list, device_of: dict[str, str], window: tuple[int, int] | None) -> _State:
    """Sort spans and lanes, and find out which span lies in which."""
    rows: list[_Row] = []
    times: dict[str, list[tuple[int, int]]] = {}
    running: dict[str, list[list[_Row]]] = {}  # lane -> track -> spans that have not ended
    # `Timeline.span` adds inner spans first, so of two equal spans the later one is the outer.
    for name, start, end, lane in sorted(reversed(spans), key=lambda s: (s[1], -s[2])):
        times.setdefault(lane, []).append((start, end))
        tracks = running.setdefault(lane, [])
        for stack in tracks:
            while stack and stack[-1].end <= start:
                stack.pop()
            if not stack or end <= stack[-1].end:
                break
        else:
            if tracks and window is None:
                other = tracks[0][-1]
                raise TimelineError(
                    f"lane {lane!r} has two spans that overlap, and neither lies inside the other: "
                    f"{other.name!r} ({other.start / 1e9:g} s to {other.end / 1e9:g} s) and "
                    f"{name!r} ({start / 1e9:g} s to {end / 1e9:g} s). Give them two lanes."
                )
            stack = []
            tracks.append(stack)
        rows.append(_Row(name, start, end, lane, len(stack), tracks.index(stack)))
        stack.append(rows[-1])
    if not rows:
        return _State([], {}, {}, None)
    limits = [rows[0].start, max(row.end for row in rows), *(window or ())]
    used = [lane for lane in device_of if lane in times]
    devices = sorted(dict.fromkeys(device_of[lane] for lane in used), key=lambda d: d != HOST)
    used.sort(key=lambda lane: devices.index(device_of[lane]))
    return _State(rows, {n: device_of[n] for n in used}, times, (min(limits), max(limits)))


def _microseconds(ns: int) -> float:
    """A time of a trace. Perfetto multiplies it by 1000 and truncates, and must get `ns` again."""
    return math.nextafter(ns / 1e3, math.inf) if ns % 1000 else ns / 1e3


def thread_label(thread: threading.Thread) -> str:
    """Return the name of a thread's lane."""
    return "main thread" if thread is threading.main_thread() else thread.name


def _short(name: str) -> str:
    """Return an operation's name for a figure.

    >>> _short("aten::linear"), _short("void at::native::elementwise<4, at::add<float> >(int)")
    ('linear', 'elementwise')
    """
    name = name.removeprefix("autograd::engine::evaluate_function: ")
    if "::" in name or name.startswith("void "):
        plain = name.removeprefix("void ").replace("(anonymous namespace)::", "")
        name = re.split(r"[<(]", plain)[0].rsplit("::", 1)[-1] or name
    return name if len(name) <= 36 else f"{name[:35]}…"
