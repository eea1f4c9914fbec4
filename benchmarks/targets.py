"""What `d2lperf.compare` is to reach in the study of verdicts, and whether it did."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.stats import binomtest
from trials import CONDITIONS, TRUTHS, Trial, decidable, right, threaded

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


def rate(hits: int, of: int) -> str:
    """Return a percentage with its interval."""
    if of == 0:
        return "-"
    found = binomtest(hits, of).proportion_ci(method="wilson")
    return f"{100 * hits / of:.1f} [{100 * found.low:.1f}, {100 * found.high:.1f}]"


def percentile(values: list[float], q: float) -> str:
    """Return a percentile."""
    return f"{np.percentile(values, q):.2f}" if values else "-"


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


def decided(trial: Trial) -> bool:
    """Whether the tool could tell."""
    return trial.verdict is not None


def called(trial: Trial) -> bool:
    """Whether the tool called one of the two faster."""
    return trial.called != 0


def wrong_sign(trial: Trial) -> bool:
    """Whether the slower one was called faster."""
    return trial.called == -trial.right_sign


def misleading(trial: Trial) -> bool:
    """Whether there is a verdict although the ratio is far from the quiet one."""
    return decided(trial) and trial.error > REGIONS_OFF


def targets(trials: list[Trial]) -> list[Target]:
    """Hold d2lperf's trials against the targets, for each study that was run."""
    rows = [t for t in trials if t.tool == "d2lperf"]
    found = []
    snippets = [t for t in rows if t.truth in (*TRUTHS, "slow first calls")]
    if snippets:
        found += targets_of_snippets(snippets)
    programs = [t for t in rows if t.truth.startswith("copies")]
    if programs:
        found += targets_of_programs(programs)
    regions = [t for t in rows if t.truth == "regions"]
    if regions:
        name = f"verdicts beside a steady load whose ratio is more than {REGIONS_OFF:g} % off"
        found.append(at_most(name, regions, misleading, MOST_REGIONS_WRONG))
    return found


def targets_of_programs(rows: list[Trial]) -> list[Target]:
    """Deep copies: as they are, and made anew."""
    found = []
    for truth in dict.fromkeys(t.truth for t in rows):
        part = [t for t in rows if t.truth == truth]
        found.append(at_most(f"false verdicts, {truth}", part, called, MOST_PROGRAMS_FALSE))
    return found


def targets_of_snippets(rows: list[Trial]) -> list[Target]:
    """Snippets whose true ratio is known."""
    kind: dict[str, list[Trial]] = {truth: [] for truth in (*TRUTHS, "slow first calls")}
    for t in rows:
        kind[t.truth].append(t)
    conditions = [c for c in CONDITIONS if any(t.condition == c for t in rows)]
    nulls, real = kind["null"], kind["3 %"] + kind["10 %"]
    enough = target(len(nulls) >= LEAST_NULLS, "nulls", str(len(nulls)), f"at least {LEAST_NULLS}")
    found = [enough, at_most("false verdicts, pooled", nulls, called, MOST_FALSE)]
    for condition in conditions:
        part = [t for t in rows if t.condition == condition and decidable(t)]
        # Of functions with several threads nothing is expected there: see `decidable`.
        where = "steady (one thread)" if condition == "steady" else condition
        part_nulls = [t for t in part if t.truth == "null"]
        found.append(at_least(f"nulls decided, {where}", part_nulls, decided, LEAST_DECIDED))
        ten = [t for t in part if t.truth == "10 %"]
        found.append(at_least(f"10 % found, {where}", ten, right, LEAST_FOUND))
        if condition == "steady":
            three = [t for t in part if t.truth == "3 %"]
            found.append(at_least(f"3 % found, {where}", three, right, LEAST_FOUND))
            steady = [t for t in nulls if t.condition == condition]
            found.append(at_most("false verdicts, steady", steady, called, MOST_FALSE))
    three = [t for t in kind["3 %"] if decidable(t)]
    single, several = ([t for t in three if threaded(t) is many] for many in (False, True))
    found.append(at_least("3 % found with one thread, pooled", single, right, LEAST_FOUND))
    name = "3 % found with several threads, pooled (without steady)"
    found.append(at_least(name, several, right, LEAST_FOUND_THREADED))
    found.append(at_most("wrong sign", real, wrong_sign, 0))
    slow = kind["slow first calls"]
    if slow:
        found.append(at_most("slow first calls mistaken", slow, called, 0))
    quiet = [t.seconds for t in rows if t.condition == "quiet"]
    reached = bool(quiet) and statistics.median(quiet) <= MOST_MEDIAN_S
    figure = f"{percentile(quiet, 50)} s"
    found.append(target(reached, "time, median where it is quiet", figure, f"{MOST_MEDIAN_S:g} s"))
    most = max((t.seconds for t in rows), default=math.nan)
    found.append(target(most <= MOST_S, "time, most", f"{most:.2f} s", f"at most {MOST_S:g} s"))
    return found


def print_targets(trials: list[Trial]) -> bool:
    """Print a line for each target; return whether all were reached."""
    print("\nd2lperf.compare and its targets\n")
    found = targets(trials)
    for one in found:
        print(f"* {one.line}")
    return bool(found) and all(one.reached for one in found)
