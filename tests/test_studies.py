"""The studies in benchmarks/: what they call true is true, and a missed target is told."""

import json
import random
from collections import Counter

import pytest
import verdicts
from snippets import SNIPPETS


def trials_with(**changes):
    """Trials that reach every target, changed."""
    rows = []
    for condition in ("quiet", "bursts"):
        for name in ("python", "long threaded forward"):
            rows += [trial("null", 0, snippet=name, condition=condition)] * 45
            rows += [trial("10 %", 1, snippet=name, condition=condition)] * 5
            rows += [trial("3 %", 1, snippet=name, condition=condition)] * 5
    for truth, verdict, count in (("null", 0, 45), ("10 %", 1, 5), ("3 %", 1, 5)):
        rows += [trial(truth, verdict, condition="steady")] * count
        # Beside a steady load functions with several threads get no verdict.
        rows += [trial(truth, None, snippet="long threaded forward", condition="steady")] * count
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
        (
            {"verdict": 1},
            ["false verdicts, pooled", "false verdicts, steady", "false verdicts, copies"],
        ),
        (
            {"verdict": None},
            [
                "nulls decided, quiet",
                "nulls decided, steady (one thread)",
                "10 % found, steady (one thread)",
                "3 % found, steady (one thread)",
                "3 % found with one thread",
                "3 % found with several threads, pooled (without steady)",
            ],
        ),
        ({"verdict": -1}, ["wrong sign"]),
        ({"verdict": 0, "ratio": 1.06}, ["verdicts beside a steady load", "10 % found, bursts"]),
        ({"seconds": 5.0}, ["time, most", "time, median"]),
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


def test_an_interrupted_study_leaves_those_before_it(tmp_path, monkeypatch):
    def interrupted(repeats):
        raise KeyboardInterrupt

    kept = trials_with()
    monkeypatch.setattr(verdicts, "study", lambda *options: kept)
    monkeypatch.setattr(verdicts, "study_of_programs", interrupted)
    path = tmp_path / "trials.json"
    with pytest.raises(KeyboardInterrupt):
        verdicts.main(["--tools", "d2lperf", "--save", str(path)])
    assert verdicts.load([path])[0] == kept


@pytest.mark.parametrize("snippet", SNIPPETS)
def test_the_true_ratio_of_a_pair_is_that_of_its_steps(snippet, monkeypatch):
    """A maker that counts: the functions do exactly as many steps as the ratio says."""
    counts = Counter()

    def counting_maker():
        return lambda n: lambda: counts.update({"steps": n}) or n

    monkeypatch.setitem(SNIPPETS, snippet, (counting_maker, SNIPPETS[snippet][1]))
    monkeypatch.setattr(verdicts, "copy_of", lambda fn: fn)
    for truth, place in verdicts.TRUTHS.items():
        if SNIPPETS[snippet][1][place] is not None:
            a, b, ratio = verdicts.make_pair(snippet, truth, random.Random(1))
            assert b() / a() == pytest.approx(ratio)
