"""The code and the notebooks keep to pyproject.toml's rules of style."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


# As in the Makefile: notebooks keep the line breaks that their writers gave them.
CHECKS = {
    "check": ["check", "--output-format=concise", "."],
    "format": ["format", "--check", "--exclude", "*.ipynb", "."],
}


@pytest.mark.parametrize("arguments", CHECKS.values(), ids=CHECKS)
def test_ruff_finds_nothing(arguments):
    command, *rest = arguments
    run = subprocess.run(
        [sys.executable, "-m", "ruff", command, "--no-cache", *rest],
        cwd=ROOT,
        capture_output=True,
        text=True,
        encoding="utf-8",
    )
    if run.returncode:
        pytest.fail(run.stdout + run.stderr, pytrace=False)


def test_make_lint_does_just_that():
    lines = re.findall(r"-m ruff (.*)", (ROOT / "Makefile").read_text(encoding="utf-8"))
    found = [shlex.split(line) for line in lines]
    assert found == [[a for a in c if "output" not in a] for c in CHECKS.values()]
