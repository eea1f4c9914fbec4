"""Checkers of notebook 03, asynchronous computation.

Nothing is timed: engines, streams and clocks of the checkers are simulated, and what is checked is
an order of events, a count or an exact number.
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, ClassVar

import numpy as np
import torch
from torch.overrides import TorchFunctionMode

from d2lperf import _compat
from d2lperf.exercises import Feedback, checker, failed, gave, passed, show
from d2lperf.exercises.values import as_list, as_number, close, off

__all__ = [
    "check_finished",
    "check_makespan",
    "check_never_asks",
    "check_one_ahead",
    "check_share_before",
    "check_two_buffers",
    "check_waits",
]


def _lengths(seed: int, count: int) -> list[int]:
    """Whole numbers, so that sums are exact in any order."""
    rng = random.Random(seed)
    return [rng.randint(1, 9) for _ in range(count)]


# --------------------------------------------------------------------------------- finished


@checker
def check_finished(
    finished: Callable[[Sequence[float], Sequence[float], float], float],
) -> Feedback:
    """Check the time that a series of tasks takes when the front end runs ahead.

    Args:
        finished: function of two sequences of seconds, to prepare and to compute each task, and
            of the seconds to fetch the last result.
    """
    cases = [([1] * 5, [3] * 5, 2), ([3] * 5, [1] * 5, 2), ([2] * 4, [2] * 4, 1), ([4], [5], 6)]
    cases += [(_lengths(i, 7), _lengths(i + 50, 7), i) for i in range(20)]
    cases.append(([], [], 3))
    for t1, t2, t3 in cases:
        # The slowest of all ways through: so many tasks prepared, the rest computed.
        ways = [sum(t1[: i + 1]) + sum(t2[i:]) for i in range(len(t1))]
        wanted, found = max(ways, default=0) + t3, finished(list(t1), list(t2), t3)
        if not close(found, wanted):
            return failed(f"{gave(found, finished, t1, t2, t3)}, which is {off(found, wanted)}")
    return passed(f"{len(cases)} series, also such in which now one side waits, now the other.")


# -------------------------------------------------------------------------------- one ahead


class _Training:
    """A back end that takes batches and notes the order of what happens."""

    def __init__(self, n: int):
        self.n, self.given, self.ordered = n, 0, 0
        self.waited: list[int] = []
        self.fault = ""

    def batches(self) -> Iterator[int]:
        for i in range(self.n):
            self.given = i + 1
            yield i

    def complain(self, text: str) -> None:
        self.fault = self.fault or f"with {self.n} batches: {text}"

    def step(self, batch: Any) -> _Step:
        i = self.ordered
        if batch != i:
            self.complain(f"batch {show(batch)} was ordered where batch {i} was due")
        if i >= 2 and i - 2 not in self.waited:
            self.complain(f"batch {i} was ordered before batch {i - 2} was done")
        if self.given > i + 2:
            self.complain(f"{self.given} batches were taken when only {i} had been ordered")
        self.ordered += 1
        return _Step(self, i)


class _Step:
    def __init__(self, training: _Training, number: int):
        self._training, self._number = training, number

    def wait(self) -> None:
        training, i = self._training, self._number
        if i in training.waited:
            training.complain(f"batch {i} was waited for twice")
        if i + 1 < training.n and training.ordered < i + 2:
            training.complain(f"batch {i} was waited for before batch {i + 1} was ordered")
        training.waited.append(i)


@checker
def check_one_ahead(train_overlapped: Callable[[Iterable[Any], Callable], Any]) -> Feedback:
    """Check a training loop that keeps one batch waiting while another one is computed.

    Args:
        train_overlapped: function of an iterable of batches and of a function that orders one.
    """
    for n in (5, 2, 1, 0, 3, 12):
        training = _Training(n)
        train_overlapped(training.batches(), training.step)
        if training.ordered != n:
            training.complain(f"{training.ordered} were ordered")
        missing = sorted(set(range(n)) - set(training.waited))
        if missing:
            training.complain(f"nobody waited for batch {missing[0]}")
        if training.fault:
            return failed(training.fault)
    return passed("Batch t is done before batch t + 2 begins, and beside it t + 1 is under way.")


# --------------------------------------------------------------------------------- makespan


def _makespan(cpu: Sequence[float], gpu: Sequence[float], d: int) -> float:
    """The longest path through the graph of all starts and ends, by relaxation until it rests."""
    n = len(cpu)
    prepared, left = [0.0] * n, [0.0] * n
    changed = True
    while changed:
        changed = False
        for i in range(n):
            start = max(prepared[i - 1] if i else 0, left[i - d] if i >= d else 0)
            there = max(start + cpu[i], left[i - 1] if i else 0)
            now = (start + cpu[i], there + gpu[i])
            changed |= now != (prepared[i], left[i])
            prepared[i], left[i] = now
    return left[-1] if n else 0


@checker
def check_makespan(makespan: Callable[[Sequence[float], Sequence[float], int], float]) -> Feedback:
    """Check when the last batch leaves the GPU, with so many under way at most.

    Args:
        makespan: function of two sequences of seconds, of a batch on the CPU and on the GPU, and
            of how many batches may be under way.
    """
    cases = [([2] * 5, [3] * 5, d) for d in (1, 2, 9)] + [([4], [5], 1), ([], [], 1)]
    cases += [(_lengths(i, 8), _lengths(i + 70, 8), d) for i in range(8) for d in (1, 2, 3, 4)]
    for cpu, gpu, d in cases:
        found, wanted = makespan(list(cpu), list(gpu), d), _makespan(cpu, gpu, d)
        if not close(found, wanted):
            return failed(f"{gave(found, makespan, cpu, gpu, d)}, which is {off(found, wanted)}")
    return passed("d = 1 is the sum of everything; a larger d never takes longer.")


# ------------------------------------------------------------------------------------ waits


class _Simulated:
    """An engine with one queue, in simulated time."""

    def __init__(self, order_s: float, task_s: float, left_s: float = 0.0):
        self.now, self.idle_from = 100.0, 100.0 + left_s
        self.order_s, self.task_s = order_s, task_s
        self.issued = 0

    def clock(self) -> float:
        return self.now

    def issue(self, task: Callable, *arguments: Any) -> _Promise:
        self.now += self.order_s
        self.idle_from = max(self.now, self.idle_from) + self.task_s
        self.issued += 1
        return _Promise(self, self.idle_from)

    def synchronize(self) -> None:
        self.now = max(self.now, self.idle_from)


class _Promise:
    def __init__(self, engine: _Simulated, done: float):
        self._engine, self._done = engine, done

    def wait(self) -> None:
        self._engine.now = max(self._engine.now, self._done)


def _task() -> None:
    raise AssertionError("the task was called directly; give it to engine.issue")


@checker
def check_waits(waits: Callable[..., tuple[float, float]]) -> Feedback:
    """Check two waits: for one result, then for all.

    Args:
        waits: function of an engine, a task, the number of tasks, the number of the result to
            wait for, and a clock.
    """
    for n, k, order_s, task_s in ((10, 3, 0.0, 2.0), (6, 5, 0.125, 1.0), (8, 0, 0.25, 3.0)):
        engine, mirror = (_Simulated(order_s, task_s) for _ in range(2))
        promises = [mirror.issue(_task) for _ in range(n)]
        readings = [mirror.clock()]
        for wait in promises[k].wait, mirror.synchronize:
            wait()
            readings.append(mirror.clock())
        wanted = tuple(b - a for a, b in itertools.pairwise(readings))
        found = waits(engine, _task, n, k, engine.clock)
        what = f"{n} tasks of {task_s:g} s, ordered in {order_s:g} s each, k = {k}"
        if engine.issued != n:
            return failed(f"{what}: you return {show(found)} after {engine.issued} orders")
        pair = as_list(found, 2)
        if pair is None or None in map(as_number, pair):
            return failed(f"{what}: you return {show(found)}; wanted are two numbers")
        waits_for = ("result k", "everything")
        for one, right, which in zip(pair, wanted, waits_for):
            if not close(one, right):
                return failed(
                    f"{what}: you return {show(found)}; {show(one)} s for the wait for {which} "
                    f"is {off(one, right)}"
                )
    return passed("One result is there after k + 1 tasks; the rest is what synchronize waits for.")


# ----------------------------------------------------------------------------- share before


@checker
def check_share_before(share_before: Callable[..., float]) -> Feedback:
    """Check the share of the time that passes before an order returns.

    Args:
        share_before: function of a function that orders, one that waits for all, and a clock.
    """
    cases = {
        "a back end that only takes the order": (1.0, 3.0, 0.0, False),
        "one that computes before it returns": (0.0, 4.0, 0.0, True),
        "a queue that others have filled before": (1.0, 7.0, 50.0, False),
        "a back end that takes no time at all": (0.0, 0.0, 0.0, False),
    }
    for name, (order_s, task_s, left_s, eager) in cases.items():
        engine = _Simulated(order_s, task_s, left_s)

        def order(engine=engine, eager=eager):
            engine.issue(_task)
            if eager:
                engine.synchronize()

        found = share_before(order, engine.synchronize, engine.clock)
        wanted = 1.0 if eager or not task_s else order_s / (order_s + task_s)
        if engine.issued != 1:
            return failed(
                f"{name}: you return {show(found)} after {engine.issued} calls of order(); wanted "
                "is one call"
            )
        if not close(found, wanted):
            times = f"order takes {task_s if eager else order_s:g} s"
            times += f", its work {task_s:g} s in all"
            return failed(f"{name} ({times}): you return {show(found)}, {off(found, wanted)}")
    return passed("Near 0: the order returns at once. 1: the work was done when it returned.")


# ------------------------------------------------------------------------------- never asks

_ASKING = {"item", "tolist", "cpu", "nonzero", "argwhere", "unique", "masked_select"}
_ASKING |= {"equal", "allclose", "numpy"}  # numpy(force=True) copies
_ASKING |= {f"__{name}__" for name in ("bool", "int", "float", "index", "repr", "format")}


def _asks(name: str, args: tuple, kwargs: dict) -> bool:
    """Whether a function has to know values of its tensors on the device, or copies them."""
    if name == "where":
        return len(args) + len(kwargs) == 1  # it returns places, and must know how many
    if name == "__setitem__" and not isinstance(args[2], _OnDevice):
        return False  # one number for all places of a mask: a masked fill
    indexed = name in ("__getitem__", "__setitem__") and _read(args[1])
    return name in _ASKING or indexed or _fetches(name, args, kwargs)


def _fetches(name: str, args: tuple, kwargs: dict) -> bool:
    return name == "to" and "cpu" in map(str, (*args[1:], *kwargs.values()))


def _read(index: Any) -> bool:
    """Whether an index has to be read: a mask, or a tensor with one number, used as a place."""
    parts = index if isinstance(index, tuple) else (index,)
    tensors = [part for part in parts if isinstance(part, torch.Tensor)]
    return any(part.dtype == torch.bool or part.dim() == 0 for part in tensors)


class _OnDevice(torch.Tensor):
    """A tensor that behaves as on a device: to ask it for a value is noted."""

    asked: ClassVar[list[str]] = []

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        name, kwargs = getattr(func, "__name__", ""), kwargs or {}
        forced = name == "numpy" and kwargs.get("force")
        if name in ("numpy", "__array__") and not forced:
            raise TypeError("a tensor on a device cannot become NumPy's: copy it by .cpu() first")
        with _compat.plain_calls():
            if _asks(name, args, kwargs):
                cls.asked.append(name)
            if forced:
                return args[0].as_subclass(torch.Tensor).numpy(force=True)
            if name == "cpu" or _fetches(name, args, kwargs):
                return args[0].as_subclass(torch.Tensor)
        return super().__torch_function__(func, types, args, kwargs)


class _AskingFactories(TorchFunctionMode):
    """Notes functions that read the tensors of a list one by one."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        if func in (torch.tensor, torch.as_tensor, torch.asarray):
            given = args[0] if args else (kwargs or {}).get("data")
            if isinstance(given, (list, tuple)):
                _OnDevice.asked += [func.__name__] * len(given)
        return func(*args, **(kwargs or {}))


