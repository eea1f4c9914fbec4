"""The studies in benchmarks/: a missed target is told."""

import json

import pytest
import verdicts


def trials_with(**changes):
    """Trials that reach every target, changed."""
    rows = []
    for condition in ("quiet", "bursts"):
        for name in ("python", "long threaded forward"):
            rows += [trial("null", 0, snippet=name, condition=condition)] * 45
            rows += [trial("10 %", 1, snippet=name, condition=condition)] * 5
            rows += [trial("3 %", 1, snippet=name, condition=condition)] * 5
    rows += [trial("copies", 0)] * 40 + [trial("regions", None, condition="steady")] * 40
    return [verdicts.Trial(**{**vars(t), **changes}) for t in rows]


def trial(truth, verdict, snippet="python", condition="quiet"):
    true_ratio = {"10 %": 1.1, "3 %": 1.03}.get(truth, 1.0)
    return verdicts.Trial(
        "d2lperf", condition, snippet, truth, true_ratio, verdict, true_ratio, 0.5
    )


@pytest.mark.parametrize(
    ("changes", "missed"),
    [
        ({}, []),
        ({"verdict": 1}, ["false verdicts, pooled", "false verdicts, copies"]),
    ],
)
def test_a_missed_target_is_told_by_the_exit_status(changes, missed, tmp_path, capsys):
    path = tmp_path / "trials.json"
    verdicts.save(path, trials_with(**changes))
    assert verdicts.main(["--load", str(path), "--check"]) == int(bool(missed))
    printed = capsys.readouterr().out
    for name in missed:
        assert f"missed: {name}" in printed
    assert ("missed: " in printed) == bool(missed)
    assert json.loads(path.read_text())["setting"] in printed
