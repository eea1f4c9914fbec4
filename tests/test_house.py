"""What a newcomer meets: README.md, CONTRIBUTING.md, make, the lock, conda's file."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import sets
import yaml
from packaging.requirements import Requirement
from sessions import run_pytest

from docs.book import slug

try:
    import tomllib
except ImportError:  # Python 3.10, where pytest brings the same parser along
    import tomli as tomllib

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
LOCK = [
    Requirement(line)
    for line in (ROOT / "requirements.lock").read_text(encoding="utf-8").splitlines()
    if not line.startswith("#")
]
EXTRAS = set(PROJECT["optional-dependencies"]) - {"book"}  # the page has its own environment
needs_make = pytest.mark.skipif(
    os.name != "posix" or not shutil.which("make"), reason="needs make and a POSIX shell"
)


def make(*arguments, **options):
    return subprocess.run(
        ["make", *arguments], cwd=ROOT, capture_output=True, text=True, encoding="utf-8", **options
    )


# ------------------------------------------------------------------------------- README


def prose(page):
    """The text of a page without its code."""
    text = re.sub(r"(?ms)^```.*?^```", "", page.read_text(encoding="utf-8"))
    return re.sub(r"`[^`\n]+`", "", text)


def test_the_readme_fits_two_screens():
    lines = README.splitlines()
    assert len(lines) <= 110
    tables_and_badge = ("|", "[![")
    assert not [x for x in lines if len(x) > 120 and not x.startswith(tables_and_badge)]


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md", "docs/your-script.md"])
def test_links_resolve(name):
    page = ROOT / name
    for target in re.findall(r"\]\(([^)#\s]+)[^)\s]*(?: \"[^\"]+\")?\)", prose(page)):
        assert target.startswith("http") or (page.parent / target).exists(), target


@pytest.mark.parametrize("name", ["README.md", "docs/your-script.md"])
def test_links_to_a_heading_find_it(name):
    page = ROOT / name
    for target, anchor in re.findall(r"\]\(([\w./-]+\.md)#([\w-]+)\)", prose(page)):
        headings = re.findall(r"(?m)^#+ (.+)$", (page.parent / target).read_text("utf-8"))
        assert anchor in map(slug, headings), f"{target}#{anchor}"


def test_readme_lists_every_notebook():
    for path in (ROOT / "notebooks").glob("*.ipynb"):
        assert f"](notebooks/{path.name})" in README


def test_targets_that_are_named_exist():
    pages = README + (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    named = set(re.findall(r"(?m)(?:^    |`)make ([a-z][\w-]*)", pages))
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert named and named <= set(re.findall(r"(?m)^([a-z][\w-]*):", makefile))


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md", "docs/your-script.md"])
def test_files_that_a_page_names_exist(name):
    text = (ROOT / name).read_text(encoding="utf-8")
    named = re.findall(r"`((?:d2lperf|benchmarks|tests|docs|notebooks)/[\w./-]+\.\w+)`", text)
    named += re.findall(r"python ((?:benchmarks|docs|notebooks)/\w+\.py)", text)
    assert named
    named = [n.replace("NN.", "01.") for n in named if "NN-" not in n]
    assert not [n for n in named if not (ROOT / n).exists()]


# --------------------------------------------------------------------------------- make


@pytest.fixture
def finished(tmp_path):
    """Make an environment that make takes for finished, with a shell script as its Python."""

    def write(script):
        python = tmp_path / "bin" / "python"
        python.parent.mkdir()
        (tmp_path / ".ready").touch()
        python.touch(0o755)
        python.write_text(f"#!/bin/sh\n{script}\n")
        return tmp_path

    return write


@needs_make
@pytest.mark.parametrize(
    "goals, asked",
    [("test", ""), ("frameworks test", "all"), ("frameworks test FRAMEWORK=jax", "jax")],
)
def test_make_tells_the_tests_which_kernels_were_asked_for(goals, asked, finished):
    venv = finished('echo "$2 asked: $D2LPERF_FRAMEWORKS."')
    # what a make around this one was told must not count
    arguments = ["FRAMEWORK=", f"VENV={venv}", *goals.split()]
    run = make(*arguments, env={**os.environ, "D2LPERF_FRAMEWORKS": ""})
    assert f"pytest asked: {asked}." in run.stdout


@needs_make
def test_nbconvert_gets_each_notebook_that_has_a_kernel(finished):
    """Each kernel in a call of its own: nbconvert runs all of a call with the first one's."""
    venv = finished('echo "$@"')
    for name in ("jax", "onnx"):
        (venv / f"share/jupyter/kernels/d2lperf-{name}").mkdir(parents=True)
    run = make("--silent", "nbconvert", f"VENV={venv}")
    calls = [
        {ROOT / word.strip('"') for word in line.split() if word.endswith(".ipynb")}
        for line in run.stdout.splitlines()
    ]
    wanted = {*ROOT.glob("notebooks/*.ipynb"), *ROOT.glob("notebooks/deeper/*.ipynb")}
    others = [{ROOT / f"notebooks/frameworks/02-{name}.ipynb"} for name in ("jax", "onnx")]
    assert [call for call in calls if call] == [wanted, *others]


