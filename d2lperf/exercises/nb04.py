"""Checkers of notebook 04, automatic parallelism. None judges by a clock: tasks have to meet."""

from __future__ import annotations

import math
import random
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Any, NamedTuple

from d2lperf.exercises import Feedback, checker, failed, passed, show
from d2lperf.exercises.patience import MEETING_S, NeverEnds, meeting, within_patience
from d2lperf.exercises.values import as_list, close, off
from d2lperf.timeline import Timeline

__all__ = [
    "check_diagnose",
    "check_in_groups",
    "check_most_at_once",
    "check_pipeline",
    "check_run_graph",
    "check_waited_for",
]

# ------------------------------------------------------------------------------ most_at_once

# what, (name, start, duration, lane), most lanes at once
_TIMELINES: list[tuple[str, list[tuple], int]] = [
    ("one lane", [("a", 0, 1, "A"), ("b", 1, 1, "A")], 1),
    ("two lanes that take turns", [("a", 0, 1, "A"), ("b", 1, 1, "B"), ("c", 2, 1, "A")], 1),
    ("two lanes that overlap", [("a", 0, 2, "A"), ("b", 1, 2, "B")], 2),
    (
        "a span inside another of its lane",
        [("linear", 0, 4, "A"), ("addmm", 1, 2, "A"), ("b", 5, 1, "B")],
        1,
    ),
    (
        "three lanes, of which two overlap at a time",
        [("a", 0, 2, "A"), ("b", 1, 2, "B"), ("c", 2, 2, "C"), ("d", 4, 1, "A")],
        2,
    ),
    (
        "three lanes that all overlap once, late",
        [("a", 0, 1, "A"), ("b", 2, 4, "B"), ("c", 3, 2, "C"), ("d", 3.5, 0.25, "A")],
        3,
    ),
    (
        "two lanes, the first ends long after the second",
        [("a", 0, 8, "A"), ("b", 1, 1, "B"), ("c", 3, 1, "B"), ("d", 5, 1, "B")],
        2,
    ),
    ("one ends at 0.1 + 0.2 and one begins at 0.3", [("a", 0.1, 0.2, "A"), ("b", 0.3, 1, "B")], 1),
]


def _spans_text(spans: Sequence[tuple]) -> str:
    """Spans as a learner can draw them."""
    return ", ".join(
        f"{name} {start:g} to {start + s:g} in {lane}" for name, start, s, lane in spans
    )


@checker
def check_most_at_once(most_at_once: Callable[[Timeline], int]) -> Feedback:
    """Check a count of the lanes in which something went on at the same moment.

    Args:
        most_at_once: function of a timeline that returns a number.
    """
    for what, spans, right in _TIMELINES:
        found = most_at_once(Timeline.from_spans(spans))
        if not close(found, right):
            return failed(
                f"{what} ({_spans_text(spans)}): you return {show(found)}, {off(found, right)}"
            )
    return passed(f"{len(_TIMELINES)} timelines: with this you can see what runs in parallel.")


# --------------------------------------------------------------------------------- in_groups


class _Pool(ThreadPoolExecutor):
    """Two threads; counts what is submitted, and how much was when a result was first asked for."""

    def __init__(self) -> None:
        super().__init__(2, "pool")
        self.submitted = 0
        self.when_asked: int | None = None

    def submit(self, fn: Callable, /, *args: Any, **kwargs: Any) -> Future:
        self.submitted += 1
        future = super().submit(fn, *args, **kwargs)
        real = future.result

        def result(timeout: float | None = None) -> Any:
            if self.when_asked is None:
                self.when_asked = self.submitted
            return real(timeout)

        future.result = result  # type: ignore[method-assign]
        return future


