"""What d2lperf adds to `import torch`, in fresh processes.

    python benchmarks/import_time.py
    python benchmarks/import_time.py --check     # status 1 where the target is missed

The names that every notebook uses are taken from the package, because they are loaded at first use.
This should take at most 50 ms (median). Both imports are timed in
the same process, torch first: torch's own time varies by more than d2lperf adds. Every second
process imports json instead, to show what the timing itself costs.
"""

import argparse
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


def misses_target(added_s: list[float]) -> bool:
    """Print whether the import reaches its target; return whether it misses it."""
    middle_ms = 1e3 * statistics.median(added_s)
    word = "reached" if middle_ms <= MOST_MS else "missed"
    print(f"{word}: d2lperf adds {middle_ms:.1f} ms to import torch (at most {MOST_MS:g})")
    return middle_ms > MOST_MS


def main() -> int:
    """Print the medians; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--processes", type=int, default=20)
    parser.add_argument("--check", action="store_true", help="status 1 where the target is missed")
    options = parser.parse_args()
    times = {name: [] for name in ("torch", *IMPORTS)}
    seconds("d2lperf")  # reading from disk and compiling to bytecode do not count
    for i in range(options.processes):
        module = list(IMPORTS)[i % 2]
        torch, other = seconds(module)
        times["torch"].append(torch)
        times[module].append(other)
        print(f"{i + 1} of {options.processes}: {module} {1e3 * other:.1f} ms", file=sys.stderr)
    for name, values in times.items():
        low, middle, high = (1e3 * q for q in statistics.quantiles(values, n=4))
        print(f"import {name:<8} {middle:8.1f} ms (quartiles {low:.1f} and {high:.1f} ms)")
    return int(misses_target(times["d2lperf"]) and options.check)


if __name__ == "__main__":
    sys.exit(main())
