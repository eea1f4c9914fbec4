"""The slow and the fast training script: equal losses; notebook 10 leads from one to the other.

Notebook 10b and a study go on from the fast one.
"""

import ast
import importlib.util
import itertools
import re
from pathlib import Path

import nbformat
import pytest
import torch
from fresh import run_python

NOTEBOOKS = Path(__file__).parents[1] / "notebooks"
SLOW, FAST = NOTEBOOKS / "train_slow.py", NOTEBOOKS / "train_fast.py"
NOTEBOOK = NOTEBOOKS / "10-a-script-made-fast.ipynb"
GOES_ON = "10b-more-devices.ipynb", "deeper/10-compiling-the-script.ipynb"
MOST_CHANGED_LINES = 10  # of a diff


@pytest.fixture(autouse=True)
def random_state():
    """The scripts set the seed of the whole process when they are imported."""
    state = torch.get_rng_state()
    yield
    torch.set_rng_state(state)


@pytest.fixture(scope="module")
def notebook():
    return nbformat.read(NOTEBOOK, as_version=4)


def code_of(notebook):
    return [cell.source for cell in notebook.cells if cell.cell_type == "code"]


@pytest.fixture(scope="module")
def tools(notebook):
    """The notebook's own functions `change` and `joined`."""
    (source,) = [source for source in code_of(notebook) if "def change(" in source]
    wanted = [n for n in ast.parse(source).body if getattr(n, "name", "") in ("change", "joined")]
    namespace = {"itertools": itertools, "torch": torch}
    exec(compile(ast.Module(wanted, []), "<tools>", "exec"), namespace)
    return namespace


def losses(path, weights=None, steps=4):
    """The losses of the first steps from these weights, and the initial weights."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    if weights is not None:
        script.model.load_state_dict(weights)
    initial = {name: value.clone() for name, value in script.model.state_dict().items()}
    return [float(script.train_step()) for _ in range(steps)], initial


def shorter(path, folder, old, new):
    """A copy of a script with one piece of its text replaced."""
    text = path.read_text(encoding="utf-8")
    assert text.count(old) == 1
    copy = folder / path.name
    copy.write_text(text.replace(old, new), encoding="utf-8")
    return copy


def test_both_scripts_have_the_same_losses(tools):
    wanted, weights = losses(SLOW)
    assert len(set(wanted)) == len(wanted), "each step changes the weights and has its own data"
    found, _ = losses(FAST, tools["joined"](weights))
    assert found == pytest.approx(wanted, rel=1e-4)


@pytest.mark.parametrize("path", [SLOW, FAST], ids=["slow", "fast"])
def test_a_script_runs_from_the_shell_and_learns(path, tmp_path):
    script = shorter(path, tmp_path, " = 300, 8, ", " = 40, 2, ")
    done = run_python(script, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    first, last, spread, time = done.stdout.splitlines()
    said = [re.fullmatch(r"step (\d+): loss (\d\.\d+), right (0\.\d+)", s) for s in (first, last)]
    assert [line[1] for line in said] == ["20", "40"]
    # The text is Python's own, another one with each version: no order of two batches of two rows.
    assert max(float(line[2]) for line in said) < 4.0, "guessing has a loss of more than 4.6"
    assert float(said[1][3]) > 0.1, "guessing gets a hundredth right"
    assert re.fullmatch(r"spread of activations \d\.\d+", spread)
    assert re.fullmatch(r"time of a step [\d.]+ ms", time)
    assert {p.name for p in tmp_path.iterdir()} == {path.name}


# --------------------------------------------------------------------------- in the notebook


def diffs_of(notebook):
    """(name, name of the text it is applied to, diff) of every diff in the notebook, in order."""
    pattern = re.compile(r'(\w+) = change\(([\w.\[\]-]+), """\n(.*?)"""\)', re.S)
    found = [match.groups() for source in code_of(notebook) for match in pattern.finditer(source)]
    return [(name, base, diff.strip("\n")) for name, base, diff in found]


def test_the_notebook_shows_and_carries_the_slow_script(notebook):
    text = SLOW.read_text(encoding="utf-8").strip()
    said = "\n".join(cell.source for cell in notebook.cells if cell.cell_type == "markdown")
    shown = re.findall(r"```python\n(def make_batch.*?)\n```", said, flags=re.S)
    assert len(shown) == 1 and all(part in text for part in shown[0].split("\n\n\n"))
    assert sum(text in source for source in code_of(notebook)) == 1


@pytest.mark.parametrize("name", GOES_ON)
def test_what_goes_on_carries_the_fast_script(name):
    text = FAST.read_text(encoding="utf-8").strip()
    assert sum(text in source for source in code_of(nbformat.read(NOTEBOOKS / name, 4))) == 1


@pytest.mark.parametrize(("name", "least"), [(NOTEBOOK.name, 7), (GOES_ON[0], 4)])
def test_no_diff_is_long(name, least):
    diffs = diffs_of(nbformat.read(NOTEBOOKS / name, 4))
    assert len(diffs) >= least
    for diff_name, _, diff in diffs:
        changed = [line for line in diff.splitlines() if line[:1] in "+-"]
        assert len(changed) <= MOST_CHANGED_LINES, diff_name


def test_the_diffs_lead_from_the_slow_to_the_fast_script(notebook, tools):
    texts = {"SLOW": SLOW.read_text(encoding="utf-8")}
    for name, base, diff in diffs_of(notebook):
        if base == "way[-1].text":  # what was kept last: bfloat16, where a machine has units for it
            base = "one_kernel"
        texts[name] = tools["change"](texts[base], diff)
        compile(texts[name], name, "exec")
    fast = FAST.read_text(encoding="utf-8")
    assert meaning(texts["fused_adam"]) == meaning(fast)


def meaning(text):
    """A script without its docstring and without what is no longer used."""
    body = ast.parse(text).body[1:]
    unused = [n for n in body if getattr(n, "name", "") in ("gelu", "Head")]
    unused += [n for n in body if ast.unparse(n) == "import math"]  # which these two need
    return [ast.dump(n) for n in body if n not in unused]
