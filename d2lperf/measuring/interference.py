"""Do the functions that are compared slow each other down, such as two thread pools do?"""

from __future__ import annotations

from typing import NamedTuple

from d2lperf.measuring import stats
from d2lperf.measuring.sampling import RULES, Subject, Turns, phase_values

OWN_SHARE = 0.85  # a process that keeps this share of the cores busy disturbs itself
SLOWED = 1.3  # a function that takes this much longer in turns than alone is disturbed
ALONE_S, AGAIN_S = 0.08, 0.1
CHECK_S = ALONE_S + AGAIN_S / 2  # seconds for each function that the check takes
MOST_PHASES, LEAST_PHASES = 400, 4
MOST_TRIES, LEAST_TRIES = 8, 3


class AloneRun(NamedTuple):
    """A function that ran without the others in between."""

    level_s: float  # lower quartile of its phases, seconds of a call
    slow_share: float  # share of its phases that were far slower than that


class Slowed(NamedTuple):
    """The function that turns slow down most."""

    factor: float
    name: str


def find_interference(turns: Turns) -> str:
    """Return why no verdict can be given, or "" if each function runs alone as it does in turns.

    The functions disturb each other if one is much faster alone, or if all are steady alone but
    many rounds are discarded. A load that has just ended looks the same, so we take more rounds.
    """
    tools, discarded = turns.instruments, turns.kept.discarded
    lost, count = len(discarded), turns.count
    # Functions that disturb each other keep all cores busy; beside a neighbour they cannot.
    all_cores = OWN_SHARE * tools.cores()
    kept_busy = turns.discarded_cpu_s > all_cores * turns.discarded_wall_s
    alone = {subject.name: _run_alone(turns, subject) for subject in turns.subjects}
    smooth = max(run.slow_share for run in alone.values()) < 0.05
    stumbling = kept_busy and lost >= 4 and 3 * lost >= count + lost and smooth
    if not stumbling and not _slowed(turns, alone, since=0):
        return ""

    cpu, wall = tools.cpu_clock(), tools.clock()
    tries = _take_more(turns)
    busy = tools.cpu_clock() - cpu > all_cores * (tools.clock() - wall)
    again = _slowed(turns, alone, since=count)
    if again and busy and _slowed(turns, alone, since=0):
        others = " and ".join(repr(name) for name in alone if name != again.name)
        found = f"{again.name!r} takes {again.factor:.1f} times as long in turns with {others}"
        found += " as alone"
    elif stumbling and 3 * (len(discarded) - lost) >= tries:
        found = f"each is steady alone, but in turns {lost} of {count + lost} rounds were discarded"
    else:
        return ""
    return (
        f"{found}: the functions disturb each other (their thread pools, most likely). "
        "Use isolated=True, which gives each a process of its own"
    )


def _run_alone(turns: Turns, subject: Subject) -> AloneRun:
    clock, plan = turns.instruments.clock, turns.plans[subject.name]
    values: list[float] = []
    ends = clock() + ALONE_S
    while len(values) < MOST_PHASES:
        values.append(phase_values(subject.phase(plan)).lower)
        # Phases that are long get twice the time, so that there are a few of them.
        if clock() >= ends + (ALONE_S if len(values) < LEAST_PHASES else 0.0):
            break
    late = values[len(values) * 3 // 5 :]  # early ones may still suffer from what ran before
    level_s = stats.quartiles(late)[0]
    slow = [value for value in late if value > RULES.void_factor * level_s]
    return AloneRun(level_s, len(slow) / len(late))


def _take_more(turns: Turns) -> int:
    """Take more rounds for a while; return how many were tried."""
    clock = turns.instruments.clock
    ends = clock() + AGAIN_S
    latest = ends + AGAIN_S  # beside a busy core the least number may take long
    for tries in range(1, MOST_TRIES + 1):
        turns.take()
        if clock() >= (latest if tries < LEAST_TRIES else ends):
            return tries
    return MOST_TRIES


def _slowed(turns: Turns, alone: dict[str, AloneRun], since: int) -> Slowed | None:
    """The function that turns slow down most in the rounds from `since` on, if beyond `SLOWED`."""
    if turns.count <= since:
        return None
    found = []
    for name, run in alone.items():
        quick = [min(pair) for pair in turns.kept.lower_s[name][since:]]
        found.append(Slowed(stats.quartiles(quick)[0] / run.level_s, name))
    worst = max(found)
    return worst if worst.factor > SLOWED else None
