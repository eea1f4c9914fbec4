"""Functions under the clock in processes of their own, for `compare(..., isolated=True)`.

Thread pools of two libraries in one process can hold each other up: after NumPy's pool has run, its
threads go on spinning for a while and take the cores from torch's. In a process of its own each
function has the pools to itself, and between two phases everything rests until the threads of the
one before have gone to sleep. The processes are loky's: they survive functions that are defined in
notebook cells and tell when one dies.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import torch

from d2lperf.benchmark import ISOLATED_RULES, Plan, Subject

__all__ = ["CannotIsolate", "isolated_subjects"]


class CannotIsolate(RuntimeError):
    """A function cannot be moved to a process of its own, or that process died."""


# In a worker: the one function it was given.
_here: Subject | None = None


def _settle_in(name: str, fn: Callable, threads: int, grad: bool) -> None:
    """Runs in the worker: take the function, and the parent's settings along with it."""
    global _here
    import gc

    torch.set_num_threads(threads)
    torch.set_grad_enabled(grad)
    gc.disable()
    _here = Subject(name, fn, clock=time.perf_counter, wait=None, rules=ISOLATED_RULES)


def _call() -> tuple[Any, list[float], bool]:
    result = _here.call()
    return result, _here.first_calls_s, _here.on_device


def _warm_up() -> tuple[float, list[float], bool]:
    call_s = _here.warm_up()
    return call_s, _here.first_calls_s, _here.on_device


def _phase(plan: Plan) -> list[float]:
    import gc

    samples = _here.phase(plan)
    gc.collect(0)
    return samples


class _Remote(Subject):
    """A `Subject` whose function runs in a worker process; the same face to `compare`."""

    def __init__(self, name: str, fn: Callable, crew: _Crew):
        super().__init__(name, fn, clock=time.perf_counter, wait=None, rules=ISOLATED_RULES)
        from loky import ProcessPoolExecutor

        self._crew = crew
        self._remote_on_device = False
        self._executor = ProcessPoolExecutor(max_workers=1)
        self._ask(_settle_in, name, fn, torch.get_num_threads(), torch.is_grad_enabled())

    def _ask(self, task: Callable, *args: Any) -> Any:
        from loky.process_executor import BrokenProcessPool

        try:
            return self._executor.submit(task, *args).result()
        except BrokenProcessPool as error:
            text = str(error) + str(error.__cause__ or "")
            if "pickle" in text.lower():
                raise CannotIsolate(
                    f"{self.name!r} or its result cannot be sent to another process: "
                    f"{error.__cause__ or error}. Make what it needs inside the function, or "
                    "compare without isolated=True."
                ) from error
            raise CannotIsolate(
                f"the process of {self.name!r} ended while it ran: {error}. "
                "Run the function by itself to see why."
            ) from error
        except Exception as error:
            if type(error).__name__ == "PicklingError" or "pickle" in str(error).lower():
                raise CannotIsolate(
                    f"{self.name!r} or its result cannot be sent to another process: {error}. "
                    "Make what it needs inside the function, or compare without isolated=True."
                ) from error
            raise

    @property
    def on_device(self) -> bool:
        return self._remote_on_device

    def call(self) -> Any:
        """Call once in the worker; return the result, which must be able to travel."""
        self._crew.turn_to(self)
        result, self.first_calls_s, self._remote_on_device = self._ask(_call)
        return result

    def warm_up(self) -> float:
        """Warm up in the worker; return the estimated seconds of one call."""
        self._crew.turn_to(self)
        call_s, self.first_calls_s, self._remote_on_device = self._ask(_warm_up)
        return call_s

    def phase(self, plan: Plan) -> list[float]:
        """Run one phase in the worker."""
        self._crew.turn_to(self)
        return self._ask(_phase, replace(plan))

    def close(self) -> None:
        self._executor.shutdown(wait=True, kill_workers=True)


class _Crew:
    """Knows whose turn it was, and rests between turns."""

    def __init__(self, rest_s: float):
        self._rest_s = rest_s
        self._last: _Remote | None = None

    def turn_to(self, subject: _Remote) -> None:
        if self._last is not None and self._last is not subject:
            time.sleep(self._rest_s)
        self._last = subject


@contextmanager
def isolated_subjects(named: dict[str, Callable[[], Any]]) -> Iterator[list[Subject]]:
    """Yield a subject for each function, each in a process of its own; end them afterwards.

    Args:
        named: name -> function without arguments. It travels by cloudpickle: functions and
            classes of notebook cells may, open files and compiled modules may not.

    Raises:
        CannotIsolate: a function or its result cannot travel, or a process died.
        Exception: whatever a function raises.
    """
    crew, subjects = _Crew(ISOLATED_RULES.rest_s), []
    try:
        for name, fn in named.items():
            subjects.append(_Remote(name, fn, crew))
        yield subjects
    finally:
        for subject in subjects:
            subject.close()
