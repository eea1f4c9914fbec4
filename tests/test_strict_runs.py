"""benchmarks/strict_runs.py: failures and late notebooks are told, by a run that is made up."""

from __future__ import annotations

from pathlib import Path

import pytest
import strict_runs as strict
from clocks import FakeClock


def made_up(clock, seconds, fails_in=()):
    calls = []

    def run(path):
        calls.append(path.name)
        clock.now += seconds
        return len(calls) not in fails_in, f"what {path.name} said"

    return run


@pytest.mark.parametrize(
    "seconds, fails_in, quiet, status",
    [(60, (), True, 0), (60, (3,), True, 1), (95, (), True, 1), (95, (), False, 0)],
)
def test_a_failure_or_a_late_notebook_is_told(capsys, seconds, fails_in, quiet, status):
    clock = FakeClock()
    paths = [Path("00-a.ipynb"), Path("01-b.ipynb")]
    took, failures = strict.rounds(paths, 2, made_up(clock, seconds, fails_in), clock)
    assert took == {"00-a.ipynb": [seconds] * 2, "01-b.ipynb": [seconds] * 2}
    assert strict.verdict(took, failures, quiet) == status
    printed = capsys.readouterr().out
    assert f"{4 - len(fails_in)} of 4 runs passed" in printed
    assert ("what 00-a.ipynb said" in printed) == bool(fails_in)


def test_notebooks_with_processes_may_take_longer():
    assert strict.verdict({"07-c.ipynb": [110.0]}, [], quiet=True) == 0
    assert strict.verdict({"06-c.ipynb": [110.0]}, [], quiet=True) == 1


def test_an_unknown_notebook_is_told(tmp_path):
    (tmp_path / "00-a.ipynb").touch()
    (tmp_path / "01-b.ipynb").touch()
    assert [p.name for p in strict.chosen(["01"], tmp_path)] == ["01-b.ipynb"]
    assert len(strict.chosen([], tmp_path)) == 2
    with pytest.raises(FileNotFoundError, match=r"no notebook 77 .*there are 00, 01"):
        strict.chosen(["77"], tmp_path)


def test_the_strict_run_is_the_tests_own(tmp_path):
    """A notebook that is not there fails, with pytest's own words."""
    passed, said = strict.strictly(tmp_path / "77-none.ipynb")
    assert not passed and "77-none.ipynb" in said
