"""Interrupts and clocks that stand still: nothing is left running, nothing is left changed."""

import os
import signal
import threading
import time

import psutil
import pytest
import torch

from d2lperf import compare, measure
from d2lperf.measuring.instruments import Instruments, using

posix = pytest.mark.skipif(os.name != "posix", reason="sends itself a signal as POSIX knows it")


def ring_when(ready):
    """Press the stop button when something is ready."""

    def ring():
        end = time.monotonic() + 60
        while not ready() and time.monotonic() < end:
            time.sleep(0.01)
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)

    ringing = threading.Thread(target=ring)
    ringing.start()
    return ringing


def settings():
    return torch.get_num_threads(), torch.is_grad_enabled(), torch.get_rng_state().tolist()


@posix
def test_measure_is_ended_by_a_real_interrupt(tmp_path):
    def endless():
        torch.rand(1)
        (tmp_path / "called").touch()
        ends = time.monotonic() + 60  # for the interrupt, and not for ever where none comes
        while time.monotonic() < ends:
            time.sleep(0.01)

    before = settings()
    ringing = ring_when(lambda: list(tmp_path.iterdir()))
    with pytest.raises(KeyboardInterrupt):
        measure(endless)
    ringing.join()
    assert settings() == before


@posix
def test_an_isolated_comparison_is_ended_with_its_workers(tmp_path):
    def endless():
        (tmp_path / str(os.getpid())).touch()
        time.sleep(600)

    before = settings()
    ringing = ring_when(lambda: list(tmp_path.iterdir()))
    with pytest.raises(KeyboardInterrupt) as caught:
        compare({"a": endless, "b": endless}, isolated=True, check=False)
    ringing.join()
    (path,) = tmp_path.iterdir()
    assert not psutil.pid_exists(int(path.name))
    assert caught.value.partial.isolated
    assert settings() == before


@pytest.mark.parametrize("run", [measure, lambda fn, **rest: compare({"a": fn, "b": fn}, **rest)])
def test_a_clock_that_stands_still_is_told(run):
    still = Instruments(clock=lambda: 0.0, cpu_clock=lambda: 0.0, synchronize=None)
    before = settings()
    told = pytest.raises(RuntimeError, match=r"was called \d+ times.*\n?.*loop inside")
    with using(still), told:
        run(int)
    assert settings() == before