@checker
def check_in_groups(in_groups: Callable[[list, ThreadPoolExecutor, int], list]) -> Feedback:
    """Check a function that hands operations to a pool in groups.

    Args:
        in_groups: function of a list of functions, an executor and the size of a group that
            returns the list of their results.
    """
    for n, size in ((6, 2), (7, 3), (4, 8), (5, 1)):
        threads: list[str] = []

        def operation(k: int, threads: list[str] = threads) -> int:
            threads.append(threading.current_thread().name)
            return k * k

        operations: list[Callable[[], int]] = [partial(operation, k) for k in range(n)]
        with _Pool() as pool:
            found = in_groups(operations, pool, size)
        what = f"{n} operations in groups of {size}; number k returns k * k"
        if as_list(found) != [k * k for k in range(n)]:
            return failed(
                f"{what}: you return {show(found)}, which are not all results in their order"
            )
        if not all(name.startswith("pool") for name in threads):
            here = sum(not name.startswith("pool") for name in threads)
            return failed(f"{what}: {here} ran in the calling thread and not in the pool")
        groups = math.ceil(n / size)
        if pool.submitted != groups:
            return failed(f"{what}: the pool got {pool.submitted} tasks, not one for each group")
        if pool.when_asked is not None and pool.when_asked < groups:
            return failed(
                f"{what}: you waited for a result when only {pool.when_asked} task(s) had "
                "been handed over, so the others could not start"
            )
    last = threading.Event()  # the first group ends after the last one

    def end() -> int:
        last.set()
        return 3

    with _Pool() as pool:
        found = in_groups([lambda: last.wait(MEETING_S), lambda: 1, lambda: 2, end], pool, 2)
    if as_list(found) != [True, 1, 2, 3]:
        return failed(
            "4 operations in groups of 2, of which the second group ends first: you return "
            f"{show(found)}, which is not in the order of the list"
        )
    return passed("As few tasks as possible, all handed over before the first wait.")


# ---------------------------------------------------------------------------------- pipeline


def _span_of(tasks: Mapping[str, Any], lanes: Sequence[str]) -> tuple[float, dict[str, float]]:
    """How long the greedy schedule takes, and when each task starts."""
    ahead: dict[str, float] = {}
    for name in reversed(list(tasks)):
        after = [ahead[n] for n in ahead if name in tasks[n].needs]
        ahead[name] = tasks[name].cost + max(after, default=0)
    free = dict.fromkeys(lanes, 0.0)
    end: dict[str, float] = {}
    start: dict[str, float] = {}
    while len(end) < len(tasks):
        options = []
        for name, task in tasks.items():
            if name not in end and all(need in end for need in task.needs):
                ready = max((end[need] for need in task.needs), default=0.0)
                options.append((max(ready, free[task.lane]), -ahead[name], name))
        begin, _, name = min(options)
        start[name] = begin
        free[tasks[name].lane] = end[name] = begin + tasks[name].cost
    return max(end.values()), start


@checker
def check_pipeline(pipeline: Callable[[int, float, float, float], Mapping[str, Any]]) -> Feedback:
    """Check the graph of batches that are prepared, moved and computed with.

    Args:
        pipeline: function of the number of batches and three costs that returns tasks by name,
            each with a cost, needs and a lane.
    """
    for n, *costs in ((1, 1, 2, 3), (4, 1, 1, 1), (5, 1, 2, 4), (5, 4, 2, 1), (3, 1, 5, 2)):
        tasks = pipeline(n, *costs)
        call = f"pipeline({n}, {', '.join(map(str, costs))})"
        if not isinstance(tasks, Mapping):
            return failed(f"{call} gave {show(tasks)}, which is not a dictionary of tasks")
        problem = _wrong_tasks(tasks, n, costs) or _wrong_order(tasks) or _wrong_batches(tasks)
        if problem:
            return failed(f"{call}: {problem}")
        taken, _ = _span_of(tasks, _LANES)
        if taken > sum(costs) + (n - 1) * max(costs):
            return failed(
                f"the schedule of {call} takes {taken:g}, and a shorter one is possible: some "
                "task waits for a result that it does not use"
            )
    return passed("The first batch takes the sum; each further one takes the slowest of the three.")


_LANES = ("CPU", "bus", "GPU")


