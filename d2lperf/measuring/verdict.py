"""From rounds to a verdict: ratio, interval, word and reason. Pure: no clock, no printing.

A *round* runs every function twice, in a random order and then in the mirrored one, so that a
steady drift cancels. A *phase* is a few samples in a row; its value is their lower quartile.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from d2lperf.formats import format_ratio
from d2lperf.measuring import stats

__all__ = ["BASELINE", "FASTER", "NOT_DECIDED", "NO_DIFFERENCE", "SLOWER", "Ratio", "Rounds"]
__all__ += ["Timed", "judge", "least_rounds", "nominal_confidence", "precise", "round_up"]
__all__ += ["settled"]

FASTER = "faster"
SLOWER = "slower"
NO_DIFFERENCE = "no measurable difference"
NOT_DECIDED = "not decided"
BASELINE = "baseline"

# An interval that reaches further than this many margins (of at least 1 %) from 1 is too wide to
# say that there is no measurable difference.
WIDE_MARGINS = 3
# No interval is narrower than this about its estimate: where code and data happen to lie in memory
# makes small differences that are not the function's own (Mytkowicz et al., ASPLOS 2009).
LEAST_HALF_WIDTH = 0.0025
# A function varies by itself where it alone was slow in this share more of the rounds than the
# other, beyond the chance PROVEN_P. Below SUSPECT_P more rounds are needed.
LEAST_SHARE, PROVEN_P, SUSPECT_P = 0.05, 0.001, 0.08
# And where its samples reach this much further above its quiet level than the other's.
UNSTEADY = 1.1
MOST_ADVISED_S = 600.0


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
        before_s: seconds that passed before the first round: first calls, check, warm-up.
        rounds_s: seconds that the rounds took, discarded ones and rests included.
    """

    names: list[str]
    baseline: str
    lower_s: dict[str, list[tuple[float, float]]]
    upper_s: dict[str, list[tuple[float, float]]]
    samples_s: dict[str, list[float]]
    first_calls_s: dict[str, list[float]]
    loops: dict[str, int]
    discarded: list[list[str]] = field(default_factory=list)
    before_s: float = 0.0
    rounds_s: float = 0.0


class Timed:
    """What follows from samples and first calls, in seconds for one call; nan without any."""

    samples_s: list[float]
    first_calls_s: list[float]

    @property
    def median_s(self) -> float:
        """Median of the samples, disturbances included."""
        return stats.median(self.samples_s) if self.samples_s else math.nan

    @property
    def quartiles_s(self) -> tuple[float, float]:
        """Lower and upper quartile of the samples."""
        return stats.quartiles(self.samples_s) if self.samples_s else (math.nan, math.nan)

    @property
    def first_call_s(self) -> float:
        """The very first call: compilation, caches and allocation included."""
        return self.first_calls_s[0] if self.first_calls_s else math.nan


