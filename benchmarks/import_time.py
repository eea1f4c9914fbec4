"""What d2lperf adds to `import torch`, in fresh processes.

Usage: python benchmarks/import_time.py [processes]

The names that every notebook uses are taken from the package, because they are loaded at first use.
This should take at most 50 ms (median); otherwise the exit status is 1. Both imports are timed in
the same process, torch first: torch's own time varies by more than d2lperf adds. Every second
process imports json instead, to show what the timing itself costs.
"""

import statistics
import subprocess
import sys
from pathlib import Path

IMPORTS = {
    "d2lperf": "from d2lperf import Benchmark, compare, describe_machine, measure, predict",
    "json": "import json",
}
MOST_MS = 50.0
CODE = """
import time
start = time.perf_counter(); import torch
middle = time.perf_counter(); {}
print(middle - start, time.perf_counter() - middle)
"""


def seconds(module: str) -> list[float]:
    """Import torch and then the module in a new process; return the seconds of each."""
    run = subprocess.run(
        [sys.executable, "-c", CODE.format(IMPORTS[module])],
        cwd=Path(__file__).parent.parent,
        capture_output=True,
        text=True,
        check=True,
    )
    return [float(part) for part in run.stdout.split()]


def judged(added_s: list[float]) -> int:
    """Print whether the import keeps its limit; return the exit status."""
    middle_ms = 1e3 * statistics.median(added_s)
    word = "reached" if middle_ms <= MOST_MS else "missed"
    print(f"{word}: d2lperf adds {middle_ms:.1f} ms to import torch (at most {MOST_MS:g})")
    return int(middle_ms > MOST_MS)


def main(processes: int = 20) -> int:
    """Print the medians; return the exit status."""
    times = {name: [] for name in ("torch", *IMPORTS)}
    seconds("d2lperf")  # reading from disk and compiling to bytecode do not count
    for i in range(processes):
        module = list(IMPORTS)[i % 2]
        torch, other = seconds(module)
        times["torch"].append(torch)
        times[module].append(other)
        print(f"{i + 1} of {processes}: {module} {1e3 * other:.1f} ms", file=sys.stderr)
    for name, values in times.items():
        low, middle, high = (1e3 * q for q in statistics.quantiles(values, n=4))
        print(f"import {name:<8} {middle:8.1f} ms (quartiles {low:.1f} and {high:.1f} ms)")
    return judged(times["d2lperf"])


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])))
