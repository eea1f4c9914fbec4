"""The logic of measuring, on a clock that the tests move by hand."""

import gc
import math
import random
import sys
from typing import NamedTuple

import numpy as np
import pytest
import streams
import torch
from clocks import FakeClock

from d2lperf import benchmark as bm
from d2lperf import stats
from d2lperf.benchmark import Benchmark, ClockTooCoarse, ResultsDiffer, Timer, compare, measure
from d2lperf.results import Comparison, interval_confidence, log_ratios


@pytest.fixture
def clock(monkeypatch):
    # Also where a GPU is in use these functions take no device, so that their plans are the same.
    monkeypatch.setattr(bm, "synchronizer", lambda: None)
    return FakeClock()


def fake_compare(clock, functions, **options):
    options = {"check": False, "seed": 0, "clock": clock, "cpu_clock": clock.cpu, **options}
    return compare(functions, **options)


# ----------------------------------------------------------------------------- Timer, Benchmark


def test_timer_keeps_laps(clock):
    timer = Timer(clock=clock)
    for lap in (1.0, 2.0, 6.0):
        timer.start()
        clock.now += lap
        assert timer.stop() == lap
    assert timer.times == [1.0, 2.0, 6.0]
    assert (timer.avg(), timer.sum(), timer.cumsum()) == (3.0, 9.0, [1.0, 3.0, 9.0])


def test_timer_starts_when_it_is_made(clock):
    timer = Timer(clock=clock)
    clock.now += 5
    assert timer.stop() == 5


def test_timer_waits_for_devices_before_and_after(clock):
    waits = []

    def synchronize():
        waits.append(clock.now)
        clock.now += 1

    timer = Timer(clock=clock, synchronize=synchronize)
    clock.now += 5
    assert timer.stop() == 6  # the work, and the wait for it
    assert waits == [0, 6]


def test_timer_without_laps_says_so():
    with pytest.raises(ValueError, match="no lap yet"):
        Timer().avg()
    assert Timer().sum() == 0 and Timer().cumsum() == []


def test_benchmark_prints_as_the_book_does(clock, capsys):
    with Benchmark("eager", clock=clock) as bench:
        clock.now += 0.12345
    assert capsys.readouterr().out == "eager: 0.1235 sec\n"
    assert bench.elapsed_s == pytest.approx(0.12345)
    with Benchmark(clock=clock):
        pass
    assert capsys.readouterr().out == "Done: 0.0000 sec\n"


def test_benchmark_waits_for_devices_before_and_after(clock):
    def synchronize():
        clock.now += 1  # a queue that takes a second to drain

    with Benchmark("queue", clock=clock, synchronize=synchronize) as bench:
        clock.now += 0.5
    # The first wait is over before the clock starts, the second belongs to the block.
    assert bench.elapsed_s == 1.5


def test_benchmark_prints_and_lets_the_error_through(clock, capsys):
    bench = Benchmark("broken", clock=clock)
    with pytest.raises(ZeroDivisionError), bench:
        clock.now += 2
        1 / 0  # noqa: B018
    assert capsys.readouterr().out == "broken: 2.0000 sec\n"
    assert bench.elapsed_s == 2


def test_benchmark_shows_the_blocks_error_when_the_device_fails_too(clock):
    calls = []

    def synchronize():
        calls.append(1)
        if len(calls) == 2:
            raise RuntimeError("device lost")

    with pytest.raises(ZeroDivisionError), Benchmark(clock=clock, synchronize=synchronize):
        1 / 0  # noqa: B018


def test_benchmark_raises_when_only_the_device_fails(clock):
    calls = []

    def synchronize():
        calls.append(1)
        if len(calls) == 2:
            raise RuntimeError("device lost")

    with (
        pytest.raises(RuntimeError, match="device lost"),
        Benchmark(clock=clock, synchronize=synchronize),
    ):
        pass


@pytest.mark.parametrize("how", streams.KINDS)
def test_benchmark_outlives_a_closed_stdout(monkeypatch, clock, how):
    monkeypatch.setattr(sys, "stdout", streams.unwritable(how))
    with Benchmark("quiet", clock=clock) as bench:
        clock.now += 3
    assert bench.elapsed_s == 3


# --------------------------------------------------------------------------------- warming up


def subject(clock, fn, name="f"):
    return bm.Subject(name, fn, clock=clock, wait=None)


def test_warm_up_ends_when_three_calls_are_alike(clock):
    first = [0.05, 0.02, 0.01, 0.004]
    work = subject(clock, clock.work(1e-3, first=first))
    assert work.warm_up() == pytest.approx(1e-3)
    assert work.first_calls_s == pytest.approx([*first, 1e-3, 1e-3, 1e-3])


