"""How often do benchmarking tools decide wrongly? The study behind `d2lperf.compare`.

Pairs of snippets whose true ratio is known by construction (the same step done 100, 103 or 110
times) go to several tools in turn, on a quiet machine, beside a process that burns a core in
bursts, beside two of them, with a load that sets in half-way, and beside a process that burns a
core all the time. Printed is the table of the wrong and the missed verdicts, with 95 % intervals
(Wilson), the errors of the ratios, and what each tool cost.

Two more studies are of `compare` alone: deep copies of one network, with and without `build=True`
(their weights lie at other places in memory), and pairs with different numbers of parallel regions
beside a steady load, which slows them down by different factors.

    python benchmarks/verdicts.py                      # everything, about two hours
    python benchmarks/verdicts.py --tools d2lperf      # ours alone, about 40 minutes
    python benchmarks/verdicts.py --tools d2lperf --studies programs   # one of the studies
    python benchmarks/verdicts.py --repeats 2          # a quick look
    python benchmarks/verdicts.py --save trials.json   # keep the trials
    python benchmarks/verdicts.py --load trials.json   # print the tables of trials that were kept
    python benchmarks/verdicts.py --check              # and hold ours against its targets

Run it on a machine that does nothing else. `--check` adds a line for each target, reached or
missed, and ends with status 1 where one is missed. It goes with `--load`, too.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import statistics
import sys
import time
import timeit
import warnings
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
import torch.utils.benchmark
from load import Load
from programs import PROGRAMS, REGIONS
from scipy.stats import binomtest, ttest_ind
from snippets import SNIPPETS, THREADED, copy_of, with_slow_start, without_slow_start
from tqdm import tqdm

import d2lperf

TRUTHS = {"null": 0, "3 %": 1, "10 %": 2}
CONDITIONS = ("quiet", "bursts", "two bursts", "half-way", "steady")
STUDIES = ("snippets", "programs", "regions")

# --------------------------------------------------------------------------------- the tools

# A tool gets two functions and returns (verdict, ratio): verdict -1 when it says that the second
# is faster, +1 slower, 0 neither, None that it cannot tell; ratio is time of the second over time
# of the first, nan where the tool gives none.
VERDICTS = {"faster": -1, "slower": 1, "no difference": 0, "not decided": None}


def _beyond(ratio: float, threshold: float) -> int:
    if ratio > 1 + threshold:
        return 1
    return -1 if ratio < 1 / (1 + threshold) else 0


def _calls_for(fn: Callable[[], object], seconds: float, most: int = 10**7) -> int:
    start = time.perf_counter()
    fn()
    return max(1, min(most, int(seconds / max(time.perf_counter() - start, 1e-9))))


def book(a, b):
    """One loop of up to 1000 calls each, one after the other; more than 5 % counts.

    Nothing warms up in here, as in the book. But `study` has called each function once before,
    except where slow first calls are the question, so that elsewhere this protocol is spared what
    a very first call costs.
    """
    times = []
    # The book writes the number of calls by hand; here a fresh copy would be needed to find it
    # without warming up, so both get what lasts about 0.2 s by the snippet's nominal speed.
    for fn in (a, b):
        calls = min(1000, max(10, int(0.2 / NOMINAL_S["now"])))
        start = time.perf_counter()
        for _ in range(calls):
            fn()
        times.append((time.perf_counter() - start) / calls)
    ratio = times[1] / times[0]
    return _beyond(ratio, 0.05), ratio


def torch_benchmark(a, b):
    """torch.utils.benchmark, blocked_autorange; a verdict where the quartile ranges are apart."""
    found = []
    for fn in (a, b):
        timer = torch.utils.benchmark.Timer(
            "fn()", globals={"fn": fn}, num_threads=torch.get_num_threads()
        )
        found.append(timer.blocked_autorange(min_run_time=0.2))
    (a25, a75), (b25, b75) = (np.percentile(m.times, [25, 75]) for m in found)
    ratio = found[1].median / found[0].median
    return (1 if b25 > a75 else -1 if b75 < a25 else 0), ratio


def best_of_five(a, b):
    """Timeit, the least of five repeats of 50 ms; more than 5 % counts."""
    times = []
    for fn in (a, b):
        timer = timeit.Timer(fn)
        number = 1
        while timer.timeit(number) < 0.05:
            number *= 2
        times.append(min(timer.repeat(5, number)) / number)
    ratio = times[1] / times[0]
    return _beyond(ratio, 0.05), ratio


def welch(a, b):
    """Twenty means of 10 ms each, one function after the other; Welch's test at 5 %."""
    means = []
    for fn in (a, b):
        fn()
        calls = _calls_for(fn, 0.01)
        sample = []
        for _ in range(20):
            start = time.perf_counter()
            for _ in range(calls):
                fn()
            sample.append((time.perf_counter() - start) / calls)
        means.append(sample)
    ratio = statistics.mean(means[1]) / statistics.mean(means[0])
    differs = ttest_ind(means[0], means[1], equal_var=False).pvalue < 0.05
    return (0 if not differs else 1 if ratio > 1 else -1), ratio


