"""The instruments of measuring: clocks, random generator, processor time. Tests bring their own."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Literal

from d2lperf.machine import usable_cores
from d2lperf.measuring.neighbours import OthersTime, system_cores, waiting_s


@dataclass(frozen=True)
class Instruments:
    """What measuring depends on beside the functions."""

    clock: Callable[[], float] = time.perf_counter  # seconds
    cpu_clock: Callable[[], float] = time.process_time  # of this process, all threads
    thread_clock: Callable[[], float] = time.thread_time  # of the thread that measures
    # Processor seconds that other processes have used so far; nan where it is not known.
    others_clock: Callable[[], float] = field(default_factory=OthersTime)
    # Seconds that this process's threads have waited for a core; nan where it is not known.
    waiting_clock: Callable[[], float] = waiting_s
    # Seconds in which those threads had work; None: always. Processes of their own rest in turns.
    work_clock: Callable[[], float] | None = None
    # Waits for the devices in use; None where there are none; "auto" asks torch.
    synchronize: Callable[[], None] | Literal["auto"] | None = "auto"
    rng: random.Random = field(default_factory=random.Random)  # draws the order within a round
    cores: Callable[[], int] = usable_cores  # how many this process may use
    system_cores: Callable[[], int] = system_cores  # how many it shares with other processes


_in_use: ContextVar[Instruments | None] = ContextVar("instruments", default=None)


def instruments() -> Instruments:
    """Return the instruments in use here, new ones unless a test has chosen some."""
    return _in_use.get() or Instruments()


def chosen() -> bool:
    """Return whether a test has chosen the instruments."""
    return _in_use.get() is not None


@contextmanager
def using(chosen: Instruments) -> Iterator[Instruments]:
    """Measure with these instruments inside the with-block: for tests."""
    token = _in_use.set(chosen)
    try:
        yield chosen
    finally:
        _in_use.reset(token)
