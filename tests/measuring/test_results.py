"""What results say of themselves: tables, frames, figures, files, break-even, two runs, sizes."""

import dataclasses
import json
import math
import re
from collections.abc import Mapping

import numpy as np
import pytest
import torch
from comparisons import made
from drawn import names, texts
from hypothesis import example, given, settings
from hypothesis import strategies as st
from matplotlib import pyplot as plt
from matplotlib.colors import to_hex

from d2lperf.machine import describe_machine
from d2lperf.measuring.judging import judge
from d2lperf.measuring.results import Comparison, Measurement
from d2lperf.measuring.rounds import Rounds
from d2lperf.measuring.sweeps import Sweep
from d2lperf.measuring.verdict import decide
from d2lperf.plotting import COLOURS, colour_of


@pytest.fixture
def path(tmp_path):
    return tmp_path / "result.json"


def measurement(**options):
    values = {
        "name": "f",
        "samples_s": [1e-4, 1.1e-4, 3e-4],
        "first_calls_s": [0.5, 1e-4],
        "loops": 2,
        "samples_per_phase": 1,
    }
    return Measurement(**values | options)


# ---------------------------------------------------------------------------- verdicts shown


def test_a_comparison_gives_the_verdict_object(three):
    assert [f.verdict for f in three.values()] == ["baseline", "faster", "slower"]
    found = judge(three.rounds, "scripted", "eager", intervals=2)
    assert three["scripted"] == found == three.between("scripted", "eager")
    assert "eager" in three and "jitted" not in three
    assert (three.names, three.baseline) == (["eager", "scripted", "compiled"], "eager")


def test_a_ratio_is_one_line(three):
    found = three["scripted"]
    numbers = f"{found.ratio:.3f} [{found.low:.3f}, {found.high:.3f}]"
    assert repr(found) == str(found) == f"scripted against eager: {numbers} faster"
    assert str(three["eager"]) == "eager: 1 (baseline)"
    refused = made({"a": 1.0, "b": 1.0}, n=0, refusal="cut off")
    assert str(refused["b"]) == "b against a: unknown not decided (cut off)"
    few = str(made({"a": 1.0, "b": 0.9}, n=1)["b"])
    assert few.startswith("b against a: 0.898 [unknown] not decided (an interval needs 2 rounds")


def test_other_pairs_are_corrected_for_all_pairs():
    times = {"eager": 1.0, "scripted": 0.8, "compiled": 1.5, "exported": 1.2}
    four = made(times, noise=0.1)  # wider than the least width of an interval
    expected = judge(four.rounds, "scripted", "compiled", intervals=6)
    assert four.between("scripted", "compiled") == expected
    assert four["scripted"] == judge(four.rounds, "scripted", "eager", intervals=3)


def test_unknown_names_are_told(three):
    for call in (
        lambda: three["jitted"],
        lambda: three.between("eager", "jitted"),
        lambda: three.expect("jitted", faster_than="eager"),
        lambda: three.break_even("jitted"),
    ):
        with pytest.raises(KeyError, match=r"'jitted' was compared; there are 'eager'"):
            call()


# ------------------------------------------------------------------------------------ tables


def test_the_table_as_text(three):
    lines = str(three).splitlines()
    assert lines[0].strip() == "median time   first call   time relative to eager   verdict"
    assert lines[1].split() == ["eager", "100", "µs", "20.0", "ms", "1", "(baseline)"]
    assert lines[2].startswith("scripted") and lines[2].endswith("faster")
    assert lines[4] == "95 % intervals from 24 rounds in 0.25 s (0 discarded)"
    assert repr(three) == str(three)


def test_rounds_and_discarded_have_one_meaning_in_text_frame_and_attribute():
    found = made({"a": 1.0, "b": 2.0}, discarded=[["a", "b"]] * 3)
    ratio, row = found["b"], found.to_frame().loc["b"]
    assert (ratio.rounds, ratio.discarded) == (24, 3) == (row["rounds"], row["discarded"])
    assert "from 24 rounds in 0.25 s (3 discarded)" in str(found)


