"""The studies in benchmarks/: their snippets do what they say, their tables count right."""

import random
import time
import timeit
from functools import partial
from types import SimpleNamespace

import import_time
import overhead
import pytest
import snippets
import torch.utils.benchmark
import verdicts
from clocks import FakeClock
from load import Load

import d2lperf
from d2lperf.measuring import verdict


@pytest.mark.parametrize("snippet", verdicts.SNIPPETS)
def test_pairs_have_the_ratio_of_work_that_they_claim(snippet, monkeypatch):
    maker, steps = verdicts.SNIPPETS[snippet]
    made = []

    def counting_maker():
        def of(n):
            made.append(n)
            return lambda: n

        return of

    monkeypatch.setitem(verdicts.SNIPPETS, snippet, (counting_maker, steps))
    monkeypatch.setattr(verdicts, "copy_of", lambda fn: fn)
    for truth, place in verdicts.TRUTHS.items():
        if steps[place] is None:
            continue
        a, b, ratio = verdicts.make_pair(snippet, truth, random.Random(1))
        assert ratio == pytest.approx(b() / a())
        assert (ratio == 1) == (truth == "null")
        nominal = {"null": 1.0, "3 %": 1.03, "10 %": 1.1}[truth]
        assert max(ratio, 1 / ratio) == pytest.approx(nominal, abs=0.001)
    maker()(2)()


def test_either_side_may_be_the_heavier():
    ratios = {
        verdicts.make_pair("python", "10 %", random.Random(seed))[2] > 1 for seed in range(20)
    }
    assert ratios == {True, False}


def test_a_copy_is_another_function_with_the_same_code_and_data():
    fn = snippets.small_operations()(3)
    twin = verdicts.copy_of(fn)
    assert twin is not fn
    assert twin.__code__ is fn.__code__ and twin.__closure__ == fn.__closure__


def test_a_slow_start_is_slow_three_times():
    slow = verdicts.with_slow_start(lambda: None)
    times = []
    for _ in range(5):
        start = time.perf_counter()
        slow()
        times.append(time.perf_counter() - start)
    assert all(t >= 0.03 for t in times[:3])


@pytest.mark.parametrize("tool", verdicts.TOOLS)
def test_every_tool_sees_the_heavier_side(tool, monkeypatch):
    monkeypatch.setitem(verdicts.NOMINAL_S, "now", 1e-4)
    snippet = snippets.python_loop()
    light, heavy = snippet(100), snippet(5000)
    light(), heavy()
    # Fifty times the work. On a disturbed machine a tool may abstain; it must not mix the sides up.
    verdict, ratio = verdicts.TOOLS[tool][1](light, heavy)
    assert verdict in (None, 0, 1) and not ratio < 1
    verdict, ratio = verdicts.TOOLS[tool][1](heavy, light)
    assert verdict in (None, 0, -1) and not ratio > 1


@pytest.fixture
def without_noise(monkeypatch):
    """A clock that only the functions move, under every tool: nothing excuses an abstention."""
    clock = FakeClock()
    monkeypatch.setattr(time, "perf_counter", clock)
    monkeypatch.setitem(verdicts.NOMINAL_S, "now", 1e-4)
    monkeypatch.setattr(timeit, "Timer", partial(timeit.Timer, timer=clock))
    compare = partial(d2lperf.compare, instruments=clock.instruments(1))
    monkeypatch.setattr(d2lperf, "compare", compare)

    class TorchTimer:
        def __init__(self, stmt, globals, num_threads):
            self.fn = globals["fn"]

        def blocked_autorange(self, min_run_time):
            times = []
            for _ in range(50):
                start = clock.now
                self.fn()
                times.append(clock.now - start)
            spec = torch.utils.benchmark.TaskSpec("fn()", "")
            return torch.utils.benchmark.Measurement(1, times, spec)

    monkeypatch.setattr(torch.utils.benchmark, "Timer", TorchTimer)
    return clock


@pytest.mark.parametrize("tool", verdicts.TOOLS)
def test_every_tool_must_call_the_heavier_side_where_nothing_disturbs(tool, without_noise):
    clock = without_noise
    light, heavy = clock.work(1e-4, noise=1e-3, seed=1), clock.work(5e-4, noise=1e-3, seed=2)
    verdict, ratio = verdicts.TOOLS[tool][1](light, heavy)
    assert verdict == 1 and ratio == pytest.approx(5, rel=0.01)
    verdict, ratio = verdicts.TOOLS[tool][1](heavy, light)
    assert verdict == -1 and ratio == pytest.approx(1 / 5, rel=0.01)
    verdict, ratio = verdicts.TOOLS[tool][1](light, light)
    assert verdict == 0 and ratio == pytest.approx(1, rel=0.01)


