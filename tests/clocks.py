"""A clock that tests move by hand, and functions that take time on it and nowhere else."""

from __future__ import annotations

import random


class FakeClock:
    """Seconds that pass only when a function says so."""

    def __init__(self):
        self.now = 0.0
        self.cpu_share = 1.0

    def __call__(self) -> float:
        return self.now

    def cpu(self) -> float:
        """Processor time: one thread's worth unless told otherwise."""
        return self.now * self.cpu_share

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