def _kinds(found: Any) -> str:
    """A result as text, with the kind of what is no number: tensors on a device are not asked."""
    if isinstance(found, torch.Tensor):
        return f"a {type(found).__name__.strip('_')}"
    if not isinstance(found, (tuple, list)):
        return show(found)
    return f"({', '.join('a tensor' if isinstance(v, torch.Tensor) else show(v) for v in found)})"


@checker
def check_never_asks(best_and_mean: Callable[[Iterator[torch.Tensor]], Any]) -> Feedback:
    """Check a summary of losses that asks the device once.

    Args:
        best_and_mean: function of an iterator of tensors without dimensions.
    """
    nan = math.nan
    cases = [[2.0, 0.5, 3.5], [1.0, nan, 0.25, 4.0], [nan, nan, 5.0], [0.125]]
    cases.append([*map(float, _lengths(1, 60)), nan])
    for values in cases:
        _OnDevice.asked.clear()
        losses = (torch.tensor(v).as_subclass(_OnDevice) for v in values)
        with _AskingFactories():
            found = best_and_mean(losses)
        asked = list(_OnDevice.asked)
        with _compat.plain_calls():
            pair = None if isinstance(found, torch.Tensor) else as_list(found, 2)
            told = f"for the losses {show(values)} you return {_kinds(found)}"
            if pair is None or not all(isinstance(v, (int, float, np.floating)) for v in pair):
                return failed(f"{told}; wanted are two Python floats")
        numbers = [v for v in values if not math.isnan(v)]
        wanted = (min(numbers), sum(numbers) / len(numbers))
        for one, right, which in zip(pair, wanted, ("smallest", "mean")):
            if not math.isclose(one, right, rel_tol=1e-5):
                return failed(f"{told}: {one:g} as the {which} is {off(one, right)}")
        if len(asked) > 1:
            most = max(sorted(set(asked)), key=asked.count)
            return failed(
                f"the numbers are right, but with {len(values)} losses the device was asked "
                f"{len(asked)} times, most often by {most}"
            )
    return passed("Right, and the device was asked once, however many losses there are.")