@pytest.mark.parametrize("tool", ["book", "timeit"])
@pytest.mark.parametrize("more, verdict", [(1.04, 0), (1.06, 1), (1.0, 0)])
def test_tools_with_a_threshold_have_it_at_five_per_cent(tool, more, verdict, without_noise):
    light, heavy = without_noise.work(1e-4), without_noise.work(more * 1e-4)
    assert verdicts.TOOLS[tool][1](light, heavy) == (verdict, pytest.approx(more))
    assert verdicts.TOOLS[tool][1](heavy, light) == (-verdict, pytest.approx(1 / more))


def test_the_book_calls_each_one_after_the_other_and_does_not_warm_up(without_noise):
    # a first call that takes as long as 50 others is part of the mean, and decides
    first = without_noise.work(1e-4, first=[5e-3])
    then = without_noise.work(1e-4)
    verdict, ratio = verdicts.book(then, first)
    assert first.calls == then.calls == [1000]
    assert (verdict, ratio) == (0, pytest.approx(1.049))
    assert verdicts.book(then, without_noise.work(1e-4, first=[0.01]))[0] == 1


OURS = {"faster": -1, "slower": 1, "no measurable difference": 0, "not decided": None}


@pytest.mark.parametrize("word", OURS)
def test_ours_hands_on_every_verdict_of_compare(word, monkeypatch):
    asked = []

    def compare(functions, **options):
        asked.append((functions, options))
        return {"b": SimpleNamespace(verdict=word, ratio=0.7)}

    monkeypatch.setattr(d2lperf, "compare", compare)
    assert verdicts.ours(min, max) == (OURS[word], 0.7)
    # as it comes: the first is the baseline, and nothing helps it but the check being left out
    assert asked == [({"a": min, "b": max}, {"check": False})]
    assert list(asked[0][0]) == ["a", "b"]


def test_the_verdicts_of_ours_are_all_there_are():
    words = {verdict.FASTER, verdict.SLOWER, verdict.NO_DIFFERENCE, verdict.NOT_DECIDED}
    assert set(verdicts.VERDICTS) == set(OURS) == words


def trial(truth, true_ratio, verdict, ratio, condition="quiet", tool="d2lperf"):
    return verdicts.Trial(tool, condition, "python", truth, true_ratio, verdict, ratio, 0.5)


def test_the_tables_count_right(capsys):
    trials = [
        trial("null", 1.0, 0, 1.001),
        trial("null", 1.0, 0, 0.999),
        trial("null", 1.0, 1, 1.02),
        trial("null", 1.0, -1, 0.9, "bursts"),
        trial("10 %", 1.1, 1, 1.1),
        trial("10 %", 1 / 1.1, 1, 1.05),
        trial("3 %", 1.03, 0, 1.03),
        trial("slow first calls", 1.0, 0, 1.0),
        trial("3 %", 1.03, None, float("nan")),
    ]
    verdicts.print_tables(trials)
    lines = capsys.readouterr().out.splitlines()
    row = next(line for line in lines if line.startswith("| d2lperf.compare")).split(" | ")
    assert row[1] == "33.3 [6.1, 79.2] / 100.0 [20.7, 100.0] / - / -"
    assert row[2].startswith("50.0 [") and row[3].startswith("0.0 [")
    assert row[4] == "1 of 4"
    assert row[6].startswith("12.5 [")
    pooled = [line for line in lines if line.startswith("| d2lperf.compare")][1].split(" | ")
    assert pooled[1].startswith("2 of 4: 50.0 [")


def test_a_small_study_runs_from_end_to_end(monkeypatch, capsys):
    fake = lambda a, b: (a(), b(), (0, 1.0))[2]  # noqa: E731
    monkeypatch.setattr(verdicts, "TOOLS", {"d2lperf": ("ours", fake)})
    only = {"python": verdicts.SNIPPETS["python"]}
    monkeypatch.setattr(verdicts, "SNIPPETS", only)
    trials = verdicts.study(["d2lperf"], 1, 1, seed=1)
    assert len(trials) == 4 * 4
    verdicts.print_tables(trials)
    assert "ours" in capsys.readouterr().out


