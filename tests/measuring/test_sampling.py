"""Samples, phases, plans and rounds, on a clock that the tests move by hand."""

import gc
import math
import random
import sys
import threading
import types
from dataclasses import replace
from functools import partial
from itertools import count, pairwise, repeat

import numpy as np
import pytest
import torch
from clocks import fake_compare, fake_measure, with_tools

from d2lperf.measuring.compare import compare, measure
from d2lperf.measuring.instruments import using
from d2lperf.measuring.interference import find_interference
from d2lperf.measuring.sampling import RULES, Plan, Subject, Turns, common_plans, phase_values
from d2lperf.measuring.undisturbed import undisturbed


def subject(clock, fn, name="f", *, rules=RULES, **others):
    return Subject(name, fn, tools=clock.instruments(**others), rules=rules)


# --------------------------------------------------------------------------------- warming up


def test_warm_up_ends_when_three_calls_are_alike(clock):
    first = [0.05, 0.02, 0.01, 0.004]
    work = subject(clock, clock.work(1e-3, first=first))
    assert work.warm_up() == pytest.approx(1e-3)
    assert work.first_calls_s == pytest.approx([*first, 1e-3, 1e-3, 1e-3])


@pytest.mark.parametrize(("call_s", "calls"), [(1e-3, 5), (0.1, 3), (2.0, 2)])
def test_a_slow_function_gets_a_short_warm_up(clock, call_s, calls):
    work = subject(clock, clock.work(call_s))
    work.warm_up()
    assert len(work.first_calls_s) == calls


def test_warm_up_gives_up_on_a_function_that_never_settles(clock):
    short = subject(clock, clock.work(lambda now, call: 1e-6 * 4 ** (call % 4)))
    short.warm_up()
    assert len(short.first_calls_s) == RULES.warm_up_most
    longer = subject(clock, clock.work(lambda now, call: 1e-3 * 4 ** (call % 4)))
    longer.warm_up()
    assert 5 <= len(longer.first_calls_s) < RULES.warm_up_most


def test_a_long_first_call_does_not_cut_the_warm_up_short(clock):
    work = subject(clock, clock.work(1e-3, first=[30.0, 0.02]))
    assert work.warm_up() == pytest.approx(1e-3)
    assert work.first_calls_s[0] == 30.0


def test_warm_up_keeps_to_its_time(clock):
    work = subject(clock, clock.work(0.1))
    work.warm_up(0.15)
    assert len(work.first_calls_s) == 2


@pytest.mark.parametrize("call_s", [1e-6, 1e-4, 3e-3])
def test_a_coarse_clock_costs_neither_millions_of_calls_nor_the_result(clock, call_s):
    """Ticks of 16 ms, as some systems have: a function of 100 µs was called three million times."""
    work = clock.work(call_s)
    coarse = clock.instruments(clock=lambda: math.floor(clock.now / 0.016) * 0.016)
    found = with_tools(coarse, measure, work, budget_s=5)
    assert found.median_s == pytest.approx(call_s, rel=0.15)
    assert clock.now < 7


# -------------------------------------------------------------------------------------- plans


@pytest.mark.parametrize(
    ("call_s", "loops", "settle", "samples"),
    [(1e-5, 25, 25, 5), (0.5e-3, 1, 1, 5), (2e-3, 1, 1, 3), (0.1, 1, 0, 1)],
)
def test_samples_last_a_quarter_of_a_millisecond_and_are_fewer_for_long_calls(
    clock, call_s, loops, settle, samples
):
    plan = subject(clock, clock.work(call_s)).plan(call_s)
    assert (plan.loops, plan.settle, plan.samples) == (loops, settle, samples)


def test_samples_on_a_device_are_longer_and_always_synchronised(clock):
    waits = []
    work = subject(clock, clock.work(1e-5), synchronize=lambda: waits.append(clock.now))
    plan = work.plan(1e-5)
    assert plan.loops == 200
    work.run(plan.loops)
    # Once before the clock starts and once before it stops.
    assert waits == [0.0, pytest.approx(2e-3)]


