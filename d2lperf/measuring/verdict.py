"""From rounds to a verdict: ratio, interval, word and reason. Pure: no clock, no printing."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from operator import truediv

from d2lperf.formats import format_ratio
from d2lperf.measuring import stats
from d2lperf.measuring.stats import Pair, Pairs

FASTER, SLOWER, NO_DIFFERENCE = "faster", "slower", "no measurable difference"
NOT_DECIDED, BASELINE = "not decided", "baseline"

# An interval that reaches further from 1 than this many margins (of at least 1 %) is too wide for
# "no measurable difference".
WIDE_MARGINS = 3
# No interval is narrower than this about its estimate: where code and data happen to lie in memory
# makes small differences that are not the function's own (Mytkowicz et al., ASPLOS 2009).
LEAST_HALF_WIDTH = 0.0025
# A function varies by itself if it was slow alone in at least LEAST_SHARE more of the rounds than
# the other, and the probability of that by chance is below PROVEN_P. Where it is only below
# SUSPECT_P, more rounds are needed.
LEAST_SHARE, PROVEN_P, SUSPECT_P = 0.05, 0.001, 0.08
UNSTEADY = 1.1  # it also varies if its samples reach this much further above its quiet level
MOST_ADVISED_S = 600.0


@dataclass(frozen=True)
class Rounds:
    """What was measured. Keys of dictionaries are functions' names; times are seconds of a call."""

    names: list[str]  # in the order given
    baseline: str  # the function that the others are compared with
    lower_s: dict[str, list[Pair]]  # of each kept round the lower quartiles of both phases
    upper_s: dict[str, list[Pair]]  # the upper quartiles of the same phases
    samples_s: dict[str, list[float]]  # every raw sample, of discarded rounds too
    first_calls_s: dict[str, list[float]]  # the calls of the warm-up one by one
    loops: dict[str, int]  # calls in a sample
    # For each round thrown away, the functions that ran far beyond their plan in it.
    discarded: list[list[str]] = field(default_factory=list)
    before_s: float = 0.0  # seconds before the first round: first calls, check, warm-up
    rounds_s: float = 0.0  # seconds that the rounds took, discarded ones and rests included


class Timed:
    """What follows from `samples_s` and `first_calls_s`, in seconds for one call; nan: none."""

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
        name, other: the function that the ratio is about, and the one it is compared with.
        ratio: below 1 where `name` takes less time; nan where nothing was measured.
        low, high: the interval's ends; 0 and inf where there are too few rounds for one.
        verdict: 'faster', 'slower', 'no measurable difference', 'not decided' or 'baseline'.
        reason: why it is not decided, what 'no measurable difference' means here, or which
            function varies; or "".
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
    verdict: str
    reason: str = ""
    rounds: int = 0
    discarded: int = 0
    varies: str = ""
    levels_s: dict[str, Pair] = field(default_factory=dict)
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
    """Return the confidence of one of several intervals, at one of many looks at the rounds.

    The intervals share the error. Sampling ends at the first look that decides, so chance has many
    tries. To make up for that, a look has a fifth of the error (`tests/measuring/test_verdict.py`
    simulates it), or three fifths at two rounds, where only the slowest functions stop.
    """
    share = (0.6 if rounds <= 2 else 0.2) / intervals
    return 1 - share * (1 - confidence)


def least_rounds(confidence: float, intervals: int) -> int:
    """Return the least number of rounds that can give an interval."""
    n = 2
    while 2 / math.comb(4 * n, 2 * n) > 1 - nominal_confidence(confidence, intervals, n):
        n += 1
    return n


