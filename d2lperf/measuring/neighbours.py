"""How busy other processes keep the cores while we measure.

Every parallel region of an operation waits for its slowest thread. Where a neighbour holds a core,
that thread waits for the core, so a function with more regions loses more: the ratio of two such
functions is the neighbour's, not theirs. Functions with one thread only take longer, in proportion.
"""

from __future__ import annotations

import math
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import psutil

# The system counts processor time in steps of 10 ms on each core, so shorter windows tell nothing.
WINDOW_S = 0.05
# Our threads and theirs may exceed the cores by this much: steps of the clock, and small services.
TOLERANCE = 0.35
# Our threads wait for a core less than this share of the time if nobody else wants it.
WAITING, OTHERS = 0.05, 0.2  # and other processes that keep fewer cores busy are not the cause
REFRESH_S = 0.5  # between two searches for child processes
SHOWN = 0.1  # other processes that keep fewer cores busy are not worth a line
THREADED = 0.1  # processor time of other threads, relative to the first, that makes it several


def system_cores() -> int:
    """Return how many cores this process shares with others, whatever a container's quota."""
    if hasattr(os, "sched_getaffinity"):  # not on macOS and Windows
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class OthersTime:
    """A clock of the processor seconds that other processes have used; nan where it is not known.

    It is the system's busy time on the cores that this process may use, less its own time and that
    of its children.
    """

    def __init__(self) -> None:
        import psutil

        self._process, self._errors = psutil.Process(), (OSError, psutil.Error)
        self._times_of_cores = psutil.cpu_times
        self._children: list[psutil.Process] = []
        self._searched = -math.inf

    def __call__(self) -> float:
        """Seconds since the system was started."""
        try:
            return self._system_s() - self._own_s()
        except (*self._errors, NotImplementedError):
            return math.nan

    def _system_s(self) -> float:
        times = self._times_of_cores(percpu=True)
        if hasattr(os, "sched_getaffinity"):
            times = [times[core] for core in os.sched_getaffinity(0) if core < len(times)]
        busy_s = 0.0
        for core in times:
            fields = core._asdict()
            # A guest's time is part of "user" already; waiting for a disk is idle time.
            busy_s += sum(
                seconds
                for name, seconds in fields.items()
                if name not in ("idle", "iowait", "guest", "guest_nice")
            )
        return busy_s

    def _own_s(self) -> float:
        ended = self._process.cpu_times()
        own_s = time.process_time()
        own_s += getattr(ended, "children_user", 0.0) + getattr(ended, "children_system", 0.0)
        now = time.monotonic()
        if now - self._searched > REFRESH_S:
            self._children, self._searched = self._process.children(recursive=True), now
        for child in self._children:
            try:
                times = child.cpu_times()
            except self._errors:  # it has ended
                continue
            own_s += times.user + times.system
        return own_s


def waiting_s() -> float:
    """Return the seconds that threads of this process have waited for a core; nan: not known.

    Linux counts them to the nanosecond for each thread: the second number in its `schedstat`.
    """
    try:
        paths = list(Path("/proc/self/task").glob("*/schedstat"))
        return sum(int(path.read_text().split()[1]) for path in paths) / 1e9 if paths else math.nan
    except (OSError, IndexError, ValueError):
        return math.nan


class TimeUsed(NamedTuple):
    """Time that functions have used so far: here, or all together in processes of their own."""

    cpu_s: float = 0.0  # processor time of all threads
    thread_s: float = 0.0  # processor time of the thread that calls the functions
    waiting_s: float = 0.0  # for which threads waited for a core; nan: not known
    work_s: float = 0.0  # for which there was work

    @classmethod
    def here(cls) -> TimeUsed:
        """Return what this process has used, seen from the thread that calls the functions."""
        return cls(time.process_time(), time.thread_time(), waiting_s(), time.perf_counter())

    def plus(self, began: TimeUsed, ended: TimeUsed) -> TimeUsed:
        """Add what was used between two moments."""
        return TimeUsed(*(so_far + end - start for so_far, start, end in zip(self, began, ended)))


