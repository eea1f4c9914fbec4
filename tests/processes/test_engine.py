"""Workers: how they start, what they take over, what comes back, and how they end."""

import io
import os
import random
import re
import signal
import subprocess
import sys
import threading
import time
from fractions import Fraction
from functools import partial
from multiprocessing import forkserver
from pathlib import Path

import numpy as np
import psutil
import pytest
import torch
from fresh import run_python

from d2lperf.processes import WorkerError, report
from d2lperf.processes.engine import Crew
from d2lperf.processes.wire import pack, unpack
from tests.processes.conftest import ROOT, alive, server_of, wait_until, workers_of


def run(fn, workers=1, **options):
    """Call a function on some workers."""
    with Crew(
        {f"rank {i}": f"rank {i} of {workers}" for i in range(workers)}, 1, **options
    ) as crew:
        crew.give(pack(fn))
        return crew.gather()


# ------------------------------------------------------------------------------- the start


def test_workers_are_fresh_forks_of_one_server():
    def work():
        return os.getpid(), os.getppid()

    first, second = run(work, 2), run(work, 2)
    server = server_of(os.getpid()).pid
    assert {parent for _, parent in first + second} == {server}
    assert len({pid for pid, _ in first + second}) == 4


def test_the_kernel_itself_is_never_forked(monkeypatch):
    # What a fork of the kernel would break is there: pools of threads, and a device in use.
    x = torch.ones(256, 256)
    assert torch.mm(x, x).sum() == 256**3
    if torch.cuda.is_available():
        torch.ones(1, device="cuda").sum().item()

    def refuse():
        raise AssertionError("the kernel was forked, with all its threads and devices")

    for name in ("fork", "forkpty"):
        monkeypatch.setattr(os, name, refuse)

    def work():
        unspoilt = not torch.cuda._is_in_bad_fork() and not torch.cuda.is_initialized()
        return unspoilt, torch.mm(x, x).sum().item()  # would hang on locks that nobody holds

    for unspoilt, found in run(work, 2):
        assert unspoilt and found == 256**3


def test_a_server_that_is_killed_during_a_launch_is_told_and_its_workers_leave():
    pids = []

    def on_report(index, pid):
        pids.append(pid)
        if len(pids) == 2:
            server_of(os.getpid()).kill()

    def work():
        report(os.getpid())
        time.sleep(60)

    with pytest.raises(WorkerError, match="the process that starts the workers has ended"):
        run(work, 2, on_report=on_report)
    assert wait_until(lambda: not any(map(psutil.pid_exists, pids)))
    assert run(lambda: 1) == [1]


def test_other_threads_see_the_script_while_a_worker_starts(monkeypatch):
    script, seen = sys.modules["__main__"], []
    really = forkserver.connect_to_new_process

    def looked(*args):
        seen.append(sys.modules["__main__"])
        return really(*args)

    monkeypatch.setattr(forkserver, "connect_to_new_process", looked)
    assert run(int, 2) == [0, 0]
    assert seen == [script, script]


# ---------------------------------------------------------------------- what is taken over


def test_settings_of_the_notebook_are_taken_over(monkeypatch, tmp_path):
    def work():
        import mine

        where = os.environ["D2LPERF_HERE"], os.getcwd(), mine.value
        return torch.get_default_dtype(), torch.is_grad_enabled(), torch.get_num_threads(), *where

    run(os.getpid)  # the server is older than what follows
    monkeypatch.setenv("D2LPERF_HERE", "yes")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    torch.set_default_dtype(torch.float64)
    try:
        for value in (1, 2):  # a module of the user's that is edited between two launches
            (tmp_path / "mine.py").write_text(f"value = {value} + 0 * {'0' * value}")
            wanted = (torch.float64, False, 1, "yes", os.path.realpath(tmp_path), value)
            with torch.no_grad():
                assert run(work) == [wanted]
    finally:
        torch.set_default_dtype(torch.float32)


def test_each_worker_draws_numbers_of_its_own_and_torch_the_same_ones():
    def work():
        torch.optim.SGD([torch.nn.Parameter(torch.ones(1))], lr=0.1)  # imports much
        return np.random.rand(), random.random(), torch.rand(1).item()

    draws = run(work, 2) + run(work, 2)
    by_numpy, by_python, by_torch = map(set, zip(*draws, strict=True))
    assert (len(by_numpy), len(by_python), len(by_torch)) == (4, 4, 1)


