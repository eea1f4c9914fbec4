"""JupyterLab in a browser: `make e2e` runs these tests, `make test` does not."""

import os
import shutil
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
def folder(tmp_path_factory):
    """A copy of the notebooks, which JupyterLab saves now and then."""
    skipped = shutil.ignore_patterns(".ipynb_checkpoints", "__pycache__")
    to = tmp_path_factory.mktemp("course") / "notebooks"
    return shutil.copytree(ROOT / "notebooks", to, ignore=skipped)
