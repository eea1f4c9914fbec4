"""Interrupts and clocks that stand still: nothing is left running, nothing is left changed."""

import gc
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import psutil
import pytest
import torch
from clocks import FakeClock

from d2lperf import benchmark
from d2lperf.benchmark import ClockTooCoarse, compare, measure

ROOT = Path(__file__).parents[1]
posix = pytest.mark.skipif(os.name != "posix", reason="sends itself a signal as POSIX knows it")


@pytest.fixture
def clock(monkeypatch):
    # Also where a GPU is in use these functions take no device.
    monkeypatch.setattr(benchmark, "synchronizer", lambda: None)
    return FakeClock()


# ------------------------------------------------------------------------------- no traces


def settings():
    """What a measured function may change, and what must be as before when all is over."""
    return [
        torch.get_num_threads(),
        torch.is_grad_enabled(),
        gc.isenabled(),
        random.getstate(),
        np.random.get_state()[1].tolist(),
        torch.get_rng_state().tolist(),
    ]


# In the very first call, in the warm-up, and in the samples.
@pytest.mark.parametrize("at", [1, 3, 60])
@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, RuntimeError])
def test_measure_leaves_no_trace_of_an_interrupt(clock, error, at):
    threads, calls = torch.get_num_threads(), [0]

    def disturbs():
        calls[0] += 1
        clock.now += 1e-4
        torch.set_num_threads(threads + 1)
        torch.set_grad_enabled(False)
        torch.rand(3), random.random(), np.random.rand()
        if calls[0] == at:
            raise error("stop")

    before = settings()
    with pytest.raises(error, match="stop"):
        measure(disturbs, clock=clock)
    assert calls[0] == at
    assert settings() == before


@posix
def test_measure_is_ended_by_a_real_interrupt():
    def endless():
        ends = time.monotonic() + 60  # for the interrupt, and not for ever where none comes
        while time.monotonic() < ends:
            time.sleep(0.01)

    before = settings()
    ring = threading.Timer(0.3, signal.pthread_kill, [threading.main_thread().ident, signal.SIGINT])
    ring.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            measure(endless)
    finally:
        ring.cancel()
        ring.join()
    assert settings() == before


# ------------------------------------------------------------------------- other processes

# Each worker notes its process, then never comes back. The parent tells how it ended.
PROGRAM = """
import json, os, signal, sys, time
import torch
from d2lperf import compare

folder, when = sys.argv[1:]

def noted(name):
    open(os.path.join(folder, f"{name}-{os.getpid()}"), "w").close()

def quick():
    noted("quick")

def endless():
    noted("endless")
    time.sleep(600)

def later():
    noted("later")
    time.sleep(0.005)

pair = {"a": quick, "b": endless} if when == "the first call" else {"a": quick, "b": later}
try:
    compare(pair, isolated=True, check=False, budget_s=600)
except KeyboardInterrupt as error:
    found = error.partial
    print(json.dumps([found.isolated, found.elapsed_s > 0, torch.is_grad_enabled()]))
"""


def workers(folder):
    return {int(path.name.rpartition("-")[2]) for path in folder.iterdir()}


def gone(pids, seconds=30):
    end = time.monotonic() + seconds
    while any(map(psutil.pid_exists, pids)) and time.monotonic() < end:
        time.sleep(0.05)
    return not any(map(psutil.pid_exists, pids))


@posix
@pytest.mark.parametrize("when, whom", [("the first call", "all"), ("the rounds", "parent")])
def test_an_interrupt_ends_the_workers(when, whom, tmp_path):
    """As Ctrl-C does it, which every process of the terminal gets; and as a notebook's stop."""
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(tmp_path), when],
        env={**os.environ, "PYTHONPATH": str(ROOT), "TQDM_DISABLE": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        end = time.monotonic() + 90
        while len(workers(tmp_path)) < 2:
            assert process.poll() is None, process.communicate()
            assert time.monotonic() < end, "the workers did not start"
            time.sleep(0.05)
        time.sleep(0.5)
        pids = workers(tmp_path)
        assert len(pids) == 2 and all(map(psutil.pid_exists, pids))
        if whom == "all":
            os.killpg(process.pid, signal.SIGINT)
        else:
            os.kill(process.pid, signal.SIGINT)
        printed, complained = process.communicate(timeout=60)
        assert process.returncode == 0, complained
        assert json.loads(printed) == [True, True, True]
        assert gone(pids), "a worker outlived its comparison"
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()


@posix
def test_workers_have_ended_when_the_interrupt_comes_through(tmp_path):
    """Not only by the end of the program: a notebook's kernel lives on."""

    def endless():
        (tmp_path / f"worker-{os.getpid()}").touch()
        time.sleep(600)

    def ring():
        end = time.monotonic() + 90
        while not workers(tmp_path) and time.monotonic() < end:
            time.sleep(0.05)
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)

    ringing = threading.Thread(target=ring)
    before = settings()
    ringing.start()
    with pytest.raises(KeyboardInterrupt) as caught:
        compare({"a": endless, "b": endless}, isolated=True, check=False)
    ringing.join()
    assert len(workers(tmp_path)) == 1
    assert gone(workers(tmp_path), seconds=5)
    assert caught.value.partial.isolated
    assert settings() == before


# --------------------------------------------------------------------- below the clock


def nothing():
    """Take no time on a clock that only `FakeClock.work` moves."""


def test_measure_tells_that_the_clock_did_not_move(clock):
    before = settings()
    with pytest.raises(ClockTooCoarse, match=r"'nothing' was called \d+ times.*\n?.*loop inside"):
        measure(nothing, clock=clock)
    assert settings() == before


@pytest.mark.parametrize("place", ["baseline", "other", "both"])
def test_compare_tells_whose_calls_did_not_move_the_clock(clock, place):
    work = clock.work(1e-4)
    functions = {
        "baseline": {"still": nothing, "moving": work},
        "other": {"moving": work, "still": nothing},
        "both": {"still": nothing, "also still": nothing},
    }[place]
    before = settings()
    told = r"'still' was called \d+ times.*\n?.*loop inside"
    with pytest.raises(ClockTooCoarse, match=told) as caught:
        compare(functions, check=False, clock=clock, cpu_clock=clock.cpu, seed=1)
    assert settings() == before
    # What the others took until then is not lost.
    assert list(caught.value.partial.names) == list(functions)
    if place == "other":
        assert caught.value.partial["moving"].first_call_s == pytest.approx(1e-4)
