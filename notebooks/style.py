"""Style of the notebooks: their length, their prose, and how plain their code is.

`python -m notebooks.style` prints what is not as it should be; `make lint` runs it. What must be
right, such as stored outputs, is a test: tests/test_notebooks.py. A rule is a function of a
notebook and its name ("01-measuring", "deeper/guards") that yields its problems.
"""

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import nbformat
from IPython.core.inputtransformer2 import TransformerManager

from notebooks import build

FOLDER = Path(__file__).parent

# Words of prose (exercises included) and visible lines of code, by the beginning of the name.
LIMITS = {"00": (900, 120), "deeper/": (1500, 350), "frameworks/": (1200, 350), "": (3000, 350)}
MOST_CELLS, MOST_FIGURES, MOST_LINES_A_CELL, MOST_PREDICTIONS = 50, 7, 15, 3
MOST_WORDS_PRINTED = 8
# Names with an underscore that are documented.
DOCUMENTED = (
    *("torch._dynamo.explain", "torch._dynamo.reset", "torch._dynamo.config"),
    *("torch._dynamo.graph_break", "torch._dynamo.mark_dynamic"),
    *("torch._logging.set_logs", "torch._foreach_", "torch._assert", "torch._check"),
    *("torch._inductor.aoti_compile_and_package", "torch._inductor.aoti_load_package"),
    *("torch._scaled_mm", "torch._higher_order_ops", "sys._getframe"),
)
PUBLIC_ALL_THE_SAME = {"_asdict", "_replace", "_fields", "_make"}  # of named tuples
TIMING = re.compile(
    r"\b\d+(?:[.,]\d+)?\s*(?:×(?!\s*\d)|x (?:as )?(?:fast|slow)|times (?:as )?(?:fast|slow)"
    r"|(?:ns|ms|µs|μs|us|sec|seconds?)\b)"
)
# A speed without a number, which not even a source makes true of the reader's machine.
VAGUE_TIMING = re.compile(
    r"\b(?:nano|micro|milli)seconds\b"
    r"|\b(?:takes?|took|needs?|lasts?) (?:(?:just|only|some|several|many|a few) )?"
    r"(?:seconds|minutes|hours)\b"
    r"|\b(?:question|matter) of (?:seconds|minutes|hours)\b"
    r"|\b(?:seconds|minutes|hours) (?:for|per) (?:an?|each|every|one)\b",
    re.I,
)
FALLBACKS = ("os.name", "sys.platform", "platform.system")
SENTENCE = re.compile(r"\w+\W+\w+.*[.:!?]", re.S)
IMAGE = re.compile(r"!\[([^\]]*)\]\(([^)\s]+)\)|<img\b([^>]*)>")


# --------------------------------------------------------------------------- small helpers


def tags(cell):
    """The tags of a cell."""
    return build.tags(cell)


def cells_of(notebook, kind, course=False):
    """(index, cell) of every cell of a kind; with `course` only of those before the exercises."""
    for i, cell in enumerate(notebook.cells):
        if course and cell.cell_type == "markdown" and re.search(r"(?m)^## Exercises", cell.source):
            return
        if cell.cell_type == kind and "badge" not in tags(cell):
            yield i, cell


def code_cells(notebook, course=False):
    """(index, cell) of the code cells."""
    return list(cells_of(notebook, "code", course))


def markdown_cells(notebook, course=False):
    """(index, cell) of the cells of text."""
    return list(cells_of(notebook, "markdown", course))


def visible(notebook):
    """(index, cell) of the code cells before the exercises that are not folded."""
    return [(i, c) for i, c in code_cells(notebook, True) if "hide-input" not in tags(c)]


def lines(source):
    """How many lines are not empty."""
    return sum(bool(line.strip()) for line in source.splitlines())


def has_figure(cell):
    """Whether an output of a cell is a figure."""
    return any(m.startswith("image/") for o in cell.outputs for m in o.get("data", {}))