def test_rounds_that_differ_between_rows_are_shown_as_a_span():
    found = made({"a": 1.0, "b": 2.0, "c": 3.0})
    pairs = found.rounds.lower_s["c"]
    pairs[0] = tuple(3 * t for t in pairs[0])
    counts = sorted(f.rounds for f in found.values() if f.verdict != "baseline")
    assert counts == [23, 24]
    assert "from 23 to 24 rounds in 0.25 s (0 to 1 discarded)" in str(found)


def test_the_table_as_html_says_the_same_and_is_escaped(three):
    html = three._repr_html_()
    assert all(f">{f.name}</td>" in html for f in three.values())
    assert "faster" in html and "20.0 ms" in html
    odd = made({"<script>": 1.0, "b & c": 2.0})._repr_html_()
    assert "<script>" not in odd and "&lt;script&gt;" in odd and "b &amp; c" in odd


def test_every_form_of_a_result_shows_the_statement(path):
    found = made({"a": 1.0, "b": 1.02}, noise=0.04)
    ratio = found["b"]
    assert (ratio.verdict, ratio.within) == ("no difference", 0.03)
    assert ratio.statement == "no difference above 3 %"
    assert ratio.statement in str(found) and ratio.statement in repr(ratio)
    assert ratio.statement in found._repr_html_()
    row = found.to_frame().loc["b"]
    assert (row["statement"], row["within"]) == (ratio.statement, 0.03)
    found.save(path)
    assert json.loads(path.read_text())["verdicts"]["b"]["statement"] == ratio.statement
    assert any(ratio.statement in text for text in texts(found.plot(kind="ratios")))


def test_a_comparison_is_a_mapping(three):
    assert isinstance(three, Mapping) and len(three) == 3
    assert list(three) == ["eager", "scripted", "compiled"] == list(three.keys())
    assert [found.name for found in three.values()] == list(three)
    assert dict(three.items())["scripted"] is three["scripted"], "judged once"
    assert three.get("jitted") is None


def test_a_reason_stands_once_with_all_its_names(three):
    refused = dataclasses.replace(three, refusal="they disturb each other", notes=["power saving"])
    assert {f.verdict for f in refused.values()} == {"baseline", "not decided"}
    reason = "not decided (scripted, compiled): they disturb each other"
    assert str(refused).splitlines()[-2:] == [reason, "note: power saving"]


def test_both_levels_of_a_function_that_varies_are_shown():
    found = made({"a": 1.0, "b": 0.9}, n=60, slow={"b": 2.0})
    assert found["b"].varies == "b" and found["b"].verdict == "not decided"
    assert "'b' varies by itself" in str(found)
    assert "note: two levels of b: 90." in str(found) and " and 180 µs" in str(found)
    frame = found.to_frame()
    assert frame.loc["b", "slow_s"] == pytest.approx(1.8e-4, rel=0.01)
    assert frame.loc["a", "slow_s"] == frame.loc["a", "quiet_s"]


def test_the_table_as_a_frame(three):
    frame = three.to_frame()
    assert list(frame.index) == three.names and frame.index.name == "name"
    for f in three.values():
        row = frame.loc[f.name]
        assert (row["ratio"], row["low"], row["high"]) == (f.ratio, f.low, f.high)
        assert (row["verdict"], row["reason"]) == (f.verdict, f.reason)
        assert row["q25_s"] <= row["median_s"] <= row["q75_s"]


def test_a_comparison_without_a_round_shows_what_it_has():
    empty = made({"a": 1.0, "b": 2.0}, n=0, refusal="cut off in the warm-up")
    assert empty["b"].verdict == "not decided"
    assert "unknown" in str(empty) and "cut off in the warm-up" in str(empty)
    assert math.isnan(empty.to_frame().loc["b", "median_s"])
    assert empty.break_even("b").calls == math.inf


# ----------------------------------------------------------------------------------- figures


def colours_in(ax):
    return {to_hex(line.get_color()).upper() for line in ax.lines}


def test_figures_show_every_function(three):
    ax = three.plot()
    assert all(any(name in text for text in names(ax) + texts(ax)) for name in three.names)
    given = plt.figure().subplots()
    assert three.plot(given, kind="ratios") is given
    assert "relative to eager" in given.get_xlabel()
    with pytest.raises(ValueError, match="'times' or 'ratios'"):
        three.plot(kind="pie")
    with pytest.raises(TypeError, match="savefig"):
        three.plot("x.png")


