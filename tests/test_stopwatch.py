"""The book's Timer and Benchmark, on a clock moved by hand."""

import sys
from unittest.mock import Mock

import broken_outputs
import pytest
from clocks import FakeClock

from d2lperf import stopwatch
from d2lperf.stopwatch import Benchmark, Timer


@pytest.fixture
def clock(monkeypatch):
    """The clock that a stopwatch reads."""
    made = FakeClock()
    monkeypatch.setattr(stopwatch.time, "perf_counter", made)
    return made


@pytest.fixture
def waiting(monkeypatch):
    """Sets what a stopwatch calls to wait for devices."""
    return lambda synchronize: monkeypatch.setattr(stopwatch, "synchronize", synchronize)


def failing_at_the_second_call():
    return Mock(side_effect=[None, RuntimeError("device lost")])


def test_timer_keeps_laps(clock):
    timer = Timer()
    for lap in (1.0, 2.0, 6.0):
        timer.start()
        clock.now += lap
        assert timer.stop() == lap
    assert timer.times == [1.0, 2.0, 6.0]
    assert (timer.avg(), timer.sum(), timer.cumsum()) == (3.0, 9.0, [1.0, 3.0, 9.0])


def test_timer_starts_when_it_is_made(clock):
    timer = Timer()
    clock.now += 5
    assert timer.stop() == 5


def test_timer_waits_for_devices_before_and_after(waiting, clock):
    waits = []

    def synchronize():
        waits.append(clock.now)
        clock.now += 1

    waiting(synchronize)
    timer = Timer()
    clock.now += 5
    assert timer.stop() == 6  # the work, and the wait for it
    assert waits == [0, 6]


def test_timer_without_laps_says_so():
    with pytest.raises(ValueError, match="no lap yet"):
        Timer().avg()
    assert Timer().sum() == 0 and Timer().cumsum() == []


def test_benchmark_prints_as_the_book_does(clock, capsys):
    with Benchmark("eager") as bench:
        clock.now += 0.12345
    assert capsys.readouterr().out == "eager: 0.1235 sec\n"
    assert bench.elapsed_s == pytest.approx(0.12345)
    with Benchmark():
        pass
    assert capsys.readouterr().out == "Done: 0.0000 sec\n"


def test_benchmark_waits_for_devices_before_and_after(waiting, clock):
    def synchronize():
        clock.now += 1  # a queue that takes a second to drain

    waiting(synchronize)
    with Benchmark("queue") as bench:
        clock.now += 0.5
    # The first wait is over before the clock starts, the second belongs to the block.
    assert bench.elapsed_s == 1.5


def test_benchmark_prints_and_lets_the_error_through(clock, capsys):
    bench = Benchmark("broken")
    with pytest.raises(ZeroDivisionError), bench:
        clock.now += 2
        1 / 0  # noqa: B018
    assert capsys.readouterr().out == "broken: 2.0000 sec\n"
    assert bench.elapsed_s == 2


def test_benchmark_shows_the_blocks_error_when_the_device_fails_too(waiting, clock):
    waiting(failing_at_the_second_call())
    bench = Benchmark()
    with pytest.raises(ZeroDivisionError), bench:
        1 / 0  # noqa: B018


def test_benchmark_raises_when_only_the_device_fails(waiting, clock, capsys):
    waiting(failing_at_the_second_call())
    bench = Benchmark("lost")
    with pytest.raises(RuntimeError, match="device lost"), bench:
        clock.now += 1
    assert capsys.readouterr().out == "lost: 1.0000 sec\n"


@pytest.mark.parametrize("how", broken_outputs.KINDS)
def test_benchmark_outlives_a_closed_stdout(monkeypatch, clock, how):
    monkeypatch.setattr(sys, "stdout", broken_outputs.unwritable(how))
    with Benchmark("quiet") as bench:
        clock.now += 3
    assert bench.elapsed_s == 3
