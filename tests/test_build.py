"""notebooks/build.py: the set-up cell, the stored form, execution that leaves failures alone."""

import copy
import importlib.metadata
import importlib.util
import platform
import subprocess
import sys

import nbformat
import pytest

from d2lperf import requirements
from notebooks import build


def notebook(*sources, setup=True):
    """A notebook of code cells, the first one tagged as the set-up."""
    new = nbformat.v4.new_code_cell
    cells = [new(source) for source in sources]
    if setup:
        cells.insert(0, new("# old", metadata={"tags": ["setup"]}))
    return nbformat.v4.new_notebook(cells=cells)


# --------------------------------------------------------------------- the set-up cell


@pytest.fixture
def setup_in(monkeypatch):
    """Execute the set-up cell in a folder; returns (what it put on the path, pip's calls)."""

    def run(folder, *, installed=None, pip=1, cell=build.SETUP):
        calls = []

        def fake(command, **options):
            calls.append(command[1:])
            return subprocess.CompletedProcess(command, pip, "Collecting d2lperf", "no network")

        monkeypatch.chdir(folder)
        monkeypatch.setattr(sys, "path", ["before"])
        monkeypatch.setattr(importlib.util, "find_spec", lambda name: installed)
        monkeypatch.setattr(importlib.metadata, "distributions", lambda name: [Torch()])
        monkeypatch.setattr(subprocess, "run", fake)
        exec(cell, {})
        return [str(p) for p in sys.path if p != "before"], calls

    monkeypatch.delenv("D2LPERF_REPO", raising=False)
    monkeypatch.setattr(requirements, "check", lambda: None)
    return run


class Torch:
    version = "2.9.1+cpu"


@pytest.fixture
def clone(tmp_path):
    """A folder that looks like the repository."""
    root = tmp_path / "d2lperf"
    (root / "d2lperf").mkdir(parents=True)
    (root / "d2lperf" / "__init__.py").touch()
    for folder in build.FOLDERS:
        (root / "notebooks" / folder).mkdir(parents=True, exist_ok=True)
    return root


def test_setup_does_nothing_where_the_package_is_installed(setup_in, tmp_path):
    spec = importlib.util.find_spec("json")
    assert setup_in(tmp_path, installed=spec) == ([], [])


@pytest.mark.parametrize("place", ["", "notebooks", *(f"notebooks/{f}" for f in build.FOLDERS[1:])])
def test_setup_finds_the_clone_around_the_notebook(setup_in, clone, place):
    assert setup_in(clone / place) == ([str(clone)], [])


def test_setup_is_not_misled_by_a_folder_of_the_same_name(setup_in, clone):
    # Beside the clone, Python takes its folder for a package without files: no origin.
    spec = importlib.util.spec_from_loader("d2lperf", None)
    assert spec.origin is None
    assert setup_in(clone.parent, installed=spec) == ([str(clone)], [])


PIP = ["-m", "pip", "install", "git+https://example.org/d2lperf", "torch==2.9.1+cpu"]


def test_setup_installs_from_the_address_given_and_leaves_torch_alone(
    setup_in, tmp_path, monkeypatch
):
    monkeypatch.setenv("D2LPERF_REPO", PIP[3])
    assert setup_in(tmp_path, pip=0) == ([], [PIP])


def test_setup_installs_from_the_stamped_address(setup_in, tmp_path, monkeypatch):
    stamped = build.SETUP.replace(f'or "{build.ADDRESS}"', f'or "{PIP[3]}"')
    assert setup_in(tmp_path, pip=0, cell=stamped) == ([], [PIP])
    monkeypatch.setenv("D2LPERF_REPO", "a folder")
    assert setup_in(tmp_path, pip=0, cell=stamped)[1][0][3] == "a folder"


def test_setup_says_what_pip_said_and_what_to_do(setup_in, tmp_path, monkeypatch):
    monkeypatch.setenv("D2LPERF_REPO", PIP[3])
    with pytest.raises(ModuleNotFoundError) as found:
        setup_in(tmp_path, pip=1)
    advice = ("Is there a network?", "Is torch new enough?", "inside a clone")
    for said in (PIP[3], *advice, "pip said:", "no network"):
        assert said in str(found.value)


def test_setup_installs_nothing_by_itself(setup_in, tmp_path):
    """The first edition asked the package index for a name that is not ours."""
    unstamped = build.SETUP.replace(f'or "{build.ADDRESS}"', 'or ""')
    with pytest.raises(ModuleNotFoundError, match=r"not here.*inside a clone.*D2LPERF_REPO"):
        setup_in(tmp_path, pip=0, cell=unstamped)


