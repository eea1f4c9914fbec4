"""Numbers that are stated before they are measured, and the line that scores them."""

import importlib
import io
import math
import sys

import numpy as np
import pytest
import torch
from comparisons import made
from hypothesis import given
from hypothesis import strategies as st

from d2lperf.measuring.predictions import predict, predictions
from d2lperf.measuring.results import Measurement

# The package's attribute of this name is the function.
predicting = importlib.import_module("d2lperf.measuring.predictions")


@pytest.fixture(autouse=True)
def session(monkeypatch):
    monkeypatch.setattr(predicting, "_session", {})


def scored(value, measured, low=None, high=None, unit=""):
    """The line of a score without its label."""
    made = predict("x", value, unit)
    made.score(measured, low, high)
    return str(made).removeprefix("x: ")


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
    assert text.startswith("predicted 1.00 ms, measured 1.010 ms [1.005 ms") and "as pred" in text
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
    right = predict("x", 1.0)
    for takes_a_number in (lambda value: predict("x", value), right.score, right.guess):
        with pytest.raises(TypeError, match="must be a number"):
            takes_a_number(wrong)


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


def test_the_table_cannot_be_cleared():
    """`predictions().clear()` emptied the session, but not what it was called on."""
    assert not hasattr(predictions(), "clear")


def test_a_prediction_as_texts_names_them():
    made = predict("x", 1.0)
    made.guess(2.0)
    assert made.cells()._asdict() == {
        "predicted": "1.00", "measured": "not measured yet", "off": "", "guess": "2.00",
        "guess_off": "",
    }  # fmt: skip


def test_the_table_of_predictions_is_html_and_escaped():
    predict("a < b", 1.0).score(2.0, 1.9, 2.1)
    html = predictions()._repr_html_()
    assert "a &lt; b" in html and ">2.00</td>" in html and "your guess" not in html
    assert "1.90" not in html, "the score line has the interval"
    mine = predict("mine", 1.0)
    mine.guess(3.0)
    assert "your guess" in predictions()._repr_html_()


def test_an_interval_has_two_ends():
    """`score(1.9, low=1.8)` dropped the end without a word."""
    with pytest.raises(ValueError, match=r"two ends, but got low=1\.8 and high=None"):
        predict("x", 1.0).score(1.9, low=1.8)


def test_a_score_outlives_a_stdout_that_does_not_take_it(monkeypatch):
    ascii_only = io.TextIOWrapper(io.BytesIO(), "ascii")
    monkeypatch.setattr(sys, "stdout", ascii_only)
    predict("µ", 1e-6, unit="s").score(2e-6)
    ascii_only.flush()
    assert b"predicted 1.00 \\xb5s" in ascii_only.buffer.getvalue()


def test_a_published_number_has_its_own_column(capsys):
    """What others measured on another machine never stands where this run's numbers stand."""
    predict("launches", 8.33e-3, "s").score(8.99e-3, published="RTX 4090")
    predict("here", 1.0).score(1.1)
    assert capsys.readouterr().out.splitlines()[0] == (
        "launches: predicted 8.33 ms, published on RTX 4090 8.99 ms, off by a factor of 1.08"
    )
    html = predictions()._repr_html_()
    assert "published" in html and "8.99 ms (RTX 4090)" in html and "this run" in html
    predicting._session.clear()
    predict("here", 1.0).score(1.1)
    assert "published" not in predictions()._repr_html_()
