"""Functions on several processes: each line of what `launch` promises is a test that does it.

Nothing here asserts a speed: where a line says "within 2 s", the tests wait much longer, so that
they pass beside other work; benchmarks/launch.py measures how long it really takes.
"""

import asyncio
import contextlib
import importlib
import inspect
import os
import pickle
import re
import signal
import subprocess
import sys
import threading
import time
import uuid
import warnings
from pathlib import Path

import psutil
import pytest
import torch
import torch.distributed as dist

import d2lperf
from d2lperf.device import usable_cores
from d2lperf.launch import LaunchTimeout, WorkerError, launch, report

if not hasattr(os, "fork"):
    pytest.skip("launch needs os.fork: Linux or macOS", allow_module_level=True)

ROOT = Path(__file__).parents[1]
module = importlib.import_module("d2lperf.launch")
MARK = "D2LPERF_TEST_SESSION"


def marked(value: str) -> list[psutil.Process]:
    """Every living process that inherited the mark of this test session."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if process.environ().get(MARK) == value and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
    return found


def wait_until(true, seconds=15.0):
    """Whether it came true in time."""
    end = time.monotonic() + seconds
    while not true():
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


@pytest.fixture(scope="session", autouse=True)
def nothing_is_left_behind():
    """All processes of these tests carry a mark; when they are over, none is left."""
    module._close_helper()  # one of earlier tests would not carry the mark, nor would its forks
    outer = os.environ.get(MARK)  # of the whole session, see conftest.py
    mark = os.environ[MARK] = uuid.uuid4().hex
    yield
    module._close_helper()
    if outer is None:
        del os.environ[MARK]
    else:
        os.environ[MARK] = outer
    wait_until(lambda: not marked(mark), 5)
    left = [(p.pid, p.ppid(), " ".join(p.cmdline())[-200:]) for p in marked(mark)]
    assert not left, left


def living_workers(helper=None) -> list[psutil.Process]:
    """Processes below the helper."""
    if helper is None and module._helper is None:
        return []
    try:
        return psutil.Process(helper or module._helper._process.pid).children(recursive=True)
    except psutil.NoSuchProcess:
        return []


@pytest.fixture(autouse=True)
def no_worker_is_left_over():
    yield
    assert wait_until(lambda: not living_workers(), 5), living_workers()


# ------------------------------------------------------------------------------- what it does


def test_results_come_by_rank_and_collectives_work():
    def work(scale):
        x = torch.tensor([scale * (1.0 + dist.get_rank())])
        dist.all_reduce(x)
        return dist.get_rank(), dist.get_world_size(), dist.get_backend(), x

    results = launch(work, workers=3, args=(10,))
    assert [r[:3] for r in results] == [(0, 3, "gloo"), (1, 3, "gloo"), (2, 3, "gloo")]
    assert all(r[3].item() == 60 for r in results)
    results[0][3].zero_()  # a copy of its own
    assert results[1][3].item() == 60


def test_one_worker_is_a_group_too():
    assert launch(lambda: dist.get_world_size(), workers=1) == [1]


def test_the_module_can_be_called_and_is_the_function_in_any_order_of_imports():
    assert d2lperf.launch is module
    assert inspect.signature(d2lperf.launch) == inspect.signature(launch)
    assert d2lperf.launch(lambda: 7, workers=1) == [7]
    assert d2lperf.WorkerError is WorkerError and d2lperf.LaunchTimeout is LaunchTimeout
    assert pickle.loads(pickle.dumps(module)) is module


def test_what_was_printed_before_the_stop_is_shown(capsys):
    def work():
        print("before the end", flush=True)
        report(1)
        time.sleep(60)

    def stop(rank, value):
        time.sleep(0.1)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        launch(work, workers=1, on_report=stop)
    assert "[rank 0] before the end\n" in capsys.readouterr().out
    assert launch(lambda: 7, workers=1) == [7]


def test_the_next_launch_takes_forks_of_the_same_helper():
    def work():
        return os.getpid(), os.getppid()

    first, second = launch(work), launch(work)
    parents = {parent for _, parent in first + second}
    assert parents == {module._helper._process.pid}
    assert len({pid for pid, _ in first + second}) == 4


def refuse_to_fork():
    raise AssertionError("the kernel was forked, with all its threads and devices")


def test_the_kernel_itself_is_never_forked(monkeypatch):
    # What a fork of the kernel would break is there: pools of threads, and a device in use.
    x = torch.randn(256, 256)
    torch.mm(x, x).sum().item()
    if torch.cuda.is_available():
        torch.ones(1, device="cuda").sum().item()
    module._close_helper()
    for name in ("fork", "forkpty"):
        monkeypatch.setattr(os, name, refuse_to_fork)

    def work():
        unspoilt = not torch.cuda._is_in_bad_fork() and not torch.cuda.is_initialized()
        used = torch.mm(x, x).sum().item()  # would hang on locks that nobody holds any more
        return os.getppid(), unspoilt, used

    first, second = launch(work), launch(work)
    helper = module._helper._process.pid
    assert {row[:2] for row in first + second} == {(helper, True)}
    assert all(row[2] == pytest.approx(torch.mm(x, x).sum().item()) for row in first + second)
    # The helper is a program of its own: Popen executes one at once where it forks at all.
    assert psutil.Process(helper).cmdline() != psutil.Process().cmdline()


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU of NVIDIA's or AMD's")
@pytest.mark.parametrize(("workers", "backend"), [(1, "nccl"), (2, "gloo")])
def test_a_gpu_in_use_in_the_kernel_is_no_hindrance(workers, backend):
    assert torch.ones(1, device="cuda").sum().item() == 1
    module._close_helper()

    def work():
        x = torch.full((3,), 1.0 + dist.get_rank(), device="cuda" if backend == "nccl" else "cpu")
        dist.all_reduce(x)
        return (x.to("cuda") * 2).cpu()

    for _ in range(2):
        for x in launch(work, workers=workers, backend=backend):
            assert x.tolist() == [workers * (workers + 1.0)] * 3


def test_what_an_optimiser_imports_is_there_in_later_launches():
    def work():
        there = "torch._dynamo" in sys.modules
        torch.optim.SGD([torch.nn.Parameter(torch.ones(1))], lr=0.1)
        return there, "torch._dynamo" in sys.modules

    module._close_helper()  # one that has not seen an optimiser yet
    (before, needed), *_ = launch(work, workers=1)
    assert not before
    if not needed:
        pytest.skip("this torch's optimisers do not import torch._dynamo")
    assert launch(work, workers=1) == [(True, True)]


def test_threads_are_shared_out():
    assert launch(torch.get_num_threads) == [max(1, usable_cores() // 2)] * 2
    assert launch(torch.get_num_threads, threads=3) == [3, 3]


def test_settings_of_the_notebook_are_taken_along(monkeypatch, tmp_path):
    def work():
        import mine

        return torch.get_default_dtype(), os.environ["D2LPERF_HERE"], os.getcwd(), mine.value

    launch(os.getpid, workers=1)  # the helper is older than what follows
    monkeypatch.setenv("D2LPERF_HERE", "yes")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    torch.set_default_dtype(torch.float64)
    try:
        for value in (1, 2):  # a module of the user's that is edited between two launches
            (tmp_path / "mine.py").write_text(f"value = {value} + 0 * {'0' * value}")
            here = os.path.realpath(tmp_path)
            assert launch(work, workers=1) == [(torch.float64, "yes", here, value)]
    finally:
        torch.set_default_dtype(torch.float32)


def test_lines_come_whole_and_with_the_rank(capfd):
    def work():
        letter = "ab"[dist.get_rank()]
        for _ in range(200):
            print(letter * 300, letter * 300)
        os.write(1, b"from below Python\n")
        print("50 %\r100 %", file=sys.stderr)
        print("no end", end="")

    launch(work)
    out, err = capfd.readouterr()
    lines = out.splitlines()
    for rank, letter in enumerate("ab"):
        assert lines.count(f"[rank {rank}] {letter * 300} {letter * 300}") == 200
        assert f"[rank {rank}] from below Python" in lines
        assert f"[rank {rank}] no end" in lines
        assert f"[rank {rank}] 100 %" in err.splitlines()
    assert len(lines) == 404


def test_reports_arrive_while_the_workers_run(tmp_path):
    go_on = tmp_path / "go on"
    seen = []

    def work():
        report(torch.ones(2) * dist.get_rank())
        while not go_on.exists():
            time.sleep(0.01)
        report("end")

    def on_report(rank, value):
        seen.append((rank, value if isinstance(value, str) else value.tolist()))
        if len(seen) == 2:
            go_on.touch()

    launch(work, on_report=on_report, deadline_s=60)
    assert sorted(seen[:2]) == [(0, [0, 0]), (1, [1, 1])]
    assert sorted(seen[2:]) == [(0, "end"), (1, "end")]
    assert launch(lambda: report(1)) == [None, None]  # nobody listens


def test_a_data_loader_may_have_processes_in_a_worker():
    def work():
        from torch.utils.data import DataLoader

        return sum(batch.sum().item() for batch in DataLoader(range(8), 2, num_workers=1))

    assert launch(work, deadline_s=60) == [28, 28]


def test_what_a_function_leaves_for_the_end_of_its_process_is_done(capsys):
    def work():
        import atexit
        import tempfile

        folder = tempfile.TemporaryDirectory()
        atexit.register(print, "the end", flush=True)
        globals()["kept"] = folder  # until the end of the process
        return folder.name

    results = launch(work)
    assert not any(os.path.exists(folder) for folder in results)
    assert capsys.readouterr().out.count("the end") == 2


def test_a_launch_in_a_worker_runs_in_place():
    def work():
        return launch(dist.get_rank, workers=5)

    assert launch(work) == [[0, 1], [0, 1]]


def test_every_connection_is_on_the_loopback():
    def listening():
        process = psutil.Process()
        connections = getattr(process, "net_connections", process.connections)
        return {c.laddr for c in connections(kind="tcp") if c.status == psutil.CONN_LISTEN}

    def work():
        dist.all_reduce(torch.ones(1))
        dist.new_group([0, 1])
        report(None)
        addresses = {address.ip for address in listening()}
        dist.barrier()
        return addresses

    before, during = listening(), set()
    results = launch(work, on_report=lambda *_: during.update(listening() - before))
    assert len(during) == 1  # the store, on a port of the system's choice
    addresses = {address.ip for address in during}.union(*results)
    assert addresses
    assert {ip.replace("::ffff:", "") for ip in addresses} <= {"127.0.0.1", "::1"}
    assert not listening() - before  # and it is closed again


def test_nothing_stays_open_in_the_kernel():
    def fails():
        raise ValueError("on purpose")

    def once():
        launch(torch.ones, args=(3,))
        with contextlib.suppress(ValueError):
            launch(fails)

    once()
    before = psutil.Process().num_fds()
    for _ in range(3):
        once()
    assert psutil.Process().num_fds() <= before


# ------------------------------------------------------------------------------- what goes wrong


@contextlib.contextmanager
def within(seconds):
    """Wide enough for a busy machine, far below the timeout that the peers wait for."""
    start = time.monotonic()
    yield
    assert time.monotonic() - start < seconds


@pytest.mark.parametrize("guilty", [0, 1, 1])
def test_a_workers_error_is_the_cause_and_not_what_its_peers_said(guilty, capfd):
    class Mine(Exception):
        pass

    def work():
        if dist.get_rank() == guilty:
            raise Mine("on purpose")
        dist.all_reduce(torch.ones(1))

    with within(20), pytest.raises(Mine, match="on purpose") as caught:
        launch(work, workers=3)
    text = str(caught.value.__cause__)
    assert f"rank {guilty} of 3" in text
    assert 'raise Mine("on purpose")' in text
    assert "d2lperf/launch.py" not in text
    assert "onnection" not in text + capfd.readouterr().err


def test_an_error_that_looks_like_a_lost_peer_is_raised_where_there_is_no_better_cause():
    def work():
        if dist.get_rank() == 0:
            raise RuntimeError("Connection closed by peer")
        time.sleep(0.3)
        raise KeyError("the cause")

    with pytest.raises(KeyError, match="the cause"):
        launch(work)
    with pytest.raises(RuntimeError, match="closed by peer") as caught:
        launch(work, workers=1)
    assert type(caught.value) is RuntimeError


class Mute(ValueError):
    def __str__(self):
        raise RuntimeError("no words")


@pytest.mark.parametrize(
    "error",
    [
        asyncio.CancelledError("stopped"),
        KeyboardInterrupt("by hand"),
        RuntimeError("DataLoader timed out after 5 seconds"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_errors_of_any_kind_come_as_they_were(error):
    def work():
        raise error

    with pytest.raises(type(error)) as caught:
        launch(work, workers=2)
    assert type(caught.value) is type(error) and caught.value.args == error.args


def test_an_error_without_words_comes_as_it_was():
    def work():
        raise Mute("x")

    with pytest.raises(Mute):
        launch(work, workers=1)


@pytest.mark.parametrize(
    "message",
    [
        "Timed out waiting 1000ms for recv operation to complete",
        "wait timeout after 500ms, keys: /x",
        "Timed out after 31 seconds waiting for clients. 1/2 clients joined.",
        "Watchdog caught collective operation timeout",
        "Socket Timeout",
    ],
)
def test_what_libraries_say_of_waiting_too_long_is_known(message):
    assert module._TOO_LATE.search(f"[gloo/transport/tcp/pair.cc:5] {message}")


def test_errors_that_cannot_travel_are_told():
    class Odd(Exception):
        """Its arguments are not what its constructor takes: it is pickled, but cannot be read."""

        def __init__(self, a, b):
            super().__init__(f"{a} and {b}")

    def unreadable():
        raise Odd(1, 2)

    def unsendable():
        error = ValueError("with a lock")
        error.lock = threading.Lock()
        raise error

    with pytest.raises(WorkerError, match=r"rank 0 raised Odd: 1 and 2") as caught:
        launch(unreadable, workers=1)
    assert "raise Odd(1, 2)" in str(caught.value.__cause__)
    with pytest.raises(WorkerError, match="rank 0 raised ValueError: with a lock"):
        launch(unsendable, workers=1)


def test_a_result_that_cannot_travel_names_the_rank():
    def work():
        return threading.Lock() if dist.get_rank() == 1 else None

    with pytest.raises(WorkerError, match=r"rank 1: its result \(lock\) cannot be sent") as caught:
        launch(work)
    assert caught.value.rank == 1

    class Unreadable:
        def __reduce__(self):
            return int, ("x",)

    with pytest.raises(WorkerError, match="result of rank 0 arrived, but cannot be read"):
        launch(Unreadable, workers=1)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV, signal.SIGABRT])
def test_a_killed_worker_is_named_with_the_signal(number, capfd):
    def work():
        if dist.get_rank() == 1:
            os.kill(os.getpid(), number)
        dist.all_reduce(torch.ones(1))

    match = rf"rank 1 of 2 was killed by signal {int(number)} \({number.name}\)"
    with within(20), pytest.raises(WorkerError, match=match) as caught:
        launch(work)
    assert (caught.value.rank, caught.value.signal) == (1, number)
    assert caught.value.__cause__ is None
    assert "onnection" not in str(caught.value) + capfd.readouterr().out


@pytest.mark.parametrize("leave", [os._exit, sys.exit])
def test_a_worker_that_exits_is_named_with_its_status(leave, capsys):
    def work():
        if dist.get_rank() == 1:
            print("so long")
            leave(3)
        dist.all_reduce(torch.ones(1))

    wanted = "rank 1 of 2 exited with status 3"
    with within(20), pytest.raises(WorkerError, match=wanted) as caught:
        launch(work)
    assert (caught.value.rank, caught.value.signal) == (1, None)
    assert capsys.readouterr().out == "[rank 1] so long\n"


def test_a_worker_that_dies_after_its_function_is_named():
    def work():
        if dist.get_rank() == 0:
            threading.Timer(0.2, os._exit, (5,)).start()
        else:
            time.sleep(30)

    with pytest.raises(WorkerError, match=r"rank 0 .* status 5 after its function had returned"):
        launch(work)


def test_a_deadlock_in_a_collective_ends_with_where_the_ranks_were():
    def exchange():
        x = torch.ones(1)
        dist.recv(x, src=1 - dist.get_rank())  # each waits for the other

    with pytest.raises(LaunchTimeout, match=r"waited longer than timeout_s = 1 s") as caught:
        launch(exchange, timeout_s=1, deadline_s=60)
    for rank in (0, 1):
        where = rf"\[rank {rank}\] gave up at test_launch.py, line \d+, in exchange: dist.recv"
        assert re.search(where, str(caught.value))
    assert "dist.recv(x" in str(caught.value.__cause__)


def test_a_rank_that_does_not_come_to_the_collective_is_shown():
    def work():
        if dist.get_rank() == 0:
            dist.new_group([0, 1, 2]).allreduce([torch.ones(1)]).wait()
        elif dist.get_rank() == 1:
            dist.new_group([0, 1, 2])
            time.sleep(60)
        else:
            dist.new_group([0, 1, 2])

    with pytest.raises(LaunchTimeout) as caught:
        launch(work, 3, timeout_s=1.5, deadline_s=60)
    lines = str(caught.value).splitlines()
    assert re.search(r"\[rank 0\] gave up at .*allreduce", lines[1])
    assert re.search(r"\[rank 1\] is at .*time\.sleep\(60\)", lines[2])
    assert lines[3] == "[rank 2] its function has returned"


def test_an_abort_by_the_watchdog_of_nccl_is_a_timeout():
    def work():
        if dist.get_rank() == 0:
            os.write(2, b"[Rank 0] Watchdog caught collective operation timeout: ...\n")
            os.abort()
        time.sleep(60)

    with pytest.raises(LaunchTimeout, match=r"rank 0 of 2 was killed by signal 6 \(SIGABRT\)"):
        launch(work, deadline_s=60)


def test_the_deadline_shows_where_each_rank_is_first(capsys):
    def wait_for_ever():
        while True:
            time.sleep(0.01)

    def work():
        if dist.get_rank() == 0:
            dist.all_reduce(torch.ones(1))
        elif dist.get_rank() == 1:
            wait_for_ever()

    with pytest.raises(LaunchTimeout, match=r"deadline_s = 3 s; still at work: ranks 0, 1"):
        launch(work, workers=3, deadline_s=3)
    out = capsys.readouterr().out
    assert re.search(
        r"\[rank 0\] .*\n\[rank 0\]   test_launch.py, line \d+, in work: dist.all", out
    )
    assert re.search(r"in work: wait_for_ever\(\)\n\[rank 1\] .* in wait_for_ever: \S", out)
    assert "[rank 2] its function has returned\n" in out


def test_workers_leave_when_the_helper_is_killed():
    pids = []

    def on_report(rank, pid):
        pids.append(pid)
        if len(pids) == 2:
            os.kill(module._helper._process.pid, signal.SIGKILL)

    def work():
        report(os.getpid())
        time.sleep(60)

    with pytest.raises(WorkerError, match="the process that starts the workers ended"):
        launch(work, on_report=on_report)
    assert wait_until(lambda: not any(psutil.pid_exists(pid) for pid in pids))
    assert launch(lambda: 1, workers=1) == [1]


def test_a_helper_that_was_killed_between_launches_is_replaced():
    launch(os.getpid, workers=1)
    module._helper._process.kill()
    assert wait_until(lambda: module._helper._process.poll() is not None)
    assert launch(lambda: 1, workers=1) == [1]


def test_an_error_in_on_report_ends_the_launch():
    def on_report(rank, value):
        raise LookupError("in the notebook")

    def work():
        report(1)
        time.sleep(60)

    with pytest.raises(LookupError, match="in the notebook"):
        launch(work, on_report=on_report)


def test_two_launches_at_once_are_refused():
    with pytest.raises(RuntimeError, match="another launch of this process"):
        launch(lambda: report(1), on_report=lambda *_: launch(os.getpid))


def test_a_worker_is_deaf_to_the_stop_button_of_others():
    def work():
        os.kill(os.getpid(), signal.SIGINT)
        return True

    assert launch(work) == [True, True]


def test_a_large_closure_is_warned_of():
    data = bytes(51_000_000)
    with pytest.warns(UserWarning, match="copies 51 MB to each of 2 workers") as caught:
        assert launch(lambda: len(data)) == [51_000_000] * 2
    assert caught[0].filename == __file__


# ------------------------------------------------------------------------------- what is refused


def three(a, b, c):
    pass


def iter_of(x):
    yield x


@pytest.mark.parametrize(
    ("kind", "match", "arguments", "options"),
    [
        (TypeError, "takes a function, but got 3", (3,), {}),
        (ValueError, "workers must be at least 1, but got 0", (os.getpid, 0), {}),
        (TypeError, "workers is a whole number, but got 2.0", (os.getpid, 2.0), {}),
        (TypeError, "workers is a whole number, but got True", (os.getpid, True), {}),
        (TypeError, r"args=\(x,\), with the comma", (len, 1, "ab"), {}),
        (TypeError, r"three\(a, b, c\) cannot be called with the 2 arg", (three, 2, (1, 2)), {}),
        (ValueError, "threads must be at least 1", (os.getpid,), {"threads": 0}),
        (ValueError, "timeout_s must be a positive", (os.getpid,), {"timeout_s": 0}),
        (TypeError, "timeout_s is a number", (os.getpid,), {"timeout_s": None}),
        (ValueError, "deadline_s must be a positive", (os.getpid,), {"deadline_s": -1}),
        (TypeError, "on_report is a function", (os.getpid,), {"on_report": 1}),
        (ValueError, 'backend is "auto", "gloo" or "nccl", but got', (os.getpid,), {"backend": 1}),
        (TypeError, r"len or what .*cannot be sent.*inside", (len, 1, [iter_of(1)]), {}),
    ],
)
def test_arguments_that_cannot_be_right_are_told(kind, match, arguments, options, monkeypatch):
    monkeypatch.setattr(module, "_ready_helper", lambda: pytest.fail("it started"))
    with pytest.raises(kind, match=match):
        launch(*arguments, **options)


def test_nccl_needs_a_device_for_each_worker(monkeypatch):
    monkeypatch.setattr(dist, "is_nccl_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert module._backend("auto", 2) == "nccl"
    assert module._backend("auto", 3) == "gloo"
    assert module._backend("gloo", 2) == "gloo"
    with pytest.raises(ValueError, match=r"each of the 3 workers, but this process sees 2 CUDA"):
        launch(os.getpid, workers=3, backend="nccl")
    monkeypatch.setattr(dist, "is_nccl_available", lambda: False)
    assert module._backend("auto", 2) == "gloo"


def test_with_nccl_each_rank_has_its_device(monkeypatch):
    seen = {}
    monkeypatch.setattr(torch.cuda, "set_device", lambda device: seen.update(set=device))
    monkeypatch.setattr(dist, "TCPStore", lambda *_, **__: dist.HashStore())
    monkeypatch.setattr(dist, "init_process_group", lambda *a, **k: seen.update(k, backend=a[0]))
    monkeypatch.setattr(module, "_limit_subgroups", lambda *_: None)
    monkeypatch.setattr(os, "environ", dict(os.environ))
    rank = module._Rank(None)
    rank.rank = 1
    monkeypatch.setattr(dist.HashStore, "wait", lambda *_: None)
    rank._join({"workers": 2, "port": 1, "backend": "nccl", "timeout_s": 5})
    device = torch.device("cuda", 1)
    assert (seen["backend"], seen["set"], seen["device_id"], seen["rank"]) == (
        "nccl", device, device, 1,
    )  # fmt: skip
    assert os.environ["LOCAL_RANK"] == "1"


def test_a_system_without_fork_is_told_what_to_use(monkeypatch):
    monkeypatch.delattr(os, "fork")
    with pytest.raises(NotImplementedError, match=r"WSL 2.*torchrun --nproc-per-node 4"):
        launch(os.getpid, workers=4)


def test_report_outside_of_a_launch_is_told():
    with pytest.raises(RuntimeError, match="inside fn of launch"):
        report(1)


# ------------------------------------------------------------------------------- in a notebook


class Kernel:
    """A real kernel, as Jupyter starts it."""

    def __init__(self):
        manager = pytest.importorskip("jupyter_client.manager")
        folder = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
        self.manager, self.client = manager.start_new_kernel(
            kernel_name="python3", env={**os.environ, "PYTHONPATH": folder}
        )

    @property
    def pid(self):
        return self.manager.provisioner.pid

    def start(self, code):
        """Send a cell; return what `finish` wants."""
        return self.client.execute(code), {"stdout": "", "stderr": "", "error": None}

    def take(self, cell, until=lambda seen: False, timeout=60):
        """Hear a cell's messages until it is over, or something was seen."""
        wanted, seen = cell
        while True:
            message = self.client.get_iopub_msg(timeout=timeout)
            if message["parent_header"].get("msg_id") != wanted:
                continue
            content = message["content"]
            if message["msg_type"] == "stream":
                seen[content["name"]] += content["text"]
            elif message["msg_type"] == "error":
                seen["error"] = content
            elif content.get("execution_state") == "idle":
                return seen
            if until(seen):
                return seen

    def run(self, code):
        return self.take(self.start(code))

    def stop(self):
        self.client.stop_channels()
        self.manager.shutdown_kernel(now=True)