@dataclass(frozen=True, repr=False)
class Ratio(Timed):
    """Time of one function relative to another's: interval, verdict and the reason for it.

    Attributes:
        name: the function that the ratio is about.
        other: the one that it is compared with.
        ratio: below 1 where `name` takes less time; nan where nothing was measured.
        low: lower end of the interval, 0 where there are too few rounds for one.
        high: upper end of the interval, inf where there are too few rounds for one.
        verdict: 'faster', 'slower', 'no measurable difference', 'not decided' or 'baseline'.
        reason: why it is not decided, what 'no measurable difference' means here, or which
            function varies; or "".
        rounds: rounds that the ratio rests on.
        discarded: rounds left out because they were disturbed.
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
    samples_s: list[float] = field(default_factory=list)
    first_calls_s: list[float] = field(default_factory=list)
    loops: int = 1

    def __repr__(self) -> str:
        if self.verdict == BASELINE:
            return f"{self.name}: 1 (baseline)"
        found = f"{format_ratio(self.ratio, self.low, self.high)} {self.verdict}"
        reason = f" ({self.reason})" if self.reason else ""
        return f"{self.name} against {self.other}: {found}{reason}"


def nominal_confidence(confidence: float, intervals: int, rounds: int) -> float:
    """Return the confidence at which one interval is computed so that every look may be the last.

    Sampling ends when an interval decides, which happens more often by luck. So each interval is
    computed for a fifth of the error allowed: looked at after 8, 12, 16, ... 512 rounds all the
    intervals hold together as often as promised (`tests/measuring/test_verdict.py` simulates it).
    A look at two rounds, where none but the slowest functions stop, may take three fifths.

    >>> round(nominal_confidence(0.95, 1, 64), 3)
    0.99
    """
    share = 0.6 if rounds <= 2 else 0.2
    return 1 - share * (1 - stats.simultaneous_confidence(confidence, intervals))


def least_rounds(confidence: float, intervals: int) -> int:
    """Return the least number of rounds that can give an interval.

    >>> least_rounds(0.95, 1), least_rounds(0.95, 3)
    (2, 3)
    """
    n = 2
    while 2 / math.comb(4 * n, 2 * n) > 1 - nominal_confidence(confidence, intervals, n):
        n += 1
    return n


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
    """Return the time of `name` relative to `other` with its interval and verdict.

    Compared are quiet levels: what a call takes when nothing disturbs it. 'faster' and 'slower'
    need an interval that lies beyond the margin, 'no measurable difference' one that holds 1 and
    reaches no further than three margins (at least 3 %). There is no verdict where one function
    varies by itself, unless its slow level leads to the same one.

    Args:
        rounds: what was measured.
        name: the function that the ratio is about.
        other: the one that it is compared with.
        confidence: that all `intervals` hold, whenever sampling ended.
        margin: a difference smaller than this fraction does not count.
        intervals: how many are looked at together.
        refusal: why there can be no verdict, or "".
    """
    first, second = rounds.lower_s[name], rounds.lower_s[other]
    used = stats.quiet_rounds(first, second)
    centre, low, high = _interval(first, second, used, confidence, intervals)
    levels = {key: (_quiet_s(rounds, key),) * 2 for key in (name, other)}
    own, word, reason = _Variation(), NOT_DECIDED, refusal
    if name == other:
        centre = low = high = 0.0
        word, reason = BASELINE, ""
    elif first:
        own = _variation(rounds, name, other, used)
    if word == NOT_DECIDED and not refusal:
        need = least_rounds(confidence, intervals)
        reason = f"an interval needs {need} rounds, and {len(first)} were measured"
        if math.isfinite(low):
            word, reason = _word(low, high, margin)
        quiet = math.log(levels[name][0] / levels[other][0])
        if own.suspect and not _stands(word, quiet, own, name, margin):
            word, reason = NOT_DECIDED, own.reason
        elif own.proven:
            reason = own.reason
        if word == NOT_DECIDED and not own.proven:
            reason += _advice(rounds, len(first), (centre, low, high), margin, need)
    if own.proven:
        levels[own.name] = (levels[own.name][0], own.slow_s)
    return Ratio(
        name=name,
        other=other,
        ratio=levels[name][0] / levels[other][0] if math.isnan(centre) else math.exp(centre),
        low=math.exp(low),
        high=math.exp(high),
        verdict=word,
        reason=reason,
        rounds=len(used),
        discarded=len(first) - len(used) + len(rounds.discarded),
        varies=own.name if own.proven else "",
        levels_s=levels,
        samples_s=rounds.samples_s.get(name, []),
        first_calls_s=rounds.first_calls_s.get(name, []),
        loops=rounds.loops.get(name, 1),
    )


def settled(found: Ratio, margin: float) -> bool:
    """Whether more rounds would leave the verdict as it is: decided, or nothing to be decided."""
    known = found.low > 0 and not found.low <= 1 <= found.high
    small = known and max(found.high, 1 / found.low) <= 1 + margin
    return found.verdict != NOT_DECIDED or bool(found.varies) or small


def precise(found: Ratio) -> bool:
    """Whether the interval is as narrow as need be: half a per cent, or 5 % of the difference."""
    if not 0 < found.low <= found.high < math.inf:
        return False
    half = math.log(found.high / found.low) / 2
    return half <= max(0.005, 0.05 * abs(math.log(found.ratio)))


def _interval(
    first: stats.Pairs, second: stats.Pairs, used: list[int], confidence: float, intervals: int
) -> tuple[float, float, float]:
    """Estimate and interval of the log time ratio: by pairs, or by ranks where pairs are few."""
    if not first:
        return math.nan, -math.inf, math.inf
    nominal = nominal_confidence(confidence, intervals, len(first))
    if len(used) >= stats.min_pairs(nominal):
        logs = [_log_ratio(first[i], second[i]) for i in used]
        centre, (low, high) = stats.hodges_lehmann(logs), stats.signed_rank_interval(logs, nominal)
        return centre, min(low, centre - LEAST_HALF_WIDTH), max(high, centre + LEAST_HALF_WIDTH)
    flat = [[math.log(v) for pair in pairs for v in pair] for pairs in (first, second)]
    centre, low, high = stats.rank_sum_interval(*flat, nominal)
    # Two or three rounds show little of the noise: they decide only what dwarfs its range.
    spread = max(max(values) - min(values) for values in flat) if len(first) < 4 else 0.0
    return centre, low - spread, high + spread


def _log_ratio(first: tuple[float, float], second: tuple[float, float]) -> float:
    return (math.log(first[0] / second[0]) + math.log(first[1] / second[1])) / 2


def _word(low: float, high: float, margin: float) -> tuple[str, str]:
    """Verdict and reason for an interval of the log time ratio.

    >>> _word(-0.30, -0.25, 0.01)[0], _word(-0.005, 0.008, 0.01), _word(-0.2, 0.1, 0.01)[1]
    ('faster', ('no measurable difference', 'within 0.8 %'), 'the interval is wide')
    """
    edge, wide = _edges(margin)
    if high < -edge:
        return FASTER, ""
    if low > edge:
        return SLOWER, ""
    near, far = sorted(map(abs, (low, high)))
    if low <= 0 <= high:
        if far <= wide:
            return NO_DIFFERENCE, f"within {_percent(far)} %"
        return NOT_DECIDED, "the interval is wide"
    found = f"{'slower' if low > 0 else 'faster'} by {_percent(near)} to {_percent(far)} %"
    place = "less than" if far <= edge else "on both sides of"
    return NOT_DECIDED, f"{found}, {place} the margin of {100 * margin:g} %"


def _edges(margin: float) -> tuple[float, float]:
    """The logarithms of the margin, and of what makes an interval wide."""
    return math.log1p(margin), WIDE_MARGINS * math.log1p(max(margin, 0.01))


def _percent(log_ratio: float) -> str:
    value = 100 * math.expm1(log_ratio)
    return f"{value:.2f}" if value < 0.1 else f"{value:.1f}"


@dataclass(frozen=True)
class _Variation:
    """A function that varies by itself: beyond chance (proven), or perhaps (suspect)."""

    name: str = ""
    slow_s: float = math.nan
    stretch: float = 0.0  # log of the slow level over the quiet one
    suspect: bool = False
    proven: bool = False
    reason: str = ""


def _variation(rounds: Rounds, name: str, other: str, used: list[int]) -> _Variation:
    """Test whether disturbances hit one of two functions only, or one spreads more than the other.

    A neighbour that disturbs the machine hits both alike, in proportion to the time they run:
    rounds in which only one was slow are then as often the one's as the other's (binomial test;
    discarded rounds count). A function that has slow calls of its own shows an excess.
    """
    keys = (name, other)
    uppers = [rounds.upper_s.get(key) or rounds.lower_s[key] for key in keys]
    slow = stats.disturbed(*uppers)
    alone = [int((slow[0] & ~slow[1]).sum()), int((slow[1] & ~slow[0]).sum())]
    for hit in rounds.discarded:
        if len(hit) == 1 and hit[0] in keys:
            alone[keys.index(hit[0])] += 1
    total = len(rounds.lower_s[name]) + len(rounds.discarded)
    worst = 0 if alone[0] > alone[1] else 1
    more, fewer = alone[worst], alone[1 - worst]
    exposed = [_seconds_in_a_round(rounds, key) for key in keys]
    share = max(0.5, exposed[worst] / sum(exposed))
    p = stats.excess_p(more, fewer, share)
    if more - fewer >= LEAST_SHARE * total and more >= 2 * fewer and p < SUSPECT_P:
        found = f"was slow in {more} of {total} rounds in which {keys[1 - worst]!r} was not"
        return _own(rounds, keys[worst], found, proven=p < PROVEN_P)
    # In quiet rounds: how far does a phase's upper quartile lie above its lower one, and how
    # much further than the other's?
    further = [
        _log_ratio(uppers[0][i], rounds.lower_s[name][i])
        - _log_ratio(uppers[1][i], rounds.lower_s[other][i])
        for i in used
    ]
    low, high = stats.signed_rank_interval(further, nominal_confidence(0.95, 1, len(used)))
    if low <= math.log(UNSTEADY) and high >= -math.log(UNSTEADY):
        return _Variation()
    key = name if low > 0 else other
    return _own(rounds, key, "takes now more, now less time from call to call", proven=True)


def _own(rounds: Rounds, key: str, found: str, *, proven: bool) -> _Variation:
    """Describe a function that varies; the slow level is the median of its disturbed samples."""
    level, limit = stats.quiet_limit([v for pair in rounds.lower_s[key] for v in pair])
    slow_s = stats.median([s for s in rounds.samples_s[key] if s > limit] or [level])
    reason = f"{key!r} {'varies' if proven else 'may vary'} by itself: it {found}"
    if proven:
        reason += "; put so many calls into one function that the variation averages out"
    return _Variation(key, slow_s, math.log(slow_s / level), True, proven, reason)


def _stands(word: str, quiet: float, own: _Variation, name: str, margin: float) -> bool:
    """Whether a verdict is the same at the quiet levels' log ratio and at that of the slow one."""
    slow = quiet + (own.stretch if own.name == name else -own.stretch)
    if word == FASTER:
        return max(quiet, slow) < -math.log1p(margin)
    return word == SLOWER and min(quiet, slow) > math.log1p(margin)


