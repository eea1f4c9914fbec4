"""measure on a clock that the tests move by hand, and the names that functions get."""

import functools
import random
import sys

import pytest
from clocks import fake_measure, in_blocks

from d2lperf.measuring.compare import compare, measure
from d2lperf.measuring.results import Measurement

# ------------------------------------------------------------------------------------ measure


def test_measure_tells_first_calls_from_the_rest(clock):
    found = fake_measure(clock, clock.work(1e-4, first=[0.2, 0.01]))
    assert found.first_call_s == 0.2
    assert found.median_s == pytest.approx(1e-4)
    assert found.loops in (2, 3)
    assert found.interval_s == pytest.approx((1e-4, 1e-4))
    assert found.machine is not None


def test_measure_stops_when_it_knows_enough_and_at_the_budget(clock):
    steady = fake_measure(clock, clock.work(1e-4))
    assert steady.elapsed_s < 0.05
    noise = lambda now, call: 1e-4 * random.Random(call).uniform(1, 3)  # noqa: E731
    noisy = fake_measure(clock, clock.work(noise), budget_s=0.3)
    assert len(noisy.samples_s) > len(steady.samples_s) and noisy.elapsed_s <= 0.3


@pytest.mark.parametrize("call_s", [1e-6, 0.02, 0.3, 5.0])
@pytest.mark.parametrize("budget_s", [0.1, 4.0])
def test_measure_keeps_to_its_budget_warm_up_included(clock, call_s, budget_s):
    """The first edition took 20 s for budget_s=0.5. Two calls are made in any case."""
    work = clock.work(call_s, first=[2 * call_s])
    found = fake_measure(clock, work, budget_s=budget_s, progress=False)
    assert found.elapsed_s <= max(1.02 * budget_s, 3.01 * call_s)
    assert found.median_s == pytest.approx(call_s)


def test_a_function_on_two_levels_shows_both(clock):
    """Beside a busy process 24 ms were shown where the quiet level was 0.09 ms."""
    chance, level = random.Random(0), in_blocks([False, True, True], 9e-5, 22.5e-3)
    work = clock.work(lambda now, call: level(now, call) * chance.uniform(0.8, 1.2))
    found = fake_measure(clock, work, budget_s=4, progress=False)
    assert found.levels_s == pytest.approx((9e-5, 250 * 9e-5), rel=0.1)
    assert found.median_s in (pytest.approx(level, rel=0.1) for level in found.levels_s)
    assert "two levels" in str(found)
    steady = fake_measure(clock, clock.work(1e-4, noise=0.1))
    assert steady.levels_s[0] == steady.levels_s[1] == steady.median_s


@pytest.mark.parametrize("at", [1, 3, 60])
def test_measure_keeps_what_it_has_when_it_is_interrupted(clock, at):
    calls = [0]

    def interrupted():
        calls[0] += 1
        clock.now += 1e-3 * random.Random(calls[0]).uniform(1, 3)
        if calls[0] == at:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt) as caught:
        fake_measure(clock, interrupted, name="f")
    partial = caught.value.partial
    assert isinstance(partial, Measurement) and partial.name == "f"
    assert len(partial.first_calls_s) == min(at - 1, 5)
    assert bool(partial.samples_s) == (at == 60)


def test_measure_checks_its_arguments():
    for bad in (0, -1.0):
        with pytest.raises(ValueError, match="budget_s"):
            measure(lambda: None, budget_s=bad)
    with pytest.raises(TypeError, match=r"must be a function.*got int"):
        measure(3)
    with pytest.raises(TypeError, match="setup must be a function"):
        measure(len, setup=3)
    for bad in (95, 0, 1, -0.5):
        with pytest.raises(ValueError, match="between 0 and 1"):
            measure(lambda: 1, confidence=bad)


# ---------------------------------------------------------------------------- names of functions


def test_a_lambda_gets_the_text_of_its_code(clock):
    x = 3
    assert measure(lambda: sum(range(x)), budget_s=0.01).name == "sum(range(x))"
    found = compare([lambda: x + 1, lambda: 1 + x], budget_s=0.05) if HAS_POSITIONS else None
    assert found is None or found.rounds.names == ["x + 1", "1 + x"]
    several = compare(
        [
            lambda: max(1, 2),
            lambda: min(
                2,
                3,
            ),
        ],
        budget_s=0.05,
    )
    assert several.rounds.names == ["max(1, 2)", "min( 2, 3, )"]


HAS_POSITIONS = sys.version_info >= (3, 11)


def test_other_names(clock):
    unknown = eval("lambda: 1")  # no source to be found
    assert measure(unknown, budget_s=0.01).name == "function"
    assert measure(functools.partial(int, 3), budget_s=0.01).name == "partial"
    assert measure(len, setup=lambda: [1], budget_s=0.01).name == "len"
    long = measure(lambda: sum([1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15]), budget_s=0.01)
    assert len(long.name) <= 40 and long.name.endswith("...")
