"""Do strict runs of the course and its studies pass again and again, with budgets in full length?

Every round runs each notebook of the course and of deeper/ (not those of frameworks/) as the tests
do: outputs are compared, contradicted claims raise. But default budgets are not shortened, and each
run is timed. With `--burner` another process keeps a core busy. A strict run also passes where a
claim is not decided, so the table counts how often each was borne out. The exit status is 1 where a
run failed and, without the burner, where a notebook took too long or a claim was never borne out.

    python benchmarks/strict_runs.py                    # course and studies, five times
    python benchmarks/strict_runs.py --burner
    python benchmarks/strict_runs.py 00 deeper --rounds 2
"""

from __future__ import annotations

import argparse
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

from load import Load

ROOT = Path(__file__).resolve().parents[1]

# Seconds that a notebook may take on two cores. Those that start processes get more.
LIMIT_S = 90.0
LIMITS_S = dict.fromkeys(("07", "08", "08b", "08c", "08d", "09", "09b"), 120.0)
LIMITS_S |= dict.fromkeys(("01b", "05b", "07b", "10", "10b"), 240.0)


def chosen(beginnings: list[str], folder: Path = ROOT / "notebooks") -> list[Path]:
    """Return notebooks of the course and the studies whose names begin like this; by default all.

    Raises:
        FileNotFoundError: there is no such notebook.
    """
    paths = [*sorted(folder.glob("*.ipynb")), *sorted(folder.glob("deeper/*.ipynb"))]
    names = {path: path.relative_to(folder).as_posix() for path in paths}
    unknown = [b for b in beginnings if not any(n.startswith(b) for n in names.values())]
    if unknown or not paths:
        raise FileNotFoundError(
            f"no notebook {', '.join(unknown) or 'at all'} in {folder.name}/; there are "
            f"{', '.join(names.values()) or 'none'}."
        )
    return [p for p in paths if names[p].startswith(tuple(beginnings) or "")]


# notebook and what is claimed -> how often it had each outcome
Claims = dict[tuple[str, str], Counter]


class StrictRun(NamedTuple):
    """Whether a notebook passed, what pytest said, and the outcome and text of each claim."""

    passed: bool
    said: str
    claims: list[tuple[str, str]]


class Rounds(NamedTuple):
    """Of all rounds: seconds by notebook, the failures, and the claims."""

    took: dict[str, list[float]]
    failures: list[str]
    claims: Claims


def strictly(path: Path) -> StrictRun:
    """Run one notebook as the tests do."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(path)]
    with tempfile.TemporaryDirectory() as folder:
        noted = Path(folder, "claims.txt")
        environment = {**os.environ, "D2LPERF_CLAIMS": str(noted), "D2LPERF_BUDGET": "1"}
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, env=environment)
        lines = noted.read_text(encoding="utf-8").splitlines() if noted.exists() else []
    said = done.stdout + done.stderr
    return StrictRun(done.returncode == 0, said, [claim(line) for line in lines])


def claim(line: str) -> tuple[str, str]:
    """Outcome and claim of a line that `Comparison.expect` noted, without the numbers."""
    outcome, _, text = line.partition("\t")
    return outcome, re.sub(r" \(time ratio .*", "", text)


def shown(path: Path) -> str:
    """The name in the tables: a study's has its folder."""
    return f"{path.parent.name}/{path.name}" if path.parent.name == "deeper" else path.name


def rounds(
    paths: list[Path],
    times: int,
    run: Callable[[Path], StrictRun] = strictly,
    clock: Callable[[], float] = time.perf_counter,
) -> Rounds:
    """Run all notebooks so many times."""
    found = Rounds({shown(path): [] for path in paths}, [], {})
    for number in range(1, times + 1):
        for path in paths:
            start = clock()
            done = run(path)
            seconds, name = clock() - start, shown(path)
            found.took[name].append(seconds)
            for outcome, text in done.claims:
                found.claims.setdefault((name, text), Counter())[outcome] += 1
            word = "passed" if done.passed else "FAILED"
            print(f"round {number}: {name} {word} in {seconds:.0f} s", flush=True)
            if not done.passed:
                found.failures.append(f"round {number}, {name}:\n{done.said}")
    return found


def count_claims(found: Rounds, quiet: bool) -> int:
    """Print how often each claim was borne out; return how many never were."""
    print("\n| notebook | claim | borne out | other outcomes |\n|---|---|---|---|")
    never = 0
    for (name, text), outcomes in found.claims.items():
        held, others = outcomes["borne out"], Counter(outcomes)
        del others["borne out"]
        if quiet and not held:
            never += 1
        rest = ", ".join(f"{number} {outcome}" for outcome, number in sorted(others.items()))
        print(f"| {name} | {text} | {held} in {len(found.took[name])} runs | {rest} |")
    return never


def verdict(found: Rounds, quiet: bool) -> int:
    """Print the tables and the failures; return the exit status."""
    late = 0
    print("\n| notebook | runs | seconds, median | seconds, most | limit |\n|---|---|---|---|---|")
    for name, seconds in found.took.items():
        limit = LIMITS_S.get(name.split("-")[0], LIMIT_S)
        if quiet and max(seconds) > limit:
            late += 1
        print(
            f"| {name} | {len(seconds)} | {statistics.median(seconds):.0f} | {max(seconds):.0f} "
            f"| {f'{limit:.0f}' if quiet else 'none beside a burner'} |"
        )
    never, failures = count_claims(found, quiet), found.failures
    runs = sum(map(len, found.took.values()))
    print(
        f"\n{runs - len(failures)} of {runs} runs passed; {late} notebooks over their limit; "
        f"{never} claims never borne out" + ("" if quiet else " (not counted beside a burner)")
    )
    print("".join(f"\n{failure}" for failure in failures), end="")
    return 1 if failures or late or never else 0


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
        found = rounds(paths, options.rounds)
    return verdict(found, quiet=not options.burner)


if __name__ == "__main__":
    sys.exit(main())
