"""What must be right in every notebook, and the proof that one tampered with is noticed.

A rule is a function of a notebook and its name ("01-measuring", "deeper/guards") that yields its
problems. The rules of style are in notebooks/style.py, which `make lint` runs.
"""

import ast
import copy
import json
import os
import re
import shutil
from pathlib import Path

import nbformat
import pytest
import toy_device
from fresh import run_fresh
from sessions import run_pytest

from notebooks import build, style
from notebooks.style import called, code_cells, headings, markdown_cells, nodes, tags, tree, visible

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "notebooks"

IGNORE = "nbval-ignore-output"
TAGS = re.compile(
    rf"setup|badge|remove-cell|hide-input|published|{IGNORE}|raises-exception"
    r"|exercise:setup|exercise:[\w-]+:(stub|check|answer)"
)
MACHINE_PATH = re.compile(
    r"/(?:root|home|work|tmp|Users|opt|mnt|srv|content|var/folders)/[\w./-]+|\b[A-Z]:\\\\?\w+\\"
)
OLD_VERDICT = re.compile(r"no measurable difference|less than the margin of")
SHELL = ("os.system", "os.popen", "get_ipython().system", "get_ipython().getoutput")


# --------------------------------------------------------------------------- small helpers


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


# ---------------------------------------------------------------------------------- rules


def _calls(node, name):
    """The calls of a function inside a node."""
    return [c for c in ast.walk(node) if isinstance(c, ast.Call) and called(c) == name]


def predictions_are_scored(notebook, name):
    """Each prediction has a name and is scored; the course shows them all at the end."""
    bound = {}
    for i, cell in code_cells(notebook):
        kept = [node for node in nodes(cell, ast.Assign) if _calls(node.value, "predict")]
        if len(_calls(tree(cell), "predict")) > sum(len(_calls(n, "predict")) for n in kept):
            yield f"cell {i}: give the prediction a name, so that it can be scored"
        targets = [part for node in kept for target in node.targets for part in ast.walk(target)]
        bound |= {part.id: i for part in targets if isinstance(part, ast.Name)}
    scored = "\n".join(c.source for _, c in code_cells(notebook) if _calls(tree(c), "score"))
    for variable, i in bound.items():
        if not re.search(rf"\b{variable}\b", scored):
            yield f"cell {i}: the prediction {variable} is never scored"
    shown = [c for _, c in visible(notebook)][-1:]
    if bound and "/" not in name and not any("predictions()" in c.source for c in shown):
        yield "the last visible cell before the exercises must show predictions()"


# ------------------------------------------------------------------------- rules: the text


def setup_is_stamped(notebook, name):
    """The first code cell is the set-up cell as notebooks/build.py writes it."""
    found = [i for i, c in code_cells(notebook) if "setup" in tags(c)]
    first = code_cells(notebook)[0][0] if code_cells(notebook) else None
    if found != [first]:
        yield f"the first code cell, and no other, has the tag 'setup'; found it at {found}"
    elif notebook.cells[first].source != build.SETUP:
        yield "the set-up cell is not the current one: run python notebooks/build.py --stamp"


def shows_the_machine(notebook, name):
    """The machine's card comes right after the set-up and the imports."""
    early = [c for _, c in code_cells(notebook)[1:4]]
    if not any("describe_machine()" in c.source and IGNORE in tags(c) for c in early):
        yield f"no card of the machine (describe_machine(), {IGNORE}) right after the set-up"


def badge_is_ours(notebook, name):
    """The only link to Colab is the badge, as notebooks/build.py writes it for our address."""
    wanted = build.badge(nbformat.v4.new_notebook(), NOTEBOOKS[name]).cells
    found = [c.source for c in notebook.cells if build.COLAB in c.source or "badge" in tags(c)]
    if found != [c.source for c in wanted]:
        yield f"the badges are {found}: run python notebooks/build.py --stamp"


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


def verdicts_are_todays(notebook, name):
    """No output has the words of verdicts that are no longer given: execute the notebook again."""
    for i, cell in code_cells(notebook):
        if found := OLD_VERDICT.search("\n".join(texts(cell))):
            yield f"cell {i}: {found[0]}"


def no_machine_path(notebook, name):
    """No output names a folder of the machine it was made on."""
    for i, cell in code_cells(notebook):
        for text in texts(cell):
            hit = MACHINE_PATH.search(text)
            if hit:
                yield f"cell {i}: a path of a machine in an output ({hit.group(0)[:40]})"


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
        expects = any(node.attr == "expect" for node in nodes(cell, ast.Attribute))
        if not expects and not nodes(cell, ast.Assert):
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
            if file and not os.path.exists(os.path.normpath(FOLDER / name / ".." / file)):
                yield f"cell {i}: the linked file {file} does not exist"
            if not file and anchor not in anchors:
                yield f"cell {i}: there is no section for the link #{anchor}"


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
    predictions_are_scored,
    setup_is_stamped,
    badge_is_ours,
    shows_the_machine,
    executed_in_order,
    no_stored_errors,
    nothing_on_stderr,
    no_machine_path,
    verdicts_are_todays,
    exercises_are_complete,
    ignored_cells_assert,
    links_resolve,
    plain_python_only,
    claims_are_borne_out,
    tags_are_known,
    is_in_its_final_form,
]