def test_warm_up_takes_at_least_five_calls(clock):
    work = subject(clock, clock.work(1e-3))
    work.warm_up()
    assert len(work.first_calls_s) == 5


def test_warm_up_of_a_slow_function_gets_by_with_three(clock):
    work = subject(clock, clock.work(2.0))
    work.warm_up()
    assert len(work.first_calls_s) == 3


def test_warm_up_gives_up_on_a_function_that_never_settles(clock):
    short = subject(clock, clock.work(lambda now, call: 1e-6 * 4 ** (call % 4)))
    short.warm_up()
    assert len(short.first_calls_s) == bm.RULES.warm_up_most
    longer = subject(clock, clock.work(lambda now, call: 1e-3 * 4 ** (call % 4)))
    longer.warm_up()
    assert 5 <= len(longer.first_calls_s) < bm.RULES.warm_up_most


def test_a_long_first_call_does_not_cut_the_warm_up_short(clock):
    work = subject(clock, clock.work(1e-3, first=[30.0, 0.02]))
    assert work.warm_up() == pytest.approx(1e-3)
    assert work.first_calls_s[0] == 30.0


def test_a_clock_that_does_not_move_is_told(clock):
    work = bm.Subject(
        "nothing", clock.work(0.0), clock=clock, wait=None, rules=bm.Rules(most_loops=64)
    )
    with pytest.raises(ClockTooCoarse, match=r"'nothing' was called 64 times.*\n?.*loop inside"):
        work.warm_up()


def test_a_function_far_below_the_clocks_step_gets_many_loops(clock):
    step = 1e-3
    coarse = lambda: math.floor(clock.now / step) * step  # noqa: E731
    work = bm.Subject("tiny", clock.work(1e-6), clock=coarse, wait=lambda: None)
    estimate = work.warm_up()
    assert estimate == pytest.approx(1e-6, rel=0.6)


# -------------------------------------------------------------------------------------- plans


def test_samples_last_a_quarter_of_a_millisecond(clock):
    plan = subject(clock, clock.work(1e-5)).plan(1e-5)
    assert (plan.loops, plan.samples, plan.settle) == (25, 5, 25)


@pytest.mark.parametrize(
    ("call_s", "settle", "samples"), [(0.5e-3, 1, 5), (2e-3, 1, 3), (0.1, 0, 1)]
)
def test_long_calls_get_fewer_samples(clock, call_s, settle, samples):
    plan = subject(clock, clock.work(call_s)).plan(call_s)
    assert (plan.loops, plan.settle, plan.samples) == (1, settle, samples)


def test_samples_on_a_device_are_longer_and_always_synchronised(clock):
    waits = []
    work = bm.Subject("gpu", clock.work(1e-5), clock=clock, wait=lambda: waits.append(clock.now))
    plan = work.plan(1e-5)
    assert plan.loops == 200
    work.run(plan.loops)
    # Once before the clock starts and once before it stops.
    assert waits == [0.0, pytest.approx(2e-3)]


def test_functions_of_like_speed_get_the_very_same_plan(clock):
    a, b, c = (subject(clock, clock.work(s), n) for n, s in (("a", 1e-5), ("b", 1.4e-5), ("c", 1)))
    plans = bm._common_plans([a, b], {"a": 1e-5, "b": 1.4e-5})
    assert plans["a"] == plans["b"]
    plans = bm._common_plans([a, c], {"a": 1e-5, "c": 1.0})
    assert plans["a"] != plans["c"]
    # Two copies stay alike whatever a third one is like.
    plans = bm._common_plans([a, c, b], {"a": 0.99e-4, "b": 1.01e-4, "c": 1e-3})
    assert plans["a"] == plans["b"] != plans["c"]


def test_a_phase_that_runs_away_ends_at_once(clock):
    stuck = clock.work(lambda now, call: 1e-5 if call <= 30 else 1.0)
    work = subject(clock, stuck)
    plan = bm.Plan(settle=5, loops=5, samples=5, limit_s=1e-3)
    assert work.phase(plan) == pytest.approx([1e-5] * 5)
    assert work.phase(plan) == pytest.approx([1.0])
    assert stuck.calls[0] == 30 + 5


def test_phase_value_is_an_order_statistic():
    assert bm._phase_value([5.0, 1.0, 3.0, 2.0, 4.0], 0.25) == 2.0
    assert bm._phase_value([3.0, 1.0, 2.0], 0.25) == 1.0
    assert bm._phase_value([7.0], 0.25) == 7.0
    assert [bm._upper_value(x) for x in ([5, 1, 3, 2, 4], [3, 1, 2], [7])] == [4, 3, 7]


# ------------------------------------------------------------------------------------ measure