def test_setup_says_what_the_kernel_lacks(setup_in, clone, monkeypatch):
    def lacks():
        raise ModuleNotFoundError("d2lperf needs torch")

    monkeypatch.setattr(requirements, "check", lacks)
    with pytest.raises(ModuleNotFoundError, match="needs torch"):
        setup_in(clone)


# -------------------------------------------------------------------------- stamping


def test_stamp_writes_and_folds_the_setup_cell_only():
    stamped = build.normalise(build.stamp(notebook("x = 1")))
    assert [c.source for c in stamped.cells] == [build.SETUP, "x = 1"]
    assert stamped.cells[0].metadata == {"tags": ["setup", "hide-input"], **build.FOLDED}
    assert stamped.cells[1].metadata == {}


def test_stamp_embeds_drawings(tmp_path, monkeypatch):
    monkeypatch.setattr(build, "FIGURES", tmp_path)
    (tmp_path / "ring.png").write_bytes(b"PNG")
    drawn = notebook()
    drawn.cells.append(nbformat.v4.new_markdown_cell("![A ring.](attachment:ring.png)"))
    stamped = build.normalise(build.stamp(drawn))
    assert stamped.cells[1].attachments == {"ring.png": {"image/png": "UE5H"}}
    build.to_text(stamped)  # a valid notebook
    drawn.cells[1].source = "![A star.](attachment:star.png)"
    with pytest.raises(build.BuildError, match=r"03-x: there is no drawing star\.png"):
        build.stamp(drawn, "03-x")
    drawn.cells[1].source = "No drawing."
    assert "attachments" not in build.stamp(drawn).cells[1]


@pytest.mark.parametrize("count", [0, 2])
def test_stamp_wants_exactly_one_cell(count):
    bad = notebook("x = 1", setup=False)
    bad.cells += notebook().cells * count
    with pytest.raises(build.BuildError, match=f"03-x: found {count} code cells with the tag"):
        build.stamp(bad, "03-x")


# ----------------------------------------------------------------------- normalising


def test_normalise_twice_changes_nothing():
    messy = notebook("x = 1  \n\n", "", "print(x)")
    messy.metadata["widgets"] = {"state": {}}
    messy.metadata["language_info"] = {"name": "python", "version": "3.9.1"}
    messy.cells[1].metadata["execution"] = {"iopub.execute_input": "2026-11-21T12:00:00Z"}
    once = build.normalise(messy)
    twice = build.normalise(copy.deepcopy(once))
    assert once == twice
    language = build.IPythonKernel.language_info | {"version": "3.9.1"}
    assert once.metadata == {"kernelspec": build.PYTHON, "language_info": language}
    assert [c.source for c in once.cells] == ["# old", "x = 1", "print(x)"]
    assert once.cells[1].metadata == {}


def test_streams_are_joined_as_nbval_joins_them():
    plugin = pytest.importorskip("nbval.plugin")
    new = nbformat.v4.new_output
    outputs = [
        new("stream", name="stdout", text="a"),
        new("display_data", data={"text/plain": "x  \ny"}),
        new("stream", name="stdout", text="b\n 10 %\r100 %\n"),
    ]
    theirs = plugin.coalesce_streams([nbformat.from_dict(o) for o in copy.deepcopy(outputs)])
    ours = build.normal_outputs(outputs, 1)
    assert [o.output_type for o in ours] == ["stream", "display_data"]
    assert ours[0].text == theirs[0].text == "ab\n100 %\n"
    assert ours[1].data["text/plain"] == "x\ny"