@needs_make
def test_make_refuses_an_old_python_in_words(tmp_path):
    old = tmp_path / "python3.8"
    old.write_text('#!/bin/sh\n[ "$1" = --version ] && echo "Python 3.8.20" || exit 1\n')
    old.chmod(0o755)
    run = make("test", f"VENV={tmp_path / 'venv'}", f"PYTHON={old}")
    assert run.returncode != 0
    assert "needs Python 3.10 to 3.13" in run.stderr
    assert "Python 3.8.20" in run.stderr
    assert "make test PYTHON=" in run.stderr
    assert not (tmp_path / "venv").exists()


FAKE_PYTHON = """#!/bin/sh
case "$*" in
"-c "*) ;;
"-m venv "*) mkdir -p "$3/bin"; cp "$0" "$3/bin/python"; touch "$3/new";;
"-m pip --version") test ! -e "{folder}/no-pip";;
"-m pip install "*) echo "pip $*"; . "{folder}/pip";;
esac
"""


@pytest.fixture
def fake(tmp_path):
    """An interpreter whose pip does what the file `pip` says; returns a call of make with it."""
    python = tmp_path / "python"
    python.write_text(FAKE_PYTHON.format(folder=tmp_path))
    python.chmod(0o755)
    venv = tmp_path / "venv"

    def run(then):
        (tmp_path / "pip").write_text(then)
        (venv / "new").unlink(missing_ok=True)
        return make(str(venv / ".ready"), f"VENV={venv}", f"PYTHON={python}")

    return venv, run


@needs_make
@pytest.mark.parametrize("signal", ["INT", "KILL"])
def test_an_interrupted_environment_is_made_again(fake, signal):
    venv, run = fake
    run(f'touch "{venv}/half"; kill -{signal} $PPID; sleep 1')
    assert (venv / "half").exists() and not (venv / ".ready").exists()
    again = run("true")
    assert again.returncode == 0, again.stderr
    assert "was not finished and is made again" in again.stdout
    assert not (venv / "half").exists()
    assert (venv / ".ready").exists() and not (venv / ".unfinished").exists()
    assert "up to date" in run("false").stdout


@needs_make
def test_an_environment_without_pip_is_made_again(fake, tmp_path):
    venv, run = fake
    assert run("true").returncode == 0
    (venv / ".ready").unlink()
    run("true")
    assert not (venv / "new").exists(), "one that works is kept"
    (venv / ".ready").unlink()
    (tmp_path / "no-pip").touch()
    run("true")
    assert (venv / "new").exists()


@needs_make
def test_without_a_network_make_says_what_to_do_and_keeps_what_is_there(fake):
    venv, run = fake
    failed = run('echo "ERROR: No matching distribution found" >&2; exit 1')
    assert failed.returncode != 0
    assert "No matching distribution" in failed.stderr
    assert f"pip could not install what d2lperf needs into {venv}" in failed.stderr
    assert "connect and call make again" in failed.stderr
    assert "PIP_NO_INDEX=1 PIP_FIND_LINKS=FOLDER make" in failed.stderr
    assert not (venv / ".ready").exists()
    assert run("true").returncode == 0
    assert (venv / ".ready").exists() and not (venv / "new").exists()