# ------------------------------------------------------------------------------ two buffers


class _Log:
    """Streams that run nothing and note everything: what must come before what."""

    def __init__(self):
        self.before: list[set[int]] = []  # for each task the tasks that it waits for, direct ones
        self.tasks: list[tuple[tuple[str, Any], tuple]] = []  # (stream, what), arguments

    def __str__(self) -> str:
        texts = []
        for stream in ("copying", "computing"):
            given = [
                f"{getattr(what, '__name__', what).strip('_')}({', '.join(map(show, arguments))})"
                for (name, what), arguments in self.tasks
                if name == stream
            ]
            more = ", ..." if len(given) > 4 else ""
            texts.append(f"the {stream} stream got {', '.join(given[:4]) or 'nothing'}{more}")
        return "; ".join(texts)

    def add(self, task: tuple[str, Any], arguments: tuple, after: Iterable[int]) -> int:
        self.tasks.append((task, arguments))
        self.before.append(set(after))
        return len(self.tasks) - 1

    def precedes(self, first: int, second: int) -> bool:
        todo, seen = [second], set[int]()
        while todo:
            for task in self.before[todo.pop()] - seen:
                seen.add(task)
                todo.append(task)
        return first in seen


class _LoggedStream:
    def __init__(self, log: _Log, name: str):
        self._log, self._name = log, name
        self._last: int | None = None

    def _add(self, what: Any, arguments: tuple = (), after: tuple = ()) -> int:
        last = () if self._last is None else (self._last,)
        number = self._log.add((self._name, what), arguments, (*last, *after))
        self._last = number
        return number

    def issue(self, fn: Callable, *arguments: Any, name: str | None = None) -> _LoggedResult:
        return _LoggedResult(self._add(fn, arguments))

    def record_event(self) -> _LoggedResult:
        return _LoggedResult(self._add("record_event"))

    def wait_event(self, event: Any) -> None:
        if not isinstance(event, _LoggedResult):
            raise AssertionError(f"wait_event takes what record_event returned, not {show(event)}")
        self._add("wait_event", after=(event.task,))

    def synchronize(self) -> None:
        raise AssertionError("synchronize() makes the host wait; use events between the streams")


