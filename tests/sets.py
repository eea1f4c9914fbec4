"""Run tests with another set of packages: `python tests/sets.py conda`, or `oldest newest`.

conda: what environment.yml says, by micromamba or conda where one is on the path, otherwise its pip
part alone in Python 3.11; with three notebooks. torch is the version of requirements.lock, in the
build that pip finds.
oldest, newest: the oldest and newest versions that pyproject.toml allows, resolved by uv, for
Python 3.11; without notebooks.

The environments are in the system's folder for temporary files (a CUDA build of torch takes 6 GB)
and are removed, also after a failure or an interrupt.
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
from pathlib import Path

from matrix import OF_MAKE, ROOT, counted, end, interpreter, said_by

NOTEBOOKS = ("01", "02", "07")
SHOWN = ("torch", "numpy", "matplotlib", "pandas", "scipy", "ipython")
COLUMNS = ("set", "versions", "passed", "failed", "skipped", "minutes", "result")
VERSIONS = "from importlib.metadata import version\nfor n in {}: print(n, version(n), end=', ')"
# torch's own build requires those it needs.
OF_TORCH = re.compile(r"(?m)^(nvidia|cuda|triton).*\n")


class Failed(Exception):
    """A step ended with an error; what it printed stands above."""


def run(command: Sequence[str | Path], **variables: str) -> tuple[int, dict[str, int]]:
    """Run a command in the clone and show what it prints; return its status, pytest's counts."""
    print("+", *command, flush=True)
    env = {name: value for name, value in os.environ.items() if name not in OF_MAKE} | variables
    counts: dict[str, int] = {}
    with subprocess.Popen(
        list(map(str, command)),
        cwd=ROOT,
        env=env,
        stdout=subprocess.PIPE,
        text=True,
        errors="replace",
        start_new_session=True,  # so that it can be ended with all that it has started
    ) as process:
        try:
            for line in process.stdout:
                print(line, end="", flush=True)
                counts = counted(line) or counts
        except BaseException:
            end(process)
            raise
    return process.returncode, counts


def step(*command: str | Path, **variables: str) -> None:
    """Run a command that must succeed."""
    if run(command, **variables)[0]:
        raise Failed(f"{Path(command[0]).name} {command[1]} {command[2]} failed")


def new_environment(folder: Path) -> Path:
    """Make an environment of Python 3.11 and return its interpreter."""
    python = interpreter("3.11")
    if python is None:
        raise Failed("no Python 3.11 here")
    step(python, "-m", "venv", folder / "venv")
    return folder / "venv" / "bin" / "python"


def pip_part() -> list[str]:
    """Return what environment.yml has pip install."""
    text = (ROOT / "environment.yml").read_text(encoding="utf-8")
    return re.findall(r"(?m)^      - (.+)$", text.partition("- pip:\n")[2])


def conda(folder: Path) -> Path:
    """Install what environment.yml says; return the interpreter."""
    (torch,) = re.findall(r"(?m)^torch==\S+", (ROOT / "requirements.lock").read_text("utf-8"))
    (folder / "torch.txt").write_text(torch)
    constraint = {"PIP_CONSTRAINT": str(folder / "torch.txt")}
    prefix = folder / "venv"
    if tool := shutil.which("micromamba"):
        step(tool, "create", "--yes", "--file", "environment.yml", "--prefix", prefix, **constraint)
    elif tool := shutil.which("conda"):
        step(tool, "env", "create", "--file", "environment.yml", "--prefix", prefix, **constraint)
    else:
        print("Neither micromamba nor conda is on the path: the pip part alone.")
        python = new_environment(folder)
        (folder / "pip.txt").write_text("\n".join(pip_part()))
        step(python, "-m", "pip", "install", "--quiet", "-r", folder / "pip.txt", **constraint)
    return prefix / "bin" / "python"


def resolved(folder: Path, resolution: str) -> Path:
    """Install the versions that uv finds for pyproject.toml; return the interpreter."""
    python, found = new_environment(folder), folder / "found.txt"
    step(python, "-m", "pip", "install", "--quiet", "uv")
    step(
        *(python, "-m", "uv", "pip", "compile", "--quiet", "pyproject.toml", "--extra", "test"),
        *("--resolution", resolution, "--python-version", "3.11", "--output-file", found),
        *("--no-header", "--no-annotate"),
    )
    found.write_text(OF_TORCH.sub("", found.read_text("utf-8")))
    # By pip, which knows the folders of wheels that its settings name.
    step(python, "-m", "pip", "install", "--quiet", "-r", found)
    step(python, "-m", "pip", "install", "--quiet", "--no-deps", "-e", ".")
    return python


def tests_with(name: str) -> list[str]:
    """Make an environment, run the tests in it, remove it; return a row of the table."""
    print(f"\n=== {name}", flush=True)
    began, counts, versions = time.monotonic(), {}, "-"
    paths = ["tests", "d2lperf"]
    with tempfile.TemporaryDirectory(prefix="d2lperf-sets-", ignore_cleanup_errors=True) as made:
        try:
            if name == "conda":
                python = conda(Path(made))
                paths += [str(*(ROOT / "notebooks").glob(f"{nn}-*.ipynb")) for nn in NOTEBOOKS]
            else:
                resolution = {"oldest": "lowest-direct", "newest": "highest"}[name]
                python = resolved(Path(made), resolution)
            versions = said_by(python, VERSIONS.format(SHOWN)).strip(", ")
            pytest = (python, "-m", "pytest", "--nbval", "-q", "-n", "2", "--no-loadscope-reorder")
            status, counts = run([*pytest, *paths])
            green = status == 0 and counts.get("passed")
            result = "green" if green else f"pytest ended with {status}"
        except Failed as error:
            result = str(error)
    numbers = [str(counts.get(key, "-")) for key in ("passed", "failed", "skipped")]
    return [name, versions, *numbers, f"{(time.monotonic() - began) / 60:.0f}", result]


def main(names: Sequence[str]) -> int:
    """Run all, print the table; the status is 0 if all were green."""
    rows: list[list[str]] = []
    try:
        for name in names:
            rows.append(tests_with(name))
    finally:
        for cells in (COLUMNS, ["---"] * len(COLUMNS), *rows):
            print(f"| {' | '.join(cells)} |", flush=True)
    return 0 if rows and all(row[-1] == "green" for row in rows) else 1


def _stop(*_: object) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, _stop)
    signal.signal(signal.SIGINT, _stop)  # also where a shell has started us in the background
    sys.exit(main(sys.argv[1:]))
