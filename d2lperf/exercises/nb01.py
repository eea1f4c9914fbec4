"""Checkers of notebook 01, measuring performance: on a simulated device; nothing is timed."""

from __future__ import annotations

from collections.abc import Callable

from d2lperf.exercises import Feedback, checker, failed, passed, show
from d2lperf.exercises.values import as_number, close

__all__ = ["SimulatedQueue", "check_time_job"]


class SimulatedQueue:
    """A device with a queue and a clock that nothing but its own work moves.

    Args:
        pending_s: seconds of somebody else's work that is in the queue at the start.

    Attributes:
        launch_s: what ordering a job costs the caller, in seconds.

    Example:
        >>> device = SimulatedQueue()
        >>> device.launch(0.5)
        >>> device.clock() < 0.001
        True
        >>> device.synchronize()
        >>> device.clock() > 0.5
        True
    """

    launch_s = 20e-6

    def __init__(self, pending_s: float = 0.0):
        self._now_s = 0.0
        self._done_at_s = pending_s
        self.launched = 0

    def clock(self) -> float:
        """Return the time in seconds."""
        return self._now_s

    def launch(self, job_s: float) -> None:
        """Order a job that takes `job_s` seconds, and return at once."""
        self._now_s += self.launch_s
        self._done_at_s = max(self._done_at_s, self._now_s) + job_s
        self.launched += 1

    def synchronize(self) -> None:
        """Wait until all jobs are done."""
        self._now_s = max(self._now_s, self._done_at_s)


@checker
def check_time_job(time_job: Callable[[SimulatedQueue, float, int], float]) -> Feedback:
    """Check a timing of jobs on an asynchronous device, idle and busy.

    Args:
        time_job: function of a device, the seconds of one job and a number of jobs, that returns
            the seconds one job takes.
    """
    job_s, n = 1e-3, 50
    for pending_s, state in ((0.0, "an idle device"), (0.2, "a device still busy with other work")):
        device = SimulatedQueue(pending_s)
        found = time_job(device, job_s, n)
        got = as_number(found)
        call = f"On {state}, {n} jobs of 1 ms each: you return {show(found)}"
        if got is None:
            return failed(f"{call}, which is no number of seconds.")
        if device.launched != n:
            return failed(f"{call}, but {device.launched} jobs were launched.")
        expected = job_s + device.launch_s / n
        if close(got, expected):
            continue
        if got < expected:
            return failed(f"{call}, too small. Was all work done when the clock was read?")
        question = "Is this the time of one job?"
        if got < 1.5 * expected:
            question = "Does the device wait while the next job is being ordered?"
        elif pending_s:
            question = "Is somebody else's work in your time?"
        return failed(f"{call}, too large. {question}")
    return passed("You charge yourself with all of your jobs and none of anybody else's.")