class Reading(NamedTuple):
    """What the clocks show."""

    others_s: float  # processor time of other processes; nan: not known
    waiting_s: float  # for which our threads have waited; nan: not known
    work_s: float  # for which they had work
    now_s: float


class Share(NamedTuple):
    """Cores that other processes kept busy for some seconds, and that our threads waited for."""

    cores: float
    waiting: float  # while they had work; nan: not known
    seconds: float


class Neighbours:
    """Looks in windows at what other processes do, and at how many threads of ours are at work."""

    def __init__(self, instruments: Any) -> None:
        self._clock, self._others = instruments.clock, instruments.others_clock
        self._waiting = instruments.waiting_clock
        self._work = instruments.work_clock or instruments.clock
        self._cpu, self._thread = instruments.cpu_clock, instruments.thread_clock
        self.cores = instruments.system_cores()
        self._began = self._window = self._read()
        self._own = self._cpu(), self._thread()
        self._busy: list[Share] = []

    def _read(self) -> Reading:
        return Reading(self._others(), self._waiting(), self._work(), self._clock())

    def _since(self, then: Reading) -> Share:
        now = self._read()
        seconds, work_s = now.now_s - then.now_s, now.work_s - then.work_s
        if seconds <= 0:
            return Share(0.0, math.nan, 0.0)
        cores = max(0.0, (now.others_s - then.others_s) / seconds)
        waited_s = now.waiting_s - then.waiting_s
        return Share(cores, waited_s / work_s if work_s > 0 else 0.0, seconds)

    @property
    def threads(self) -> int:
        """How many of our threads are at work, by the processor time of the first and of all."""
        cpu_s, first_s = self._cpu() - self._own[0], self._thread() - self._own[1]
        if first_s <= 0:
            return 1
        return max(1, min(self.cores, math.ceil((cpu_s - first_s) / first_s - THREADED) + 1))

    @property
    def window_ended(self) -> bool:
        """Whether the present window is long enough to be looked at."""
        return self._clock() - self._window.now_s >= WINDOW_S

    def end_window(self) -> bool:
        """Begin a new window; return whether others took cores in the last one that we needed."""
        found = self._since(self._window)
        self._window = self._read()
        crowded = self._crowded(found)
        if crowded:
            self._busy.append(found)
        return crowded

    def _crowded(self, found: Share) -> bool:
        """Whether our threads and theirs exceed the cores. One thread is only slowed down."""
        if self.threads == 1:
            return False
        if not math.isnan(found.waiting):
            # Precise, but it does not tell for whom they waited: our own threads may be too many.
            others = max(found.cores, self._since(self._began).cores)
            return found.waiting > WAITING and others > OTHERS
        return self.threads + found.cores > self.cores + max(TOLERANCE, self.cores / 32)

    @property
    def known(self) -> bool:
        """Whether this system tells."""
        return not math.isnan(self._began.others_s)

    @property
    def cores_busy(self) -> float | None:
        """Cores that other processes kept busy since the start, on average; None: not known."""
        found = self._since(self._began)
        if not self.known or found.seconds < WINDOW_S:
            return None
        return min(found.cores, self.cores)

    def refusal(self) -> str:
        """Why functions with several threads cannot be compared, or "" if no window was crowded."""
        if not self._busy:
            return ""
        seconds = sum(share.seconds for share in self._busy)
        cores = sum(share.cores * share.seconds for share in self._busy) / seconds
        return (
            f"other processes keep {min(cores, self.cores):.1f} of {self.cores} cores busy; "
            f"functions with {self.threads} threads cannot be compared now (threads=1, or wait)"
        )

    def notes(self) -> list[str]:
        """Return the lines of a result about its neighbours: none where they do not matter."""
        if not self.known:
            return _once("how busy other processes are cannot be seen on this system")
        others = self.cores_busy
        if others is None or others < SHOWN or self.threads + others < self.cores + SHOWN:
            return []
        return [f"other processes kept {others:.1f} of {self.cores} cores busy meanwhile"]


_said: set[str] = set()


def _once(note: str) -> list[str]:
    """The note, in the first result of this process only."""
    if note in _said:
        return []
    _said.add(note)
    return [note]
