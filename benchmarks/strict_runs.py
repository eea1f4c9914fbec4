"""Does the strict run of the notebooks hold, again and again, also beside a busy core?

Every round runs each notebook as the tests do (outputs compared, contradicted claims raise) and
takes its time; with `--burner` one other process burns a core all the while. Exit status 1 where
a run failed, or where a notebook took longer than it may on a quiet machine.

    python benchmarks/strict_runs.py                    # all of them, five times
    python benchmarks/strict_runs.py --burner
    python benchmarks/strict_runs.py 00 01 --rounds 2
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from load import Load

ROOT = Path(__file__).resolve().parents[1]

# Seconds that a notebook may take on two cores; those that start processes get more.
LIMIT_S = 90.0
LIMITS_S = {"07": 120.0, "08": 120.0}


def chosen(numbers: list[str], folder: Path = ROOT / "notebooks") -> list[Path]:
    """Return the notebooks whose names begin with the numbers; all where none is given.

    Raises:
        FileNotFoundError: there is no such notebook.
    """
    paths = sorted(folder.glob("[0-9][0-9]-*.ipynb"))
    unknown = [n for n in numbers if not any(path.name.startswith(n) for path in paths)]
    if unknown or not paths:
        raise FileNotFoundError(
            f"no notebook {', '.join(unknown) or 'at all'} in {folder.name}/; there are "
            f"{', '.join(path.name[:2] for path in paths) or 'none'}."
        )
    return [p for p in paths if not numbers or any(p.name.startswith(n) for n in numbers)]


def strictly(path: Path) -> tuple[bool, str]:
    """Run one notebook as the tests do; return whether it passed, and what was printed."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    return done.returncode == 0, done.stdout + done.stderr


def rounds(
    paths: list[Path],
    times: int,
    run: Callable[[Path], tuple[bool, str]] = strictly,
    clock: Callable[[], float] = time.perf_counter,
) -> tuple[dict[str, list[float]], list[str]]:
    """Run all notebooks so many times; return seconds by name, and the failures."""
    took: dict[str, list[float]] = {path.name: [] for path in paths}
    failures = []
    for number in range(1, times + 1):
        for path in paths:
            start = clock()
            passed, said = run(path)
            took[path.name].append(clock() - start)
            word = "passed" if passed else "FAILED"
            print(f"round {number}: {path.name} {word} in {took[path.name][-1]:.0f} s", flush=True)
            if not passed:
                failures.append(f"round {number}, {path.name}:\n{said}")
    return took, failures


def verdict(took: dict[str, list[float]], failures: list[str], quiet: bool) -> int:
    """Print the table and the failures; return the exit status."""
    late = 0
    print("\n| notebook | runs | seconds, median | seconds, most | limit |\n|---|---|---|---|---|")
    for name, seconds in took.items():
        limit = LIMITS_S.get(name[:2], LIMIT_S)
        late += quiet and statistics.median(seconds) > limit
        print(
            f"| {name} | {len(seconds)} | {statistics.median(seconds):.0f} | {max(seconds):.0f} "
            f"| {f'{limit:.0f}' if quiet else 'none beside a burner'} |"
        )
    runs = sum(map(len, took.values()))
    print(f"\n{runs - len(failures)} of {runs} runs passed; {late} notebooks over their limit")
    print("".join(f"\n{failure}" for failure in failures), end="")
    return 1 if failures or late else 0


def main() -> int:
    """Run, print the table, return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("notebooks", nargs="*", help="their numbers, such as 01; all by default")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--burner", action="store_true", help="beside a process that burns a core")
    options = parser.parse_args()
    paths = chosen(options.notebooks)
    with ExitStack() as stack:
        if options.burner:
            stack.enter_context(Load()).after(0)
        took, failures = rounds(paths, options.rounds)
    return verdict(took, failures, quiet=not options.burner)


if __name__ == "__main__":
    sys.exit(main())
