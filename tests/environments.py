"""What matrix.py, sets.py and colab.py share: environments that are made, used and removed."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
GREEN = "green"
PATIENCE_S = 30.0  # for pytest and its kernels to end after an interrupt
# What an outer make was told must not reach the inner one.
OF_MAKE = ("MAKEFLAGS", "MFLAGS", "MAKELEVEL", "MAKEOVERRIDES", "PYTHON", "VENV")
COUNT = re.compile(r"(\d+) (passed|failed|skipped|errors?)\b")
COUNTED = ("passed", "failed", "skipped")  # errors count as failed


class Failed(Exception):
    """A step ended with an error; the message says which."""


def new_folder(name: str) -> tempfile.TemporaryDirectory:
    """Return a folder for environments; it is removed at the end of a with-block."""
    return tempfile.TemporaryDirectory(prefix=f"d2lperf-{name}-", ignore_cleanup_errors=True)


def binaries(venv: Path) -> Path:
    """Return the folder of an environment's programs."""
    return venv / ("Scripts" if sys.platform == "win32" else "bin")


def _candidates(wanted: str) -> Iterator[str]:
    """Yield where an interpreter may be; uv is asked only if the others do not run."""
    yield from (wanted, f"python{wanted}")
    if not re.fullmatch(r"[\d.]+", wanted):
        return
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"), "versions")
    newest_first = sorted(pyenv.glob(f"{wanted}*/bin/python"), key=_numbers, reverse=True)
    yield from map(str, newest_first)
    if uv := shutil.which("uv"):
        find = [uv, "python", "find", "--system", wanted]  # not an environment's
        yield subprocess.run(find, capture_output=True, text=True).stdout.strip()


def interpreter(wanted: str) -> str | None:
    """Return the path of an interpreter that runs, for a version such as "3.12" or a path."""
    for candidate in _candidates(wanted):
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


def without(names: Iterable[str]) -> dict[str, str]:
    """Return the variables of this process but for some."""
    return {name: value for name, value in os.environ.items() if name not in names}


def run(
    command: Sequence[object], env: Mapping[str, str], cwd: Path = ROOT, *, show: bool = True
) -> tuple[int, list[str]]:
    """Run a command; return its status and the lines that it printed, and show them.

    An interrupt ends the command with all that it has started.
    """
    lines: list[str] = []
    with subprocess.Popen(
        list(map(str, command)),
        cwd=cwd,
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,  # so that it can be ended with all that it has started
    ) as process:
        try:
            for line in process.stdout:
                lines.append(line)
                if show:
                    print(line, end="", flush=True)
        except BaseException:
            end(process)
            raise
    return process.returncode, lines


def end(process: subprocess.Popen) -> None:
    """End a process with its children: first as Ctrl-C does, so that the tests clean up."""
    if sys.platform == "win32":  # which has no groups of processes
        process.kill()
        return
    for number in (signal.SIGINT, signal.SIGKILL):
        with suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with suppress(subprocess.TimeoutExpired):
            process.wait(PATIENCE_S)


def numbers_of_tests(lines: Sequence[str]) -> list[str]:
    """Return how many tests passed, failed and were skipped, by pytest's closing line."""
    closing = [line for line in lines if re.search(r" in [\d.]+s\b", line) and COUNT.search(line)]
    if not closing:
        return ["-"] * len(COUNTED)
    counts = dict.fromkeys(COUNTED, 0)
    for number, word in COUNT.findall(closing[-1]):
        counts["failed" if word.startswith("error") else word] += int(number)
    return [str(count) for count in counts.values()]


def result_of(status: int, numbers: Sequence[str], program: str) -> str:
    """Return "green", or what went wrong; where no test passed, something did."""
    passed = numbers[0] not in ("-", "0")
    return GREEN if status == 0 and passed else f"{program} ended with {status}"


def table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return the rows as a table in Markdown."""
    return "\n".join(f"| {' | '.join(r)} |" for r in (columns, ["---"] * len(columns), *rows))


def run_all(
    row_of: Callable[[str], list[str]],
    names: Iterable[str],
    columns: Sequence[str],
    good: str = GREEN,
) -> int:
    """Print a table with a row for each name; the status is 0 if the last cells are all good."""
    rows: list[list[str]] = []
    try:
        for name in names:
            rows.append(row_of(name))
    finally:
        print(f"\n{table(columns, rows)}", flush=True)
    return 0 if rows and all(row[-1] == good for row in rows) else 1


def as_program(main: Callable[[Sequence[str]], int]) -> None:
    """Call main with the arguments of the command line; a signal removes the environments."""

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)  # also where a shell has started us in the background
    sys.exit(main(sys.argv[1:]))
