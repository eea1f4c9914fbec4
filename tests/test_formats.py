"""How numbers are written."""

import math
from functools import partial

import numpy as np
import pytest

from d2lperf.formats import (
    Table,
    format_estimate,
    format_ratio,
    format_seconds,
    format_value,
    html_table,
)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"),
        (1, "1.00 s"),
        (1.2345, "1.23 s"),
        (123.4, "123 s"),
        (0.9999, "1.00 s"),
        (0.0123, "12.3 ms"),
        (3.71e-5, "37.1 µs"),
        (9.996e-4, "1.00 ms"),
        (2.87e-8, "28.7 ns"),
        (5e-11, "0.0500 ns"),
        (math.nan, "unknown"),
        (np.float32(0.25), "250 ms"),
        (1.797e308, "1.80e+308 s"),
    ],
)
def test_times_have_a_unit_and_three_digits(seconds, text):
    assert format_seconds(seconds) == text


@pytest.mark.parametrize(
    ("ratio", "text"),
    [
        ((0.76, 0.752, 0.768), "0.760 [0.752, 0.768]"),
        ((1.2e-4, 1.1e-4, 1.31e-4), "0.000120 [0.000110, 0.000131]"),
        ((0.0456, 0.01, 0.1), "0.0456 [0.0100, 0.100]"),
        ((12.34, 9.87, math.inf), "12.3 [9.870, inf]"),
        ((12.345, 12.31, 12.38), "12.35 [12.31, 12.38]"),  # 12.3 and 12.4 would be too coarse
        ((1.0002, 1.0001, 1.0003), "1.0002 [1.0001, 1.0003]"),
        ((12.34, 0.0, math.inf), "12.3 [unknown]"),
        ((math.nan, 0.0, math.inf), "unknown"),
    ],
)
def test_ratios_keep_their_digits(ratio, text):
    assert format_ratio(*ratio) == text


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (3251, "", "3,251"),
        (1.0, "", "1.00"),
        (-0.25, "", "-0.250"),
        (999.9, "", "1,000"),
        (0.02, "s", "20.0 ms"),
        (512, "B", "512 B"),
        (2**31, "B", "2.15 GB"),
        (1.5e12, "FLOP/s", "1.50 TFLOP/s"),
        (13.2, "GiB", "13.2 GiB"),
        (4, "kernels", "4 kernels"),
        (math.inf, "B", "inf B"),
    ],
)
def test_values_are_written_in_their_unit(value, unit, text):
    assert format_value(value, unit) == text


@pytest.mark.parametrize(
    ("estimate", "unit", "text"),
    [
        ((1.106, 1.103, 1.109), "", "1.106 [1.103, 1.109]"),
        ((1.89, 1.84, 1.95), "", "1.89 [1.84, 1.95]"),
        ((24.7, 24.3, 25.1), "%", "24.7 % [24.3 %, 25.1 %]"),
        ((1.2345e-3, 1.234e-3, 1.235e-3), "s", "1.2345 ms [1.2340 ms, 1.2350 ms]"),
        ((1.0, 1.0 - 1e-12, 1.0 + 1e-12), "", "1.00000 [1.00000, 1.00000]"),  # three more at most
        ((2.0, 2.0, 2.0), "", "2.00 [2.00, 2.00]"),
        ((2.0, 1.0, math.inf), "", "2.00 [1.00, inf]"),
        ((2.0, 0.0, math.inf), "", "2.00 [unknown]"),
        ((3, 2, 4), "", "3 [2, 4]"),
    ],
)
def test_the_ends_of_an_interval_differ_by_two_units_of_the_last_place(estimate, unit, text):
    assert format_estimate(*estimate, partial(format_value, unit=unit)) == text


def test_one_renderer_serves_tables_cards_and_scores():
    left = "style='text-align:left'"
    card = html_table(Table((), [["cores", "<2>"]]))
    assert card == f"<table><tr><th {left}>cores</th><td {left}>&lt;2&gt;</td></tr></table>"
    table = Table(["name", "time"], [["a", "1 s"]], ["a & b"], right=(1,))
    assert html_table(table) == (
        f"<table><thead><tr><th {left}>name</th><th style='text-align:right'>time</th></tr></thead>"
        f"<tbody><tr><td {left}>a</td><td style='text-align:right'>1 s</td></tr></tbody></table>"
        "<div>a &amp; b</div>"
    )
    scored = html_table(Table(["prediction", "measured"], [["rows", "1.9"]], scores=(1,)))
    assert f"<td {left}>rows</td><td class='score'>1.9</td>" in scored
