"""What a measurement says about itself: verdicts, claims, tables, saved text, drawings."""

import dataclasses
import io
import json
import math
import sys

import matplotlib
import pytest

matplotlib.use("Agg")

from d2lperf import results, stats
from d2lperf.device import describe_machine
from d2lperf.results import Claim, ClaimContradicted, Comparison, Measurement, format_seconds


def made(ratios, *, n=16, jitter=0.002, **options):
    """A comparison whose functions take the given times relative to the first."""
    phases = {
        name: [(1e-4 * r * (1 + jitter * (i % 3)), 1e-4 * r) for i in range(n)]
        for name, r in ratios.items()
    }
    # Jitter in opposite directions for every other function, so that intervals have some width.
    for place, name in enumerate(phases):
        if place % 2:
            phases[name] = phases[name][::-1]
    values = {
        "names": list(ratios),
        "baseline": next(iter(ratios)),
        "phases_s": phases,
        "samples": {name: [t for pair in pairs for t in pair] for name, pairs in phases.items()},
        "first_calls_s": {name: [0.02, 1e-4] for name in ratios},
        "loops": dict.fromkeys(ratios, 3),
        "elapsed_s": 0.25,
        **options,
    }
    return Comparison(**values)


@pytest.fixture
def three():
    return made({"eager": 1.0, "scripted": 0.8, "compiled": 1.5})


# ------------------------------------------------------------------------------------- units


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"),
        (1.2345, "1.23 s"),
        (123.4, "123 s"),
        (0.9999, "1.00 s"),
        (0.0123, "12.3 ms"),
        (3.71e-5, "37.1 µs"),
        (9.996e-4, "1.00 ms"),
        (2.87e-8, "28.7 ns"),
        (5e-11, "0.05 ns"),
        (math.nan, "nan s"),
    ],
)
def test_times_are_shown_with_a_unit_and_three_digits(seconds, text):
    assert format_seconds(seconds) == text


@pytest.mark.parametrize(
    ("ratio", "text"),
    [
        ((0.76, 0.752, 0.768), "0.760 [0.752, 0.768]"),
        ((1.2e-4, 1.1e-4, 1.31e-4), "0.000120 [0.000110, 0.000131]"),
        ((0.0456, 0.01, 0.1), "0.0456 [0.0100, 0.100]"),
        ((12.34, 9.87, math.inf), "12.3 [9.870, inf]"),
        ((math.nan, 0.0, math.inf), "nan [0.000, inf]"),
    ],
)
def test_ratios_keep_their_digits(ratio, text):
    assert results._format_ratio(*ratio) == text


def test_a_name_is_in_the_comparison(three):
    assert "eager" in three and "jitted" not in three


# ---------------------------------------------------------------------------------- verdicts


@pytest.mark.parametrize(
    ("low", "high", "verdict"),
    [
        (0.90, 0.95, "faster"),
        (1.05, 1.20, "slower"),
        (0.98, 0.989, "faster"),
        (0.98, 0.995, "no measurable difference"),
        (0.995, 1.004, "no measurable difference"),
        (1.002, 1.025, "no measurable difference"),
        (0.97, 1.08, "not decided"),
        (1.005, 1.05, "not decided"),
        (0.0, math.inf, "not decided"),
    ],
)
def test_a_verdict_needs_the_whole_interval_beyond_the_margin(low, high, verdict):
    logs = (math.log(low) if low else -math.inf, math.log(high))
    assert results.judge(*logs, 0.01) == verdict


def test_entries_hold_ratio_interval_and_verdict(three):
    assert [e.verdict for e in three] == ["baseline", "faster", "slower"]
    entry = three["scripted"]
    assert entry.low <= entry.ratio <= entry.high and entry.ratio == pytest.approx(0.8, rel=0.01)
    assert entry.first_call_s == 0.02 and entry.loops == 3
    assert entry.quartiles_s[0] <= entry.median_s <= entry.quartiles_s[1]
    assert len(three) == 3


def test_any_two_can_be_held_against_each_other(three):
    found = three.between("scripted", "compiled")
    assert found.ratio == pytest.approx(0.8 / 1.5, rel=0.01) and found.verdict == "faster"
    back = three.between("compiled", "scripted")
    assert back.ratio * found.ratio == pytest.approx(1)
    assert back.low * found.high == pytest.approx(1)
    assert str(found).endswith("faster")


def test_pairs_apart_from_the_baseline_are_corrected_for_all_pairs(three):
    logs = results.log_ratios(three.phases_s["scripted"], three.phases_s["compiled"])
    expected = stats.signed_rank_interval(logs, results.interval_confidence(0.95, 3))
    found = three.between("scripted", "compiled")
    assert (found.low, found.high) == pytest.approx(tuple(map(math.exp, expected)))
    logs = results.log_ratios(three.phases_s["scripted"], three.phases_s["eager"])
    expected = stats.signed_rank_interval(logs, results.interval_confidence(0.95, 2))
    assert (three["scripted"].low, three["scripted"].high) == pytest.approx(
        tuple(map(math.exp, expected))
    )