def test_the_first_call_does_not_pay_for_work_that_is_under_way(monkeypatch):
    log = []
    name = "d2lperf.measuring.sampling.synchronizer"
    monkeypatch.setattr(name, lambda: lambda: log.append("wait"))
    Subject("fn", lambda: log.append("call")).call()
    assert log == ["wait", "call", "wait"]


def test_functions_of_like_speed_get_the_very_same_plan(clock):
    a, b, c = (subject(clock, clock.work(s), n) for n, s in (("a", 1e-5), ("b", 1.4e-5), ("c", 1)))
    plans = common_plans([a, b], {"a": 1e-5, "b": 1.4e-5})
    assert plans["a"] == plans["b"]
    plans = common_plans([a, c], {"a": 1e-5, "c": 1.0})
    assert plans["a"] != plans["c"]
    # Two copies stay alike whatever a third one is like.
    plans = common_plans([a, c, b], {"a": 0.99e-4, "b": 1.01e-4, "c": 1e-3})
    assert plans["a"] == plans["b"] != plans["c"]


def test_a_phase_that_runs_away_ends_at_once(clock):
    stuck = clock.work(lambda now, call: 1e-5 if call <= 30 else 1.0)
    work = subject(clock, stuck)
    plan = Plan(settle=5, loops=5, samples=5, limit_s=1e-3)
    assert work.phase(plan) == pytest.approx([1e-5] * 5)
    assert work.phase(plan) == pytest.approx([1.0])
    assert stuck.calls[0] == 30 + 5


def test_the_values_of_a_phase_are_order_statistics():
    cases = ([5.0, 1.0, 3.0, 2.0, 4.0], [3.0, 1.0, 2.0], [7.0])
    assert [phase_values(x) for x in cases] == [(2.0, 4.0), (2.0, 3.0), (7.0, 7.0)]


# ------------------------------------------------------------------------------------- setup


