"""The page in a browser: it loads from itself alone, folds, searches, and everyone can read it."""

import ast
import inspect
import json
import os
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from browser import needed

import d2lperf
from d2lperf import costs
from docs import book

ROOT = Path(__file__).parents[2]
NOTEBOOKS = sorted(
    path.relative_to(ROOT).with_suffix(".html").as_posix()
    for path in (ROOT / "notebooks").rglob("[0-9]*.ipynb")
    if ".ipynb_checkpoints" not in path.parts
)
PLAIN = ["index.html", "questions.html", "your-script.html", "search.html"]
PLAIN += ["genindex.html", "py-modindex.html", "api/index.html"]
PLAIN += [*(f"api/names/d2lperf.{name}.html" for name in d2lperf.__all__)]
CALCULATORS = [f"calculators/{n}.html" for n in ("which-limit", "what-fits", "communication")]
PLAIN += CALCULATORS
NOTEBOOK = "notebooks/05-hardware.html"


@pytest.fixture(scope="session")
def axe():
    """The script of axe-core: npm's build of it, from a Python package that carries it."""
    package = needed("axe_playwright_python")
    return (Path(package.__file__).parent / "axe.min.js").read_text(encoding="utf-8")


def every_page(html):
    found = sorted(path.relative_to(html).as_posix() for path in html.rglob("*.html"))
    return [name for name in found if not name.startswith("_static/")]


def test_the_pages_are_those_that_are_looked_at_below(html):
    assert sorted(every_page(html)) == sorted([*PLAIN, *NOTEBOOKS])


class Links(HTMLParser):
    """What a page points to, and the places in it that others can point to."""

    def __init__(self, path):
        super().__init__()
        self.places, self.links = set(), set()
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attrs):
        found = dict(attrs)
        self.places.add(found.get("id"))
        if tag in ("a", "img", "script", "link"):
            self.links.add(found.get("href") or found.get("src") or "")


def test_links_of_all_pages_resolve(html):
    pages = {html / name: Links(html / name) for name in every_page(html)}
    assert all(page.links for page in pages.values()), "no link is found"
    lost = []
    for page, found in pages.items():
        for link in map(urlsplit, found.links):
            if link.scheme or link.netloc or not (link.path or link.fragment):
                continue
            path = page.parent / unquote(link.path) if link.path else page
            path = Path(os.path.normpath(path))
            place = unquote(link.fragment)
            if not path.is_file() or (place and path in pages and place not in pages[path].places):
                lost.append(f"{page.relative_to(html)} -> {link.geturl()}")
    assert not lost


def violations(page, axe, exclude=(), **options):
    """What axe-core finds to be serious or critical: the rule, and the first elements."""
    page.evaluate(axe)
    # preload would fetch style sheets again, and with wrong addresses.
    options = {"preload": False, "resultTypes": ["violations"], **options}
    run = "async ([context, options]) => (await axe.run(context, options)).violations"
    found = page.evaluate(run, [{"exclude": list(exclude)}, options])
    return [
        (rule["id"], [node["html"] for node in rule["nodes"][:3]])
        for rule in found
        if rule["impact"] in ("serious", "critical")
    ]


# Each word of code is an element, and they would take most of the time. Their colours are the same
# on all pages. These notebooks and the pages that are no notebooks have every kind of word.
WITH_CODE = ("02-compilers", "05-hardware", "06-memory", "08-multi")
# It lists all pages, and is nearly the same on each. The other pages are checked with it.
SIDE_BAR = ".bd-sidebar-primary"
PLAIN_CODE = "document.querySelectorAll('pre').forEach(e => { e.textContent = e.textContent })"


@pytest.mark.parametrize("name", [*PLAIN, *NOTEBOOKS])
def test_a_page_has_no_serious_fault_for_anyone(visit, axe, name):
    """Also: nothing fails, and nothing comes from another host."""
    page = visit().open(name)
    page.wait_for_load_state("networkidle")
    if name in NOTEBOOKS and not any(part in name for part in WITH_CODE):
        page.evaluate(PLAIN_CODE)
    found = violations(page, axe, exclude=[SIDE_BAR] if name in NOTEBOOKS else [])
    assert not found


@pytest.mark.parametrize("name", ["index.html", NOTEBOOK, *CALCULATORS])
def test_it_is_readable_in_the_dark(visit, axe, name):
    page = visit(color_scheme="dark").open(name)
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"
    found = violations(page, axe, runOnly=["color-contrast"])
    assert not found


