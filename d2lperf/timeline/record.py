"""torch's profiler -> Timeline."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple

import torch
from torch._C._profiler import _ExperimentalConfig
from torch.autograd import DeviceType

from d2lperf.device import synchronize
from d2lperf.timeline.timeline import HOST, Timeline, TimelineError, thread_label

CALL = "d2lperf.record"  # name of the span around the function's call
_NOT_WORK = ("overhead", "cuda_sync", "gpu_user_annotation")
_BUSY = "record cannot start: a profiler is running, and torch can only have one. Stop it first."
_one_at_a_time = threading.Lock()


class Event(NamedTuple):
    """One thing that the profiler saw."""

    name: str
    device: tuple[str, int] | None  # such as ("cuda", 0); None for the host
    stream: int  # number of the stream, or of the host's thread
    start: int  # nanoseconds
    end: int


def record(fn: Callable[[], Any], *, warmup: int = 1) -> Timeline:
    """Run a function under `torch.profiler` and return what ran when.

    The host's lanes are threads ("main thread", "backward thread", others by their Python name)
    with torch's operations. A device's lanes are its streams ("cuda:0 stream 7") with kernels and
    copies, where torch's profiler sees them. Name parts of your own code with
    ``with torch.profiler.record_function("load"): ...``. Other processes are not seen, and with
    torch 2.6 other Python threads are not either; `Timeline.span` works everywhere.

    Recording slows small operations down: read the lengths of bars and gaps relative to each
    other, and take times with `d2lperf.measure`.

    Args:
        fn: function without arguments; its result is dropped. `record` waits for all the work
            that it starts on devices.
        warmup: how often to run it, under the profiler, before the run that counts.

    Returns:
        A `Timeline`, whose time 0 is the call of `fn`.

    Raises:
        TimelineError: `fn` used nothing of torch; another profiler is running, or `fn` used one.
        BaseException: what `fn` raises comes through.

    >>> timeline = record(lambda: torch.relu(torch.ones(3)))
    >>> "aten::relu" in {span.name for span in timeline.spans}
    True
    """
    if not callable(fn):
        raise TypeError(
            f"record needs a function without arguments, but got {type(fn).__name__}. "
            "Write record(lambda: f(x))."
        )
    if not _one_at_a_time.acquire(blocking=False):
        raise TimelineError(_BUSY)
    try:
        for _ in range(warmup):
            _profile(fn, {})
        names: dict[int, str] = {}
        listed, before, after, wall = _profile(fn, names)
    finally:
        _one_at_a_time.release()
    events = read_events(listed)
    # The profiler counts from 1970. We read our own clock right before and after the call began.
    begin = next(event.start for event in events if event.name == CALL)
    called_ns = min(max(begin - wall + before, before), after)
    caller = thread_label(threading.current_thread())
    timeline = timeline_from_events(events, names, caller=caller, called_ns=called_ns)
    if not len(timeline):
        raise TimelineError(
            "record ran the function, but the profiler saw no operation of torch in it. For other "
            "code make a Timeline() and write `with timeline.span('load'): ...` around its parts."
        )
    return timeline


def _profile(fn: Callable[[], Any], names: dict[int, str]) -> tuple[list[Any], int, int, int]:
    """Run `fn` once; return the events, `perf_counter` before and after the start, and the time."""
    if _profiling():
        raise TimelineError(_BUSY)
    # The profiler's library logs to stderr unless told otherwise before its first use.
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")
    config = None
    with suppress(TypeError):  # torch 2.6 cannot record other threads
        config = _ExperimentalConfig(profile_all_threads=True)
    # By default it records every kind of device that torch can record and this machine has.
    profiler = torch.profiler.profile(experimental_config=config)
    profiler.start()
    try:
        with _thread_names(names):
            before, wall = time.perf_counter_ns(), time.time_ns()
            with torch.profiler.record_function(CALL):
                after = time.perf_counter_ns()
                fn()
            synchronize()
    finally:
        alive = _profiling()
        if alive:  # stopping it twice would crash
            profiler.stop()
    if not alive:
        raise TimelineError(
            "the function that record ran used a profiler itself, and torch can only have one. "
            "Take it out of the function."
        )
    # The public list, profiler.events(), takes much longer and drops some nested spans.
    return profiler.profiler.kineto_results.events(), before, after, wall


def _profiling() -> bool:
    """Whether a profiler of torch is running, in this thread or for all."""
    running = torch.autograd.profiler._is_profiler_enabled
    return running or torch.autograd._profiler_enabled()


@contextmanager
def _thread_names(names: dict[int, str]) -> Iterator[None]:
    """Collect the lane names of the threads that run meanwhile, by their native id."""

    def note(*_: Any) -> None:
        # A thread may end before we can ask, so it notes its name as it starts.
        sys.setprofile(None)
        names[threading.get_native_id()] = thread_label(threading.current_thread())

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
                names[thread.native_id] = thread_label(thread)


def read_events(listed: Iterable[Any]) -> list[Event]:
    """Return what really ran, from events as the profiler lists them (torch's `_KinetoEvent`).

    Left out are the profiler's own work (on device -1) and what crosses the work of a stream:
    copies of the host's annotations, and waiting.
    """
    found = []
    for event in listed:
        kind, index = event.device_type(), event.device_index()
        host = kind == DeviceType.CPU
        if getattr(event, "activity_type", str)() in _NOT_WORK:  # torch 2.6 does not tell
            continue
        if index < 0 if host else event.is_user_annotation():
            continue
        device, stream = None, event.device_resource_id()
        if host:
            # Without the profiler's library only torch's own number of the thread is known.
            stream = stream or event.start_thread_id()
        else:
            other = kind == DeviceType.PrivateUse1  # torch.device knows the name it was given
            device = torch.device("privateuseone" if other else kind.name.lower()).type, index
        start, duration = event.start_ns(), max(0, event.duration_ns())
        found.append(Event(event.name(), device, stream, start, start + duration))
    return found


def timeline_from_events(
    events: Iterable[Event],
    thread_names: Mapping[int, str],
    *,
    caller: str = "main thread",
    called_ns: int = 0,
) -> Timeline:
    """Return the timeline of a function's call.

    Args:
        events: the first one named `CALL` spans the call.
        thread_names: number of a thread -> name of its lane.
        caller: lane of the thread that called.
        called_ns: `time.perf_counter_ns()` at the call.
    """
    events = list(events)
    call = next(event for event in events if event.name == CALL)

    def belongs(event: Event) -> bool:
        # After the call, its thread only waits for the devices, on behalf of record.
        ours = event.device is None and event.stream == call.stream
        return event.name != CALL and not (ours and event.start >= call.end)

    kept = sorted(filter(belongs, events), key=lambda event: (event.start, -event.end))
    backward = {e.stream for e in kept if not e.device and e.name.startswith("autograd::engine")}
    names = {**dict.fromkeys(backward, "backward thread"), **thread_names, call.stream: caller}
    lanes: dict[Any, str] = {}  # (device, stream) -> lane
    device_of: dict[str, str] = {}
    used = Counter()
    threads = dict.fromkeys(event.stream for event in kept if event.device is None)
    for thread in sorted(threads, key=lambda thread: thread != call.stream):
        name = names.get(thread, "thread")
        used[name] += 1
        lane = lanes[None, thread] = f"{name} ({used[name]})" if used[name] > 1 else name
        device_of[lane] = HOST
    for device, stream in sorted({(e.device, e.stream) for e in kept if e.device}):
        name = f"{device[0]}:{device[1]}"
        lane = lanes[device, stream] = f"{name} stream {stream}"
        device_of[lane] = name
    # Of two equal spans, a timeline takes the later one for the outer.
    spans = [
        (e.name, e.start - call.start, e.end - call.start, lanes[e.device, e.stream])
        for e in reversed(kept)
    ]
    end = max([call.end, *(event.end for event in kept)]) - call.start
    return Timeline._of(spans, device_of, called_ns, (0, end))