def test_setup_runs_before_each_sample_and_outside_the_clock(clock):
    log = []

    def setup():
        clock.now += 5.0
        log.append("setup")
        return ["input"]

    def uses_up(given):
        log.append(given.pop())
        clock.now += 1e-3

    found = fake_measure(clock, uses_up, setup=setup, budget_s=100)
    assert found.median_s == pytest.approx(1e-3) and found.loops == 1
    assert log[::2] == ["setup"] * (len(log) // 2) and set(log[1::2]) == {"input"}


def test_a_setup_that_returns_nothing_gives_the_function_no_argument(clock):
    state = []
    fn = lambda: (state.pop(), clock.work(1e-3)())  # noqa: E731
    found = fake_measure(clock, fn, setup=lambda: state.append(1))
    assert found.median_s == pytest.approx(1e-3)
    assert state == []


# ------------------------------------------------------------------------------------- rounds


def turns(clock, functions, call_s=1e-3, seed=0):
    subjects = [subject(clock, fn, name) for name, fn in functions.items()]
    made = Turns(subjects, next(iter(functions)), tools=clock.instruments(seed))
    made.begin(dict.fromkeys(functions, call_s))
    return made


def test_orders_are_mirrored_and_balanced(clock):
    log = []

    def logged(name):
        def run():
            log.append(name)
            clock.now += 1e-3

        return run

    rounds = turns(clock, {name: logged(name) for name in "abc"})
    rounds.plans = {n: Plan(settle=0, loops=1, samples=1, limit_s=1.0) for n in "abc"}
    for _ in range(8):  # after these plans are looked at once more
        rounds.take()
    rounds.plans = {n: Plan(settle=0, loops=1, samples=1, limit_s=1.0) for n in "abc"}
    log.clear()
    for _ in range(600):
        assert rounds.take()
    orders = ["".join(log[i : i + 6]) for i in range(0, len(log), 6)]
    assert all(order == order[::-1] for order in orders)
    firsts = [sum(order[0] == n for order in orders) for n in "abc"]
    assert len(set(orders)) == 6 and all(150 < first < 250 for first in firsts)


def test_a_discarded_round_names_who_ran_beyond_the_plan(clock):
    held_up = clock.work(lambda now, call: 0.02 if call == 50 else 1e-3)
    rounds = turns(clock, {"a": clock.work(1e-3), "b": held_up})
    kept = [rounds.take() for _ in range(12)]
    assert kept.count(False) == 1
    found = rounds.rounds()
    assert found.discarded == [["b"]]
    assert len(found.lower_s["a"]) == len(found.upper_s["b"]) == 11
    assert found.rounds_s == pytest.approx(clock.now)


def test_the_check_for_interference_times_each_function_even_if_the_process_was_stopped(clock):
    rounds = turns(clock, {name: clock.work(1e-3) for name in "ab"})
    assert rounds.take()
    late = replace(rounds.instruments, clock=partial(next, count(0.0, 10.0)))  # 10 s a reading
    rounds.instruments = late
    assert find_interference(rounds) == ""


@pytest.mark.parametrize("factor", [5, 20, 200])
def test_a_load_that_has_come_to_stay_becomes_the_plan(clock, factor):
    later = lambda now, call: 1e-5 * (factor if now > 0.1 else 1)  # noqa: E731
    functions = {"a": clock.work(later), "b": clock.work(lambda n, c: 1.1 * later(n, c))}
    rounds = turns(clock, functions, 1e-5)
    for _ in range(200):
        rounds.take()
    assert len(rounds.kept.discarded) < 25


def test_a_disturbed_warm_up_does_not_part_two_copies(clock):
    """One of two copies looks slow at first; in the rounds that count both get the same calls."""
    late = lambda now, call: 1e-4 * (2.5 if call <= 30 else 1)  # noqa: E731
    functions = {"a": clock.work(1e-4), "b": clock.work(late)}
    found = fake_compare(clock, functions)
    assert found.rounds.loops["a"] == found.rounds.loops["b"]
    assert found["b"].verdict == "no difference"


# --------------------------------------------------------------- leaving things as they were


def draws():
    return torch.rand(1).item(), random.random(), np.random.rand()


def seed_all(seed=7):
    torch.manual_seed(seed)
    random.seed(seed)
    np.random.seed(seed)


@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError, None])
def test_measuring_leaves_no_trace(error):
    threads = torch.get_num_threads()
    seed_all()
    expected = draws()
    seed_all()
    assert gc.isenabled()
    try:
        with undisturbed():
            assert not gc.isenabled()
            torch.set_num_threads(threads + 1)
            torch.set_grad_enabled(False)
            draws()
            if error:
                raise error
    except (KeyboardInterrupt, RuntimeError):
        assert error
    assert torch.get_num_threads() == threads
    assert torch.is_grad_enabled() and gc.isenabled()
    assert draws() == expected


def test_the_collector_stays_off_where_it_was_off():
    gc.disable()
    try:
        with undisturbed():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_measuring_in_a_thread_does_not_rewind_the_generators_of_the_others(clock):
    """While a thread measures the main thread draws; no number may come twice."""
    may_end, measuring = threading.Event(), threading.Event()

    def work():
        clock.now += 1.0
        measuring.set()
        may_end.wait(10)

    found = []
    thread = threading.Thread(target=lambda: found.append(fake_measure(clock, work)))
    seed_all()
    thread.start()
    measuring.wait(10)
    first = draws()
    may_end.set()
    thread.join(10)
    second = draws()
    assert found and not set(first) & set(second)
    seed_all()
    assert (draws(), draws()) == (first, second)


@pytest.fixture
def accelerator(accelerators, monkeypatch):
    """A made-up accelerator of a kind that torch has no module for; its state is a list."""
    module = types.SimpleNamespace(in_use=True, states=["before"], seeds=[])
    module.is_initialized = lambda: module.in_use
    module.get_rng_state_all = lambda: module.states[-1]
    module.set_rng_state_all = module.states.append
    module.manual_seed_all = module.seeds.append
    accelerators(1, "meta")
    monkeypatch.setattr(torch, "get_device_module", lambda device: module)
    return module


