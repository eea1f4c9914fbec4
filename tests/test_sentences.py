"""What notebooks 00 to 02 say of a result, whatever it is: their own cells, on made-up results."""

import itertools
import os
import re
from pathlib import Path

import matplotlib
import nbformat
import numpy as np
import pytest

matplotlib.use("Agg")

import torch
from matplotlib import pyplot as plt
from test_results import made

from d2lperf.results import format_seconds

FOLDER = Path(__file__).parents[1] / "notebooks"
OPEN = {"refusal": "made up"}  # a comparison in which nothing is decided
RATIO = {"faster": 0.8, "slower": 1.25, "no measurable difference": 1.0, "not decided": 0.8}


def run(number, marks, names):
    """Run the code cells that hold these marks, in order, in a namespace with these names."""
    (path,) = FOLDER.glob(f"{number}-*.ipynb")
    cells = [c for c in nbformat.read(path, as_version=4).cells if c.cell_type == "code"]
    for mark in marks:
        (cell,) = (c for c in cells if mark in c.source)
        exec(compile(cell.source, f"<notebook {number}>", "exec"), names)
    return names


def ranked(race, capsys):
    """The names after notebook 02's cell that puts the ways in order, and what it printed."""
    names = {"race": race, "overhead_s": {"network": 2e-5}, "itertools": itertools}
    run("02", ["order = rank[0]"], names)
    return names, capsys.readouterr().out


def said_here(names):
    """A `here` for a namespace, and the list of what was said through it."""
    said = []
    names["here"] = lambda *sentences: said.append(" ".join(sentences))
    return said


def race(verdicts, baseline="eager"):
    """A comparison with these verdicts: name -> verdict; one not decided makes all of them so."""
    ratios = {baseline: 1.0, **{name: RATIO[v] for name, v in verdicts.items()}}
    return made(ratios, **(OPEN if "not decided" in verdicts.values() else {}))


@pytest.fixture(autouse=True)
def quickly(monkeypatch):
    """Nothing is compiled (the comparisons are made up anyway), and no figure is shown."""
    monkeypatch.setattr(torch, "compile", lambda function, **options: function)
    monkeypatch.setattr(plt, "show", plt.close)
    monkeypatch.setenv("D2LPERF_STRICT", "1")


# ------------------------------------------------------------------------------- notebook 00


@pytest.mark.parametrize(
    "verdict, words",
    [
        # a fifth of 100 µs is saved; 9 calls of 5020 µs more than later ones were dear
        ("faster", "measured in turns: 20.0 µs, so the start-up is paid back after about 2,259"),
        ("slower", "nothing, so the start-up is never paid back."),
        ("no measurable difference", "turns: no measurable difference, so nobody can say when"),
        ("not decided", "turns: not decided, so nobody can say when"),
    ],
)
def test_payback_comes_from_the_comparison_and_not_from_two_loops(verdict, words):
    duel = race({"scripted": verdict})
    names = {"np": np, "format_seconds": format_seconds, "CALLS": 1000, "walk_s": 5e-6}
    # the two loops by themselves would say that scripting halves the time
    eager_s, scripted_s = np.full(1000, 1e-4), np.full(1000, 5e-5)
    scripted_s[:9] += 0.00502
    names |= {"eager_s": eager_s, "scripted_s": scripted_s, "duel": duel}
    names |= {"entry": duel["scripted"], "printed_ratio": 1.2, "totals_ratio": np.ones(1000)}
    said = said_here(names)
    run("00", ["scripted_extra ="], names)
    assert words in said[0]


# ------------------------------------------------------------------------------- notebook 01

KNOBS = "from d2lperf.exercises import nb01", "SEED = 1"  # its imports, and its own helpers