def test_measure_tells_first_calls_from_the_rest(clock):
    found = measure(clock.work(1e-4, first=[0.5, 0.01]), clock=clock)
    assert found.first_call_s == 0.5
    assert found.median_s == pytest.approx(1e-4)
    assert found.loops == 2 or found.loops == 3
    assert found.interval_s == pytest.approx((1e-4, 1e-4))
    assert found.machine is not None


def test_measure_stops_when_it_knows_enough_and_at_the_budget(clock):
    steady = measure(clock.work(1e-4), clock=clock)
    assert len(steady.phases_s) == 8
    noisy = measure(
        clock.work(lambda now, call: 1e-4 * random.Random(call).uniform(1, 3)),
        clock=clock,
        budget_s=0.3,
    )
    assert len(noisy.phases_s) > 8 and noisy.elapsed_s < 0.5


def test_measure_of_a_slow_function_still_has_an_interval(clock):
    found = measure(clock.work(1.0), clock=clock, progress=False)
    assert all(map(math.isfinite, found.interval_s))


def test_measure_of_an_empty_function_is_real():
    found = measure(lambda: None, budget_s=0.05)
    assert found.median_s > 0 and found.loops > 10


@pytest.mark.parametrize("bad", [0, -1.0])
def test_measure_checks_its_arguments(bad):
    with pytest.raises(ValueError, match="budget_s"):
        measure(lambda: None, budget_s=bad)
    with pytest.raises(TypeError, match=r"without arguments.*got int"):
        measure(3)


# ------------------------------------------------------------------------------------ compare


def test_equal_functions_show_no_difference(clock):
    found = fake_compare(clock, {"a": clock.work(1e-4), "b": clock.work(1e-4)})
    assert found["b"].verdict == "no measurable difference"
    assert found["b"].ratio == pytest.approx(1.0)


@pytest.mark.parametrize(("work", "verdict"), [(0.9, "faster"), (1.1, "slower"), (1.03, "slower")])
def test_real_differences_are_found_with_their_size(clock, work, verdict):
    functions = {
        "a": clock.work(1e-4, noise=0.05, seed=1),
        "b": clock.work(work * 1e-4, noise=0.05, seed=2),
    }
    entry = fake_compare(clock, functions)["b"]
    assert entry.verdict == verdict
    assert entry.low < work < entry.high or entry.ratio == pytest.approx(work, rel=0.005)


@pytest.mark.parametrize("work", [1.0, 1.1])
def test_drift_cancels(clock, work):
    """The machine slows down tenfold while it measures; the ratio does not notice."""
    drift = lambda share: lambda now, call: share * 1e-4 * (1 + 9 * now)  # noqa: E731
    found = fake_compare(clock, {"a": clock.work(drift(1.0)), "b": clock.work(drift(work))})
    assert found["b"].ratio == pytest.approx(work, rel=2e-3)


def test_first_calls_are_never_mistaken(clock):
    slow_start = clock.work(1e-4, first=[2.0, 0.5, 0.1])
    found = fake_compare(clock, {"plain": clock.work(1e-4), "compiled": slow_start})
    assert found["compiled"].verdict == "no measurable difference"
    assert found["compiled"].first_call_s == 2.0
    assert found["compiled"].median_s == pytest.approx(1e-4)


@pytest.mark.parametrize("slow_s", [0.029, 0.031, 0.5])
def test_slow_first_calls_that_look_like_a_slow_function_leave_no_trace(clock, slow_s):
    """All the calls of the warm-up are slow alike; both sides must get the same plan in the end."""
    late = clock.work(1e-4, first=[slow_s] * 3)
    functions = {"plain": clock.work(1e-4), "compiled": late}
    run = fake_compare(clock, functions)
    assert run["compiled"].verdict == "no measurable difference"
    assert run.loops["plain"] == run.loops["compiled"]
    assert run.rounds >= 16


def test_a_disturbed_warm_up_does_not_part_two_copies(clock):
    """One of two copies looks slow at first; in the rounds that count both get the same calls."""
    late = lambda now, call: 1e-4 * (2.5 if call <= 30 else 1)  # noqa: E731
    found = fake_compare(clock, {"a": clock.work(1e-4), "b": clock.work(late)})
    assert found.loops["a"] == found.loops["b"]
    assert found["b"].verdict == "no measurable difference"
    assert found.rounds >= 16 and found.void >= 3


def test_never_stops_because_a_difference_has_shown(clock):
    """At the first look the difference is plain but not yet known well: sampling goes on."""

    def wide(seed, size):
        chance = random.Random(seed)
        return clock.work(lambda now, call: size * 1e-4 * chance.uniform(1, 2.2))

    found = fake_compare(clock, {"a": wide(1, 1.0), "b": wide(2, 2.0)}, budget_s=5)
    first_look = Comparison(
        **{**vars(found), "phases_s": {k: v[:16] for k, v in found.phases_s.items()}}
    )
    entry = first_look["b"]
    assert entry.verdict == "slower"
    assert math.log(entry.high / entry.low) / 2 > 0.05 * math.log(2)
    assert found.rounds > 16


