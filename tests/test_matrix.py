"""`make matrix` without the tests themselves: a stand-in plays make."""

import os
import signal
import subprocess
import sys
from contextlib import suppress

import psutil
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


def alive_in(group, process):
    """Whether a process belongs to a group and is more than an entry that nobody has fetched."""
    with suppress(OSError, psutil.Error):
        return os.getpgid(process.pid) == group and process.status() != psutil.STATUS_ZOMBIE
    return False


@pytest.mark.skipif(os.name != "posix", reason="sends a signal as POSIX knows it")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_leaves_no_environment_and_no_process(stand_in, tmp_path, number):
    stand_in('echo "at work"; sleep 600')
    process = subprocess.Popen(
        [sys.executable, matrix.__file__, sys.executable],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    for line in process.stdout:
        if line == "at work\n":
            break
    process.send_signal(number)
    process.communicate(timeout=60)
    assert process.returncode != 0
    (venv,) = (tmp_path / "venvs").read_text().split()
    assert not os.path.exists(os.path.dirname(venv))
    group = int((tmp_path / "make.pid").read_text())
    assert not [p for p in psutil.process_iter() if alive_in(group, p)]
