"""Importing the package: what it offers, what it leaves alone, and what a typo gets."""

import ast
import inspect
import json
from pathlib import Path

import pytest
from fresh import run_fresh

import d2lperf

HEAVY = ["matplotlib", "pandas", "IPython", "d2l", "sklearn", "torchvision", "scipy", "networkx"]
HEAVY += ["psutil", "tqdm", "requests", "pooch", "statistics", "torch.distributed.nn"]


def run(code: str) -> str:
    """Run code in a fresh process and give what it prints."""
    done = run_fresh(code)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_import_loads_nothing_but_the_list_of_names():
    code = """
import json, sys
import torch
before = set(sys.modules)
import d2lperf
print(json.dumps(sorted(set(sys.modules) - before)))
"""
    assert json.loads(run(code)) == ["d2lperf", "d2lperf._messages", "d2lperf._version"]


def test_what_every_notebook_imports_loads_nothing_heavy():
    code = f"""
import json, sys
import torch
before = set(sys.modules)
from d2lperf import Benchmark, compare, describe_machine, measure, predict, record, try_gpu
found = [m for m in {HEAVY} if m in sys.modules and m not in before]
from d2lperf import *
print(json.dumps([found, plot.__name__, Benchmark.__name__, split_batch.__name__]))
"""
    assert json.loads(run(code)) == [[], "plot", "Benchmark", "split_batch"]


def test_public_names_are_sorted_documented_and_listed():
    names = d2lperf.__all__
    assert names == sorted(set(names)) and set(names) <= set(dir(d2lperf))
    for name in names:
        assert inspect.getdoc(getattr(d2lperf, name)), name


def test_instruments_are_no_argument_of_what_is_public():
    """Tests choose clocks by a context; users need not see them."""
    public = [getattr(d2lperf, name) for name in d2lperf.__all__]
    public += [getattr(thing, n) for thing in public for n in dir(thing) if not n.startswith("_")]
    functions = [t for t in public if inspect.isfunction(t) or inspect.ismethod(t)]
    functions += [inspect.unwrap(thing.__init__) for thing in public if inspect.isclass(thing)]
    assert len(functions) > 100
    taken = {name for fn in functions for name in inspect.signature(fn).parameters}
    assert "budget_s" in taken and "instruments" not in taken


def test_help_begins_with_one_screen_of_names():
    screen = inspect.getdoc(d2lperf).splitlines()
    assert len(screen) <= 50
    assert max(map(len, screen)) <= 100
    said = [line.strip().split("  ")[0] for line in screen if line.startswith("    ")]
    said = [name for line in said for name in line.split(", ")]
    assert sorted(said) == d2lperf.__all__


@pytest.mark.parametrize(
    ("code", "names"),
    [
        ("pydoc.render_doc(d2lperf)", ["d2l", "torchvision"]),
        ("hasattr(d2lperf, 'Animatr'), dir(d2lperf)", ["d2l", "torchvision", *HEAVY[:2]]),
    ],
    ids=["help", "typo"],
)
def test_help_and_typos_do_not_import_the_book(code, names):
    loaded = f"print([name for name in {names} if name in sys.modules])"
    assert run(f"import sys, pydoc, d2lperf; {code}; {loaded}") == "[]\n"


@pytest.mark.parametrize(
    ("typo", "meant"),
    [
        ("benchmrk", "Benchmark"),
        ("animator", "Animator"),
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


@pytest.mark.parametrize("room", ["plotting.book", "processes.launch"])
def test_launch_and_plot_are_functions_whatever_was_imported_before(room):
    code = f"import d2lperf.{room}, inspect; from d2lperf import launch, plot"
    assert run(f"{code}; print(inspect.isfunction(launch), inspect.isfunction(plot))") == (
        "True True\n"
    )


@pytest.mark.parametrize(("share", "budget_s"), [(None, 0.5), ("0.3", 0.15)])
def test_default_budgets_are_shortened_by_one_setting(share, budget_s, monkeypatch):
    if share:
        monkeypatch.setenv("D2LPERF_BUDGET", share)
    else:
        monkeypatch.delenv("D2LPERF_BUDGET", raising=False)
    run = run_fresh(
        "import d2lperf, inspect; print(inspect.signature(d2lperf.measure).parameters['budget_s'])"
    )
    assert run.stdout == f"budget_s: 'float' = {budget_s}\n"


def test_a_type_checker_reads_the_names_that_are_imported_at_first_use():
    tree = ast.parse(Path(d2lperf.__file__).read_text(encoding="utf-8"))
    (block,) = (n for n in tree.body if isinstance(n, ast.If))
    taken = [(n.module.split(".")[1:2], a.name) for n in block.body for a in n.names]
    homes = [([home], name) for home, names in d2lperf._HOMES.items() for name in names]
    assert sorted(taken) == sorted([([], "plotting"), *homes])
    assert (Path(d2lperf.__file__).parent / "py.typed").exists()
