"""Importing the package: what it offers, what it leaves alone, and what a typo gets."""

import importlib
import inspect
import json
import os
import pickle
import subprocess
import sys
from pathlib import Path

import pytest

import d2lperf

ROOT = Path(__file__).parent.parent
HEAVY = [
    "matplotlib",
    "pandas",
    "IPython",
    "d2l",
    "sklearn",
    "torchvision",
    "scipy",
    "cloudpickle",
    "loky",
    "psutil",
    "tqdm",
    "requests",
]


def run(code: str, **env: str) -> str:
    """Run code in a fresh process, where this package can be imported, and give what it prints."""
    path = os.pathsep.join([env.pop("first", str(ROOT)), str(ROOT)])
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": path, **env},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_import_and_star_import_load_nothing_heavy():
    code = f"""
import json, sys
import torch
before = set(sys.modules)
import d2lperf
once = [m for m in {HEAVY} if m in sys.modules and m not in before]
from d2lperf import *
twice = [m for m in {HEAVY} if m in sys.modules and m not in before]
print(json.dumps([once, twice, plot.__name__, Benchmark.__name__, digits.__name__]))
"""
    assert json.loads(run(code)) == [[], [], "d2lperf.plot", "Benchmark", "digits"]


# What `import d2lperf` may add to `import torch`: our own modules behind the plain names, and of
# Python's own library a few that torch does not use.
OURS = ["_version", "benchmark", "device", "results", "stats"]
ADDED = {"d2lperf", *(f"d2lperf.{module}" for module in OURS)}
STANDARD = {"html", "html.entities", "statistics", "_statistics", "fractions", "decimal"}
STANDARD |= {"_decimal", "_pydecimal", "numbers"}


def test_import_adds_few_modules_to_torchs():
    code = """
import json, sys
import torch
before = set(sys.modules)
import d2lperf
print(json.dumps(sorted(set(sys.modules) - before)))
"""
    added = set(json.loads(run(code)))
    assert {m for m in added if m.startswith("d2lperf")} == ADDED
    assert added - ADDED <= STANDARD


@pytest.mark.parametrize("name", d2lperf.__all__)
def test_every_public_name_is_there_and_listed(name):
    assert getattr(d2lperf, name) is not None
    assert name in dir(d2lperf)


def test_public_names_are_sorted_and_documented():
    names = d2lperf.__all__
    assert names == sorted(set(names))
    for name in names:
        value = getattr(d2lperf, name)
        assert isinstance(value, str) or inspect.getdoc(value), name


@pytest.mark.parametrize("module", ["book", "data", "magics", "plot", "stats", "exercises"])
def test_modules_are_found_as_attributes(module):
    assert getattr(d2lperf, module) is importlib.import_module(f"d2lperf.{module}")
    assert module in dir(d2lperf)


@pytest.mark.parametrize(
    ("typo", "meant"),
    [
        ("benchmrk", "Benchmark"),
        ("try_gpus", "try_gpu"),
        ("animator", "Animator"),
        ("compere", "compare"),
        ("load_data_fashion_minst", "load_data_fashion_mnist"),
    ],
)
def test_a_typo_is_an_attribute_error_that_helps(typo, meant):
    with pytest.raises(AttributeError, match=rf"no attribute '{typo}'. Did you mean '{meant}'\?"):
        getattr(d2lperf, typo)


def test_a_name_that_is_nothing_like_ours_points_to_the_rest_of_the_book():
    with pytest.raises(AttributeError, match=r"d2lperf\.book\.load\(\)"):
        d2lperf.MultiHeadAttention  # noqa: B018
    assert not hasattr(d2lperf, "nonsense")
    assert not hasattr(d2lperf, "__wrapped__")


def test_typos_do_not_import_the_book():
    code = """
import sys, d2lperf
hasattr(d2lperf, "Animatr"), dir(d2lperf)
print([m for m in ("d2l", "torchvision", "matplotlib", "pandas") if m in sys.modules])
"""
    assert run(code) == "[]\n"


@pytest.mark.parametrize("first", ["d2lperf.plot", "from d2lperf.plot import distributions", ""])
def test_plot_is_a_function_and_a_module_in_any_order_of_imports(first):
    code = f"import d2lperf as d2l\nif {first!r}: exec({first!r})\n" if first else ""
    namespace = {}
    exec(code.replace("exec('d2lperf.plot')", "import d2lperf.plot"), namespace)
    from d2lperf import plot as module

    assert callable(d2lperf.plot)
    assert d2lperf.plot is module is importlib.import_module("d2lperf.plot")
    assert inspect.ismodule(module)
    assert inspect.signature(d2lperf.plot) == inspect.signature(module.plot)
    assert pickle.loads(pickle.dumps(module)) is module


def test_version_is_a_number():
    assert [part.isdigit() for part in d2lperf.__version__.split(".")[:2]] == [True, True]