@pytest.fixture(scope="module")
def kernel():
    kernel = Kernel()
    # As in a lesson: torch has computed before, with all of its threads.
    begin = "import os, sys, time, torch, torch.distributed as dist\nimport d2lperf as d2l\n"
    seen = kernel.run(begin + "x = torch.randn(600, 600); x = x @ x\nfrom d2lperf.launch import *")
    assert seen["error"] is None, seen["error"]["traceback"]
    yield kernel
    kernel.stop()


def test_functions_classes_and_closures_of_cells(kernel):
    kernel.run(
        "class Point:\n    def __init__(self, x): self.x = x\n"
        "    def moved(self, by): return Point(self.x + by)\n"
        "scale = 10\n"
        "def adder(n):\n    def add(point): return point.moved(n * scale + dist.get_rank())\n"
        "    return add"
    )
    seen = kernel.run(
        "points = d2l.launch(adder(2), args=(Point(5),))\n"
        "print([p.x for p in points], all(type(p) is Point for p in points))"
    )
    assert seen == {"stdout": "[25, 26] True\n", "stderr": "", "error": None}


def test_prints_come_to_the_launching_cell(kernel):
    seen = kernel.run("_ = d2l.launch(lambda: print('hello from', dist.get_rank()))")
    assert sorted(seen["stdout"].splitlines()) == [
        "[rank 0] hello from 0",
        "[rank 1] hello from 1",
    ]
    assert not seen["stderr"]


