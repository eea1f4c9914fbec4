"""A clock that tests move by hand, and functions that take time on it and nowhere else."""

from __future__ import annotations

import math
import random

from d2lperf._compat import TorchDispatchMode
from d2lperf.measuring.compare import compare, measure, sweep
from d2lperf.measuring.instruments import Instruments, using


def with_tools(tools, fn, *args, **options):
    """What a function returns that measures with these instruments."""
    with using(tools):
        return fn(*args, **options)


class FakeClock:
    """Seconds that pass only when a function says so."""

    def __init__(self):
        self.now = 0.0
        self.cpu_share = 1.0
        self.others = 0.0  # cores that other processes keep busy
        self.waiting = math.nan  # cores that our threads wait for; not every system tells

    def __call__(self) -> float:
        return self.now

    def cpu(self) -> float:
        """Processor time: one thread's worth unless told otherwise."""
        return self.now * self.cpu_share

    def instruments(self, seed=0, **others) -> Instruments:
        """What measuring uses: this clock, no device, two cores, orders drawn from a seed."""
        given = {
            "clock": self,
            "cpu_clock": self.cpu,
            "thread_clock": self,
            "others_clock": lambda: self.now * self.others,
            "waiting_clock": lambda: self.now * self.waiting,
            "synchronize": None,
            "system_cores": lambda: 2,
        }
        return Instruments(**{**given, "rng": random.Random(seed), **others})

    def work(self, seconds, *, noise=0.0, seed=0, first=(), result=None):
        """A function that takes `seconds` (a number, or a function of the time and the call)."""
        chance = random.Random(seed)
        calls = [0]

        def run():
            calls[0] += 1
            if calls[0] <= len(first):
                self.now += first[calls[0] - 1]
                return result
            base = seconds(self.now, calls[0]) if callable(seconds) else seconds
            self.now += base * (1 + noise * chance.expovariate(1.0) if noise else 1)
            return result

        run.calls = calls
        return run


class SlowTorch(TorchDispatchMode):
    """torch on a machine where the clock moves by a given number of seconds for each operation."""

    def __init__(self, clock, seconds):
        super().__init__()
        self.clock, self.seconds = clock, seconds

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.clock.now += self.seconds.get(func.overloadpacket.__name__, 0.0)
        return func(*args, **(kwargs or {}))


def slow_clock(step_s=0.05) -> Instruments:
    """Seconds that pass only when somebody looks: `step_s` between two looks."""
    clock = FakeClock()

    def look():
        clock.now += step_s
        return clock.now

    return clock.instruments(clock=look)


def in_blocks(pattern, quiet, slow, size=40):
    """Seconds of a function that is slow for whole blocks of calls, over and over.

    Args:
        pattern: for each block whether it is slow.
        quiet: seconds of a call otherwise.
        slow: seconds of a call in a slow block.
        size: calls in a block.
    """
    return lambda now, call: slow if pattern[call // size % len(pattern)] else quiet


def neighbour(pattern, factor, length=0.05):
    """A factor on everything, by time: a neighbour that is busy in some stretches only.

    Args:
        pattern: for each stretch whether it is busy.
        factor: on all times meanwhile.
        length: of a stretch, in seconds.
    """
    return lambda now: factor if pattern[int(now / length) % len(pattern)] else 1.0


def fake_compare(clock, functions, seed=0, instruments=None, **options):
    with using(instruments or clock.instruments(seed)):
        return compare(functions, **{"check": False, **options})


def fake_measure(clock, fn, **options):
    with using(clock.instruments()):
        return measure(fn, **options)


def fake_sweep(clock, make, values, **options):
    with using(clock.instruments()):
        return sweep(make, values, check=False, **options)
