"""Where the programs that make environments look for an interpreter."""

import os
import sys

import pytest
from environments import interpreter


@pytest.mark.skipif(os.name != "posix", reason="needs a POSIX shell")
def test_of_pyenvs_versions_the_newest_that_works_is_taken(tmp_path, monkeypatch):
    """3.98.10 is newer than 3.98.9, though it comes first as text."""
    for version, says in {"3.98.9": "works", "3.98.10": "works", "3.98.11": "broken"}.items():
        python = tmp_path / "versions" / version / "bin" / "python"
        python.parent.mkdir(parents=True)
        python.touch(0o755)
        python.write_text(f"#!/bin/sh\necho {says}\n")
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path))
    assert interpreter("3.98") == str(tmp_path / "versions" / "3.98.10" / "bin" / "python")


@pytest.mark.skipif(os.name != "posix", reason="needs a POSIX shell")
def test_an_interpreter_that_uv_knows_is_found(tmp_path, monkeypatch):
    uv = tmp_path / "uv"
    uv.write_text(f'#!/bin/sh\n[ "$*" = "python find --system 2.99" ] && echo "{sys.executable}"\n')
    uv.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert interpreter("2.99") == sys.executable
    assert interpreter("2.98") is None
