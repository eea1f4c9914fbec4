"""Build the web page: `python docs/book.py` writes build/book/html (`make book` calls it).

Sphinx reads a copy: this folder's pages and the notebooks with their stored outputs, under the same
relative paths as in the repository. Nothing is executed and nothing is loaded from a network.
"""

from __future__ import annotations

import ast
import json
import os
import re
import shutil
import sys
import time
from pathlib import Path

try:
    import tomllib
except ImportError:  # Python 3.10
    # `make book` runs this before anything is installed. Where tests run, pytest brings tomli, and
    # pip stays out: importing it switches setuptools' distutils off, which torch's extensions need.
    try:
        import tomli as tomllib
    except ImportError:
        from pip._vendor import tomli as tomllib

DOCS = Path(__file__).resolve().parent
ROOT = DOCS.parent
BUILD = ROOT / "build" / "book"
FOLDERS = ("notebooks", "notebooks/deeper", "notebooks/frameworks")
# A link to a notebook with a title goes to the section whose heading has these words.
SECTION_LINK = re.compile(r'\]\((?P<path>[\w./-]+\.ipynb) "(?P<words>[^"]+)"\)')
HEADING = re.compile(r"(?m)^#{2,3} +(.+?) *$")
ATTACHMENT = re.compile(r"\]\(attachment:([\w.-]+\.png)\)")
FENCED = re.compile(r"(?ms)^```.*?^```")
NAMES = re.compile(r" {4}(\w+(?:, \w+)*) {2,}")  # a line of the package's docstring
TITLE = re.compile(r"#@title +(.+)")


class BookError(Exception):
    """The page cannot be built; the message says which file, what is wrong and what to do."""


# ------------------------------------------------------------------------------- sections


def headings(path: Path) -> list[str]:
    """Return the headings of a notebook below its title, of levels 2 and 3, in order."""
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    texts = ["".join(c["source"]) for c in cells if c["cell_type"] == "markdown"]
    return [found for text in texts for found in HEADING.findall(FENCED.sub("", text))]


def slug(heading: str) -> str:
    """Return the anchor that MyST gives to a heading.

    >>> slug("7. The roofline")
    '7-the-roofline'
    """
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")


def find_section(path: Path, words: str) -> str:
    """Return the anchor of the first heading with these words, "" where no heading has them."""
    found = (heading for heading in headings(path) if words.lower() in heading.lower())
    return slug(next(found, ""))


def section_links(text: str, folder: Path) -> list[tuple[Path, str]]:
    """Return notebook and words of each link to a section in a page that lies in this folder."""
    return [
        ((folder / match["path"]).resolve(), match["words"])
        for match in SECTION_LINK.finditer(text)
    ]


def with_sections(text: str, folder: Path) -> str:
    """Return a page with its links to sections as MyST reads them.

    A link leads to the top of the notebook where no heading has the words, so that a rewritten
    notebook does not stop the build; a test reports it.

    Raises:
        BookError: there is no such notebook.
    """

    def replace(match: re.Match) -> str:
        path = (folder / match["path"]).resolve()
        if not path.is_file():
            raise BookError(f"a page links to {match['path']}, which does not exist")
        anchor = find_section(path, match["words"])
        return f"]({match['path']}{'#' + anchor if anchor else ''})"

    return SECTION_LINK.sub(replace, text)


# ----------------------------------------------------------------------------- repository


def project() -> dict:
    """Return the table `project` of pyproject.toml."""
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def repository() -> str:
    """Return the address of the repository, "" where it is not known.

    It stands once in pyproject.toml, as the project's URL "Repository". On GitHub, a fork that has
    not written its own address there is known by the variables of its workflow.
    """
    address = project().get("urls", {}).get("Repository", "")
    if not address and os.environ.get("GITHUB_REPOSITORY"):
        address = f"{os.environ['GITHUB_SERVER_URL']}/{os.environ['GITHUB_REPOSITORY']}"
    return address.removesuffix(".git")


# -------------------------------------------------------------------------------- copying


def numbered(notebook: dict, number: str) -> dict:
    """Put the notebook's number before its title: the course refers to notebooks by number."""
    for cell in notebook["cells"]:
        text = "".join(cell["source"])
        if cell["cell_type"] == "markdown" and text.startswith("# "):
            cell["source"] = f"# {number} {text[2:]}"
            break
    return notebook


def prompted(notebook: dict) -> dict:
    """Name the folded cells: the line that unfolds a cell shows the cell's `#@title`."""
    for cell in notebook["cells"]:
        title = TITLE.match("".join(cell["source"]))
        if title and "hide-input" in cell["metadata"].get("tags", []):
            prompts = {"code_prompt_show": title[1], "code_prompt_hide": title[1]}
            cell["metadata"]["mystnb"] = prompts
    return notebook


def groups(docstring: str) -> dict[str, list[str]]:
    r"""Return the names that the package's docstring lists, by group.

    >>> groups("What.\n\nTime code\n    Timer, measure    tell the time")
    {'Time code': ['Timer', 'measure']}
    """
    found: dict[str, list[str]] = {}
    group = ""
    for line in docstring.splitlines():
        listed = NAMES.match(line)
        if listed:
            found.setdefault(group, []).extend(listed[1].split(", "))
        elif line.strip():
            group = line
    return found


