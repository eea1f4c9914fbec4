"""Run `make test` with several Pythons, each in a new environment: `python tests/matrix.py 3.13`.

An interpreter is a version, which is looked for on the path and in pyenv, or a path. The
environments are in the system's folder for temporary files (TMPDIR; a CUDA build of torch takes
5 GB) and are removed, also after a failure or an interrupt. What pip finds decides which build of
torch each of them gets; the table at the end says which it was.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
PATIENCE_S = 30.0  # for pytest and its kernels to end after an interrupt
# What an outer make was told must not reach the inner one.
OF_MAKE = ("MAKEFLAGS", "MFLAGS", "MAKELEVEL", "MAKEOVERRIDES", "PYTHON", "VENV")
COUNT = re.compile(r"(\d+) (passed|failed|skipped|errors?)\b")
COLUMNS = ("Python", "torch", "passed", "failed", "skipped", "minutes", "result")


class Row(NamedTuple):
    """How the tests ended with one interpreter."""

    python: str
    torch: str
    counts: dict[str, int]  # passed, failed (errors too), skipped
    minutes: float
    result: str  # "green", or what went wrong

    def cells(self) -> list[str]:
        """Return the row as texts, in the order of COLUMNS."""
        counts = [str(self.counts.get(name, "-")) for name in ("passed", "failed", "skipped")]
        return [self.python, self.torch, *counts, f"{self.minutes:.0f}", self.result]


def interpreter(wanted: str) -> str | None:
    """Return the path of an interpreter that runs, for a version such as "3.12" or a path."""
    candidates = [wanted, f"python{wanted}"]
    if re.fullmatch(r"[\d.]+", wanted):
        pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"), "versions")
        newest_first = sorted(pyenv.glob(f"{wanted}*/bin/python"), key=_numbers, reverse=True)
        candidates += map(str, newest_first)
    for candidate in candidates:
        path = shutil.which(candidate)
        # A shim of pyenv is there for versions that are installed, but runs only the chosen one.
        if path is not None and said_by(path, "print('works')") == "works":
            return path
    return None


def _numbers(path: Path) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", path.parents[1].name)]


def said_by(python: str | Path, program: str) -> str:
    """Return what a program prints, or "" if it fails."""
    with suppress(OSError):
        done = subprocess.run([python, "-c", program], capture_output=True, text=True)
        if done.returncode == 0:
            return done.stdout.strip()
    return ""


def tests_with(wanted: str) -> Row:
    """Make an environment, run the tests in it and remove it."""
    began = time.monotonic()
    python = interpreter(wanted)
    if python is None:
        return Row(wanted, "-", {}, 0.0, "no such interpreter here")
    print(f"\n=== Python {wanted}: {python}", flush=True)
    with tempfile.TemporaryDirectory(prefix="d2lperf-matrix-", ignore_cleanup_errors=True) as made:
        venv = Path(made, "venv")
        status, counts = run_make([f"PYTHON={python}", f"VENV={venv}"])
        ours = venv / "bin" / "python"
        version = said_by(python, "import platform; print(platform.python_version())")
        torch = said_by(ours, "import torch; print(torch.__version__)") or "not installed"
    result = "green" if status == 0 and counts.get("passed") else f"make ended with {status}"
    return Row(version, torch, counts, (time.monotonic() - began) / 60, result)


def run_make(arguments: Sequence[str]) -> tuple[int, dict[str, int]]:
    """Run `make test` and show what it prints; return its status and pytest's counts."""
    env = {name: value for name, value in os.environ.items() if name not in OF_MAKE}
    counts: dict[str, int] = {}
    with subprocess.Popen(
        ["make", "test", *arguments],
        cwd=ROOT,
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,  # so that it can be ended with all that it has started
    ) as make:
        try:
            for line in make.stdout:
                print(line, end="", flush=True)
                counts = counted(line) or counts
        except BaseException:
            end(make)
            raise
    return make.returncode, counts


def counted(line: str) -> dict[str, int]:
    """Return the numbers in pytest's closing line, {} for any other line."""
    if not re.search(r" in [\d.]+s\b", line):
        return {}
    counts = {"passed": 0, "failed": 0, "skipped": 0}
    found = COUNT.findall(line)
    for number, word in found:
        counts["failed" if word.startswith("error") else word] += int(number)
    return counts if found else {}


def end(make: subprocess.Popen) -> None:
    """End make with its children: first as Ctrl-C does, so that the tests clean up."""
    for number, patience_s in ((signal.SIGINT, PATIENCE_S), (signal.SIGKILL, PATIENCE_S)):
        with suppress(ProcessLookupError):
            os.killpg(make.pid, number)
        with suppress(subprocess.TimeoutExpired):
            make.wait(patience_s)


def table(rows: Sequence[Row]) -> str:
    """Return the rows as a table in Markdown."""
    lines = [list(COLUMNS), ["---"] * len(COLUMNS), *(row.cells() for row in rows)]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def main(wanted: Sequence[str]) -> int:
    """Run all, print the table; the status is 0 if all were green."""
    rows: list[Row] = []
    try:
        for one in wanted:
            rows.append(tests_with(one))
    finally:
        print(f"\n{table(rows)}", flush=True)
    return 0 if rows and all(row.result == "green" for row in rows) else 1


def _stop(*_: object) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, _stop)
    signal.signal(signal.SIGINT, _stop)  # also where a shell has started us in the background
    sys.exit(main(sys.argv[1:]))
