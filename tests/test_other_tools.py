"""The other tools that notebook 01 recommends: its two snippets, taken from it and run."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

NOTEBOOK = Path(__file__).parents[1] / "notebooks" / "01-measuring-performance.ipynb"
FORWARD = "def forward():\n    return sum(range(100))\n\n\n"
# One round is enough here; a snippet shows how to call the tool, not how long to take.
QUICK = ["--benchmark-min-rounds=1", "--benchmark-max-time=0.001", "--benchmark-warmup=off"]


def run(command, folder, **env):
    return subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, **env},
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=120,
    )


@pytest.fixture(scope="module")
def snippets():
    """The fences of the notebook that have to do with these tools."""
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    text = "\n".join(c.source for c in notebook.cells if c.cell_type == "markdown")
    fences = re.findall(r"^```(\w*)\n(.*?)^```", text, re.M | re.S)
    return [source for _, source in fences if "pyperf" in source or "def test_" in source]


def test_there_are_two(snippets):
    assert len(snippets) == 2


def test_the_one_for_pytest_benchmark(snippets, tmp_path):
    (snippet,) = (s for s in snippets if "(benchmark)" in s)
    (tmp_path / "test_it.py").write_text(FORWARD + snippet)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    # "# pytest --first, later --second --third=limit"
    line = re.search(r"^# pytest (.+), later (.+)$", snippet, re.M)
    first, later = (shlex.split(options) for options in line.groups())
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *QUICK]
    command += ["-p", "pytest_benchmark.plugin"]  # and no other plugin: they take time to load
    alone = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}

    done = run([*command, *first], tmp_path, **alone)
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"^test_forward +\d", done.stdout, re.M)
    assert list((tmp_path / ".benchmarks").rglob("*.json"))

    done = run([*command, *later], tmp_path, **alone)
    assert re.search(r"^test_forward \(\w+\) +\d", done.stdout, re.M), done.stdout + done.stderr
    # One round on a machine that does other things may well look like a regression; then
    # pytest-benchmark stops before pytest counts what has passed.
    said = done.stdout + done.stderr
    assert "Performance has regressed" in said or (done.returncode == 0 and "1 passed" in said)


def test_the_one_for_pyperf(snippets, tmp_path):
    (snippet,) = (s for s in snippets if "pyperf" in s)
    python, *words = shlex.split(snippet)
    assert python == "python" and words[:3] == ["-m", "pyperf", "timeit"]
    # one process, one value, no calibration
    done = run([sys.executable, *words[:3], "--debug-single-value", *words[3:]], tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"\d (?:ns|us|ms|sec)\b", done.stdout), done.stdout
