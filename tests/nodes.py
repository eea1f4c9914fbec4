"""Two nodes with a network between them, on this machine.

The nodes are network namespaces of Linux, joined by a virtual cable (a veth pair). Neither sees
this machine's own interfaces, not even the same loopback. That takes root and iproute2.
"""

import itertools
import os
import re
import shutil
import signal
import subprocess
import sys
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path

import pytest

ADDRESSES = ("10.213.77.1", "10.213.77.2")
COUNT = itertools.count()


def ip(*arguments):
    return subprocess.run(["ip", *arguments], capture_output=True, text=True, timeout=30)


def must(*arguments):
    done = ip(*arguments)
    if done.returncode:
        raise OSError(f"ip {' '.join(arguments)}: {done.stderr.strip()}")


@contextmanager
def two_nodes():
    """Names of two namespaces and of the interface that leads from each to the other."""
    names = [f"d2lperf-{os.getpid()}-{next(COUNT)}" for _ in range(2)]
    cables = [f"d2l{os.getpid() % 100_000}v{i}" for i in range(2)]
    for name in left_behind():
        remove(name)
    try:
        for name in names:
            must("netns", "add", name)
        ends = [("name", cable, "netns", name) for name, cable in zip(names, cables)]
        must("link", "add", *ends[0], "type", "veth", "peer", *ends[1])
        for name, cable, address in zip(names, cables, ADDRESSES):
            must("-n", name, "address", "add", f"{address}/30", "dev", cable)
            for interface in ("lo", cable):
                must("-n", name, "link", "set", interface, "up")
        yield list(zip(names, cables))
    finally:
        for name in names:
            remove(name)


def remove(name):
    """End what runs in a namespace, and the namespace; its cable goes with it."""
    for pid in ip("netns", "pids", name).stdout.split():
        with suppress(ProcessLookupError):
            os.kill(int(pid), signal.SIGKILL)
    ip("netns", "delete", name)


def namespaces():
    return {line.split()[0] for line in ip("netns", "list").stdout.splitlines() if line}


def left_behind():
    """Our namespaces whose session is no more: it was cut off before it could clean up."""
    made = [(name, re.fullmatch(r"d2lperf-(\d+)-\d+", name)) for name in namespaces()]
    return [name for name, parts in made if parts and not Path("/proc", parts[1]).exists()]


def skip_without_nodes():
    """Skip the test where there can be no nodes, and say why."""
    if reason := why_not():
        pytest.skip(reason)


@lru_cache
def why_not():
    """Why there can be no nodes here, or None."""
    if sys.platform != "linux":
        return "network namespaces exist on Linux only"
    if shutil.which("ip") is None:
        return "iproute2 is not installed (no program named ip)"
    if os.geteuid() != 0:
        return "making network namespaces takes root"
    try:
        with two_nodes() as nodes:
            done = ip("netns", "exec", nodes[0][0], "true")
            return None if done.returncode == 0 else f"ip netns exec: {done.stderr.strip()}"
    except OSError as error:
        return str(error)


def end(program):
    """End a program and all that it started, if there is any of it left."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(program.pid, signal.SIGKILL)
    program.wait(timeout=30)
