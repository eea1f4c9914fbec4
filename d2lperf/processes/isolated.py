"""Functions under the clock in processes of their own, for `compare(..., isolated=True)`.

Threads of NumPy's pool spin for a while after they have run, and take the cores from torch's. So
each function has a process of its own, and at a change of turn we wait until threads are asleep.
"""

from __future__ import annotations

import gc
import os
import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any

import torch

from d2lperf.measuring.sampling import ISOLATED_RULES, Rules, Subject
from d2lperf.processes import engine

__all__ = ["isolated_subjects"]


def _settle_in(*args: Any, **options: Any) -> None:
    """Runs in a worker: take the function."""
    gc.disable()
    engine.here.subject = Subject(*args, **options)


def _act(method: str, *args: Any) -> tuple[Any, list[float], bool]:
    """Runs in a worker: let the subject do something; return what the kernel wants to know."""
    # One core may be a few per cent faster than another, and a process stays on its core: copies of
    # a function were told apart by that alone. So each phase starts on a core drawn at random.
    if method == "phase":
        with suppress(AttributeError, OSError):  # not every system allows it
            cores = os.sched_getaffinity(0)
            os.sched_setaffinity(0, {random.choice(sorted(cores))})
            os.sched_setaffinity(0, cores)
    subject = engine.here.subject
    return getattr(subject, method)(*args), subject.first_calls_s, subject.on_device


class _Remote:
    """A `Subject` whose function runs in a worker: the same methods and attributes."""

    def __init__(self, name: str, ask: Callable[..., tuple[Any, list[float], bool]]):
        self.name, self._ask, self.first_calls_s, self.on_device = name, ask, [], False

    def __getattr__(self, method: str) -> Callable[..., Any]:
        return partial(self._act, method)

    def _act(self, *task: Any) -> Any:
        value, self.first_calls_s, self.on_device = self._ask(self.name, *task)
        return value


@contextmanager
def isolated_subjects(
    named: dict[str, Callable[..., Any]],
    setup: Callable[[], Any] | None = None,
    rules: Rules = ISOLATED_RULES,
) -> Iterator[list[_Remote]]:
    """Yield a subject for each function, each in a process of its own; end them afterwards.

    Args:
        named: name -> function. Functions and classes of notebook cells can be sent; open files and
            compiled modules cannot. torch's threads, `no_grad` and the like are taken over.
        setup, rules: as a `Subject` takes them.

    Raises:
        WorkerError: a function or its result cannot be sent, or a process died.
        Exception: what a function raises, as it was.
    """
    names = {name: f"the process of {name!r}" for name in named}
    crew = engine.Crew(names, torch.get_num_threads())
    workers, last = dict(zip(named, crew.workers, strict=True)), ""

    def ask(name: str, method: str, *args: Any) -> tuple[Any, list[float], bool]:
        nonlocal last
        if last not in ("", name) and method != "plan":
            time.sleep(rules.rest_s)
        last = name
        crew.give(engine.pack(partial(_act, method, *args)), [workers[name]])
        return crew.gather()[workers[name].index]

    with crew:
        for name, fn in named.items():
            try:
                task = engine.pack(partial(_settle_in, name, fn, setup=setup, rules=rules))
            except Exception as error:
                advice = "Make what it needs inside the function, or compare without isolated=True."
                text = f"{name!r} cannot be sent to a process of its own: {error}. {advice}"
                raise engine.WorkerError(text) from error
            crew.give(task, [workers[name]])
        crew.gather()
        yield [_Remote(name, ask) for name in named]