def _wrong_tasks(tasks: Mapping[str, Any], n: int, costs: Sequence[float]) -> str:
    """What is wrong with the number of tasks and their costs; "" where nothing is."""
    for k, (lane, cost) in enumerate(zip(_LANES, costs)):
        here = [task for task in tasks.values() if task.lane == lane]
        if len(here) != n:
            return f"there are {len(here)} tasks in the lane {lane!r}, not one for each batch"
        for task in here:
            if task.cost != cost:
                return (
                    f"every task in the lane {lane!r} costs argument {k + 2}, but one costs "
                    f"{show(task.cost)}"
                )
    others = sorted({str(task.lane) for task in tasks.values()} - set(_LANES))
    return f"no task belongs in the lane {others[0]!r}" if others else ""


def _wrong_order(tasks: Mapping[str, Any]) -> str:
    """Which task stands before one that it needs; "" where none does."""
    known: set[str] = set()
    for name, task in tasks.items():
        for need in task.needs:
            if need not in known:
                return f"{name!r} needs {need!r}, which does not stand before"
        known.add(name)
    return ""


def _wrong_batches(tasks: Mapping[str, Any]) -> str:
    """Which lane does not wait for its own batch; "" where all do."""
    for lane, before in (("bus", "CPU"), ("GPU", "bus")):
        sources: dict[tuple, str] = {}
        for name, task in tasks.items():
            if task.lane != lane:
                continue
            needed = tuple(need for need in task.needs if tasks[need].lane == before)
            told = f"{name!r}, which is in the lane {lane!r}, needs {show(task.needs)}"
            if not needed:
                return f"{told}, so it does not wait for its batch from {before!r}"
            if needed in sources:
                return f"{told}, the same from {before!r} as {sources[needed]!r}"
            sources[needed] = name
    return ""


# -------------------------------------------------------------------------------- waited_for

# what, spans, the answer for the lane "gpu"
_WAITS: list[tuple[str, list[tuple], tuple[float, float, str]]] = [
    (
        "a gap in the middle",
        [("step", 0, 1, "gpu"), ("decode", 1, 3, "cpu"), ("step", 4, 2, "gpu")],
        (1, 4, "decode"),
    ),
    (
        "two gaps, the second is longer",
        [
            ("step 0", 0, 1, "gpu"),
            ("log", 1, 0.5, "cpu"),
            ("step 1", 1.5, 1, "gpu"),
            ("save", 2.5, 2, "disk"),
            ("step 2", 4.5, 1, "gpu"),
        ],
        (2.5, 4.5, "save"),
    ),
    (
        "a gap before the lane's first span",
        [("start", 0, 4, "cpu"), ("a", 4, 1, "gpu"), ("b", 5, 1, "cpu"), ("c", 6, 1, "gpu")],
        (0, 4, "start"),
    ),
    (
        "a gap that one long span only touches",
        [
            ("long", 0, 4.5, "cpu"),
            ("step 0", 0, 4, "gpu"),
            ("copy", 4.5, 2, "bus"),
            ("step 1", 6.5, 1, "gpu"),
        ],
        (4, 6.5, "copy"),
    ),
    (
        "a gap inside a longer span",
        [
            ("train", 0, 1, "gpu"),
            ("wait", 0.5, 4, "cpu"),
            ("note", 2, 0.5, "disk"),
            ("train", 4, 1, "gpu"),
        ],
        (1, 4, "wait"),
    ),
    (
        "a gap after the lane's last span",
        [("a", 0, 1, "gpu"), ("save", 1, 3, "cpu")],
        (1, 4, "save"),
    ),
    (
        "a timeline that begins at 5 s",
        [("start", 5, 1, "cpu"), ("a", 6, 1, "gpu"), ("load", 7, 2, "cpu"), ("b", 9, 1, "gpu")],
        (7, 9, "load"),
    ),
]