def tree(cell):
    """The syntax tree of a code cell, its magics made calls and the first line of %%magic gone."""
    source = re.sub(r"\A%%.*\n?", "", cell.source)
    return ast.parse(TransformerManager().transform_cell(source))


def nodes(cell, *kinds):
    """The nodes of these kinds in a code cell."""
    return [node for node in ast.walk(tree(cell)) if isinstance(node, kinds)]


def called(call):
    """The last word of what is called: `a.b.predict(...)` -> "predict"."""
    return ast.unparse(call.func).rpartition(".")[2]


def prose(source, tables=False):
    """Markdown without fences and, unless asked for, tables that cite their source."""
    source = re.sub(r"```.*?```", "", source, flags=re.S)
    if "](http" in source and not tables:
        source = re.sub(r"(?m)^\|.*$", "", source)
    return source


def headings(notebook):
    """(level, text) of every heading, fences left out."""
    for _, cell in markdown_cells(notebook):
        source = re.sub(r"```.*?```", "", cell.source, flags=re.S)
        for marks, text in re.findall(r"^(#{1,6}) +(.+?)\s*$", source, flags=re.M):
            yield len(marks), text


# ---------------------------------------------------------------------------------- rules


def is_short(notebook, name):
    """Words, and before the exercises visible lines, code cells and all figures, are limited."""
    most = next(limit for start, limit in LIMITS.items() if name.startswith(start))
    said = [re.sub(r"\((attachment|https?:)[^)]*\)", "", c.source)
            for _, c in markdown_cells(notebook, True)]  # fmt: skip
    # The exercises' tasks are read, too. Hints and answers are folded.
    whole = [re.sub(r"<details>.*?</details>", "", c.source, flags=re.S)
             for _, c in markdown_cells(notebook)]  # fmt: skip
    drawings = sum(len(IMAGE.findall(c.source)) for _, c in markdown_cells(notebook, True))
    drawn = sum(has_figure(c) for _, c in code_cells(notebook, True))
    counts = {
        "words of prose": (sum(len(text.split()) for text in said), most[0]),
        "words with the exercises": (
            sum(len(prose(text, True).split()) for text in whole),
            most[0],
        ),
        "visible lines of code": (sum(lines(c.source) for _, c in visible(notebook)), most[1]),
        "code cells": (len(code_cells(notebook, True)), MOST_CELLS),
        "figures": (drawn + drawings, MOST_FIGURES),
    }
    for what, (count, limit) in counts.items():
        if count > limit:
            yield f"{count} {what}, at most {limit}"


def visible_cells_are_short(notebook, name):
    """At most 15 lines in a visible cell."""
    for i, cell in visible(notebook):
        if lines(cell.source) > MOST_LINES_A_CELL:
            yield f"cell {i}: {lines(cell.source)} lines, at most {MOST_LINES_A_CELL}"


def folded_cells_are_folded(notebook, name):
    """Folded in JupyterLab (source_hidden), in Colab (cellView) and marked (hide-input), or not."""
    for i, cell in enumerate(notebook.cells):
        marks = {
            "the tag hide-input": "hide-input" in tags(cell),
            "metadata jupyter.source_hidden": bool(
                cell.metadata.get("jupyter", {}).get("source_hidden")
            ),
            "metadata cellView: form": cell.metadata.get("cellView") == "form",
            "a first line '#@title ...'": cell.source.startswith("#@title "),
        }
        absent = [mark for mark, there in marks.items() if not there]
        if 0 < len(absent) < len(marks):
            yield f"cell {i}: folded in part; it lacks {' and '.join(absent)}"


