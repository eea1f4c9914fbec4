"""Functions under the clock in processes of their own, for `compare(..., isolated=True)`.

Thread pools of two libraries in one process slow each other down: after NumPy's pool has run, its
threads spin for a while and take the cores from torch's. In a process of its own each function has
the pools to itself, and at each change of turn we wait until the other threads have gone to sleep.
"""

from __future__ import annotations

import gc
import math
import os
import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import torch

from d2lperf.measuring.sampling import ISOLATED_RULES, Plan, Rules, Subject
from d2lperf.processes import engine

__all__ = ["isolated_subjects"]

_here: Subject | None = None  # in a worker: its function


def _settle_in(name: str, fn: Callable, setup: Callable | None, rules: Rules) -> None:
    """Runs in the worker: take the function."""
    global _here
    gc.disable()
    _here = Subject(name, fn, setup=setup, rules=rules)


def _act(method: str, *args: Any) -> tuple[Any, list[float], bool]:
    """Runs in the worker: let the subject do something; return what the kernel wants to know."""
    if method == "phase":
        _move_to_any_core()
    value = getattr(_here, method)(*args)
    return value, _here.first_calls_s, _here.on_device


def _move_to_any_core() -> None:
    """Start the phase on a core drawn at random, then leave the choice to the system again.

    A process stays on its core, and one core may be a few per cent faster than another: two copies
    of a function in two processes were told apart by that alone.
    """
    with suppress(AttributeError, OSError):  # not every system allows it
        cores = os.sched_getaffinity(0)
        os.sched_setaffinity(0, {random.choice(sorted(cores))})
        os.sched_setaffinity(0, cores)


class _Remote(Subject):
    """A `Subject` whose function runs in a worker; the same face to `compare`."""

    def __init__(self, name: str, rules: Rules, act: Callable[..., tuple[Any, list[float], bool]]):
        super().__init__(name, act, rules=rules)
        self._on_device = False

    def _act(self, *task: Any) -> Any:
        value, self.first_calls_s, self._on_device = self._fn(self, *task)
        return value

    @property
    def on_device(self) -> bool:
        return self._on_device

    def call(self) -> Any:
        return self._act("call")

    def first_result(self, keep: bool) -> Any:
        return self._act("first_result", keep)

    def warm_up(self, most_s: float = math.inf) -> float:
        return self._act("warm_up", most_s)

    def phase(self, plan: Plan) -> list[float]:
        return self._act("phase", plan)


@contextmanager
def isolated_subjects(
    named: dict[str, Callable[..., Any]],
    setup: Callable[[], Any] | None = None,
    rules: Rules = ISOLATED_RULES,
) -> Iterator[list[Subject]]:
    """Yield a subject for each function, each in a process of its own; end them afterwards.

    Args:
        named: name -> function. Functions and classes of notebook cells can be sent; open files
            and compiled modules cannot. torch's threads, `no_grad`, default dtype and the like are
            taken over.
        setup: called before each sample, in the same process.
        rules: the constants of the method.

    Raises:
        WorkerError: a function or its result cannot be sent, or a process died.
        Exception: what a function raises, as it was.
        NotImplementedError: this system has no fork server (Windows).
    """
    names = {name: f"the process of {name!r}" for name in named}
    advice = "Pass check=False if only its result cannot be sent."
    last: list[Subject] = []  # whose turn it was

    def act(subject: Subject, *task: Any) -> Any:
        if last and last[0] is not subject:
            time.sleep(rules.rest_s)
        last[:] = [subject]
        worker = [crew.workers[subjects.index(subject)]]
        crew.give(engine.pack((_act, task)), worker)
        return crew.gather(worker)[0]

    with engine.Crew(names, torch.get_num_threads(), advice=advice) as crew:
        for worker, (name, fn) in zip(crew.workers, named.items(), strict=True):
            try:
                task = engine.pack((_settle_in, (name, fn, setup, rules)))
            except Exception as error:
                raise engine.WorkerError(
                    f"{name!r} cannot be sent to a process of its own: {error}. Make what it needs "
                    "inside the function, or compare without isolated=True."
                ) from error
            crew.give(task, [worker])
        crew.gather()
        subjects = [_Remote(name, rules, act) for name in named]
        yield subjects
