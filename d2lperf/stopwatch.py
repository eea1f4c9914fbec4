"""The book's `Timer` and `Benchmark`, on a clock that never steps back."""

from __future__ import annotations

import time
from itertools import accumulate
from typing import Any

from d2lperf.device import synchronize
from d2lperf.formats import print_line


class Timer:
    """A stopwatch that keeps its laps, in seconds, as `times`, like the book's.

    It starts when it is made. Before it starts and before it stops it waits for every accelerator
    the process has used, so that a lap holds the work and not only its launch.
    """

    def __init__(self) -> None:
        """Start the first lap."""
        self.times: list[float] = []
        self.start()

    def start(self) -> None:
        """Start a lap."""
        synchronize()
        self._start = time.perf_counter()

    def stop(self) -> float:
        """End the lap, keep it and return its seconds."""
        try:
            synchronize()
        finally:
            self.times.append(time.perf_counter() - self._start)
        return self.times[-1]

    def avg(self) -> float:
        """Return the mean lap in seconds; ValueError without any."""
        if not self.times:
            raise ValueError("this Timer has no lap yet: call stop() before avg().")
        return self.sum() / len(self.times)

    def sum(self) -> float:
        """Return the sum of the laps in seconds, 0 without any."""
        return sum(self.times)

    def cumsum(self) -> list[float]:
        """Return the running sums of the laps in seconds."""
        return list(accumulate(self.times))


class Benchmark:
    """Time a block and print it: `with Benchmark("eager"): ...` prints `eager: 0.1234 sec`.

    A drop-in for the book's class, with the waits of `Timer`. When the block raises, the time is
    printed and the error passes on. `elapsed_s` keeps it, in seconds. One such time says little
    about which of two snippets is faster: use `compare` for that.
    """

    def __init__(self, description: str = "Done"):
        """Print `description` before the time."""
        self.description = description
        self.elapsed_s: float | None = None

    def __enter__(self) -> Benchmark:
        self._timer = Timer()
        return self

    def __exit__(self, kind: Any, error: BaseException | None, traceback: Any) -> None:
        try:
            self._timer.stop()
        except Exception:
            # A device that failed inside the block fails here again: show the block's own error.
            if error is None:
                raise
        finally:
            self.elapsed_s = self._timer.sum()
            print_line(f"{self.description}: {self.elapsed_s:.4f} sec")