def good_trials():
    """Trials of a tool that reaches every target, none of them with much to spare in count."""
    trials = []
    for condition in verdicts.CONDITIONS:
        for snippet, (_, steps) in verdicts.SNIPPETS.items():
            for truth, place in {**verdicts.TRUTHS, "slow first calls": 0}.items():
                if steps[place] is None:
                    continue
                true_ratio = steps[place] / steps[0]
                verdict = int(true_ratio > 1)
                made = verdicts.Trial(
                    "d2lperf", condition, snippet, truth, true_ratio, verdict, true_ratio, 0.45
                )
                # nine nulls for each snippet and condition, as in a study of nine repeats
                trials += [verdicts.Trial(**vars(made)) for _ in range(9)]
    return trials


def chosen(trials, share=1.0, **wanted):
    """A share (at least one) of the trials with these attributes, to be spoilt."""
    found = [t for t in trials if all(getattr(t, k) == v for k, v in wanted.items())]
    assert found
    return found[: max(1, round(share * len(found)))]


def spoil(attribute, value, share=1.0, **wanted):
    def change(trials):
        for t in chosen(trials, share, **wanted):
            setattr(t, attribute, value(t) if callable(value) else value)

    return change


def only(test):
    def change(trials):
        trials[:] = filter(test, trials)

    return change


def by_another_tool(trials):
    for t in trials:
        t.tool = "book"


# what is done to trials that reach every target -> beginnings of the targets then missed
MISSED = {
    "false": (spoil("verdict", 1, 0.03, truth="null"), ["false verdicts"]),
    "few nulls": (
        only(lambda t: t.truth != "null" or t.snippet in ("python", "forward")),
        ["false verdicts"],
    ),
    "nulls not decided": (spoil("verdict", None, 0.11, truth="null"), ["nulls decided"]),
    "10 % beside bursts": (
        spoil("verdict", 0, 0.08, truth="10 %", condition="two bursts"),
        ["10 % found, quiet / bursts"],
    ),
    "10 % not decided": (
        spoil("verdict", None, 0.08, truth="10 %", condition="half-way"),
        ["10 % found, quiet / bursts"],
    ),
    "3 % with one thread": (
        spoil("verdict", 0, 0.5, truth="3 %", snippet="copies"),
        ["3 % found with one thread"],
    ),
    "3 % with threads": (
        spoil("verdict", 0, 0.9, truth="3 %", snippet="long numpy products"),
        ["3 % found with several threads"],
    ),
    "threads left out": (
        only(lambda t: not verdicts.threaded(t) or t.truth != "3 %"),
        ["3 % found with several threads"],
    ),
    "wrong sign": (spoil("verdict", -1, 0.001, truth="3 %", condition="bursts"), ["wrong sign"]),
    "slow first calls": (
        spoil("verdict", 1, 0.001, truth="slow first calls"),
        ["slow first calls"],
    ),
    "slow": (spoil("seconds", 0.8, 0.6, condition="quiet"), ["time, median"]),
    "once very slow": (spoil("seconds", 4.1, 0.001), ["time, most"]),
}


TARGETS = 9


def checked(trials, tmp_path, capsys):
    """(exit status, lines of the targets that were reached, and of those that were missed)."""
    path = tmp_path / "trials.json"
    verdicts.save(path, trials)
    status = verdicts.main(["--load", str(path), "--check"])
    lines = [x[2:] for x in capsys.readouterr().out.splitlines() if x.startswith("* ")]
    reached = [line[9:] for line in lines if line.startswith("reached: ")]
    missed = [line[8:] for line in lines if line.startswith("missed: ")]
    assert len(reached) + len(missed) == len(lines)
    return status, reached, missed


def test_targets_that_are_reached(tmp_path, capsys):
    status, reached, missed = checked(good_trials(), tmp_path, capsys)
    assert (status, missed) == (0, [])
    assert len(reached) == TARGETS
    assert reached[0] == (
        "false verdicts, pooled: 0 of 360, 0.0 [0.0, 1.1] % (at most 2 %, of at least 150 nulls)"
    )
    assert "time, most: 0.45 s (at most 4 s)" in reached


@pytest.mark.parametrize("case", MISSED)
def test_targets_that_are_missed(case, tmp_path, capsys):
    change, expected = MISSED[case]
    trials = good_trials()
    change(trials)
    status, reached, missed = checked(trials, tmp_path, capsys)
    assert status == 1
    assert len(missed) == len(expected) and len(reached) == TARGETS - len(expected)
    assert all(map(str.startswith, missed, expected)), missed