@pytest.mark.parametrize("name", ["index.html", NOTEBOOK, *CALCULATORS])
def test_nothing_is_wider_than_a_small_screen(visit, name):
    page = visit(viewport={"width": 1024, "height": 768}).open(name)
    assert page.evaluate("document.documentElement.scrollWidth") <= 1024


def test_answers_and_folded_cells_are_folded(visit):
    page = visit().open(NOTEBOOK)
    folded = page.locator("article details")
    assert folded.count() > 10
    assert page.locator("article details[open]").count() == 0
    answer = page.locator("details", has=page.locator("summary", has_text="Answer")).first
    code = answer.locator("pre").first
    assert not code.is_visible()
    answer.locator("summary").click()
    assert code.is_visible()
    assert page.get_by_label("Toggle hidden content").count() == 0, "their titles are their names"
    assert page.locator("article summary", has_text="Imports").count() == 1


def test_mathematics_and_figures_are_drawn(visit):
    page = visit().open(NOTEBOOK)
    page.wait_for_selector("mjx-container")
    assert not page.locator("mjx-merror").count()
    sizes = page.evaluate("[...document.querySelectorAll('article img')].map(i => i.naturalWidth)")
    assert sizes
    assert all(sizes)


def test_the_front_page_has_its_figure(visit):
    figure = visit().open("index.html").locator("article figure img")
    assert figure.get_attribute("alt").startswith("Left, the time of every sample")
    assert figure.evaluate("image => image.naturalWidth") > 0


def test_an_api_page_says_what_the_docstrings_say(visit):
    source = ast.parse((ROOT / "d2lperf" / "measuring" / "compare.py").read_text(encoding="utf-8"))
    (compare,) = [node for node in source.body if getattr(node, "name", "") == "compare"]
    documented = {
        "api/names/d2lperf.compare.html": ast.get_docstring(compare),
        "api/index.html": inspect.getdoc(costs.all_reduce_traffic),
    }
    for name, docstring in documented.items():
        first = docstring.partition("\n")[0]
        assert first in visit().open(name).locator("article").inner_text()


def test_search_finds_a_section(visit):
    page = visit().open("index.html")
    page.locator("button.search-button__button").locator("visible=true").click()
    page.keyboard.type("roofline")
    page.keyboard.press("Enter")
    page.wait_for_selector("#search-results li a")
    links = page.locator("#search-results li a")
    assert any("05b-roofline" in href for href in links.evaluate_all("a => a.map(x => x.href)"))


def test_previous_and_next_follow_the_course(visit):
    page = visit().open("notebooks/01-measuring-performance.html")
    assert "01b Comparing" in page.locator("a.right-next").inner_text()
    assert "00 Start here" in page.locator("a.left-prev").inner_text()


@pytest.mark.filterwarnings("ignore::PendingDeprecationWarning")  # of the theme, by Sphinx
@pytest.mark.parametrize(
    "address, offered",
    [("https://github.com/a/b", ["notebooks/ours"]), ("https://gitlab.com/a/b", [])],
    ids=["github", "gitlab"],
)
def test_colab_is_offered_where_it_can_run_the_notebook(
    html, tmp_path, monkeypatch, address, offered
):
    """A page of two notebooks is built with an address, warnings as errors."""
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    cell = {"cell_type": "markdown", "metadata": {}, "source": "# A notebook"}
    notebook = {"cells": [cell], "metadata": {"kernelspec": kernel}}
    content = json.dumps({**notebook, "nbformat": 4, "nbformat_minor": 4}).encode()
    names = ("notebooks/ours", "notebooks/frameworks/another")
    toctree = "\n".join(["# Page", "```{toctree}", *names, "```"]).encode()
    files = {"index.md": toctree, **{f"{name}.ipynb": content for name in names}}
    book.stage(tmp_path / "source", files)
    monkeypatch.syspath_prepend(str(ROOT / "docs"))
    monkeypatch.setitem(sys.modules, "book", book)
    monkeypatch.setattr(book, "repository", lambda: address)
    folders = [str(tmp_path / "source"), str(tmp_path / "html")]
    build = needed("sphinx.cmd.build").build_main
    assert build(["-W", "-q", "-c", str(ROOT / "docs"), *folders]) == 0
    pages = {name: (tmp_path / "html" / f"{name}.html").read_text("utf-8") for name in names}
    assert [name for name in names if "colab" in pages[name]] == offered
    for name in offered:
        link = f"https://colab.research.google.com/github/a/b/blob/main/{name}.ipynb"
        assert f'href="{link}"' in pages[name]
