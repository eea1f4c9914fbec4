"""The code and the notebooks keep to the style that `make lint` checks."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")


@pytest.mark.parametrize("arguments", re.findall(r"-m ruff (.*)", MAKEFILE))
def test_ruff_finds_nothing(arguments):
    run = subprocess.run(
        [sys.executable, "-m", "ruff", *shlex.split(arguments), "--no-cache"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        encoding="utf-8",
    )
    if run.returncode:
        pytest.fail(run.stdout + run.stderr, pytrace=False)
