"""Static rules for every notebook, and the proof that the suite notices a notebook tampered with.

A rule is a function of a notebook that yields its problems. Each has at least one bad notebook in
memory, below, that it must catch; a good one must pass all of them.
"""

import ast
import copy
import json
import os
import re
import shutil
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import nbformat
import pytest
from IPython.core.inputtransformer2 import TransformerManager

from notebooks import build

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "notebooks"
MAX_LINES = 25
IGNORE = "nbval-ignore-output"
TAGS = re.compile(
    rf"setup|{IGNORE}|raises-exception|exercise:setup|exercise:[\w-]+:(stub|check|answer)"
)
MACHINE_PATH = re.compile(
    r"/(?:root|home|work|tmp|Users|opt|mnt|srv|content|var/folders)/[\w./-]+|\b[A-Z]:\\\\?\w+\\"
)
TIMING = re.compile(
    r"\b\d+(?:[.,]\d+)?\s*(?:×(?!\s*\d)|x (?:as )?(?:fast|slow)|times (?:as )?(?:fast|slow)"
    r"|(?:ns|ms|µs|μs|us|sec|seconds?)\b)"
)
# A speed without a number is one all the same, and no source in a table makes it this machine's.
VAGUE_TIMING = re.compile(
    r"\b(?:nano|micro|milli)seconds\b"
    r"|\b(?:takes?|took|needs?|lasts?) (?:(?:just|only|some|several|many|a few) )?"
    r"(?:seconds|minutes|hours)\b"
    r"|\b(?:question|matter) of (?:seconds|minutes|hours)\b"
    r"|\b(?:seconds|minutes|hours) (?:for|per) (?:an?|each|every|one)\b",
    re.I,
)
SHELL = ("os.system", "os.popen", "get_ipython().system", "get_ipython().getoutput")
SENTENCE = re.compile(r"\w+\W+\w+.*[.:!?]", re.S)


# --------------------------------------------------------------------------- small helpers


def code_cells(notebook):
    """(index, cell) of every code cell."""
    return [(i, c) for i, c in enumerate(notebook.cells) if c.cell_type == "code"]


def markdown_cells(notebook):
    """(index, cell) of every markdown cell."""
    return [(i, c) for i, c in enumerate(notebook.cells) if c.cell_type == "markdown"]


def tags(cell):
    """The tags of a cell."""
    return build.tags(cell)


def texts(cell):
    """Every piece of text in the outputs of a code cell."""
    for output in cell.outputs:
        if output.output_type == "stream":
            yield output.text
        elif output.output_type == "error":
            yield "\n".join([output.evalue, *output.traceback])
        else:
            for mime, data in output.data.items():
                if not mime.startswith("image/") or mime == "image/svg+xml":
                    yield data if isinstance(data, str) else json.dumps(data)


def tree(cell):
    """The syntax tree of a code cell, its magics made calls and the first line of %%magic gone."""
    source = re.sub(r"\A%%.*\n?", "", cell.source)
    return ast.parse(TransformerManager().transform_cell(source))


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


# ----------------------------------------------------------------------------------- rules


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


def setup_is_stamped(notebook, name):
    """The first code cell is the set-up cell as notebooks/build.py writes it."""
    found = [i for i, c in code_cells(notebook) if "setup" in tags(c)]
    first = code_cells(notebook)[0][0] if code_cells(notebook) else None
    if found != [first]:
        yield f"the first code cell, and no other, has the tag 'setup'; found it at {found}"
    elif notebook.cells[first].source != build.SETUP:
        yield "the set-up cell is not the current one: run python notebooks/build.py --stamp"


def shows_the_machine(notebook, name):
    """The card and the rung come right after the set-up; both differ between machines."""
    early = [c for _, c in code_cells(notebook)[1:4]]
    if not any("describe_machine()" in c.source and IGNORE in tags(c) for c in early):
        yield f"no card of the machine (describe_machine(), {IGNORE}) right after the set-up"
    if not any("rung_sentence" in c.source for c in early):
        yield "no cell after the set-up says on which rung the notebook stands (rung_sentence)"
    for i, cell in code_cells(notebook):
        if "rung_sentence" in cell.source:
            asserts = any(isinstance(node, ast.Assert) for node in ast.walk(tree(cell)))
            if not asserts or IGNORE not in tags(cell):
                yield f"cell {i}: rung_sentence differs between machines: {IGNORE}, and an assert"


