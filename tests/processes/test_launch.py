"""Functions on several processes: each line of what `launch` promises is a test that does it."""

import asyncio
import linecache
import multiprocessing
import os
import re
import threading
import time

import psutil
import pytest
import torch
import torch.distributed as dist
from fresh import run_python

from d2lperf.machine import usable_cores
from d2lperf.processes import LaunchTimeout, WorkerError, launch, report
from tests.processes.conftest import server_of, wait_until

# ------------------------------------------------------------------------------- what it does


def test_results_come_by_rank_and_collectives_work(capfd):
    def work(scale):
        x = torch.tensor([scale * (1.0 + dist.get_rank())])
        dist.all_reduce(x)
        return dist.get_rank(), dist.get_world_size(), dist.get_backend(), x

    results = launch(work, workers=3, args=(10,))
    assert [r[:3] for r in results] == [(0, 3, "gloo"), (1, 3, "gloo"), (2, 3, "gloo")]
    assert all(r[3].item() == 60 for r in results)
    results[0][3].zero_()  # a copy of its own
    assert results[1][3].item() == 60
    assert capfd.readouterr() == ("", "")  # gloo's greeting is not shown
    assert launch(dist.get_world_size, workers=1) == [1]


def test_threads_are_shared_out():
    assert launch(torch.get_num_threads) == [max(1, usable_cores() // 2)] * 2
    assert launch(torch.get_num_threads, threads=3) == [3, 3]


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU of NVIDIA's or AMD's")
@pytest.mark.parametrize(("workers", "backend"), [(1, "nccl"), (2, "gloo")])
def test_a_gpu_in_use_in_the_kernel_is_no_hindrance(workers, backend):
    assert torch.ones(1, device="cuda").sum().item() == 1

    def work():
        x = torch.full((3,), 1.0 + dist.get_rank(), device="cuda" if backend == "nccl" else "cpu")
        dist.all_reduce(x)
        return (x.to("cuda") * 2).cpu()

    for _ in range(2):
        for x in launch(work, workers=workers, backend=backend):
            assert x.tolist() == [workers * (workers + 1.0)] * 3


def test_a_data_loader_may_have_processes_in_a_worker():
    def work():
        from torch.utils.data import DataLoader

        return sum(batch.sum().item() for batch in DataLoader(range(8), 2, num_workers=1))

    assert launch(work, deadline_s=60) == [28, 28]


def test_a_launch_in_a_worker_runs_in_place():
    assert launch(lambda: launch(dist.get_rank, workers=5)) == [[0, 1], [0, 1]]


def test_two_launches_at_once_do_not_disturb_each_other():
    found = []
    launch(lambda: report(1), on_report=lambda *_: found.append(launch(dist.get_rank)))
    assert found == [[0, 1]] * 2


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
    assert {ip.replace("::ffff:", "") for ip in addresses} <= {"127.0.0.1", "::1"}
    assert not listening() - before  # and it is closed again


# ------------------------------------------------------------------------------- what goes wrong


@pytest.mark.parametrize("guilty", [0, 1])
def test_a_workers_error_is_the_cause_and_not_what_its_peers_said(guilty, capfd):
    class Mine(Exception):
        pass

    def work():
        if dist.get_rank() == guilty:
            raise Mine("on purpose")
        dist.all_reduce(torch.ones(1))

    with pytest.raises(Mine, match="on purpose") as caught:
        launch(work, workers=3)
    assert caught.value.rank == guilty
    text = str(caught.value.__cause__)
    assert f"rank {guilty} of 3" in text and 'raise Mine("on purpose")' in text
    assert "d2lperf/processes" not in text
    assert "onnection" not in text + capfd.readouterr().err


@pytest.mark.parametrize("wrapped", [False, True])
def test_who_left_is_named_and_not_who_lost_it(wrapped):
    def work():
        if dist.get_rank() == 1:
            os._exit(3)
        try:
            dist.all_reduce(torch.ones(1))
        except RuntimeError as error:
            if wrapped:
                raise OSError("training failed") from error
            raise

    with pytest.raises(WorkerError, match="rank 1 of 2 exited with status 3"):
        launch(work)


class Mute(ValueError):
    def __str__(self):
        raise RuntimeError("no words")


@pytest.mark.parametrize(
    "error",
    [
        asyncio.CancelledError("stopped"),
        KeyboardInterrupt("by hand"),
        RuntimeError("the query timed out after 500 ms"),
        RuntimeError("gloo was told: Connection closed by peer"),
        Mute("x"),
    ],
    ids=lambda error: f"{type(error).__name__}{len(error.args[0])}",
)
def test_errors_of_any_kind_come_as_they_were(error):
    def work():
        if dist.get_rank() == 0:
            raise error
        time.sleep(60)

    with pytest.raises(type(error)) as caught:
        launch(work)
    assert type(caught.value) is type(error) and caught.value.args == error.args
    assert caught.value.rank == 0


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        (
            dist.DistStoreError,
            "Timed out after 31 seconds waiting for clients. 1/2 clients joined.",
        ),
        (dist.DistBackendError, "Watchdog caught collective operation timeout"),
        (dist.DistNetworkError, "Socket Timeout"),
    ],
)
def test_what_libraries_say_of_waiting_too_long_is_known(kind, message):
    def work():
        raise kind(message)

    with pytest.raises(LaunchTimeout):
        launch(work, workers=1)


