"""Do thread pools of two libraries disturb each other, and does `isolated=True` cure it?

The same product of matrices by NumPy and by torch, each with its own thread pool. The truth is
taken from each function alone (`measure`, in random order); beside it stand `compare` in one
process and `compare(..., isolated=True)`. Then nulls: a function against its own copy, each in a
process of its own, to see whether two processes are told apart by themselves.

    python benchmarks/isolation.py
"""

from __future__ import annotations

import argparse
import random
import statistics
import time

import numpy as np
import torch

import d2lperf


def main() -> None:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--nulls", type=int, default=10, help="for each of three functions")
    parser.add_argument("--size", type=int, default=300, help="rows and columns of the matrices")
    options = parser.parse_args()
    array = np.random.default_rng(0).random((options.size, options.size), dtype=np.float32)
    tensor = torch.from_numpy(array)
    functions = {"torch": lambda: tensor @ tensor, "numpy": lambda: array @ array}

    alone, rows = [], {"together": [], "isolated": []}
    for number in range(options.rounds):
        times = {}
        for name in random.sample(list(functions), 2):
            # A rest, so that the other library's threads have gone to sleep.
            time.sleep(0.3)
            times[name] = d2lperf.measure(functions[name], budget_s=0.3).median_s
        alone.append(times["numpy"] / times["torch"])
        for way in rows:
            time.sleep(0.3)
            table = d2lperf.compare(functions, check=False, isolated=way == "isolated")
            rows[way].append((table["numpy"], table))
        print(f"round {number + 1} of {options.rounds}", flush=True)

    truth = statistics.median(alone)
    print(
        f"\nalone: numpy takes {truth:.3f} times as long as torch (median of "
        f"{len(alone)}, from {min(alone):.3f} to {max(alone):.3f})\n"
    )
    print(
        "| compare | refused | verdicts | median ratio | error, median % | error, most % "
        "| discarded, median | seconds |"
    )
    print("|---|---|---|---|---|---|---|---|")
    for way, found in rows.items():
        ratios = [entry.ratio for entry, _ in found if entry.ratio == entry.ratio]
        errors = [100 * abs(r / truth - 1) for r in ratios] or [float("nan")]
        verdicts = [entry.verdict for entry, _ in found]
        counts = ", ".join(f"{verdicts.count(v)} {v}" for v in sorted(set(verdicts)))
        print(
            f"| {way} | {sum(bool(t.refusal) for _, t in found)} of {len(found)} | {counts} "
            f"| {statistics.median(ratios or [float('nan')]):.3f} "
            f"| {statistics.median(errors):.1f} | {max(errors):.1f} "
            f"| {statistics.median(e.discarded for e, _ in found):g} "
            f"| {statistics.median(t.elapsed_s for _, t in found):.1f} |"
        )
    nulls({"python": lambda: sum(range(1000)), **functions}, options.nulls)


def nulls(functions: dict, repeats: int) -> None:
    """Compare each function with itself in two processes; print what comes out."""
    entries = {name: [] for name in functions}
    for number in range(repeats):
        for name, fn in functions.items():
            table = d2lperf.compare({"a": fn, "b": fn}, check=False, isolated=True)
            entries[name].append(table["b"])
        print(f"nulls, round {number + 1} of {repeats}", flush=True)
    print("\n| null, isolated | false verdicts | ratio, least and most | half-width, median % |")
    print("|---|---|---|---|")
    for name, found in entries.items():
        false = sum(entry.verdict in ("faster", "slower") for entry in found)
        ratios = [entry.ratio for entry in found]
        widths = [50 * (entry.high - entry.low) for entry in found]
        print(
            f"| {name} | {false} of {len(found)} | {min(ratios):.3f}, {max(ratios):.3f} "
            f"| {statistics.median(widths):.1f} |"
        )


if __name__ == "__main__":
    main()
