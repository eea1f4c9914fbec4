"""The script that notebook 08 exports, run by torchrun on two nodes with a network between them.

The nodes are network namespaces of Linux, joined by a virtual cable (a veth pair). Neither sees
this machine's own interfaces, not even the same loopback. That takes root and iproute2; elsewhere
the tests are skipped and say why.
"""

import ast
import importlib.util
import itertools
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import nbformat
import pytest
import torch

ROOT = Path(__file__).parents[1]
NOTEBOOK = ROOT / "notebooks" / "08-multi-gpu-concise.ipynb"
ADDRESSES = ("10.213.77.1", "10.213.77.2")
PORT = 29517  # nobody else is in the namespace
KNOBS = {"FASHION", "IMAGES", "BATCH", "STEPS", "LEARNING_RATE", "TOLERANCE"}
COUNT = itertools.count()
WANTED = KNOBS | {"HEAD", "TAIL", "EXPORTED", "KNOBS"}


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
        return "network namespaces are a thing of Linux"
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


# --------------------------------------------------------------------- the exported script


def assigned(node):
    """Names that a statement gives values to."""
    targets = node.targets if isinstance(node, ast.Assign) else []
    return {n.id for t in targets for n in ast.walk(t) if isinstance(n, ast.Name)}


@pytest.fixture(scope="module")
def notebook(tmp_path_factory):
    """What the export needs, as a module: imports, some functions and knobs; nothing else runs."""
    code = []
    for cell in nbformat.read(NOTEBOOK, as_version=4).cells:
        tags = cell.metadata.get("tags", [])
        if cell.cell_type == "code" and not any(t.endswith((":stub", ":check")) for t in tags):
            code += [(node, cell.source) for node in ast.parse(cell.source).body]
    (exported,) = [node for node, _ in code if assigned(node) == {"EXPORTED"}]
    functions = {n.id for n in ast.walk(exported.value) if isinstance(n, ast.Name)}
    functions |= {"as_script", "train_alone"}

    def kept(node):
        if isinstance(node, ast.FunctionDef):
            return node.name in functions
        return isinstance(node, (ast.Import, ast.ImportFrom)) or assigned(node) & WANTED

    sources = [ast.get_source_segment(source, node) for node, source in code if kept(node)]
    path = tmp_path_factory.mktemp("export") / "exported_notebook.py"
    path.write_text("\n\n".join(sources), encoding="utf-8")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def script(notebook, tmp_path_factory):
    path = tmp_path_factory.mktemp("script") / "train.py"
    path.write_text(notebook.as_script(notebook.EXPORTED, notebook.KNOBS), encoding="utf-8")
    return path


def torchrun(script, nodes, seconds=180):
    """What each node printed; an error with all that was said if one of them failed."""
    command = [sys.executable, "-m", "torch.distributed.run", "--nnodes=2", "--nproc-per-node=1"]
    command += [f"--master-addr={ADDRESSES[0]}", f"--master-port={PORT}"]
    running = []
    with ExitStack() as stack:
        for rank, (name, cable) in enumerate(nodes):
            environment = {
                **{
                    k: v
                    for k, v in os.environ.items()
                    if not k.startswith("D2LPERF") or k == "D2LPERF_TEST_SESSION"
                },
                "PYTHONPATH": str(ROOT),
                "OMP_NUM_THREADS": "1",
                "GLOO_SOCKET_IFNAME": cable,
            }
            program = subprocess.Popen(
                ["ip", "netns", "exec", name, *command, f"--node-rank={rank}", str(script)],
                env=environment,
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


def test_two_nodes_train_as_one_process_does(notebook, script, nodes):
    first, second = torchrun(script, nodes)
    notebook.X, notebook.y = notebook.load_images()
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        alone = notebook.train_alone(notebook.tower())
    finally:
        torch.set_num_threads(threads)
    assert json.loads(first) == pytest.approx(alone, abs=notebook.TOLERANCE)
    assert alone[0] - alone[-1] > 100 * notebook.TOLERANCE, "equal means nothing if nothing moves"
    assert second.strip() == ""


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