@pytest.mark.parametrize(
    "quads, last, words",
    [
        (20, 16, "from 8 quads to 16, 2 times the work"),
        (25, 24, "from 8 quads to 24, 3 times the work"),
        (260, 128, "from 8 quads to 128, 16 times the work"),
    ],
)
def test_no_more_quads_are_spoken_of_than_there_are(capsys, quads, last, words):
    names = run("01", KNOBS, {})
    said = said_here(names)
    names["quads"] = 0.01 * np.random.default_rng(0).standard_normal(quads)
    run("01", ["predicted_gain = ", "def half_width", "law = np", "gain = widths"], names)
    gain, printed = (last / 8) ** 0.5, capsys.readouterr().out
    assert f"from 8 quads to {last} quads: an interval {gain:.1f} times as narrow" in printed
    assert words in said[0] and f"The law says {gain:.1f};" in said[0]
    # what 0.1 % would take follows from the last interval that was measured
    needed = f"{last * (names['widths'][-1] / 0.001) ** 2:,.0f}"
    assert said[0].endswith(f"0.1 % would take about {needed} quads.")
    assert len(names["looks"]) == 9  # the simulation looks as often as its text says


def test_what_the_stopwatch_adds_is_held_against_the_prediction():
    names = run("01", KNOBS, {})
    said = said_here(names)
    names |= {"read_s": 44e-9, "one_by_one": [100e-9] * 5, "calls_s": np.full(5, 1e-4)}
    names["looped"] = type("Looped", (), {"median_s": 28e-9, "loops": 1000})
    run("01", ["empty_s, single_s"], names)
    assert "So the stopwatch adds 72.0 ns, predicted was 44.0 ns;" in said[0]


@pytest.mark.parametrize(
    "kind, returned_s, fails", [("cpu", 1.0, False), ("cuda", 0.1, False), ("cuda", 1.0, True)]
)
def test_calls_to_a_gpu_return_early(kind, returned_s, fails, monkeypatch):
    class Torch:
        randn = staticmethod(lambda *shape, device: np.ones((2, 2)))

    names = {"JOBS": 20, "device": torch.device(kind), "torch": Torch, "os": os}
    names |= {"synchronize": None, "percent": lambda *a: "part", "format_seconds": format_seconds}
    tries = iter([(2.0, 2.0), (returned_s, 1.0), (3.0, 3.0)])  # one of three was not disturbed
    names["two_readings"] = lambda *arguments: next(tries)
    said = said_here(names)
    if fails:
        with pytest.raises(AssertionError):
            run("01", ["side = 512"], names)
        monkeypatch.setenv("D2LPERF_STRICT", "0")  # never on a reader
        tries = iter([(1.0, 1.0)] * 3)
    run("01", ["side = 512"], names)
    assert "were done after 1.00 s" in said[0]
    assert ("without a wait" in said[0]) == (kind == "cuda")


# ------------------------------------------------------------------------------- notebook 02


def test_the_order_is_that_of_the_ratios_and_shows_what_is_open(capsys):
    ratios = {"eager": 1.0, "captured only": 1.5, "frozen": 0.803, "scripted": 0.8}
    names, said = ranked(made(ratios), capsys)
    assert "claim borne out: captured only is slower than eager" in said
    assert "from fast to slow: scripted = frozen, eager, captured only\n" in said
    assert "adds to a call: +50.0 µs\n" in said and names["guards_s"] == pytest.approx(5e-5)

    disturbed = made(ratios)  # medians that another program has moved do not change the order
    disturbed.samples["scripted"] = [1.0] * 5
    assert "from fast to slow: scripted = frozen, eager" in ranked(disturbed, capsys)[1]

    _, said = ranked(made(ratios, **OPEN), capsys)
    assert "claim not decided here: captured only" in said
    assert "from fast to slow: scripted ? frozen ? eager ? captured only\n" in said
    assert "adds to a call: not decided\n" in said


@pytest.mark.parametrize(
    "given, single, expected",
    [
        (
            "no measurable difference",
            "faster",
            ("no measurable difference", "+20.0 µs", "+20.0 µs"),
        ),
        ("slower", "faster", ("-25.0 µs", "+20.0 µs", "+45.0 µs")),
        ("not decided", "faster", ("not decided", "not decided", "not decided")),
    ],
)
def test_what_the_suspects_leave_over_is_computed(capsys, given, single, expected):
    names, _ = ranked(made({"eager": 1.0, "captured only": 1.5}), capsys)
    found = race({"output given": given, "one operation": single}, baseline="compiled")
    names |= {"compiler_works": True, "torch": torch, "z": torch.ones(8), "out": torch.ones(8)}
    names |= {"chain": lambda z: z * 3, "fused": None, "bandwidth": 64 / 6e-5}
    names["compare"] = lambda suspects, **options: found
    run("02", ["suspects ="], names)
    said = capsys.readouterr().out
    assert "the compiled chain takes +40.0 µs beyond" in said
    for what, value in zip(("allocating", "five more operations", "neither of the two"), expected):
        assert f"due to {what}: {value}." in said