def test_an_error_shows_the_cells_source(kernel):
    kernel.run(
        "class Mine(Exception): pass\ndef deep(n):\n    raise Mine(f'bad {n}')  # the place\n"
    )
    seen = kernel.run(
        "def work():\n    if dist.get_rank() == 1: deep(3)  # the call\n"
        "    dist.all_reduce(torch.ones(1))\nd2l.launch(work)"
    )
    assert (seen["error"]["ename"], seen["error"]["evalue"]) == ("Mine", "bad 3")
    text = re.sub(r"\x1b\[[\d;]*m", "", "\n".join(seen["error"]["traceback"]))
    assert "rank 1 of 2" in text
    assert "raise Mine(f'bad {n}')  # the place" in text and "# the call" in text
    assert "onnection" not in text
    assert not seen["stderr"]


def test_a_deadlock_is_shown_in_words_of_the_cell(kernel):
    seen = kernel.run(
        "def lost():\n    x = torch.ones(1)\n    dist.recv(x, src=1 - dist.get_rank())\n"
        "try: d2l.launch(lost, deadline_s=3)\n"
        "except LaunchTimeout as error: print(error)"
    )
    for rank in (0, 1):
        place = f"[rank {rank}]   cell, line 3, in lost: dist.recv(x, src=1 - dist.get_rank())\n"
        assert place in seen["stdout"], seen
    assert "the launch took longer than deadline_s = 3 s" in seen["stdout"]


