"""`make colab` without the environment: a stand-in plays git, Jupyter and pip."""

import json
from datetime import datetime, timedelta, timezone

import colab
import pytest
from environments import Failed

BEGAN = datetime(2026, 1, 2, 3, 4, 5, tzinfo=timezone.utc)
NAMES = ("00-start-here.ipynb", "01-measuring.ipynb", "02-compilers.ipynb")


def executed(setup_s):
    """A notebook as jupyter-execute stores it: its set-up cell took so long."""
    began, ended = (
        (BEGAN + timedelta(seconds=s)).isoformat().replace("+00:00", "Z") for s in (0, setup_s)
    )
    ran = {"iopub.execute_input": began, "shell.execute_reply": ended}
    cells = [
        {"metadata": {}},
        {"metadata": {"tags": ["setup", "hide-input"], "execution": ran}},
        {"metadata": {"tags": ["hide-input"]}},
    ]
    return json.dumps({"cells": cells})


@pytest.fixture
def stand_in(monkeypatch):
    """What each notebook does: the seconds of its set-up cell or an error; a package it brings."""
    took, brings = dict.fromkeys(NAMES, 12.0), {}
    installed = {"torch": "2.13.0", "numpy": "2.1.3"}

    def run(self, program, *arguments, cwd=None):
        if program == "git":
            return "\n".join((*took, "build.py")) if arguments[-1].endswith("notebooks") else "{}"
        if program == "jupyter-execute":
            if isinstance(took[cwd.name], str):
                raise Failed(f"jupyter-execute ended with 1:\n{took[cwd.name]}")
            (cwd / cwd.name).write_text(executed(took[cwd.name]))
            installed.update({"d2lperf": "0.3"} | brings.get(cwd.name, {}))
        if "uninstall" in arguments:
            installed.pop("d2lperf", None)
        return json.dumps([{"name": n, "version": v} for n, v in installed.items()])

    monkeypatch.setattr(colab.Colab, "make", lambda self: None)
    monkeypatch.setattr(colab.Colab, "run", run)
    return took, brings


def rows(out):
    """The cells of the last table that was printed."""
    lines = out.rpartition("\n\n")[2].splitlines()
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def test_a_slow_set_up_cell_is_a_failure(stand_in, capsys):
    took, _ = stand_in
    took[NAMES[1]] = 20.4
    assert colab.main([]) == 1
    found = [(row[1], row[3]) for row in rows(capsys.readouterr().out)]
    assert found[1] == ("20.4", "to the end, but 20.4 s of set-up")
    assert found[0] == found[2] == ("12.0", "to the end")


def test_an_error_and_another_package_are_failures(stand_in, capsys):
    took, brings = stand_in
    took[NAMES[0]] = "NameError: x"
    brings[NAMES[1]] = {"numpy": "2.4.0", "uv": "0.9"}
    assert colab.main([]) == 1
    assert [(row[1], row[3]) for row in rows(capsys.readouterr().out)] == [
        ("nan", "NameError: x"),
        ("12.0", "pip changed numpy 2.1.3 to 2.4.0, added uv 0.9"),
        ("12.0", "to the end"),
    ]


def test_a_package_that_is_gone_is_a_change():
    assert colab.changes({"six": "1.0"}, {}) == ["removed six 1.0"]
