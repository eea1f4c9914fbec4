"""The verdict: what an interval of a time ratio says. Pure: no clock, no rounds, no printing.

The four outcomes, with the margin m (2 % by default):

* *faster*, *slower*: the whole interval lies below 1/(1 + m), or above 1 + m.
* *no difference above X %*: it does not, but reaches no further from 1 than 5 % (or than the
  margin, if that is larger). X is its farthest end, rounded up to whole per cent.
* *not decided*: the interval is wider. The reason says why, and which budget would decide.

A verdict is a statement about the interval: of two nested intervals the inner one says at least
as much as the outer one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from d2lperf.formats import format_ratio
from d2lperf.measuring.defaults import WIDEST
from d2lperf.measuring.rounds import Timed
from d2lperf.measuring.stats import Pair

Verdict = Literal["faster", "slower", "no difference", "not decided", "baseline"]
FASTER: Verdict = "faster"
SLOWER: Verdict = "slower"
NO_DIFFERENCE: Verdict = "no difference"
NOT_DECIDED: Verdict = "not decided"
BASELINE: Verdict = "baseline"


class Interval(NamedTuple):
    """A ratio of times: the estimate and the ends of its interval."""

    ratio: float
    low: float
    high: float

    @property
    def farthest(self) -> float:
        """The ratio, or its inverse, that is farthest from 1: 1.04 for [0.99, 1.04]."""
        return max(self.high, 1 / self.low if self.low > 0 else math.inf)


class Decision(NamedTuple):
    """A verdict and, where it is 'no difference', the fraction that a difference cannot exceed."""

    verdict: Verdict
    within: float | None = None


def widest(margin: float) -> float:
    """Return the farthest reach, a fraction, for which 'no difference' is still said."""
    return max(WIDEST, margin)


def decide(low: float, high: float, margin: float) -> Decision:
    """Return what the interval from `low` to `high` of a time ratio says (see the module)."""
    if high < 1 / (1 + margin):
        return Decision(FASTER)
    if low > 1 + margin:
        return Decision(SLOWER)
    farthest = Interval(1.0, low, high).farthest
    if farthest > 1 + widest(margin):
        return Decision(NOT_DECIDED)
    # The slack is for rounding: an end at 1.03 is 3 %, not 4 %.
    return Decision(NO_DIFFERENCE, max(1, math.ceil(100 * (farthest - 1) - 1e-9)) / 100)


@dataclass(frozen=True, repr=False)
class Ratio(Timed):
    """Time of one function relative to another's: interval, verdict and the reason for it.

    Attributes:
        name, other: the function that the ratio is about, and the one it is compared with.
        ratio: below 1 where `name` takes less time; nan where nothing was measured.
        low, high: the interval's ends; 0 and inf where there are too few rounds for one. Of a
            function that varies by itself the interval reaches from its quiet to its slow level.
        verdict: 'faster', 'slower', 'no difference', 'not decided' or 'baseline'.
        within: of 'no difference' the fraction that a difference does not exceed, such as 0.03;
            otherwise None.
        reason: why it is not decided, which function varies or may vary, or what else could make
            so small a difference; or "".
        rounds, discarded: rounds that the ratio rests on, and those left out as disturbed.
        varies: the function that varies by itself, or "".
        levels_s: name -> (quiet, slow) seconds of one call; both the same where it does not vary.
        samples_s: every raw sample of `name`, in seconds for one call, each of `loops` calls.
        first_calls_s: the warm-up calls of `name` one by one, in seconds.
    """

    name: str
    other: str
    ratio: float
    low: float
    high: float
    verdict: Verdict
    within: float | None = None
    reason: str = ""
    rounds: int = 0
    discarded: int = 0
    varies: str = ""
    levels_s: dict[str, Pair] = field(default_factory=dict)
    samples_s: list[float] = field(default_factory=list)
    first_calls_s: list[float] = field(default_factory=list)
    loops: int = 1

    @property
    def statement(self) -> str:
        """The verdict as it is shown: 'faster', or 'no difference above 3 %'."""
        if self.within is not None:
            return f"{NO_DIFFERENCE} above {100 * self.within:.0f} %"
        return self.verdict

    def __repr__(self) -> str:
        if self.verdict == BASELINE:
            return f"{self.name}: 1 (baseline)"
        found = f"{format_ratio(self.ratio, self.low, self.high)} {self.statement}"
        reason = f" ({self.reason})" if self.reason else ""
        return f"{self.name} against {self.other}: {found}{reason}"
