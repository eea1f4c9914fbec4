"""compare(..., build=True): functions that are made anew, and what that tells."""

import gc
import random
import tracemalloc
import weakref

import pytest
from clocks import fake_compare

from d2lperf.measuring.builds import ROUNDS, Builds
from d2lperf.measuring.sampling import Subject


def built(clock, makers, seed=0, **options):
    return fake_compare(clock, makers, seed, build=True, **options)


def lucky(clock, chance, spread, seconds=1e-4):
    """Makes functions whose place in memory is good or bad luck: it stays for the build's life."""

    def make():
        luck = chance.gauss(0, spread)
        return clock.work(seconds * (1 + luck), noise=0.001, seed=chance.randrange(10**6))

    return make


def test_equal_programs_are_not_told_apart_by_the_luck_of_a_build(clock):
    """Two copies at other places differ by 1 %: real, but not a property of the program."""
    words = {True: [], False: []}
    for seed in range(20):
        chance = random.Random(seed)
        a, b = (lucky(clock, chance, 0.02) for _ in "ab")
        words[True].append(built(clock, {"a": a, "b": b}, seed)["b"].verdict)
        words[False].append(fake_compare(clock, {"a": a(), "b": b()}, seed)["b"].verdict)
    false = {build: sum(w in ("faster", "slower") for w in all_) for build, all_ in words.items()}
    assert false[True] <= 1 < 5 <= false[False]


def test_a_difference_of_the_programs_is_found(clock):
    chance = random.Random(1)
    makers = {"a": lucky(clock, chance, 0.01), "b": lucky(clock, chance, 0.01, 1.1e-4)}
    found = built(clock, makers)
    assert found["b"].verdict == "slower"
    assert found["b"].low < 1.1 < found["b"].high
    builds = found.rounds.builds
    assert len(set(builds)) >= 8 and f"of {len(set(builds))} builds in" in str(found)
    assert all(builds.count(number) == ROUNDS for number in sorted(set(builds))[:-1])


def test_only_one_build_is_alive_at_a_time(clock):
    alive, most = weakref.WeakSet(), [0]

    class Net:
        """Stands for a network with weights."""

        def __call__(self):
            clock.now += 1e-3

    def make():
        net = Net()
        alive.add(net)
        most[0] = max(most[0], len(alive))
        return net

    found = built(clock, {"a": make, "b": make})
    assert len(set(found.rounds.builds)) >= 8
    assert most[0] == 2, "one network for each of the two functions"
    del found
    gc.collect()
    assert not alive


def test_every_build_is_made_in_drawn_order_the_first_one_too(clock):
    """Of the first build the function given first always got the first place in memory."""
    first, later = set(), set()
    for seed in range(8):
        order = []

        def maker(name, log=order.append):
            return lambda: log(name) or clock.work(1e-3)

        found = built(clock, {"a": maker("a"), "b": maker("b")}, seed)
        builds = list(zip(order[::2], order[1::2]))
        first.add(builds[0])
        later.update(builds[1:])
        assert found.names == ["a", "b"]
    assert first == later == {("a", "b"), ("b", "a")}


def test_between_two_functions_lies_memory_of_random_sizes(clock):
    """Addresses would not tell: without gaps, too, two weights lie at 3 to 6 in 17 builds."""
    taken = []

    def make():
        taken.append(tracemalloc.get_traced_memory()[0])
        return clock.work(1e-3)

    tracemalloc.start()
    try:
        builds = Builds({"a": make, "b": make}, random.Random(0))
        subjects = [
            Subject(name, fn, tools=clock.instruments()) for name, fn in builds.first().items()
        ]
        for _ in range(8):
            builds.renew(subjects, dict.fromkeys("ab", 1e-3))
    finally:
        tracemalloc.stop()
    between = {(second - first) >> 13 for first, second in zip(taken[::2], taken[1::2])}
    assert len(between) > 4, "in units of 8 KiB"


def test_slow_first_calls_of_each_build_leave_no_trace(clock):
    def make():
        return clock.work(1e-4, first=[0.01, 0.01])

    found = built(clock, {"plain": lambda: clock.work(1e-4), "compiled": make})
    assert found["compiled"].verdict == "no difference"
    assert found["compiled"].ratio == pytest.approx(1.0, abs=0.003)


def test_too_few_builds_give_no_interval_but_advice(clock):
    def make():
        clock.now += 1.0  # such as to compile
        return clock.work(1e-3)

    found = built(clock, {"a": make, "b": make}, budget_s=10)["b"]
    assert found.verdict == "not decided"
    assert "builds" in found.reason and "budget_s=" in found.reason
    again = built(clock, {"a": make, "b": make}, budget_s=40)
    assert again["b"].verdict == "no difference" and again.elapsed_s <= 40


def test_a_maker_that_makes_no_function_is_told(clock):
    with pytest.raises(TypeError, match="with build=True, what 'b' returns must be a function"):
        built(clock, {"a": lambda: lambda: 1, "b": lambda: 3})


def test_results_are_compared_for_the_first_build(clock):
    makers = {name: lambda: clock.work(1e-4, result=1) for name in "ab"}
    assert built(clock, makers, check=True).checked


def test_a_small_difference_says_that_it_may_be_the_places_in_memory(clock):
    makers = {"a": lambda: clock.work(1e-4), "b": lambda: clock.work(1.015e-4)}
    found = fake_compare(clock, {name: make() for name, make in makers.items()}, margin=0.01)
    assert found["b"].verdict == "slower" and "build=True" in found["b"].reason
    made = built(clock, makers, margin=0.01)
    assert made["b"].verdict == "slower" and not made["b"].reason
