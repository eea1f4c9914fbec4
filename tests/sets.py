"""Run tests with another set of packages: `python tests/sets.py conda`, or `oldest newest`.

conda: what environment.yml says, by micromamba or conda where one is on the path, otherwise its pip
part alone in Python 3.11; with six notebooks. torch is the version of requirements.lock, in the
build that pip finds.
oldest: the oldest versions that pyproject.toml allows, found by uv. newest: what pip takes for it.
Both for Python 3.11, without notebooks.

The environments are in the system's folder for temporary files (a CUDA build of torch takes 6 GB)
and are removed, also after a failure or an interrupt.
"""

from __future__ import annotations

import re
import shutil
import time
from collections.abc import Sequence
from pathlib import Path

from environments import (
    OF_MAKE,
    ROOT,
    Failed,
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

NOTEBOOKS = ("01", "01b", "02", "02b", "07", "07b")
SHOWN = ("torch", "numpy", "matplotlib", "pandas", "scipy", "ipython")
COLUMNS = ("set", "versions", "passed", "failed", "skipped", "minutes", "result")
VERSIONS = "from importlib.metadata import version\nfor n in {}: print(n, version(n), end=', ')"
# torch's own build requires those it needs.
OF_TORCH = re.compile(r"(?m)^(nvidia|cuda|triton).*\n")


def step(*command: str | Path, **variables: str) -> None:
    """Run a command that must succeed."""
    print("+", *command, flush=True)
    if run(command, without(OF_MAKE) | variables)[0]:
        raise Failed(f"{Path(command[0]).name} {command[1]} {command[2]} failed")


def new_environment(folder: Path) -> Path:
    """Make an environment of Python 3.11 and return its interpreter."""
    python = interpreter("3.11")
    if python is None:
        raise Failed("no Python 3.11 here")
    step(python, "-m", "venv", folder / "venv")
    return binaries(folder / "venv") / "python"


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
    return binaries(prefix) / "python"


def oldest(folder: Path) -> Path:
    """Install the oldest versions that pyproject.toml allows; return the interpreter."""
    python, found = new_environment(folder), folder / "found.txt"
    step(python, "-m", "pip", "install", "--quiet", "uv")
    options = ["--quiet", "--no-header", "--no-annotate", "--extra", "test"]
    options += ["--extra", "notebooks", "--resolution", "lowest-direct", "--python-version", "3.11"]
    step(python, "-m", "uv", "pip", "compile", *options, "--output-file", found, "pyproject.toml")
    found.write_text(OF_TORCH.sub("", found.read_text("utf-8")))
    # By pip, which knows the folders of wheels that its settings name.
    step(python, "-m", "pip", "install", "--quiet", "-r", found)
    step(python, "-m", "pip", "install", "--quiet", "--no-deps", "-e", ".")
    return python


def newest(folder: Path) -> Path:
    """Install what pip takes for pyproject.toml, the newest versions; return the interpreter."""
    python = new_environment(folder)
    step(python, "-m", "pip", "install", "--quiet", "-e", ".[notebooks,test]")
    return python


SETS = {"conda": conda, "oldest": oldest, "newest": newest}


def tests_with(name: str) -> list[str]:
    """Make an environment, run the tests in it, remove it; return a row of the table."""
    print(f"\n=== {name}", flush=True)
    began, numbers, versions = time.monotonic(), ["-", "-", "-"], "-"
    paths = ["tests", "d2lperf"]
    with new_folder("sets") as made:
        try:
            python = SETS[name](Path(made))
            if name == "conda":
                for nn in NOTEBOOKS:
                    paths += map(str, (ROOT / "notebooks").glob(f"{nn}-*.ipynb"))
            versions = said_by(python, VERSIONS.format(SHOWN)).strip(", ")
            pytest = [python, "-m", "pytest", "--nbval", "-q", "-n", "2", "--no-loadscope-reorder"]
            status, lines = run(pytest + paths, without(OF_MAKE))
            numbers = numbers_of_tests(lines)
            result = result_of(status, numbers, "pytest")
        except Failed as error:
            result = str(error)
    return [name, versions, *numbers, f"{(time.monotonic() - began) / 60:.0f}", result]


def main(names: Sequence[str]) -> int:
    """Run all, print the table; the status is 0 if all were green."""
    return run_all(tests_with, names, COLUMNS)


if __name__ == "__main__":
    as_program(main)