def test_noise_without_end_is_not_decided_and_says_why(clock):

    def noisy(seed):
        chance = random.Random(seed)
        return clock.work(lambda now, call: 1e-3 * chance.choice([1, 2, 3, 4]))

    found = fake_compare(clock, {"a": noisy(1), "b": noisy(2)}, budget_s=0.5)
    assert found["b"].verdict == "not decided"
    assert found["b"].reason
    assert f"not decided: {found['b'].reason}" in str(found)


def test_too_small_a_budget_says_how_much_is_missing(clock):
    functions = {"a": clock.work(0.1), "b": clock.work(0.1)}
    found = fake_compare(clock, functions, budget_s=2.5)
    assert 0 < found.rounds < 7
    assert found["b"].verdict == "not decided" and "an interval needs 7" in found["b"].reason
    assert "such as " in found["b"].reason
    assert (found["b"].low, found["b"].high) == (0, math.inf)


@pytest.mark.parametrize("call_s", [5.0, 30.0])
def test_a_hopeless_budget_is_not_spent_and_a_better_one_named(clock, call_s):
    functions = {"a": clock.work(call_s), "b": clock.work(2 * call_s)}
    found = fake_compare(clock, functions, budget_s=1)
    assert found.rounds == 0 and found.elapsed_s <= 6 * call_s + 1
    assert "give budget_s=" in found["b"].reason
    # What the warm-up saw is shown all the same.
    assert found["b"].median_s == pytest.approx(2 * call_s)
    enough = float(found["b"].reason.partition("budget_s=")[2])
    assert fake_compare(clock, functions, budget_s=enough)["b"].verdict == "slower"


@pytest.mark.parametrize("cpu_share", [1.0, 2.0])
@pytest.mark.parametrize("noise", [0.0, 0.3, 3.0])
@pytest.mark.parametrize("call_s", [1e-6, 1e-4, 1e-3])
def test_short_functions_take_little_more_than_a_second_whatever_happens(
    clock, call_s, noise, cpu_share
):
    """Noise without end, slow first calls, threads to be checked: 0.6 s for each at most."""
    clock.cpu_share = cpu_share
    functions = {
        name: clock.work(call_s, noise=noise, seed=seed, first=[0.05])
        for seed, name in enumerate("ab")
    }
    found = fake_compare(clock, functions)
    # A round is the step in which time is looked at.
    step = 4 * 2 * 4 * call_s * (1 + noise)
    assert found.elapsed_s < 1.2 + step
    assert found["b"].verdict in ("no measurable difference", "not decided")


def test_a_wide_interval_gets_more_time_than_a_narrow_one(clock):
    def after(noise):
        clock = bm_clock()
        pair = {n: clock.work(4e-3, noise=noise, seed=i) for i, n in enumerate("ab")}
        return fake_compare(clock, pair)

    bm_clock = type(clock)
    still, noisy = after(0.02), after(0.3)
    assert still.elapsed_s < 0.8 < noisy.elapsed_s
    # Without a margin: what the interval says makes no difference to when sampling ends.
    assert noisy["b"].high - noisy["b"].low > 0.02


def test_a_load_does_not_make_a_short_function_a_long_one(clock):
    """From 1 ms to 20 ms in the middle of the rounds: no seconds are added for that."""
    later = lambda now, call: 1e-3 * (20 if now > 0.2 else 1)  # noqa: E731
    found = fake_compare(clock, {n: clock.work(later) for n in "ab"})
    assert found.elapsed_s < 1.2 + 16 * 20e-3


@pytest.mark.parametrize("k", [2, 3, 4, 6])
def test_slow_first_calls_leave_enough_time_for_all_the_rounds(clock, k):
    functions = {f"f{i}": clock.work(4.9e-3, first=[5.0]) for i in range(k)}
    found = fake_compare(clock, functions)
    assert {entry.verdict for entry in found} == {"baseline", "no measurable difference"}


def test_slow_functions_get_more_time_unless_a_budget_is_given(clock):
    found = fake_compare(clock, {"a": clock.work(0.1), "b": clock.work(0.15)})
    assert found.rounds >= 7 and found["b"].verdict == "slower"
    assert found.elapsed_s < 12


def test_rounds_that_run_away_are_void_and_counted(clock):
    chance = random.Random(0)

    def held_up(now, call):
        return 1e-4 * (100 if chance.random() < 0.002 else 1)

    found = fake_compare(clock, {"a": clock.work(held_up), "b": clock.work(held_up)})
    assert found.void > 0
    assert f"({found.void} voided, {found.set_aside} set aside)" in str(found)
    assert found["b"].verdict == "no measurable difference"