def test_random_state_of_any_accelerator_is_put_back(accelerator):
    with undisturbed():
        accelerator.states.append("after")
    assert accelerator.states == ["before", "after", "before"]


def test_an_accelerator_that_comes_into_use_meanwhile_is_seeded_as_if_it_had_not(accelerator):
    accelerator.in_use = False
    torch.manual_seed(11)
    with undisturbed():
        accelerator.in_use = True
    assert accelerator.seeds == [11] and accelerator.states == ["before"]


def test_an_accelerator_without_random_state_is_left_alone(accelerator):
    del accelerator.get_rng_state_all
    with undisturbed():
        pass
    accelerator.get_rng_state = lambda: "one"
    accelerator.set_rng_state = accelerator.states.append
    with undisturbed():
        pass
    assert accelerator.states == ["before", "one"]


def test_cycles_do_not_pile_up_while_the_collector_rests(clock):
    class Node:
        alive = 0

        def __init__(self):
            Node.alive += 1
            self.me = self

        def __del__(self):
            Node.alive -= 1

    most = [0]

    def leaves_a_cycle():
        Node()
        clock.now += 1e-3
        most[0] = max(most[0], Node.alive)

    fake_compare(clock, {"a": leaves_a_cycle, "b": clock.work(1e-3)})
    assert most[0] < 50


# ------------------------------------- what the harness adds to a call: counted in Python's steps


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


@pytest.mark.parametrize("waits", [False, True])
def test_between_two_readings_of_the_clock_only_the_function_is_called(clock, waits):
    loops = 50

    def wait():
        """Stands for the synchronisation of a device."""

    work = subject(clock, empty, synchronize=wait if waits else None)
    names = calls_while(lambda: work.run(loops))
    first, last = (i for i, name in enumerate(names) if name == "__call__")
    # With a device: once before the clock starts, once before it stops, never in between.
    assert names[first + 1 : last] == ["empty"] * loops + ["wait"] * waits
    assert names[:first].count("wait") == waits


@pytest.mark.parametrize("several", [False, True])
def test_no_sample_of_measure_and_compare_calls_anything_but_the_function(clock, several):
    def work():
        clock.now += 1e-5

    with using(clock.instruments(1)):
        if several:
            functions = {"a": work, "b": work}
            names = calls_while(lambda: compare(functions, check=False, budget_s=0.05))
        else:
            names = calls_while(lambda: measure(work, budget_s=0.05))
    readings = [i for i, name in enumerate(names) if name == "__call__"]
    between = [names[a + 1 : b] for a, b in pairwise(readings)]
    samples = [part for part in between if part.count("work") > 1]
    assert len(samples) > 20
    assert all(set(part) == {"work"} for part in samples)
    # A sample lasts a quarter of a millisecond, so that two readings are shared by many calls.
    assert {len(part) for part in samples} == {25}


def steps_in(names, task):
    """How many bytecode instructions the functions of these names execute while the task runs."""
    count = [0]

    def step(frame, event, argument):
        count[0] += event == "opcode"
        return step

    def enter(frame, event, argument):
        if frame.f_code.co_name in names:
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


def test_a_timed_call_costs_the_steps_of_a_bare_loop(clock):
    work = subject(clock, empty)
    harness = {name for name in dir(Subject) if callable(getattr(Subject, name))} - {"__init__"}

    def steps_of_100_calls(names, run):
        steps_in(names, lambda: run(1))  # some Pythons count from the second time on
        return steps_in(names, lambda: run(200)) - steps_in(names, lambda: run(100))

    bare = steps_of_100_calls({"bare_loop"}, lambda n: bare_loop(empty, n))
    assert bare >= 300  # at the very least: next, call, jump
    assert steps_of_100_calls(harness, work.run) == bare
