"""Functions under the clock in processes of their own, for `compare(..., isolated=True)`.

Threads of NumPy's pool spin for a while after they have run, and take the cores from torch's. So
each function has a process of its own, and at a change of turn we wait until threads are asleep.
"""

import gc
import os
import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, NamedTuple

import torch

from d2lperf.measuring.neighbours import TimeUsed
from d2lperf.measuring.sampling import APART, ISOLATED_RULES, Subject
from d2lperf.processes import worker as this
from d2lperf.processes.engine import Crew, Worker
from d2lperf.processes.wire import pack

_ADVICE = "Make what it needs inside the function, or compare without isolated=True."


class _Answer(NamedTuple):
    """What a worker's subject returned, and its attributes after that."""

    value: Any
    first_calls_s: list[float]
    on_device: bool
    began: TimeUsed  # what the worker had used before that
    ended: TimeUsed


def _settle_in(name: str, fn: Callable, setup: Callable | None) -> None:
    """Runs in a worker: take the function."""
    gc.disable()
    this.here.subject = Subject(name, fn, setup=setup, rules=ISOLATED_RULES)


def _act(method: str, *args: Any) -> _Answer:
    """Runs in a worker: let the subject do something; return what the kernel wants to know."""
    # One core may be a few per cent faster than another, and a process stays on its core. So two
    # copies of a function were judged different. Now each phase starts on a core drawn at random.
    if method == "phase":
        with suppress(AttributeError, OSError):  # not every system allows it
            cores = os.sched_getaffinity(0)
            os.sched_setaffinity(0, {random.choice(sorted(cores))})
            os.sched_setaffinity(0, cores)
    subject, began = this.here.subject, TimeUsed.here()
    value = getattr(subject, method)(*args)
    return _Answer(value, subject.first_calls_s, subject.on_device, began, TimeUsed.here())


class _Remote:
    """A `Subject` whose function runs in a worker: the same methods and attributes."""

    def __init__(self, worker: Worker, turns: "_Turns"):
        self.name, self._worker, self._turns = worker.label, worker, turns
        self.first_calls_s: list[float] = []
        self.on_device = False
        self.used = TimeUsed()  # while it acted

    def __getattr__(self, method: str) -> Callable[..., Any]:
        return partial(self._ask, method)

    def _ask(self, method: str, *args: Any) -> Any:
        answer = self._turns.ask(self._worker, method, *args)
        self.first_calls_s, self.on_device = answer.first_calls_s, answer.on_device
        self.used = self.used.plus(answer.began, answer.ended)
        return answer.value


class _Turns:
    """Lets one worker act at a time, and rests between two of them."""

    def __init__(self, crew: Crew):
        self._crew = crew
        self._last: Worker | None = None

    def ask(self, worker: Worker, method: str, *args: Any) -> _Answer:
        changes = self._last is not None and self._last is not worker
        if changes and method != "plan":
            time.sleep(ISOLATED_RULES.rest_s)
        self._last = worker
        self._crew.give(pack(partial(_act, method, *args)), [worker])
        return self._crew.gather()[worker.index]


@contextmanager
def isolated_subjects(
    named: dict[str, Callable], setup: Callable | None = None
) -> Iterator[list[_Remote]]:
    """Yield a `Subject` for each function, in a process of its own; errors come as they were."""
    names = {name: f"the process of {name!r}" for name in named}
    with Crew(names, torch.get_num_threads()) as crew:
        for (name, fn), worker in zip(named.items(), crew.workers):
            refusal = f"{name!r} cannot be sent to a process of its own"
            crew.give(pack(partial(_settle_in, name, fn, setup), refusal, _ADVICE), [worker])
        crew.gather()
        turns = _Turns(crew)
        yield [_Remote(worker, turns) for worker in crew.workers]


# `compare` knows no processes. It finds here who can make its subjects in processes of their own.
APART["processes"] = isolated_subjects