def _quiet_s(rounds: Rounds, key: str) -> float:
    """Seconds of a call when nothing disturbs it; without rounds the median of the samples."""
    times = [v for pair in rounds.lower_s[key] for v in pair]
    if times:
        return stats.quiet_limit(times)[0]
    return stats.median(rounds.samples_s[key]) if rounds.samples_s.get(key) else math.nan


def _seconds_in_a_round(rounds: Rounds, key: str) -> float:
    """Seconds for which a function runs in a round, about: what it offers to disturbances."""
    samples = len(rounds.samples_s.get(key, ())) / len(rounds.lower_s[key])
    return _quiet_s(rounds, key) * rounds.loops.get(key, 1) * max(1.0, samples)


def _advice(
    rounds: Rounds, taken: int, found: tuple[float, float, float], margin: float, need: int
) -> str:
    """Which budget would decide, by what the rounds have taken so far."""
    centre, low, high = found
    if rounds.rounds_s <= 0:
        return ""
    if math.isfinite(low):
        edge, wide = _edges(margin)
        # The estimate may be off by chance. Where 1 is in the interval, aim at one so narrow that
        # it lies around 1 if nothing else is true; otherwise at one beyond the margin.
        target = 0.7 * wide if low <= 0 <= high else 0.8 * (abs(centre) - edge)
        if target <= 0:
            return ""
        need = max(taken + 1, math.ceil(taken * max(1.0, (high - low) / 2 / target) ** 2))
    # What a kept round costs, with the discarded ones between.
    seconds = rounds.before_s + 1.5 * need * rounds.rounds_s / max(1, taken)
    if seconds > MOST_ADVISED_S:
        return "; it would take more than ten minutes to decide on this machine"
    return f"; budget_s={round_up(seconds):g} should decide"


def round_up(seconds: float) -> float:
    """Return a budget to recommend: the next number with one digit.

    >>> round_up(2.1), round_up(34.0), round_up(0.05)
    (3.0, 40.0, 0.05)
    """
    step = 10.0 ** math.floor(math.log10(seconds))
    return math.ceil(round(seconds / step, 9)) * step
