"""JupyterLab in a browser: `make e2e` runs these tests, `make test` does not."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest
from browser import chromium

ROOT = Path(__file__).parents[2]
ASKED = "D2LPERF_LAB" in os.environ  # the Python that has JupyterLab and the notebooks' kernel
collect_ignore = [] if ASKED else ["jupyter.py", "test_faults.py", "test_notebooks.py"]


@pytest.fixture(scope="session")
def browser():
    with chromium() as browser:
        yield browser


@pytest.fixture
def tab(browser):
    """A page of the browser that sees nobody else's cookies."""
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    yield context.new_page()
    context.close()


@pytest.fixture(scope="session")
def said():
    """Returns what a program prints in the Python of JupyterLab and its kernels."""

    def run(program):
        command = [os.environ["D2LPERF_LAB"], "-c", program]
        return subprocess.check_output(command, cwd=ROOT, text=True).strip()

    return run


@pytest.fixture(scope="session")
def folder(tmp_path_factory, said):
    """A copy of the notebooks, which JupyterLab saves now and then.

    They name this Python: JupyterLab would write it there and mark the notebook as changed.
    """
    skipped = shutil.ignore_patterns(".ipynb_checkpoints", "__pycache__")
    to = tmp_path_factory.mktemp("course") / "notebooks"
    shutil.copytree(ROOT / "notebooks", to, ignore=skipped)
    version = said("import platform; print(platform.python_version())")
    for path in to.rglob("*.ipynb"):
        notebook = json.loads(path.read_text(encoding="utf-8"))
        notebook["metadata"]["language_info"]["version"] = version
        path.write_text(json.dumps(notebook), encoding="utf-8")
    return to