PRODUCT = {"output given": "no measurable difference", "eager, then guards": "slower"}


def product(capsys, found):
    """What notebook 02 prints of a comparison of products."""
    names, _ = ranked(made({"eager": 1.0, "captured only": 1.5}), capsys)
    names |= {"compiler_works": True, "torch": torch, "os": os, "a": torch.ones(2, 2)}
    names |= {"predicted_ratio": 1.0, "guarded": None, "little": None, "product_guards_s": 2e-5}
    names["compare"] = lambda functions, **options: found
    run("02", ["products = compare(", "product_s ="], names)
    return capsys.readouterr().out


@pytest.mark.parametrize(
    "verdicts, words",
    [
        (
            {"compiled": "no measurable difference", **PRODUCT},
            [
                "claim borne out: compiling saves less than a tenth",
                "lies inside the interval",
                "change by compiling: no measurable difference.",
                "guards behind a product: +25.0 µs.",
                "change by giving the output: no measurable difference.",
            ],
        ),
        (
            {"compiled": "slower", **PRODUCT},
            [
                "claim borne out: compiling saves less than a tenth",
                "lies outside the interval",
                "change by compiling: +25.0 µs, a loss, and the guards explain it.",
            ],
        ),
        (
            {"compiled": "slower", "output given": "faster", "eager, then guards": "faster"},
            ["guards alone do not explain it", "behind a product: -20.0 µs", "output: -20.0 µs."],
        ),
        (
            {"compiled": "not decided", **PRODUCT},
            [
                "claim not decided here: compiling saves less than a tenth",
                "change by compiling: not decided.",
                "guards behind a product: not decided.",
                "change by giving the output: not decided.",
            ],
        ),
    ],
)
def test_the_product_is_given_a_number_only_with_a_verdict(capsys, verdicts, words):
    said = product(capsys, race(verdicts))
    for text in words:
        assert text in said


def test_a_loss_smaller_than_the_guards(capsys):
    found = {"eager": 1.0, "compiled": 1.1, "output given": 1.0, "eager, then guards": 1.3}
    assert "+10.0 µs, a loss, and a smaller one than guards alone" in product(capsys, made(found))


@pytest.mark.parametrize("ratio, contradicted", [(0.8, True), (0.95, False), (1.05, False)])
def test_only_a_clear_gain_contradicts_the_claim_about_the_product(
    capsys, monkeypatch, ratio, contradicted
):
    others = {"output given": 1.0, "eager, then guards": 1.0}
    found = made({"eager": 1.0, "compiled": ratio, **others})
    monkeypatch.setenv("D2LPERF_STRICT", "0")
    outcome = "contradicted" if contradicted else "borne out"
    assert f"claim {outcome}: compiling saves less than" in product(capsys, found)
    monkeypatch.setenv("D2LPERF_STRICT", "1")
    if contradicted:
        with pytest.raises(AssertionError):
            product(capsys, found)


@pytest.mark.parametrize(
    "verdict, words",
    [
        ("faster", "after 50,001 calls"),  # 1.00001 s at 20 µs
        ("slower", "never"),
        ("no measurable difference", "no measurable difference"),
        ("not decided", "not decided"),
    ],
)
def test_break_even_follows_the_verdict(capsys, verdict, words):
    others = {"captured only": "slower"}
    names = {"race": race({"scripted": verdict, **others}), "chains": race({"compiled": verdict})}
    names |= {"build_s": {"scripted": 1.00001, "chain": 1.00001}, "base_s": 1e-4, "one_off_s": 0.03}
    names |= {"compiler_works": True, "first_use": type("Use", (), {"elapsed_s": 9.0})}
    run("02", ["def calls_needed"], names)
    said = capsys.readouterr().out
    for label in ("network, scripted", "chain, compiled"):
        assert re.search(rf"^{label} +built in +1\.000 s   On this machine: {words}$", said, re.M)
