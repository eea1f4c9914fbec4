"""The two plain scripts beside the notebooks: they run, count right, and stand in notebook 08."""

import difflib
import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
import torch

NOTEBOOKS = Path(__file__).parents[1] / "notebooks"
SINGLE, DDP = NOTEBOOKS / "train_single.py", NOTEBOOKS / "train_ddp.py"
NOTEBOOK = NOTEBOOKS / "08-multi-gpu-concise.ipynb"
NETWORK_SHOWN = " # Residual, resnet18 and digits: the network and the data, shown in section 2"
TORCHRUN = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]


def shorter(script, folder, epochs):
    """A copy of a script that trains for fewer epochs."""
    text, found = re.subn(
        r"(?m)^EPOCHS, (.*) = \d+, ", rf"EPOCHS, \1 = {epochs}, ", script.read_text()
    )
    assert found == 1
    copy = folder / script.name
    copy.write_text(text, encoding="utf-8")
    return copy


def run(*command, folder, seconds=300):
    done = subprocess.run(
        [sys.executable, *map(str, command)],
        cwd=folder, capture_output=True, text=True, timeout=seconds,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def load(script):
    spec = importlib.util.spec_from_file_location(script.stem, script)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def right_answers(script, folder):
    """How many test images the saved network gets right, counted in this process."""
    module, saved = load(script), torch.load(folder / "digits.pt")
    net = module.resnet18().eval()
    net.load_state_dict(saved["net"])
    _, test = module.digits()
    images, labels = (torch.stack(column) for column in zip(*[test[i] for i in range(len(test))]))
    with torch.no_grad():
        return (net(images).argmax(1) == labels).sum().item(), len(test)


@pytest.mark.parametrize("script, launcher", [(SINGLE, []), (DDP, TORCHRUN)], ids=["single", "ddp"])
def test_it_learns_and_what_it_prints_is_what_it_saves(script, launcher, tmp_path):
    printed = run(*launcher, shorter(script, tmp_path, epochs=4), folder=tmp_path).splitlines()
    right, total = right_answers(script, tmp_path)
    assert total % 2 == 1, "an uneven share for one of two processes: padding would be noticed"
    assert [line.split(":")[0] for line in printed] == [f"epoch {i}" for i in range(1, 5)]
    assert printed[-1] == f"epoch 4: {right} of {total} right"
    saved = torch.load(tmp_path / "digits.pt")["accuracy"]
    assert len(saved) == 4 and saved[-1] == pytest.approx(right / total)
    assert saved[-1] > 0.7, "guessing gets a tenth right"
    assert {path.name for path in tmp_path.iterdir()} == {script.name, "digits.pt"}


# --------------------------------------------------------------------------- in the notebook


def network_of(script):
    """The part that both scripts share with the notebook's visible cells."""
    text = script.read_text()
    return text[text.index("class Residual") : text.index("def main")].strip()


def marked_lines():
    """Both scripts as one text: - for one device only, + for several, without the network."""
    texts = [script.read_text().splitlines() for script in (SINGLE, DDP)]
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
