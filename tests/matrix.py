"""Run `make test` with several Pythons, each in a new environment: `python tests/matrix.py 3.13`.

An interpreter is a path, or a version, which is looked for on the path, in pyenv and by uv. The
environments are in the system's folder for temporary files (TMPDIR; a CUDA build of torch takes
5 GB) and are removed, also after a failure or an interrupt. What pip finds decides which build of
torch each of them gets; the table at the end says which it was.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

from environments import (
    OF_MAKE,
    as_program,
    binaries,
    interpreter,
    new_folder,
    numbers_of_tests,
    result_of,
    run,
    run_all,
    said_by,
    without,
)

COLUMNS = ("Python", "torch", "passed", "failed", "skipped", "minutes", "result")


def tests_with(wanted: str) -> list[str]:
    """Make an environment, run the tests in it, remove it; return a row of the table."""
    began = time.monotonic()
    python = interpreter(wanted)
    if python is None:
        return [wanted, "-", "-", "-", "-", "0", "no such interpreter here"]
    print(f"\n=== Python {wanted}: {python}", flush=True)
    with new_folder("matrix") as made:
        venv = Path(made, "venv")
        status, lines = run(["make", "test", f"PYTHON={python}", f"VENV={venv}"], without(OF_MAKE))
        ours = binaries(venv) / "python"
        version = said_by(python, "import platform; print(platform.python_version())")
        torch = said_by(ours, "import torch; print(torch.__version__)") or "not installed"
    numbers, minutes = numbers_of_tests(lines), (time.monotonic() - began) / 60
    return [version, torch, *numbers, f"{minutes:.0f}", result_of(status, numbers, "make")]


def main(wanted: Sequence[str]) -> int:
    """Run all, print the table; the status is 0 if all were green."""
    return run_all(tests_with, wanted, COLUMNS)


if __name__ == "__main__":
    as_program(main)
