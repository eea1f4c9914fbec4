"""Every exercise of every notebook: the stub, the folded answer and wrong answers, checked.

The code comes from the notebook itself, so the tests run what a reader sees: setup + stub must say
"not attempted", setup + answer "passed", setup + each wrong answer (WRONG in
tests/wrong_answers/nbNN.py) "failed" with a reason. Other right answers (ALSO_RIGHT) must pass.

A wrong answer must fail by the checker's reason, not by a crash: a typo would fail, too. Where an
exception is meant to happen, the entry of WRONG is a pair, `("ZeroDivisionError", "source")`.
No message may tell a number or text of the right result (tests/handed_over.py).
"""

import ast
import importlib
import importlib.util
import linecache
import re
from dataclasses import dataclass, field
from pathlib import Path

import nbformat
import pytest

from d2lperf.exercises import Feedback
from tests.handed_over import Call, Noted

ROOT = Path(__file__).parents[1]
FENCE = re.compile(r"^```python\n(.*?)^```", re.M | re.S)
# How `checker` tells of an exception: of the learner's code, or of the checker on its result.
CRASH = re.compile(
    r"(?:Your code|Your answer could not be used as the task asks; trying it) raised (\w+)"
)


@dataclass
class Exercise:
    """Sources of one exercise, by the part of the tag `exercise:NAME:PART`."""

    notebook: str
    name: str
    setup: str = ""
    parts: dict = field(default_factory=dict)

    @property
    def answer(self):
        """The code of the folded answer: the first Python fence of its cell."""
        fences = FENCE.findall(self.parts["answer"])
        assert fences, f"{self}: the answer has no ```python fence (at the start of a line)"
        return fences[0]

    def __str__(self):
        return f"{self.notebook}-{self.name}"


def exercises_of(notebook, name):
    """All exercises of a notebook, in its order."""
    found, setup = {}, []
    for cell in notebook.cells:
        for tag in cell.metadata.get("tags", []):
            kind, _, rest = tag.partition(":")
            if kind != "exercise":
                continue
            if rest == "setup":
                setup.append(cell.source)
                continue
            exercise, _, part = rest.partition(":")
            parts = found.setdefault(exercise, {})
            assert part not in parts, f"{name}: the tag {tag!r} is there twice"
            parts[part] = cell.source
    return [Exercise(name, e, "\n".join(setup), parts) for e, parts in found.items()]


def namespace_after(exercise, source):
    """What setup and this source have defined."""
    namespace = {"__name__": "__main__"}
    for part, code in [("setup", exercise.setup), ("source", source)]:
        run(code, namespace, f"<{exercise} {part}>")
    return namespace


def feedback(exercise, source, instead=()):
    """What the check cell shows after setup and this source, with other values of some names."""
    namespace = {**namespace_after(exercise, source), **dict(instead)}
    check = ast.parse(exercise.parts["check"])
    assert check.body and isinstance(check.body[-1], ast.Expr), (
        f"{exercise}: the check cell must end with one expression, the call of the checker"
    )
    last = ast.Expression(check.body.pop().value)
    exec(compile(check, f"<{exercise} check>", "exec"), namespace)
    return eval(compile(last, f"<{exercise} check>", "eval"), namespace)


def run(code, namespace, file):
    """Execute code whose lines an error can quote, as in a notebook."""
    linecache.cache[file] = (len(code), None, code.splitlines(keepends=True), file)
    exec(compile(code, file, "exec"), namespace)