def imports_stand_in_one_cell(notebook, name):
    """One folded cell imports; the plain recipe in the first section has its own."""
    found = {"folded": [], "visible": []}
    sections = 0
    for i, cell in enumerate(notebook.cells):
        if cell.cell_type == "markdown":
            sections += len(re.findall(r"(?m)^## ", prose(cell.source)))
            continue
        if cell.cell_type != "code" or "setup" in tags(cell):
            continue
        if any(isinstance(node, (ast.Import, ast.ImportFrom)) for node in tree(cell).body):
            found["folded" if "hide-input" in tags(cell) else "visible"].append((i, sections))
    if len(found["folded"]) > 1:
        yield f"imports in several folded cells: {[i for i, _ in found['folded']]}"
    for i, section in found["visible"]:
        if section > 1:
            yield f"cell {i}: imports after the first section; put them into the folded cell"


def code_writes_no_prose(notebook, name):
    """Results show themselves: no Markdown(...) or HTML(...), no print of a sentence."""
    for i, cell in code_cells(notebook):
        for call in nodes(cell, ast.Call):
            if called(call) in ("Markdown", "HTML", "display_markdown", "display_html"):
                yield f"cell {i}: {called(call)}(...) writes prose"
            if called(call) in ("print", "write"):
                parts = [n.value for n in ast.walk(call) if isinstance(n, ast.Constant)]
                said = " ".join(part for part in parts if isinstance(part, str))
                words = len(re.findall(r"[A-Za-z]{2,}", said))
                if words > MOST_WORDS_PRINTED:
                    yield f"cell {i}: prints {words} words, at most {MOST_WORDS_PRINTED}: {said!r}"


def code_is_plain(notebook, name):
    """No walrus, no lambda with a default, no noqa, no environment of tests, no fallbacks."""
    for i, cell in code_cells(notebook):
        if "setup" in tags(cell):
            continue
        if re.search(r"#\s*noqa", cell.source):
            yield f"cell {i}: noqa"
        if "D2LPERF_" in cell.source:
            yield f"cell {i}: an environment variable of d2lperf"
        if nodes(cell, ast.NamedExpr):
            yield f"cell {i}: a walrus"
        if any(node.args.defaults or node.args.kw_defaults for node in nodes(cell, ast.Lambda)):
            yield f"cell {i}: a lambda with a default argument"
        used = {ast.unparse(node) for node in nodes(cell, ast.Attribute)}
        if "hide-input" not in tags(cell) and used & set(FALLBACKS):
            yield f"cell {i}: a fallback for a platform belongs in the package"


def dotted(cell):
    """Every dotted name that a cell uses or imports: "torch._C._cuda_init", "self._jobs.put"."""
    attributes = nodes(cell, ast.Attribute)
    inner = {id(node.value) for node in attributes}
    for node in (node for node in attributes if id(node) not in inner):
        text = ""
        while isinstance(node, ast.Attribute):
            text, node = f".{node.attr}{text}", node.value
        yield getattr(node, "id", "") + text
    for node in nodes(cell, ast.Import, ast.ImportFrom):
        module = f"{node.module}." if isinstance(node, ast.ImportFrom) else ""
        yield from (module + alias.name for alias in node.names)


def no_private_names(notebook, name):
    """Nothing with a leading underscore but what is documented, or has no public way."""
    for i, cell in code_cells(notebook):
        for text in dotted(cell):
            used = re.sub(r"^(self|cls)\._", "", text)
            private = set(re.findall(r"(?<=\.)_(?!_)\w*", used)) - PUBLIC_ALL_THE_SAME
            if private and not text.startswith(DOCUMENTED):
                yield f"cell {i}: {text} is private"


def few_predictions_a_section(notebook, name):
    """At most three predictions a section."""
    section, count = "", 0
    for i, cell in enumerate(notebook.cells):
        title = re.search(r"(?m)^## (.+)", cell.source)
        if cell.cell_type == "markdown" and title:
            section, count = title[1], 0
        if cell.cell_type == "code":
            count += sum(called(call) == "predict" for call in nodes(cell, ast.Call))
            if count > MOST_PREDICTIONS:
                yield f"cell {i}: more than {MOST_PREDICTIONS} predictions in {section!r}"
                return


