"""Claims about a comparison: borne out, contradicted or open, by the interval alone."""

import io
import os
import sys

import pytest
from comparisons import made
from hypothesis import given
from hypothesis import strategies as st

from d2lperf.measuring import claims
from d2lperf.measuring.claims import Claim, ClaimContradicted
from d2lperf.measuring.verdict import NOT_DECIDED, Ratio, decide

M = 0.01


@pytest.fixture
def strict(monkeypatch):
    monkeypatch.setenv("D2LPERF_STRICT", "1")


@pytest.fixture
def lenient(monkeypatch):
    monkeypatch.delenv("D2LPERF_STRICT", raising=False)


def with_interval(low, high):
    """A ratio of which a claim looks at nothing but the ends."""
    return Ratio("b", "a", (low + high) / 2, low, high, NOT_DECIDED)


# ---------------------------------------------------------------------- the interval decides


@pytest.mark.parametrize(
    ("claimed", "low", "high", "outcome"),
    [
        # The first was contradicted and the second, which proves more, was not decided.
        (claims.faster("a", M), 0.995, 1.0099, "contradicted"),
        (claims.faster("a", M), 1.002, 1.008, "contradicted"),
        (claims.faster("a", M), 0.90, 0.98, "borne out"),
        (claims.faster("a", M), 0.98, 0.995, "open"),
        (claims.faster("a", M), 0.0, float("inf"), "open"),
        (claims.slower("a", M), 1.02, 1.05, "borne out"),
        (claims.slower("a", M), 1.005, 1.05, "open"),
        (claims.slower("a", M), 0.99, 1.01, "contradicted"),
        (claims.same("a", 0.03), 0.98, 1.029, "borne out"),
        (claims.same("a", 0.03), 0.98, 1.031, "open"),
        (claims.same("a", 0.03), 1.031, 1.05, "contradicted"),
        # What a regression test asks: a change of 5 to 7 % where 10 % are allowed.
        (claims.at_most("a", 1.1), 1.05, 1.07, "borne out"),
        (claims.at_most("a", 1.1), 1.05, 1.12, "open"),
        (claims.at_most("a", 1.1), 1.11, 1.12, "contradicted"),
    ],
)
def test_outcomes(claimed, low, high, outcome):
    assert claimed.outcome(with_interval(low, high), refused=False) == outcome
    assert claimed.outcome(with_interval(low, high), refused=True) == "open"


ends = st.floats(0.5, 2.0)


@given(
    st.tuples(ends, ends, ends, ends).map(sorted),
    st.floats(0.0, 0.2),
    st.sampled_from([claims.faster, claims.slower, claims.same, claims.at_most]),
)
def test_an_outcome_is_never_taken_back(four, number, claim):
    """Of two nested intervals the inner one says at least as much, and the same."""
    outer_low, low, high, outer_high = four
    claimed = claim("a", 1 + number if claim is claims.at_most else number)
    outer = claimed.outcome(with_interval(outer_low, outer_high), refused=False)
    inner = claimed.outcome(with_interval(low, high), refused=False)
    assert outer in ("open", inner)


@given(st.tuples(ends, ends).map(sorted), st.floats(0.0, 0.2))
def test_a_claim_agrees_with_the_verdict(pair, margin):
    verdict = decide(*pair, margin).verdict
    for claim, word in ((claims.faster, "faster"), (claims.slower, "slower")):
        outcome = claim("a", margin).outcome(with_interval(*pair), refused=False)
        assert (outcome == "borne out") == (verdict == word)


# ------------------------------------------------------------------------------------ expect


def test_a_claim_that_holds(three, strict, capsys):
    claim = three.expect("scripted", faster_than="eager")
    line = capsys.readouterr().out
    assert claim.outcome == "borne out" and claim.text == line.strip()
    assert line.startswith("claim borne out: scripted is faster than eager (time ratio 0.80")
    assert three.expect("compiled", slower_than="scripted").outcome == "borne out"
    twins = made({"a": 1.0, "b": 1.0})
    assert twins.expect("b", same_as="a", within=0.02).outcome == "borne out"
    assert "b is the same as a within 2 %" in capsys.readouterr().out
    assert twins.expect("b", at_most=1.1).outcome == "borne out"
    assert "b is at most 1.1 times as long as a" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("name", "claim"),
    [
        ("eager", {"faster_than": "scripted"}),
        ("scripted", {"slower_than": "eager"}),
        ("scripted", {"same_as": "eager"}),
        ("twin", {"faster_than": "eager"}),
        ("twin", {"slower_than": "eager"}),
        ("twin", {"at_most": 0.5}),
    ],
)
def test_a_contradicted_claim_raises_only_in_our_own_tests(name, claim, monkeypatch, capsys):
    found = made({"eager": 1.0, "scripted": 0.8, "twin": 1.0})
    monkeypatch.delenv("D2LPERF_STRICT", raising=False)
    assert found.expect(name, **claim).outcome == "contradicted"
    assert capsys.readouterr().out.startswith("claim contradicted: ")
    monkeypatch.setenv("D2LPERF_STRICT", "1")
    with pytest.raises(ClaimContradicted, match="claim contradicted"):
        found.expect(name, **claim)


