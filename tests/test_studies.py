"""The studies in benchmarks/: their snippets do what they say, their tables count right."""

import random
import time

import pytest
import torch.utils.benchmark
import verdicts
from clocks import FakeClock
from load import Load


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
    fn = verdicts.small_operations()(3)
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
    snippet = verdicts.python_loop()
    light, heavy = snippet(100), snippet(5000)
    light(), heavy()
    # Fifty times the work. On a disturbed machine a tool may abstain; it must not mix the sides up.
    verdict, ratio = verdicts.TOOLS[tool][1](light, heavy)
    assert verdict in (None, 0, 1) and not ratio < 1
    verdict, ratio = verdicts.TOOLS[tool][1](heavy, light)
    assert verdict in (None, 0, -1) and not ratio > 1


@pytest.mark.parametrize("tool", ["torch", "welch"])
def test_tools_that_compare_spreads_can_give_a_verdict(tool, monkeypatch):
    """On a clock without noise nothing excuses a tool that never calls a winner."""
    clock = FakeClock()
    monkeypatch.setattr(time, "perf_counter", clock)
    light, heavy = clock.work(1e-4, noise=1e-3, seed=1), clock.work(5e-4, noise=1e-3, seed=2)
    if tool == "torch":

        class Timer:
            def __init__(self, stmt, globals, num_threads):
                self.fn = globals["fn"]

            def blocked_autorange(self, min_run_time):
                times = []
                for _ in range(50):
                    start = clock.now
                    self.fn()
                    times.append(clock.now - start)
                return torch.utils.benchmark.Measurement(
                    1, times, torch.utils.benchmark.TaskSpec("fn()", "")
                )

        monkeypatch.setattr(torch.utils.benchmark, "Timer", Timer)
    assert verdicts.TOOLS[tool][1](light, heavy)[0] == 1
    assert verdicts.TOOLS[tool][1](heavy, light)[0] == -1
    assert verdicts.TOOLS[tool][1](light, light)[0] == 0


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
    assert row[1] == "33.3 [6.1, 79.2] / 100.0 [20.7, 100.0] / -"
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
    assert len(trials) == 3 * 4
    verdicts.print_tables(trials)
    assert "ours" in capsys.readouterr().out


def test_the_neighbour_burns_and_rests_and_ends():
    import psutil

    with Load() as load:
        process = psutil.Process(load._process.pid)

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