@pytest.mark.parametrize("factor", [5, 20, 200])
def test_a_load_that_has_come_to_stay_becomes_the_plan(clock, factor):
    later = lambda now, call: 1e-5 * (factor if now > 0.1 else 1)  # noqa: E731
    functions = {"a": clock.work(later), "b": clock.work(lambda n, c: 1.1 * later(n, c))}
    found = fake_compare(clock, functions, budget_s=2.0)
    assert found.void < 25 and found["b"].verdict == "slower"


def test_functions_that_change_for_good_are_planned_anew(clock):
    functions = {n: clock.work(lambda now, call: 1e-5 if call < 60 else 1e-3) for n in "ab"}
    found = fake_compare(clock, functions)
    assert found["b"].verdict == "no measurable difference"
    assert found["a"].median_s == pytest.approx(1e-3)


@pytest.mark.parametrize("slow_share", [0.5, 0.6])
def test_a_function_that_varies_by_itself_gets_no_verdict(clock, slow_share):
    """Its quiet level is the other's, its usual time is not."""
    chance = random.Random(1)

    def varying(now, call):
        return 2e-3 if chance.random() < slow_share else 1e-3

    found = fake_compare(clock, {"a": clock.work(1e-3), "b": clock.work(varying)})
    assert found["b"].verdict == "not decided"
    assert "'b' takes now more, now less" in found["b"].reason
    # Where both vary alike, quiet levels are as good as any.
    functions = {"a": clock.work(varying), "b": clock.work(varying)}
    assert "now more, now less" not in fake_compare(clock, functions)["b"].reason


def test_disturbed_rounds_of_slow_functions_are_made_up_for(clock):
    # One of the first rounds is disturbed; the rounds left would be one too few.
    disturbed = lambda now, call: 0.1 * (1.4 if call == 9 else 1)  # noqa: E731
    functions = {"a": clock.work(disturbed), "b": clock.work(0.15)}
    found = fake_compare(clock, functions)
    assert found["b"].verdict == "slower" and found.set_aside == 1 and found.rounds == 8


def test_intervals_cover_what_they_promise_with_all_the_looks(clock):
    """The whole stopping rule, on noise where it is hardest: narrow intervals stop early."""
    covered = 0
    for seed in range(300):
        noise = random.Random(seed).gauss

        def work(now, call, noise=noise):
            return 1e-3 * (1 + 0.012 * abs(noise(0, 1)))

        functions = {"a": clock.work(work), "b": clock.work(work)}
        entry = fake_compare(clock, functions, seed=seed)["b"]
        covered += entry.low <= 1 <= entry.high
    # 95 % of 300 is 285, with a standard error of 3.8; three of them below.
    assert covered >= 273


def test_orders_are_mirrored_and_balanced(clock):
    log = []

    def logged(name):
        work = clock.work(1e-3)

        def run():
            log.append(name)
            work()

        return run

    subjects = [subject(clock, logged(n), n) for n in "abc"]
    rounds = bm._Rounds(
        subjects, dict.fromkeys("abc", 1e-3), random.Random(0), bm.RULES, clock, clock.cpu
    )
    rounds.plans = {n: bm.Plan(settle=0, loops=1, samples=1, limit_s=1.0) for n in "abc"}
    for _ in range(600):
        assert rounds.take()
    orders = ["".join(log[i : i + 6]) for i in range(0, len(log), 6)]
    assert all(order == order[::-1] for order in orders)
    firsts = [sum(order[0] == n for order in orders) for n in "abc"]
    assert len(set(orders)) == 6 and all(150 < first < 250 for first in firsts)


def test_three_functions_get_corrected_intervals(clock):
    noisy = lambda seed: clock.work(1e-4, noise=0.2, seed=seed)  # noqa: E731
    found = fake_compare(clock, {"a": noisy(1), "b": noisy(2), "c": noisy(3)}, budget_s=0.3)
    alone = Comparison(**{**vars(found), "names": ["a", "b"]})
    wide, narrow = found["b"], alone["b"]
    assert wide.low <= narrow.low and narrow.high <= wide.high and wide.low < narrow.low
    logs = log_ratios(found.phases_s["b"], found.phases_s["c"])
    low, high = stats.signed_rank_interval(logs, interval_confidence(0.95, 3))
    pair = found.between("b", "c")
    assert (pair.low, pair.high) == pytest.approx((math.exp(low), math.exp(high)))


