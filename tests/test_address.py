"""`make stamp` writes the address of a fork everywhere, and takes it out again."""

import os
import re
import runpy
import shutil
import subprocess
from pathlib import Path

import nbformat
import pytest
from fresh import run_fresh

from notebooks import address, build

ROOT = Path(__file__).parents[1]
NOTEBOOKS = ("00-start-here", "deeper/02-without-python", "frameworks/02-jax")


@pytest.fixture(scope="module")
def tree(tmp_path_factory):
    """A copy of what is stamped, with three notebooks."""
    root = tmp_path_factory.mktemp("fork")
    shutil.copytree(ROOT / "notebooks/figures", root / "notebooks/figures")
    recorded = [p.relative_to(ROOT) for p in (ROOT / "notebooks/recorded").glob("*.json")]
    notebooks = [f"notebooks/{name}.ipynb" for name in NOTEBOOKS]
    scripts = ("notebooks/address.py", "notebooks/build.py")
    for name in (*address.FILES, *scripts, *notebooks, *recorded, "Makefile"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, root / name)
    return root


def files_of(root):
    return [p for p in root.rglob("*") if p.is_file() and "__pycache__" not in p.parts]


def stamped(root, repo):
    """Stamp the copy; returns its files, and when each was written."""
    script = str(root / "notebooks" / "address.py")
    run = run_fresh(f"import runpy; runpy.run_path({script!r})['main']([{repo!r}])")
    assert run.returncode == 0, run.stderr
    return {
        str(p.relative_to(root)): (p.read_bytes(), p.stat().st_mtime_ns) for p in files_of(root)
    }


def test_stamping_is_undone_byte_for_byte_and_repeating_it_writes_nothing(tree):
    committed = {str(p.relative_to(tree)): p.read_bytes() for p in files_of(tree)}
    without = {name: content for name, (content, _) in stamped(tree, "").items()}
    fork = stamped(tree, "ada-l/engine.2")
    assert stamped(tree, "ada-l/engine.2") == fork
    changed = {name for name, (content, _) in fork.items() if content != without[name]}
    assert changed == {*address.FILES, *(f"notebooks/{name}.ipynb" for name in NOTEBOOKS)}
    every_name(tree)
    own = build.REPOSITORY.removeprefix(build.GITHUB)  # "" but in a fork that has stamped itself
    assert {name: content for name, (content, _) in stamped(tree, own).items()} == committed


def every_name(tree):
    """Where the address stands in a stamped tree."""
    url = "https://github.com/ada-l/engine.2"
    assert f'[project.urls]\nRepository = "{url}"\n' in (tree / "pyproject.toml").read_text("utf-8")
    assert f"\nrepository-code: {url}\n" in (tree / "CITATION.cff").read_text("utf-8")
    colab = f"({build.COLAB}github/ada-l/engine.2/blob/main/notebooks"
    assert f"{colab}/00-start-here.ipynb)\n" in (tree / "README.md").read_text("utf-8")
    for name in NOTEBOOKS:
        notebook = nbformat.read(tree / f"notebooks/{name}.ipynb", as_version=4)
        setup = next(c.source for c in notebook.cells if c.cell_type == "code")
        assert f'os.environ.get("D2LPERF_REPO") or "git+{url}"' in setup
        badges = [c.source for c in notebook.cells if "badge" in build.tags(c)]
        assert len(badges) == (0 if name.startswith("frameworks") else 1)
        assert all(badge.endswith(f"{colab}/{name}.ipynb)") for badge in badges)


def test_other_urls_of_a_fork_stay():
    text = '[project.urls]\nPage = "https://example.org"\n\n[project.optional-dependencies]\n'
    stamped = address.in_pyproject(text, "a/b")
    assert stamped == text.replace("urls]\n", 'urls]\nRepository = "https://github.com/a/b"\n')
    assert address.in_pyproject(stamped, "") == text


@pytest.mark.parametrize(
    "bad",
    ["name", "a/b/c", "https://github.com/a/b", "a/b.git", "a b/c", "-a/b", "a/", "/b", 'a/"'],
)
def test_a_bad_name_changes_nothing_and_is_explained(bad, capsys, monkeypatch):
    monkeypatch.setattr(address, "FILES", {})
    monkeypatch.setattr(runpy, "run_path", lambda path: pytest.fail("it went on"))
    assert address.main([bad]) == 2
    said = capsys.readouterr().err
    assert repr(bad) in said and "owner/name" in said and "make stamp REPO=" in said


@pytest.mark.skipif(not shutil.which("make"), reason="make is not installed")
@pytest.mark.parametrize(
    "typed, wanted",
    [
        ("REPO=a/b", 'notebooks/address.py "a/b"'),
        ("REPO=", 'notebooks/address.py ""'),
        ("", "notebooks/build.py --stamp"),
    ],
)
def test_make_takes_a_repository_from_its_command_line_alone(typed, wanted):
    command = ["make", "-n", "stamp", *typed.split()]
    env = {**os.environ, "REPO": "of/another"}
    for name in ("MAKEFLAGS", "MAKELEVEL", "MFLAGS"):
        env.pop(name, None)
    run = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=True)
    last = run.stdout.strip().splitlines()[-1]
    assert re.fullmatch(rf'".*python" {re.escape(wanted)}', last)
