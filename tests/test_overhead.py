"""What the harness does for each call it times: nothing beside the call, and a bare loop round it.

Counted in Python's own steps, not in time: `benchmarks/overhead.py` tells what they cost.
"""

import sys
from itertools import pairwise, repeat

import pytest
from clocks import FakeClock

from d2lperf import benchmark
from d2lperf.benchmark import Subject, compare, measure


def empty():
    """Do nothing."""


def calls_while(task):
    """Names of all that is called, in order: functions of Python's and of C's."""
    names = []

    def note(frame, event, argument):
        if event == "call":
            names.append(frame.f_code.co_name)
        elif event == "c_call":
            names.append(argument.__name__)

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        task()
    finally:
        sys.setprofile(before)
    return names


def steps_in(function, task):
    """How many bytecode instructions `function` executes while the task runs."""
    count = [0]

    def step(frame, event, argument):
        count[0] += event == "opcode"
        return step

    def enter(frame, event, argument):
        if frame.f_code is function.__code__:
            frame.f_trace_opcodes, frame.f_trace_lines = True, False
            return step
        return None

    before = sys.gettrace()
    sys.settrace(enter)
    try:
        task()
    finally:
        sys.settrace(before)
    return count[0]


def bare_loop(fn, loops):
    """The least that Python can do to call a function often."""
    for _ in repeat(None, loops):
        fn()


@pytest.mark.parametrize("waits", [False, True])
def test_between_two_readings_of_the_clock_only_the_function_is_called(waits):
    clock, loops = FakeClock(), 50

    def wait():
        """Stands for the synchronisation of a device."""

    subject = Subject("empty", empty, clock=clock, wait=wait if waits else None)
    names = calls_while(lambda: subject.run(loops))
    first, last = (i for i, name in enumerate(names) if name == "__call__")
    # with a device: once before the clock starts, once before it stops, never in between
    assert names[first + 1 : last] == ["empty"] * loops + ["wait"] * waits
    assert names[:first].count("wait") == waits


def test_a_timed_call_costs_the_steps_of_a_bare_loop():
    subject = Subject("empty", empty, clock=FakeClock(), wait=None)

    def steps_of_100_calls(function, run):
        steps_in(function, lambda: run(1))  # some Pythons count from the second time on
        return steps_in(function, lambda: run(200)) - steps_in(function, lambda: run(100))

    bare = steps_of_100_calls(bare_loop, lambda n: bare_loop(empty, n))
    harness = steps_of_100_calls(Subject.run, subject.run)
    assert bare >= 300  # at the very least: next, call, jump
    assert harness == bare


@pytest.mark.parametrize("several", [False, True])
def test_no_sample_of_measure_and_compare_calls_anything_but_the_function(several, monkeypatch):
    clock = FakeClock()
    # Also where a GPU is in use this function takes no device.
    monkeypatch.setattr(benchmark, "synchronizer", lambda: None)

    def work():
        clock.now += 1e-5

    if several:
        options = {"check": False, "seed": 1, "clock": clock, "cpu_clock": clock.cpu}
        names = calls_while(lambda: compare({"a": work, "b": work}, budget_s=0.05, **options))
    else:
        names = calls_while(lambda: measure(work, clock=clock, budget_s=0.05))
    readings = [i for i, name in enumerate(names) if name == "__call__"]
    between = [names[a + 1 : b] for a, b in pairwise(readings)]
    samples = [part for part in between if part.count("work") > 1]
    assert len(samples) > 20
    assert all(set(part) == {"work"} for part in samples)
    # A sample lasts a quarter of a millisecond, so that two readings are shared by many calls.
    assert {len(part) for part in samples} == {25}
