"""`make matrix` without the tests themselves: a stand-in plays make."""

import os
import sys

import pytest

from tests import matrix

STAND_IN = """#!/bin/sh
echo "$$" > "{folder}/make.pid"
venv="${{3#VENV=}}"
mkdir -p "$venv"
echo "$venv" >> "{folder}/venvs"
{then}
"""


@pytest.fixture
def stand_in(tmp_path, monkeypatch):
    """Put a program in the place of make; returns what its environments were."""

    def put(then):
        make = tmp_path / "bin" / "make"
        make.parent.mkdir(exist_ok=True)
        make.write_text(STAND_IN.format(folder=tmp_path, then=then))
        make.chmod(0o755)
        monkeypatch.setenv("PATH", f"{make.parent}{os.pathsep}{os.environ['PATH']}")

    return put


def test_it_goes_on_after_a_failure_and_says_so_in_the_end(stand_in, tmp_path, capsys):
    stand_in(
        '[ -e "$0.again" ] && echo "4 passed in 1.0s" && exit; touch "$0.again"\n'
        'echo "1 failed, 3 passed in 1.0s"; exit 2'
    )
    assert matrix.main([sys.executable, "2.99", sys.executable]) == 1
    rows = [line for line in capsys.readouterr().out.splitlines() if line.startswith("|")]
    cells = [[cell.strip() for cell in row.strip("|").split("|")] for row in rows[2:]]
    assert [row[2:5] + row[6:] for row in cells] == [
        ["3", "1", "0", "make ended with 2"],
        ["-", "-", "-", "no such interpreter here"],
        ["4", "0", "0", "green"],
    ]
    venvs = (tmp_path / "venvs").read_text().split()
    assert len(set(venvs)) == 2 and not any(map(os.path.exists, venvs))
