"""Other processes that keep the cores busy: seen, waited for, and told."""

import math
import os
import time
from contextlib import contextmanager
from typing import NamedTuple

import psutil
import pytest
from clocks import fake_compare, fake_measure, with_tools

from d2lperf.measuring import neighbours, sampling
from d2lperf.measuring.compare import measure
from d2lperf.measuring.defaults import LIMIT_S
from d2lperf.measuring.neighbours import Neighbours, OthersTime, TimeUsed
from d2lperf.measuring.sampling import ISOLATED_RULES, Subject


def regions(clock, count, call_s):
    """A function with so many parallel regions: each waits for a core that is taken."""

    def run():
        clock.now += call_s * (1 + (count if clock.others > 0.5 else 0))

    return run


def run(clock, call_s=1e-3, **options):
    functions = {"one": regions(clock, 1, call_s), "many": regions(clock, 10, call_s)}
    return fake_compare(clock, functions, **options)


def test_functions_with_threads_get_no_verdict_beside_a_steady_load(clock):
    """Attention by hand against one call: 0.95 quiet, "faster 0.25" beside a busy process."""
    clock.cpu_share, clock.others = 2.0, 1.0
    found = run(clock)
    assert found["many"].verdict == "not decided"
    assert found["many"].reason == (
        "other processes keep 1.0 of 2 cores busy; functions with 2 threads cannot be compared "
        "now (threads=1, or wait)"
    )
    assert found.others_cores == pytest.approx(1.0)
    assert "note: other processes kept 1.0 of 2 cores busy meanwhile" in str(found)
    assert found.elapsed_s <= 4
    assert len(found["many"].samples_s) > 10, "nothing is lost"


def apart(clock, threads, waiting, work):
    """Makes subjects as processes of their own do: this process only waits for them."""

    class Remote(Subject):
        @property
        def used(self):
            """Half of what both together have used: both have all of the clock's time."""
            shares = threads, 1.0, waiting, work
            return TimeUsed(*(clock.now * share / 2 for share in shares))

    @contextmanager
    def made(functions, setup):
        tools = clock.instruments()
        yield [
            Remote(name, fn, tools=tools, rules=ISOLATED_RULES) for name, fn in functions.items()
        ]

    return made


@pytest.mark.parametrize(
    ("others", "threads", "waiting", "work", "decided"),
    [
        (1.0, 2.0, math.nan, 1.0, False),
        (1.0, 2.0, 0.5, 1.0, False),
        (1.0, 2.0, 0.04, 0.2, False),  # they rest most of the time, and wait while they work
        (0.0, 2.0, 0.5, 1.0, True),
        (1.0, 1.0, 0.5, 1.0, True),
    ],
    ids=["not known", "they wait", "they rest in turns", "quiet", "one thread"],
)
def test_threads_in_processes_of_their_own_count(
    clock, monkeypatch, others, threads, waiting, work, decided
):
    """isolated=True looked at this process only, which has one thread and waits for nobody."""
    monkeypatch.setitem(sampling.APART, "processes", apart(clock, threads, waiting, work))
    clock.others = others
    idle = clock.instruments(cpu_clock=lambda: 0.0, thread_clock=lambda: 0.0)
    found = run(clock, instruments=idle, isolated=True)
    assert (found["many"].verdict != "not decided") is decided
    if not decided:
        assert found["many"].reason.startswith("other processes keep 1.0 of 2 cores busy; funct")
        assert "note: other processes kept 1.0 of 2 cores busy meanwhile" in str(found)


def test_functions_that_only_a_neighbour_makes_slow_get_no_more_time(clock):
    """So slow beside it that an interval would need more than the usual limit."""
    clock.cpu_share, clock.others = 2.0, 1.0
    found = run(clock, call_s=0.03)
    assert found["many"].verdict == "not decided"
    assert found.elapsed_s <= 2 * LIMIT_S


@pytest.mark.parametrize(
    ("waiting", "others", "decided"),
    [(1.0, 1.0, False), (0.01, 1.0, True), (0.5, 0.0, True)],
    ids=["a neighbour has the core", "the neighbour is on another core", "our own threads"],
)
def test_where_the_system_tells_how_long_threads_wait_that_counts(clock, waiting, others, decided):
    clock.cpu_share, clock.waiting, clock.others = 2.0, waiting, others
    functions = {"a": clock.work(1e-4), "b": clock.work(1e-4)}
    found = fake_compare(clock, functions, instruments=clock.instruments(cores=lambda: 4))
    assert (found["b"].verdict == "no difference") is decided