def judge(
    rounds: Rounds, name: str, other: str, *, confidence=0.95, margin=0.01, intervals=1, refusal=""
) -> Ratio:
    """Return the time of `name` relative to `other` with its interval and verdict.

    'faster' and 'slower' need an interval that lies beyond the margin, 'no measurable difference'
    one that contains 1 and reaches no further than three margins (at least 3 %). All `intervals`
    hold together with `confidence`; a `refusal` says why there can be no verdict.
    """
    first, second = rounds.lower_s[name], rounds.lower_s[other]
    used = stats.quiet_rounds(first, second)
    quiet = both = {key: (_quiet_s(rounds, key),) * 2 for key in (name, other)}
    own, slow_s, proven, why = _variation(rounds, name, other, used)
    if why:
        both = quiet | {own: (quiet[own][0], slow_s)}
    centre, low, high, word, reason = 0.0, 0.0, 0.0, BASELINE, ""
    if name != other:
        centre, low, high = _interval(first, second, used, confidence, intervals)
        word, reason = NOT_DECIDED, refusal
    if word == NOT_DECIDED and not refusal:
        need = least_rounds(confidence, intervals)
        reason = f"an interval needs {need} rounds, and {len(first)} were measured"
        if math.isfinite(low):
            word, reason = _word(math.exp(low), math.exp(high), margin)
        # A verdict stands that is the same at the quiet levels and at the slow ones.
        ratios = sorted(map(truediv, both[name], both[other]))
        stands = {FASTER: ratios[1] < 1 / (1 + margin), SLOWER: ratios[0] > 1 + margin}
        if why and not stands.get(word):
            word, reason = NOT_DECIDED, why
        elif proven:
            reason = why
        if word == NOT_DECIDED and not proven:
            reason += _advice(rounds, (centre, low, high), margin, need)
    return Ratio(
        name=name,
        other=other,
        ratio=quiet[name][0] / quiet[other][0] if math.isnan(centre) else math.exp(centre),
        low=math.exp(low),
        high=math.exp(high),
        verdict=word,
        reason=reason,
        rounds=len(used),
        discarded=len(first) - len(used) + len(rounds.discarded),
        varies=own if proven else "",
        levels_s=both if proven else quiet,
        samples_s=rounds.samples_s[name],
        first_calls_s=rounds.first_calls_s.get(name, []),
        loops=rounds.loops.get(name, 1),
    )


def settled(found: Ratio, margin: float) -> bool:
    """Whether more rounds would not change the verdict: it is decided, or never will be."""
    known = found.low > 0 and not found.low <= 1 <= found.high
    small = known and max(found.high, 1 / found.low) <= 1 + margin
    return found.verdict != NOT_DECIDED or bool(found.varies) or small


def precise(found: Ratio) -> bool:
    """Whether the interval is narrow enough: half a per cent, or 5 % of the difference."""
    if not 0 < found.low <= found.high < math.inf:
        return False
    half = math.log(found.high / found.low) / 2
    return half <= max(0.005, 0.05 * abs(math.log(found.ratio)))


