"""What a newcomer meets: README.md, make, the lock, conda's file."""

import inspect
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from sessions import run_pytest

import d2lperf

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
TYPED = r"(?:^    |`)make ([a-z]+)"  # a person types it in a shell
needs_make = pytest.mark.skipif(
    os.name != "posix" or not shutil.which("make"), reason="needs make and a POSIX shell"
)


def make(*arguments, **options):
    return subprocess.run(
        ["make", *arguments], cwd=ROOT, capture_output=True, text=True, encoding="utf-8", **options
    )


# ------------------------------------------------------------------------------- README


def test_the_page_of_names_is_the_packages_own():
    (page,) = re.findall(r"^```text\n(.*?)\n```", README, re.M | re.S)
    assert page in inspect.getdoc(d2lperf)
    assert not [name for name in d2lperf.__all__ if not re.search(rf"\b{name}\b", page)]


def test_links_of_the_readme_resolve():
    for target in re.findall(r"\]\(([^)\s]+)\)", README):
        assert target.startswith("http") or (ROOT / target).exists(), target


def test_readme_lists_every_notebook():
    for path in (ROOT / "notebooks").glob("*.ipynb"):
        assert f"](notebooks/{path.name})" in README


@needs_make
@pytest.mark.parametrize("target", sorted({*re.findall(TYPED, README, re.M)} - {"test"}))
def test_targets_of_the_readme_exist(target, tmp_path):
    run = make("-n", target, f"VENV={tmp_path}", f"PYTHON={sys.executable}")
    assert run.returncode == 0, run.stderr


def test_files_that_the_readme_names_exist():
    named = re.findall(r"`((?:benchmarks|tests|docs)/[\w./]+\.\w+)`", README)
    named += re.findall(r"python ((?:benchmarks|docs)/\w+\.py)", README)
    named = [n for n in named if "NN" not in n]
    assert named
    assert not [n for n in named if not (ROOT / n).exists()]


# --------------------------------------------------------------------------------- make


@pytest.fixture
def environment(tmp_path):
    """A folder that make takes for its finished environment; it is the running interpreter."""
    venv = tmp_path / "venv"
    (venv / "bin").mkdir(parents=True)
    python = venv / "bin" / "python"
    python.write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    python.chmod(0o755)
    (venv / ".ready").touch()
    return venv


@needs_make
def test_make_alone_says_what_there_is():
    run = make()
    assert run.returncode == 0
    assert "make lab" in run.stdout
    assert "make test" in run.stdout


@needs_make
def test_make_hands_arguments_to_pytest(environment):
    run = make(
        *("test", f"VENV={environment}", "PYTEST_ARGS=--version --version -p no:cacheprovider"),
        env={
            **os.environ,
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
            "PYTEST_PLUGINS": "xdist.plugin",
        },
    )
    assert run.returncode == 0, run.stderr


@needs_make
@pytest.mark.parametrize(
    "goals, asked",
    [("test", ""), ("frameworks test", "all"), ("frameworks test FRAMEWORK=jax", "jax")],
)
def test_make_tells_the_tests_which_kernels_were_asked_for(goals, asked, environment):
    python = environment / "bin" / "python"
    python.write_text('#!/bin/sh\necho "$2 asked: $D2LPERF_FRAMEWORKS."\n')
    # what a make around this one was told must not count
    arguments = ["FRAMEWORK=", f"VENV={environment}", *goals.split()]
    run = make(*arguments, env={**os.environ, "D2LPERF_FRAMEWORKS": ""})
    assert f"pytest asked: {asked}." in run.stdout


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


def test_ci_runs_what_the_readme_says():
    script = ROOT / ".ci" / "run"
    assert "\nmake frameworks test\n" in script.read_text(encoding="utf-8")
    if os.name == "posix":
        assert os.access(script, os.X_OK)


# --------------------------------------------------------------- nothing written beside

TIDY = """
from pathlib import Path
def test_it(tmp_path):
    (tmp_path / "a").touch()
    Path("../.hypothesis").mkdir()  # the cache of a tool
    Path("03-more.ipynb").touch()  # a person adds a notebook meanwhile
"""
UNTIDY = """
from pathlib import Path
def test_it():
    for name in ("my_mlp", ".a", "../a.pt"):
        Path(name).touch()
    Path("../README.md").unlink()
"""
TOLD = ["left behind: a.pt, notebooks/.a, notebooks/my_mlp.", "gone: README.md."]


@pytest.mark.parametrize(
    "source, told",
    [(TIDY, []), (UNTIDY, TOLD), (UNTIDY + "    assert 0\n", TOLD)],
    ids=["tidy", "untidy", "untidy and fails"],
)
def test_a_session_that_leaves_something_behind_fails(source, told, tmp_path):
    root = tmp_path / "root"
    (root / "notebooks").mkdir(parents=True)
    (root / "README.md").touch()
    shutil.copy(ROOT / "conftest.py", root)
    (tmp_path / "test_it.py").write_text(source)
    # only that conftest.py, as a plugin: the tests stand elsewhere
    run = run_pytest(
        *("-q", "-p", "conftest", "--rootdir", str(tmp_path), str(tmp_path / "test_it.py")),
        cwd=root / "notebooks",
        PYTHONPATH=str(root),
        PYTHONDONTWRITEBYTECODE="1",
    )
    assert run.returncode == (1 if told else 0), run.stdout + run.stderr
    lines = [x for x in run.stdout.splitlines() if x.startswith("NOT TIDY")]
    assert len(lines) == len(told), run.stdout
    for line, words in zip(lines, told, strict=True):
        assert line.startswith(f"NOT TIDY - {words.replace('/', os.sep)}")
    assert f"1 {'failed' if 'assert 0' in source else 'passed'}" in run.stdout