def test_the_figure_has_the_colour_of_the_verdict(three):
    assert colour_of("faster") in colours_in(three.plot(kind="ratios"))
    refused = dataclasses.replace(three, refusal="they disturb each other")
    assert not {colour_of("faster"), colour_of("slower")} & colours_in(refused.plot(kind="ratios"))


def test_colours_may_be_chosen_by_name(three):
    """What a name gets otherwise depends on the figures before."""
    times = three.plot(palette={"eager": "purple"})
    chosen = {to_hex(dots.get_facecolor()[0]).upper() for dots in times.collections}
    assert COLOURS["purple"] in chosen
    assert COLOURS["purple"] in colours_in(sizes().plot(palette={"fused": "purple"}))
    (dots,) = measurement().plot(palette={"f": "purple"}).collections
    assert to_hex(dots.get_facecolor()[0]).upper() == COLOURS["purple"]
    with pytest.raises(ValueError, match="colours are those of the verdicts"):
        three.plot(kind="ratios", palette={"eager": "purple"})


# ------------------------------------------------------------------------------- one function


def test_a_measurement_shows_itself():
    found = measurement(samples_s=[1e-4 + 1e-6 * i for i in range(10)])
    assert found.median_s == pytest.approx(1.045e-4) and found.first_call_s == 0.5
    assert found.quartiles_s == pytest.approx((1.0225e-4, 1.0675e-4))
    text = str(found)
    assert "median       105 µs" in text and "first call   500 ms" in text
    assert "samples      10 of 2 calls each" in text and "interval     10" in text
    assert "105 µs" in found._repr_html_()
    assert list(found.to_frame().seconds) == found.samples_s
    axes = plt.figure().subplots()
    assert found.plot(axes) is axes


@given(
    st.lists(st.floats(1e-9, 10), min_size=1, max_size=120),
    st.integers(1, 6),
    st.sampled_from([0.8, 0.95, 0.99]),
)
@example([1e-3, 2e-3, 9e-3] * 30 + [9e-3] * 33, 3, 0.95)  # most phases have another median
def test_the_median_lies_in_its_interval(samples, per_phase, confidence):
    found = measurement(samples_s=samples, samples_per_phase=per_phase, confidence=confidence)
    low, high = found.interval_s
    assert low <= found.median_s <= high
    str(found)


def test_phases_that_differ_give_a_wider_interval_than_independent_samples():
    samples = [1e-4 * (1 + i % 15 / 30) for i in range(60)]
    apart = measurement(samples_s=samples)
    alike = measurement(samples_s=sorted(samples), samples_per_phase=5)
    narrow, wide = (high - low for low, high in (apart.interval_s, alike.interval_s))
    assert narrow < wide


def test_two_levels_are_shown_and_the_median_stays():
    samples = [9e-5 * (1 + 0.01 * (i % 5)) for i in range(20)]
    samples += [2.4e-2 * (1 + 0.02 * (i % 7)) for i in range(30)]
    found = measurement(samples_s=samples)
    quiet, slow = found.levels_s
    assert quiet == pytest.approx(9e-5, rel=0.05) and slow == pytest.approx(2.5e-2, rel=0.1)
    assert found.median_s > 0.02
    assert "note: two levels: 91.8 µs in 40 % of the samples, 25.4 ms in 60 %" in str(found)
    assert "two levels" in found._repr_html_()
    one = measurement(samples_s=samples[:20] * 2)
    assert one.levels_s == (one.median_s, one.median_s) and "two levels" not in str(one)


def test_a_measurement_that_was_cut_off_early_shows_what_it_has():
    text = str(measurement(samples_s=[], first_calls_s=[0.5]))
    assert "first call   500 ms" in text and "unknown: too few samples" in text


# ------------------------------------------------------------------------------------ files

times_s = st.floats(1e-9, 1e3)
some_names = st.lists(st.text(max_size=8), min_size=2, max_size=4, unique=True)