@checker
def check_waited_for(waited_for: Callable[[Timeline, str], tuple[float, float, str]]) -> Feedback:
    """Check a function that finds the longest gap of a lane and what ran meanwhile.

    Args:
        waited_for: function of a timeline and a lane that returns start and end of the gap in
            seconds, and the name of the span that fills most of it.
    """
    for what, spans, right in _WAITS:
        found = waited_for(Timeline.from_spans(spans), "gpu")
        gap = as_list(found, 3)
        call = f"{what} ({_spans_text(spans)}): you return {show(found)}"
        if gap is None:
            return failed(f"{call}; wanted is (start_s, end_s, name)")
        if not all(map(close, gap[:2], right[:2])):
            return failed(f"{call}; this is not the longest gap of 'gpu' in the timeline")
        if gap[2] != right[2]:
            return failed(f"{call}; the gap is right, but {show(gap[2])} does not fill most of it")
    return passed(f"{len(_WAITS)} gaps and their reasons. On a real trace it is the same look.")


# --------------------------------------------------------------------------------- run_graph


class _Graph(NamedTuple):
    """Tasks by name: functions, what each needs, right results; and the calls so far."""

    work: dict[str, Callable]
    needs: dict[str, list[str]]
    right: dict[str, int]
    calls: list[str]


def _random_graph(seed: int, n: int) -> _Graph:
    rng, names = random.Random(seed), [f"t{k}" for k in range(n)]
    calls: list[str] = []
    needs = {
        name: sorted(rng.sample(names[:k], min(k, rng.randrange(4))))
        for k, name in enumerate(names)
    }

    def task(name: str, k: int) -> Callable:
        def call(*inputs: int) -> int:
            calls.append(name)
            return k + sum((i + 2) * value for i, value in enumerate(inputs)) % 1009

        return call

    work = {name: task(name, k) for k, name in enumerate(names)}
    right: dict[str, int] = {}
    for name in names:
        right[name] = work[name](*(right[need] for need in needs[name]))
    calls.clear()
    return _Graph(work, needs, right, calls)


class _Broken(Exception):
    """An error that a task raises on purpose."""


@checker
def check_run_graph(run_graph: Callable[[Mapping, Mapping, int], Mapping]) -> Feedback:
    """Check a function that carries out a graph of tasks with threads.

    Args:
        run_graph: function of functions by name, needs by name and the number of threads that
            returns results by name.
    """
    try:
        return _run_graph_feedback(run_graph)
    except NeverEnds:
        return failed("it does not come to an end: does something wait for what never happens?")
    except threading.BrokenBarrierError:
        return failed(
            "two tasks that were ready, with two workers, never ran at the same time: one waits "
            "for a worker that a task holds which only waits"
        )


def _waits_for_a_level(run_graph: Callable) -> str:
    """Whether a task waits for others of its level which it does not need; "" where not."""
    meet = meeting()
    work = {"slow": meet, "quick": lambda: 1, "after quick": meet}
    try:
        needs = {"slow": [], "quick": [], "after quick": ["quick"]}
        within_patience(lambda: run_graph(work, needs, 2))
    except threading.BrokenBarrierError:
        return (
            "with two workers, 'after quick', which needs only 'quick', did not start while 'slow' "
            "was under way: does it wait for tasks whose results it does not need?"
        )
    return ""


def _run_graph_feedback(run_graph: Callable) -> Feedback:
    for seed, n, workers in ((0, 1, 1), (1, 8, 2), (2, 20, 3), (3, 20, 1)):
        work, needs, right, calls = _random_graph(seed, n)
        found = within_patience(partial(run_graph, work, needs, workers))
        what = f"{n} tasks with {workers} worker(s)"
        if not isinstance(found, Mapping) or set(found) != set(right):
            return failed(f"{what}: you return {show(found)}; wanted are all results by name")
        if sorted(calls) != sorted(work):
            return failed(f"{what}: {len(calls)} calls of tasks were made; each must run once")
        wrong = [name for name in right if found[name] != right[name]]
        if wrong:
            return failed(
                f"{what}: {wrong[0]!r}, which needs {show(needs[wrong[0]])}, has the result "
                f"{show(found[wrong[0]])}, another one than in a sequential run: it must get the "
                "results of its needs, in their order"
            )

    problem = _waits_for_a_level(run_graph)
    if problem:
        return failed(problem)
    meet = meeting()  # "later" needs the first, and must not keep "second" waiting
    work = {"first": meet, "later": lambda value: value, "second": meet}
    needs = {"first": [], "later": ["first"], "second": []}
    within_patience(lambda: run_graph(work, needs, 2))
    meet = meeting()
    work = {"root": lambda: 1, "left": meet, "right": meet, "end": lambda a, b: a + b}
    needs = {"root": [], "left": ["root"], "right": ["root"], "end": ["left", "right"]}
    within_patience(lambda: run_graph(work, needs, 2))

    active, most, lock = 0, 0, threading.Lock()

    def crowd() -> None:
        nonlocal active, most
        with lock:
            active += 1
            most = max(most, active)
        time.sleep(0.01)
        with lock:
            active -= 1

    names = [f"t{k}" for k in range(8)]
    within_patience(lambda: run_graph(dict.fromkeys(names, crowd), {n: [] for n in names}, 2))
    if most > 2:
        return failed(f"of {len(names)} tasks, {most} ran at the same time, with two workers")

    def broken() -> None:
        raise _Broken("on purpose")

    try:
        found = within_patience(
            lambda: run_graph({"a": broken, "b": lambda a: a}, {"a": [], "b": ["a"]}, 2)
        )
    except _Broken:
        return passed("The right results, side by side where possible, and errors come through.")
    return failed(f"task 'a' raised an error, but you return {show(found)} and raise nothing")


