"""The web page as a reader meets it: built, served on this machine alone, opened in Chromium."""

import functools
import threading
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import find_spec
from pathlib import Path

import pytest
from browser import chromium, not_here

ROOT = Path(__file__).parents[2]
HTML = ROOT / "build" / "book" / "html"
VIEWPORT = {"width": 1280, "height": 900}


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *arguments):
        pass


@pytest.fixture(scope="session")
def html():
    """The folder of the page, which `make book-test` builds before it runs these tests."""
    if find_spec("myst_nb") is None or not (HTML / "index.html").is_file():
        not_here("the page is not built: `make book-test` builds it and runs these tests")
    return HTML


@pytest.fixture(scope="session")
def address(html):
    handler = functools.partial(Quiet, directory=str(html))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()
        thread.join()


@pytest.fixture(scope="session")
def browser():
    with chromium() as browser:
        yield browser


class Visit:
    """A tab that notes what a reader should never cause: errors, and requests to other hosts."""

    def __init__(self, page, address):
        self.page, self.address, self.problems = page, address, []
        self.page.on("console", self._console)
        self.page.on("pageerror", lambda error: self.problems.append(str(error)))
        self.page.on("request", self._request)
        self.page.on("response", self._response)

    def _console(self, message):
        if message.type in ("error", "warning"):
            self.problems.append(message.text)

    def _response(self, response):
        if response.status >= 400:
            self.problems.append(f"{response.status} {response.url}")

    def _request(self, request):  # `page.route` could refuse it, but switches the cache off
        if not request.url.startswith((self.address, "blob:")):
            self.problems.append(f"asks another host: {request.url}")

    def open(self, path):
        self.page.goto(self.address + path, wait_until="load")
        return self.page


@pytest.fixture(scope="session")
def common(browser, address):
    """The tab of most tests, which share its storage: a new one takes longer than most pages."""
    with browser.new_page(viewport=VIEWPORT) as page:
        yield Visit(page, address)


@pytest.fixture
def visit(browser, address, common):
    """Gives the common tab, or one with options; what goes wrong in any of them fails the test."""
    others = []

    def give(own=False, **options):
        if not own and not options:
            return common
        page = browser.new_page(**{"viewport": VIEWPORT, **options})
        others.append(Visit(page, address))
        return others[-1]

    yield give
    for other in others:
        other.page.close()
    try:
        common.page.mouse.move(0, 0)  # over nothing
        common.page.goto("about:blank")  # the next test finds no field filled in
    finally:
        problems = [problem for each in (common, *others) for problem in each.problems]
        common.problems.clear()
    assert not problems