def cells_are_short(notebook, name):
    """At most 25 lines of code that are not blank."""
    for i, cell in code_cells(notebook):
        lines = sum(bool(line.strip()) for line in cell.source.splitlines())
        if lines > MAX_LINES:
            yield f"cell {i}: {lines} lines of code, at most {MAX_LINES}"


def markdown_before_code(notebook, name):
    """Every code cell has words before it; a check follows its stub."""
    for i, cell in code_cells(notebook):
        check = any(t.startswith("exercise:") and t.endswith(":check") for t in tags(cell))
        if notebook.cells[i - 1].cell_type != "markdown" and not check:
            yield f"cell {i}: no markdown before this code"


def executed_in_order(notebook, name):
    """Counted 1, 2, 3, ...: nbval never compares a cell without a count."""
    for expected, (i, cell) in enumerate(code_cells(notebook), 1):
        if cell.execution_count != expected:
            yield f"cell {i}: execution count {cell.execution_count}, expected {expected}"
            return


def no_stored_errors(notebook, name):
    """An error in an output is meant, and then the cell says so."""
    for i, cell in code_cells(notebook):
        errors = [o.ename for o in cell.outputs if o.output_type == "error"]
        meant = "raises-exception" in tags(cell)
        if errors and not meant:
            yield f"cell {i}: stored error {errors[0]}"
        if meant and not errors:
            yield f"cell {i}: tagged raises-exception, but no error is stored"


def nothing_on_stderr(notebook, name):
    """Warnings are handled where they arise."""
    for i, cell in code_cells(notebook):
        if any(o.get("name") == "stderr" for o in cell.outputs):
            yield f"cell {i}: stderr in a stored output"


def no_machine_path(notebook, name):
    """No output names a folder of the machine it was made on."""
    for i, cell in code_cells(notebook):
        for text in texts(cell):
            hit = MACHINE_PATH.search(text)
            if hit:
                yield f"cell {i}: a path of a machine in an output ({hit.group(0)[:40]})"


def no_literal_timing(notebook, name):
    """A time or speed-up in words is computed, or stands in a table with its source."""
    for i, cell in markdown_cells(notebook):
        hit = TIMING.search(prose(cell.source))
        hit = hit or VAGUE_TIMING.search(" ".join(prose(cell.source, tables=True).split()))
        if hit:
            yield f"cell {i}: a literal time or speed-up in prose ({hit.group(0)!r})"


def figures_are_described(notebook, name):
    """Markdown after a figure begins with a sentence that says what it shows."""
    for i, cell in code_cells(notebook):
        drawn = [o.get("data", {}) for o in cell.outputs]
        drawn = [n for n, d in enumerate(drawn) if any(m.startswith("image/") for m in d)]
        if not drawn:
            continue
        after = [o for o in cell.outputs[drawn[-1] :] if "text/markdown" in o.get("data", {})]
        following = notebook.cells[i + 1] if i + 1 < len(notebook.cells) else None
        said = following is not None and following.cell_type == "markdown"
        said = said and not following.source.startswith("#") and SENTENCE.search(following.source)
        if not said and not after:
            yield f"cell {i}: no sentence after the figure says what it shows"