class TwoArguments(Exception):
    """What it gives to Exception are not the arguments of its __init__."""

    def __init__(self, step, loss):
        super().__init__(f"loss {loss} at step {step}")
        self.step, self.loss = step, loss


class OneByDefault(ValueError):
    def __init__(self, a, b=0):
        super().__init__(f"{a} and {b}")


class WithRank(Exception):
    def __init__(self, text):
        super().__init__(text)
        self.rank, self.values = "mine", [1, 2]


class File(OSError):
    def __init__(self, path, line):
        super().__init__(2, "broken", path)
        self.line = line


@pytest.mark.parametrize(
    ("kind", "arguments"),
    [(TwoArguments, (3, 0.5)), (OneByDefault, (1, 2)), (WithRank, ("x",)), (File, ("x.txt", 7))],
)
def test_errors_with_an_init_of_their_own_come_as_their_own_class(kind, arguments):
    def work():
        raise kind(*arguments)

    wanted = kind(*arguments)
    with pytest.raises(kind) as caught:
        launch(work, workers=1)
    assert (str(caught.value), caught.value.args) == (str(wanted), wanted.args)
    assert vars(caught.value) == {"rank": 0} | vars(wanted)


def test_an_error_arrives_as_its_class_without_what_cannot_be_sent():
    class Odd(Exception):
        """It is pickled, but cannot be read."""

        def __new__(cls, a, b):
            return super().__new__(cls, a, b)

        def __init__(self, a, b):
            super().__init__(f"{a} and {b}")

    def unreadable():
        raise Odd(1, 2)

    def with_locks():
        error = OneByDefault(1, 2)
        error.args = (*error.args, threading.Lock())
        error.lock, error.step = threading.Lock(), 7
        raise error

    with pytest.raises(Odd, match="1 and 2") as caught:
        launch(unreadable, workers=1)
    assert "raise Odd(1, 2)" in str(caught.value.__cause__)
    with pytest.raises(OneByDefault, match="1 and 2") as caught:
        launch(with_locks, workers=1)
    assert vars(caught.value) == {"step": 7, "rank": 0} and "lock" in caught.value.args[1]
    why = str(caught.value.__cause__)
    assert "left out, because it cannot be sent: attribute 'lock', argument <unlocked" in why


def test_an_error_whose_class_cannot_be_sent_is_told():
    def work():
        lock = threading.Lock()

        class Bound(Exception):
            held = lock

        raise Bound("no way out")

    with pytest.raises(WorkerError, match=r"rank 0 raised .*Bound: no way out"):
        launch(work, workers=1)


SCRIPT = """
import time
from d2lperf import launch, LaunchTimeout

class Mine(Exception):
    def __init__(self, a, b):
        super().__init__(f"{a} and {b}")

def fails():
    raise Mine(1, 2)

def waits():
    time.sleep(60)

try:
    launch(fails, 1)
except Mine as error:
    print("caught", error)
try:
    launch(waits, 1, deadline_s=5)  # a busy machine needs a second until it waits
except LaunchTimeout as error:
    print(error)
"""


def test_a_script_is_told_of_its_own_lines_only(tmp_path):
    (tmp_path / "script.py").write_text(SCRIPT)
    done = run_python("script.py", cwd=tmp_path)
    assert done.stdout.splitlines() == [
        "caught 1 and 2",
        "the launch took longer than deadline_s = 5 s.",
        "[rank 0] is at script.py, line 13, in waits: time.sleep(60)",
    ], done.stderr


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
    assert caught.value.rank is None


