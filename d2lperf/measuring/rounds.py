"""What was measured, round by round, before anything is judged."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from d2lperf.measuring import stats
from d2lperf.measuring.stats import Pair


@dataclass(frozen=True)
class Rounds:
    """What was measured. Keys of dictionaries are functions' names; times are seconds of a call."""

    names: list[str]  # in the order given
    baseline: str  # the function that the others are compared with
    lower_s: dict[str, list[Pair]]  # of each kept round the lower `PhaseValues` of both phases
    upper_s: dict[str, list[Pair]]  # the upper ones of the same phases
    samples_s: dict[str, list[float]]  # every raw sample, of discarded rounds too
    first_calls_s: dict[str, list[float]]  # the calls of the warm-up one by one
    loops: dict[str, int]  # calls in a sample
    # For each round thrown away, the functions that ran far beyond their plan in it.
    discarded: list[list[str]] = field(default_factory=list)
    before_s: float = 0.0  # seconds before the first round: first calls, check, warm-up
    rounds_s: float = 0.0  # seconds that the rounds took, discarded ones and rests included
    # For each kept round the number of the build it ran with; empty where functions were given.
    builds: list[int] = field(default_factory=list)
    uses_up_input: bool = False  # each call had an input of its own: many calls cannot be one


class Timed:
    """What follows from `samples_s` and `first_calls_s`, in seconds for one call; nan: none."""

    samples_s: list[float]
    first_calls_s: list[float]

    @property
    def median_s(self) -> float:
        """Median of the samples, disturbances included."""
        return stats.median(self.samples_s) if self.samples_s else math.nan

    @property
    def quartiles_s(self) -> Pair:
        """Lower and upper quartile of the samples."""
        return stats.quartiles(self.samples_s) if self.samples_s else (math.nan, math.nan)

    @property
    def first_call_s(self) -> float:
        """The very first call: compilation, caches and allocation included."""
        return self.first_calls_s[0] if self.first_calls_s else math.nan


def quiet_s(rounds: Rounds, name: str) -> float:
    """Seconds of a call when nothing disturbs it; without rounds the median of the samples."""
    times = [value for pair in rounds.lower_s[name] for value in pair]
    if times:
        return stats.quiet_limit(times).level
    return stats.median(rounds.samples_s[name] or [0.0]) or math.nan  # a coarse clock shows 0
