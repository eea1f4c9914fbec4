"""A release: its version stands once, and an archive holds the package and no more."""

import re
import sys
import tarfile
import venv
import zipfile

import environments
import pytest

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


PACKAGE = ["d2lperf/__init__.py", "d2lperf/py.typed"]


MORE = ["d2lperf-1.dist-info/METADATA"]


def test_what_a_release_declares_must_be_there(tmp_path, capfd):
    pytest.importorskip("pip")  # it is borrowed, too
    venv.create(tmp_path)
    python = environments.binaries(tmp_path) / "python"
    release.borrow(python)
    (own,) = tmp_path.rglob("site-packages")
    metadata = own / "d2lperf-99.dist-info" / "METADATA"
    metadata.parent.mkdir()
    declared = "Metadata-Version: 2.1\nName: d2lperf\nVersion: 99\nRequires-Dist: packaging"
    metadata.write_text(declared)
    release.check_dependencies(python)
    metadata.write_text(f"{declared}>=9999")
    with pytest.raises(release.ReleaseError, match="ended with 1"):
        release.check_dependencies(python)
    assert "packaging>=9999" in capfd.readouterr().err


@pytest.fixture
def archive(tmp_path):
    def make(kind, names):
        made = tmp_path / f"d2lperf-1{kind}"
        if kind == ".whl":
            with zipfile.ZipFile(made, "w") as wheel:
                for name in names:
                    wheel.writestr(name, "")
        else:
            with tarfile.open(made, "w:gz") as sources:
                for name in names:
                    sources.addfile(tarfile.TarInfo(f"d2lperf-1/{name}"))
        return made

    return make


@pytest.mark.parametrize("kind", [".whl", ".tar.gz"])
def test_an_archive_holds_the_package_and_no_more(archive, kind):
    release.check_files(archive(kind, [*PACKAGE, *MORE]), PACKAGE)
    with pytest.raises(release.ReleaseError, match=r"lacks d2lperf/py\.typed: "):
        release.check_files(archive(kind, [PACKAGE[0], *MORE]), PACKAGE)
    with pytest.raises(release.ReleaseError, match=r"also holds tests/test_a\.py: "):
        release.check_files(archive(kind, [*PACKAGE, "tests/test_a.py"]), PACKAGE)