def test_the_baseline_can_be_chosen(clock):
    functions = {"a": clock.work(1e-4), "b": clock.work(2e-4)}
    found = fake_compare(clock, functions, baseline="b")
    assert found.baseline == "b" and found["a"].ratio == pytest.approx(0.5)


# ------------------------------------------------- functions that disturb each other


def fighting(clock, slowdown):
    """Two functions, each slowed down for a while after the other has run."""
    state = {"last": None, "since": 0.0}

    def make(name):
        def run():
            if state["last"] != name:
                state.update(last=name, since=clock.now)
            recovering = clock.now - state["since"] < 0.05
            clock.now += 1e-4 * (slowdown if recovering else 1)

        return run

    return {"numpy": make("numpy"), "torch": make("torch")}


@pytest.mark.parametrize("slowdown", [1.6, 2.5, 20])
def test_functions_that_slow_each_other_down_get_no_verdict(clock, monkeypatch, slowdown):
    monkeypatch.setattr(bm, "usable_cores", lambda: 2)
    clock.cpu_share = 2.0
    found = fake_compare(clock, fighting(clock, slowdown))
    assert found["torch"].verdict == "not decided"
    assert "isolated=True" in found["torch"].reason
    assert "disturb each other" in found["torch"].reason


@pytest.mark.parametrize("slowdown", [1.6, 2.5])
def test_what_a_neighbour_slows_down_is_no_fight(clock, monkeypatch, slowdown):
    """The same picture, but this process does not get all the cores: somebody else has one."""
    monkeypatch.setattr(bm, "usable_cores", lambda: 4)
    clock.cpu_share = 2.0
    found = fake_compare(clock, fighting(clock, slowdown))
    assert "disturb each other (" not in found["torch"].reason


@pytest.mark.parametrize(("cores_busy", "refused"), [(4.0, True), (2.4, False)])
def test_who_is_busy_while_rounds_run_away_tells_a_fight_from_a_neighbour(
    clock, monkeypatch, cores_busy, refused
):
    monkeypatch.setattr(bm, "usable_cores", lambda: 4)
    clock.cpu_share = cores_busy
    chance, last = random.Random(3), [None]

    def make(name):
        def run():
            # Now and then, after the other one has run, everything stands still for a while.
            stuck = last[0] not in (None, name) and chance.random() < 0.4
            last[0] = name
            clock.now += 0.02 if stuck else 1e-4

        return run

    entry = fake_compare(clock, {"a": make("a"), "b": make("b")}, budget_s=3)["b"]
    assert ("disturb each other (" in entry.reason) is refused


def test_a_load_that_has_ended_is_no_fight(clock):
    clock.cpu_share = 2.0
    # Everything takes twice as long until the rounds have ended, about.
    loaded = lambda now, call: 1e-4 * (2 if now < 0.35 else 1)  # noqa: E731
    functions = {"a": clock.work(loaded), "b": clock.work(loaded)}
    assert fake_compare(clock, functions)["b"].verdict == "no measurable difference"


def test_single_threaded_functions_are_not_checked_for_a_fight(clock):
    clock.cpu_share = 1.0
    found = fake_compare(clock, {"a": clock.work(1e-4), "b": clock.work(1e-4)})
    assert found.elapsed_s < 0.2


# ----------------------------------------------------------------------- results are checked


def test_results_are_compared_before_anything_is_timed(clock):
    a, b = clock.work(1e-4, result=1), clock.work(1e-4, result=2)
    with pytest.raises(ResultsDiffer, match="'b' and 'a' do not give the same") as caught:
        fake_compare(clock, {"a": a, "b": b}, check=True)
    assert "check=False" in str(caught.value)
    assert a.calls[0] == b.calls[0] == 1


@pytest.mark.parametrize(
    ("a", "b", "equal"),
    [
        (torch.ones(3), torch.ones(3), True),
        (torch.ones(3), torch.ones(3) + 1e-3, False),
        (torch.ones(3), torch.ones(4), False),
        (torch.ones(3), torch.ones(3, dtype=torch.float64), True),
        (torch.tensor([math.nan]), torch.tensor([math.nan]), True),
        (np.ones(3), np.ones(3), True),
        (np.ones(3), np.zeros(3), False),
        ({"x": [torch.ones(2), 1.0]}, {"x": [torch.ones(2), 1.0]}, True),
        ({"x": 1}, {"y": 1}, False),
        ((1, 2), (1, 2, 3), False),
        (None, None, True),
        (None, 1, False),
        ("text", "text", True),
        ("text", "other", False),
        ({1, 2}, {2, 1}, True),
        (object(), object(), False),
        ({"loss": torch.ones(2), "name": "x"}, {"loss": torch.ones(2), "name": "x"}, True),
        ([torch.ones(2), "x"], [torch.ones(2), "y"], False),
        (np.array(["a", "b"]), np.array(["a", "b"]), True),
        (np.array(["a", "b"]), np.array(["a", "c"]), False),
        (torch.ones(2), np.ones(2), True),
        (torch.tensor(1.5), 1.5, True),
        (torch.tensor(1.5), 1.6, False),
        ([], [], True),
    ],
)
def test_what_counts_as_equal(a, b, equal):
    assert (bm.results_equal(a, b) == "") is equal