# ------------------------------------------------------------------------------- what comes back


def test_values_of_all_kinds_travel_in_both_directions():
    large = torch.arange(100_000.0).view(100, 1000)
    values = [large, large.t(), large[:, :999], large.bool(), large.to(torch.bfloat16)]
    values += [large.clone().requires_grad_(), torch.nn.Parameter(large), large.to_sparse()]
    values += [torch.complex(large, large).conj(), torch.ones(2), torch.empty(0)]
    fortran = np.asfortranarray(np.ones((300, 300)))
    arrays = [np.arange(50_000.0).reshape(2, -1), fortran, np.ones(1)]

    def work():
        return values, arrays, [large, large]

    ((back, found, twice),) = run(work)
    for sent, got in zip(values, back, strict=True):
        assert type(got) is type(sent) and got.requires_grad == sent.requires_grad
        assert got.dtype == sent.dtype and torch.equal(got.to_dense(), sent.to_dense())
    for sent, got in zip(arrays, found, strict=True):
        assert np.array_equal(sent, got) and got.flags.writeable
    assert twice[0] is twice[1]
    back[0].zero_()  # a copy
    assert large.sum() > 0


def test_code_with_a_constant_that_no_source_has_travels():
    def half():
        return "half"

    constants = [Fraction(1, 2) if c == "half" else c for c in half.__code__.co_consts]
    half.__code__ = half.__code__.replace(co_consts=tuple(constants))
    assert unpack(pack(half))() == Fraction(1, 2)


def test_packing_leaves_nothing_that_complains():
    # Python 3.13 says what earlier versions say in their development mode only.
    program = "import gc, torch; from d2lperf.processes.wire import pack\n"
    program += "for _ in range(3): packed = pack(lambda: torch.ones(2)); gc.collect()\n"
    program += "cycle = [pack({}), pack({})]; cycle.append(cycle); del cycle; gc.collect()"
    done = run_python("-X", "dev", "-W", "ignore", "-c", program)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="reads /proc of Linux")
