"""What was said beforehand: claims of a notebook, predictions and their scores."""

import io
import math
import sys

import matplotlib
import numpy as np
import pytest
import torch
from comparisons import made
from hypothesis import given
from hypothesis import strategies as st
from matplotlib import pyplot as plt

matplotlib.use("Agg")

from d2lperf.measuring.claims import Claim, ClaimContradicted, predict, predictions
from d2lperf.measuring.results import Measurement


@pytest.fixture
def three():
    return made({"eager": 1.0, "scripted": 0.8, "compiled": 1.5})


@pytest.fixture
def strict(monkeypatch):
    monkeypatch.setenv("D2LPERF_STRICT", "1")


@pytest.fixture
def lenient(monkeypatch):
    monkeypatch.delenv("D2LPERF_STRICT", raising=False)


# ------------------------------------------------------------------------------------ claims


def test_a_claim_that_holds(three, strict, capsys):
    claim = three.expect("scripted", faster_than="eager")
    line = capsys.readouterr().out
    assert claim.outcome == "borne out" and claim.text == line.strip()
    assert line.startswith("claim borne out: scripted is faster than eager (time ratio 0.80")
    assert three.expect("compiled", slower_than="scripted").outcome == "borne out"
    assert made({"a": 1.0, "b": 1.0}).expect("b", same_as="a").outcome == "borne out"


@pytest.mark.parametrize(
    "claim",
    [
        lambda c: c.expect("eager", faster_than="scripted"),
        lambda c: c.expect("scripted", slower_than="eager"),
        lambda c: c.expect("scripted", same_as="eager"),
        lambda c: c.expect("twin", faster_than="eager"),
        lambda c: c.expect("twin", slower_than="eager"),
    ],
)
def test_a_contradicted_claim_raises_only_in_our_own_tests(claim, monkeypatch, capsys):
    found = made({"eager": 1.0, "scripted": 0.8, "twin": 1.0})
    monkeypatch.delenv("D2LPERF_STRICT", raising=False)
    assert claim(found).outcome == "contradicted"
    assert capsys.readouterr().out.startswith("claim contradicted: ")
    monkeypatch.setenv("D2LPERF_STRICT", "1")
    with pytest.raises(ClaimContradicted, match="claim contradicted"):
        claim(found)


def test_what_is_not_decided_is_not_contradicted(strict, capsys):
    open_ = made({"a": 1.0, "b": 2.0}, refusal="they disturb each other")
    for claim in ({"faster_than": "a"}, {"slower_than": "a"}, {"same_as": "a"}):
        assert open_.expect("b", **claim).outcome == "not decided"
    assert "claim not decided here: b is faster than a" in capsys.readouterr().out
    # The interval excludes 1 and lies inside the margin.
    near = made({"a": 1.0, "b": 1.006})
    assert 1 < near["b"].low < near["b"].high < 1.01
    assert near.expect("b", same_as="a").outcome == "not decided"
    # No measurable difference within more than the margin leaves room for a small one.
    wide = made({"a": 1.0, "b": 1.0}, noise=0.1)
    assert wide["b"].verdict == "no measurable difference" and wide["b"].high > 1.01
    assert wide.expect("b", slower_than="a").outcome == "not decided"
    assert wide.expect("b", same_as="a").outcome == "borne out"


def test_claims_are_counted_in_a_file(three, lenient, monkeypatch, tmp_path):
    log = tmp_path / "claims"
    monkeypatch.setenv("D2LPERF_CLAIMS", str(log))
    three.expect("scripted", faster_than="eager")
    three.expect("scripted", slower_than="eager")
    lines = log.read_text().splitlines()
    assert [line.split("\t")[0] for line in lines] == ["borne out", "contradicted"]
    assert lines[1].split("\t")[1].startswith("scripted is slower than eager (time ratio")
    monkeypatch.setenv("D2LPERF_CLAIMS", str(tmp_path / "no folder" / "claims"))
    three.expect("scripted", faster_than="eager")