@st.composite
def comparisons(draw):
    functions, n = draw(some_names), draw(st.integers(0, 5))

    def each(values):
        return {name: draw(values) for name in functions}

    pairs = st.lists(st.tuples(times_s, times_s), min_size=n, max_size=n)
    rounds = Rounds(
        names=functions,
        baseline=draw(st.sampled_from(functions)),
        lower_s=each(pairs),
        upper_s=each(pairs),
        samples_s=each(st.lists(times_s, max_size=5)),
        first_calls_s=each(st.lists(times_s, max_size=3)),
        loops=each(st.integers(1, 10**6)),
        discarded=draw(st.lists(st.lists(st.sampled_from(functions), max_size=2), max_size=3)),
    )
    return Comparison(
        rounds,
        confidence=draw(st.floats(0.5, 0.99)),
        margin=draw(st.floats(0, 0.5)),
        checked=draw(st.booleans()),
        notes=draw(st.lists(st.text(max_size=9), max_size=2)),
    )


def read_back(result, path):
    result.save(path)
    return type(result).load(path)


@settings(deadline=None)
@given(comparisons())
def test_a_comparison_survives_its_file(tmp_path_factory, found):
    back = read_back(found, tmp_path_factory.getbasetemp() / "hypothesis.json")
    assert back == found and str(back) == str(found)


@settings(deadline=None)
@given(st.lists(times_s), st.lists(times_s), st.integers(1, 99), st.text())
def test_a_measurement_survives_its_file(tmp_path_factory, samples, first, loops, name):
    found = measurement(name=name, samples_s=samples, first_calls_s=first, loops=loops)
    assert read_back(found, tmp_path_factory.getbasetemp() / "hypothesis.json") == found


def test_a_sweep_survives_its_file(path):
    found = sizes(machine=describe_machine())
    back = read_back(found, path)
    assert back == found and str(back) == str(found)
    assert back[1000].machine == describe_machine()


def test_a_file_of_the_last_version_is_read(three, path):
    """It knew no builds, no neighbours, no verdicts in the file, and a margin of 1 %."""
    three.save(path)
    values = json.loads(path.read_text())
    for key in ("verdicts", "others_cores"):
        del values[key]
    for key in ("builds", "uses_up_input"):
        del values["rounds"][key]
    values["margin"] = 0.01
    path.write_text(json.dumps(values))
    back = Comparison.load(path)
    assert back == dataclasses.replace(three, margin=0.01)
    assert [found.verdict for found in back.values()] == ["baseline", "faster", "slower"]


def test_a_file_of_another_version_is_read(three, path):
    dataclasses.replace(three, machine=describe_machine()).save(path)
    values = json.loads(path.read_text())
    values["machine"]["a_field_of_tomorrow"] = 1
    values["rounds"]["another"] = [2]
    values["third"] = 3
    del values["machine"]["system"], values["notes"], values["isolated"], values["rounds"]["loops"]
    values["rounds"]["loops"] = dict.fromkeys(three.names, 3)
    path.write_text(json.dumps(values))
    back = Comparison.load(path)
    assert str(back) == str(three) and back.machine.versions["torch"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("not json", r"result\.json is not a Comparison .*JSONDecodeError"),
        ("[]", "not a Comparison"),
        (
            '{"kind": "Measurement"}',
            r"holds a Measurement, not a Comparison: use Measurement\.load",
        ),
        ('{"kind": "Comparison", "d2lperf": "9.9"}', "another version .*rounds"),
        ('{"kind": "Comparison", "rounds": {"names": []}}', "was cut, edited"),
    ],
)
def test_another_file_is_refused(path, text, words):
    path.write_text(text)
    with pytest.raises(ValueError, match=words):
        Comparison.load(path)


def test_a_folder_that_is_not_there_is_named(three, path):
    with pytest.raises(FileNotFoundError, match=r"today\.json cannot be .* no folder .*nowhere\."):
        three.save(path.parent / "nowhere" / "today.json")


@pytest.mark.parametrize("edited", [[], {"a": 3}, {"a": [1, 2]}, "x"])
def test_an_edited_file_is_refused(three, path, edited):
    three.save(path)
    values = json.loads(path.read_text())
    values["rounds"]["lower_s"] = edited
    path.write_text(json.dumps(values))
    with pytest.raises(ValueError, match=r"result\.json is not a Comparison .* edited"):
        Comparison.load(path)


# -------------------------------------------------------------------------------- break-even


def with_first_calls(found, **first_calls_s):
    rounds = dataclasses.replace(found.rounds, first_calls_s=first_calls_s)
    return dataclasses.replace(found, rounds=rounds)