def ours(a, b):
    """Run `d2lperf.compare` as it comes."""
    found = d2lperf.compare({"a": a, "b": b}, check=False)["b"]
    return VERDICTS[found.verdict], found.ratio


TOOLS = {
    "book": ("the book's protocol (> 5 %)", book),
    "torch": ("torch.utils.benchmark, quartiles apart", torch_benchmark),
    "timeit": ("timeit, best of 5 (> 5 %)", best_of_five),
    "welch": ("20 means each, Welch's test", welch),
    "d2lperf": ("d2lperf.compare", ours),
}
NOMINAL_S = {"now": 1e-4}

# --------------------------------------------------------------------------------- the study


@dataclass
class Trial:
    """One comparison by one tool."""

    tool: str
    condition: str
    snippet: str
    truth: str
    true_ratio: float
    verdict: int | None
    ratio: float
    seconds: float

    @property
    def called(self) -> int:
        """The verdict, 0 also where the tool could not tell."""
        return self.verdict or 0

    @property
    def error(self) -> float:
        """Error of the ratio in per cent."""
        return 100 * abs(self.ratio / self.true_ratio - 1)

    @property
    def right_sign(self) -> int:
        """The verdict that would be right: 0 for a null."""
        return 0 if self.true_ratio == 1 else (1 if self.true_ratio > 1 else -1)


def make_pair(snippet: str, truth: str, chance: random.Random):
    """Two functions in random order and the true ratio of the second to the first."""
    maker, steps = SNIPPETS[snippet]
    snippet = maker()
    base = snippet(steps[0])
    if truth == "slow first calls":
        pair = [(without_slow_start(base), 1.0), (with_slow_start(copy_of(base)), 1.0)]
    elif truth == "null":
        pair = [(base, 1.0), (copy_of(base), 1.0)]
    else:
        more = steps[TRUTHS[truth]]
        pair = [(base, float(steps[0])), (snippet(more), float(more))]
    chance.shuffle(pair)
    (a, work_a), (b, work_b) = pair
    return a, b, work_b / work_a


def plan_of_trials(repeats: int, slow_repeats: int, conditions: Sequence[str] = CONDITIONS):
    """Every (condition, snippet, truth) of one repeat, as often as asked."""
    for repeat in range(repeats):
        for condition in conditions:
            for snippet, (_, steps) in SNIPPETS.items():
                for truth, place in TRUTHS.items():
                    if steps[place] is not None:
                        yield condition, snippet, truth
                if repeat < slow_repeats:
                    yield condition, snippet, "slow first calls"