def helper_of(pid):
    """The helper process of a kernel."""
    children = psutil.Process(pid).children()
    return next(p for p in children if "d2lperf.launch import _serve" in " ".join(p.cmdline()))


SLEEP = "print('pid', os.getpid()); sys.stdout.flush(); time.sleep(120)"


@pytest.mark.parametrize("where", ["in Python", "in a collective", "in on_report"])
def test_the_stop_button(kernel, where):
    code = {
        "in Python": f"def work():\n    {SLEEP}\nlaunch(work)",
        "in a collective": "def work():\n    print('pid', os.getpid())\n"
        "    if dist.get_rank(): dist.all_reduce(torch.ones(1))\n    time.sleep(120)\nlaunch(work)",
        "in on_report": "def work():\n    print('pid', os.getpid())\n    report(1)\n"
        "    time.sleep(120)\nlaunch(work, on_report=lambda *_: time.sleep(120))",
    }[where]
    cell = kernel.start(code)
    wanted = 1 if where == "in on_report" else 2
    seen = kernel.take(cell, until=lambda seen: seen["stdout"].count("pid") >= wanted)
    time.sleep(0.2)
    workers = helper_of(kernel.pid).children(recursive=True)
    assert len(workers) == 2
    kernel.manager.interrupt_kernel()
    seen = kernel.take(cell)
    assert seen["error"]["ename"] == "KeyboardInterrupt"
    assert wait_until(lambda: not any(p.is_running() for p in workers))
    seen = kernel.run("print(launch(dist.get_rank))")
    assert seen["stdout"] == "[0, 1]\n", seen


