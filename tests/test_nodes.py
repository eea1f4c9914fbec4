"""Two nodes on this machine: they reach each other, and are gone afterwards whatever happens."""

import signal
import subprocess
import sys
import time

import pytest
from nodes import end, ip, must, namespaces, remove, skip_without_nodes, two_nodes


@pytest.fixture(autouse=True)
def there_can_be_nodes():
    skip_without_nodes()


def test_the_nodes_reach_each_other_and_nothing_else():
    with two_nodes() as ((name, _), _):
        routes = ip("-n", name, "route").stdout.splitlines()
    assert len(routes) == 1 and routes[0].startswith("10.213.77.0/30")


def test_nodes_are_gone_afterwards_whatever_happens():
    try:
        with two_nodes() as nodes:
            made = {name for name, _ in nodes}
            assert made <= namespaces()
            raise KeyboardInterrupt
    except KeyboardInterrupt:
        pass
    assert not made & namespaces()


def test_nodes_of_a_session_that_was_cut_off_are_cleared_away():
    program = subprocess.Popen([sys.executable, "-c", ""])
    program.wait(timeout=30)
    name = f"d2lperf-{program.pid}-0"  # of a process that is no more
    must("netns", "add", name)
    command = ["ip", "netns", "exec", name, "sleep", "600"]
    inside = subprocess.Popen(command, start_new_session=True)
    try:
        while str(inside.pid) not in ip("netns", "pids", name).stdout.split():
            assert inside.poll() is None
            time.sleep(0.01)
        with two_nodes() as nodes:
            assert name not in namespaces() and {n for n, _ in nodes} <= namespaces()
        assert inside.wait(timeout=30) == -signal.SIGKILL
    finally:
        end(inside)
        remove(name)
