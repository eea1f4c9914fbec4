"""torch's profiler -> Timeline."""

import os
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import torch
from torch.autograd import DeviceType

from d2lperf import _compat
from d2lperf.device import synchronize
from d2lperf.timeline.lanes import HOST, Entry, Interval
from d2lperf.timeline.timeline import Timeline, TimelineError, thread_label

CALL = "d2lperf.record"  # name of the span around the function's call
_one_at_a_time = threading.Lock()


class Profile(NamedTuple):
    """What the profiler saw of one call."""

    events: list[Any]  # torch's _KinetoEvents
    names: dict[int, str]  # of threads by native id
    called_ns: int  # time.perf_counter_ns() at the call


class Place(NamedTuple):
    """Where something ran: device, its index and the stream; the host is ("", 0, thread)."""

    kind: str
    device_index: int
    number: int


class Found(NamedTuple):
    """An event of the profiler, in nanoseconds of its clock."""

    name: str
    start: int
    end: int
    place: Place


def record(fn: Callable[[], Any], *, warmup: int = 1) -> Timeline:
    """Run a function under `torch.profiler` and return what ran when; time 0 is the call.

    The host's lanes are threads ("main thread", "backward thread", others by their Python name)
    with torch's operations. A device's lanes are its streams ("cuda:0 stream 7") with kernels and
    copies, where torch's profiler sees them. Name parts of your own code with
    ``with torch.profiler.record_function("load"): ...``. Other processes are not seen;
    `Timeline.span` works everywhere.

    Recording slows small operations down: read the lengths of bars and gaps relative to each
    other, and take times with `d2lperf.measure`.

    Args:
        fn: function without arguments; its result is dropped. `record` waits for all the work
            that it starts on devices.
        warmup: how often to run it, under the profiler, before the run that counts.

    Raises:
        TimelineError: `fn` used nothing of torch; another profiler is running, or `fn` used one.

    >>> timeline = record(lambda: torch.relu(torch.ones(3)))
    >>> "aten::relu" in {span.name for span in timeline.spans}
    True
    """
    if not callable(fn):
        raise TypeError(f"record needs a function, not a {type(fn).__name__}: record(lambda: f(x))")
    for _ in range(warmup):
        _profile(fn)
    seen, caller = _profile(fn), thread_label(threading.current_thread())
    timeline = timeline_of(seen.events, seen.names, seen.called_ns, caller)
    if not len(timeline):
        text = "the profiler saw no operation of torch in it. For other code make a Timeline() and"
        raise TimelineError(f"{text} write `with timeline.span('load'): ...` around its parts.")
    return timeline


def _profile(fn: Callable[[], Any]) -> Profile:
    """Run `fn` once under torch's profiler."""
    if _compat.profiling() or not _one_at_a_time.acquire(blocking=False):
        raise TimelineError("a profiler is running, and torch can only have one. Stop it first.")
    names: dict[int, str] = {}
    hook = threading.getprofile()

    def note(*_: Any) -> None:
        # A thread may end before we can ask, so it notes its name as it starts.
        sys.setprofile(None)
        names[threading.get_native_id()] = thread_label(threading.current_thread())

    try:
        # The profiler's library logs to stderr unless told otherwise before its first use.
        os.environ.setdefault("KINETO_LOG_LEVEL", "99")
        config = _compat.all_threads_config()
        # By default it records every kind of device that torch can record and this machine has.
        profiler: Any = torch.profiler.profile(experimental_config=config)
        profiler.start()
        threading.setprofile(hook or note)
        with torch.profiler.record_function(CALL):
            called_ns = time.perf_counter_ns()
            fn()
        synchronize()
    finally:
        threading.setprofile(hook)
        alive = _compat.profiling()
        if alive:  # stopping it twice would crash
            profiler.stop()
        _one_at_a_time.release()
    if not alive:
        raise TimelineError("the function used a profiler itself, and torch can only have one.")
    found = [thread for thread in threading.enumerate() if not thread.name.startswith("Dummy-")]
    names |= {one.native_id: thread_label(one) for one in found if one.native_id is not None}
    return Profile(_compat.raw_events(profiler), names, called_ns)


def _place(event: Any) -> Place | None:
    """Return where an event ran; None for what is no work."""
    kind, index, number = event.device_type(), event.device_index(), event.device_resource_id()
    # Copies of the host's annotations, and waiting, would cross the work of a stream. The
    # profiler's own work is on device -1.
    activity = getattr(event, "activity_type", str)()  # torch 2.7 does not tell
    if activity in ("overhead", "cuda_sync", "gpu_user_annotation"):
        return None
    if kind == DeviceType.CPU:
        # Without the profiler's library only torch's own number of the thread is known.
        return None if index < 0 else Place("", 0, number or event.start_thread_id())
    if event.is_user_annotation():
        return None
    # torch.device knows the name that another backend was given.
    backend = "privateuseone" if kind == DeviceType.PrivateUse1 else kind.name.lower()
    return Place(torch.device(backend).type, index, number)


def timeline_of(
    events: Iterable[Any], names: dict[int, str], called_ns: int = 0, caller: str = "main thread"
) -> Timeline:
    """Return the timeline of the call, the event `CALL`, from torch's `_KinetoEvent`s.

    `names` are those of threads by number, `called_ns` is `time.perf_counter_ns()` at the call.
    """
    found = []
    for event in events:
        place = _place(event)
        if place is not None:
            start, took = event.start_ns(), max(0, event.duration_ns())
            found.append(Found(event.name(), start, start + took, place))
    call = next(one for one in found if one.name == CALL)
    zero, here = call.start, call.place
    # After the call, its thread only waits for the devices, on behalf of record.
    found = [r for r in found if r is not call and (r.place != here or r.start < call.end)]
    found.sort(key=lambda one: (one.start, -one.end))
    backward = {one.place.number for one in found if one.name.startswith("autograd::engine")}
    names = {**dict.fromkeys(backward, "backward thread"), **names, here.number: caller}
    lanes, device_of = _lanes([one.place for one in found], names, here)
    # Of two equal spans, a timeline takes the later one for the outer.
    spans = [
        Entry(one.name, one.start - zero, one.end - zero, lanes[one.place])
        for one in reversed(found)
    ]
    last = max([call.end - zero, *(span.end for span in spans)])
    return Timeline._of(spans, device_of, called_ns, Interval(0, last))


def _lanes(
    places: list[Place], names: dict[int, str], here: Place
) -> tuple[dict[Place, str], dict[str, str]]:
    """Return the lane of each place, and the device of each lane.

    The caller comes first, other threads as they appeared, then devices and streams by numbers.
    """

    def turn(place: Place) -> tuple[bool, Place]:
        return place != here, place if place.kind else Place("", 0, 0)

    lanes: dict[Place, str] = {}
    device_of: dict[str, str] = {}
    used: Counter[str] = Counter()
    for place in sorted(dict.fromkeys(places), key=turn):
        device, lane = HOST, names.get(place.number, "thread")
        if place.kind:
            device = f"{place.kind}:{place.device_index}"
            lane = f"{device} stream {place.number}"
        used[lane] += 1
        lanes[place] = f"{lane} ({used[lane]})" if used[lane] > 1 else lane
        device_of[lanes[place]] = device
    return lanes, device_of