def test_break_even_counts_the_calls_that_pay_back_the_first_one():
    found = with_first_calls(made({"eager": 1.0, "compiled": 0.5}), eager=[1e-4], compiled=[0.5])
    paid = found.break_even("compiled")
    # 0.5 s more at first; each later call saves 50 µs.
    assert paid.calls == pytest.approx(0.5 / 5e-5, rel=0.01)
    assert paid.low < paid.calls < paid.high < math.inf
    assert str(paid).startswith("break-even of compiled against eager: after ")
    # The sum of both really is equal after so many calls.
    eager, compiled = (found[name].levels_s[name][0] for name in ("eager", "compiled"))
    total = [1e-4 + (paid.calls - 1) * eager, 0.5 + (paid.calls - 1) * compiled]
    assert total[0] == pytest.approx(total[1], rel=0.01)


def test_break_even_counts_all_slow_calls_and_what_was_paid_before():
    found = made({"eager": 1.0, "scripted": 0.5})
    slow = with_first_calls(found, eager=[1e-4, 1e-4], scripted=[0.01, 0.49, 5e-5])
    assert slow.break_even("scripted").calls == pytest.approx(0.5 / 5e-5, rel=0.01)
    assert slow.break_even("scripted", before_s=0.5).calls == pytest.approx(1 / 5e-5, rel=0.01)


def test_break_even_is_never_where_nothing_can_be_gained():
    found = made({"eager": 1.0, "compiled": 1.5, "twin": 1.01})
    for name, statement in (("compiled", "slower"), ("twin", "no difference above 2 %")):
        never = found.break_even(name)
        assert never.low == never.calls == math.inf
        assert str(never) == f"break-even of {name} against eager: never ({statement})"


def break_even_of(low, ratio, high):
    """Of a function that compiles for half a second, where the interval of the ratio is given."""
    found = made({"eager": 1.0, "compiled": 0.97})
    found = with_first_calls(found, eager=[1e-4], compiled=[0.5] + [1e-4] * 29)
    verdict, within = decide(low, high, found.margin)
    given = {"ratio": ratio, "low": low, "high": high, "verdict": verdict, "within": within}
    ratios = {
        "compiled": dataclasses.replace(found["compiled"], **given),
        "eager": found.between("eager", "compiled"),
    }
    object.__setattr__(found, "between", lambda name, other: ratios[name])
    return found.break_even("compiled")


def test_break_even_where_little_or_nothing_is_gained_is_late():
    """[0.96, 0.99] was "never", and [0.965, 0.975], which lies in it, "after N calls"."""
    for interval, words in (
        ((0.96, 0.97, 0.99), r"no difference above 5 %, at least 12\d,\d{3} calls"),
        ((0.965, 0.97, 0.975), r"after 16\d,\d{3} calls \[14\d,\d{3}, (19|20)\d,\d{3}\]"),
    ):
        shown = str(break_even_of(*interval))
        assert re.fullmatch(f"break-even of compiled against eager: {words}", shown), shown


@settings(deadline=None)
@given(st.lists(st.floats(0.8, 1.1), min_size=6, max_size=6))
@example([0.96, 0.965, 0.97, 0.97, 0.975, 0.99])
@example([0.9, 0.9, 0.9, 0.99, 0.99, 0.99])  # the estimates differ, the intervals do not
def test_a_break_even_is_never_taken_back(ratios):
    low, inner_low, ratio, inner_ratio, inner_high, high = sorted(ratios)
    outer = break_even_of(low, ratio, high)
    inner = break_even_of(inner_low, inner_ratio, inner_high)
    assert outer.low <= inner.low <= inner.high <= outer.high
    if "never" in str(outer):
        assert "never" in str(inner)


def test_break_even_without_a_verdict_is_not_never():
    found = made({"eager": 1.0, "compiled": 0.9}, refusal="they disturb each other")
    paid = with_first_calls(found, eager=[1e-4], compiled=[0.5]).break_even("compiled")
    assert paid.verdict == "not decided" and "not decided here" in repr(paid)


def test_there_is_no_break_even_of_a_function_with_itself(three):
    with pytest.raises(ValueError, match="between two functions, but both are 'eager'"):
        three.break_even("eager")


