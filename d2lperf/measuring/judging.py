"""From rounds to a `Ratio`: the interval, the verdict, the reason, and when to stop sampling."""

from __future__ import annotations

import math

from d2lperf.measuring import stats
from d2lperf.measuring.defaults import CONFIDENCE, MARGIN, PLACEMENT
from d2lperf.measuring.rounds import Rounds, quiet_s
from d2lperf.measuring.stats import Pair, Pairs
from d2lperf.measuring.variation import Variation, find_variation, log_ratio
from d2lperf.measuring.verdict import (
    BASELINE,
    FASTER,
    NO_DIFFERENCE,
    NOT_DECIDED,
    SLOWER,
    Decision,
    Interval,
    Ratio,
    decide,
    widest,
)

# No interval is narrower than this about its estimate: the order of code in memory makes small
# differences that no number of rounds averages out.
LEAST_HALF_WIDTH = 0.0025
MOST_ADVISED_S = 600.0


def nominal_confidence(confidence: float, intervals: int, rounds: int) -> float:
    """Return the confidence of one of several intervals, at one of many looks at the rounds.

    The intervals share the error. Sampling ends at the first look that decides, so chance has many
    tries. To make up for that, a look has a fifth of the error (`tests/measuring/test_judging.py`
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


def least_builds(confidence: float, intervals: int) -> int:
    """Return the least number of builds that can give an interval."""
    return stats.min_pairs(nominal_confidence(confidence, intervals, 3))


def judge(
    rounds: Rounds,
    name: str,
    other: str,
    *,
    confidence: float = CONFIDENCE,
    margin: float = MARGIN,
    intervals: int = 1,
    refusal: str = "",
    isolated: bool = False,
) -> Ratio:
    """Return the time of `name` relative to `other` with its interval and verdict.

    Args:
        rounds: what was measured.
        name, other: two of the functions.
        confidence: that all `intervals` hold together.
        margin: a difference smaller than this fraction does not count.
        refusal: why there can be no verdict, or "".
        isolated: each function ran in a process of its own.
    """
    first, second = rounds.lower_s[name], rounds.lower_s[other]
    used = stats.quiet_rounds(first, second)
    levels_s: dict[str, Pair] = {}
    for key in (name, other):
        level_s = quiet_s(rounds, key)
        levels_s[key] = level_s, level_s
    variation = find_variation(rounds, name, other, used)
    if variation and variation.proven:
        levels_s[variation.name] = levels_s[variation.name][0], variation.slow_s
    varies = variation.name if variation and variation.proven else ""

    if name == other:
        found, decision, reason = Interval(1.0, 1.0, 1.0), Decision(BASELINE), ""
    else:
        found = _interval(rounds, name, other, used, confidence, intervals)
        if math.isnan(found.ratio):
            found = found._replace(ratio=levels_s[name][0] / levels_s[other][0])
        found = _with_slow_level(found, variation, name)
        decision, reason = Decision(NOT_DECIDED), refusal
        if not refusal:
            decision = decide(found.low, found.high, margin)
            need = _least(rounds, confidence, intervals)
            reason = _reason(rounds, found, decision, variation, margin, need, isolated)
    return Ratio(
        name=name,
        other=other,
        ratio=found.ratio,
        low=found.low,
        high=found.high,
        verdict=decision.verdict,
        within=decision.within,
        reason=reason,
        rounds=len(used),
        discarded=len(first) - len(used) + len(rounds.discarded),
        varies=varies,
        levels_s=levels_s,
        samples_s=rounds.samples_s[name],
        first_calls_s=rounds.first_calls_s.get(name, []),
        loops=rounds.loops.get(name, 1),
    )


def settled(found: Ratio, margin: float) -> bool:
    """Whether sampling may end: a difference is shown, or none above the margin, or never will."""
    if found.verdict in (FASTER, SLOWER) or found.varies:
        return True
    farthest = Interval(found.ratio, found.low, found.high).farthest
    return found.verdict == NO_DIFFERENCE and farthest <= 1 + margin


def precise(found: Ratio) -> bool:
    """Whether the interval is narrow enough: half a per cent, or 5 % of the difference."""
    if not 0 < found.low <= found.high < math.inf:
        return False
    half = math.log(found.high / found.low) / 2
    return half <= max(0.005, 0.05 * abs(math.log(found.ratio)))


# -------------------------------------------------------------------------------- the interval


def _interval(
    rounds: Rounds, name: str, other: str, used: list[int], confidence: float, intervals: int
) -> Interval:
    """Estimate and interval of the time ratio; of builds, or of rounds, or of few rounds."""
    first, second = rounds.lower_s[name], rounds.lower_s[other]
    if not first:
        return Interval(math.nan, 0.0, math.inf)
    nominal = nominal_confidence(confidence, intervals, len(first))
    logs = {i: log_ratio(first[i], second[i]) for i in used}
    if rounds.builds:
        # Rounds of one build have its places in memory in common: only builds are independent.
        values = _centres_of_builds(rounds.builds, logs)
    elif len(used) >= stats.min_pairs(nominal):
        values = list(logs.values())
    else:
        return _of_few_rounds(first, second, nominal)
    centre = stats.hodges_lehmann(values)
    return _floored(centre, *stats.signed_rank_interval(values, nominal))


def _centres_of_builds(builds: list[int], logs: dict[int, float]) -> list[float]:
    """The centre of the log ratios of each build."""
    by_build: dict[int, list[float]] = {}
    for i, value in logs.items():
        by_build.setdefault(builds[i], []).append(value)
    return [stats.hodges_lehmann(values) for values in by_build.values()]


def _of_few_rounds(first: Pairs, second: Pairs, nominal: float) -> Interval:
    """The interval by ranks: for fewer pairs than a signed-rank interval needs."""
    flat, other_flat = ([math.log(v) for pair in pairs for v in pair] for pairs in (first, second))
    centre, low, high = stats.rank_sum_interval(flat, other_flat, nominal)
    if len(first) < 4:
        # Two or three rounds show little of the noise: they decide only what dwarfs its range.
        spread = max(max(values) - min(values) for values in (flat, other_flat))
        low, high = low - spread, high + spread
    return _floored(centre, low, high)


def _floored(centre: float, low: float, high: float) -> Interval:
    """From logarithms to ratios; no end is nearer to the estimate than the least half-width."""
    low, high = min(low, centre - LEAST_HALF_WIDTH), max(high, centre + LEAST_HALF_WIDTH)
    return Interval(math.exp(centre), math.exp(low), math.exp(high))


def _with_slow_level(found: Interval, variation: Variation | None, name: str) -> Interval:
    """Reach out to the ratio at the slow level of the function that varies by itself."""
    if variation is None or found.high == math.inf:
        return found
    if variation.name == name:
        return found._replace(high=max(found.high, found.ratio * variation.factor))
    return found._replace(low=min(found.low, found.ratio / variation.factor))


# --------------------------------------------------------------------------- reason and advice


def _least(rounds: Rounds, confidence: float, intervals: int) -> int:
    """The least number of rounds that can decide."""
    if rounds.builds:
        per_build = len(rounds.builds) / len(set(rounds.builds))
        return math.ceil(per_build * least_builds(confidence, intervals))
    return least_rounds(confidence, intervals)


def _reason(
    rounds: Rounds,
    found: Interval,
    decision: Decision,
    variation: Variation | None,
    margin: float,
    need: int,
    isolated: bool,
) -> str:
    """Why it is not decided and what would help; else what a reader must know of the verdict."""
    varies = variation.reason if variation else ""
    if decision.verdict == NOT_DECIDED:
        # No budget decides about a function that varies.
        advice = "" if variation and variation.proven else _advice(rounds, found, margin, need)
        return (varies or _undecided(rounds, found, margin, need)) + advice
    # Also of a mere suspicion: it can widen the interval, as far as the slow level.
    reasons = [varies] if varies else []
    # The interval leaves out 1, so there is a difference, but perhaps not one of the programs.
    differs = found.high < 1 or found.low > 1
    small = abs(math.log(found.ratio)) <= math.log(1 + PLACEMENT)
    if differs and small and not rounds.builds:
        reasons.append(
            f"where data lies in memory can make a difference of up to {100 * PLACEMENT:g} %"
        )
        if not isolated:  # there `compare` refuses it
            reasons.append("build=True makes the functions anew and averages over it")
    return "; ".join(reasons)


def _undecided(rounds: Rounds, found: Interval, margin: float, need: int) -> str:
    taken = len(rounds.lower_s[rounds.baseline])
    if not math.isfinite(found.high):
        if rounds.builds:
            return f"an interval needs more builds than the {len(set(rounds.builds))} that ran"
        return f"an interval needs {need} rounds, and {taken} were measured"
    if found.low <= 1 <= found.high:
        return "the interval is wide"
    word, near, far = SLOWER, found.low - 1, found.high - 1
    if found.high < 1:
        word, near, far = FASTER, 1 / found.high - 1, 1 / found.low - 1
    return (
        f"{word} by {_percent(near)} to {_percent(far)} %, on both sides of the margin of "
        f"{100 * margin:g} %"
    )


def _percent(fraction: float) -> str:
    value = 100 * fraction
    return f"{value:.2f}" if value < 0.1 else f"{value:.1f}"


def _advice(rounds: Rounds, found: Interval, margin: float, need: int) -> str:
    """Which budget would decide, by what the rounds have taken so far."""
    taken = len(rounds.lower_s[rounds.baseline])
    if rounds.rounds_s <= 0:
        return ""
    if math.isfinite(found.high):
        half = math.log(found.high / found.low) / 2
        need = max(taken + 1, math.ceil(taken * (half / _target(found.ratio, margin)) ** 2))
    # What a kept round costs, with the discarded ones between.
    seconds = rounds.before_s + 1.5 * need * rounds.rounds_s / max(1, taken)
    if seconds > MOST_ADVISED_S:
        return "; it would take more than ten minutes to decide on this machine"
    return f"; budget_s={round_up(seconds):g} should decide"


def _target(ratio: float, margin: float) -> float:
    """Half-width of the log ratio that decides, if the estimate is about right.

    An interval decides if it lies beyond the margin, or if it reaches no further than the widest
    for which 'no difference' is said: whichever needs less. It is half as wide as needed, because
    the estimate may be off by chance.
    """
    centre = abs(math.log(ratio))
    beyond = centre - math.log1p(margin)
    inside = math.log1p(widest(margin)) - centre
    return max(0.5 * max(beyond, inside), 1e-4)


def round_up(seconds: float) -> float:
    """Return a budget to recommend: the next number with one digit, such as 40 for 34."""
    step = 10.0 ** math.floor(math.log10(seconds))
    return math.ceil(round(seconds / step, 9)) * step
