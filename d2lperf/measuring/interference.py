"""Do the thread pools of two functions slow each other down? Then there is no verdict.

After NumPy's pool has run, its threads spin for a while and take the cores from torch's.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

from d2lperf.measuring import stats
from d2lperf.measuring.sampling import RULES, Instruments, Subject, Turns, lower_value

__all__ = ["CHECK_S", "THREADED", "find_interference"]

# More processor time than wall time by this factor: several threads are at work.
THREADED = 1.1
# Discarded rounds in which this process kept this share of the cores busy are its own doing.
OWN_SHARE = 0.85
ALONE_S, AGAIN_S = 0.08, 0.1
CHECK_S = ALONE_S + AGAIN_S / 2  # seconds for each function that the check takes


def find_interference(turns: Turns, instruments: Instruments) -> str:
    """Return why no verdict can be given, or "" where each runs alone as it runs in turns.

    Each function is run alone for a while. One that then needs much less time than in turns,
    or runs smoothly while in turns its rounds are discarded again and again, was held up by the
    others. To tell that from a load that has just ended, it is run in turns once more.
    """
    clock, kept = instruments.clock, turns.kept
    lost, count = len(kept.discarded), turns.count
    # Where functions are in each other's way, their own threads keep all the cores busy. Where
    # a neighbour has taken a core away, this process gets less than that.
    busy = turns.discarded_cpu_s > OWN_SHARE * instruments.cores() * turns.discarded_wall_s
    stumbling = busy and lost >= 4 and 3 * lost >= count + lost
    alone_s, smooth = {}, True
    for subject in turns.subjects:
        alone_s[subject.name], slow_share = _alone(subject, turns, clock)
        smooth = smooth and slow_share < 0.05
    slowed = _slowed(turns, alone_s, 0)
    if not slowed and not (stumbling and smooth):
        return ""
    tries, ends = 0, clock() + AGAIN_S
    latest = ends + AGAIN_S  # beside a busy core the least number may take long
    cpu, wall = instruments.cpu_clock(), clock()
    while tries < 1 or (tries < 8 and clock() < (latest if tries < 3 else ends)):
        turns.take()
        tries += 1
    again = _slowed(turns, alone_s, count)
    busy = instruments.cpu_clock() - cpu > OWN_SHARE * instruments.cores() * (clock() - wall)
    if slowed and again and busy:
        name, factor = again
        others = " and ".join(repr(s.name) for s in turns.subjects if s.name != name)
        found = f"{name!r} takes {factor:.1f} times as long in turns with {others} as alone"
    elif stumbling and smooth and 3 * (len(kept.discarded) - lost) >= tries:
        found = (
            f"each runs smoothly alone, but in turns {lost} of {count + lost} rounds went far "
            "beyond their plan"
        )
    else:
        return ""
    return (
        f"{found}: the functions disturb each other (their thread pools, most likely). "
        "Use isolated=True, which gives each a process of its own"
    )


def _alone(subject: Subject, turns: Turns, clock: Callable[[], float]) -> tuple[float, float]:
    """Run one function alone: the lower quartile of its phases, the share of slow ones."""
    values: list[float] = []
    plan = replace(turns.plans[subject.name], limit_s=math.inf)
    ends = clock() + ALONE_S
    while not values or (
        clock() < (ends + ALONE_S if len(values) < 4 else ends) and len(values) < 400
    ):
        values.append(lower_value(subject.phase(plan)))
    late = values[len(values) * 3 // 5 :]  # the early ones may still suffer from what ran before
    level = stats.quartiles(late)[0]
    return level, sum(value > RULES.void_factor * level for value in late) / len(late)


def _slowed(turns: Turns, alone_s: dict[str, float], since: int) -> tuple[str, float] | None:
    """The function that turns slow down most, with the factor, if that is above 1.3."""
    factors = {}
    for name, level in alone_s.items():
        in_turns = [min(pair) for pair in turns.kept.lower_s[name][since:]]
        if in_turns:
            factors[name] = stats.quartiles(in_turns)[0] / level
    worst = max(factors, key=factors.get, default=None)
    return (worst, factors[worst]) if worst and factors[worst] > 1.3 else None
