"""pytest in a process of its own."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
OURS = ("D2LPERF", "TQDM", "PYTEST")  # variables that conftest.py and pytest set


def run_pytest(*arguments, cwd, plugins=(), **variables):
    """Run pytest as from a person's shell, with these plugins alone: the others take seconds."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith(OURS)}
    environment |= {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONPATH": str(ROOT), **variables}
    chosen = [word for name in ("no:cacheprovider", *plugins) for word in ("-p", name)]
    return subprocess.run(
        [sys.executable, "-m", "pytest", *chosen, *arguments],
        cwd=cwd,
        env=environment,
        capture_output=True,
        text=True,
        encoding="utf-8",
    )