def study(
    tools: list[str],
    repeats: int,
    slow_repeats: int,
    seed: int,
    conditions: Sequence[str] = CONDITIONS,
) -> list[Trial]:
    """Run the snippets; each pair goes to all the tools, in random order."""
    chance = random.Random(seed)
    trials = []
    expected = dict.fromkeys(tools, 0.5)
    todo = list(plan_of_trials(repeats, slow_repeats, conditions))
    with Load() as load, tqdm(total=len(todo) * len(tools), unit="trial", mininterval=5) as bar:
        for condition, snippet, truth in todo:
            maker, steps = SNIPPETS[snippet]
            probe = maker()(steps[0])
            for _ in range(3):
                probe()
            NOMINAL_S["now"] = min(timeit.repeat(probe, number=3, repeat=5)) / 3
            for tool in chance.sample(tools, len(tools)):
                # Every tool gets a fresh pair: slow first calls are slow for each of them.
                a, b, true_ratio = make_pair(snippet, truth, chance)
                if truth != "slow first calls":
                    a(), b()
                if "bursts" in condition:
                    load.bursts(cores=2 if condition == "two bursts" else 1)
                    time.sleep(0.1)
                elif condition == "half-way":
                    load.after(expected[tool] / 2)
                elif condition == "steady":
                    load.steady()
                    time.sleep(0.1)
                start = time.perf_counter()
                verdict, ratio = TOOLS[tool][1](a, b)
                took = time.perf_counter() - start
                load.idle()
                time.sleep(0.02)
                if condition == "quiet":
                    expected[tool] = 0.7 * expected[tool] + 0.3 * took
                trials.append(
                    Trial(tool, condition, snippet, truth, true_ratio, verdict, ratio, took)
                )
                bar.update()
    return trials


def study_of_programs(repeats: int) -> list[Trial]:
    """Deep copies of one network, as they are and made anew: every true ratio is 1."""
    trials = []
    todo = [
        (name, threads, build)
        for _ in range(repeats)
        for name in PROGRAMS
        for threads in (1, 2)
        for build in (False, True)
    ]
    for name, threads, build in tqdm(todo, unit="trial", mininterval=5):
        maker = PROGRAMS[name]
        if build:
            functions = {"a": maker, "b": lambda maker=maker: maker()}
        else:
            original = maker()
            functions = {"a": original, "b": original.again()}
        start = time.perf_counter()
        found = d2lperf.compare(
            functions, build=build, threads=threads, check=False, progress=False
        )["b"]
        took = time.perf_counter() - start
        truth = "copies, build=True" if build else "copies"
        snippet = f"{name}, {threads} thread{'s' * (threads > 1)}"
        verdict = VERDICTS[found.verdict]
        trials.append(Trial("d2lperf", "quiet", snippet, truth, 1.0, verdict, found.ratio, took))
    return trials


def study_of_regions(repeats: int) -> list[Trial]:
    """Pairs with different numbers of parallel regions, quiet first, then beside a steady load."""
    trials = []
    with Load() as load:
        for name, maker in REGIONS.items():
            functions = maker()
            quiet = [_regions(functions) for _ in range(5)]
            true_ratio = statistics.median(found.ratio for found in quiet)
            for burners in (1, 2):
                condition = "steady" if burners == 1 else "two steady"
                for _ in tqdm(range(repeats), desc=f"{name}, {condition}", mininterval=5):
                    load.steady(burners)
                    time.sleep(0.1)
                    start = time.perf_counter()
                    found = _regions(functions)
                    took = time.perf_counter() - start
                    load.idle()
                    verdict = VERDICTS[found.verdict]
                    row = Trial(
                        "d2lperf",
                        condition,
                        name,
                        "regions",
                        true_ratio,
                        verdict,
                        found.ratio,
                        took,
                    )
                    trials.append(row)
    return trials


def _regions(functions: dict[str, Callable]) -> d2lperf.Ratio:
    found = d2lperf.compare(functions, threads=2, check=False, progress=False)
    return found[list(functions)[1]]


# --------------------------------------------------------------------------------- the tables


def rate(hits: int, of: int) -> str:
    """Return a percentage with its interval."""
    if of == 0:
        return "-"
    found = binomtest(hits, of).proportion_ci(method="wilson")
    return f"{100 * hits / of:.1f} [{100 * found.low:.1f}, {100 * found.high:.1f}]"


def percentile(values: list[float], q: float) -> str:
    """Return a percentile."""
    return f"{np.percentile(values, q):.2f}" if values else "-"


