"""Run the course as Colab does, each notebook alone in a folder: `python tests/colab.py [NN ...]`.

A new environment gets what Colab has (tests/colab.txt) and no d2lperf. The set-up cell of each
notebook installs it from D2LPERF_REPO, here a bare clone of the last commit, and must change
nothing else; it may take 20 s. The environment is in the system's folder for temporary files and is
removed, also after a failure or an interrupt. The table at the end says how long the cell took.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
CELL_S = 600  # the longest time for one cell
SETUP_S = 20  # what the set-up cell may take
GREEN = "to the end"
# What belongs to the caller's Python, Jupyter and d2lperf, and would reach the notebooks.
OURS = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "MPLBACKEND", "JUPYTER_PATH", "TQDM_DISABLE")


class Row(NamedTuple):
    """How one notebook ended."""

    notebook: str
    setup_s: float
    seconds: float
    result: str  # GREEN, or what went wrong


class Colab:
    """An environment with what Colab has, and a repository, in a folder."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.bin = folder / "venv" / ("Scripts" if sys.platform == "win32" else "bin")
        self.repository = folder / "d2lperf.git"
        environ = {k: v for k, v in os.environ.items() if k not in OURS and "D2LPERF" not in k}
        self.env = environ | {
            "D2LPERF_REPO": f"git+{self.repository.as_uri()}",
            "JUPYTER_DATA_DIR": str(folder / "jupyter"),
            "JUPYTER_CONFIG_DIR": str(folder / "jupyter"),
            "IPYTHONDIR": str(folder / "ipython"),
            "PATH": os.pathsep.join([str(self.bin), os.environ["PATH"]]),
        }

    def make(self) -> None:
        """Clone the repository and install the packages."""
        self.run("git", "clone", "--quiet", "--bare", ROOT, self.repository)
        self.run(sys.executable, "-m", "venv", self.folder / "venv")
        listed = ROOT / "tests" / "colab.txt"
        self.run("python", "-m", "pip", "install", "--quiet", "--requirement", listed)

    def run(self, *command: object, cwd: Path | None = None) -> str:
        """Run a command of the environment and return what it prints; an error says all of it."""
        done = subprocess.run(
            [str(part) for part in command],
            env=self.env,
            cwd=cwd or self.folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        if done.returncode:
            raise RuntimeError(f"{command[0]} ended with {done.returncode}:\n{done.stdout}")
        return done.stdout

    def committed(self, path: str) -> str:
        """Return a file, or the names in a folder, as the last commit has it."""
        return self.run("git", "--git-dir", self.repository, "show", f"HEAD:{path}")

    def packages(self) -> set[str]:
        """Return the packages that are installed, with their versions."""
        return set(self.run("python", "-m", "pip", "freeze", "--all").splitlines())

    def open(self, name: str) -> Row:
        """Run one notebook where d2lperf is not installed, and remove d2lperf again."""
        alone = self.folder / name
        alone.mkdir()
        (alone / name).write_text(self.committed(f"notebooks/{name}"), encoding="utf-8")
        before, began, setup_s = self.packages(), time.monotonic(), float("nan")
        try:
            self.run("jupyter-execute", "--inplace", f"--timeout={CELL_S}", name, cwd=alone)
            setup_s = time_of_setup(alone / name)
            result = GREEN if setup_s <= SETUP_S else f"to the end, but {setup_s:.1f} s of set-up"
        except RuntimeError as error:
            result = str(error).strip().splitlines()[-1]
            print(error, flush=True)
        seconds = time.monotonic() - began
        now = self.packages()
        changed = sorted(p for p in before ^ now if not p.startswith("d2lperf @"))
        if changed:
            result = f"pip changed {', '.join(changed)}"
        if now != before:
            self.run("python", "-m", "pip", "uninstall", "--quiet", "--yes", "d2lperf")
        return Row(name.removesuffix(".ipynb"), setup_s, seconds, result)


def time_of_setup(notebook: Path) -> float:
    """Return how long the set-up cell of an executed notebook took, in seconds."""
    cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    (ran,) = [c["metadata"] for c in cells if "setup" in c["metadata"].get("tags", ())]
    ends = [ran["execution"][name] for name in ("iopub.execute_input", "shell.execute_reply")]
    began, ended = (datetime.fromisoformat(end.replace("Z", "+00:00")) for end in ends)
    return (ended - began).total_seconds()


def table(rows: Sequence[Row]) -> str:
    """Return the rows as a table in Markdown."""
    lines = [f"| notebook | set-up cell, s ({SETUP_S} at most) | in all, s | result |"]
    lines += ["|---|---|---|---|"]
    lines += [f"| {r.notebook} | {r.setup_s:.1f} | {r.seconds:.0f} | {r.result} |" for r in rows]
    return "\n".join(lines)


def main(wanted: Sequence[str]) -> int:
    """Run the notebooks asked for, print the table; the status is 0 if all ended well."""
    rows: list[Row] = []
    with tempfile.TemporaryDirectory(prefix="d2lperf-colab-", ignore_cleanup_errors=True) as made:
        try:
            colab = Colab(Path(made))
            colab.make()
            there = [n for n in colab.committed("notebooks").split() if n.endswith(".ipynb")]
            for name in [n for n in there if n.startswith(tuple(wanted) or "")]:
                rows.append(colab.open(name))
                print(table(rows).splitlines()[-1], flush=True)
        finally:
            print(f"\n{table(rows)}", flush=True)
    return 0 if rows and all(row.result == GREEN for row in rows) else 1


def _stop(*_: object) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, _stop)
    signal.signal(signal.SIGINT, _stop)  # also where a shell has started us in the background
    sys.exit(main(sys.argv[1:]))