def test_break_even_may_be_the_first_call():
    found = made({"eager": 1.0, "fast": 0.5})
    found = with_first_calls(found, eager=[0.02], fast=[0.01])
    assert found.break_even("fast").calls == 1
    assert str(found.break_even("fast")).endswith("from the first call on")
    assert "never (slower)" in str(found.break_even("eager", "fast"))


# --------------------------------------------------------------------- two runs, many sizes


def test_two_runs_are_compared_by_their_ratios(path):
    earlier = made({"eager": 1.0, "scripted": 0.8, "gone": 1.0}, seed=1, machine=describe_machine())
    # The whole machine is twice as slow; scripted has lost its lead.
    now = made({"eager": 2.0, "scripted": 2.0, "new": 1.0}, seed=2, machine=describe_machine())
    found = now.against(read_back(earlier, path))
    assert list(found.index) == ["scripted"]
    row = found.loc["scripted"]
    assert 1.2 < row.low < row.change < row.high and row.change == pytest.approx(1.25, rel=0.01)
    assert (row.earlier, row.now) == (earlier["scripted"].ratio, now["scripted"].ratio)
    row = now.against(now).loc["scripted"]
    assert row.low < row.change == 1 < row.high


def test_two_runs_without_intervals_leave_the_change_open():
    few = made({"a": 1.0, "b": 2.0}, n=1)
    row = few.against(few).loc["b"]
    assert (row.low, row.change, row.high) == (0, 1, math.inf)


def test_runs_that_share_nothing_are_refused(three):
    with pytest.raises(ValueError, match="share the baseline"):
        three.against(made({"eager": 1.0, "other": 1.0}))
    with pytest.raises(ValueError, match="share the baseline"):
        three.against(made({"scripted": 1.0, "eager": 1.0}))


def sizes(ratios=None, **options):
    ratios = ratios or {10: 0.5, 100: 0.8, 1000: 1.0}
    runs = [made({"eager": 1.0, "fused": ratio}, **options) for ratio in ratios.values()]
    return Sweep("rows", list(ratios), runs)


def test_a_sweep_is_one_table():
    found = sizes()
    lines = str(found).splitlines()
    assert lines[0].split() == ["rows", "median", "time", "time", "relative", "to", "the",
                                "baseline", "verdict"]  # fmt: skip
    assert [line.split()[:2] for line in lines[1:7]] == [
        [rows, name] for rows in ("10", "100", "1,000") for name in ("eager", "fused")
    ]
    assert lines[2].endswith("faster") and lines[6].endswith("no difference above 1 %")
    assert "95 % intervals; 0.75 s in all" in lines
    assert found[10]["fused"].verdict == "faster"
    assert [run["fused"].verdict for run in found][2] == "no difference"
    with pytest.raises(KeyError, match="no rows 20"):
        found[20]


def test_a_sweep_is_one_figure():
    found = sizes()
    axes = plt.figure().subplots()
    assert found.plot(axes) is axes
    assert axes.get_xlabel() == "rows" and axes.get_xscale() == "log"
    curve = next(line for line in axes.lines if list(line.get_xdata()) == [10, 100, 1000])
    assert list(curve.get_ydata()) == [run["fused"].ratio for run in found]


def test_a_sweep_as_a_frame():
    frame = sizes().to_frame()
    assert frame.index.names == ["rows", "name"] and len(frame) == 6
    assert frame.loc[(10, "fused"), "statement"] == "faster"


def test_a_sweep_that_was_interrupted_at_once_has_no_values():
    """`plot` said "min() arg is an empty sequence"."""
    empty = Sweep("rows", [], [])
    assert "rows" in str(empty) and empty.to_frame().empty
    with pytest.raises(ValueError, match="the sweep has no values"):
        empty.plot()


