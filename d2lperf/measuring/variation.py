"""Does one of two functions vary by itself, whoever else is at work on the machine?

A neighbour hits both functions in proportion to the time that they run. So rounds in which only one
of them was slow, discarded ones too, are as often the one's as the other's (binomial test). Calls
that vary within a phase are seen by the spread of its samples.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from d2lperf.measuring import stats
from d2lperf.measuring.rounds import Rounds, quiet_s

# A function varies by itself if it was slow alone in at least LEAST_SHARE more of the rounds than
# the other, and the probability of that by chance is below PROVEN_P. Where it is only below
# SUSPECT_P, more rounds are needed.
LEAST_SHARE, PROVEN_P, SUSPECT_P = 0.05, 0.001, 0.08
UNSTEADY = 1.1  # it also varies if its samples reach this much further above its quiet level


class Variation(NamedTuple):
    """The function that varies, or may vary, by itself."""

    name: str
    slow_s: float  # seconds of a call at its slow level
    factor: float  # the slow level relative to the quiet one
    proven: bool  # beyond chance; otherwise a suspicion
    reason: str


class Alone(NamedTuple):
    """In how many rounds a function was slow while the other was not."""

    name: str
    other: str
    rounds: int
    others_rounds: int  # the other way round
    p: float  # the probability of so many by chance


def find_variation(rounds: Rounds, name: str, other: str, used: list[int]) -> Variation | None:
    """Return which of two functions varies by itself; None where neither does.

    Args:
        rounds: what was measured.
        name, other: the two functions.
        used: numbers of the rounds in which both together were quiet.
    """
    kept = len(rounds.lower_s[name])
    if name == other or not kept:
        return None
    alone = _slow_alone(rounds, name, other)
    total = kept + len(rounds.discarded)
    many = alone.rounds - alone.others_rounds >= LEAST_SHARE * total
    if many and alone.rounds >= 2 * alone.others_rounds and alone.p < SUSPECT_P:
        share = f"{100 * alone.rounds / total:.0f} % of all rounds"
        found = f"in {share} it was slow and {alone.other!r} was not"
        return _variation(rounds, alone.name, alone.p < PROVEN_P, found)
    if unsteady := _unsteady(rounds, name, other, used):
        return _variation(rounds, unsteady, True, "its time changes from call to call")
    return None


def _slow_alone(rounds: Rounds, name: str, other: str) -> Alone:
    """Count for both functions; return the one that was slow alone more often."""
    slow, other_slow = stats.disturbed(rounds.upper_s[name], rounds.upper_s[other])
    count = int((slow & ~other_slow).sum()) + rounds.discarded.count([name])
    other_count = int((other_slow & ~slow).sum()) + rounds.discarded.count([other])
    if other_count >= count:
        name, other, count, other_count = other, name, other_count, count
    # What a function offers to disturbances is about how long it runs in a round.
    exposed, other_exposed = (_seconds_in_a_round(rounds, key) for key in (name, other))
    share = max(0.5, exposed / (exposed + other_exposed))
    return Alone(name, other, count, other_count, stats.excess_p(count, other_count, share))


def _seconds_in_a_round(rounds: Rounds, name: str) -> float:
    samples = max(1.0, len(rounds.samples_s[name]) / len(rounds.lower_s[name]))
    return quiet_s(rounds, name) * samples * rounds.loops[name]


def _unsteady(rounds: Rounds, name: str, other: str, used: list[int]) -> str:
    """The function whose samples spread much further within quiet phases, or ""."""

    def spreads(key: str) -> list[float]:
        pairs = zip(rounds.upper_s[key], rounds.lower_s[key])
        return [log_ratio(upper, lower) for upper, lower in pairs]

    first, second = spreads(name), spreads(other)
    further = [first[i] - second[i] for i in used]
    low, high = stats.signed_rank_interval(further, 0.99)
    if low > math.log(UNSTEADY):
        return name
    return other if high < -math.log(UNSTEADY) else ""


def _variation(rounds: Rounds, name: str, proven: bool, found: str) -> Variation:
    reason = f"{name!r} {'varies' if proven else 'may vary'} by itself: {found}"
    if proven and not rounds.uses_up_input:
        reason += "; time many calls as one, so that the variation averages out"
    slow_s = _slow_level_s(rounds, name)
    return Variation(name, slow_s, max(1.0, slow_s / quiet_s(rounds, name)), proven, reason)


def _slow_level_s(rounds: Rounds, name: str) -> float:
    """Seconds of a slow call: the median of the samples above the quiet limit."""
    limit = stats.quiet_limit([value for pair in rounds.lower_s[name] for value in pair]).limit
    samples_s = rounds.samples_s[name] or [limit]  # a file may hold none
    slow = [sample for sample in samples_s if sample > limit]
    # Times that spread widely without two clusters: the upper quartile stands for the slow ones.
    return stats.median(slow or [stats.quartiles(samples_s)[1]])


def log_ratio(first: stats.Pair, second: stats.Pair) -> float:
    """Return the logarithm of the ratio of two pairs of times, by their geometric means."""
    return (math.log(first[0] / second[0]) + math.log(first[1] / second[1])) / 2