def print_tables(trials: list[Trial], setting: str | None = None) -> None:
    """Print what the study found, as Markdown; `setting` says where it was found."""
    by_tool: dict[str, list[Trial]] = defaultdict(list)
    for trial in trials:
        by_tool[trial.tool].append(trial)

    conditions = [c for c in CONDITIONS if any(t.condition == c for t in trials)]

    def cells(rows, test):
        parts = []
        for condition in conditions:
            mine = [t for t in rows if t.condition == condition]
            parts.append(rate(sum(map(test, mine)), len(mine)))
        return " / ".join(parts)

    print(
        f"\n{setting or this_setting()}; in each cell: "
        f"{' / '.join(conditions)}; % with 95 % intervals\n"
    )
    print(
        "| tool | false verdicts (nulls) | 10 % found | 3 % found | wrong sign "
        "| slow first calls mistaken | cannot tell |\n|---|---|---|---|---|---|---|"
    )
    for tool, rows in by_tool.items():
        kind = defaultdict(list)
        for t in rows:
            kind[t.truth].append(t)
        found = lambda t: t.called == t.right_sign  # noqa: E731
        real = kind["3 %"] + kind["10 %"]
        wrong = sum(t.called == -t.right_sign for t in real)
        print(
            "| "
            + " | ".join(
                [
                    TOOLS[tool][0],
                    cells(kind["null"], lambda t: t.called != 0),
                    cells(kind["10 %"], found),
                    cells(kind["3 %"], found),
                    f"{wrong} of {len(real)}",
                    cells(kind["slow first calls"], lambda t: t.called != 0),
                    cells(rows, lambda t: t.verdict is None),
                ]
            )
            + " |"
        )

    print("\nThe intervals take the trials as independent; they come from a handful of snippets.")
    if "book" in by_tool:
        print(
            "The book's protocol does not warm up. Each function was called once before it came "
            "under any tool, except for *slow first calls*."
        )
    print("\nPooled nulls; error of the ratio, median and 95th percentile by condition; seconds")
    print(
        "| tool | false verdicts, pooled | error, median % | error, 95th percentile % "
        "| time, median s | time, most s |\n|---|---|---|---|---|---|"
    )
    for tool, rows in by_tool.items():
        nulls = [t for t in rows if t.truth == "null"]
        errors = {
            c: [
                t.error
                for t in rows
                if t.condition == c and t.truth != "slow first calls" and np.isfinite(t.ratio)
            ]
            for c in conditions
        }
        times = [t.seconds for t in rows]
        wrong = sum(t.called != 0 for t in nulls)
        print(
            "| "
            + " | ".join(
                [
                    TOOLS[tool][0],
                    f"{wrong} of {len(nulls)}: {rate(wrong, len(nulls))}",
                    " / ".join(percentile(e, 50) for e in errors.values()),
                    " / ".join(percentile(e, 95) for e in errors.values()),
                    percentile(times, 50),
                    f"{max(times):.2f}",
                ]
            )
            + " |"
        )


def print_table_of_copies(trials: list[Trial]) -> None:
    """Print the studies of programs and of parallel regions, where they were run."""
    rows = [t for t in trials if t.truth.startswith("copies") or t.truth == "regions"]
    if not rows:
        return
    print("\n| study | pair | condition | verdicts | not decided | error, median % | most % |")
    print("|---|---|---|---|---|---|---|")
    for key in dict.fromkeys((t.truth, t.snippet, t.condition) for t in rows):
        part = [t for t in rows if (t.truth, t.snippet, t.condition) == key]
        called = f"{sum(t.called != 0 for t in part)} of {len(part)}"
        undecided = sum(t.verdict is None for t in part)
        errors = [t.error for t in part if t.verdict is not None]
        cells = [*key, called, str(undecided), percentile(errors, 50), percentile(errors, 100)]
        print(f"| {' | '.join(cells)} |")


# -------------------------------------------------------------------------------- the targets

# What `compare` is to reach, for snippets under about 5 ms.
MOST_FALSE, LEAST_NULLS = 5 / 160, 160
LEAST_DECIDED, LEAST_FOUND, LEAST_FOUND_THREADED = 0.95, 0.95, 0.60
MOST_PROGRAMS_FALSE = 0.025  # of deep copies
MOST_REGIONS_WRONG, REGIONS_OFF = 0.025, 5.0  # verdicts whose ratio is more than 5 % off
MOST_MEDIAN_S, MOST_S = 0.7, 4.0


class Target(NamedTuple):
    """What `compare` is to reach, and whether it did."""

    reached: bool
    line: str


def target(reached: bool, name: str, figure: str, wanted: str) -> Target:
    """Return a target with its line to print."""
    return Target(reached, f"{'reached' if reached else 'missed'}: {name}: {figure} ({wanted})")