def exercises_are_complete(notebook, name):
    """A task with a hint, a stub, a check, a folded answer: in this order, of the right kinds."""
    found = {}
    for i, cell in enumerate(notebook.cells):
        for tag in tags(cell):
            kind, _, rest = tag.partition(":")
            if kind == "exercise" and rest != "setup":
                exercise, _, part = rest.partition(":")
                found.setdefault(exercise, []).append((part, i))
    for exercise, parts in found.items():
        if [part for part, _ in parts] != ["stub", "check", "answer"]:
            yield f"exercise {exercise}: stub, check, answer in this order; found {parts}"
            continue
        stub, check, answer = (notebook.cells[i] for _, i in parts)
        task = notebook.cells[max(0, parts[0][1] - 3) : parts[0][1]]  # a cell of imports may follow
        if not re.search(r'raise NotImplementedError\("your code here"\)|= None\b', stub.source):
            yield f"exercise {exercise}: the stub neither raises NotImplementedError nor sets None"
        if check.cell_type != "code" or stub.cell_type != "code":
            yield f"exercise {exercise}: stub and check must be code cells"
        if not any(c.cell_type == "markdown" and "<summary>Hint" in c.source for c in task):
            yield f"exercise {exercise}: no task with a folded hint before the stub"
        if answer.cell_type != "markdown" or not re.search(
            r"<details>\s*<summary>Answer.*^```python\n.*</details>", answer.source, re.S | re.M
        ):
            yield f"exercise {exercise}: the answer is not folded, or holds no ```python fence"


def ignored_cells_assert(notebook, name):
    """Where nbval does not look, the cell itself says what must hold."""
    for i, cell in code_cells(notebook):
        if IGNORE not in tags(cell) or "describe_machine()" in cell.source:
            continue
        nodes = list(ast.walk(tree(cell)))
        expects = any(isinstance(n, ast.Attribute) and n.attr == "expect" for n in nodes)
        if not expects and not any(isinstance(n, ast.Assert) for n in nodes):
            yield f"cell {i}: its output is ignored, so it must assert what holds"


def links_resolve(notebook, name):
    """Local files and sections that are linked exist."""
    anchors = {text.replace(" ", "-") for _, text in headings(notebook)}
    for i, cell in markdown_cells(notebook):
        source = re.sub(r"```.*?```|`[^`]*`", "", cell.source, flags=re.S)
        targets = re.findall(r"\]\(([^)\s]+)(?:\s+\"[^\"]*\")?\)", source)
        for target in targets + re.findall(r"(?:src|href)=\"([^\"]+)\"", source):
            if re.match(r"\w+:", target):
                continue
            file, _, anchor = target.partition("#")
            if file and not (FOLDER / file).exists():
                yield f"cell {i}: the linked file {file} does not exist"
            if not file and anchor not in anchors:
                yield f"cell {i}: there is no section for the link #{anchor}"


def ends_with_summary_and_exercises(notebook, name):
    """Only the map has no exercises."""
    if name.startswith("00"):
        return
    sections = [text for level, text in headings(notebook) if level == 2]
    if sections[-2:] != ["Summary", "Exercises"]:
        yield f"the last two sections must be Summary and Exercises; found {sections[-2:]}"
    if not any(t.endswith(":stub") for c in notebook.cells for t in tags(c)):
        yield "no cell is tagged as the stub of an exercise"


def plain_python_only(notebook, name):
    """No star imports, no shell, no history: it runs on Windows and under nbval."""
    for i, cell in code_cells(notebook):
        if re.match(r"%%(?:bash|sh|cmd|script|system|!|sx)\b", cell.source):
            yield f"cell {i}: a shell command"
        for node in ast.walk(tree(cell)):
            if isinstance(node, ast.ImportFrom) and node.names[0].name == "*":
                yield f"cell {i}: a star import"
            if isinstance(node, ast.Attribute) and ast.unparse(node) in SHELL:
                yield f"cell {i}: a shell command"
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
                if node.id in ("_", "__", "Out", "In"):
                    yield f"cell {i}: {node.id} is not there under nbval"
                if node.id in ("clear_output", "update_display"):
                    yield f"cell {i}: nbval does not follow {node.id}"
            if isinstance(node, ast.keyword) and node.arg == "display_id":
                yield f"cell {i}: nbval does not follow display_id"


def claims_are_borne_out(notebook, name):
    """Nothing is stored that the machine it was made on contradicted."""
    for i, cell in code_cells(notebook):
        if any("claim contradicted" in text for text in texts(cell)):
            yield f"cell {i}: the stored output contradicts a claim"


