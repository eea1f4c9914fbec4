"""What other services read: workflows, issue forms and the citation have the form they need."""

import subprocess
import sys
from pathlib import Path

import pytest
from browser import needed

ROOT = Path(__file__).parents[2]
FORMS = [p for p in (ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml") if p.stem != "config"]
FILES = {
    "github-workflows": list((ROOT / ".github" / "workflows").glob("*.yml")),
    "github-issue-forms": FORMS,
    "github-issue-config": [ROOT / ".github" / "ISSUE_TEMPLATE" / "config.yml"],
    "citation-file-format": [ROOT / "CITATION.cff"],
}


def check(schema, *files):
    needed("check_jsonschema")
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", f"vendor.{schema}"]
    return subprocess.run([*command, *map(str, files)], capture_output=True, text=True)


@pytest.mark.parametrize("schema", FILES)
def test_files_follow_their_schema(schema):
    assert FILES[schema]
    run = check(schema, *FILES[schema])
    assert run.returncode == 0, run.stdout + run.stderr


def test_a_wrong_workflow_is_found(tmp_path):
    wrong = tmp_path / "wrong.yml"
    wrong.write_text("on: push\njobs: {page: {run-on: ubuntu-latest, steps: []}}\n")
    assert check("github-workflows", wrong).returncode != 0


@pytest.mark.parametrize(
    "asked, outcome", [("1", pytest.fail.Exception), ("", pytest.skip.Exception)]
)
def test_what_is_missing_fails_where_these_tests_must_run(monkeypatch, asked, outcome):
    monkeypatch.setenv("D2LPERF_BROWSER", asked)
    monkeypatch.setitem(sys.modules, "check_jsonschema", None)
    with pytest.raises(outcome, match="no check_jsonschema"):
        check("github-workflows")
