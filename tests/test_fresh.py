"""tests/fresh.py: what becomes of a program that hangs, and of a server that has ended."""

import subprocess
import sys

import fresh
import pytest

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only there a server is forked")

HANGS = """
import signal, time
signal.alarm(1)  # does not wait for PATIENCE_S
try:
    time.sleep(600)
finally:
    print("cleared up")
"""


def test_a_program_that_hangs_can_clear_up():
    run = fresh.run_fresh(HANGS)
    assert (run.returncode, run.stdout) == (1, "cleared up\n")
    assert "TimeoutError: the program took longer" in run.stderr


def test_a_server_that_has_ended_is_told(monkeypatch):
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", ""], text=True, **pipes) as ended:
        monkeypatch.setattr(fresh, "server", lambda: ended)
        with pytest.raises(RuntimeError, match=r"the server .* has ended"):
            fresh.run_fresh("")
        ended.communicate()