def at_least(name: str, rows: list[Trial], hit: Callable[[Trial], bool], least: float) -> Target:
    """Count what is as it should be; without trials a target is missed."""
    hits = sum(map(hit, rows))
    figure = f"{rate(hits, len(rows))} % of {len(rows)}"
    return target(bool(rows) and hits >= least * len(rows), name, figure, f"at least {least:.0%}")


def at_most(name: str, rows: list[Trial], hit: Callable[[Trial], bool], most: float) -> Target:
    """Count what should not be."""
    hits = sum(map(hit, rows))
    figure = f"{hits} of {len(rows)}, {rate(hits, len(rows))} %"
    wanted = f"at most {100 * most:.3g} %" if most else "never"
    return target(bool(rows) and hits <= most * len(rows), name, figure, wanted)


def targets(trials: list[Trial]) -> list[Target]:
    """Hold d2lperf's trials against the targets, for each study that was run."""
    rows = [t for t in trials if t.tool == "d2lperf"]
    found = []
    snippets = [t for t in rows if t.truth in (*TRUTHS, "slow first calls")]
    if snippets:
        found += targets_of_snippets(snippets)
    if programs := [t for t in rows if t.truth.startswith("copies")]:
        found += targets_of_programs(programs)
    if regions := [t for t in rows if t.truth == "regions"]:
        wrong = lambda t: t.verdict is not None and t.error > REGIONS_OFF  # noqa: E731
        name = f"verdicts beside a steady load whose ratio is more than {REGIONS_OFF:g} % off"
        found.append(at_most(name, regions, wrong, MOST_REGIONS_WRONG))
    return found


def targets_of_programs(rows: list[Trial]) -> list[Target]:
    """Deep copies: as they are, and made anew."""
    found = []
    for truth in dict.fromkeys(t.truth for t in rows):
        part = [t for t in rows if t.truth == truth]
        false = lambda t: t.called != 0  # noqa: E731
        found.append(at_most(f"false verdicts, {truth}", part, false, MOST_PROGRAMS_FALSE))
    return found


def targets_of_snippets(rows: list[Trial]) -> list[Target]:
    """Snippets whose true ratio is known."""
    kind: dict[str, list[Trial]] = {truth: [] for truth in (*TRUTHS, "slow first calls")}
    for t in rows:
        kind[t.truth].append(t)
    conditions = [c for c in CONDITIONS if any(t.condition == c for t in rows)]
    nulls, real = kind["null"], kind["3 %"] + kind["10 %"]
    false = at_most("false verdicts, pooled", nulls, lambda t: t.called != 0, MOST_FALSE)
    enough = len(nulls) >= LEAST_NULLS
    found = [Target(false.reached and enough, f"{false.line}; of at least {LEAST_NULLS} nulls")]
    for condition in conditions:
        part = [t for t in rows if t.condition == condition and decidable(t)]
        part_nulls = [t for t in part if t.truth == "null"]
        decided = lambda t: t.verdict is not None  # noqa: E731
        found.append(at_least(f"nulls decided, {condition}", part_nulls, decided, LEAST_DECIDED))
        ten = [t for t in part if t.truth == "10 %"]
        found.append(at_least(f"10 % found, {condition}", ten, right, LEAST_FOUND))
    for threads, least in (("one thread", LEAST_FOUND), ("several threads", LEAST_FOUND_THREADED)):
        part = [t for t in kind["3 %"] if threaded(t) == (threads != "one thread") and decidable(t)]
        found.append(at_least(f"3 % found with {threads}, pooled", part, right, least))
    found.append(at_most("wrong sign", real, lambda t: t.called == -t.right_sign, 0))
    if slow := kind["slow first calls"]:
        found.append(at_most("slow first calls mistaken", slow, lambda t: t.called != 0, 0))
    quiet = [t.seconds for t in rows if t.condition == "quiet"]
    reached = bool(quiet) and statistics.median(quiet) <= MOST_MEDIAN_S
    figure = f"{percentile(quiet, 50)} s"
    found.append(target(reached, "time, median where it is quiet", figure, f"{MOST_MEDIAN_S:g} s"))
    most = max((t.seconds for t in rows), default=math.nan)
    found.append(target(most <= MOST_S, "time, most", f"{most:.2f} s", f"at most {MOST_S:g} s"))
    return found


