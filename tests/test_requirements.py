"""What a kernel lacks is said: the package, the version, what to do."""

import re
import sys
from pathlib import Path

import pytest
from fresh import run_fresh
from packaging.requirements import Requirement

from d2lperf import requirements

PROJECT = Path(__file__).parents[1] / "pyproject.toml"


def test_the_list_is_that_of_pyproject():
    (block,) = re.findall(r"(?ms)^dependencies = \[\n(.*?)^\]", PROJECT.read_text("utf-8"))
    wanted = re.findall(r'^ *"([\w-]+)>=', block, re.M)
    assert sorted(requirements.PACKAGES) == sorted(wanted)
    assert f'"torch>={requirements.OLDEST_TORCH}"' in block


def test_colab_has_all_of_it():
    """So that the set-up cell brings d2lperf alone."""
    listed = (PROJECT.parent / "tests" / "colab.txt").read_text("utf-8")
    there = dict(re.findall(r"(?m)^([\w-]+)==(\S+)$", listed))
    (block,) = re.findall(r"(?ms)^dependencies = \[\n(.*?)^\]", PROJECT.read_text("utf-8"))
    wanted = [Requirement(r) for r in re.findall(r'^ *"([^"]+)"', block, re.M)]
    assert {r.name for r in wanted if there.get(r.name, "0") not in r.specifier} == set()


def test_missing_packages_are_named_with_the_python_that_lacks_them(monkeypatch):
    absent = {"torch": None, "pooch": None}
    monkeypatch.setattr(requirements, "find_spec", lambda name: absent.get(name, "there"))
    with pytest.raises(ModuleNotFoundError) as found:
        requirements.check()
    assert found.value.name == "torch"
    assert f"{sys.executable} -m pip install torch pooch" in str(found.value)


def test_what_measures_asks_first():
    """In a new process."""
    run = run_fresh(
        "import d2lperf.requirements as r; r.version = lambda name: '2.5.1'\n"
        "import d2lperf; d2lperf.measure"
    )
    assert run.returncode == 1
    assert "d2lperf needs torch" in run.stderr and "but torch 2.5.1 is installed" in run.stderr


@pytest.mark.parametrize("version", ["2.6.0", "2.5.1+cu124", "1.13.1"])
def test_an_old_torch_is_an_error_that_names_both_versions(monkeypatch, version):
    monkeypatch.setattr(requirements, "version", lambda name: version)
    with pytest.raises(ImportError) as found:
        requirements.check()
    assert f"needs torch {requirements.OLDEST_TORCH} or newer" in str(found.value)
    assert f"torch {version} is installed" in str(found.value)
    assert "restart the kernel" in str(found.value)


@pytest.mark.parametrize("version", ["2.7.0", "2.10.0a0+git1234", "2.13.0+cpu", "3.0"])
def test_a_newer_torch_is_enough(monkeypatch, version):
    monkeypatch.setattr(requirements, "version", lambda name: version)
    requirements.check()
