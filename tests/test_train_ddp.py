"""The two plain scripts beside the notebooks: they run, count right, and stand in notebook 08."""

import difflib
import importlib.util
import os
import re
import subprocess
import sys
from contextlib import ExitStack
from functools import lru_cache
from pathlib import Path

import nbformat
import pytest
import torch
import toy_device
from fresh import run_python, torchrun
from nodes import ADDRESSES, end, skip_without_nodes, two_nodes

NOTEBOOKS = Path(__file__).parents[1] / "notebooks"
SINGLE, DDP = NOTEBOOKS / "train_single.py", NOTEBOOKS / "train_ddp.py"
NOTEBOOK = NOTEBOOKS / "08-multi-gpu-concise.ipynb"
NETWORK_SHOWN = " # Residual, resnet18 and digits: the network and the data, shown in section 2"
ONE_THREAD = {"OMP_NUM_THREADS": "1"}
PORT = 29517  # nobody else is in the namespace


def shorter(script, folder):
    """A copy of a script that trains a narrower network for two epochs."""
    text = script.read_text()
    for old, new in [
        (r"(?m)^EPOCHS, (.*) = \d+, ", r"EPOCHS, \1 = 2, "),
        (r"width=\d+", "width=8"),
    ]:
        text, found = re.subn(old, new, text)
        assert found == 1
    copy = folder / script.name
    copy.write_text(text, encoding="utf-8")
    return copy


def load(script):
    spec = importlib.util.spec_from_file_location(script.stem, script)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Runs a script once, shortened: its folder, and what it printed."""

    @lru_cache
    def trained(script):
        folder = tmp_path_factory.mktemp(script.stem)
        copy = shorter(script, folder)
        if script == DDP:
            done = torchrun("--standalone", "--nproc-per-node=2", copy, cwd=folder, **ONE_THREAD)
        else:
            done = run_python(copy, cwd=folder, **ONE_THREAD)
        assert done.returncode == 0, done.stderr
        return folder, done.stdout

    return trained


def right_answers(script):
    """How many test images the saved network gets right, counted in this process."""
    module, saved = load(script), torch.load(script.parent / "digits.pt")
    net = module.resnet18().eval()
    net.load_state_dict(saved["net"])
    _, test = module.digits()
    images, labels = (torch.stack(column) for column in zip(*[test[i] for i in range(len(test))]))
    with torch.no_grad():
        return (net(images).argmax(1) == labels).sum().item(), len(test)


@pytest.mark.parametrize("script", [SINGLE, DDP], ids=["single", "ddp"])
def test_it_learns_and_what_it_prints_is_what_it_saves(script, trained):
    folder, printed = trained(script)
    right, total = right_answers(folder / script.name)
    assert total % 2 == 1, "an uneven share for one of two processes: padding would be noticed"
    first, last = printed.splitlines()
    assert re.fullmatch(rf"epoch 1: \d+ of {total} right", first)
    assert last == f"epoch 2: {right} of {total} right"
    saved = torch.load(folder / "digits.pt")["accuracy"]
    assert len(saved) == 2 and saved[-1] == pytest.approx(right / total)
    assert saved[-1] > 0.7, "guessing gets a tenth right"
    assert {path.name for path in folder.iterdir()} - {"__pycache__"} == {script.name, "digits.pt"}


TOYS = """
import runpy, sys
sys.path.insert(0, {tests!r})
import toy_device
toy_device.install(2)
runpy.run_path({script!r}, run_name="__main__")
"""


@pytest.mark.skipif(not toy_device.supported(), reason="this torch has no hooks in Python")
def test_devices_without_a_backend_of_their_own_leave_it_to_the_cpu(trained, tmp_path):
    folder, printed = trained(DDP)
    wrapper = tmp_path / "with_toys.py"
    program = TOYS.format(tests=str(Path(__file__).parent), script=str(folder / DDP.name))
    wrapper.write_text(program, encoding="utf-8")
    done = torchrun("--standalone", "--nproc-per-node=2", wrapper, cwd=tmp_path, **ONE_THREAD)
    assert done.returncode == 0, done.stderr
    assert done.stdout == printed


def test_two_nodes_train_as_two_processes_of_one_machine_do(trained, tmp_path):
    skip_without_nodes()
    together, printed = trained(DDP)
    folders = [tmp_path / "first", tmp_path / "second"]
    command = [sys.executable, "-m", "torch.distributed.run", "--nnodes=2", "--nproc-per-node=1"]
    command += [f"--master-addr={ADDRESSES[0]}", f"--master-port={PORT}"]
    with two_nodes() as nodes, ExitStack() as stack:
        running = []
        for rank, ((name, cable), folder) in enumerate(zip(nodes, folders)):
            folder.mkdir()
            script = shorter(DDP, folder)
            program = subprocess.Popen(
                ["ip", "netns", "exec", name, *command, f"--node-rank={rank}", script.name],
                env={**os.environ, **ONE_THREAD, "GLOO_SOCKET_IFNAME": cable},
                cwd=folder,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                start_new_session=True,
            )
            running.append(program)
            stack.callback(end, program)
        said = [said_by(program, seconds=180) for program in running]
    assert [program.returncode for program in running] == [0, 0], said
    assert [out for out, _ in said] == [printed, ""], "rank 0 speaks for all"
    assert not (folders[1] / "digits.pt").exists(), "rank 0 saves for all"
    found, wanted = (torch.load(folder / "digits.pt") for folder in (folders[0], together))
    torch.testing.assert_close(found, wanted)


def said_by(program, seconds):
    """What a program printed and complained; where it does not end, what it said until then."""
    try:
        return program.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        end(program)
        out, err = program.communicate()
        return out, f"{err}\n[ended by the test after {seconds} s]"


# --------------------------------------------------------------------------- in the notebook


def network_of(script):
    """The part that both scripts share with the notebook's visible cells."""
    text = script.read_text()
    return text[text.index("class Residual") : text.index("def main")].strip()


def marked_lines():
    """Both scripts as one text, without network and workarounds: - one device only, + several."""
    texts = [script.read_text().splitlines() for script in (SINGLE, DDP)]
    texts[1] = [line for line in texts[1] if "# workaround" not in line]
    lines = list(difflib.unified_diff(*texts, lineterm="", n=1000))[3:]
    network = [line.startswith(" class Residual") for line in lines].index(True)
    main = [line.startswith(" def main") for line in lines].index(True)
    return [*lines[:network], NETWORK_SHOWN, " ", " ", *lines[main:]]


@pytest.fixture(scope="module")
def notebook():
    return nbformat.read(NOTEBOOK, as_version=4)


def test_the_scripts_share_network_and_data():
    assert network_of(SINGLE) == network_of(DDP)


def test_the_notebook_shows_the_lines_that_differ(notebook):
    text = "\n".join(cell.source for cell in notebook.cells if cell.cell_type == "markdown")
    (block,) = re.findall(r"```diff\n(.*?)\n```", text, flags=re.S)
    shown = [line.rstrip() for line in block.splitlines()]
    assert shown == [line.rstrip() for line in marked_lines()]


def test_the_notebook_carries_both_scripts(notebook):
    code = [cell.source for cell in notebook.cells if cell.cell_type == "code"]
    for script in (SINGLE, DDP):
        assert sum(script.read_text() in source for source in code) == 1
    visible = "\n\n\n".join(source for source in code if "def main" not in source)
    for part in network_of(SINGLE).split("\n\n\n"):
        assert part in visible