def test_a_rank_that_does_not_come_to_the_collective_is_named():
    def work():
        group = dist.new_group([0, 1, 2])
        if dist.get_rank() == 0:
            group.allreduce([torch.ones(1)]).wait()
        elif dist.get_rank() == 1:
            time.sleep(60)

    with pytest.raises(LaunchTimeout) as caught:
        launch(work, 3, timeout_s=1.5, deadline_s=60)
    text = str(caught.value)
    assert re.search(r"\[rank 0\] gave up at .*allreduce", text)
    assert re.search(r"\[rank 1\] is at .*time\.sleep\(60\)", text)
    assert "[rank 2] its function has returned" in text
    assert caught.value.rank == 1


def test_an_abort_by_the_watchdog_of_nccl_is_a_timeout():
    def work():
        if dist.get_rank() == 0:
            os.write(2, b"[Rank 0] Watchdog caught collective operation timeout: ...\n")
            os.abort()
        time.sleep(60)

    with pytest.raises(LaunchTimeout, match=r"rank 0 of 2 was killed by signal 6 \(SIGABRT\)"):
        launch(work, deadline_s=60)


def test_the_deadline_says_where_each_rank_is_and_for_whom_they_wait():
    def wait_for_ever():
        while True:
            time.sleep(0.01)

    def work():
        if dist.get_rank() == 0:
            dist.all_reduce(torch.ones(1))
        elif dist.get_rank() == 2:
            wait_for_ever()

    with pytest.raises(LaunchTimeout, match=r"longer than deadline_s = 2 s") as caught:
        launch(work, workers=3, deadline_s=2)
    text = str(caught.value)
    assert re.search(r"\[rank 0\] is at test_launch.py, line \d+, in work: dist.all", text)
    assert "[rank 1] its function has returned" in text
    assert re.search(r"\[rank 2\] is at .* in wait_for_ever: \S.*\n.* in work: wait_for_ever", text)
    assert caught.value.rank == 2


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
        (ValueError, "workers must be a positive whole number, but got 0", (os.getpid, 0), {}),
        (TypeError, "workers is a whole number, but got 2.0", (os.getpid, 2.0), {}),
        (TypeError, "workers is a whole number, but got True", (os.getpid, True), {}),
        (TypeError, r"args=\(x,\), with the comma", (len, 1, "ab"), {}),
        (TypeError, r"three\(a, b, c\) cannot be called with the 2 arg", (three, 2, (1, 2)), {}),
        (ValueError, "threads must be a positive", (os.getpid,), {"threads": 0}),
        (ValueError, "timeout_s must be a positive", (os.getpid,), {"timeout_s": 0}),
        (TypeError, "timeout_s is a number", (os.getpid,), {"timeout_s": None}),
        (ValueError, "deadline_s must be a positive", (os.getpid,), {"deadline_s": -1}),
        (TypeError, "on_report is a function", (os.getpid,), {"on_report": 1}),
        (ValueError, 'backend is "auto", "gloo"', (os.getpid,), {"backend": 1}),
        (TypeError, r"len or what .*cannot be sent.*inside", (len, 1, [iter_of(1)]), {}),
    ],
)
def test_arguments_that_cannot_be_right_are_told(kind, match, arguments, options):
    with pytest.raises(kind, match=match):
        launch(*arguments, **options)


def test_an_accelerator_of_its_own_for_each_worker(accelerators, monkeypatch):
    accelerators(2)
    monkeypatch.setattr(dist, "is_backend_available", lambda name: True)
    with pytest.raises(ValueError, match=r"each of the 3 workers, but this process sees 2"):
        launch(os.getpid, workers=3, backend="nccl")
    assert launch(dist.get_backend, workers=3) == ["gloo"] * 3
    assert launch(dist.get_backend, workers=2, backend="gloo") == ["gloo"] * 2


@pytest.mark.parametrize("kind", ["mps", "privateuseone"])
def test_a_kind_of_device_without_a_backend_of_its_own(accelerators, kind):
    accelerators(2, kind)
    with pytest.raises(ValueError, match='backend is "auto" or "gloo" here, but got \'nccl\''):
        launch(os.getpid, backend="nccl")
    assert launch(dist.get_backend) == ["gloo"] * 2


