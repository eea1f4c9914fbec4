"""The system's Chromium, for the tests of the web page and of JupyterLab."""

import os
import shutil
from contextlib import contextmanager
from importlib import import_module

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome")
MISSING = f"no browser: looked for {', '.join(NAMES)}; on Debian: apt-get install chromium"


def not_here(what):
    """Skip, unless D2LPERF_BROWSER=1 says that the browser's tests must run."""
    if os.environ.get("D2LPERF_BROWSER") == "1":
        pytest.fail(what, pytrace=False)
    pytest.skip(what)


def needed(name):
    """A module that the extra 'book' brings."""
    try:
        return import_module(name)
    except ModuleNotFoundError:
        not_here(f"no {name}: it is in the extra 'book'; `make book-test` and `make e2e` use it")


@contextmanager
def chromium():
    """Chromium, which finds no other host; or a skipped test where it or Playwright is missing."""
    sync_playwright = needed("playwright.sync_api").sync_playwright
    paths = [path for path in map(shutil.which, NAMES) if path]
    if not paths:
        not_here(MISSING)
    arguments = ["--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost"]
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        arguments += ["--no-sandbox"]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=paths[0], args=arguments)
        yield browser
        browser.close()
