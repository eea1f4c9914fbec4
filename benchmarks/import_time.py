"""What `import d2lperf` adds to `import torch`, in fresh processes.

Usage: python benchmarks/import_time.py [processes]

It should stay at or below 50 ms (median); the exit status is 1 where it does not. Both imports are
clocked in the same process, the second after the first: the difference between two processes that
import one or both drowns in the spread of torch's own time. One in two processes imports json
(nothing to speak of) where d2lperf would be, to show how much the clocking itself costs.
"""

import statistics
import subprocess
import sys
from pathlib import Path

MODULES = ("d2lperf", "json")
MOST_MS = 50.0
CODE = """
import time
start = time.perf_counter(); import torch
middle = time.perf_counter(); import {}
print(middle - start, time.perf_counter() - middle)
"""


def seconds(module: str) -> list[float]:
    """Import torch and then the module in a new process; return the seconds of each."""
    run = subprocess.run(
        [sys.executable, "-c", CODE.format(module)],
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
    print(f"{word}: import d2lperf adds {middle_ms:.1f} ms to import torch (at most {MOST_MS:g})")
    return int(middle_ms > MOST_MS)


def main(processes: int = 20) -> int:
    """Print the medians; return the exit status."""
    times = {name: [] for name in ("torch", *MODULES)}
    seconds("d2lperf")  # the first read from disk, and the compiling to bytecode, don't count
    for i in range(processes):
        module = MODULES[i % 2]
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