def by_name(value):
    return getattr(value, "__name__", None)


NOTEBOOKS = {style.name_of(path): path for path in build.find([])}
COURSE = sorted(set(FOLDER.glob("[0-9]*.ipynb")) - set(FOLDER.glob("00-*.ipynb")))


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_rules(name):
    notebook = nbformat.read(NOTEBOOKS[name], as_version=4)
    problems = []
    for rule in RULES:
        found = list(rule(notebook, name))
        problems += [rule.__doc__, *found] if found else []
    if problems:
        pytest.fail("\n".join([f"{name}:", *problems]), pytrace=False)


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_file_is_what_build_writes(name):
    text = NOTEBOOKS[name].read_text(encoding="utf-8")
    same = build.to_text(nbformat.reads(text, as_version=4)) == text
    assert same, f"{name} was written by another program: run python notebooks/build.py --stamp"


def test_the_course_or_the_readme_links_every_study():
    course = [path.read_text(encoding="utf-8") for path in FOLDER.glob("*.ipynb")]
    said = "".join([*course, (FOLDER.parent / "README.md").read_text(encoding="utf-8")])
    studies = [name for name in NOTEBOOKS if name.startswith("deeper/")]
    assert studies and [name for name in studies if f"{name}.ipynb)" not in said] == []


@pytest.mark.parametrize("path", COURSE, ids=lambda path: path.stem)
def test_the_maps_have_the_notebooks_own_reading_time(path):
    readme = (FOLDER.parent / "README.md").read_text(encoding="utf-8")
    start = (FOLDER / "00-start-here.ipynb").read_text(encoding="utf-8")
    first = nbformat.read(path, as_version=4).cells[0].source
    minutes = re.search(r"(\d+) minutes to read", first)[1]
    assert re.search(rf"\(notebooks/{path.name}\) .* \| (\d+) min \| ", readme)[1] == minutes
    assert re.search(rf"\({path.name}\) .* \| (\d+) \|", start)[1] == minutes


# ---------------------------------------------------------------- on an unknown accelerator

IN_USE = """
import toy_device
from contextlib import suppress
module = toy_device.install(1)
import torch
device = torch.device("toy")
{cell}
print(in_use())
{counter} = lambda: 7
print(in_use())
"""
COUNTERS = ["torch.accelerator.memory_allocated", "module.memory_allocated"]
COUNTERS += ["module.current_allocated_memory"]


@pytest.mark.skipif(not toy_device.supported(), reason="this torch has no hooks in Python")
@pytest.mark.parametrize("counter", COUNTERS)
def test_06_counts_memory_where_the_device_does(counter):
    notebook = nbformat.read(NOTEBOOKS["06-memory"], as_version=4)
    (cell,) = [c.source for _, c in code_cells(notebook) if "def in_use():" in c.source]
    run = run_fresh(IN_USE.format(cell=cell, counter=counter), Path(__file__).parent)
    assert run.stdout.splitlines() == ["None", "7"], run.stderr


COPIES = {  # a notebook, the one that it repeats, and the functions
    ("06b-precision", "06-memory"): ("in_use", "allocated_by"),
    ("07b-what-a-second-device-costs", "07-multi-gpu-from-scratch"): (
        *("init_params", "own_device", "get_params"),
    ),
    ("08d-overlap", "08-multi-gpu-concise"): (
        *("Residual", "resnet18", "digits", "my_device", "my_rows", "one_step"),
    ),
}


def definitions(name):
    """What the functions and classes of a notebook do, without comments and docstrings."""
    notebook = nbformat.read(NOTEBOOKS[name], as_version=4)
    found = {}
    for _, cell in code_cells(notebook):
        for node in ast.parse(cell.source).body if "def " in cell.source else []:
            if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
                if ast.get_docstring(node) is not None:
                    del node.body[0]
                found[node.name] = ast.dump(node)
    return found


@pytest.mark.parametrize("notebooks", COPIES, ids=" repeats ".join)
def test_a_notebook_repeats_anothers_code_unchanged(notebooks):
    copies, originals = map(definitions, notebooks)
    for name in COPIES[notebooks]:
        assert copies[name] == originals[name], name


REFERENCE = re.compile(r"\]\((?P<path>[^)\s]+\.ipynb)\),? \(?section (?P<number>\d+)")


def markdown(notebook):
    return "\n".join(c.source for c in notebook.cells if c.cell_type == "markdown")


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_a_section_of_another_notebook_exists(name):
    for found in REFERENCE.finditer(markdown(nbformat.read(NOTEBOOKS[name], as_version=4))):
        other = nbformat.read(NOTEBOOKS[name].parent / found["path"], as_version=4)
        assert f"\n## {found['number']}. " in markdown(other), found[0]


