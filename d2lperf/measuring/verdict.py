"""From rounds to a verdict: ratio, interval, word and reason. Pure: no clock, no printing.

A *round* runs every function twice, in a random order and then in the mirrored one, so that a
steady drift cancels. A *phase* is a few samples in a row; its value is their lower quartile.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from d2lperf.measuring import stats

__all__ = [
    "BASELINE",
    "FASTER",
    "NOT_DECIDED",
    "NO_DIFFERENCE",
    "SLOWER",
    "Ratio",
    "Rounds",
    "judge",
]

FASTER = "faster"
SLOWER = "slower"
NO_DIFFERENCE = "no measurable difference"
NOT_DECIDED = "not decided"
BASELINE = "baseline"


@dataclass(frozen=True)
class Rounds:
    """What was measured: all times in seconds for one call.

    Attributes:
        names: the functions in the order given.
        baseline: the one that the others are compared with.
        lower_s: name -> for each kept round the lower quartiles of its two phases.
        upper_s: name -> the upper quartiles of the same phases.
        samples_s: name -> every raw sample, of discarded rounds too.
        first_calls_s: name -> the calls of the warm-up one by one.
        loops: name -> calls in a sample.
        discarded: for each round thrown away, the functions that ran far beyond their plan in it.
    """

    names: list[str]
    baseline: str
    lower_s: dict[str, list[tuple[float, float]]]
    upper_s: dict[str, list[tuple[float, float]]]
    samples_s: dict[str, list[float]]
    first_calls_s: dict[str, list[float]]
    loops: dict[str, int]
    discarded: list[list[str]] = field(default_factory=list)


@dataclass(frozen=True)
class Ratio:
    """Time of one function relative to another's: interval, verdict and the reason for it.

    Attributes:
        name: the function that the ratio is about.
        other: the one that it is compared with.
        ratio: below 1 where `name` takes less time; nan where nothing was measured.
        low: lower end of the interval, 0 where there are too few rounds for one.
        high: upper end of the interval, inf where there are too few rounds for one.
        verdict: 'faster', 'slower', 'no measurable difference', 'not decided' or 'baseline'.
        reason: why it is not decided, or what 'no measurable difference' means here; or "".
        rounds: rounds that the ratio rests on.
        discarded: rounds left out because a disturbance hit them.
        varies: the function that varies by itself, or "".
        levels_s: name -> (quiet, slow) seconds of one call; both the same where it does not vary.
        samples_s: every raw sample of `name`, in seconds for one call.
        first_calls_s: the warm-up calls of `name` one by one, in seconds.
        loops: calls in a sample of `name`.
    """

    name: str
    other: str
    ratio: float
    low: float
    high: float
    verdict: str
    reason: str = ""
    rounds: int = 0
    discarded: int = 0
    varies: str = ""
    levels_s: dict[str, tuple[float, float]] = field(default_factory=dict)
    samples_s: list[float] = field(default_factory=list, repr=False)
    first_calls_s: list[float] = field(default_factory=list, repr=False)
    loops: int = 1

    @property
    def median_s(self) -> float:
        """Median of the samples in seconds for one call, disturbances included; nan without any."""
        return stats.median(self.samples_s) if self.samples_s else math.nan

    @property
    def quartiles_s(self) -> tuple[float, float]:
        """Lower and upper quartile of the samples in seconds; nan without any."""
        return stats.quartiles(self.samples_s) if self.samples_s else (math.nan, math.nan)

    @property
    def first_call_s(self) -> float:
        """Seconds of the very first call; nan where there was none."""
        return self.first_calls_s[0] if self.first_calls_s else math.nan


def judge(
    rounds: Rounds,
    name: str,
    other: str,
    *,
    confidence: float = 0.95,
    margin: float = 0.01,
    intervals: int = 1,
    refusal: str = "",
) -> Ratio:
    """Return the time of `name` relative to `other` with its interval and verdict."""
    pairs = list(zip(rounds.lower_s[name], rounds.lower_s[other]))
    samples = rounds.samples_s.get(name, [])
    about = {
        "rounds": len(pairs),
        "discarded": len(rounds.discarded),
        "samples_s": samples,
        "first_calls_s": rounds.first_calls_s.get(name, []),
        "loops": rounds.loops.get(name, 1),
    }
    if name == other:
        return Ratio(name, other, 1.0, 1.0, 1.0, BASELINE, **about)
    logs = [(math.log(a * b) - math.log(c * d)) / 2 for (a, b), (c, d) in pairs]
    if not logs:
        return Ratio(name, other, math.nan, 0.0, math.inf, NOT_DECIDED, refusal, **about)
    low, high = stats.signed_rank_interval(
        logs, stats.simultaneous_confidence(confidence, intervals)
    )
    edge = math.log1p(margin)
    word = FASTER if high < -edge else SLOWER if low > edge else NO_DIFFERENCE
    if refusal or not math.isfinite(low):
        word = NOT_DECIDED
    ratio = math.exp(stats.hodges_lehmann(logs))
    return Ratio(name, other, ratio, math.exp(low), math.exp(high), word, refusal, **about)
