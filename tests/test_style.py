"""The code and the notebooks keep to pyproject.toml's rules of style."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def test_ruff_finds_nothing():
    pytest.importorskip("ruff", reason="ruff is in the extra 'test'")
    run = subprocess.run(
        [sys.executable, "-m", "ruff", "check", "--no-cache", "--output-format=concise", "."],
        cwd=ROOT,
        capture_output=True,
        text=True,
        encoding="utf-8",
    )
    if run.returncode:
        pytest.fail(run.stdout + run.stderr, pytrace=False)