# ------------------------------------------------------------------------- dependencies


@pytest.mark.parametrize("python", ["3.10", "3.11", "3.12", "3.13"])
@pytest.mark.parametrize("system", ["linux", "darwin", "win32"])
def test_lock_holds_what_the_project_asks_for(python, system):
    here = {"python_version": python, "python_full_version": f"{python}.1", "sys_platform": system}
    locked = {r.name.lower(): r for r in LOCK if r.marker is None or r.marker.evaluate(here)}
    groups = [PROJECT["dependencies"], *(PROJECT["optional-dependencies"][n] for n in EXTRAS)]
    for requirement in (Requirement(text) for group in groups for text in group):
        pin = locked.get(requirement.name.lower())
        assert pin, f"{requirement.name} is not locked for Python {python}: run make lock"
        (version,) = (s.version for s in pin.specifier)
        assert requirement.specifier.contains(version), f"{pin} is not {requirement}: run make lock"


def test_lock_fits_any_build_of_torch():
    names = [r.name for r in LOCK]
    assert not [n for n in names if re.match("nvidia|cuda|triton", n)], "torch asks for them itself"
    assert "d2l" not in names, "it is installed without its pins"
    text = (ROOT / "requirements.lock").read_text(encoding="utf-8")
    assert not re.search(r"://|\+cpu|\+cu|--\w|^/|file:", text, re.M)
    assert all(re.fullmatch(r"==[\w.]+", str(r.specifier)) for r in LOCK)


def test_the_book_is_the_same_everywhere():
    files = ("Makefile", "environment.yml", "README.md")
    found = [set(re.findall(r"d2l==([\d.]+)", (ROOT / f).read_text("utf-8"))) for f in files]
    assert found == [{"1.0.3"}] * 3


def test_conda_installs_the_extras():
    text = (ROOT / "environment.yml").read_text(encoding="utf-8")
    named = re.search(r"-e \.\[([\w,]+)\]", text).group(1).split(",")
    assert set(named) == EXTRAS
    assert "python=3.11" in text, "the newest that the book's own pins are built for"
    packages = yaml.safe_load(text)["dependencies"]
    assert [{"pip": sets.pip_part()}] == [part for part in packages if isinstance(part, dict)]


# --------------------------------------------------------------- nothing written beside

UNTIDY = """
from pathlib import Path
def test_it(tmp_path):
    (tmp_path / "a").touch()
    Path("../.hypothesis").mkdir()  # the cache of a tool
    Path("03-more.ipynb").touch()  # a person adds a notebook meanwhile
    for name in ("my_mlp", ".a", "../a.pt"):
        Path(name).touch()
    Path("../README.md").unlink()
"""


def test_a_session_that_leaves_something_behind_fails(tmp_path):
    root = tmp_path / "root"
    (root / "notebooks").mkdir(parents=True)
    (root / "README.md").touch()
    shutil.copy(ROOT / "conftest.py", root)
    (tmp_path / "test_it.py").write_text(UNTIDY)
    # only that conftest.py, as a plugin: the tests stand elsewhere
    run = run_pytest(
        *("-q", "-p", "conftest", f"--rootdir={tmp_path}", str(tmp_path / "test_it.py")),
        cwd=root / "notebooks",
        PYTHONPATH=str(root),
        PYTHONDONTWRITEBYTECODE="1",
    )
    assert run.returncode == 1, run.stdout + run.stderr
    left = [x for x in run.stdout.splitlines() if x.startswith("NOT TIDY")]
    told = ["left behind: a.pt, notebooks/.a, notebooks/my_mlp.", "gone: README.md."]
    assert len(left) == len(told), run.stdout
    for line, words in zip(left, told):
        assert line.startswith(f"NOT TIDY - {words.replace('/', os.sep)}")
    assert "1 passed" in run.stdout
