"""The figures that others published: each with its source, and each printed as it stands there."""

import json
import math
import re
from datetime import date
from pathlib import Path

import nbformat
import pytest

NOTEBOOKS = Path(__file__).parents[1] / "notebooks"
SOURCES = sorted((NOTEBOOKS / "published").glob("*.json"))

SOURCE_KEYS = {"title", "authors", "address", "machine", "licence", "licence_address"}
FIGURE_KEYS = {"name", "what", "value", "unit", "card", "date", "address", "notebooks"}
UNITS = {
    *("s", "ms", "µs", "MB", "GB", "GiB", "GB/s", "TB/s", "Gbit/s", "TFLOP/s"),
    *("samples/s", "tokens/s", "billion parameters", "%", "cycles", "GHz"),
}
NOT_NAMED = "not named"  # the card of a source that does not name it


def load(path: Path) -> dict:
    return json.loads(path.read_text(encoding="utf-8"))


def course() -> dict[str, Path]:
    """The notebooks of the course by number, such as 08b."""
    return {path.name.split("-")[0]: path for path in NOTEBOOKS.glob("[0-9]*.ipynb")}


def studies() -> dict[str, Path]:
    """The studies by name, such as 10-on-one-gpu."""
    return {path.stem: path for path in (NOTEBOOKS / "deeper").glob("*.ipynb")}


def is_day_or_month(text: str) -> bool:
    day = f"{text}-01" if re.fullmatch(r"\d{4}-\d{2}", text) else text
    try:
        date.fromisoformat(day)
    except ValueError:
        return False
    return True


def problems(published: dict):
    """What is missing or wrong in a file of published figures."""
    source, figures = published["source"], published["figures"]
    if set(source) != SOURCE_KEYS or not all(source.values()):
        yield f"the source must have {sorted(SOURCE_KEYS)}"
    if not source.get("licence_address", "").startswith("https://"):
        yield "the licence has no address"
    names = [figure.get("name") for figure in figures]
    if len(set(names)) < len(names):
        yield "two figures have one name"
    for figure in figures:
        yield from (f"{figure.get('name')}: {problem}" for problem in problems_of(figure))


def problems_of(figure: dict):
    """What is missing or wrong in one figure."""
    if set(figure) != FIGURE_KEYS:
        yield f"it must have {sorted(FIGURE_KEYS)}"
        return
    if not all(figure[key] for key in FIGURE_KEYS):
        yield "something is empty"
    value = figure["value"]
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < math.inf:
        yield f"{value!r} is not a positive number"
    if figure["unit"] not in UNITS:
        yield f"the unit {figure['unit']!r} is unknown"
    if not is_day_or_month(figure["date"]):
        yield f"{figure['date']!r} is not a date"
    if not figure["address"].startswith("https://"):
        yield "it has no address"
    if unknown := set(figure["notebooks"]) - set(course() | studies()):
        yield f"there is no notebook {', '.join(sorted(unknown))}"
    if figure["card"] == NOT_NAMED and set(figure["notebooks"]) - {"00"}:
        yield "without the name of the card no model can be held against it"


def forms(value: float) -> set[str]:
    """How a number may be written."""
    return {str(value), f"{value:,}", f"{value:.2f}", f"{value:.4f}"}


def is_written(value: float, text: str) -> bool:
    ends = r"(?<![\d.,])(?:{})(?![\d]|[.,]\d)"
    return bool(re.search(ends.format("|".join(map(re.escape, forms(value)))), text))


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.stem)
def test_every_figure_has_its_source(path):
    assert list(problems(load(path))) == []


def figures() -> list[tuple[dict, str]]:
    """Each figure with the address of its source."""
    files = [load(path) for path in SOURCES]
    return [(figure, file["source"]["address"]) for file in files for figure in file["figures"]]


def text_of(name: str) -> str:
    cells = nbformat.read((course() | studies())[name], 4).cells
    return "\n".join(cell.source for cell in cells)


@pytest.mark.parametrize("name", sorted({name for f, _ in figures() for name in f["notebooks"]}))
def test_a_notebook_prints_the_figures_that_name_it(name):
    text = text_of(name)
    used = [(figure, address) for figure, address in figures() if name in figure["notebooks"]]
    missing = [figure["name"] for figure, _ in used if not is_written(figure["value"], text)]
    assert missing == [], f"these figures do not stand in notebook {name}"
    linked = [address in text or figure["address"] in text for figure, address in used]
    assert all(linked), "a source is not linked"


ON_GPUS = re.compile(r"^#+ (?:\d+\. )?On (?:a GPU|several GPUs)", re.M)


WITH_GPUS = [name for name in sorted(course()) if ON_GPUS.search(text_of(name))]


@pytest.mark.parametrize("name", WITH_GPUS)
def test_a_section_on_gpus_has_a_published_figure(name):
    assert any(name in figure["notebooks"] for figure, _ in figures())


# ------------------------------------------------------------------------------ recorded runs


@pytest.mark.parametrize(
    "path", sorted((NOTEBOOKS / "recorded").glob("*.json")), ids=lambda path: path.stem
)
def test_each_recorded_prediction_stands_in_its_notebook(path):
    """A row that its notebook no longer predicts would be shown beside another one's numbers."""
    for name, rows in load(path)["notebooks"].items():
        outputs = (NOTEBOOKS / f"{name}.ipynb").read_text(encoding="utf-8")
        for row in rows:
            assert json.dumps(row["text"], ensure_ascii=False)[1:-1] in outputs, (name, row["text"])