def test_a_claim_outlives_a_stdout_that_does_not_take_it(three, lenient, monkeypatch):
    closed = io.StringIO()
    closed.close()
    monkeypatch.setattr(sys, "stdout", closed)
    assert three.expect("scripted", faster_than="eager").outcome == "borne out"
    ascii_only = io.TextIOWrapper(io.BytesIO(), "ascii")
    monkeypatch.setattr(sys, "stdout", ascii_only)
    predict("µ", 1e-6, unit="s").score(2e-6)
    ascii_only.flush()
    assert b"predicted 1.00 \\xb5s" in ascii_only.buffer.getvalue()


def test_a_claim_is_one_claim(three):
    with pytest.raises(ValueError, match="exactly one"):
        three.expect("scripted")
    with pytest.raises(ValueError, match="exactly one"):
        three.expect("scripted", faster_than="eager", same_as="eager")
    with pytest.raises(ValueError, match="both are 'eager'"):
        three.expect("eager", same_as="eager")


def test_a_claim_shows_nothing_in_a_notebook():
    from IPython.core.formatters import DisplayFormatter

    assert DisplayFormatter().format(Claim("borne out", "x")) == ({}, {})
    assert "borne out" in repr(Claim("borne out", "x"))


# ------------------------------------------------------------------------------- predictions


@pytest.fixture(autouse=True)
def session():
    predictions().clear()
    yield
    predictions().clear()
    plt.close("all")


def scored(value, measured, low=None, high=None, unit=""):
    """The line of a score without its label."""
    made = predict("x", value, unit)
    made.score(measured, low, high)
    return str(made).removeprefix("x: ")


def test_the_line_of_a_score(capsys):
    predict("8 rows against 1 row", 1.0).score(1.89, low=1.84, high=1.95)
    assert capsys.readouterr().out == (
        "8 rows against 1 row: predicted 1.00, measured 1.89 [1.84, 1.95], off by a factor of 1.9\n"
    )


@pytest.mark.parametrize(
    ("numbers", "line"),
    [
        ((1.0, 1.03), "predicted 1.00, measured 1.03, as predicted"),
        ((2.0, 1.0), "predicted 2.00, measured 1.00, off by a factor of 2.0"),
        ((1.0, 1.052), "predicted 1.00, measured 1.05, off by a factor of 1.052"),
        ((3, 3), "predicted 3, measured 3, as predicted"),
        ((3251, 7000), "predicted 3,251, measured 7,000, off by a factor of 2.2"),
        ((1.0, 1.3, 0.9, 1.9), "predicted 1.00, measured 1.30 [0.900, 1.90], off by a factor of "
         "1.3 (inside the interval)"),
        ((1e-3, 0.25, None, None, "s"), "predicted 1.00 ms, measured 250 ms, off by a factor of "
         "250"),
        ((2e9, 2**31, None, None, "B"), "predicted 2.00 GB, measured 2.15 GB, off by a factor of "
         "1.07"),
        ((13.2, 13.3, 13.1, 13.5, "GiB/s"), "predicted 13.2 GiB/s, measured 13.3 GiB/s "
         "[13.1 GiB/s, 13.5 GiB/s], as predicted"),
        # no factor where a number is not positive
        ((0, 3), "predicted 0, measured 3, off by 3"),
        ((0, 0), "predicted 0, measured 0, as predicted"),
        ((1.0, 0.0), "predicted 1.00, measured 0, off by 1.00"),
        ((1.0, -2.0, -3.0, 1.5), "predicted 1.00, measured -2.00 [-3.00, 1.50], off by 3.00 "
         "(inside the interval)"),
        ((1.0, math.nan), "predicted 1.00, measured unknown, off by unknown"),
        ((1.0, math.inf), "predicted 1.00, measured inf, off by inf"),
    ],
)  # fmt: skip
def test_scores_of_all_kinds(numbers, line):
    assert scored(*numbers) == line


def test_results_are_scored_with_their_intervals(three):
    found = three["scripted"]
    text = scored(0.5, found)
    assert text == (
        f"predicted 0.500, measured {found.ratio:.3f} [{found.low:.3f}, {found.high:.3f}], "
        "off by a factor of 1.6"
    )
    one = Measurement("f", [1e-3 + 1e-6 * i for i in range(20)], [0.1])
    text = scored(1e-3, one, unit="s")
    assert text.startswith("predicted 1.00 ms, measured 1.01 ms [1.0") and "as pred" in text
    assert "measured 80." in scored(1e-4, found, unit="s")  # its median, in seconds
    with pytest.raises(ValueError, match='unit="s"'):
        predict("a step", 1.0).score(one)
    with pytest.raises(ValueError, match="a Ratio has times in seconds"):
        predict("a step", 1.0, unit="ms").score(found)