def test_functions_with_one_thread_are_compared_all_the_same(clock):
    clock.others = 1.0
    found = run(clock)
    assert found["many"].verdict == "slower"
    assert "note: other processes" not in str(found), "one core was left"
    clock.others = 1.9
    assert "note: other processes kept 1.9 of 2 cores busy" in str(run(clock))


def test_a_quiet_stretch_is_waited_for(clock):
    """The neighbour is at work for the first second."""
    clock.cpu_share = 2.0
    busy_s = []

    def others():
        busy_s.append(min(clock.now, 1.0))
        clock.others = 1.0 if clock.now < 1.0 else 0.0
        return busy_s[-1]

    clock.others = 1.0
    found = run(clock, instruments=clock.instruments(others_clock=others))
    assert found["many"].verdict == "no difference" and found.elapsed_s > 1.0
    assert found["many"].discarded > 0 and found["many"].ratio == pytest.approx(1.0, abs=0.01)


@pytest.mark.parametrize("budget_s", [0.5, 5.0], ids=["before the warm-up", "after it"])
def test_a_budget_that_is_too_small_hides_no_neighbour(clock, budget_s):
    """A slow function on a busy machine was told about the budget alone."""
    clock.cpu_share, clock.others = 2.0, 1.0
    functions = {name: clock.work(0.6, first=[0.6, 0.5]) for name in "ab"}
    found = fake_compare(clock, functions, budget_s=budget_s)
    assert "budget_s=" in found["b"].reason
    assert found.others_cores == pytest.approx(1.0)
    assert "note: other processes kept 1.0 of 2 cores busy meanwhile" in str(found)


def test_a_moment_does_not_tell_how_busy_others_are(clock):
    """Processor time of others comes in steps of 10 ms: one of them looks like a whole core."""
    steps = clock.instruments(others_clock=lambda: 0.01 if clock.now else 0.0)
    found = with_tools(steps, measure, clock.work(1e-4), budget_s=0.01)
    assert found.others_cores is None and "note" not in str(found)


def test_measure_keeps_what_others_did(clock):
    clock.cpu_share, clock.others = 2.0, 1.0
    found = fake_measure(clock, clock.work(1e-2))
    assert found.others_cores == pytest.approx(1.0)
    assert "note: other processes kept 1.0 of 2 cores busy" in str(found)


def test_a_system_that_does_not_tell_is_said_once(clock, monkeypatch):
    monkeypatch.setattr(neighbours, "_said", set())
    silent = clock.instruments(others_clock=lambda: math.nan)
    first, second = (with_tools(silent, measure, clock.work(1e-4)) for _ in "ab")
    assert first.others_cores is None
    assert "cannot be seen on this system" in str(first)
    assert "cannot be seen" not in str(second)


@pytest.mark.parametrize(("cpu_share", "threads"), [(1.0, 1), (1.05, 1), (1.5, 2), (2.0, 2)])
def test_threads_are_counted_by_their_processor_time(clock, cpu_share, threads):
    seen = Neighbours(clock.instruments())
    clock.cpu_share = cpu_share
    clock.now += 1.0
    assert seen.threads == threads


class Core(NamedTuple):
    """Seconds of a core, as psutil has them on Linux."""

    user: float
    system: float
    idle: float = 1000.0
    iowait: float = 100.0
    guest: float = 10.0  # part of "user"


class Times(NamedTuple):
    """Seconds of a process, as psutil has them."""

    user: float
    system: float
    children_user: float = 0.0  # of those that have ended
    children_system: float = 0.0


class Process:
    """A process of psutil's."""

    def __init__(self, times, children=()):
        self._times, self._children = times, list(children)

    def cpu_times(self):
        if self._times is None:
            raise psutil.NoSuchProcess(1)
        return self._times

    def children(self, recursive):
        return self._children if recursive else []


def test_the_time_of_others_counts_neither_our_own_nor_our_childrens(monkeypatch):
    """With four cores or more the same test with real processes could not fail."""
    children = [Process(Times(5, 2)), Process(None)]  # one has just ended
    monkeypatch.setattr(psutil, "Process", lambda: Process(Times(9, 2, 4, 1), children))
    monkeypatch.setattr(time, "process_time", lambda: 11.0)
    cores = [Core(30, 7), Core(20, 3), Core(500, 0)]
    monkeypatch.setattr(psutil, "cpu_times", lambda percpu: cores)
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {0, 1}, raising=False)
    assert OthersTime()() == (30 + 7 + 20 + 3) - 11 - (4 + 1) - (5 + 2)
