"""What `d2lperf.launch` costs: starting, failing, being stopped, moving data and text.

First table: the first launches of a process that has imported torch. The first one of all starts
the server that the workers are forks of. Second table: from the moment when a worker fails to the
moment when the error is there, and from the stop button or the kernel's death to the end of the
last process. Third table: data in both directions, and printed text.

    python benchmarks/launch.py
    python benchmarks/launch.py --check     # status 1 where a target is missed
"""

from __future__ import annotations

import argparse
import io
import json
import os
import signal
import statistics
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from contextlib import redirect_stdout, suppress
from pathlib import Path

import psutil
import torch
import torch.distributed as dist

from d2lperf import WorkerError, launch, report

ROOT = Path(__file__).parents[1]
FIRST = """
import json, time
import torch, torch.distributed, d2lperf
torch.ones(500, 500) @ torch.ones(500, 500)
times = []
def train():
    torch.optim.SGD([torch.nn.Parameter(torch.ones(1))], lr=0.1)
for fn in int, int, train, train:
    start = time.perf_counter()
    d2lperf.launch(fn, {workers})
    times.append(time.perf_counter() - start)
print(json.dumps(times))
"""
STOPPED = """
import os, sys, time, d2lperf
def work():
    print(os.getpid(), flush=True)
    time.sleep(100)
d2lperf.launch(work, 2)
"""


def program(code: str) -> subprocess.Popen:
    """Start Python on some code."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.Popen(
        [sys.executable, "-c", code],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=environment,
    )


EARLY = ("first launch", "second launch", "first with SGD", "second with SGD")


def early_launches(workers: int) -> list[float]:
    """Seconds of the first launches of a fresh process, as in EARLY."""
    with program(FIRST.format(workers=workers)) as run:
        return json.loads(run.communicate()[0])


def seconds_of(fn: Callable[[], object]) -> float:
    """Time of one call."""
    start = time.perf_counter()
    fn()
    return time.perf_counter() - start


def until_error(fail: Callable[[], object]) -> float:
    """Seconds from the failure of rank 1 to the error in the caller, while rank 0 waits for it."""
    moments = []

    def work():
        dist.barrier()
        if dist.get_rank() == 1:
            report(time.monotonic())
            fail()
        dist.all_reduce(torch.ones(1))

    with suppress(WorkerError, ZeroDivisionError):
        launch(work, on_report=lambda rank, moment: moments.append(moment))
    return time.monotonic() - moments[0]


def until_gone(number: int) -> float:
    """Seconds from a signal to a process whose launch is running to the end of its last worker."""
    with program(STOPPED) as run:
        for _ in range(2):
            run.stdout.readline()
        family = psutil.Process(run.pid).children(recursive=True)
        start = time.monotonic()
        run.send_signal(number)
        alive = family
        while alive:
            time.sleep(0.002)
            run.poll()
            alive = [p for p in alive if is_alive(p)]
        return time.monotonic() - start


def is_alive(process: psutil.Process) -> bool:
    with suppress(psutil.NoSuchProcess):
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    return False


# The most seconds that a row may take, by how its name begins.
TARGETS_S = {
    "first launch": 4.0,  # with the imports that an optimiser needs, so that no later one waits
    "second launch": 0.15,
    "launch again": 0.15,
    "second with SGD": 0.15,
    "rank 1": 2.0,
    "the caller is killed": 5.0,
}


def judged(name: str, median_s: float) -> str:
    """Whether a row reaches its target, or nothing where it has none."""
    for beginning, limit in TARGETS_S.items():
        if name.startswith(beginning):
            return f"{'reached' if median_s <= limit else 'missed'} (at most {limit:g} s)"
    return ""


def print_rows(title: str, rows: dict[str, list[float]]) -> bool:
    """Print a table; return whether a target is missed."""
    missed = False
    print(f"\n| {title} | median | least | most | target |\n|---|---|---|---|---|")
    for name, times in rows.items():
        cells = [f"{t:.3f} s" for t in (statistics.median(times), min(times), max(times))]
        cells.append(judged(name, statistics.median(times)))
        missed |= cells[-1].startswith("missed")
        print(f"| {name} | " + " | ".join(cells) + " |")
    return missed


def main() -> int:
    """Measure and print the tables; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--slow-rounds", type=int, default=5)
    parser.add_argument("--check", action="store_true", help="status 1 where a target is missed")
    options = parser.parse_args()

    rows: dict[str, list[float]] = {}
    for _ in range(options.slow_rounds):
        for workers in (2, 4):
            for name, seconds in zip(EARLY, early_launches(workers), strict=True):
                rows.setdefault(f"{name}, {workers} workers", []).append(seconds)
    launch(int)
    for _ in range(options.rounds):
        for workers in (1, 2, 4):
            again = seconds_of(lambda n=workers: launch(int, n))
            rows.setdefault(f"launch again, {workers} workers", []).append(again)
    missed = print_rows("a function that does nothing", rows)

    failures = {
        "raises": lambda: 1 / 0,
        "is killed (SIGKILL)": lambda: os.kill(os.getpid(), signal.SIGKILL),
        "calls os._exit": lambda: os._exit(3),
    }
    rows = {
        f"rank 1 {name} -> error": [until_error(fail) for _ in range(options.rounds)]
        for name, fail in failures.items()
    }
    for name, number in {"stopped (SIGINT)": signal.SIGINT, "killed": signal.SIGKILL}.items():
        rows[f"the caller is {name} -> all gone"] = [
            until_gone(number) for _ in range(options.slow_rounds)
        ]
    missed |= print_rows("from a failure to its end", rows)

    warnings.filterwarnings("ignore", "launch copies 100 MB")  # that is what is measured
    rows = {}
    for megabytes in (1, 10, 100):
        numbers = int(megabytes * 1e6 / 4)
        data = torch.rand(numbers)
        rows[f"a closure that holds {megabytes} MB"] = [
            seconds_of(lambda data=data: launch(lambda: len(data))) for _ in range(5)
        ]
        rows[f"a result of {megabytes} MB"] = [
            seconds_of(lambda n=numbers: launch(torch.ones, args=(n,))) for _ in range(5)
        ]
    with redirect_stdout(io.StringIO()):
        rows["a line of 16 MB"] = [
            seconds_of(lambda: launch(print, args=("x" * (1 << 24),))) for _ in range(5)
        ]
    missed |= print_rows("two workers", rows)
    return int(missed and options.check)


if __name__ == "__main__":
    sys.exit(main())