def begins_with_title_and_question(notebook, name):
    """H1 first and only there; then what it answers, and how many minutes it takes."""
    first = notebook.cells[0]
    if first.cell_type != "markdown" or not first.source.startswith("# "):
        yield "the first cell must be markdown that begins with a title ('# ...')"
    elif not SENTENCE.search(first.source.partition("\n")[2]):
        yield "no sentence under the title says what the notebook answers"
    elif not re.search(r"\bminutes?\b", first.source):
        yield "the first cell does not say how many minutes the notebook takes"
    if sum(level == 1 for level, _ in headings(notebook)) != 1:
        yield "there must be exactly one heading of the first level"


def no_literal_timing(notebook, name):
    """No time or speed-up in words, unless it is published elsewhere: then it is cited."""
    for i, cell in markdown_cells(notebook):
        if "published" in tags(cell):
            if "](http" not in cell.source:
                yield f"cell {i}: tagged published, but it links to no source"
            continue
        hit = TIMING.search(prose(cell.source))
        hit = hit or VAGUE_TIMING.search(" ".join(prose(cell.source, tables=True).split()))
        if hit:
            yield f"cell {i}: a literal time or speed-up in prose ({hit.group(0)!r})"


def figures_are_described(notebook, name):
    """A caption in Markdown follows each figure."""
    for i, cell in code_cells(notebook):
        following = notebook.cells[i + 1] if i + 1 < len(notebook.cells) else None
        said = following is not None and following.cell_type == "markdown"
        said = said and not following.source.startswith("#") and SENTENCE.search(following.source)
        if has_figure(cell) and not said:
            yield f"cell {i}: no sentence after the figure says what it shows"


def drawings_have_words(notebook, name):
    """Each drawing has alternative text and is embedded in the notebook."""
    for i, cell in markdown_cells(notebook):
        for alt, target, html in IMAGE.findall(cell.source):
            if html:
                alt = " ".join(re.findall(r"alt=[\"']([^\"']*)", html))
            if len(alt.split()) < 3:
                yield f"cell {i}: a drawing without alternative text"
            kind, _, file = target.partition("attachment:")
            if not kind and file not in cell.get("attachments", {}):
                yield f"cell {i}: {file} is not embedded: run python notebooks/build.py --stamp"


def ends_with_summary_and_exercises(notebook, name):
    """Every notebook of the course but the map."""
    if name.startswith("00") or "/" in name:
        return
    sections = [text for level, text in headings(notebook) if level == 2]
    if sections[-2:] != ["Summary", "Exercises"]:
        yield f"the last two sections must be Summary and Exercises; found {sections[-2:]}"
    if not any(t.endswith(":stub") for c in notebook.cells for t in tags(c)):
        yield "no cell is tagged as the stub of an exercise"


RULES = [
    is_short,
    visible_cells_are_short,
    folded_cells_are_folded,
    imports_stand_in_one_cell,
    code_writes_no_prose,
    code_is_plain,
    no_private_names,
    few_predictions_a_section,
    begins_with_title_and_question,
    no_literal_timing,
    figures_are_described,
    drawings_have_words,
    ends_with_summary_and_exercises,
]


def name_of(path: Path) -> str:
    """`notebooks/deeper/guards.ipynb` -> "deeper/guards"."""
    return path.relative_to(FOLDER).with_suffix("").as_posix()


def problems(path: Path) -> Iterator[str]:
    """What the rules find in a file."""
    notebook = nbformat.read(path, as_version=4)
    for rule in RULES:
        for problem in rule(notebook, name_of(path)):
            yield f"notebooks/{name_of(path)}.ipynb: {problem} ({rule.__doc__})"


def main() -> int:
    """Print the problems of all notebooks; 1 if there are any."""
    found = [problem for path in build.find([]) for problem in problems(path)]
    print("\n".join(found) if found else "All notebooks keep to the style.")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
