"""`python -m d2lperf explain script.py --step train_step`: its report, and its errors."""

import inspect
import re
import sys
from pathlib import Path
from textwrap import indent

import pytest
import torch
from clocks import FakeClock, SlowTorch, with_tools
from fresh import run_python

from d2lperf import Ceilings, explain
from d2lperf.__main__ import main, summary
from d2lperf.explaining.script import ScriptError, step_of

NOTEBOOKS = Path(__file__).parents[1] / "notebooks"
MADE = Ceilings({"float32": 1e11}, {"triad": 2e10}, 2e-6, functions=1e9)
SCRIPT = """
import sys
import torch

weight = torch.nn.Parameter(torch.ones(64, 64))
optimizer = torch.optim.SGD([weight], lr=0.1)


def train_step(x, y, /, scale=1.0, *more, power, **others):
    seen.append((x, y, scale, more, power, others))
    print("a step")
    optimizer.zero_grad()
    (weight @ x).sum().backward()
    optimizer.step()


def outer():
    def nested():
        pass

    nested()


seen = []
if __name__ == "__main__":
    outer()
    steps = int(sys.argv[1])
    for i in range(steps):
        train_step(torch.ones(64, 64), i, 2.0, 3, 4, power=5, why=6)
    sys.exit(steps if steps == 1 else 0)
"""


@pytest.fixture
def script_with(tmp_path):
    """Write a script with this text; returns its path."""

    def write(text):
        path = tmp_path / "train.py"
        path.write_text(text)
        return path

    return write


@pytest.fixture
def script(script_with):
    return script_with(SCRIPT)


def test_a_step_gets_the_arguments_of_its_second_call(script):
    before = list(sys.path), list(sys.argv)
    step = step_of(script, "train_step", ["10"])
    seen = step.func.__globals__["seen"]
    assert len(seen) == 1  # the second call was stopped before its first line
    step()
    (x, *rest) = seen[1]
    assert x.shape == (64, 64)
    assert rest == [1, 2.0, (3, 4), 5, {"why": 6}]
    assert (sys.path, sys.argv) == before