def _interval(
    first: Pairs, second: Pairs, used: list[int], confidence: float, intervals: int
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


def _log_ratio(first: Pair, second: Pair) -> float:
    return (math.log(first[0] / second[0]) + math.log(first[1] / second[1])) / 2


def _word(low: float, high: float, margin: float) -> tuple[str, str]:
    """Verdict and reason for the ratios returned: their logarithms may differ by a digit."""
    edge, wide = _edges(margin)
    if high < 1 / edge or low > edge:
        return FASTER if high < 1 else SLOWER, ""
    near, far = sorted(max(ratio, 1 / ratio) for ratio in (low, high))
    if low <= 1 <= high:
        if far <= wide:
            return NO_DIFFERENCE, f"within {_percent(far)} %"
        return NOT_DECIDED, "the interval is wide"
    found = f"{'slower' if low > 1 else 'faster'} by {_percent(near)} to {_percent(far)} %"
    place = "less than" if far <= edge else "on both sides of"
    return NOT_DECIDED, f"{found}, {place} the margin of {100 * margin:g} %"


def _edges(margin: float) -> tuple[float, float]:
    """The ratio at the margin, and that of an interval that is just not wide."""
    return 1 + margin, (1 + max(margin, 0.01)) ** WIDE_MARGINS


def _percent(ratio: float) -> str:
    value = 100 * (ratio - 1)
    return f"{value:.2f}" if value < 0.1 else f"{value:.1f}"


def _variation(rounds: Rounds, name: str, other: str, used: list[int]) -> tuple:
    """Which function varies by itself, its slow level, whether beyond chance, and why ("": none).

    A neighbour hits both in proportion to the time they run: rounds in which only one was slow,
    discarded ones too, are as often the one's as the other's (binomial test).
    """
    keys, kept, none = (name, other), len(rounds.lower_s[name]), ("", math.nan, False, "")
    if name == other or not kept:
        return none
    slow = stats.disturbed(*(rounds.upper_s[key] for key in keys))
    alone = [int((slow[i] & ~slow[1 - i]).sum()) for i in (0, 1)]
    alone = [count + rounds.discarded.count([key]) for count, key in zip(alone, keys)]
    worst = 0 if alone[0] > alone[1] else 1
    more, fewer, total = alone[worst], alone[1 - worst], kept + len(rounds.discarded)
    # About how long each runs in a round: what it offers to disturbances.
    samples = [max(1.0, len(rounds.samples_s[key]) / kept) * rounds.loops[key] for key in keys]
    exposed = [_quiet_s(rounds, key) * calls for key, calls in zip(keys, samples)]
    p = stats.excess_p(more, fewer, max(0.5, exposed[worst] / sum(exposed)))
    if more - fewer >= LEAST_SHARE * total and more >= 2 * fewer and p < SUSPECT_P:
        key, proven = keys[worst], p < PROVEN_P
        share = f"{100 * more / total:.0f} % of all rounds"
        found = f"in {share} it was slow and {keys[1 - worst]!r} was not"
    else:
        # In quiet rounds: how far does a phase's upper quartile lie above its lower one, and how
        # much further than the other's?
        first, second = (list(map(_log_ratio, rounds.upper_s[k], rounds.lower_s[k])) for k in keys)
        further = [first[i] - second[i] for i in used]
        low, high = stats.signed_rank_interval(further, nominal_confidence(0.95, 1, len(used)))
        if low <= math.log(UNSTEADY) and high >= -math.log(UNSTEADY):
            return none
        key, proven = (name if low > 0 else other), True
        found = "its time changes from call to call"
    limit = stats.quiet_limit([v for pair in rounds.lower_s[key] for v in pair])[1]
    samples_s = rounds.samples_s[key] or [limit]  # a file may hold none
    # Times that spread widely without two clusters: the upper quartile stands for the slow ones.
    slow_s = stats.median([s for s in samples_s if s > limit] or [stats.quartiles(samples_s)[1]])
    reason = f"{key!r} {'varies' if proven else 'may vary'} by itself: {found}"
    if proven:
        reason += "; time many calls as one, so that the variation averages out"
    return key, slow_s, proven, reason


def _quiet_s(rounds: Rounds, key: str) -> float:
    """Seconds of a call when nothing disturbs it; without rounds the median of the samples."""
    times = [v for pair in rounds.lower_s[key] for v in pair]
    if times:
        return stats.quiet_limit(times)[0]
    return stats.median(rounds.samples_s[key] or [0.0]) or math.nan  # a coarse clock shows 0


def _advice(rounds: Rounds, found: Sequence[float], margin: float, need: int) -> str:
    """Which budget would decide, by what the rounds have taken so far."""
    (centre, low, high), taken = found, len(rounds.lower_s[rounds.baseline])
    if rounds.rounds_s <= 0:
        return ""
    if math.isfinite(low):
        edge, wide = map(math.log, _edges(margin))
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
    """Return a budget to recommend: the next number with one digit, such as 40 for 34."""
    step = 10.0 ** math.floor(math.log10(seconds))
    return math.ceil(round(seconds / step, 9)) * step
