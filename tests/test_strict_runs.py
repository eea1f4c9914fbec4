"""benchmarks/strict_runs.py: failures and late notebooks are reported, shown on a made-up run."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

import pytest
import strict_runs as strict
from clocks import FakeClock
from fresh import run_fresh

from d2lperf import compare


def made_up(clock, seconds, fails_in=()):
    calls = []

    def run(path):
        calls.append(path.name)
        clock.now += seconds
        claims = [("borne out" if len(calls) % 2 else "not decided", f"{path.name} is fast")]
        return len(calls) not in fails_in, f"what {path.name} said", claims

    return run


@pytest.mark.parametrize(
    "seconds, fails_in, quiet, status",
    [(60, (), False, 0), (60, (3,), False, 1), (95, (), True, 1), (95, (), False, 0)],
)
def test_a_failure_or_a_late_notebook_is_told(capsys, seconds, fails_in, quiet, status):
    clock = FakeClock()
    paths = [Path("00-a.ipynb"), Path("01-b.ipynb")]
    took, failures, claims = strict.rounds(paths, 2, made_up(clock, seconds, fails_in), clock)
    assert claims == {
        ("00-a.ipynb", "00-a.ipynb is fast"): Counter({"borne out": 2}),
        ("01-b.ipynb", "01-b.ipynb is fast"): Counter({"not decided": 2}),
    }
    assert took == {"00-a.ipynb": [seconds] * 2, "01-b.ipynb": [seconds] * 2}
    assert strict.verdict(took, failures, claims, quiet) == status
    printed = capsys.readouterr().out
    assert f"{4 - len(fails_in)} of 4 runs passed" in printed
    assert ("what 00-a.ipynb said" in printed) == bool(fails_in)


@pytest.mark.parametrize(
    "outcomes, quiet, status",
    [
        ({"borne out": 1, "not decided": 4}, True, 0),
        ({"not decided": 5}, True, 1),
        ({"not decided": 5}, False, 0),
    ],
)
def test_a_claim_that_is_never_borne_out_is_told(capsys, outcomes, quiet, status):
    claims = {("00-a.ipynb", "x is faster than y"): Counter(outcomes)}
    assert strict.verdict({"00-a.ipynb": [1.0] * 5}, [], claims, quiet) == status
    held = outcomes.get("borne out", 0)
    assert f"| 00-a.ipynb | x is faster than y | {held} in 5 runs | " in capsys.readouterr().out


def test_claims_are_noted_where_it_is_asked(monkeypatch, tmp_path, capsys):
    functions = {"one": lambda: sum(range(300)), "three": lambda: sum(range(900))}
    found = compare(functions, check=False, budget_s=1)
    found.expect("one", faster_than="three")
    assert os.listdir(tmp_path) == []
    monkeypatch.setenv("D2LPERF_CLAIMS", str(tmp_path / "claims.txt"))
    outcome = found.expect("one", faster_than="three").outcome
    found.expect("one", faster_than="three")
    lines = (tmp_path / "claims.txt").read_text(encoding="utf-8").splitlines()
    assert [strict.claim(line)[1] for line in lines] == ["one is faster than three"] * 2
    assert strict.claim(lines[0])[0] == outcome
    monkeypatch.setenv("D2LPERF_CLAIMS", str(tmp_path / "none" / "claims.txt"))
    assert found.expect("one", faster_than="three").outcome == outcome  # nothing is lost by it


@pytest.mark.parametrize(("share", "budget_s"), [(None, 0.5), ("0.3", 0.15)])
def test_default_budgets_are_shortened_by_one_setting(share, budget_s, monkeypatch):
    if share:
        monkeypatch.setenv("D2LPERF_BUDGET", share)
    else:
        monkeypatch.delenv("D2LPERF_BUDGET", raising=False)
    code = (
        "import d2lperf, inspect; print(inspect.signature(d2lperf.measure).parameters['budget_s'])"
    )
    run = run_fresh(code)
    assert run.stdout == f"budget_s: 'float' = {budget_s}\n"
