"""The same call under torchrun: in place."""

import sys

import pytest
from fresh import run_python, torchrun

from d2lperf.machine import usable_cores

TWO_HERE = ("--nnodes", "1", "--nproc-per-node", "2", "--rdzv-backend", "c10d")
TWO_HERE += ("--rdzv-endpoint", "127.0.0.1:0", "--local-addr", "127.0.0.1")

SCRIPT = """
import os, sys
import torch, torch.distributed as dist
from d2lperf import launch, report

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
from d2lperf import launch

def fails():
    if dist.get_rank() == 1:
        raise ZeroDivisionError("on rank 1")
    dist.all_reduce(torch.ones(1))

def sleeps():
    time.sleep(100)

launch(*{"fails": (fails,), "sleeps": (sleeps,)}[sys.argv[1]], deadline_s=2)
"""


def test_the_same_call_runs_in_place(tmp_path):
    script = tmp_path / "train.py"
    script.write_text(SCRIPT)
    run = torchrun(*TWO_HERE, script, tmp_path)
    assert run.returncode == 0, run.stderr
    threads = max(1, usable_cores() // 2)
    for rank in "01":
        assert (tmp_path / rank).read_text() == f"[6.0, 6.0] [9.0, 9.0] {threads}"


# At the deadline each process writes where it is, without waiting for the others: what two of them
# write in the same millisecond is mixed up. So there is one process in the second case.
@pytest.mark.parametrize(
    ("workers", "what", "said"),
    [("2", "fails", "ZeroDivisionError: on rank 1"), ("1", "sleeps", "in sleeps")],
)
def test_a_failure_ends_the_script_and_is_told(tmp_path, workers, what, said):
    script = tmp_path / "train.py"
    script.write_text(FAILING)
    run = torchrun(*TWO_HERE, "--nproc-per-node", workers, script, what)
    assert run.returncode != 0 and said in run.stderr, run.stderr


ENDING = """
import atexit, os, pathlib
def left_over():
    names = [path.read_text() for path in pathlib.Path("/proc/self/task").glob("*/comm")]
    count = sum("gloo" in name and "loop" in name for name in names)
    # One write a process: print writes the end of the line by itself, and both share the pipe.
    os.write(1, f"threads of gloo: {count}\\n".encode())
atexit.register(left_over)  # exit functions run in reverse order: after those of d2lperf
import torch, torch.distributed as dist
from d2lperf import launch
def work():
    torch.optim.SGD([torch.nn.Parameter(torch.ones(1))], lr=0.1)  # imports half of torch
    dist.all_reduce(torch.ones(1))
launch(work)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="looks at threads in /proc")
def test_no_thread_of_gloo_outlives_the_group(tmp_path):
    """One that still has a tensor to give back when Python ends would abort the process."""
    script = tmp_path / "ends.py"
    script.write_text(ENDING)
    run = torchrun(*TWO_HERE, script)
    assert run.returncode == 0, run.stderr
    assert run.stdout.splitlines() == ["threads of gloo: 0"] * 2


LEFT = """
import os, warnings, torch.distributed as dist
from d2lperf import launch
os.environ.update(RANK="0", WORLD_SIZE="1", MASTER_ADDR="127.0.0.1", MASTER_PORT="0")
warnings.simplefilter("error")
assert launch(dist.get_world_size, workers=1) == [1]
dist.destroy_process_group()
try:
    launch(int, workers=2)
except RuntimeWarning as warning:
    print(warning)
"""


def test_variables_of_torchrun_that_a_notebook_has_left_are_warned_of():
    run = run_python("-c", LEFT)
    assert "asked for 2 workers" in run.stdout and "delete both from os.environ" in run.stdout, run
