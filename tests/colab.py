"""Run the course as Colab does, each notebook alone in a folder: `python tests/colab.py [NN ...]`.

A new environment gets what Colab has (tests/colab.txt) and no d2lperf. The set-up cell of each
notebook installs it from D2LPERF_REPO, here a bare clone of the last commit, and must change no
package of Colab's; it may take 20 s. The environment is in the system's folder for temporary files
and is removed, also after a failure or an interrupt. The table at the end says how long the cell
took.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from environments import (
    ROOT,
    Failed,
    as_program,
    binaries,
    new_folder,
    run,
    run_all,
    table,
    without,
)

CELL_S = 600  # the longest time for one cell
SETUP_S = 20  # what the set-up cell may take
GREEN = "to the end"
COLUMNS = ("notebook", f"set-up cell, s ({SETUP_S} at most)", "in all, s", "result")
# What belongs to the caller's Python, Jupyter and d2lperf, and would reach the notebooks.
OURS = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "MPLBACKEND", "JUPYTER_PATH", "TQDM_DISABLE")


class Colab:
    """An environment with what Colab has, and a repository, in a folder."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.repository = folder / "d2lperf.git"
        environ = {k: v for k, v in without(OURS).items() if "D2LPERF" not in k}
        self.env = environ | {
            "D2LPERF_REPO": f"git+{self.repository.as_uri()}",
            "JUPYTER_DATA_DIR": str(folder / "jupyter"),
            "JUPYTER_CONFIG_DIR": str(folder / "jupyter"),
            "IPYTHONDIR": str(folder / "ipython"),
            "PATH": os.pathsep.join([str(binaries(folder / "venv")), os.environ["PATH"]]),
        }

    def make(self) -> None:
        """Clone the repository and install the packages."""
        self.run("git", "clone", "--quiet", "--bare", ROOT, self.repository)
        self.run(sys.executable, "-m", "venv", self.folder / "venv")
        listed = ROOT / "tests" / "colab.txt"
        self.run("python", "-m", "pip", "install", "--quiet", "--requirement", listed)

    def run(self, *command: object, cwd: Path | None = None) -> str:
        """Run a command of the environment and return what it prints; an error says all of it."""
        status, lines = run(command, self.env, cwd or self.folder, show=False)
        if status:
            raise Failed(f"{command[0]} ended with {status}:\n{''.join(lines)}")
        return "".join(lines)

    def committed(self, path: str) -> str:
        """Return a file, or the names in a folder, as the last commit has it."""
        return self.run("git", "--git-dir", self.repository, "show", f"HEAD:{path}")

    def packages(self) -> dict[str, str]:
        """Return the version of each package that is installed, without d2lperf."""
        said = self.run("python", "-m", "pip", "list", "--format=json")
        # pip may warn of something before.
        listed = json.loads(next(line for line in said.splitlines() if line.startswith("[")))
        return {p["name"]: p["version"] for p in listed if p["name"] != "d2lperf"}

    def open(self, name: str) -> list[str]:
        """Run one notebook where d2lperf is not installed; return a row of the table."""
        alone = self.folder / name
        alone.mkdir()
        (alone / name).write_text(self.committed(f"notebooks/{name}"), encoding="utf-8")
        self.run("python", "-m", "pip", "uninstall", "--quiet", "--yes", "d2lperf")
        before, began, setup_s = self.packages(), time.monotonic(), float("nan")
        try:
            self.run("jupyter-execute", "--inplace", f"--timeout={CELL_S}", name, cwd=alone)
            setup_s = time_of_setup(alone / name)
            result = GREEN if setup_s <= SETUP_S else f"to the end, but {setup_s:.1f} s of set-up"
        except Failed as error:
            result = str(error).strip().splitlines()[-1]
            print(error, flush=True)
        seconds = time.monotonic() - began
        if found := changes(before, self.packages()):
            result = f"pip {', '.join(found)}"
        row = [name.removesuffix(".ipynb"), f"{setup_s:.1f}", f"{seconds:.0f}", result]
        print(table(COLUMNS, [row]).splitlines()[-1], flush=True)
        return row


def changes(before: dict[str, str], after: dict[str, str]) -> list[str]:
    """Return what happened to the packages, one phrase for each that is not as before."""
    found = []
    for name in sorted(before.keys() | after.keys()):
        old, new = before.get(name), after.get(name)
        if old is None:
            found.append(f"added {name} {new}")
        elif new is None:
            found.append(f"removed {name} {old}")
        elif old != new:
            found.append(f"changed {name} {old} to {new}")
    return found


def time_of_setup(notebook: Path) -> float:
    """Return how long the set-up cell of an executed notebook took, in seconds."""
    cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    (ran,) = [c["metadata"] for c in cells if "setup" in c["metadata"].get("tags", ())]
    ends = [ran["execution"][name] for name in ("iopub.execute_input", "shell.execute_reply")]
    began, ended = (datetime.fromisoformat(end.replace("Z", "+00:00")) for end in ends)
    return (ended - began).total_seconds()


def main(wanted: Sequence[str]) -> int:
    """Run the notebooks asked for, print the table; the status is 0 if all ended well."""
    with new_folder("colab") as made:
        colab = Colab(Path(made))
        colab.make()
        there = [n for n in colab.committed("notebooks").split() if n.endswith(".ipynb")]
        names = [n for n in there if n.startswith(tuple(wanted) or "")]
        return run_all(colab.open, names, COLUMNS, good=GREEN)


if __name__ == "__main__":
    as_program(main)