def load_answers(path):
    """`WRONG` and `ALSO_RIGHT` of a module in tests/wrong_answers."""
    spec = importlib.util.spec_from_file_location(f"wrong_{path.stem}", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.WRONG, getattr(module, "ALSO_RIGHT", {})


def raises_and_source(entry):
    """(name of the exception that is meant to come or None, source) of an entry of WRONG."""
    return (None, entry) if isinstance(entry, str) else entry


def why_not_found_out(got, raises=None):
    """What is wrong with the feedback on a wrong answer; "" where it is as it should be."""
    if got.status != "failed":
        return f"this wrong answer was let through ({got})"
    crash = CRASH.match(got.message)
    if raises is None and crash:
        return (
            f"this wrong answer only crashed ({got}): mend it, or, where that is meant, "
            f'write ("{crash[1]}", source)'
        )
    if raises is not None and not (crash and crash[1] == raises):
        return f"this wrong answer was to raise {raises}, but: {got}"
    return "" if got.message.strip() else "no reason was given"


# What these exercises ask for is no value that comes back to the checker's process.
NOT_READ = {
    "nb02b-hybridise": "a program",
    "nb02b-mean_once": "a program",
    "nb03-one_ahead": "an order of calls",
    "nb03-two_buffers": "an order of calls",
    "nb04-in_groups": "a pool that is closed by then",
    "nb04-run_graph": "tasks that wait for each other once",
    "nb08-accumulate": "gradients, in other processes",
    "nb09-reduce_while_computing": "sums, in other processes",
    "nb09-two_way_ring": "sums, in other processes",
}


def judged(exercise, source):
    """The call by which a checker judges this source, or the value that it was given."""
    name = ast.parse(exercise.parts["check"]).body[-1].value.args[0].id
    found, right = (namespace_after(exercise, s)[name] for s in (source, exercise.answer))
    if not callable(found):
        return Call(list(right), found, right)
    noted = Noted(found)
    feedback(exercise, source, {name: noted})
    return noted.last_call(right)


EXERCISES = [
    exercise
    for path in sorted((ROOT / "notebooks").glob("*.ipynb"))
    for exercise in exercises_of(nbformat.read(path, as_version=4), f"nb{path.name.split('-')[0]}")
]
ANSWERS = {
    path.stem: load_answers(path)
    for path in sorted((ROOT / "tests" / "wrong_answers").glob("nb*.py"))
}
WRONG = {notebook: wrong for notebook, (wrong, _) in ANSWERS.items()}
ALSO_RIGHT = {notebook: right for notebook, (_, right) in ANSWERS.items()}
WRONG_ANSWERS = [
    pytest.param(e, *raises_and_source(entry), id=f"{e}-{i}")
    for e in EXERCISES
    for i, entry in enumerate(WRONG.get(e.notebook, {}).get(e.name, []), 1)
]


@pytest.fixture(autouse=True)
def as_in_a_notebook(monkeypatch):
    """Run in the notebooks' folder; what an answer sets in torch is undone."""
    import torch

    monkeypatch.chdir(ROOT / "notebooks")
    threads, grad, state = torch.get_num_threads(), torch.is_grad_enabled(), torch.get_rng_state()
    yield
    torch.set_num_threads(threads)
    torch.set_grad_enabled(grad)
    torch.set_rng_state(state)


@pytest.mark.parametrize("exercise", EXERCISES, ids=str)
def test_stub_is_not_attempted(exercise):
    got = feedback(exercise, exercise.parts["stub"])
    assert isinstance(got, Feedback)
    assert got.status == "not attempted", str(got)


@pytest.mark.parametrize("exercise", EXERCISES, ids=str)
def test_folded_answer_passes(exercise):
    got = feedback(exercise, exercise.answer)
    assert got.status == "passed", str(got)


@pytest.mark.parametrize(
    "exercise, source",
    [
        pytest.param(e, source, id=f"{e}-{i}")
        for e in EXERCISES
        for i, source in enumerate(ALSO_RIGHT.get(e.notebook, {}).get(e.name, []), 1)
    ],
)
def test_other_right_answer_passes(exercise, source):
    got = feedback(exercise, source)
    assert got.status == "passed", f"{got}\n{source}"


@pytest.mark.parametrize("exercise, raises, source", WRONG_ANSWERS)
def test_wrong_answer_fails_with_a_reason(exercise, raises, source):
    got = feedback(exercise, source)
    problem = why_not_found_out(got, raises)
    assert not problem, f"{problem}:\n{source}"
    if str(exercise) not in NOT_READ:
        assert not judged(exercise, source).told_by(got.message), got


@pytest.mark.parametrize(
    "message, told",
    [
        ("f(5) gave 8, which is too small", set()),
        ("f(5) gave 8; wanted is 1,190", {1190}),
        ("f(5) gave 8; its third is 0.333", {1 / 3}),
        ("f(5) gave 8; its third is 0.3", set()),
        ("f(5) gave 8; this is bound by memory", {"memory"}),
        ("f(5) gave 8; 5 memorys, 11901 or x1190", set()),
    ],
)
def test_what_a_message_tells(message, told):
    assert Call([5], [8, 2], [1190, [1 / 3, "memory", 2], {5: 8}]).told_by(message) == told


def test_learners_calls_are_noted():
    def add(x, values):
        values.append(x)
        return sum(values)

    noted = Noted(lambda x, values: x)
    noted(1, [2])
    assert noted(3, [4]) == 3
    assert noted.last_call(add) == Call([[3, [4]], {}], [3, [3, [4]]], [7, [3, [4, 3]]])


def test_wrong_answers_belong_to_exercises():
    known = {(e.notebook, e.name) for e in EXERCISES}
    tables = [*WRONG.items(), *ALSO_RIGHT.items()]
    given = {(notebook, name) for notebook, table in tables for name in table}
    written = {e.notebook for e in EXERCISES}
    assert not {g for g in given - known if g[0] in written}
    assert set(NOT_READ) <= set(map(str, EXERCISES))


@pytest.mark.parametrize("notebook", sorted({e.notebook for e in EXERCISES}))
def test_every_checker_is_used_and_guarded(notebook):
    module = importlib.import_module(f"d2lperf.exercises.{notebook}")
    checks = {n: f for n, f in vars(module).items() if n.startswith("check_")}
    used = " ".join(e.parts["check"] for e in EXERCISES if e.notebook == notebook)
    assert not [n for n, f in checks.items() if not getattr(f, "is_checker", False)], "@checker"
    assert not [n for n in checks if f"{n}(" not in used], "no exercise uses these checkers"
    wrong = WRONG.get(notebook, {})
    names = [e.name for e in EXERCISES if e.notebook == notebook]
    assert not [n for n in names if len(wrong.get(n, [])) < 2], "CONTRIBUTING.md: two wrong answers"