# --------------------------------------------------------------------------- tampered with


def test_a_badge_of_another_repository_is_noticed():
    link = f"[![Open in Colab]({build.COLAB}badge.svg)]({build.COLAB}github/another/one)"
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_markdown_cell(link)])
    assert list(badge_is_ours(notebook, "00-start-here"))


CLAIM = """\
from d2lperf import compare

race = {"one": lambda: sum(range(300)), "three": lambda: sum(range(900))}
result = compare(race, baseline="three", check=False)
_ = result.expect("one", faster_than="three")"""
CELLS = [
    "two = 2\nprint('the sum is', two + 2)",
    "from IPython.display import Markdown\nMarkdown(f'**{6 * two}** numbers')",
    "print('so many:', 3 * two)",
    CLAIM,
    "import os\nprint('budget', os.environ.get('D2LPERF_BUDGET', 'in full length'))",
]


def code(source, *names):
    return nbformat.v4.new_code_cell(source, metadata={"tags": list(names)} if names else {})


def tampered(cells):
    """The cells with a number and a rich output changed, an output gone and a claim reversed."""
    one, two, three, four = copy.deepcopy(cells)
    one.outputs[0].text = "the sum is 5\n"
    two.outputs[0].data["text/markdown"] = "**13** numbers"
    three.outputs = []
    four.source = CLAIM.replace('"one", faster_than="three"', '"three", faster_than="one"')
    return [one, two, three, four]


@pytest.fixture(scope="module")
def session(tmp_path_factory):
    """Outcome of each cell of a notebook, run as `make test` does, and what was printed.

    Its second half repeats the first, tampered with.
    """
    root = tmp_path_factory.mktemp("suite")
    for folder in ("tests", "notebooks"):
        (root / folder).mkdir()
    for name in ("pyproject.toml", "conftest.py", "tests/sanitize.cfg"):
        shutil.copy(ROOT / name, root / name)
    cells = [code(build.SETUP, "setup"), *map(code, CELLS)]
    notebook = nbformat.v4.new_notebook(cells=cells)
    build.execute(notebook, "a", folder=root / "notebooks")
    assert notebook.cells[5].outputs[0].text == "budget in full length\n"
    notebook.cells[5].outputs[0].text = "budget 0.3\n"  # as conftest.py says for the tests
    notebook.cells += tampered(notebook.cells[1:5])
    nbformat.write(build.normalise(notebook), root / "notebooks" / "a.ipynb")

    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    (options,) = re.findall(r"^test: .*\n.*-m pytest (.*) \$\(PYTEST_ARGS\)", makefile, re.M)
    run = run_pytest(
        *(*options.split(), "-n", "1", "-q", "-rA", "--color=no"),
        cwd=root / "notebooks",  # from a folder below the settings, too
        plugins=["nbval", "xdist"],
    )
    found = re.findall(r"^(PASSED|FAILED) \S*?a\.ipynb::Cell (\d)", run.stdout, re.M)
    assert len(found) == 6 + 4, run.stdout + run.stderr
    return {int(cell): outcome for outcome, cell in found}, run.stdout


def test_what_is_tampered_with_fails_and_nothing_else(session):
    outcomes, _ = session
    failed = {cell for cell, outcome in outcomes.items() if outcome == "FAILED"}
    assert failed == {6, 7, 8, 9}


def test_a_reversed_claim_fails_because_it_is_contradicted(session):
    _, printed = session
    assert "ClaimContradicted" in printed
    assert "claim contradicted: three is faster than one" in printed


ELSEWHERE = "import os, time\nprint(os.environ['D2LPERF_STRICT'], f'{time.perf_counter():.3f} s')"


def test_from_another_folder_a_notebook_has_its_clones_settings(tmp_path):
    """`pytest --nbval` knows that times differ, and what the notebook's kernel is told."""
    clone, away = tmp_path / "clone", tmp_path / "away"
    away.mkdir()
    for name in ("pyproject.toml", "conftest.py", "tests/sanitize.cfg"):
        (clone / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, clone / name)
    cell = code(ELSEWHERE)
    cell.update(execution_count=1, outputs=[nbformat.v4.new_output("stream", text="1 0.123 s\n")])
    nbformat.write(nbformat.v4.new_notebook(cells=[cell]), clone / "a.ipynb")
    run = run_pytest("--nbval", clone / "a.ipynb", cwd=away, plugins=["nbval"])
    assert "1 passed" in run.stdout, run.stdout + run.stderr


def test_without_nbval_a_notebook_is_not_passed_over(tmp_path):
    shutil.copy(ROOT / "conftest.py", tmp_path)
    nbformat.write(nbformat.v4.new_notebook(cells=[code("1 + 1")]), tmp_path / "a.ipynb")
    run = run_pytest("a.ipynb", cwd=tmp_path)
    assert run.returncode != 0
    assert "nbval is not installed" in run.stdout + run.stderr
