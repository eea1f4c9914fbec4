"""What `d2lperf.record` costs, and how long a large timeline takes to draw.

First table: 10,000 small operations without the profiler, the same while `record` watches, and the
whole call of `record` (its profiler started, stopped and read). The first two rows answer whether a
timeline shows the workload or the watching; 2 is the limit that we set. Second table: a timeline of
100,000 spans; 3 s is the limit for drawing it. Interleaved rounds, medians.

    python benchmarks/timeline.py
"""

from __future__ import annotations

import argparse
import io
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import matplotlib
import numpy as np
import torch

from d2lperf import Timeline, record

OPERATIONS = 10_000
SPANS = 100_000

WORKLOADS = {
    "x + x, 64 numbers": (64,),
    "x @ x, 64 x 64": (64, 64),
}


def workload(shape: tuple[int, ...]) -> tuple[Callable[[], None], list[float]]:
    """Return a function that does the operations, and the list to which it adds its seconds."""
    x = torch.ones(shape)
    operation = torch.matmul if len(shape) == 2 else torch.add
    times: list[float] = []

    def run() -> None:
        start = time.perf_counter()
        for _ in range(OPERATIONS):
            operation(x, x)
        times.append(time.perf_counter() - start)

    return run, times


def seconds(fn: Callable[[], object]) -> float:
    """Time of one call."""
    start = time.perf_counter()
    fn()
    return time.perf_counter() - start


def recording(rounds: int) -> None:
    """Print the first table."""
    print(f"| {OPERATIONS:,} operations | alone | while recorded | ratio | whole call | spans |")
    print("|---|---|---|---|---|---|")
    for name, shape in WORKLOADS.items():
        run, times = workload(shape)
        spans = len(record(run))  # the profiler's first use takes seconds
        times.clear()
        whole = []
        for _ in range(rounds):
            run()
            whole.append(seconds(lambda run=run: record(run, warmup=0)))
        alone, watched = (statistics.median(times[i::2]) for i in (0, 1))
        ratio = statistics.median(b / a for a, b in zip(times[::2], times[1::2], strict=True))
        cells = [f"{1e3 * alone:.1f} ms", f"{1e3 * watched:.1f} ms", f"{ratio:.2f}"]
        cells += [f"{1e3 * statistics.median(whole):.1f} ms", f"{spans:,}"]
        print(f"| {name} | " + " | ".join(cells) + " |")


def many_spans(lanes: int = 8, seed: int = 1) -> list[tuple[str, float, float, str]]:
    """Random spans one after the other in each lane, with gaps between them."""
    chance = np.random.default_rng(seed)
    names = np.array(["load", "decode", "copy", "mm", "relu", "sum", "exp", "log", "send", "wait"])
    each, spans = SPANS // lanes, []
    for lane in range(lanes):
        durations, pauses = chance.exponential(1e-5, (2, each))
        starts = np.cumsum(durations + pauses) - durations
        chosen = chance.choice(names, each)
        rows = zip(chosen.tolist(), starts.tolist(), durations.tolist(), strict=True)
        spans += [(*row, f"worker {lane}") for row in rows]
    return spans


def drawing(rounds: int) -> None:
    """Print the second table."""
    from matplotlib import pyplot as plt

    spans, found = many_spans(), {}
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(rounds):
            timeline = Timeline.from_spans(spans)
            steps = {
                "from_spans": lambda: Timeline.from_spans(spans),
                "plot": lambda timeline=timeline: timeline.plot(),
                "figure to PNG": lambda: plt.gcf().savefig(io.BytesIO(), format="png"),
                "save": lambda timeline=timeline: timeline.save(Path(folder, "trace.json")),
                "save, compressed": lambda timeline=timeline: timeline.save(
                    Path(folder, "trace.json.gz")
                ),
            }
            for name, step in steps.items():
                found.setdefault(name, []).append(seconds(step))
            plt.close("all")
    drawn = [a + b for a, b in zip(found["plot"], found["figure to PNG"], strict=True)]
    print(f"\n| {SPANS:,} spans | median | most |\n|---|---|---|")
    for name, times in [*found.items(), ("plot and figure to PNG", drawn)]:
        print(f"| {name} | {statistics.median(times):.2f} s | {max(times):.2f} s |")


def main() -> None:
    """Measure and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=15)
    rounds = parser.parse_args().rounds
    matplotlib.use("Agg")
    recording(rounds)
    drawing(rounds)


if __name__ == "__main__":
    main()