def test_a_result_costs_its_own_size_in_the_kernel():
    def now_and_most():
        found = re.findall(r"Vm(RSS|HWM):\s+(\d+) kB", Path("/proc/self/status").read_text())
        return [1024 * int(dict(found)[name]) for name in ("RSS", "HWM")]

    size = 200_000_000
    run(lambda: torch.ones(100_000))
    try:
        Path("/proc/self/clear_refs").write_text("5")  # the most is counted from here
    except OSError:
        pytest.skip("this system does not let us reset the peak")
    before, _ = now_and_most()
    (result,) = run(lambda: torch.ones(size // 4))
    _, most = now_and_most()
    assert result.sum() == size // 4
    assert most - before < 1.5 * size


def test_reports_arrive_while_the_workers_run(tmp_path):
    go_on, seen = tmp_path / "go on", []

    def work():
        report(torch.ones(2))
        while not go_on.exists():
            time.sleep(0.01)
        report("end")

    def on_report(index, value):
        seen.append((index, value if isinstance(value, str) else value.tolist()))
        if len(seen) == 2:
            go_on.touch()

    run(work, 2, on_report=on_report)
    assert sorted(seen[:2]) == [(0, [1, 1]), (1, [1, 1])]
    assert sorted(seen[2:]) == [(0, "end"), (1, "end")]
    assert run(lambda: report(1)) == [None]  # nobody listens


def test_an_error_in_on_report_ends_the_launch():
    def on_report(index, value):
        raise LookupError("in the notebook")

    def work():
        report(1)
        time.sleep(60)

    with pytest.raises(LookupError, match="in the notebook"):
        run(work, 2, on_report=on_report)


def test_lines_come_whole_and_with_the_rank(capfd):
    def work():
        letter = "ab"[engine_index()]
        for _ in range(200):
            print(letter * 300, letter * 300)
        os.write(1, b"from below Python\n")
        print("50 %\r100 %", file=sys.stderr)
        print("[Gloo] Rank 0 is what I print")
        print("no end", end="")

    run(work, 2)
    out, err = capfd.readouterr()
    lines = out.splitlines()
    for rank, letter in enumerate("ab"):
        assert lines.count(f"[rank {rank}] {letter * 300} {letter * 300}") == 200
        for text in ("from below Python", "[Gloo] Rank 0 is what I print", "no end"):
            assert lines.count(f"[rank {rank}] {text}") == 1
        assert f"[rank {rank}] 100 %" in err.splitlines()
    assert len(lines) == 406


def engine_index():
    from d2lperf.processes import worker

    return worker.here.index


def test_a_progress_bar_is_seen_before_its_line_ends(tmp_path, monkeypatch):
    go_on = tmp_path / "go on"

    def work():
        print("\r 50 %", end="", file=sys.stderr, flush=True)
        while not go_on.exists():
            time.sleep(0.01)
        sys.stderr.write("\r100 %\n")  # as one piece: print would write two

    class Screen(io.StringIO):
        def write(self, text):
            if "50 %" in text:
                go_on.touch()
            return super().write(text)

    monkeypatch.setattr(sys, "stderr", Screen())
    run(work)
    assert sys.stderr.getvalue() == "\r[rank 0]  50 %\r" + " " * 14 + "\r[rank 0] 100 %\n"


def test_a_line_of_many_megabytes_comes_whole(capsys):
    def work():
        sys.stdout.write("x" * (1 << 24))
        print("\nafter it")

    run(work)
    assert capsys.readouterr().out == f"[rank 0] {'x' * (1 << 24)}\n[rank 0] after it\n"


# ------------------------------------------------------------------------------- the end


def test_nothing_stays_open_in_the_kernel():
    def once():
        run(int, 2)
        with pytest.raises(ValueError, match="on purpose"):
            run(fails)

    def fails():
        raise ValueError("on purpose")

    once()
    before = psutil.Process().num_fds()
    for _ in range(3):
        once()
    assert psutil.Process().num_fds() <= before


def test_what_a_function_leaves_for_the_end_of_its_process_is_done(capsys):
    def work():
        import atexit
        import tempfile

        folder = tempfile.TemporaryDirectory()
        atexit.register(print, "the end", flush=True)
        globals()["kept"] = folder  # until the end of the process
        return folder.name

    results = run(work, 2)
    assert not any(os.path.exists(folder) for folder in results)
    assert capsys.readouterr().out.count("the end") == 2


def test_processes_of_a_worker_end_with_it():
    def work():
        return subprocess.Popen(["sleep", "120"]).pid

    (pid,) = run(work)
    assert wait_until(lambda: not psutil.pid_exists(pid) or not alive(psutil.Process(pid)))


def test_a_worker_is_deaf_to_the_stop_button_of_others():
    def work():
        os.kill(os.getpid(), signal.SIGINT)
        return True

    assert run(work) == [True]


def test_what_was_printed_before_the_stop_is_shown(capsys):
    def work():
        print("before the end", flush=True)
        report(1)
        time.sleep(60)

    def stop(index, value):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(work, on_report=stop)
    assert "[rank 0] before the end\n" in capsys.readouterr().out


INTERRUPTED = """
import os, time
from d2lperf import launch
def work():
    print("at work", flush=True)
    time.sleep(600)
for name in "first", "second":
    try:
        print(name, flush=True)
        launch(work)
    except KeyboardInterrupt:
        print("stopped", flush=True)
print(launch(int), flush=True)
"""


def test_the_stop_button_of_a_terminal():
    """Every process of the terminal gets it: first while the server starts, then later."""
    process = subprocess.Popen(
        [sys.executable, "-c", INTERRUPTED],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        line = process.stdout.readline
        assert line() == "first\n"
        assert wait_until(lambda: server_of(process.pid))
        os.killpg(process.pid, signal.SIGINT)
        assert [line(), line()] == ["stopped\n", "second\n"]
        assert sorted([line(), line()]) == ["[rank 0] at work\n", "[rank 1] at work\n"]
        workers = workers_of(process.pid)
        assert len(workers) == 2
        os.killpg(process.pid, signal.SIGINT)
        out, err = process.communicate(timeout=60)
        assert (out, err) == ("stopped\n[0, 0]\n", "")
        assert not any(map(alive, workers))
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()


@pytest.mark.parametrize("step", ["connect_to_new_process", "read_signed"])
def test_the_stop_button_while_a_worker_starts_leaves_no_worker(step, monkeypatch):
    really = getattr(forkserver, step)

    def stopped(*args):
        done = really(*args)
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.05)  # the main thread notices
        return done

    monkeypatch.setattr(forkserver, step, stopped)
    with pytest.raises(KeyboardInterrupt):
        run(os.getpid)
    assert workers_of(os.getpid()) == []


SCRIPT = """
import subprocess, time
import psutil, torch
from d2lperf import launch
print("once", flush=True)

def train():
    torch.optim.SGD([torch.nn.Parameter(torch.ones(1))], lr=0.1)

def used_s():
    return sum(sum(p.cpu_times()[:2]) for p in psutil.Process().children(recursive=True))

launch(train)
before_s = used_s()
time.sleep(0.5)  # nothing should happen now: the next cell may measure
print("idle" if used_s() - before_s < 0.1 else "busy", flush=True)

def work():
    subprocess.Popen(["sleep", "120"])
    print(__name__, flush=True)
    time.sleep(120)
launch(work)
"""


def test_between_launches_nothing_runs_and_after_a_kill_nothing_stays(tmp_path):
    (tmp_path / "script.py").write_text(SCRIPT)
    process = subprocess.Popen(
        [sys.executable, str(tmp_path / "script.py")],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        lines = [process.stdout.readline().strip() for _ in range(4)]
        # No worker imports the script again.
        assert lines[:2] == ["once", "idle"]
        assert sorted(lines[2:]) == ["[rank 0] __main__", "[rank 1] __main__"]
        family = psutil.Process(process.pid).children(recursive=True)
        assert len(family) >= 5  # the server, two workers, each with a child of its own
    finally:
        process.kill()
        process.communicate()
    assert wait_until(lambda: not any(map(alive, family)), 10), list(filter(alive, family))


# ------------------------------------------------------------------------------- deaths


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV])
def test_a_killed_worker_is_named_with_the_signal(number):
    def work():
        if engine_index() == 1:
            os.kill(os.getpid(), number)
        time.sleep(60)

    match = rf"rank 1 of 2 was killed by signal {int(number)} \({number.name}\)"
    with pytest.raises(WorkerError, match=match) as caught:
        run(work, 2)
    assert (caught.value.rank, caught.value.signal) == (1, number)
    assert caught.value.__cause__ is None


def test_a_worker_whose_connection_closed_first_is_named_at_the_deadline():
    with pytest.raises(WorkerError, match="rank 0 was killed"), Crew({"0": "rank 0"}, 1) as crew:
        crew.give(pack(partial(time.sleep, 60)))
        crew._close(crew.workers[0], "link")  # the worker hears of it and ends
        raise crew._too_late("the launch took too long")


def test_no_signal_goes_to_the_number_of_a_process_that_has_ended(monkeypatch):
    sent = []
    monkeypatch.setattr(os, "kill", lambda *signal: sent.append(signal))
    assert run(int) == [0] and sent == []


def test_no_group_is_ended_that_may_be_a_strangers(monkeypatch):
    ended = []
    monkeypatch.setattr(os, "killpg", lambda *signal: ended.append(signal))
    monkeypatch.setattr(os, "getpgid", lambda pid: pid)  # somebody has the worker's number now
    with pytest.raises(WorkerError, match="status 3"):
        run(partial(os._exit, 3))
    assert ended == []


@pytest.mark.parametrize("leave", [os._exit, sys.exit])
def test_a_worker_that_exits_is_named_with_its_status(leave, capsys):
    def work():
        if engine_index() == 1:
            print("so long")
            leave(3)
        time.sleep(60)

    with pytest.raises(WorkerError, match="rank 1 of 2 exited with status 3") as caught:
        run(work, 2)
    assert (caught.value.rank, caught.value.signal) == (1, None)
    assert capsys.readouterr().out == "[rank 1] so long\n"


def test_a_worker_that_dies_after_its_function_is_named():
    def work():
        if engine_index() == 0:
            threading.Timer(0.1, os._exit, (5,)).start()
        else:
            time.sleep(60)

    with pytest.raises(WorkerError, match=r"rank 0 .* status 5 after its function had returned"):
        run(work, 2)


def test_a_result_that_cannot_travel_names_the_rank():
    def work():
        return threading.Lock() if engine_index() == 1 else None

    with pytest.raises(WorkerError, match=r"rank 1: its result \(lock\) cannot be sent") as caught:
        run(work, 2)
    assert caught.value.rank == 1

    class Unreadable:
        def __reduce__(self):
            return int, ("x",)

    with pytest.raises(WorkerError, match="result of rank 0 arrived, but cannot be read"):
        run(Unreadable)