@pytest.mark.parametrize(
    "values",
    [
        [(32, 32), torch.Size([64, 64])],
        [torch.float32, torch.bfloat16],
        [torch.tensor([1, 2]), torch.tensor([[0.5], [1.0]])],
        [("a", (1, torch.int8)), None],
        [np.array([1, 2]), np.array([[0.5], [1.0]], dtype=np.float32)],
        [(np.array([1.0, 2.0]), 3), np.array(3.5)],
        [1 + 2j, torch.tensor([[1j, 2.0]])],
        [np.array([1j]), (1j, np.array(2j))],
        [torch.zeros(0, 3), torch.zeros(2, 0)],
        [np.zeros((0, 3)), np.zeros((2, 0))],
    ],
)
def test_values_of_any_kind_survive_the_file(path, values):
    """Pairs and dtypes raised KeyError after `load`; two elements in one value crashed `save`."""
    found = Sweep("kind", values, [*sizes()][:2])
    back = read_back(found, path)
    for value, run in zip(values, found):
        assert back[value] == run == found[value]
    assert str(back.values) == str([tuple(v) if isinstance(v, tuple) else v for v in values])
    with pytest.raises(KeyError, match="no kind 3"):
        back[3]


@pytest.mark.parametrize("value", [torch.tensor([[1, 2]]), np.array([[1.5, 2.5]])])
def test_arrays_in_files_are_nested_lists_as_earlier_versions_read_them(path, value):
    Sweep("kind", [value], [*sizes()][:1]).save(path)
    (kept,) = json.loads(path.read_text())["values"]
    assert kept["array" if "array" in kept else "tensor"] == value.tolist()


def test_numbers_and_types_of_numpy_are_saved(path):
    """A type has the method `item`, too, which it cannot call."""
    back = read_back(Sweep("kind", [np.float32(1.5), np.int8], [*sizes()][:2]), path)
    assert back.values == [1.5, str(np.int8)]


def test_saving_leaves_the_whole_old_file_or_the_whole_new_one(path, monkeypatch):
    sizes().save(path)
    before = path.read_text()

    def full(*_):
        raise OSError("no space left on device")

    monkeypatch.setattr("os.replace", full)
    with pytest.raises(OSError, match="no space"):
        sizes().save(path)
    assert path.read_text() == before and [p.name for p in path.parent.iterdir()] == [path.name]


def test_a_crossing_is_found_with_its_interval():
    found = sizes({10: 2.0, 100: 1.25, 1000: 0.8, 10_000: 0.5}).crossing()
    assert (found.name, found.other) == ("fused", "eager")
    assert found.value == pytest.approx(math.sqrt(100 * 1000), rel=0.02)
    assert (found.low, found.high) == (100, 1000)
    assert str(found).startswith("fused against eager: crosses at 31")
    assert "[100, 1,000]" in str(found)
    # An interval that holds 1 decides nothing: the ends are the neighbours that do.
    wide = sizes({10: 2.0, 100: 1.0, 1000: 0.5}).crossing("fused")
    assert (wide.low, wide.high) == (10, 1000)
    # Nor does one that lies within the margin.
    near = sizes({10: 2.0, 100: 0.5, 1000: 1.01}).crossing()
    assert (near.low, near.high) == (10, 100)


def test_what_is_no_crossing_is_told():
    none = sizes({10: 2.0, 100: 1.5}).crossing()
    assert math.isnan(none.value) and (none.low, none.high) == (0, math.inf)
    assert "no crossing found" in str(none)
    with pytest.raises(ValueError, match="more than once: between 1 and 2, between 2 and 3"):
        sizes({1: 2.0, 2: 0.5, 3: 2.0}).crossing()
    with pytest.raises(ValueError, match="ascending order"):
        sizes({2: 2.0, 1: 0.5}).crossing()
    several = Sweep("rows", [1], [made({"a": 1.0, "b": 2.0, "c": 3.0})])
    with pytest.raises(ValueError, match=r"one of \['b', 'c'\]"):
        several.crossing()


def test_a_sweep_over_words():
    found = Sweep("dtype", ["float32", "bfloat16"], [*sizes()][:2])
    assert "bfloat16" in str(found)
    found.plot().figure.canvas.draw()


def test_the_curve_of_a_sweep_crosses_1_where_crossing_says():
    swept = sizes({10: 2.0, 1000: 0.25})
    ax = swept.plot()
    assert (ax.get_xscale(), ax.get_yscale()) == ("log", "log")
    (line,) = [line for line in ax.lines if line.get_label() == "fused"]
    x, y = np.log(line.get_xydata()).T
    assert np.interp(0, -y, x) == pytest.approx(math.log(swept.crossing().value))