def test_when_the_kernel_is_killed_its_workers_leave():
    kernel = Kernel()
    try:
        cell = kernel.start(
            "import os, subprocess, sys, time, d2lperf\n"
            "def work():\n    subprocess.Popen(['sleep', '120'])\n"
            f"    {SLEEP}\nd2lperf.launch(work)"
        )
        kernel.take(cell, until=lambda seen: seen["stdout"].count("pid") == 2)
        helper = helper_of(kernel.pid)
        family = [helper, *helper.children(recursive=True)]
        assert len(family) == 5  # two workers, each with a child of its own
        os.kill(kernel.pid, signal.SIGKILL)
        left = lambda: [  # noqa: E731
            p for p in family if p.is_running() and p.status() != psutil.STATUS_ZOMBIE
        ]
        assert wait_until(lambda: not left(), 5), left()
    finally:
        kernel.stop()


def test_when_an_idle_kernel_is_killed_its_helper_leaves():
    kernel = Kernel()
    try:
        seen = kernel.run("import d2lperf\nprint(d2lperf.launch(int))")
        assert seen["stdout"] == "[0, 0]\n", seen
        helper = helper_of(kernel.pid)
        os.kill(kernel.pid, signal.SIGKILL)
        gone = lambda: not helper.is_running() or helper.status() == psutil.STATUS_ZOMBIE  # noqa: E731
        assert wait_until(gone, 5)
    finally:
        kernel.stop()