def test_a_comparison_that_was_refused_leaves_every_claim_open(strict, capsys):
    refused = made({"a": 1.0, "b": 2.0}, refusal="they disturb each other")
    for claim in ({"faster_than": "a"}, {"slower_than": "a"}, {"same_as": "a"}, {"at_most": 3}):
        assert refused.expect("b", **claim).outcome == "open"
    assert "claim open here: b is faster than a" in capsys.readouterr().out


def test_a_claim_outlives_a_stdout_that_does_not_take_it(three, lenient, monkeypatch):
    closed = io.StringIO()
    closed.close()
    monkeypatch.setattr(sys, "stdout", closed)
    assert three.expect("scripted", faster_than="eager").outcome == "borne out"


@pytest.mark.parametrize(
    ("claim", "words"),
    [
        ({}, "exactly one"),
        ({"faster_than": "eager", "same_as": "eager"}, "exactly one.*faster_than.*same_as"),
        ({"at_most": 1.1, "same_as": "eager"}, "exactly one"),
        ({"same_as": "scripted"}, "both are 'scripted'"),
        ({"faster_than": "eager", "within": 0.1}, "within= belongs to same_as="),
        ({"at_most": 0}, "at_most must be a number above 0"),
    ],
)
def test_a_claim_is_one_claim(three, claim, words):
    with pytest.raises(ValueError, match=words):
        three.expect("scripted", **claim)


def test_a_claim_shows_nothing_in_a_notebook():
    from IPython.core.formatters import DisplayFormatter

    assert DisplayFormatter().format(Claim("borne out", "x")) == ({}, {})
    assert "borne out" in repr(Claim("borne out", "x"))


def test_claims_are_noted_where_it_is_asked(three, lenient, monkeypatch, tmp_path):
    monkeypatch.delenv("D2LPERF_CLAIMS", raising=False)
    three.expect("scripted", faster_than="eager")
    assert os.listdir(tmp_path) == []
    monkeypatch.setenv("D2LPERF_CLAIMS", str(tmp_path / "claims.txt"))
    three.expect("scripted", faster_than="eager")
    three.expect("compiled", faster_than="eager")
    lines = (tmp_path / "claims.txt").read_text(encoding="utf-8").splitlines()
    assert [line.split("\t")[0] for line in lines] == ["borne out", "contradicted"]
    assert lines[1].split("\t")[1].startswith("compiled is faster than eager (time ratio")
    monkeypatch.setenv("D2LPERF_CLAIMS", str(tmp_path / "none" / "claims.txt"))
    assert three.expect("scripted", faster_than="eager").outcome == "borne out"  # nothing is lost


# ----------------------------------------------------------------------------------- require


def test_what_is_required_and_borne_out_passes(three, lenient):
    assert three.require("scripted", faster_than="eager").outcome == "borne out"
    assert three.require("compiled", at_most=1.6).outcome == "borne out"


def test_what_is_required_must_be_borne_out(three, lenient):
    """A contradicted `expect` let a test pass, and an undecided one passed in strict runs, too."""
    with pytest.raises(ClaimContradicted, match=r"contradicted.*\n.*median time"):
        three.require("compiled", at_most=1.1)
    refused = made({"a": 1.0, "b": 2.0}, refusal="they disturb each other")
    with pytest.raises(AssertionError, match=r"open here(.|\n)*budget_s="):
        refused.require("b", slower_than="a")


def test_our_frames_are_hidden_in_the_traceback_of_a_test(pytester):
    pytester.makepyfile(
        """
        from comparisons import made

        def test_speed():
            made({"a": 1.0, "b": 2.0}).require("b", at_most=1.1)
        """
    )
    shown = pytester.runpytest_inprocess("-p", "no:cacheprovider", "--tb=short").stdout.str()
    assert "claim contradicted: b is at most 1.1 times as long as a" in shown
    assert "test_our_frames" in shown and "results.py" not in shown and "claims.py" not in shown
