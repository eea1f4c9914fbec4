"""What `d2lperf.record` costs, and how long a large timeline takes to draw and to save.

First table, 10,000 small operations on one of torch's threads:

- alone: seconds of the function, without a profiler;
- while recorded: the same while `record` runs. The ratio tells whether a timeline shows the
  function or the recording; our target is 2 at most;
- whole call: `record(fn, warmup=0)`, which also starts and stops the profiler and reads what it
  saw, relative to the function alone;
- first question: `timeline.lanes`, which sorts the spans.

Second table: a timeline of 100,000 spans; our target for drawing it is 3 s at most. The order of
the rounds alternates. Figures are medians; a ratio is the median of the rounds' ratios.

    python benchmarks/timeline.py
    python benchmarks/timeline.py --check     # status 1 where a target is missed
"""

from __future__ import annotations

import argparse
import io
import statistics
import sys
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

MOST_SLOWDOWN, MOST_DRAWING_S = 2.0, 3.0
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


def one_round(
    run: Callable[[], None], times: list[float], *, recorded_first: bool
) -> dict[str, float]:
    """Run the workload alone and recorded; return seconds and their ratios."""
    found: dict[str, float] = {}

    def alone() -> None:
        run()
        found["alone"] = times[-1]

    def recorded() -> None:
        start = time.perf_counter()
        timeline = record(run, warmup=0)
        found["whole"] = time.perf_counter() - start
        found["watched"] = times[-1]
        found["question"] = seconds(lambda: timeline.lanes)

    for step in (recorded, alone) if recorded_first else (alone, recorded):
        step()
    found["watched / alone"] = found["watched"] / found["alone"]
    found["whole / alone"] = found["whole"] / found["alone"]
    return found


def recording(rounds: int) -> tuple[float, float]:
    """Print the first table; return the worst ratios of recorded code and of a whole call."""
    worst = whole = 0.0
    print(
        f"| {OPERATIONS:,} operations | alone | while recorded | ratio | whole call | ratio "
        "| first question | spans |"
    )
    print("|---|---|---|---|---|---|---|---|")
    for name, shape in WORKLOADS.items():
        run, times = workload(shape)
        spans = len(record(run))  # the profiler's first use takes seconds
        rows = [one_round(run, times, recorded_first=i % 2 == 0) for i in range(rounds)]
        middle = {key: statistics.median(row[key] for row in rows) for key in rows[0]}
        worst = max(worst, middle["watched / alone"])
        whole = max(whole, middle["whole / alone"])
        cells = [
            f"{1e3 * middle['alone']:.1f} ms",
            f"{1e3 * middle['watched']:.1f} ms",
            f"{middle['watched / alone']:.2f}",
            f"{1e3 * middle['whole']:.1f} ms",
            f"{middle['whole / alone']:.2f}",
            f"{1e3 * middle['question']:.1f} ms",
            f"{spans:,}",
        ]
        print(f"| {name} | " + " | ".join(cells) + " |")
    return worst, whole


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


def drawing(rounds: int) -> float:
    """Print the second table; return the median seconds of a plot and its PNG."""
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
                "load": lambda: Timeline.load(Path(folder, "trace.json")),
            }
            for name, step in steps.items():
                found.setdefault(name, []).append(seconds(step))
            plt.close("all")
    drawn = [a + b for a, b in zip(found["plot"], found["figure to PNG"], strict=True)]
    print(f"\n| {SPANS:,} spans | median | most |\n|---|---|---|")
    for name, times in [*found.items(), ("plot and figure to PNG", drawn)]:
        print(f"| {name} | {statistics.median(times):.2f} s | {max(times):.2f} s |")
    return statistics.median(drawn)


def main() -> int:
    """Measure and print the tables; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--check", action="store_true", help="status 1 where a target is missed")
    options = parser.parse_args()
    matplotlib.use("Agg")
    torch.set_num_threads(1)
    (worst, whole), drawn_s = recording(options.rounds), drawing(options.rounds)
    print(f"\nthe whole call takes {whole:.2f} times as long as the function alone")
    slow, late = worst > MOST_SLOWDOWN, drawn_s > MOST_DRAWING_S
    print(
        f"{'missed' if slow else 'reached'}: recorded code takes {worst:.2f} times as long "
        f"(at most {MOST_SLOWDOWN:g})\n"
        f"{'missed' if late else 'reached'}: drawing takes {drawn_s:.2f} s "
        f"(at most {MOST_DRAWING_S:g} s)"
    )
    return int((slow or late) and options.check)


if __name__ == "__main__":
    sys.exit(main())