def test_a_result_that_is_written_over_is_still_checked(clock):
    """Two functions that share their output: the second call overwrites the first one's result."""
    x, out = torch.ones(3), torch.empty(3)
    functions = {"add": lambda: torch.add(x, 1, out=out), "sub": lambda: torch.sub(x, 1, out=out)}
    with pytest.raises(ResultsDiffer):
        compare(functions, budget_s=0.1)


def test_the_difference_is_located():
    wrong = bm.results_equal({"a": [1.0, 2.0]}, {"a": [1.0, 3.0]})
    assert wrong.startswith("at ['a']: at [1]:")


@pytest.mark.parametrize(
    "check, checked", [(True, True), (lambda a, b: True, True), (False, False)]
)
def test_a_comparison_knows_whether_results_were_compared(clock, check, checked):
    found = fake_compare(clock, {n: clock.work(1e-4, result=1) for n in "ab"}, check=check)
    assert found.checked is checked
    assert type(found).from_json(found.to_json()).checked is checked


def test_a_check_of_ones_own(clock):
    functions = {"a": clock.work(1e-4, result=1), "b": clock.work(1e-4, result=5)}
    assert fake_compare(clock, functions, check=lambda a, b: a < b).rounds > 0
    with pytest.raises(ResultsDiffer, match="given check"):
        fake_compare(clock, functions, check=lambda a, b: a > b)


# ----------------------------------------------------------------- errors and what they leave


def test_an_error_comes_through_with_what_was_measured(clock):
    class Broke(Exception):
        pass

    calls = [0]

    def breaks():
        calls[0] += 1
        clock.now += 1e-4
        if calls[0] == 200:
            raise Broke("at last")

    with pytest.raises(Broke, match="at last") as caught:
        fake_compare(clock, {"a": clock.work(1e-4), "b": breaks})
    partial = caught.value.partial
    assert isinstance(partial, Comparison)
    assert len(partial.samples["a"]) > 10 and len(partial.first_calls_s["b"]) >= 5
    assert partial["b"].verdict == "not decided" and "cut off" in partial["b"].reason
    assert "cut off" in str(partial)


def test_an_error_in_the_first_call_comes_through_too(clock):
    def breaks():
        raise KeyError("missing")

    with pytest.raises(KeyError) as caught:
        fake_compare(clock, {"a": clock.work(1e-4), "b": breaks})
    assert caught.value.partial["a"].first_call_s == pytest.approx(1e-4)


@pytest.mark.skipif(sys.version_info < (3, 11), reason="notes on errors came with Python 3.11")
def test_the_error_says_where_the_samples_are(clock):
    calls = [0]

    def interrupted():
        calls[0] += 1
        clock.now += 1e-4
        if calls[0] == 100:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt) as caught:
        fake_compare(clock, {"a": clock.work(1e-4), "b": interrupted})
    assert "sys.last_value.partial" in caught.value.__notes__[0]
    assert caught.value.partial.samples["a"]


@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError])
def test_an_interrupt_leaves_no_trace(clock, error):
    threads, calls = torch.get_num_threads(), [0]
    torch.manual_seed(7)
    random.seed(7)
    np.random.seed(7)
    expected = (torch.rand(1).item(), random.random(), np.random.rand())
    torch.manual_seed(7)
    random.seed(7)
    np.random.seed(7)

    def disturbs():
        calls[0] += 1
        clock.now += 1e-4
        torch.set_num_threads(threads + 1)
        torch.set_grad_enabled(False)
        torch.rand(3), random.random(), np.random.rand()
        if calls[0] == 150:
            raise error("stop")

    assert gc.isenabled()
    with pytest.raises(error):
        fake_compare(clock, {"a": disturbs, "b": clock.work(1e-4)})
    assert torch.get_num_threads() == threads
    assert torch.is_grad_enabled()
    assert gc.isenabled()
    assert (torch.rand(1).item(), random.random(), np.random.rand()) == expected


def test_the_collector_rests_while_sampling_and_stays_off_where_it_was_off(clock):
    seen = []
    work = clock.work(1e-4)

    def watching():
        seen.append(gc.isenabled())
        work()

    measure(watching, clock=clock)
    assert not any(seen) and gc.isenabled()
    gc.disable()
    try:
        measure(watching, clock=clock)
        assert not gc.isenabled()
    finally:
        gc.enable()