def tags_are_known(notebook, name):
    """A misspelt tag would silently do nothing; nbval-skip would hide a cell."""
    for i, cell in enumerate(notebook.cells):
        for tag in tags(cell):
            if not TAGS.fullmatch(tag):
                yield f"cell {i}: unknown tag {tag!r}"
        if "NBVAL_" in cell.source or "PYTEST_VALIDATE_IGNORE" in cell.source:
            yield f"cell {i}: use a tag, not a comment, to steer nbval"


def is_in_its_final_form(notebook, name):
    """As notebooks/build.py leaves it: bare metadata, joined streams, lasting ids."""
    if build.normalise(copy.deepcopy(notebook)) != notebook:
        yield "not in the stored form: run python notebooks/build.py --stamp"


RULES = [
    begins_with_title_and_question,
    setup_is_stamped,
    shows_the_machine,
    cells_are_short,
    markdown_before_code,
    executed_in_order,
    no_stored_errors,
    nothing_on_stderr,
    no_machine_path,
    no_literal_timing,
    figures_are_described,
    exercises_are_complete,
    ignored_cells_assert,
    links_resolve,
    ends_with_summary_and_exercises,
    plain_python_only,
    claims_are_borne_out,
    tags_are_known,
    is_in_its_final_form,
]


def by_name(rule):
    return rule.__name__


NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))


@pytest.mark.parametrize("rule", RULES, ids=by_name)
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
def test_rule(path, rule):
    problems = list(rule(nbformat.read(path, as_version=4), path.stem))
    if problems:
        pytest.fail("\n".join([f"{path.name}: {rule.__doc__}", *problems]), pytrace=False)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
def test_file_is_what_build_writes(path):
    text = path.read_text(encoding="utf-8")
    same = build.to_text(nbformat.reads(text, as_version=4)) == text
    assert same, (
        f"{path.name} was written by another program: run python notebooks/build.py --stamp"
    )


# -------------------------------------------------------------------- the rules themselves


def md(source, *names):
    return nbformat.v4.new_markdown_cell(source, metadata={"tags": list(names)} if names else {})


def code(source, *names, outputs=()):
    metadata = {"tags": list(names)} if names else {}
    return nbformat.v4.new_code_cell(source, metadata=metadata, outputs=list(outputs))


def stream(text, name="stdout"):
    return nbformat.v4.new_output("stream", name=name, text=text)


def shown(**data):
    data = {key.replace("_", "/"): value for key, value in data.items()}
    return nbformat.v4.new_output("display_data", data=data)


def error(name="ValueError"):
    return nbformat.v4.new_output("error", ename=name, evalue="no", traceback=[f"{name}: no"])


FIGURE = shown(image_png="AAAA", text_plain="<Figure size 640x480 with 1 Axes>")
CARD = [
    md("The machine."),
    code("from d2lperf import describe_machine\nmachine = describe_machine()\nmachine", IGNORE),
    md("The rung."),
    code("assert machine.rung\nprint(machine.rung_sentence)", IGNORE, outputs=[stream("CPU\n")]),
]
EXERCISE = [
    md("Double it.\n\n<details><summary>Hint</summary>\n\nAdd.\n\n</details>"),
    code("twice = None", "exercise:double:stub"),
    code("nb99.check_double(twice)", "exercise:double:check"),
    md(
        "<details><summary>Answer</summary>\n\n```python\ntwice = 2\n```\n\nIt is.\n\n</details>",
        "exercise:double:answer",
    ),
]


def good(*more):
    """A notebook that every rule accepts, with more cells before its summary."""
    cells = [
        md("# Doubling\n\nHow long does it take? You will be able to tell in two minutes."),
        md("Set-up."),
        code(build.SETUP, "setup"),
        *CARD,
        *more,
        md("## Summary\n\nIt takes its time."),
        md("## Exercises"),
        *EXERCISE,
    ]
    return counted(nbformat.v4.new_notebook(cells=copy.deepcopy(cells)))


def counted(notebook):
    for n, (_, cell) in enumerate(code_cells(notebook), 1):
        cell.execution_count = n
    return build.normalise(notebook)


def changed(change):
    """The good notebook after `change(notebook)`, in its final form again."""
    notebook = good()
    change(notebook)
    return counted(notebook)


