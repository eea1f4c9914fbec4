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
import math
import random
import statistics
import sys
import time
import timeit
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from load import Load
from programs import PROGRAMS, REGIONS
from rivals import NOMINAL_S, TOOLS, VERDICTS
from snippets import SNIPPETS, copy_of, with_slow_start, without_slow_start
from targets import percentile, print_targets, rate
from tqdm import tqdm
from trials import CONDITIONS, TRUTHS, Trial, load, right, save, this_setting

import d2lperf

STUDIES = ("snippets", "programs", "regions")


class Case(NamedTuple):
    """What one trial of each tool is about: names of CONDITIONS, SNIPPETS and TRUTHS."""

    condition: str
    snippet: str
    truth: str


class Pair(NamedTuple):
    """Two functions, and the true ratio of the second to the first."""

    first: Callable
    second: Callable
    true_ratio: float


def make_pair(snippet: str, truth: str, chance: random.Random) -> Pair:
    """Return the two functions of a snippet in random order."""
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
    return Pair(a, b, work_b / work_a)


def plan_of_trials(
    repeats: int, slow_repeats: int, conditions: Sequence[str] = CONDITIONS
) -> Iterator[Case]:
    """Yield every case of one repeat, as often as asked."""
    for repeat in range(repeats):
        for condition in conditions:
            for snippet, (_, steps) in SNIPPETS.items():
                for truth, place in TRUTHS.items():
                    if steps[place] is not None:
                        yield Case(condition, snippet, truth)
                if repeat < slow_repeats:
                    yield Case(condition, snippet, "slow first calls")


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
                pair = make_pair(snippet, truth, chance)
                if truth != "slow first calls":
                    pair.first(), pair.second()
                if "bursts" in condition:
                    load.bursts(cores=2 if condition == "two bursts" else 1)
                    time.sleep(0.1)
                elif condition == "half-way":
                    load.after(expected[tool] / 2)
                elif condition == "steady":
                    load.steady()
                    time.sleep(0.1)
                start = time.perf_counter()
                verdict, ratio = TOOLS[tool][1](pair.first, pair.second)
                took = time.perf_counter() - start
                load.idle()
                time.sleep(0.02)
                if condition == "quiet":
                    expected[tool] = 0.7 * expected[tool] + 0.3 * took
                trials.append(
                    Trial(tool, condition, snippet, truth, pair.true_ratio, verdict, ratio, took)
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
        snippet = f"{name}, threads={threads}"
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
        real = kind["3 %"] + kind["10 %"]
        wrong = sum(t.called == -t.right_sign for t in real)
        print(
            "| "
            + " | ".join(
                [
                    TOOLS[tool][0],
                    cells(kind["null"], lambda t: t.called != 0),
                    cells(kind["10 %"], right),
                    cells(kind["3 %"], right),
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
                if t.condition == c and t.truth != "slow first calls" and math.isfinite(t.ratio)
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


def studies(options: argparse.Namespace, seed: int) -> Iterator[list[Trial]]:
    """Yield the trials of each study that was asked for."""
    if "snippets" in options.studies:
        repeats = options.repeats, options.slow_repeats
        yield study(options.tools, *repeats, seed, options.conditions)
    if "programs" in options.studies and "d2lperf" in options.tools:
        yield study_of_programs(2 * options.repeats)
    if "regions" in options.studies and "d2lperf" in options.tools:
        yield study_of_regions(2 * options.repeats)


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
        for some in studies(options, seed):
            trials += some
            if options.save:  # after each study: the next one may be interrupted
                save(options.save, trials)
    snippets = [t for t in trials if t.truth in (*TRUTHS, "slow first calls")]
    if snippets:
        print_tables(snippets, setting)
    print_table_of_copies(trials)
    return 0 if not options.check or print_targets(trials) else 1


if __name__ == "__main__":
    sys.exit(main())