# ------------------------------------------------------------------------------- under torchrun


SCRIPT = """
import os, sys
import torch, torch.distributed as dist
from d2lperf.launch import launch, report

def work(scale):
    x = torch.tensor([scale * (1.0 + dist.get_rank())])
    dist.all_reduce(x)
    report(dist.get_rank())
    return os.getpid(), x.item()

seen = []
first = launch(work, workers=7, args=(2,), on_report=lambda *what: seen.append(what))
second = launch(work, args=(3,), backend="gloo", timeout_s=30)
rank = dist.get_rank()
assert first[rank][0] == os.getpid() and seen == [(rank, rank)]
assert len(first) == 2 and first[0][0] != first[1][0]
with open(os.path.join(sys.argv[1], str(rank)), "w") as file:
    file.write(f"{[x for _, x in first]} {[x for _, x in second]} {torch.get_num_threads()}")
"""


FAILING = """
import sys, time
import torch, torch.distributed as dist
from d2lperf.launch import launch

def fails():
    if dist.get_rank() == 1:
        raise ZeroDivisionError("on rank 1")
    dist.all_reduce(torch.ones(1))

def sleeps():
    time.sleep(100)

launch(*{"fails": (fails,), "sleeps": (sleeps,)}[sys.argv[1]], deadline_s=3)
"""