def cell_with(notebook, text):
    return next(c for c in notebook.cells if text in c.source)


def drop(text):
    return changed(lambda nb: nb.cells.remove(cell_with(nb, text)))


def put(old, new):
    def change(notebook):
        cell = cell_with(notebook, old)
        cell.source = cell.source.replace(old, new)

    return changed(change)


def uncounted(notebook):
    notebook.cells[-2].execution_count = None
    return notebook


def unordered(notebook):
    notebook.cells[-2].execution_count = 1
    return notebook


def raw_metadata(notebook):
    notebook.metadata["language_info"]["version"] = "3.11.7"
    return notebook


def with_words(text):
    return good(md(text))


def with_code(source, *names, outputs=()):
    return good(md("Look."), code(source, *names, outputs=outputs), md("So it is, they say."))


LONG = "\n".join(f"x{i} = {i}" for i in range(MAX_LINES + 1))
BAD = {
    begins_with_title_and_question: [
        put("# Doubling", "## Doubling"),
        put("How long does it take? You will be able to tell in two minutes.", ""),
        put("in two minutes", "soon"),
        with_words("# Another title"),
    ],
    setup_is_stamped: [
        put("find d2lperf", "look for d2lperf"),
        drop("importlib.util"),
        good(md("Again."), code(build.SETUP, "setup")),
    ],
    shows_the_machine: [
        put("\nmachine = describe_machine()", ""),
        put(".rung_sentence", ""),
        put("assert machine.rung\n", ""),
        changed(lambda nb: cell_with(nb, "rung_sentence").metadata.clear()),
    ],
    cells_are_short: [with_code(LONG)],
    markdown_before_code: [drop("The rung."), good(code("x = 1"), code("y = 2"), md("Done."))],
    executed_in_order: [uncounted(good()), unordered(good())],
    no_stored_errors: [
        with_code("1 / 0", outputs=[error()]),
        with_code("1 / 1", "raises-exception"),
    ],
    nothing_on_stderr: [with_code("warn()", outputs=[stream("careful\n", "stderr")])],
    no_machine_path: [
        with_code("print(f)", outputs=[stream("/home/someone/notes/a.pt\n")]),
        with_code("f", outputs=[shown(text_plain="PosixPath('/tmp/tmpab12/x')")]),
        with_code("f", outputs=[shown(text_html="<b>C:\\Users\\someone</b>", text_plain="x")]),
    ],
    no_literal_timing: [
        with_words("TorchScript needs 28 µs here."),
        with_words("It takes 1.5 seconds to compile."),
        with_words("This is 3.5 × the speed."),
        with_words("It is 3 times faster."),
        with_words("| tool | time |\n|---|---|\n| timeit | 12 ms |"),
        with_words("<details><summary>Why</summary>It took 3 ms.</details>"),
        with_words("For kernels that take microseconds this is a large part."),
        with_words("The first one takes some\nminutes."),
        with_words("That is a question of seconds for each request."),
        with_words("It costs seconds for every call."),
        with_words("| tool | mind that |\n|---|---|\n| [pyperf](https://a.b) | takes minutes |"),
    ],
    figures_are_described: [
        good(md("Draw."), code("draw()", outputs=[FIGURE])),
        good(md("Draw."), code("draw()", outputs=[FIGURE]), md("## Next\n\nAnother thing.")),
        good(md("Draw."), code("draw()", outputs=[FIGURE]), md("Thus")),
    ],
    exercises_are_complete: [
        drop("twice = None"),
        drop("check_double"),
        drop("<summary>Answer"),
        put("twice = None", "twice = 3"),
        put("<summary>Hint", "<summary>More"),
        put("```python", "```"),
        put("<summary>Answer", "<summary>Solution"),
    ],
    ignored_cells_assert: [with_code("print(len(x))", IGNORE), with_code("# assert it", IGNORE)],
    links_resolve: [
        with_words("See [there](98-not-there.ipynb)."),
        with_words("See [there](#Nowhere)."),
        with_words("![alt](img/none.svg)"),
        with_words('<img src="img/none.svg" alt="none">'),
    ],
    ends_with_summary_and_exercises: [
        put("## Summary", "## Result"),
        put("## Exercises", "### Exercises"),
        drop("twice = None"),
    ],
    plain_python_only: [
        with_code("!ls"),
        with_code("files = !ls"),
        with_code("%%bash\nls"),
        with_code("import os\nos.system('ls')"),
        with_code("from torch import *"),
        with_code("print(_)"),
        with_code("Out[3]"),
        with_code("clear_output()"),
        with_code("display(x, display_id='a')"),
    ],
    claims_are_borne_out: [
        with_code("c.expect()", outputs=[stream("claim contradicted: a is faster than b\n")])
    ],
    tags_are_known: [
        with_code("x = 1", "nbval-ignore-outputs"),
        with_code("x = 1", "nbval-skip"),
        with_code("# NBVAL_SKIP\nx = 1"),
    ],
    is_in_its_final_form: [raw_metadata(good())],
}
# What a rule must not take for a problem.
FINE = {
    "code in a fence": with_words("Like this:\n\n```python\nsleep(5)  # 5 seconds\n```"),
    "code in a folded answer": with_words(
        "<details><summary>Answer</summary>\n\n```python\nnap(0.003)  # 3 ms\n```\n</details>"
    ),
    "unit of a column": with_words("A call of a microsecond; raw samples, in seconds."),
    "cited table": with_words("| y | t |\n|---|---|\n| 2022 | 2 ms |\n\n[Source](https://d2l.ai)."),
    "not measured": with_words("Twice as fast and twice as slow cancel; 10 % slower does not."),
    "shape": with_words("A matrix of 256 × 128 numbers."),
    "count": with_words("We call it 1000 times, in 3 rounds."),
    "link": with_words("See [the program](build.py) and [the end](#Summary)."),
    "link in code": with_words("Markdown writes `[a](b.md)` for it."),
    "ignored with assert": with_code("print(id(x))\nassert x", IGNORE),
    "ignored with a claim": with_code("c.expect('a', faster_than='b')", IGNORE),
    "error that is meant": with_code("1 / 0", "raises-exception", outputs=[error()]),
    "figure": with_code("draw()", outputs=[FIGURE]),
    "figure with computed words": good(
        md("Draw."),
        code("draw()", outputs=[FIGURE, shown(text_markdown="A draw.", text_plain="x")]),
    ),
    "bang in a string": with_code('answers = """\nnext\n!print(e)\n"""'),
    "magic": with_code("%load_ext d2lperf"),
    "name with underscore": with_code("_ = f(1)\nfor _ in range(3):\n    pass"),
    "short path": with_code("print(n)", outputs=[stream("my_mlp/code/__torch__.py, 3/4 done\n")]),
}


