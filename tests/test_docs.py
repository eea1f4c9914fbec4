"""The sources of the web page, read without building it: links, limits, and how it is made."""

import json
import re
import runpy
import sys
from pathlib import Path

import pytest

from d2lperf.datasheets import ACCELERATORS
from docs import book

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.rglob("*.md"))
SCRIPTS = sorted((DOCS / "calculators").glob("*.js"))
# TFLOP/s of 8-bit floating-point numbers, which the package's table does not have. Both stand in
# the source of the TPUs (datasheets.TPUS), which has no rate of 8-bit integers.
FLOAT8 = {"Google TPU v5p": 459, "Google TPU7x": 4614}


def links():
    for page in PAGES:
        for path, words in book.section_links(page.read_text(encoding="utf-8"), page.parent):
            yield pytest.param(path, words, id=f"{page.stem}-{path.stem}-{words}")


@pytest.mark.parametrize("path, words", list(links()))
def test_a_link_to_a_section_finds_it(path, words):
    found = book.headings(path)
    assert book.find_section(path, words), f"no heading of {path.name} has {words!r}: {found}"


def test_every_notebook_of_the_course_answers_a_question():
    text = (DOCS / "questions.md").read_text(encoding="utf-8")
    course = ROOT / "notebooks"
    for path in {*course.glob("*.ipynb")} - {*course.glob("00-*")}:
        assert path.name in text, "give it a line in docs/questions.md"


def test_a_lost_section_leads_to_the_top_and_a_lost_notebook_is_named(tmp_path):
    cells = [{"cell_type": "markdown", "source": "# T\n\n## 1. Here\n\n```\n## not one\n```"}]
    (tmp_path / "00-a.ipynb").write_text(json.dumps({"cells": cells}))
    assert book.headings(tmp_path / "00-a.ipynb") == ["1. Here"]
    text = '[x](00-a.ipynb "here") [y](00-a.ipynb "elsewhere")'
    assert book.with_sections(text, tmp_path) == "[x](00-a.ipynb#1-here) [y](00-a.ipynb)"
    with pytest.raises(book.BookError, match=r"01-b\.ipynb"):
        book.with_sections('[z](01-b.ipynb "here")', tmp_path)


def test_the_page_loads_nothing_from_another_host():
    for path in [*PAGES, *SCRIPTS, *(DOCS / "static").iterdir()]:
        text = path.read_text(encoding="utf-8")
        assert not re.search(r"(src|@import|url\()\s*[=(]?\s*[\"']?(https?:)?//", text), path


def test_data_sheets_are_those_of_the_package():
    """The page is built without torch, so it has a copy of the table."""
    sheets = json.loads((DOCS / "accelerators.json").read_text(encoding="utf-8"))
    assert {sheet["name"] for sheet in sheets} == set(ACCELERATORS)
    for sheet in sheets:
        wanted = ACCELERATORS[sheet["name"]]
        assert sheet["year"] == wanted.year
        assert sheet["source"] == wanted.source
        assert sheet["memory"] in (wanted.memory_gb * 1e9, wanted.memory_gb * 2**30)  # TPUs: GiB
        assert sheet["bytes_per_s"] == wanted.bandwidth_gb_s * 1e9
        assert sheet["flops_16"] == (wanted.bfloat16 or wanted.float16) * 1e12
        assert sheet["flops_8"] == (wanted.int8 or FLOAT8[sheet["name"]]) * 1e12


def test_each_script_of_the_calculators_is_short():
    for path in SCRIPTS:
        assert len(path.read_text(encoding="utf-8").splitlines()) <= 150, path.name


@pytest.mark.parametrize(
    "address, wanted",
    [
        ("", ""),
        ("https://github.com/a/b", "https://github.com/a/b"),
        ("https://gitlab.com/a/b", ""),
        ("https://github.example.org/a/b", ""),
    ],
)
def test_settings_have_launch_links_for_an_address_on_github(monkeypatch, address, wanted):
    monkeypatch.syspath_prepend(str(DOCS))
    monkeypatch.setitem(sys.modules, "book", book)
    monkeypatch.setattr(book, "repository", lambda: address)
    options = runpy.run_path(str(DOCS / "conf.py"))["html_theme_options"]
    assert options.get("repository_url", "") == wanted
    assert ("launch_buttons" in options) == bool(wanted)


def test_without_sphinx_it_is_said_what_to_do(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "sphinx.cmd.build", None)
    monkeypatch.setattr(sys, "argv", ["book.py"])
    assert book.main() == 2
    assert "make book" in capsys.readouterr().err


@pytest.mark.parametrize(
    "urls, variables, wanted",
    [
        ({}, {}, ""),
        ({"Repository": "https://example.org/a/b.git"}, {}, "https://example.org/a/b"),
        ({}, {"GITHUB_REPOSITORY": "a/b", "GITHUB_SERVER_URL": "https://g"}, "https://g/a/b"),
    ],
)
def test_launch_links_only_where_the_address_is_known(monkeypatch, urls, variables, wanted):
    monkeypatch.delenv("GITHUB_REPOSITORY", raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(book, "project", lambda: {"urls": urls})
    assert book.repository() == wanted
