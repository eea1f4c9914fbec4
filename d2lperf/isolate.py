"""Functions under the clock in processes of their own, for `compare(..., isolated=True)`.

Thread pools of two libraries in one process can hold each other up: after NumPy's pool has run, its
threads go on spinning for a while and take the cores from torch's. In a process of its own each
function has the pools to itself, and between two phases everything rests until the threads of the
one before have gone to sleep. The processes are loky's: they survive functions that are defined in
notebook cells and tell when one dies.
"""

from __future__ import annotations

import gc
import math
import os
import random
import time
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from typing import Any

import torch

from d2lperf.benchmark import ISOLATED_RULES, Plan, Subject

__all__ = ["CannotIsolate", "isolated_subjects"]


class CannotIsolate(RuntimeError):
    """A function cannot be moved to a process of its own, or that process died."""


# In a worker: the one function it was given.
_here: Subject | None = None


def _settings() -> dict[str, Any]:
    """The settings of torch that a worker takes over."""
    return {
        "set_num_threads": torch.get_num_threads(),
        "set_grad_enabled": torch.is_grad_enabled(),
        "set_default_dtype": torch.get_default_dtype(),
        "set_float32_matmul_precision": torch.get_float32_matmul_precision(),
        "use_deterministic_algorithms": torch.are_deterministic_algorithms_enabled(),
    }


def _settle_in(name: str, fn: Callable, settings: dict[str, Any]) -> None:
    """Runs in the worker: take the function, and the parent's settings along with it."""
    global _here
    for setter, value in settings.items():
        getattr(torch, setter)(value)
    gc.disable()
    _here = Subject(name, fn, clock=time.perf_counter, wait=None, rules=ISOLATED_RULES)


def _guarded(task: Callable, *args: Any) -> tuple[Any, BaseException | None, str]:
    """Runs in the worker: the task's result, or the error of the user's function as a value.

    So an error that comes out of the executor itself is always one of the transport.
    """
    try:
        return task(*args), None, ""
    except Exception as error:
        return None, error, traceback.format_exc()


def _first_result(keep: bool) -> tuple[Any, list[float], bool]:
    result = _here.first_result(keep)
    return result, _here.first_calls_s, _here.on_device


def _warm_up(most_s: float) -> tuple[float, list[float], bool]:
    call_s = _here.warm_up(most_s)
    return call_s, _here.first_calls_s, _here.on_device


def _phase(plan: Plan) -> list[float]:
    _move_to_any_core()
    return _here.phase(plan)


def _move_to_any_core() -> None:
    """Start the phase on a core drawn at random, then leave the choice to the system again.

    A process stays on the core where it was, and one core may be a few per cent faster than
    another (interrupts, neighbours): two copies of a function in two processes were told apart
    by that alone. Where the system does not allow it, nothing happens.
    """
    with suppress(AttributeError, OSError):
        cores = os.sched_getaffinity(0)
        os.sched_setaffinity(0, {random.choice(sorted(cores))})
        os.sched_setaffinity(0, cores)


class _InWorker(Exception):
    """Carries the traceback of a worker's error, as its cause."""

    def __str__(self) -> str:
        return f"\n{self.args[0]}"


class _Remote(Subject):
    """A `Subject` whose function runs in a worker process; the same face to `compare`."""

    def __init__(self, name: str, fn: Callable, crew: _Crew):
        super().__init__(name, fn, clock=time.perf_counter, wait=None, rules=ISOLATED_RULES)
        from loky import ProcessPoolExecutor

        self._crew = crew
        self._remote_on_device = False
        self._executor = ProcessPoolExecutor(max_workers=1)
        try:
            self._settling = self._submit(_settle_in, name, fn, _settings())
        except BaseException:
            self.close()
            raise

    def settle(self) -> None:
        """Wait until the worker has its function."""
        self._result_of(self._settling)

    def _ask(self, task: Callable, *args: Any) -> Any:
        """Run a task in the worker and wait for its result."""
        return self._result_of(self._submit(task, *args))

    def _submit(self, task: Callable, *args: Any) -> Future:
        return self._executor.submit(_guarded, task, *args)

    def _result_of(self, future: Future) -> Any:
        """Raise the user's error as it was, explain all others."""
        try:
            result, error, where = future.result()
        except KeyboardInterrupt:
            raise
        except Exception as failure:
            cause = failure.__cause__ or failure
            if "pickle" in f"{type(failure).__name__} {failure} {cause}".lower():
                raise CannotIsolate(
                    f"{self.name!r} or its result cannot be sent to another process: {cause}. "
                    "Make what it needs inside the function (and pass check=False where only "
                    "its result cannot travel), or compare without isolated=True."
                ) from failure
            raise CannotIsolate(
                f"the process of {self.name!r} ended while it ran: {failure}. "
                "Run the function by itself to see why."
            ) from failure
        if error is not None:
            raise error from _InWorker(where)
        return result

    @property
    def on_device(self) -> bool:
        return self._remote_on_device

    def first_result(self, keep: bool) -> Any:
        """Make the first call in the worker; fetch its result only where it is wanted."""
        self._crew.turn_to(self)
        result, self.first_calls_s, self._remote_on_device = self._ask(_first_result, keep)
        return result

    def warm_up(self, most_s: float = math.inf) -> float:
        """Warm up in the worker; return the estimated seconds of one call."""
        self._crew.turn_to(self)
        call_s, self.first_calls_s, self._remote_on_device = self._ask(_warm_up, most_s)
        return call_s

    def phase(self, plan: Plan) -> list[float]:
        """Run one phase in the worker."""
        self._crew.turn_to(self)
        return self._ask(_phase, plan)

    def close(self) -> None:
        """End the worker."""
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
    crew = _Crew(ISOLATED_RULES.rest_s)
    subjects: list[_Remote] = []
    try:
        # All of them start at once: most of a start is the import of torch.
        for name, fn in named.items():
            subjects.append(_Remote(name, fn, crew))
        for subject in subjects:
            subject.settle()
        yield subjects
    finally:
        for subject in subjects:
            subject.close()