def right(trial: Trial) -> bool:
    """Whether the verdict is the one that is true."""
    return trial.called == trial.right_sign


def decidable(trial: Trial) -> bool:
    """Beside a steady load functions with several threads get no verdict, on purpose."""
    return trial.condition != "steady" or not threaded(trial)


def threaded(trial: Trial) -> bool:
    """Whether every core takes part in the trial's snippet."""
    return trial.snippet in SNIPPETS and SNIPPETS[trial.snippet][0] in THREADED


def print_targets(trials: list[Trial]) -> bool:
    """Print a line for each target; return whether all were reached."""
    print("\nd2lperf.compare and its targets\n")
    found = targets(trials)
    for one in found:
        print(f"* {one.line}")
    return bool(found) and all(one.reached for one in found)


# -------------------------------------------------------------------------- keeping the trials


def this_setting() -> str:
    """The threads and the version that trials of this process are made with."""
    return f"{torch.get_num_threads()} threads, torch {torch.__version__}"


def save(path: Path, trials: list[Trial]) -> None:
    """Write the trials as JSON, and with what setting they were made."""
    found = {"setting": this_setting(), "trials": [asdict(t) for t in trials]}
    path.write_text(json.dumps(found), encoding="utf-8")


def load(paths: list[Path]) -> tuple[list[Trial], str]:
    """Read what `save` wrote, several studies in a row if there are several; and their settings.

    Raises:
        ValueError: a file holds something else.
    """
    trials: list[Trial] = []
    settings: list[str] = []
    for path in paths:
        try:
            found = json.loads(path.read_text(encoding="utf-8"))
            trials += [Trial(**row) for row in found["trials"]]
            settings.append(found["setting"])
        except (ValueError, TypeError, KeyError) as error:
            raise ValueError(f"{path} holds no trials that --save wrote: {error!r}") from error
    return trials, "; ".join(dict.fromkeys(settings))


def main(arguments: list[str] | None = None) -> int:
    """Read the arguments, run the study or load one, print the tables; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tools", nargs="+", choices=TOOLS, default=list(TOOLS))
    parser.add_argument("--studies", nargs="+", choices=STUDIES, default=list(STUDIES))
    parser.add_argument("--conditions", nargs="+", choices=CONDITIONS, default=list(CONDITIONS))
    parser.add_argument("--repeats", type=int, default=9, help="of every cell (default 9)")
    parser.add_argument("--slow-repeats", type=int, default=2, help="of slow first calls")
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--save", type=Path, help="write the raw trials as JSON")
    parser.add_argument(
        "--load", type=Path, nargs="+", metavar="FILE", help="run nothing: trials that were saved"
    )
    parser.add_argument(
        "--check", action="store_true", help="hold d2lperf against its targets; 1 if one is missed"
    )
    options = parser.parse_args(arguments)
    if options.load and options.save:
        parser.error("--load runs nothing, so there is nothing for --save to write")
    if options.check and not options.load and "d2lperf" not in options.tools:
        parser.error("--check holds d2lperf against its targets, but --tools leaves it out")
    if options.load:
        try:
            trials, setting = load(options.load)
        except (OSError, ValueError) as error:
            parser.error(str(error))
    else:
        warnings.simplefilter("ignore")
        seed = options.seed if options.seed is not None else random.SystemRandom().randrange(2**32)
        print(f"seed {seed}", file=sys.stderr)
        trials, setting = [], None
        if "snippets" in options.studies:
            repeats = options.repeats, options.slow_repeats
            trials += study(options.tools, *repeats, seed, options.conditions)
        if "programs" in options.studies and "d2lperf" in options.tools:
            trials += study_of_programs(2 * options.repeats)
        if "regions" in options.studies and "d2lperf" in options.tools:
            trials += study_of_regions(2 * options.repeats)
        if options.save:
            save(options.save, trials)
    snippets = [t for t in trials if t.truth in (*TRUTHS, "slow first calls")]
    if snippets:
        print_tables(snippets, setting)
    print_table_of_copies(trials)
    return 0 if not options.check or print_targets(trials) else 1


if __name__ == "__main__":
    sys.exit(main())