@pytest.mark.parametrize(
    ("functions", "error", "words"),
    [
        ({}, ValueError, "at least two functions"),
        ({"a": len}, ValueError, r"at least two.*measure\(\)"),
        ({"a": len, "b": 3}, TypeError, "'b' must be a function.*got int"),
        (len, TypeError, "dictionary of functions"),
        ("ab", TypeError, "dictionary of functions"),
        (5, TypeError, "dictionary of functions"),
        ([len, 3], TypeError, "function number 1"),
        ([len, len], ValueError, "share names"),
        ({1: len, "1": len}, ValueError, "read the same"),
    ],
)
def test_bad_functions_are_explained(functions, error, words):
    with pytest.raises(error, match=words):
        compare(functions)


def test_random_state_of_a_gpu_is_put_back(monkeypatch):
    states = ["before"]
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_rng_state_all", lambda: states[-1])
    monkeypatch.setattr(torch.cuda, "set_rng_state_all", states.append)
    with bm._undisturbed():
        states.append("after")
    assert states == ["before", "after", "before"]


def test_a_gpu_that_comes_into_use_meanwhile_is_seeded_as_if_it_had_not(monkeypatch):
    in_use, seeds = [False], []
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: in_use[0])
    monkeypatch.setattr(torch.cuda, "manual_seed_all", seeds.append)
    torch.manual_seed(11)
    with bm._undisturbed():
        in_use[0] = True
    assert seeds[-1] == 11


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


def test_bad_options_are_explained():
    two = {"a": lambda: 1, "b": lambda: 1}
    with pytest.raises(ValueError, match="'c' is not among"):
        compare(two, baseline="c")
    with pytest.raises(ValueError, match="margin"):
        compare(two, margin=5)
    with pytest.raises(ValueError, match="budget_s"):
        compare(two, budget_s=0)
    with pytest.raises(ValueError, match="between 0 and 1"):
        compare(two, confidence=95)
    with pytest.raises(ValueError, match="cannot use the clock"):
        compare(two, isolated=True, synchronize=lambda: None)


@pytest.mark.parametrize("confidence", [95, 0, 1, -0.5])
def test_a_confidence_that_cannot_be_is_refused(confidence):
    with pytest.raises(ValueError, match="between 0 and 1"):
        measure(lambda: 1, confidence=confidence)


class Pair(NamedTuple):
    first: torch.Tensor
    rest: list


@pytest.mark.parametrize("kind", [list, tuple, lambda parts: Pair(*parts)])
def test_a_result_that_the_next_function_writes_over_is_compared_as_it_was(kind):
    shared = torch.ones(3)

    def right():
        shared.fill_(1.0)
        return kind([shared, [2]])

    def wrong():
        shared.fill_(5.0)
        return kind([shared, [2]])

    with pytest.raises(ResultsDiffer):
        compare({"right": right, "wrong": wrong})


def test_a_list_of_functions_goes_by_their_names(clock):
    def one():
        clock.now += 1e-4

    def two():
        clock.now += 2e-4

    assert fake_compare(clock, [one, two]).names == ["one", "two"]


# ---------------------------------------------------------------------------- for real, once


def test_a_real_comparison_finds_twice_the_work():
    x = torch.ones(64)

    def once():
        for _ in range(20):
            torch.add(x, 1.0)

    def twice():
        for _ in range(40):
            torch.add(x, 1.0)

    found = compare({"once": once, "twice": twice})
    # Beside busy cores it may abstain; it must not take the wrong side.
    assert found["twice"].verdict in ("slower", "not decided") and found["twice"].ratio > 1
    assert found.machine.torch_threads == torch.get_num_threads()


def test_progress_is_shown_only_when_asked_or_long(monkeypatch, clock):
    monkeypatch.delenv("TQDM_DISABLE", raising=False)
    made = []

    class Bar:
        def __init__(self, **options):
            self.n = 0
            self.total = options["total"]
            made.append(self)

        def __enter__(self):
            return self

        def __exit__(self, *error):
            pass

        def update(self, step):
            self.n += step

    import tqdm.auto

    monkeypatch.setattr(tqdm.auto, "tqdm", Bar)
    functions = {"a": clock.work(1e-4), "b": clock.work(1e-4)}
    fake_compare(clock, functions)
    measure(clock.work(1e-4), clock=clock)
    assert made == []
    fake_compare(clock, functions, progress=True)
    measure(clock.work(1e-4), clock=clock, progress=True)
    measure(clock.work(1.0), clock=clock)
    assert len(made) == 3 and all(0 < bar.n <= bar.total for bar in made)
    monkeypatch.setenv("TQDM_DISABLE", "1")
    fake_compare(clock, functions, progress=True)
    assert len(made) == 3
