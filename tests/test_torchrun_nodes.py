"""The script notebooks/train_ddp.py, run by torchrun on two nodes with a network between them.

The nodes are network namespaces of Linux, joined by a virtual cable (a veth pair). Neither sees
this machine's own interfaces, not even the same loopback. That takes root and iproute2; elsewhere
the tests are skipped and say why.
"""

import itertools
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest
import torch

SCRIPT = Path(__file__).parents[1] / "notebooks" / "train_ddp.py"
ADDRESSES = ("10.213.77.1", "10.213.77.2")
PORT = 29517  # nobody else is in the namespace
COUNT = itertools.count()


# ---------------------------------------------------------------------------- two nodes


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


@pytest.fixture(scope="module")
def nodes():
    reason = why_not()
    if reason:
        pytest.skip(reason)
    with two_nodes() as nodes:
        yield nodes


# ------------------------------------------------------------------------------ the script


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """A folder for each node, and a third one: all hold the script, shortened to one epoch."""
    text, found = re.subn(r"(?m)^EPOCHS, (.*) = \d+, ", r"EPOCHS, \1 = 1, ", SCRIPT.read_text())
    assert found == 1
    made = [tmp_path_factory.mktemp(name) for name in ("first", "second", "together")]
    for folder in made:
        (folder / SCRIPT.name).write_text(text, encoding="utf-8")
    return made


def torchrun(nodes, folders, seconds=180):
    """What each node printed; an error with all that was said if one of them failed."""
    command = [sys.executable, "-m", "torch.distributed.run", "--nnodes=2", "--nproc-per-node=1"]
    command += [f"--master-addr={ADDRESSES[0]}", f"--master-port={PORT}"]
    running = []
    with ExitStack() as stack:
        for rank, ((name, cable), folder) in enumerate(zip(nodes, folders)):
            program = subprocess.Popen(
                ["ip", "netns", "exec", name, *command, f"--node-rank={rank}", SCRIPT.name],
                env={**os.environ, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": cable},
                cwd=folder,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                start_new_session=True,
            )
            running.append(program)
            stack.callback(end, program)
        outputs = [said_by(program, seconds) for program in running]
    said = "\n".join(text for pair in outputs for text in pair)
    assert [program.returncode for program in running] == [0, 0], said
    return [out for out, _ in outputs]


def said_by(program, seconds):
    """What a program printed and complained; where it does not end, what it said until then."""
    try:
        return program.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        end(program)
        out, err = program.communicate()
        return out, f"{err}\n[ended by the test after {seconds} s]"


def end(program):
    """End a program and all that it started, if there is any of it left."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(program.pid, signal.SIGKILL)
    program.wait(timeout=30)


def test_two_nodes_train_as_two_processes_of_one_machine_do(nodes, folders):
    first, second, together = folders
    printed = torchrun(nodes, [first, second])
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    done = subprocess.run(
        [*command, SCRIPT.name],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        cwd=together,
        capture_output=True,
        text=True,
        timeout=180,
    )
    assert done.returncode == 0, done.stderr
    assert printed == [done.stdout, ""], "rank 0 speaks for all"
    assert re.fullmatch(r"epoch 1: \d+ of 257 right\n", done.stdout)
    assert not (second / "digits.pt").exists(), "rank 0 saves for all"
    found, wanted = (torch.load(folder / "digits.pt") for folder in (first, together))
    torch.testing.assert_close(found, wanted)


def test_the_nodes_reach_each_other_and_nothing_else(nodes):
    (name, _), _ = nodes
    routes = ip("-n", name, "route").stdout.splitlines()
    assert len(routes) == 1 and routes[0].startswith("10.213.77.0/30")


def test_nodes_are_gone_afterwards_whatever_happens():
    reason = why_not()
    if reason:
        pytest.skip(reason)
    try:
        with two_nodes() as nodes:
            made = {name for name, _ in nodes}
            assert made <= namespaces()
            raise KeyboardInterrupt
    except KeyboardInterrupt:
        pass
    assert not made & namespaces()


def test_nodes_of_a_session_that_was_cut_off_are_cleared_away():
    reason = why_not()
    if reason:
        pytest.skip(reason)
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