@pytest.mark.parametrize("rule", RULES, ids=by_name)
def test_rule_accepts_a_good_notebook(rule):
    assert not list(rule(good(), "99-good"))


@pytest.mark.parametrize("rule", RULES, ids=by_name)
def test_rule_has_a_bad_notebook(rule):
    assert BAD[rule]


@pytest.mark.parametrize(
    "rule, notebook",
    [
        pytest.param(rule, notebook, id=f"{rule.__name__}-{i}")
        for rule, bad in BAD.items()
        for i, notebook in enumerate(bad)
    ],
)
def test_rule_catches(rule, notebook):
    assert list(rule(notebook, "99-bad"))


@pytest.mark.parametrize("notebook", FINE.values(), ids=FINE)
def test_no_rule_minds(notebook):
    assert not [problem for rule in RULES for problem in rule(notebook, "99-fine")]


def test_the_map_needs_no_exercises():
    notebook = good()
    notebook.cells = notebook.cells[:7]
    assert not list(ends_with_summary_and_exercises(notebook, "00-start-here"))
    assert list(ends_with_summary_and_exercises(notebook, "01-measuring"))


# --------------------------------------------------------------------------- tampered with

CLAIM = """\
from d2lperf import compare

race = {"one": lambda: sum(range(300)), "three": lambda: sum(range(900))}
result = compare(race, baseline="three", check=False, budget_s=1)
_ = result.expect("one", faster_than="three")"""


