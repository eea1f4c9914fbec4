"""`python -m d2lperf explain script.py --step train_step`: its report, and its errors."""

import inspect
import re
import subprocess
import sys
from pathlib import Path
from textwrap import indent

import pytest
import torch
from clocks import FakeClock, SlowTorch, with_tools

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


def no_arguments():
    return weight @ weight


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
def script(tmp_path):
    path = tmp_path / "train.py"
    path.write_text(SCRIPT)
    return path


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


@pytest.mark.parametrize(
    "step, arguments, words",
    [
        ("trainstep", ["2"], "no such function at its top level.*Did you mean 'train_step'"),
        ("nested", ["2"], "defined inside another function. Move it"),
        ("train_step", [], "raised IndexError before train_step was called twice"),
        ("train_step", ["0"], "train_step needs 3 arguments, and train.py ended without calling"),
    ],
)
def test_errors_say_what_to_do(script, step, arguments, words):
    with pytest.raises(ScriptError, match=words):
        step_of(script, step, arguments)


DECORATED = """
import functools
import torch


def plain(function):
    def inner(*args, **kwargs):
        return function(*args, **kwargs)

    return inner


def wrapping(function):
    return functools.wraps(function)(plain(function))


{}

seen = []
for i in range(3):
    train_step(torch.ones(2), scale=i)
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
    "a bound method": (f"class Trainer:\n{METHOD}\ntrain_step = Trainer().train_step", True),
}


@pytest.mark.parametrize("defined, gradients", FORMS.values(), ids=FORMS)
def test_a_decorated_step_is_called_as_the_script_calls_it(tmp_path, defined, gradients):
    path = tmp_path / "train.py"
    path.write_text(DECORATED.format(defined))
    step = step_of(path, "train_step", [])
    assert torch.is_grad_enabled()
    step()
    seen = inspect.unwrap(step.func).__globals__["seen"]
    ((x, *rest), *more) = seen[1:]
    assert (x.tolist(), rest, more) == ([1.0, 1.0], [1, gradients], [])


@pytest.mark.parametrize("name", ["train_step", "Trainer.train_step"])
def test_a_method_is_told_from_a_nested_function(tmp_path, name):
    path = tmp_path / "train.py"
    path.write_text(
        "class Trainer:\n    def train_step(self):\n        pass\n\n\n"
        "trainer = Trainer()\nfor _ in range(3):\n    trainer.train_step()\n"
    )
    words = rf"{name} was asked for, but in train\.py it is a method of Trainer\. Add a function"
    with pytest.raises(ScriptError, match=words):
        step_of(path, name, [])


def test_a_decorated_step_that_is_not_called_has_its_own_arguments(tmp_path):
    path = tmp_path / "train.py"
    path.write_text("import torch\n\n\n@torch.no_grad()\ndef step(a, *, b, c=1):\n    pass\n")
    with pytest.raises(ScriptError, match=r"step needs 2 arguments, and train\.py ended without"):
        step_of(path, "step", [])


def test_a_script_that_ends_without_a_call(tmp_path):
    path = tmp_path / "train.py"
    path.write_text("def step(a, b):\n    pass\n\n\ndef plain():\n    return 3\n")
    assert step_of(path, "plain", [])() == 3
    with pytest.raises(ScriptError, match=r"step needs 2 arguments, and train\.py ended without"):
        step_of(path, "step", [])


def test_a_script_that_needs_arguments(tmp_path):
    path = tmp_path / "train.py"
    path.write_text(
        "import argparse\nparser = argparse.ArgumentParser()\n"
        "parser.add_argument('--epochs', required=True)\nparser.parse_args()\n"
    )
    words = r"train\.py ended with status 2 before step was called twice.*given: none.*after --"
    with pytest.raises(ScriptError, match=words):
        step_of(path, "step", [])


def test_a_script_that_is_not_there(capsys):
    assert main(["explain", "nowhere.py", "--step", "train_step"]) == 2
    assert "nowhere.py was asked for, but there is no such file" in capsys.readouterr().err


def test_an_accelerator_that_is_not_known(script, capsys):
    assert main(["explain", str(script), "--step", "no_arguments", "--device", "H100"]) == 2
    assert "Did you mean 'H100 SXM'?" in capsys.readouterr().err


def test_a_step_without_torch(tmp_path, capsys):
    path = tmp_path / "train.py"
    path.write_text("def step():\n    return 3\n")
    assert main(["explain", str(path), "--step", "step"]) == 2
    assert "it used no operation of torch" in capsys.readouterr().err


@pytest.mark.parametrize(
    "text, words",
    [
        ("def step():\n    while True: pass\n", "one call of step has not ended after 0.5 s"),
        ("while True: pass\n", "without a second call of step has not ended after 0.5 s"),
    ],
)
def test_what_never_ends(tmp_path, text, words):
    path = tmp_path / "train.py"
    path.write_text(text)
    command = [sys.executable, "-m", "d2lperf", "explain", str(path), "--step", "step"]
    run = subprocess.run([*command, "--limit", "0.5"], capture_output=True, text=True, timeout=120)
    assert run.returncode == 2
    assert words in run.stderr
    assert "(train.py:" in run.stderr


def test_what_ran_out_of_data(tmp_path, capsys):
    path = tmp_path / "train.py"
    path.write_text(
        "import torch\nbatches = iter([torch.ones(3)] * 2)\n\n\n"
        "def step():\n    return next(batches) + 1\n"
    )
    command = ["explain", str(path), "--step", "step", "--device", "H100 SXM"]
    assert main(command) == 2
    assert "its data came to an end" in capsys.readouterr().err


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