def drawn(notebook: dict, folder: str) -> set[str]:
    """Let a notebook show its drawings as files, SVG where there is one; return their names."""
    names: set[str] = set()
    for cell in notebook["cells"]:
        text = "".join(cell["source"])
        for png in ATTACHMENT.findall(text) if cell["cell_type"] == "markdown" else ():
            svg = png.replace(".png", ".svg")
            name = svg if (ROOT / "notebooks" / "figures" / svg).is_file() else png
            up = "../" * folder.count("/")
            text = text.replace(f"attachment:{png}", f"{up}figures/{name}")
            names.add(name)
            cell["source"] = text
            cell.pop("attachments", None)
    return names


def api_page() -> str:
    """Return the page of the package: its names in groups, each with a page from its docstring."""
    source = (ROOT / "d2lperf" / "__init__.py").read_text(encoding="utf-8")
    page = ["# The package", "", "Everything here is imported from `d2lperf`.", ""]
    for group, names in groups(ast.get_docstring(ast.parse(source))).items():
        page += [f"## {group}", "", "```{eval-rst}", ".. currentmodule:: d2lperf", ""]
        page += [".. autosummary::", "   :toctree: names", "   :nosignatures:", ""]
        page += [*(f"   {name}" for name in names), "```", ""]
    page += ["## Formulas of the calculators", "", "```{eval-rst}"]
    page += [".. automodule:: d2lperf.costs", "   :members:", "```", ""]
    return "\n".join(page)


def sources() -> dict[str, bytes]:
    """Return what Sphinx reads: path -> content."""
    files: dict[str, bytes] = {"README.md": (ROOT / "README.md").read_bytes()}
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).glob("*.ipynb")):
            notebook = prompted(json.loads(path.read_text(encoding="utf-8")))
            numbered(notebook, path.name.partition("-")[0])
            for name in drawn(notebook, folder):
                drawing = ROOT / "notebooks" / "figures" / name
                files[f"notebooks/figures/{name}"] = drawing.read_bytes()
            files[f"{folder}/{path.name}"] = json.dumps(notebook, ensure_ascii=False).encode()
    for path in sorted((ROOT / "notebooks").glob("train_*.py")):  # notebooks link to them
        files[f"notebooks/{path.name}"] = path.read_bytes()
    for path in sorted(DOCS.rglob("*.md")):
        text = with_sections(path.read_text(encoding="utf-8"), path.parent)
        # Links lead where they lead in the repository; the pages of this folder move up by one.
        text = text.replace("../notebooks/", "notebooks/").replace("../README.md", "index.md")
        files[path.relative_to(DOCS).as_posix()] = text.encode()
    files["api/index.md"] = api_page().encode()
    return files


def served_files() -> dict[str, bytes]:
    """Return what the page serves as it is: style, calculators, and their table of data sheets."""
    scripts = sorted((DOCS / "calculators").glob("*.js"))
    found = {path.name: path.read_bytes() for path in (*scripts, *(DOCS / "static").iterdir())}
    table = (DOCS / "accelerators.json").read_text(encoding="utf-8")
    text = f"window.d2lperf = window.d2lperf || {{}};\nd2lperf.accelerators = {table}"
    return {**found, "accelerators.js": text.encode()}


def stage(folder: Path, files: dict[str, bytes]) -> None:
    """Bring a copy up to date; what has not changed keeps its time, so Sphinx reads it once."""
    for path in [p for p in folder.rglob("*") if p.is_file()]:
        name = path.relative_to(folder).as_posix()
        if name not in files and not name.startswith("api/names/"):
            path.unlink()
    for name, content in files.items():
        path = folder / name
        if path.is_file() and path.read_bytes() == content:
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


def main() -> int:
    """Build the page, warnings as errors; return the exit status of Sphinx.

    `--requirements` prints what the page needs instead, for pip.
    """
    if "--requirements" in sys.argv:
        print(*project()["optional-dependencies"]["book"], sep="\n")
        return 0
    try:
        from sphinx.cmd.build import build_main
    except ModuleNotFoundError:
        print(
            "The page needs Sphinx and its themes: `make book` installs them into .venv-book, "
            "`python -m pip install -e '.[book]'` into this environment.",
            file=sys.stderr,
        )
        return 2
    sys.path.insert(0, str(ROOT))  # conf.py imports the package
    began = time.monotonic()
    stage(BUILD / "source", sources())
    stage(BUILD / "static", served_files())
    options = ["-W", "--keep-going", "-q", "-j", "2", "-b", "html", "-c", str(DOCS)]
    folders = [BUILD / "source", BUILD / "html"]
    status = build_main([*options, "-d", str(BUILD / "doctrees"), *map(str, folders)])
    if status != 0:
        # Pages that have not changed would be taken for good the next time, without their warnings.
        shutil.rmtree(BUILD / "doctrees", ignore_errors=True)
    else:
        print(f"{BUILD / 'html' / 'index.html'} ({time.monotonic() - began:.0f} s)")
    return status


if __name__ == "__main__":
    sys.exit(main())