@pytest.fixture(scope="module")
def tampered(tmp_path_factory):
    """A folder with several notebooks and a copy of this suite's own settings."""
    root = tmp_path_factory.mktemp("suite")
    (root / "tests").mkdir()
    (root / "notebooks").mkdir()
    for name in ("pyproject.toml", "conftest.py", "tests/sanitize.cfg"):
        shutil.copy(ROOT / name, root / name)

    notebook = nbformat.v4.new_notebook(
        cells=[
            code(build.SETUP, "setup"),
            code("print('the sum is', 2 + 2)"),
            code("from IPython.display import Markdown\nMarkdown(f'**{3 * 4}** numbers')"),
            code(CLAIM),
        ]
    )
    build.execute(notebook, "untouched", folder=root / "notebooks")
    build.normalise(notebook)

    def write(name, change=lambda cells: None):
        other = copy.deepcopy(notebook)
        change(other.cells)
        nbformat.write(other, root / "notebooks" / f"{name}.ipynb")

    def number(cells):
        cells[1].outputs[0].text = "the sum is 5\n"

    def rich(cells):
        cells[2].outputs[0].data["text/markdown"] = "**13** numbers"

    def gone(cells):
        cells[1].outputs = []

    def reverse(cells):
        cells[3].source = CLAIM.replace('"one", faster_than="three"', '"three", faster_than="one"')

    write("untouched")
    for change in (number, rich, gone, reverse):
        write(change.__name__, change)
    return root


WAYS = {"pytest": (), "pytest --nbval": ("--nbval",)}


@pytest.fixture(scope="module")
def sessions(tampered):
    """What each way to run these notebooks printed; both run at once, as nothing is timed."""
    running = {}
    with ExitStack() as stack:
        for way, options in WAYS.items():
            arguments = ["-q", "-rA", "--color=no", "-p", "no:cacheprovider", *options]
            running[way] = stack.enter_context(
                subprocess.Popen(
                    [sys.executable, "-m", "pytest", *arguments],
                    cwd=tampered / "notebooks",  # from a folder below the settings, too
                    env={**strict_environment(), "PYTHONPATH": str(ROOT)},
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    text=True,
                    encoding="utf-8",
                )
            )
            stack.callback(running[way].kill)
        return {way: program.communicate(timeout=300)[0] for way, program in running.items()}


@pytest.fixture(scope="module", params=WAYS)
def verdicts(request, sessions):
    """Outcome of each cell of these notebooks, in either way to run them."""
    printed = sessions[request.param]
    found = re.findall(r"^(PASSED|FAILED) \S*?(\w+)\.ipynb::Cell (\d)", printed, re.M)
    assert len(found) == 5 * 4, printed
    return {(name, int(cell)): outcome for outcome, name, cell in found}, printed


def strict_environment():
    """As a person's shell has it: conftest.py is what sets the rest."""
    return {k: v for k, v in os.environ.items() if not k.startswith(("D2LPERF", "TQDM", "PYTEST"))}


def test_untouched_copy_passes(verdicts):
    outcomes, _ = verdicts
    assert {o for (name, _), o in outcomes.items() if name == "untouched"} == {"PASSED"}


@pytest.mark.parametrize("name, cell", [("number", 1), ("rich", 2), ("gone", 1), ("reverse", 3)])
def test_tampered_copy_fails_in_that_cell(verdicts, name, cell):
    outcomes, _ = verdicts
    failed = [n for (notebook, n), o in outcomes.items() if notebook == name and o == "FAILED"]
    assert failed == [cell]


def test_reversed_claim_fails_because_it_is_contradicted(verdicts):
    _, printed = verdicts
    assert "ClaimContradicted" in printed
    assert "claim contradicted: three is faster than one" in printed


def test_without_nbval_a_notebook_is_not_passed_over(tmp_path):
    shutil.copy(ROOT / "conftest.py", tmp_path)
    nbformat.write(good(), tmp_path / "a.ipynb")
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:nbval", "-p", "no:cacheprovider", "a.ipynb"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert run.returncode != 0
    assert "nbval is not installed" in run.stdout + run.stderr
