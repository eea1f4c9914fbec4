"""A release: its version stands once. `make release` builds the archives and tries them."""

import re
import sys

import d2lperf
from tests import release


def test_a_command_that_fails_ends_the_release(monkeypatch, capsys):
    fails = [sys.executable, "-c", "exit(3)"]
    monkeypatch.setattr(release, "build", lambda folder: release.run(fails))
    assert release.main() == 1
    assert "No release: `python -c exit(3)` ended with 3" in capsys.readouterr().err


def test_the_version_is_one_line_to_change():
    """The other places read it, or do not have it."""
    version = d2lperf.__version__
    for name in ("pyproject.toml", "CITATION.cff", "docs/conf.py", "README.md", "Makefile"):
        text = (release.ROOT / name).read_text("utf-8")
        assert not re.search(rf"(?mi)^(version|release)\W+{re.escape(version)}\b", text), name
    changes = (release.ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    newest = re.search(r"(?m)^## (\S+)", changes)[1]
    assert newest == version, "tell in CHANGELOG.md what this version changes"