def test_unknown_names_are_told(three):
    for call in (
        lambda: three["jitted"],
        lambda: three.between("eager", "jitted"),
        lambda: three.expect("jitted", faster_than="eager"),
    ):
        with pytest.raises(KeyError, match=r"'jitted' was compared; there are 'eager'"):
            call()


def test_a_refusal_takes_all_verdicts(three):
    refused = dataclasses.replace(three, refusal="they disturb each other")
    assert {e.verdict for e in refused} == {"baseline", "not decided"}
    assert refused["scripted"].reason == "they disturb each other"
    assert str(refused).count("they disturb each other") == 1


def test_reasons_for_no_verdict():
    few = made({"a": 1.0, "b": 2.0}, n=3)["b"]
    assert few.verdict == "not decided"
    assert "only 3 good rounds" in few.reason and "needs 7" in few.reason
    none = made({"a": 1.0, "b": 2.0}, n=0)["b"]
    assert none.verdict == "not decided" and math.isnan(none.ratio)
    void = made({"a": 1.0, "b": 2.0}, n=3, void=20)["b"]
    assert "20 of 23 rounds" in void.reason and "isolated=True" in void.reason


def test_a_function_that_varies_by_itself_gets_no_verdict():
    found = made({"a": 1.0, "b": 1.2, "c": 2.0})
    lift = {"a": 1.02, "b": 1.5, "c": 1.05}
    uppers = {
        name: [(factor * one, factor * two) for one, two in found.phases_s[name]]
        for name, factor in lift.items()
    }
    found = dataclasses.replace(found, uppers_s=uppers)
    assert found["b"].verdict == "not decided" and "'b' takes now more" in found["b"].reason
    assert found["c"].verdict == "slower"
    assert "'b' takes now more" in found.between("c", "b").reason
    assert Comparison.from_json(found.to_json()) == found
    # Now and then is not enough: half the rounds leave the interval open.
    uppers["b"] = [
        (m1, m2) if i % 2 else found.phases_s["b"][i] for i, (m1, m2) in enumerate(uppers["b"])
    ]
    assert dataclasses.replace(found, uppers_s=uppers)["b"].verdict == "slower"


def test_disturbed_rounds_are_set_aside_and_counted():
    calm = made({"a": 1.0, "b": 1.2}, n=20, void=2)
    phases = {name: list(pairs) for name, pairs in calm.phases_s.items()}
    phases["a"][4] = (3e-4, 3e-4)
    disturbed = dataclasses.replace(calm, phases_s=phases)
    assert disturbed.set_aside == 1
    assert "from 20 quads" in str(disturbed) and "(2 voided, 1 set aside)" in str(disturbed)
    assert disturbed.to_frame().loc["b", "rounds"] == 19
    assert disturbed["b"].ratio == pytest.approx(1.2, rel=0.01)


# ------------------------------------------------------------------------------------ claims


@pytest.fixture
def strict(monkeypatch):
    monkeypatch.setenv("D2LPERF_STRICT", "1")


@pytest.fixture
def lenient(monkeypatch):
    monkeypatch.delenv("D2LPERF_STRICT", raising=False)


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
    few = made({"a": 1.0, "b": 2.0}, n=3)
    for claim in ({"faster_than": "a"}, {"slower_than": "a"}, {"same_as": "a"}):
        assert few.expect("b", **claim).outcome == "not decided"
    assert "claim not decided here: b is faster than a" in capsys.readouterr().out
    # The interval excludes 1 and reaches beyond the margin: too little for "same".
    near = made({"a": 1.0, "b": 1.009}, jitter=0.004)
    assert near["b"].low > 1 and near["b"].high > 1.01
    assert near["b"].verdict == "no measurable difference"
    assert near.expect("b", same_as="a").outcome == "not decided"
    # A difference at the edge of the margin neither bears out nor contradicts "slower".
    edge = made({"a": 1.0, "b": 1.011}, jitter=0.004)
    assert edge["b"].verdict == "no measurable difference"
    assert edge.expect("b", slower_than="a").outcome == "not decided"


def test_a_claim_that_needs_a_gpu(three, strict, monkeypatch, capsys):
    monkeypatch.setattr(results, "num_gpus", lambda: 0)
    claim = three.expect("eager", faster_than="scripted", requires="gpu")
    assert claim.outcome == "not tested"
    assert "claim not tested here" in capsys.readouterr().out
    monkeypatch.setattr(results, "num_gpus", lambda: 1)
    with pytest.raises(ClaimContradicted):
        three.expect("eager", faster_than="scripted", requires="gpu")


def test_a_claim_outlives_a_closed_stdout(three, lenient, monkeypatch):
    closed = io.StringIO()
    closed.close()
    monkeypatch.setattr(sys, "stdout", closed)
    assert three.expect("scripted", faster_than="eager").outcome == "borne out"


def test_a_console_without_the_letter_still_shows_the_line(monkeypatch):
    raw = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(raw, encoding="ascii", errors="strict"))
    results.print_line("µs")
    sys.stdout.flush()
    assert raw.getvalue().split() == [rb"\xb5s"]