# ---------------------------------------------------------------------------------- diagnose


def _amdahl_times(s: float, counts: Iterable[int], overhead: float = 0.0) -> dict[int, float]:
    return {p: 8 * (s + (1 - s) / p + overhead * (p - 1)) for p in counts}


@checker
def check_diagnose(diagnose: Callable[[Mapping[int, float]], tuple[dict, str]]) -> Feedback:
    """Check a diagnosis of measured times by the serial fraction of Karp and Flatt.

    Args:
        diagnose: function of seconds by number of threads that returns the fractions by number of
            threads, and "serial part", "overhead" or "impossible".
    """
    counts = (1, 2, 4, 8)
    cases = [
        ("a serial part of a tenth", _amdahl_times(0.1, counts), "serial part"),
        ("no serial part at all", _amdahl_times(0.0, counts), "serial part"),
        ("two threads only", {1: 8.0, 2: 4.4}, "serial part"),
        ("each thread costs the others something", _amdahl_times(0.05, counts, 0.02), "overhead"),
        ("twelve times as fast with eight threads", {1: 12.0, 2: 6.5, 8: 1.0}, "impossible"),
        ("a little luck with two threads", {1: 8.0, 2: 3.9, 4: 2.1}, "overhead"),
        ("too fast with two, slow with eight", {1: 8.0, 2: 3.0, 8: 4.0}, "impossible"),
        ("worst in the middle", {1: 8.0, 2: 4.8, 4: 4.4, 8: 2.4}, "serial part"),
        ("best with most threads", {1: 8.0, 2: 5.0, 4: 3.0, 8: 1.2}, "serial part"),
        ("most threads first", _amdahl_times(0.05, counts[::-1], 0.02), "overhead"),
    ]
    for what, times, word in cases:
        found = diagnose(dict(times))
        given = {p: round(seconds, 4) for p, seconds in times.items()}
        what = f"{what}: for {given}"
        pair = as_list(found, 2)
        if pair is None or not isinstance(pair[0], Mapping):
            return failed(f"{what} you return {show(found)}; wanted is a pair (fractions, word)")
        fractions, said = pair
        right = {
            p: (seconds / times[1] - 1 / p) / (1 - 1 / p) for p, seconds in times.items() if p > 1
        }
        if set(fractions) != set(right):
            return failed(
                f"{what} you return fractions for {show(sorted(fractions))} threads; wanted are "
                "all numbers of threads above 1"
            )
        for p in sorted(right):
            if not close(fractions[p], right[p]):
                return failed(
                    f"{what} and {p} threads you return the fraction {show(fractions[p])}, which "
                    f"is {off(fractions[p], right[p])}"
                )
        if said != word:
            shown = {p: round(f, 3) for p, f in right.items()}
            return failed(
                f"{what} the fractions {shown} are right, but {show(said)} is not the word"
            )
    return passed("Serial part, overhead, and what cannot be, told apart.")