def test_the_report(script, capsys, monkeypatch):
    # Overhead limits every operation, so a call with less of it helps, however long each takes.
    costly_calls = Ceilings({"float32": 1e11}, {"triad": 2e10}, 1e-3, functions=1e9)
    explaining = sys.modules["d2lperf.explaining.explain"]
    monkeypatch.setattr(explaining, "measure_ceilings", lambda device: costly_calls)
    assert main(["explain", str(script), "--step", "train_step", "--", "5"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("processor")
    for words in ("one call of train_step: ", "waiting, ", "limit: ", "1. ", "put back: "):
        assert words in out
    assert "a step" not in out


@pytest.mark.parametrize("name", ["train_slow", "train_fast"])
def test_the_report_of_the_courses_scripts(tmp_path, capsys, monkeypatch, name):
    """They run as they are, but with a smaller model: bfloat16 is slow without units for it."""
    sizes = "STEPS, BATCH, CONTEXT, WIDTH, HEADS, LAYERS = "
    text = (NOTEBOOKS / f"{name}.py").read_text(encoding="utf-8")
    small = tmp_path / f"{name}.py"
    small.write_text(re.sub(f"{sizes}.*", f"{sizes}300, 2, 8, 32, 2, 1", text), encoding="utf-8")
    ceilings = Ceilings({"float32": 1e11, "bfloat16": 1e11}, {"triad": 2e10}, 2e-6, functions=1e9)
    explaining = sys.modules["d2lperf.explaining.explain"]
    monkeypatch.setattr(explaining, "measure_ceilings", lambda device: ceilings)
    assert main(["explain", str(small), "--step", "train_step"]) == 0
    out = capsys.readouterr().out
    for words in ("one call of train_step: ", "waiting, ", "limit: ", "put back: ", "AdamW"):
        assert words in out
    assert "spread of activations" not in out


def test_a_report_for_an_accelerator(script, capsys):
    command = ["explain", str(script), "--step", "train_step", "--device", "H100 SXM", "--", "5"]
    assert main(command) == 0
    assert "on an NVIDIA H100 SXM by its data sheet" in capsys.readouterr().out


TRAINER = """
class Trainer:
    def train_step(self):
        pass

trainer = Trainer()
for _ in range(3):
    trainer.train_step()
"""
NEEDS_EPOCHS = """
import argparse
parser = argparse.ArgumentParser()
parser.add_argument("--epochs", required=True)
parser.parse_args()
"""
PARTIAL = """
from functools import partial
step = partial(lambda x, y: None, 1)
for i in range(3):
    step(i)
"""
NOT_CALLED = "import torch\n\n@torch.no_grad()\ndef step(a, *, b, c=1):\n    pass\n"
UNCALLED = r"arguments, and train\.py ended without"
ENDED = r"train\.py ended with status 2 before step was called twice.*given: none.*after --"
METHOD_OF = r"was asked for, but in train\.py it is a method of Trainer\. Add a function"


ERRORS = {
    "typo": (SCRIPT, "trainstep 2", "no such function at its top level.*Did you mean 'train_step'"),
    "nested": (SCRIPT, "nested 2", "defined inside another function. Move it"),
    "raises": (SCRIPT, "train_step", "raised IndexError before train_step was called twice"),
    "not called": (SCRIPT, "train_step 0", f"train_step needs 3 {UNCALLED} calling"),
    "two arguments": ("def step(a, b):\n    pass\n", "step", f"step needs 2 {UNCALLED}"),
    "decorated": (NOT_CALLED, "step", f"step needs 2 {UNCALLED}"),
    "method": (TRAINER, "train_step", f"train_step {METHOD_OF}"),
    "dotted method": (TRAINER, "Trainer.train_step", rf"Trainer\.train_step {METHOD_OF}"),
    "script needs arguments": (NEEDS_EPOCHS, "step", ENDED),
    "no Python": (PARTIAL, "step", "it is a partial: only calls of functions that are written in"),
}


@pytest.mark.parametrize("text, command, words", ERRORS.values(), ids=ERRORS)
def test_errors_say_what_to_do(script_with, text, command, words):
    step, *arguments = command.split()
    with pytest.raises(ScriptError, match=words):
        step_of(script_with(text), step, arguments)


def test_a_step_that_is_never_called_needs_no_arguments(script_with):
    assert step_of(script_with("def plain():\n    return 3\n"), "plain", [])() == 3


DECORATED = """
import functools
import torch


def plain(function):
    def inner(*args, **kwargs):
        return function(*args, **kwargs)

    return inner


def wrapping(function):
    return functools.wraps(function)(plain(function))


class Timed:
    def __init__(self, function):
        self.function, self.__globals__ = function, function.__globals__

    def __call__(self, *args, **kwargs):
        return self.function(*args, **kwargs)


@plain
def load(i):
    return torch.ones(2)


{}

seen = []
for i in range(3):
    train_step(load(i), scale=i)
"""
STEP = """\
def train_step(x, scale=1):
    seen.append((x, scale, torch.is_grad_enabled()))
"""
INNER = indent(STEP, "    ")
METHOD = INNER.replace("(x, scale=", "(self, x, scale=")
FORMS = {
    "no_grad": ("@torch.no_grad()\n" + STEP, False),
    "two decorators": ("@wrapping\n@torch.no_grad()\n" + STEP, False),
    "functools.wraps": ("@wrapping\n" + STEP, True),
    "no functools.wraps": ("@plain\n" + STEP, True),
    "compiled": ("@torch.compile(backend='eager')\n" + STEP, True),
    "a closure": (f"def make():\n{INNER}\n    return train_step\ntrain_step = make()", True),
    "a wrapped bound method": (
        f"class Trainer:\n{METHOD}\ntrain_step = torch.no_grad()(Trainer().train_step)",
        False,
    ),
    "a class as its decorator": ("@Timed\n" + STEP, True),
    "a lambda": (
        "train_step = lambda x, scale: seen.append((x, scale, torch.is_grad_enabled()))",
        True,
    ),
    "a bound method": (f"class Trainer:\n{METHOD}\ntrain_step = Trainer().train_step", True),
}


@pytest.mark.parametrize("defined, gradients", FORMS.values(), ids=FORMS)
def test_a_decorated_step_is_called_as_the_script_calls_it(script_with, defined, gradients):
    step = step_of(script_with(DECORATED.format(defined)), "train_step", [])
    assert torch.is_grad_enabled()
    step()
    seen = inspect.unwrap(step.func).__globals__["seen"]
    ((x, *rest), *more) = seen[1:]
    assert (x.tolist(), rest, more) == ([1.0, 1.0], [1, gradients], [])


@pytest.mark.parametrize(
    "imported, name",
    [("train_step", "train_step"), ("train_step as step", "step"), ("decorated", "decorated")],
)
def test_a_step_may_be_imported(script_with, tmp_path, imported, name):
    module = f"steps_{name}"  # modules stay imported
    text = f"import torch\nseen = []\n{STEP}\ndecorated = torch.no_grad()(train_step)\n"
    (tmp_path / f"{module}.py").write_text(text)
    calls = f"for i in range(5):\n    {name}(i, scale=2)\n"
    step = step_of(script_with(f"from {module} import {imported}\n{calls}"), name, [])
    step()
    gradients = name != "decorated"
    assert sys.modules.pop(module).seen == [(i, 2, gradients) for i in range(2)]


def test_only_the_step_itself_counts(script_with, tmp_path):
    """Not another file's function of its line, nor another object's method, nor an earlier one."""
    (tmp_path / "helpers_of_steps.py").write_text("def step(x):\n    pass\n")
    text = """def step(x):
    seen.append(x)
import helpers_of_steps
class Trainer:
    def step(self, x):
        seen.append(x)
seen, trainer, other, earlier = [], Trainer(), Trainer(), step
for i in range(3):
    helpers_of_steps.step("of another file")
    step = trainer.step
    earlier("replaced")
    other.step("of another object")
    step(i)
"""
    step = step_of(script_with(text), "step", [])
    del sys.modules["helpers_of_steps"]
    assert step.args == (1,)


def test_a_step_whose_closure_is_empty_by_now(script_with):
    text = """def make():
    def step(x):
        return x or error
    try:
        1 / 0
    except ZeroDivisionError as error:
        pass
    return step
step = make()
for i in range(3):
    step(i + 1)
"""
    assert step_of(script_with(text), "step", []).args == (2,)


def test_a_bound_method_of_a_class_that_decorates_it(script_with):
    text = """import functools
class Trainer:
    def plain(function):
        @functools.wraps(function)
        def wrapper(*args):
            return function(*args)
        return wrapper
    @plain
    def train_step(self, x):
        return x
train_step = Trainer().train_step
for i in range(3):
    train_step(i)
"""
    assert step_of(script_with(text), "train_step", [])() == 1


@pytest.mark.parametrize(
    "text, words",
    [
        ("def step():\n    while True: pass\n", "one call of step has not ended after 0.5 s"),
        ("while True: pass\n", "without a second call of step has not ended after 0.5 s"),
    ],
)
def test_what_never_ends(script_with, text, words):
    command = ["-m", "d2lperf", "explain", script_with(text), "--step", "step", "--limit", "0.5"]
    run = run_python(*command)
    assert run.returncode == 2
    assert words in run.stderr
    assert "(train.py:" in run.stderr


NO_TORCH = "def step():\n    return 3\n"
TWO_BATCHES = """
import torch
batches = iter([torch.ones(3)] * 2)

def step():
    return next(batches) + 1
"""


@pytest.mark.parametrize(
    "text, options, words",
    [
        ("", [], "nowhere.py was asked for, but there is no such file"),
        (NO_TORCH, ["--device", "H100"], "no data sheet of 'H100' .*Did you mean 'H100 SXM'"),
        (NO_TORCH, [], "it used no operation of torch"),
        (TWO_BATCHES, ["--device", "H100 SXM"], "its data came to an end"),
    ],
    ids=["no file", "unknown accelerator", "no torch", "out of data"],
)
def test_what_cannot_be_explained_is_told(script_with, capsys, text, options, words):
    path = script_with(text) if text else "nowhere.py"
    assert main(["explain", str(path), "--step", "step", *options]) == 2
    assert re.search(words, capsys.readouterr().err)


def test_three_levers_at_most():
    x = torch.ones(2**16)
    found = explain(lambda: x.sort()[0].exp().relu() @ x, ceilings=MADE, measured=False)
    lines = summary(found, "step")
    assert sum("at most" in line for line in lines) <= 3


@pytest.mark.parametrize("times", [1.9, 2.1])
def test_where_the_ceilings_explain_less_than_half_a_profile_comes_before_the_levers(times):
    clock, x = FakeClock(), torch.ones(256, 256)
    faster = Ceilings({"float32": 1e11, "bfloat16": 3e11}, {"triad": 2e10}, 2e-6, functions=1e9)
    with SlowTorch(clock, {"mm": times * 2 * 256**3 / 1e11}):
        found = with_tools(clock.instruments(), explain, lambda: x @ x, ceilings=faster)
    *_, before, lever = summary(found, "step")
    assert lever.startswith("1. products in bfloat16")
    warning = "the ceilings explain 48% of the time: look at a profile (torch.profiler) first"
    assert before == (warning if times > 2 else "limit: compute")
    assert found.help.endswith(warning) == (times > 2)


def test_where_nothing_helps_there_is_no_lever():
    x = torch.ones(256, 256)
    found = explain(lambda: x @ x, ceilings=MADE, measured=False)
    assert summary(found, "step")[1:] == ["limit: compute"]
