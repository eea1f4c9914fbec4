"""notebooks/kernels.py: which kernels there can be, and what the tests do without one."""

import json
import re
import shutil
import sys
from pathlib import Path

import nbformat
import pytest
from packaging.requirements import Requirement
from sessions import run_pytest

from notebooks import kernels

ROOT = Path(__file__).parents[1]
NAMES = kernels.names()


@pytest.mark.parametrize("name", NAMES)
def test_packages_are_exact(name):
    lines = kernels.packages(name).read_text(encoding="utf-8").splitlines()
    wanted = [Requirement(line) for line in lines if not line.startswith("#")]
    assert wanted
    assert all(re.fullmatch(r"==[\w.]+", str(r.specifier)) and not r.url for r in wanted)
    assert sum(line.startswith(kernels.PYTHON) for line in lines) == 1


@pytest.mark.parametrize("path", sorted(kernels.FOLDER.glob("*.ipynb")), ids=lambda p: p.stem)
def test_notebook_names_its_kernel_and_how_to_make_it(path):
    notebook = nbformat.read(path, as_version=4)
    name, kernel = path.stem.removeprefix("02-"), notebook.metadata.kernelspec
    assert name in NAMES and kernel.name == f"d2lperf-{name}"
    (imports,) = [c.source for c in notebook.cells if c.source.startswith("#@title Imports")]
    for said in (notebook.cells[0].source, "".join(re.findall(r'"(.*)"', imports))):
        assert f"make frameworks FRAMEWORK={name}" in said
        assert kernel.display_name in said


def test_mxnet_is_left_out_where_it_cannot_be(capsys, monkeypatch):
    assert not kernels.unfit("mxnet", version=(3, 11, 7, "final", 0))
    reason = kernels.unfit("mxnet", version=(3, 12, 0, "final", 0))
    assert reason == "mxnet needs Python >=3.10, <3.12; this is 3.12.0"
    monkeypatch.setattr(kernels, "names", lambda folder: ["mxnet"])
    monkeypatch.setattr(kernels, "unfit", lambda name, folder: reason)
    monkeypatch.setattr(kernels, "is_there", lambda name: False)
    assert kernels.main([]) == 0
    assert capsys.readouterr().out == f"{reason}: left out\n"
    assert kernels.main(["mxnet"]) == 1
    assert capsys.readouterr().err.startswith(reason)
    monkeypatch.setenv(kernels.ASKED, "all")
    assert kernels.why_skipped("mxnet") == reason


def test_an_unknown_framework_is_refused(capsys):
    assert kernels.main(["caffe"]) == 1
    assert "there is no framework 'caffe'" in capsys.readouterr().err


@pytest.mark.parametrize(
    "asked, skipped", [("", True), ("other", True), ("all", False), ("other none", False)]
)
def test_a_kernel_that_was_asked_for_is_not_skipped(asked, skipped, monkeypatch):
    monkeypatch.setenv(kernels.ASKED, asked)
    command = "make frameworks FRAMEWORK=none"
    assert kernels.why_skipped("none") == skipped * f"no kernel for none: run {command}"


@pytest.fixture
def run_with(tmp_path):
    """Run a notebook of one cell with a kernel that this program starts."""

    def run(program, cell):
        spec = {"display_name": "d2lperf: ours", "language": "python"}
        folder = tmp_path / "kernels" / "d2lperf-ours"
        folder.mkdir(parents=True)
        (folder / "kernel.json").write_text(
            json.dumps({"argv": [sys.executable, *program, "{connection_file}"], **spec})
        )
        (tmp_path / "tests").mkdir()
        for name in ("conftest.py", "tests/sanitize.cfg"):
            shutil.copy(ROOT / name, tmp_path / name)
        metadata = {"kernelspec": {"name": "d2lperf-ours", **spec}}
        cells = [nbformat.v4.new_code_cell(cell, execution_count=1)]
        notebook = nbformat.v4.new_notebook(cells=cells, metadata=metadata)
        nbformat.write(notebook, tmp_path / "a.ipynb")
        variables = {"JUPYTER_PATH": str(tmp_path), kernels.ASKED: "all"}
        return run_pytest("a.ipynb", cwd=tmp_path, plugins=["nbval"], **variables)

    return run


def test_a_kernel_that_does_not_start_says_why(run_with):
    run = run_with(["-c", "raise SystemExit('this kernel has no port')"], "1")
    assert run.returncode == 1
    assert "Kernel died before replying" in run.stdout
    assert "this kernel has no port" in run.stdout


@pytest.mark.skipif(sys.platform == "win32", reason="Jupyter has no files for this there")
def test_a_kernel_takes_no_port(run_with):
    cell = "import ipykernel.connect as c; assert c.get_connection_info(unpack=True)['transport'] "
    run = run_with(["-m", "ipykernel_launcher", "-f"], cell + "== 'ipc'")
    assert run.returncode == 0, run.stdout + run.stderr