def test_an_interval_that_is_not_known_is_not_shown_as_one():
    few = made({"a": 1.0, "b": 0.9}, n=1)["b"]
    assert scored(0.5, few) == ("predicted 0.500, measured 0.898 [unknown], off by a factor of 1.8")
    one = Measurement("f", [1e-3], [0.1])
    assert scored(2e-3, one, unit="s") == (
        "predicted 2.00 ms, measured 1.00 ms [unknown], off by a factor of 2.0"
    )
    nothing = made({"a": 1.0, "b": 0.9}, n=0)["b"]
    assert scored(0.5, nothing) == "predicted 0.500, measured unknown, off by unknown"


def test_numbers_of_other_libraries_are_numbers():
    assert scored(np.int64(3), torch.tensor(4)) == (
        "predicted 3, measured 4.00, off by a factor of 1.3"
    )
    assert scored(np.float32(0.5), np.float64(0.5)).endswith("as predicted")


@pytest.mark.parametrize("wrong", ["1.0", None, [1.0, 2.0], object()])
def test_what_is_no_number_is_refused(wrong):
    with pytest.raises(TypeError, match="must be a number"):
        predict("x", wrong)
    with pytest.raises(TypeError, match="must be a number"):
        predict("x", 1.0).score(wrong)
    with pytest.raises(TypeError, match="must be a number"):
        predict("x", 1.0).guess(wrong)


def test_the_readers_guess_is_scored_too(capsys):
    made = predict("8 rows", 1.0)
    made.guess(2.0)
    assert str(made) == "8 rows: predicted 1.00, not measured yet, your guess 2.00"
    made.score(1.89)
    assert capsys.readouterr().out.splitlines() == [
        "8 rows: predicted 1.00, measured 1.89, off by a factor of 1.9",
        "  your guess 2.00, off by a factor of 1.06",
    ]
    made.guess(1.9)
    assert str(made).endswith("\n  your guess 1.90, right")


@given(
    st.one_of(st.integers(), st.floats()),
    st.one_of(st.integers(), st.floats()),
    st.one_of(st.none(), st.floats()),
    st.sampled_from(["", "s", "B", "GB/s", "kernels"]),
)
def test_no_number_crashes_a_score(value, measured, end, unit):
    made = predict("x", value, unit)
    made.guess(measured)
    made.score(measured, low=end, high=end)
    assert str(made).startswith("x: predicted ")
    assert predictions()._repr_html_()


def test_predictions_of_a_session_in_order():
    assert str(predictions()) == "no predictions yet"
    predict("first", 1.0).score(2.0)
    predict("second", 2.0)
    predict("third", 3.0, unit="ms")
    again = predict("first", 1.5)  # the cell has been run again
    again.score(1.5)
    assert str(predictions()).splitlines() == [
        "first: predicted 1.50, measured 1.50, as predicted",
        "second: predicted 2.00, not measured yet",
        "third: predicted 3.00 ms, not measured yet",
    ]
    assert [p.label for p in predictions()] == ["first", "second", "third"]


def test_the_table_of_predictions_is_html_and_escaped():
    predict("a < b", 1.0).score(2.0, 1.9, 2.1)
    html = predictions()._repr_html_()
    assert "a &lt; b" in html and "2.00 [1.90, 2.10]" in html and "your guess" not in html
    mine = predict("mine", 1.0)
    mine.guess(3.0)
    assert "your guess" in predictions()._repr_html_()


def test_the_figure_has_a_row_for_each_score():
    with pytest.raises(ValueError, match=r"call \.score"):
        predictions().plot()
    predict("open", 1.0)
    predict("below", 1.0).score(0.5, 0.4, 0.6)
    predict("nothing", 0).score(3)
    predict("half open", 1.0).score(2.0, 0.0, math.inf)
    axes = plt.figure().subplots()
    assert predictions().plot(axes) is axes
    assert [t.get_text() for t in axes.get_yticklabels()] == ["below", "half open"]