def test_a_claim_is_one_claim(three):
    with pytest.raises(ValueError, match="exactly one"):
        three.expect("scripted")
    with pytest.raises(ValueError, match="exactly one"):
        three.expect("scripted", faster_than="eager", same_as="eager")
    with pytest.raises(ValueError, match="requires"):
        three.expect("scripted", faster_than="eager", requires="tpu")


def test_a_claim_shows_nothing_in_a_notebook():
    from IPython.core.formatters import DisplayFormatter

    assert DisplayFormatter().format(Claim("borne out", "x")) == ({}, {})
    assert "borne out" in repr(Claim("borne out", "x"))


# ------------------------------------------------------------------------------------ tables


def test_the_table_as_text(three):
    lines = str(three).splitlines()
    assert lines[0].split() == [
        "median",
        "time",
        "first",
        "call",
        "time",
        "relative",
        "to",
        "eager",
        "verdict",
    ]
    assert lines[1].split() == ["eager", "100", "µs", "20.0", "ms", "1", "(baseline)"]
    assert lines[2].startswith("scripted") and lines[2].endswith("faster")
    assert lines[-1] == "95 % intervals from 16 rounds in 0.25 s (0 voided, 0 set aside)"
    assert repr(three) == str(three)


def test_notes_stand_below(three):
    noted = dataclasses.replace(three, notes=["the battery is low"])
    assert str(noted).splitlines()[-1] == "note: the battery is low"


def test_the_table_as_html_says_the_same_and_is_escaped(three):
    html = three._repr_html_()
    for entry in three:
        assert f">{entry.name}</td>" in html
    assert "faster" in html and "20.0 ms" in html
    odd = made({"<script>": 1.0, "b & c": 2.0})._repr_html_()
    assert "<script>" not in odd and "&lt;script&gt;" in odd and "b &amp; c" in odd


def test_the_table_as_a_frame(three):
    frame = three.to_frame()
    assert list(frame.index) == ["eager", "scripted", "compiled"]
    assert frame.loc["scripted", "verdict"] == "faster"
    assert frame.loc["scripted", "ratio"] == three["scripted"].ratio
    assert (frame["q25_s"] <= frame["median_s"]).all()


# -------------------------------------------------------------------------------- saved text


def test_a_comparison_survives_json(three):
    saved = dataclasses.replace(three, machine=describe_machine())
    back = Comparison.from_json(saved.to_json())
    assert back == saved
    assert [e.verdict for e in back] == [e.verdict for e in saved]
    assert json.loads(saved.to_json())["machine"]["versions"]["torch"]


def measurement(**options):
    values = {
        "name": "f",
        "samples_s": [1e-4, 1.1e-4, 3e-4],
        "first_calls_s": [0.5, 1e-4],
        "loops": 2,
        "phases_s": [1e-4 + 1e-6 * i for i in range(10)],
        **options,
    }
    return Measurement(**values)


def test_a_measurement_shows_and_survives_json():
    found = measurement(machine=describe_machine())
    assert Measurement.from_json(found.to_json()) == found
    assert found.median_s == 1.1e-4 and found.first_call_s == 0.5
    assert found.quartiles_s == pytest.approx((1.05e-4, 2.05e-4))
    assert found.interval_s == pytest.approx((1.01e-4, 1.08e-4))
    text = str(found)
    assert "median      110 µs" in text and "first call  500 ms" in text
    assert "interval    101 µs to 108 µs (95 %)" in text
    assert "110 µs" in found._repr_html_()
    assert list(found.to_frame()["seconds"]) == found.samples_s


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("not json", "not JSON"),
        ("[]", "holds 'list'"),
        ('{"kind": "measurement"}', "saved comparison was asked for"),
        ('{"kind": "comparison", "names": [], "d2lperf": "9.9"}', r"lacks .*it says '9.9'"),
    ],
)
def test_other_text_is_refused(text, words):
    with pytest.raises(ValueError, match=words):
        Comparison.from_json(text)


@pytest.mark.parametrize("edited", [[], {"a": 3}, {"a": [1, 2]}, "x"])
def test_an_edited_text_is_refused(three, edited):
    values = json.loads(three.to_json())
    values["phases_s"] = edited
    with pytest.raises(ValueError, match="phases_s should hold pairs of numbers by name"):
        Comparison.from_json(json.dumps(values))


def test_text_of_a_version_without_the_newer_fields_is_read(three):
    values = json.loads(three.to_json())
    for name in ("uppers_s", "notes", "machine", "isolated"):
        del values[name]
    assert Comparison.from_json(json.dumps(values)) == three


# ----------------------------------------------------------------------------------- drawing


def test_drawings_show_every_function(three):
    ax = three.plot()
    labels = [t.get_text() for t in ax.get_yticklabels()] + [t.get_text() for t in ax.texts]
    assert all(any(name in label for label in labels) for name in three.names)
    assert "time" in ax.get_xlabel().lower()
    given = matplotlib.pyplot.figure().subplots()
    assert three.plot(given, kind="ratios") is given
    assert "relative to eager" in given.get_xlabel()
    with pytest.raises(ValueError, match="'times' or 'ratios'"):
        three.plot(kind="pie")
    assert measurement().plot(given) is given
    matplotlib.pyplot.close("all")
