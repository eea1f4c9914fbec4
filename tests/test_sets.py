"""`make conda` without the environment: stand-ins play micromamba, conda and its Python."""

import os

import pytest
import sets

TOOL = """#!/bin/sh
PATH=/usr/bin:/bin
echo "$* with $(cat "$PIP_CONSTRAINT")" > "{folder}/asked"
for prefix; do :; done  # the last argument
mkdir -p "$prefix/bin"
cp "{folder}/python" "$prefix/bin"
exit {status}
"""
PYTHON = """#!/bin/sh
[ "$1" = -c ] && echo "numpy 1.23.5, " || echo "4 passed in 1.0s"
"""


@pytest.mark.skipif(os.name != "posix", reason="needs a POSIX shell")
@pytest.mark.parametrize("tool, words", [("micromamba", "create --yes"), ("conda", "env create")])
@pytest.mark.parametrize("status, result", [(0, "green"), (1, "{} {} failed")])
def test_conda_takes_the_file_and_leaves_nothing_behind(
    tool, words, status, result, tmp_path, monkeypatch, capsys
):
    (tmp_path / "bin").mkdir()
    for name, script in {f"bin/{tool}": TOOL, "python": PYTHON}.items():
        (tmp_path / name).touch(0o755)
        (tmp_path / name).write_text(script.format(folder=tmp_path, status=status))
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    assert sets.main(["conda"]) == status
    assert capsys.readouterr().out.splitlines()[-1].endswith(f"| {result.format(tool, words)} |")
    asked, _, rest = (tmp_path / "asked").read_text().partition(" --prefix ")
    prefix, _, torch = rest.strip().partition(" with ")
    assert asked == f"{words} --file environment.yml"
    assert f"\n{torch}\n" in (sets.ROOT / "requirements.lock").read_text("utf-8")
    assert torch.startswith("torch==")
    assert not os.path.exists(os.path.dirname(prefix))
