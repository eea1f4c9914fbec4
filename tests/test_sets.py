"""`make conda` and `make oldest` without the installing: stand-ins play conda, Python and pip."""

import os

import pytest
import sets
import yaml

PYTHON = '#!/bin/sh\necho "$@" >> "{folder}/calls"\n{then}\n'
MICROMAMBA = """#!/bin/sh
[ "$1 $2 $3 $4 $5" = "create --yes --file environment.yml --prefix" ] || exit 1
mkdir -p "$6/bin"
cp "{folder}/python" "$6/bin/python"
echo "$6" > "{folder}/prefix"
cp "$PIP_CONSTRAINT" "{folder}/constraint"
"""
pytestmark = pytest.mark.skipif(os.name != "posix", reason="the stand-ins are shell scripts")


@pytest.fixture
def stand_ins(tmp_path, monkeypatch):
    """Put micromamba on the path; its Python does what it is told, whatever the arguments."""

    def put(then):
        for name, text in {"micromamba": MICROMAMBA, "python": PYTHON}.items():
            path = tmp_path / name
            path.write_text(text.format(folder=tmp_path, then=then))
            path.chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")

    return put


def last_row(capsys):
    line = capsys.readouterr().out.splitlines()[-1]
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_the_pip_part_is_the_one_of_the_file():
    packages = yaml.safe_load((sets.ROOT / "environment.yml").read_text("utf-8"))["dependencies"]
    assert [{"pip": sets.pip_part()}] == [part for part in packages if isinstance(part, dict)]


def test_conda_makes_what_the_file_says_where_there_is_one(stand_ins, tmp_path, capsys):
    stand_ins('echo "4 passed, 1 skipped in 1.0s"')
    assert sets.main(["conda"]) == 0
    row = last_row(capsys)
    assert (row[0], *row[2:5], row[-1]) == ("conda", "4", "0", "1", "green")
    pytest_call = (tmp_path / "calls").read_text().splitlines()[-1]
    assert "-m pytest --nbval" in pytest_call
    assert all(f"notebooks/{number}-" in pytest_call for number in sets.NOTEBOOKS)
    assert (tmp_path / "constraint").read_text().startswith("torch==")
    assert not os.path.exists((tmp_path / "prefix").read_text().strip())


def test_a_failed_test_is_a_failure(stand_ins, capsys):
    stand_ins('echo "1 failed, 3 passed in 1.0s"; exit 1')
    assert sets.main(["conda"]) == 1
    assert last_row(capsys)[2:4] == ["3", "1"]


def test_a_set_that_cannot_be_installed_is_one_too(tmp_path, monkeypatch, capsys):
    broken = tmp_path / "python"
    broken.write_text("#!/bin/sh\nexit 1\n")
    broken.chmod(0o755)
    monkeypatch.setattr(sets, "interpreter", lambda wanted: str(broken))
    assert sets.main(["oldest"]) == 1
    assert last_row(capsys)[-1] == "python -m venv failed"
    monkeypatch.setattr(sets, "interpreter", lambda wanted: None)
    assert sets.main(["newest"]) == 1
    assert last_row(capsys)[-1] == "no Python 3.11 here"


def test_nvidias_packages_are_left_to_torch():
    listed = "numpy==1.23.2\nnvidia-nccl-cu12==2.21.5\ntorch==2.7.0\ntriton==3.3.0\n"
    assert sets.OF_TORCH.sub("", listed) == "numpy==1.23.2\ntorch==2.7.0\n"