def torchrun(script, *arguments):
    return subprocess.run(
        [sys.executable, "-m", "torch.distributed.run", "--nnodes", "1", "--nproc-per-node", "2",
         "--rdzv-backend", "c10d", "--rdzv-endpoint", "127.0.0.1:0", "--local-addr", "127.0.0.1",
         str(script), *arguments],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=120,
    )  # fmt: skip


@pytest.mark.parametrize(
    "what, said",
    [("fails", "ZeroDivisionError: on rank 1"), ("sleeps", "in sleeps")],
)
def test_under_torchrun_a_failure_ends_the_script_and_is_told(tmp_path, what, said):
    script = tmp_path / "train.py"
    script.write_text(FAILING)
    run = torchrun(script, what)
    assert run.returncode != 0 and said in run.stderr, run.stderr


def test_variables_of_torchrun_that_a_notebook_has_left_are_warned_of(monkeypatch):
    for name, value in {"RANK": "0", "WORLD_SIZE": "1"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("TORCHELASTIC_RUN_ID", raising=False)
    called = []
    monkeypatch.setattr(module, "_in_place", lambda fn, *_: called.append(fn))
    with pytest.warns(RuntimeWarning, match="asked for 2 workers.* WORLD_SIZE=1 .*os.environ"):
        launch(int, workers=2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        launch(int, workers=1)
        monkeypatch.setenv("TORCHELASTIC_RUN_ID", "7")
        launch(int, workers=2)
    assert called == [int, int, int]


def test_under_torchrun_the_same_call_runs_in_place(tmp_path):
    script = tmp_path / "train.py"
    script.write_text(SCRIPT)
    run = torchrun(script, str(tmp_path))
    assert run.returncode == 0, run.stderr
    threads = max(1, usable_cores() // 2)
    for rank in "01":
        assert (tmp_path / rank).read_text() == f"[6.0, 6.0] [9.0, 9.0] {threads}"
