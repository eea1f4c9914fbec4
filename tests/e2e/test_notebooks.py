"""Each notebook, opened and run in JupyterLab as a reader does it."""

import json
import os
import re
from pathlib import Path

import pytest
from e2e import jupyter

ROOT = Path(__file__).parents[2]
PICTURES = ROOT / "build" / "e2e"
FOLDERS = ("", "deeper/", "frameworks/")
NAMES = [
    f"{folder}{path.stem}"
    for folder in FOLDERS
    for path in sorted((ROOT / "notebooks" / folder).glob("*.ipynb"))
]
WANTED = tuple(os.environ.get("D2LPERF_NN", "").split())
FIRST = "00-start-here"
RUN_ALL = ("Control+a", "Control+Enter")


@pytest.fixture(scope="module")
def url(folder, tmp_path_factory):
    with jupyter.serve(folder, tmp_path_factory.mktemp("home")) as (url, _):
        yield url


@pytest.fixture
def notebook(tab, url):
    """Opens a notebook by its name; its kernel ends with the test."""
    opened = []

    def make(name):
        opened.append(jupyter.Notebook(tab, url.format(f"{name}.ipynb")))
        return opened[-1]

    yield make
    for one in opened:
        one.end()


def stored(name):
    text = (ROOT / "notebooks" / f"{name}.ipynb").read_text(encoding="utf-8")
    return json.loads(text)


def count(cells, kind):
    """How many stored outputs have this kind of data."""
    outputs = [o for cell in cells for o in cell.get("outputs", [])]
    return sum(kind in o.get("data", {}) for o in outputs)


def exercise(cells):
    """The first exercise: where its stub and its check are, and the code of its answer."""
    parts = {}
    for index, cell in enumerate(cells):
        for tag in cell["metadata"].get("tags", []):
            found = re.fullmatch(r"exercise:(\w+):(stub|check|answer)", tag)
            if found and len(parts) < 3:
                parts[found[2]] = index
    if not parts:
        return None
    answer = "".join(cells[parts["answer"]]["source"])
    code = re.search(r"^```python\n(.*?)^```", answer, re.M | re.S)[1]
    return parts["stub"], parts["check"], code


@pytest.mark.parametrize("name", [n for n in NAMES if not WANTED or n.startswith(WANTED)])
def test_a_notebook(notebook, name, said):
    if found := re.fullmatch(r"frameworks/02-(\w+)", name):
        program = f"from notebooks import kernels; print(kernels.why_skipped('{found[1]}'))"
        if reason := said(program):
            pytest.skip(reason)
    cells = stored(name)["cells"]
    code = [cell for cell in cells if cell["cell_type"] == "code"]
    opened = notebook(name)
    assert not opened.is_changed, "opening it marks it as changed"
    opened.look(width=1280)  # JupyterLab keeps the theme of the notebook before
    assert opened.unseen() == []

    opened.run(*RUN_ALL)
    assert opened.errors() == []
    assert opened.counts() == list(range(1, len(code) + 1))
    assert opened.is_changed, "the mark is looked for where it is not"
    assert opened.number(".jp-OutputArea-output img") == count(code, "image/png")
    assert opened.number(".jp-RenderedHTML") == count(code, "text/html")
    assert "HBox(" not in opened.text(), "a progress bar is not drawn"
    opened.page.wait_for_selector(".widget-hprogress", state="detached")
    assert opened.unseen() == []
    opened.picture(PICTURES / f"{name}-light.png")
    opened.look(width=1024, dark=True)
    assert opened.unseen() == []
    opened.picture(PICTURES / f"{name}-dark.png")

    if found := exercise(cells):
        stub, check, answer = found
        assert "not attempted" in opened.output(check)
        opened.write(stub, answer)
        for index in (stub, check):
            opened.select(index)
            opened.run("Control+Enter")
        assert "passed" in opened.output(check)


def test_restart_by_the_keyboard(notebook):
    opened = notebook(FIRST)
    for expected in (1, 2):
        opened.select(1)
        opened.run("Control+Enter")
        assert opened.counts()[0] == expected
    opened.press("0", "0")
    opened.page.wait_for_selector(".jp-Dialog")
    opened.page.keyboard.press("Enter")
    opened.page.wait_for_selector(".jp-Dialog", state="detached")
    opened.ready()
    opened.select(1)
    opened.run("Control+Enter")
    assert opened.counts()[0] == 1


SLOW = """\
import time
from d2lperf import compare

both = {name: lambda: time.sleep(1e-3) for name in "ab"}
result = compare(both, check=False, budget_s=3, progress=True)"""


def test_a_progress_bar_comes_and_goes(notebook):
    opened = notebook(FIRST)
    opened.write(1, SLOW)
    opened.run("Control+Enter")
    assert opened.errors() == []
    assert opened.see("bars") == 1
    opened.page.wait_for_selector(".widget-hprogress", state="detached")


PAGE = """\
<body style="background: #111; color: #eee"><div class="jp-Notebook"><div class="jp-Cell">
<div class="jp-OutputArea-output" style="width: 300px; overflow: auto">{}</div></div></div>"""
PIXEL = (  # one, half transparent
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M/QAAADhQGAlB/U7QAAAABJRU5ErkJg"
    "gg=="
)


@pytest.mark.parametrize(
    "html, told",
    [
        ("<p>text</p>", None),
        ("<p style='color: #444'>text</p>", "pale, contrast 1.9: text"),
        ("<table style='width: 400px'><td>text</td></table>", "pixels wide, in"),
        ("<div style='overflow: auto; width: 9px'><pre>long text</pre></div>", None),
        ("<div style='overflow: hidden; width: 9px'><pre>long text</pre></div>", "cut: long text"),
        ("<div style='overflow: hidden; height: 9px'>high text</div>", "cut: high text"),
        ("<p style='margin-left: -9px'>text</p>", "cut: text"),
        ("<img src='lost.png'>", "an image is not drawn"),
        (f"<img src='data:image/png;base64,{PIXEL}'>", "an image is transparent"),
    ],
)
def test_the_checks_find_what_a_reader_cannot_see(tab, html, told):
    tab.add_init_script(jupyter.CHECKS)
    tab.goto("about:blank")
    tab.set_content(PAGE.format(html))
    found = tab.evaluate("unseen()")
    assert (len(found) == 0) if told is None else any(told in one for one in found), found