def test_a_system_without_a_fork_server_is_told_what_to_use(monkeypatch):
    monkeypatch.setattr(multiprocessing, "get_all_start_methods", lambda: ["spawn"])
    with pytest.raises(NotImplementedError, match=r"WSL 2.*torchrun --nproc-per-node 4"):
        launch(os.getpid, workers=4)


def test_report_outside_of_a_launch_is_told():
    with pytest.raises(RuntimeError, match="inside fn of launch"):
        report(1)


# ------------------------------------------------------------------------------- in a notebook


def test_functions_classes_and_closures_of_cells(kernel):
    kernel.run(
        "class Point:\n    def __init__(self, x): self.x = x\n"
        "    def moved(self, by): return Point(self.x + by)\n"
        "scale = 10\n"
        "def adder(n):\n    def add(point): return point.moved(n * scale + dist.get_rank())\n"
        "    return add"
    )
    seen = kernel.run(
        "points = launch(adder(2), args=(Point(5),))\n"
        "print([p.x for p in points], all(type(p) is Point for p in points))"
    )
    assert seen == {"stdout": "[25, 26] True\n", "stderr": "", "error": None}


def test_an_error_shows_the_cells_source(kernel):
    kernel.run(
        "class Mine(Exception): pass\ndef deep(n):\n    raise Mine(f'bad {n}')  # the place\n"
    )
    seen = kernel.run(
        "def work():\n    if dist.get_rank() == 1: deep(3)  # the call\n"
        "    dist.all_reduce(torch.ones(1))\nlaunch(work)"
    )
    assert (seen["error"]["ename"], seen["error"]["evalue"]) == ("Mine", "bad 3")
    text = re.sub(r"\x1b\[[\d;]*m", "", "\n".join(seen["error"]["traceback"]))
    assert "rank 1 of 2" in text
    assert "raise Mine(f'bad {n}')  # the place" in text and "# the call" in text
    assert "onnection" not in text
    assert not seen["stderr"]


def test_a_source_with_a_time_travels(monkeypatch):
    """IPython 7 keeps the sources of cells so, and Colab has it."""
    source = "def fails():\n    raise ZeroDivisionError  # the place\n"
    name = "/tmp/ipykernel_1/23.py"
    monkeypatch.setitem(linecache.cache, name, (len(source), 1.0, source.splitlines(True), name))
    names = {"__name__": "__main__"}
    exec(compile(source, name, "exec"), names)
    with pytest.raises(ZeroDivisionError) as caught:
        launch(names["fails"])
    assert "# the place" in str(caught.value.__cause__)


def test_a_deadlock_is_shown_in_words_of_the_cell(kernel):
    seen = kernel.run(
        "def lost():\n    x = torch.ones(1)\n    dist.recv(x, src=1 - dist.get_rank())\n"
        "try: launch(lost, deadline_s=2)\n"
        "except LaunchTimeout as error: print(error)"
    )
    place = "is at cell, line 3, in lost: dist.recv(x, src=1 - dist.get_rank())\n"
    for rank in (0, 1):
        assert f"[rank {rank}] {place}" in seen["stdout"], seen
    assert "the launch took longer than deadline_s = 2 s" in seen["stdout"]


@pytest.mark.parametrize("where", ["in Python", "in a collective", "in on_report"])
def test_the_stop_button(kernel, where):
    code = {
        "in Python": "def work():\n    print('at work')\n    time.sleep(120)\nlaunch(work)",
        "in a collective": "def work():\n    print('at work')\n"
        "    if dist.get_rank(): dist.all_reduce(torch.ones(1))\n    time.sleep(120)\nlaunch(work)",
        "in on_report": "def wait(*_):\n    print('at work', flush=True)\n    time.sleep(120)\n"
        "def work():\n    report(1)\n    time.sleep(120)\nlaunch(work, on_report=wait)",
    }[where]
    cell = kernel.start(code)
    wanted = 1 if where == "in on_report" else 2
    kernel.take(cell, until=lambda seen: seen["stdout"].count("at work") >= wanted)
    workers = server_of(kernel.pid).children(recursive=True)
    assert len(workers) == 2
    kernel.manager.interrupt_kernel()
    seen = kernel.take(cell)
    assert seen["error"]["ename"] == "KeyboardInterrupt"
    assert wait_until(lambda: not any(p.is_running() for p in workers))
    seen = kernel.run("print(launch(dist.get_rank))")
    assert seen["stdout"] == "[0, 1]\n", seen