class _LoggedResult:
    def __init__(self, task: int):
        self.task = task

    def __repr__(self) -> str:
        return f"<promise {self.task}>"

    def wait(self, *why: str) -> None:
        raise AssertionError("wait() makes the host wait; use events between the streams")

    item = cpu = synchronize = wait


def _copy() -> None:
    """Stands for the copy."""


def _compute() -> None:
    """Stands for the computation."""


def _wrong_order(log: _Log, copies: Sequence[int], computes: Sequence[int]) -> str:
    """What may go wrong, or cannot overlap, in this order; "" where nothing."""
    n = len(copies)
    for i in range(n):
        if not log.precedes(copies[i], computes[i]):
            return f"Computation {i} may read its buffer before copy {i} has arrived"
        if i + 2 < n and not log.precedes(computes[i], copies[i + 2]):
            return f"Copy {i + 2} may overwrite buffer {i % 2} while computation {i} reads it"
        if i + 1 < n and log.precedes(computes[i], copies[i + 1]):
            return (
                f"This is safe, but copy {i + 1} always waits for computation {i}, which uses the "
                "other buffer: nothing overlaps"
            )
    return ""


@checker
def check_two_buffers(two_buffers: Callable[..., list]) -> Feedback:
    """Check a pipeline of copies and computations that takes turns with two buffers.

    Args:
        two_buffers: function of two streams, the hosts' batches, two buffers, and the two tasks.
    """
    for n in (6, 1, 2, 3, 0):
        log = _Log()
        copying, computing = _LoggedStream(log, "copying"), _LoggedStream(log, "computing")
        hosts, buffers = [f"host {i}" for i in range(n)], ["buffer 0", "buffer 1"]
        results = two_buffers(copying, computing, hosts, buffers, _copy, _compute)
        found = {
            name: [i for i, (task, _) in enumerate(log.tasks) if task == (name, fn)]
            for name, fn in (("copying", _copy), ("computing", _compute))
        }
        copies, computes = found["copying"], found["computing"]
        wanted, what = [(buffers[i % 2], hosts[i]) for i in range(n)], f"with {n} batches {log}"
        if [log.tasks[i][1] for i in copies] != wanted:
            return failed(f"{what}. Wanted is a copy of each host i into buffers[i % 2], in order")
        if [log.tasks[i][1] for i in computes] != [(buffer,) for buffer, _ in wanted]:
            return failed(f"{what}. Wanted are computations with buffers[i % 2]")
        promises = as_list(results)
        if promises is None or [getattr(p, "task", None) for p in promises] != computes:
            return failed(
                f"with {n} batches you return {show(results)}; wanted is the list of what the "
                "computing stream's issue returned, in order"
            )
        problem = _wrong_order(log, copies, computes)
        if problem:
            return failed(f"{what}. {problem}")
    return passed("Whatever the speeds: nothing is read too early, nothing overwritten too early.")
