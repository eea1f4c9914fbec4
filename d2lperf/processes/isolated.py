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
from typing import Any

import torch

from d2lperf.measuring.sampling import ISOLATED_RULES, Subject
from d2lperf.processes import engine


def _settle_in(name: str, fn: Callable, setup: Callable | None) -> None:
    """Runs in a worker: take the function."""
    gc.disable()
    engine.here.subject = Subject(name, fn, setup=setup, rules=ISOLATED_RULES)


def _act(method: str, *args: Any) -> tuple[Any, list[float], bool]:
    """Runs in a worker: let the subject do something; return what the kernel wants to know."""
    # One core may be a few per cent faster than another, and a process stays on its core. So two
    # copies of a function were judged different. Now each phase starts on a core drawn at random.
    if method == "phase":
        with suppress(AttributeError, OSError):  # not every system allows it
            cores = os.sched_getaffinity(0)
            os.sched_setaffinity(0, {random.choice(sorted(cores))})
            os.sched_setaffinity(0, cores)
    subject = engine.here.subject
    return getattr(subject, method)(*args), subject.first_calls_s, subject.on_device


class _Remote:
    """A `Subject` whose function runs in a worker: the same methods and attributes."""

    def __init__(self, name: str, ask: Callable[..., Any]):
        self.name, self._ask, self.first_calls_s, self.on_device = name, ask, [], False

    def __getattr__(self, method: str) -> Callable[..., Any]:
        return partial(self._ask, self, method)


@contextmanager
def isolated_subjects(named: dict[str, Callable], setup: Callable | None = None) -> Iterator[list]:
    """Yield a `Subject` for each function, in a process of its own; errors come as they were."""
    names, last = {name: f"the process of {name!r}" for name in named}, None
    advice = "Make what it needs inside the function, or compare without isolated=True."

    def ask(worker: engine.Worker, remote: _Remote, method: str, *args: Any) -> Any:
        nonlocal last
        if last not in (None, worker) and method != "plan":
            time.sleep(ISOLATED_RULES.rest_s)
        last = worker
        crew.give(engine.pack(partial(_act, method, *args)), [worker])
        value, remote.first_calls_s, remote.on_device = crew.gather()[worker.index]
        return value

    with engine.Crew(names, torch.get_num_threads()) as crew:
        for (name, fn), worker in zip(named.items(), crew.workers):
            refusal = f"{name!r} cannot be sent to a process of its own"
            task = engine.pack(partial(_settle_in, name, fn, setup), refusal, advice)
            crew.give(task, [worker])
        crew.gather()
        yield [_Remote(worker.label, partial(ask, worker)) for worker in crew.workers]
