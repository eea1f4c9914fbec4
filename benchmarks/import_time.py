"""What d2lperf adds to `import torch`, and the set-up cell where d2lperf is installed.

    python benchmarks/import_time.py
    python benchmarks/import_time.py --check     # status 1 where a target is missed

The names that every notebook uses are taken from the package, because they are loaded at first use.
This should take at most 50 ms (median). Both imports are timed in the same process, torch first:
torch's own time varies by more than d2lperf adds. Some processes import json instead, to show what
the timing itself costs. Others run the set-up cell of notebook 00, which should take at most
200 ms. Each process is a new one.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
NAMES = "from d2lperf import Benchmark, compare, describe_machine, measure, predict"
IMPORT = """
import time
start = time.perf_counter(); import torch
middle = time.perf_counter(); {}
print(middle - start, time.perf_counter() - middle)
"""
CELL = """
import time
start = time.perf_counter(); exec({!r})
print(time.perf_counter() - start)
"""
TARGETS_MS = {"import d2lperf": 50.0, "set-up cell": 200.0}


def setup_cell() -> str:
    """Return the source of the set-up cell, as it is stored."""
    text = (ROOT / "notebooks" / "00-start-here.ipynb").read_text(encoding="utf-8")
    cells = json.loads(text)["cells"]
    (found,) = [c["source"] for c in cells if "setup" in c["metadata"].get("tags", ())]
    return "".join(found)


def seconds(program: str) -> list[float]:
    """Run a program in a new process; return the seconds that it prints."""
    command = [sys.executable, "-c", program]
    # So that the bytecode is kept for the next process, as it is for a reader.
    env = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    run = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=True)
    return [float(part) for part in run.stdout.split()]


def missed(name: str, values_s: list[float]) -> bool:
    """Print whether a median reaches its target; return whether it misses it."""
    middle_ms, most_ms = 1e3 * statistics.median(values_s), TARGETS_MS[name]
    word = "reached" if middle_ms <= most_ms else "missed"
    print(f"{word}: {name} takes {middle_ms:.1f} ms (at most {most_ms:g})")
    return middle_ms > most_ms


def main() -> int:
    """Print the medians; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--processes", type=int, default=10, help="of each kind, 10 by default")
    parser.add_argument("--check", action="store_true", help="status 1 where a target is missed")
    options = parser.parse_args()
    programs = {
        ("import torch", "import d2lperf"): IMPORT.format(NAMES),
        ("import torch", "import json"): IMPORT.format("import json"),
        ("set-up cell",): CELL.format(setup_cell()),
    }
    times: dict[str, list[float]] = {name: [] for names in programs for name in names}
    for program in programs.values():
        seconds(program)  # reading from disk and compiling to bytecode do not count
    for number in range(1, options.processes + 1):
        for names, program in programs.items():
            for name, value in zip(names, seconds(program), strict=True):
                times[name].append(value)
        print(f"{number} of {options.processes}", file=sys.stderr)
    for name, values in times.items():
        low, middle, high = (1e3 * q for q in statistics.quantiles(values, n=4))
        print(f"{name:<14} {middle:8.1f} ms (quartiles {low:.1f} and {high:.1f} ms)")
    misses = [missed(name, times[name]) for name in TARGETS_MS]
    return int(any(misses) and options.check)


if __name__ == "__main__":
    sys.exit(main())
