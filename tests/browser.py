"""The system's Chromium, for the tests of the web page and of JupyterLab."""

import os
import shutil
from contextlib import contextmanager

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome")
MISSING = f"no browser: looked for {', '.join(NAMES)}; on Debian: apt-get install chromium"


def not_here(what):
    """Skip, unless D2LPERF_BROWSER=1 says that the browser's tests must run."""
    if os.environ.get("D2LPERF_BROWSER") == "1":
        pytest.fail(what, pytrace=False)
    pytest.skip(what)


@contextmanager
def chromium():
    """Chromium, or a skipped test where it or Playwright is missing."""
    try:
        from playwright.sync_api import sync_playwright
    except ModuleNotFoundError:
        not_here("Playwright is in the extra 'book'; `make book-test` and `make e2e` use it")
    paths = [path for path in map(shutil.which, NAMES) if path]
    if not paths:
        not_here(MISSING)
    root = ["--no-sandbox"] if hasattr(os, "geteuid") and os.geteuid() == 0 else []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=paths[0], args=root)
        yield browser
        browser.close()