# ------------------------------------------------------------------------- execution


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Notebooks built by the program: one good, one that fails, one not asked for."""
    folder = tmp_path_factory.mktemp("notebooks")
    good = [
        "import os\nprint(os.environ['D2LPERF_STRICT'], os.environ.get('MPLBACKEND', '')[:6],"
        " os.environ.get('D2LPERF_BUDGET'))",
        "1 + 1;",
        "import sys\nsys.executable == " + repr(sys.executable),
    ]
    nbformat.write(notebook(*good), folder / "03-good.ipynb")
    nbformat.write(notebook("x = 1", "x / 0"), folder / "04-bad.ipynb")
    nbformat.write(notebook("open('left.txt', 'w').close()"), folder / "05-litter.ipynb")
    return folder


def test_build_executes_counts_and_stores(folder, capsys):
    path = folder / "03-good.ipynb"
    assert build.build(path).startswith("03-good: 4 code cells, executed in")
    built = nbformat.read(path, as_version=4)
    assert [c.execution_count for c in built.cells] == [1, 2, 3, 4]
    outputs = [c.outputs for c in built.cells]
    assert outputs[0] == []
    assert outputs[1][0].text == "1 module None\n"
    assert outputs[2][0].data["text/plain"] == "2", "a semicolon hides nothing, as under nbval"
    assert outputs[3][0].data["text/plain"] == "True", "the kernel is the running interpreter"
    before = path.read_bytes()
    assert build.build(path, check=True) == "03-good: in its final form"
    build.build(path)
    assert path.read_bytes() == before, "two runs of the same store the same"


def test_build_leaves_a_failing_notebook_alone(folder):
    path = folder / "04-bad.ipynb"
    before = path.read_bytes()
    with pytest.raises(build.BuildError, match="cell 2") as caught:
        build.build(path)
    assert "ZeroDivisionError" in str(caught.value)
    assert "x / 0" in str(caught.value)
    assert path.read_bytes() == before


def test_build_refuses_a_notebook_that_litters(folder):
    with pytest.raises(build.BuildError, match=r"left\.txt"):
        build.build(folder / "05-litter.ipynb")


def test_find_names_what_there_is(tmp_path):
    (tmp_path / "deeper").mkdir()
    for name in ("00-a", "01-b", "deeper/01-c", "deeper/guards"):
        nbformat.write(notebook(), tmp_path / f"{name}.ipynb")

    def found(*wanted):
        return [p.relative_to(tmp_path).as_posix()[:-6] for p in build.find(list(wanted), tmp_path)]

    assert found() == ["00-a", "01-b", "deeper/01-c", "deeper/guards"]
    assert found("01") == ["01-b"]
    assert found("deeper", "00-a.ipynb") == ["00-a", "deeper/01-c", "deeper/guards"]
    assert found("deeper/g", f"{tmp_path.name}/01-b.ipynb") == ["01-b", "deeper/guards"]
    with pytest.raises(build.BuildError, match=r"asked for notebook '07'.*00-a.*guards"):
        build.find(["07"], tmp_path)


def test_a_read_only_folder_is_told_before_anything_runs(folder, monkeypatch):
    # Simulated: an administrator may write everywhere, and tests may run as one.
    monkeypatch.setattr(build.os, "access", lambda path, mode: False)
    monkeypatch.setattr(build, "execute", lambda *_, **__: pytest.fail("was executed"))
    with pytest.raises(build.BuildError, match=r"read-only.*copy"):
        build.build(folder / "03-good.ipynb")


def test_write_is_all_or_nothing(tmp_path, monkeypatch):
    path = tmp_path / "a.ipynb"
    path.write_text("old")
    monkeypatch.setattr(build.os, "replace", lambda *_: (_ for _ in ()).throw(OSError("full")))
    with pytest.raises(OSError, match="full"):
        build.write(path, "new")
    assert path.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["a.ipynb"]


# ------------------------------------------------------------------------- recording

PREDICTING = """\
from d2lperf import predict, predictions
predict("a step", 0.1, "s").score(0.125)
predict("a GPU", 1.0).score(2.0, published="RTX 4090")"""
CONTRADICTED = """\
from d2lperf import compare
import time
both = {"a": lambda: time.sleep(1e-4), "b": lambda: time.sleep(1e-3)}
compare(both, baseline="a", budget_s=0.2).expect("b", faster_than="a")"""


@pytest.fixture(scope="module")
def executed(tmp_path_factory):
    """A notebook with a prediction, executed where nothing is recorded."""
    path = tmp_path_factory.mktemp("course") / "01-a.ipynb"
    nbformat.write(notebook(PREDICTING, "predictions()"), path)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(build, "HERE", path.parent)
        patch.setattr(build.recorded, "FOLDER", path.parent / "recorded")
        build.build(path)
    return path.read_bytes()


@pytest.fixture
def course(tmp_path, monkeypatch, executed):
    """A course of one notebook, executed, without a recorded run."""
    path = tmp_path / "01-a.ipynb"
    path.write_bytes(executed)
    monkeypatch.setattr(build, "HERE", tmp_path)
    monkeypatch.setattr(build.recorded, "FOLDER", tmp_path / "recorded")
    return path


def test_a_notebook_is_recorded_from_its_stored_outputs(course):
    before = course.read_bytes()
    path = build.record({"01-a": build.run_of(course, run=False)}, course.parent / "recorded")
    (run,) = build.recorded.read()
    assert run.notebooks == {"01-a": {("a step", "s"): (0.1, 0.125)}}
    assert path.name == build.recorded.file_name(run.card)
    assert set(run.card.versions) == {"Python", "torch", "numpy", "d2lperf"}
    assert course.read_bytes() == before


def test_stamping_shows_what_is_recorded_and_checking_misses_it(course):
    build.build(course, check=True)
    card = build.run_of(course, run=False).card
    row = {"text": "a step", "predicted": 0.1, "measured": 0.5, "interval": None, "unit": "s"}
    (course.parent / "recorded").mkdir()
    text = build.recorded.to_text("2026-11-23", card, {"01-a": [row]})
    (course.parent / "recorded" / "one.json").write_text(text, encoding="utf-8")
    with pytest.raises(build.BuildError, match=r"build\.py --stamp"):
        build.build(course, check=True)
    build.build(course, run=False)
    shown = nbformat.read(course, as_version=4).cells[-1].outputs[0].data
    assert f"recorded on {card.name}</th>" in shown["text/html"]
    assert f"recorded on {card.name}: 500 ms" in shown["text/plain"]
    build.build(course, check=True)


def test_recording_runs_the_notebook_and_leaves_it_as_it_was(course):
    """A claim that this machine contradicts does not stop it."""
    nbformat.write(notebook(PREDICTING, CONTRADICTED, "predictions()"), course)
    before = course.read_bytes()
    with pytest.raises(build.BuildError, match="execute it first: make notebooks NN=01"):
        build.run_of(course, run=False)
    shown = build.run_of(course, run=True)
    assert [row["text"] for row in shown.measured_here()] == ["a step"]
    assert course.read_bytes() == before


def test_a_record_is_of_one_machine(tmp_path):
    one, two = ({"date": "2026-11-23", "card": {"processor": p}, "predictions": []} for p in "AB")
    runs = {"01-a": build.Predictions.from_dict(one), "02-b": build.Predictions.from_dict(two)}
    with pytest.raises(build.BuildError, match="01-a on 0-core-a; 02-b on 0-core-b"):
        build.record(runs, tmp_path)
    with pytest.raises(build.BuildError, match="found no run"):
        build.record({}, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_course_and_studies_are_recorded(monkeypatch):
    asked = []
    monkeypatch.setattr(build, "run_of", lambda path, **_: asked.append(path.parent.name))
    assert build.record_course(run=False, timeout_s=1) == 1  # there was nothing to record
    assert set(asked) == {"notebooks", "deeper"}


def test_the_program_records_what_there_is_and_tells_what_is_not(course, monkeypatch, capsys):
    monkeypatch.setattr(build, "find", lambda wanted: sorted(course.parent.rglob("*.ipynb")))
    monkeypatch.setattr(build, "RECORDED", course.parent / "recorded")
    nbformat.write(notebook("predictions()"), course.parent / "02-b.ipynb")
    (course.parent / "deeper").mkdir()
    (course.parent / "deeper" / "01-study.ipynb").write_bytes(course.read_bytes())
    assert build.main(["--record-stored"]) == 1
    printed = capsys.readouterr()
    assert "01-a: 1 predictions" in printed.out and "recorded in" in printed.out
    assert "02-b: its stored outputs have no predictions to read" in printed.err
    (run,) = build.recorded.read()
    assert set(run.notebooks) == {"01-a", "deeper/01-study"}
    with pytest.raises(SystemExit):
        build.main(["--record", "01"])


def test_the_version_of_python_is_that_of_the_run(tmp_path):
    made = notebook("x = 1")
    made.metadata["language_info"] = {"name": "python", "version": "3.9.1"}
    nbformat.write(made, tmp_path / "03-x.ipynb")
    found = []
    for run in (False, True):
        build.build(tmp_path / "03-x.ipynb", run=run)
        found.append(nbformat.read(tmp_path / "03-x.ipynb", 4).metadata.language_info.version)
    assert found == ["3.9.1", platform.python_version()]


def test_a_kernel_of_its_own_is_kept(tmp_path):
    other = notebook("x = 1")
    other.metadata["kernelspec"] = {"name": "d2lperf-none", "display_name": "d2lperf: none"}
    assert build.normalise(other).metadata.kernelspec.name == "d2lperf-none"
    with pytest.raises(build.BuildError, match="kernel d2lperf-none is not installed"):
        build.execute(other, "02-none", folder=tmp_path)


def test_dead_widgets_and_traces_are_left_out():
    new = nbformat.v4.new_output
    outputs = [
        new("display_data", data={build.WIDGET: {"model_id": "abc"}}),
        new("error", ename="E", evalue="why", traceback=["File /home/someone/x.py", "E: why"]),
    ]
    (error,) = build.normal_outputs(outputs, 1)
    assert error.traceback == ["E: why"]