def test_every_target_is_missed_once():
    names = [line.partition(": ")[2] for _, line in verdicts.targets(good_trials())]
    beginnings = {beginning for _, missed in MISSED.values() for beginning in missed}
    assert {n for n in names if n.startswith(tuple(beginnings))} == set(names)
    assert len(beginnings) == len(names)


def test_what_may_be_missed_by_a_little_is_reached(tmp_path, capsys):
    trials = good_trials()
    for change in [
        spoil("verdict", 1, 0.015, truth="null"),
        spoil("verdict", None, 0.05, truth="null"),
        spoil("verdict", 0, 0.04, truth="10 %", condition="bursts", snippet="python"),
        spoil("verdict", 0, 0.7, truth="3 %", snippet="long threaded forward"),
        spoil("ratio", float("nan"), 0.001, truth="3 %"),
        spoil("seconds", 3.9, 0.4, condition="bursts"),
    ]:
        change(trials)
    status, reached, _ = checked(trials, tmp_path, capsys)
    assert status == 0 and len(reached) == TARGETS


def test_the_targets_are_for_ours_alone(tmp_path, capsys):
    trials = good_trials()
    by_another_tool(trials)
    status, reached, missed = checked(trials, tmp_path, capsys)
    assert (status, reached) == (1, [])
    assert len(missed) == TARGETS  # what was not tried is not reached


def test_trials_that_were_saved_can_be_printed_again(tmp_path, capsys, monkeypatch):
    made = [trial("null", 1.0, 0, 1.0), trial("3 %", 1.03, None, float("nan"), tool="book")]
    monkeypatch.setattr(verdicts, "study", lambda *args: made)
    first, second = tmp_path / "a.json", tmp_path / "b.json"
    assert verdicts.main(["--save", str(first), "--seed", "1"]) == 0
    printed = capsys.readouterr().out
    monkeypatch.delattr(verdicts, "study")  # nothing is run from now on
    assert verdicts.main(["--load", str(first)]) == 0
    assert capsys.readouterr().out == printed
    assert "called once before" in printed  # the book's protocol is among the tools

    # two files that are taken together
    verdicts.save(second, made[:1])
    assert verdicts.main(["--load", str(first), str(second)]) == 0
    assert "0 of 2: 0.0 [" in capsys.readouterr().out


@pytest.mark.parametrize("text", ["{", "{}", "[1]", '[{"tool": "book"}]'])
def test_a_file_without_trials_is_told(text, tmp_path, capsys):
    path = tmp_path / "other.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(SystemExit) as end:
        verdicts.main(["--load", str(path)])
    assert end.value.code == 2
    assert "other.json holds no trials" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        verdicts.main(["--load", str(tmp_path / "none.json")])
    assert "none.json" in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments, word",
    [
        (["--check", "--tools", "book"], "leaves it out"),
        (["--load", "a.json", "--save", "b.json"], "nothing for --save"),
    ],
)
def test_arguments_that_make_no_sense_are_told_before_anything_runs(
    arguments, word, capsys, monkeypatch
):
    monkeypatch.delattr(verdicts, "study")
    with pytest.raises(SystemExit) as end:
        verdicts.main(arguments)
    assert end.value.code == 2
    assert word in capsys.readouterr().err


def test_the_neighbour_burns_and_rests_and_ends():
    import psutil

    with Load() as load:
        process = psutil.Process(load.processes[0].pid)

        def share(seconds=0.4):
            before = sum(process.cpu_times()[:2])
            time.sleep(seconds)
            return sum(process.cpu_times()[:2]) - before

        load.after(0)
        time.sleep(0.5)
        burnt = share()
        load.idle()
        time.sleep(0.3)
        rested = share()
        load.bursts()
    # Processor time, not speed: burning takes some, resting hardly any, on any machine.
    assert burnt > rested
    assert not process.is_running()


# ------------------------------------------------------------------ limits of other benchmarks


@pytest.mark.parametrize(
    "judged, kept, broken",
    [
        (
            lambda seconds: overhead.misses_target({overhead.HARNESS: seconds, "bare loop": [1.0]}),
            [59e-9, 60e-9, 90e-9],
            [59e-9, 61e-9, 62e-9],
        ),
        (import_time.misses_target, [0.049, 0.05, 0.3], [0.01, 0.051, 0.052]),
    ],
    ids=["overhead", "import time"],
)
def test_a_limit_that_is_missed_is_told_by_the_exit_status(capsys, judged, kept, broken):
    assert judged(kept) == 0 and "reached: " in capsys.readouterr().out
    assert judged(broken) == 1 and "missed: " in capsys.readouterr().out
