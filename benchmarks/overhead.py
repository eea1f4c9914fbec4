"""What the harness of `d2lperf.measure` itself costs a call, shown by an empty function.

Interleaved with two other ways of calling it: a bare loop under one pair of clock readings (the
floor), and a clock reading round every single call. Prints the medians over all rounds, and whether
the target is reached.

    python benchmarks/overhead.py
    python benchmarks/overhead.py --check     # status 1 where the target is missed
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from itertools import repeat

import d2lperf

HARNESS = "d2lperf.measure"
MOST_NS = 60.0  # a call of an empty function may cost


def empty() -> None:
    """Do nothing, so that all that is measured is the harness."""


def bare_loop(calls: int = 10_000) -> float:
    """Seconds of one call in a loop that does nothing else."""
    start = time.perf_counter()
    for _ in repeat(None, calls):
        empty()
    return (time.perf_counter() - start) / calls


def clock_round_each(calls: int = 10_000) -> float:
    """Median seconds of one call with the clock read before and after it."""
    times = []
    for _ in repeat(None, calls):
        start = time.perf_counter()
        empty()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


WAYS = {
    "bare loop": bare_loop,
    HARNESS: lambda: d2lperf.measure(empty, budget_s=0.1).median_s,
    "clock round each call": clock_round_each,
}


def misses_target(found: dict[str, list[float]]) -> bool:
    """Print whether the harness reaches its target; return whether it misses it."""
    middle_ns = 1e9 * statistics.median(found[HARNESS])
    word = "reached" if middle_ns <= MOST_NS else "missed"
    print(f"\n{word}: {middle_ns:.1f} ns a call of an empty function (at most {MOST_NS:g})")
    return middle_ns > MOST_NS


def main() -> int:
    """Measure and print the table; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--check", action="store_true", help="status 1 where the target is missed")
    options = parser.parse_args()
    found: dict[str, list[float]] = {name: [] for name in WAYS}
    for _ in range(options.rounds):
        for name, way in WAYS.items():
            found[name].append(way())
    print("| way of calling an empty function | median ns a call | least | most |")
    print("|---|---|---|---|")
    for name, times in found.items():
        cells = [f"{1e9 * t:.1f}" for t in (statistics.median(times), min(times), max(times))]
        print(f"| {name} | " + " | ".join(cells) + " |")
    return int(misses_target(found) and options.check)


if __name__ == "__main__":
    sys.exit(main())
