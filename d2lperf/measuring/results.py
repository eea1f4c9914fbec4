"""What was measured: hold it, show it, save it. Verdicts come from `d2lperf.measuring.verdict`.

Every raw sample is kept in seconds for one call; units appear only where something is shown.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from statistics import NormalDist
from typing import ClassVar

import numpy as np

from d2lperf.machine import Machine
from d2lperf.measuring import claims, stats
from d2lperf.measuring.formats import Shown, Table, format_ratio, format_seconds
from d2lperf.measuring.saved import Saved
from d2lperf.measuring.verdict import BASELINE, FASTER, NOT_DECIDED, Ratio, Rounds, judge

__all__ = ["BreakEven", "Changes", "Comparison", "Measurement"]

MEDIANS_DIFFER = "The median includes disturbances; the ratio leaves them out."


# ----------------------------------------------------------------------------- one function


@dataclass(frozen=True, repr=False)
class Measurement(Shown, Saved):
    """Times of one function, in seconds for one call.

    Attributes:
        name: what was measured.
        samples_s: every sample after the warm-up, in order, each the mean of `loops` calls.
        first_calls_s: the calls of the warm-up one by one; the first is the first call ever.
        loops: calls in a sample.
        samples_per_phase: samples taken in a row. They are not independent, phases nearly are.
        confidence: of the interval.
        elapsed_s: seconds that the measuring itself took.
        notes: what the reader should know.
        machine: the card of the machine, or None.
    """

    name: str
    samples_s: list[float]
    first_calls_s: list[float]
    loops: int = 1
    samples_per_phase: int = 1
    confidence: float = 0.95
    elapsed_s: float = 0.0
    notes: list[str] = field(default_factory=list)
    machine: Machine | None = None
    made_by: ClassVar = {"machine": Machine.from_dict}

    @property
    def median_s(self) -> float:
        """Median time of one call in seconds; nan without samples."""
        return stats.median(self.samples_s) if self.samples_s else math.nan

    @property
    def quartiles_s(self) -> tuple[float, float]:
        """Lower and upper quartile of the samples in seconds; nan without samples."""
        return stats.quartiles(self.samples_s) if self.samples_s else (math.nan, math.nan)

    @property
    def first_call_s(self) -> float:
        """Seconds of the very first call: compilation, caches and allocation included."""
        return self.first_calls_s[0] if self.first_calls_s else math.nan

    @property
    def interval_s(self) -> tuple[float, float]:
        """Interval of the median in seconds; it holds the median. (0, inf): too few samples."""
        return median_interval(self.samples_s, self.samples_per_phase, self.confidence)

    @property
    def levels_s(self) -> tuple[float, float]:
        """Quiet and slow level in seconds; both the median where the samples have one level."""
        found = None
        if len(self.samples_s) >= 20:
            found = stats.two_levels(self.samples_s, least_share=0.1)
        return found or (self.median_s, self.median_s)

    def table(self) -> Table:
        """Return what is shown: a row for each number."""
        low, high = self.interval_s
        between = f"{format_seconds(low)} to {format_seconds(high)} ({self.confidence * 100:g} %)"
        rows = [
            ["median", _time(self.median_s)],
            ["interval", between if math.isfinite(high) else "unknown: too few samples"],
            ["quartiles", " to ".join(map(_time, self.quartiles_s))],
            ["first call", _time(self.first_call_s)],
            ["samples", f"{len(self.samples_s)} of {self.loops} calls each"],
        ]
        quiet, slow = self.levels_s
        notes = [f"note: {note}" for note in self.notes]
        if slow > quiet:
            edge = math.sqrt(quiet * slow)
            share = sum(s > edge for s in self.samples_s) / len(self.samples_s)
            notes.append(
                f"note: two levels: {format_seconds(quiet)} in {100 * (1 - share):.0f} % of the "
                f"samples, {format_seconds(slow)} in {100 * share:.0f} %"
            )
        return Table([self.name, ""], rows, notes)

    def to_frame(self):
        """Return a `pandas.DataFrame` with one row for each sample.

        Columns: `name`, `sample` (from 0) and `seconds` (for one call).
        """
        import pandas as pd

        return pd.DataFrame(
            {"name": self.name, "sample": range(len(self.samples_s)), "seconds": self.samples_s}
        )

    def plot(self, ax=None):
        """Draw the samples with their median and quartiles; return the axes."""
        from d2lperf import plotting

        return plotting.distributions({self.name: self.samples_s}, ax=ax)


def median_interval(
    samples_s: list[float], per_phase: int, confidence: float
) -> tuple[float, float]:
    """Return the interval of the median of samples that come in phases of dependent ones.

    The share of samples below the median varies from phase to phase; that variance, or the one of
    independent samples if larger, gives an interval of shares, whose quantiles are the ends
    (Woodruff, *JASA* 47, 1952, for samples in clusters). It always holds the median.

    Args:
        samples_s: times in order, phase after phase.
        per_phase: samples in a phase; the last one may have fewer.
        confidence: least probability that the interval covers the median.

    Returns:
        `(low, high)` in seconds; `(0, inf)` where there are too few phases.

    >>> median_interval([float(i) for i in range(1, 10)], 1, 0.95)
    (2.0, 8.0)
    """
    ordered, n = np.sort(samples_s), len(samples_s)
    phases = np.split(np.asarray(samples_s), range(per_phase, n, per_phase))
    if (k := len(phases)) < stats.min_pairs(confidence):
        return 0.0, math.inf
    middle = np.median(ordered)
    below = [np.mean(phase < middle) + np.mean(phase == middle) / 2 for phase in phases]
    variance = max(np.var(below, ddof=1) / k, 0.25 / n)
    z, v = NormalDist().inv_cdf(0.5 + confidence / 2), k - 1
    # Student's t from the normal quantile: Abramowitz and Stegun 26.7.5.
    t = z + (z**3 + z) / (4 * v) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * v**2)
    half = t * math.sqrt(variance)
    first, last = math.floor(n * (0.5 - half)), math.ceil(n * (0.5 + half)) - 1
    return float(ordered[max(0, first)]), float(ordered[min(n - 1, last)])


def _time(seconds: float) -> str:
    return "unknown" if math.isnan(seconds) else format_seconds(seconds)


# ------------------------------------------------------------------------- several functions


@dataclass(frozen=True)
class BreakEven:
    """Calls after which a function has paid back its slower first calls.

    Attributes:
        name: the function that is faster in the long run.
        other: the one that it is compared with.
        calls: as many calls of each take equally long; 1 where `name` leads from the first call,
            inf for never.
        low: the fewest calls that the interval of the ratio allows.
        high: the most calls that it allows, inf where it does not exclude "never".
        verdict: of the time ratio: only "faster" makes a break-even.
    """

    name: str
    other: str
    calls: float
    low: float
    high: float
    verdict: str

    @property
    def never(self) -> bool:
        """Whether `name` is known to be no faster in the long run."""
        return self.verdict not in (FASTER, NOT_DECIDED)

    def __str__(self) -> str:
        about = f"break-even of {self.name} against {self.other}: "
        if self.never:
            return f"{about}never ({self.verdict})"
        if self.verdict == NOT_DECIDED:
            least = f", at least {self.low:,.0f} calls" if 1 < self.low < math.inf else ""
            return f"{about}not decided here{least}"
        if self.calls == 1:
            return f"{about}from the first call on"
        return f"{about}after {self.calls:,.0f} calls [{self.low:,.0f}, {self.high:,.0f}]"

    __repr__ = __str__


def _rounds(values: dict) -> Rounds:
    made = {name: values[name] for name in Rounds.__dataclass_fields__ if name in values}
    for name in ("lower_s", "upper_s"):
        made[name] = {key: [(a, b) for a, b in pairs] for key, pairs in made[name].items()}
    return Rounds(**made)


@dataclass(frozen=True, repr=False)
class Comparison(Shown, Saved):
    """Times of several functions that were measured in turns, and what follows from them.

    `comparison["name"]` is the `Ratio` of a function to the baseline: ratio, interval, verdict,
    and the function's samples. Ratios compare quiet levels: the time of a call when nothing
    disturbs it.

    Attributes:
        rounds: what was measured, round by round.
        confidence: that all the intervals against the baseline hold together.
        margin: differences smaller than this fraction do not count.
        isolated: each function ran in a process of its own.
        checked: the results were compared and agreed before anything was timed.
        elapsed_s: seconds that the measuring took, warm-up included.
        refusal: why there is no verdict at all, or "".
        notes: what the reader should know.
        machine: the card of the machine, or None.
    """

    rounds: Rounds
    confidence: float = 0.95
    margin: float = 0.01
    isolated: bool = False
    checked: bool = False
    elapsed_s: float = 0.0
    refusal: str = ""
    notes: list[str] = field(default_factory=list)
    machine: Machine | None = None
    made_by: ClassVar = {"machine": Machine.from_dict, "rounds": _rounds}

    @property
    def names(self) -> list[str]:
        """The functions in the order given."""
        return self.rounds.names

    @property
    def baseline(self) -> str:
        """The function that the others are compared with."""
        return self.rounds.baseline

    def __getitem__(self, name: str) -> Ratio:
        return self.between(name, self.baseline)

    def __iter__(self) -> Iterator[Ratio]:
        return (self[name] for name in self.names)

    def __len__(self) -> int:
        return len(self.names)

    def __contains__(self, name: object) -> bool:
        return name in self.names

    def between(self, name: str, other: str) -> Ratio:
        """Return the time of `name` relative to `other`, any two of the functions.

        Against the baseline this is the table's row. Other pairs get a wider interval, corrected
        for the number of all pairs, because one may pick the most striking.

        Args:
            name: of the function that the ratio is about.
            other: of the one that it is compared with.

        Returns:
            A `Ratio`: below 1 where `name` took less time, with its interval and verdict.

        Raises:
            KeyError: a name that was not compared.
        """
        k = len(self.names)
        pairs = k - 1 if self.baseline in (name, other) else k * (k - 1) // 2
        return self.judged(name, other, pairs)

    def judged(self, name: str, other: str, intervals: int) -> Ratio:
        """Return the same for one of so many intervals that are looked at together."""
        for wanted in (name, other):
            if wanted not in self.names:
                there = ", ".join(map(repr, self.names))
                raise KeyError(f"no function named {wanted!r} was compared; there are {there}.")
        return judge(
            self.rounds,
            name,
            other,
            confidence=self.confidence,
            margin=self.margin,
            intervals=max(1, intervals),
            refusal=self.refusal,
        )

    # -- showing

    def table(self) -> Table:
        """Return what is shown: a row for each function, reasons and counts below."""
        found = list(self)
        header = ["", "median time", "first call", f"time relative to {self.baseline}", "verdict"]
        rows = [[f.name, _time(f.median_s), _time(f.first_call_s), *_relative(f)] for f in found]
        footer = [_counts(found, self.confidence, self.elapsed_s), MEDIANS_DIFFER]
        return Table(header, rows, footer + _reasons(found, self.notes), right=(1, 2))

    def to_frame(self):
        """Return a `pandas.DataFrame` with one row for each function, indexed by name.

        Columns: `median_s`, `q25_s`, `q75_s`, `quiet_s`, `slow_s`, `first_call_s` (seconds for one
        call), `ratio`, `low`, `high` (time relative to the baseline), `verdict`, `reason`,
        `rounds`, `discarded` and `samples` (how many).
        """
        import pandas as pd

        same = ("first_call_s", "ratio", "low", "high", "verdict", "reason", "rounds", "discarded")
        rows = {}
        for found in self:
            levels = found.levels_s.get(found.name, (math.nan, math.nan))
            row = dict(zip(("q25_s", "q75_s", "quiet_s", "slow_s"), found.quartiles_s + levels))
            row |= {key: getattr(found, key) for key in same}
            rows[found.name] = {"median_s": found.median_s, **row, "samples": len(found.samples_s)}
        return pd.DataFrame.from_dict(rows, orient="index").rename_axis("name")

    def plot(self, ax=None, *, kind: str = "times"):
        """Draw the comparison and return the axes.

        Args:
            ax: axes to draw on; new ones by default.
            kind: "times" for every sample with median and quartiles, "ratios" for the times
                relative to the baseline with their intervals and the margin.

        Raises:
            ValueError: another kind.
        """
        from d2lperf import plotting

        check_kind(kind)
        if kind == "times":
            return plotting.distributions(self.rounds.samples_s, ax=ax)
        others = [found for found in self if found.verdict != BASELINE]
        return plotting.intervals(
            {found.name: (found.ratio, found.low, found.high) for found in others},
            margin=self.margin,
            verdicts={found.name: found.verdict for found in others},
            xlabel=f"time relative to {self.baseline}",
            ax=ax,
        )

    # -- questions

    def expect(
        self,
        name: str,
        *,
        faster_than: str | None = None,
        slower_than: str | None = None,
        same_as: str | None = None,
        requires: str | None = None,
    ) -> claims.Claim:
        """State a claim; print whether this machine bears it out, and by how much.

        Never raises where a reader's machine says otherwise. With the environment variable
        `D2LPERF_STRICT=1` (our own tests) a contradicted claim raises.

        Args:
            name: the function that the claim is about.
            faster_than: a name: the claim is that `name` is faster.
            slower_than: a name: the claim is that `name` is slower.
            same_as: a name: the claim is that there is no measurable difference.
            requires: "gpu" for a claim that can hold only on a machine that has one.

        Returns:
            A `Claim` with its `.outcome`.

        Raises:
            KeyError: a name that was not compared.
            ValueError: not exactly one of the three claims, or an unknown requirement.
            ClaimContradicted: only with D2LPERF_STRICT=1.
        """
        asked = {"faster than": faster_than, "slower than": slower_than, "the same as": same_as}
        given = {words: other for words, other in asked.items() if other is not None}
        if len(given) != 1:
            raise ValueError(
                "expect needs exactly one of faster_than=, slower_than=, same_as=, "
                f"but got {len(given)}."
            )
        ((words, other),) = given.items()
        return claims.expect(self.between(name, other), words, self.margin, requires)

    def break_even(
        self, name: str, other: str | None = None, *, before_s: float = 0.0
    ) -> BreakEven:
        """Return after how many calls `name` has paid back its first calls.

        The cost is what the calls of the warm-up took beyond the quiet level, and so much more
        than those of `other`; the gain of each later call is the difference of the quiet levels.
        The interval is that of the ratio: first calls happen once.

        Args:
            name: the function whose first calls are slow, such as the compiled one.
            other: the one without this cost; the baseline by default.
            before_s: seconds that `name` has cost before its first call, such as scripting.

        Returns:
            A `BreakEven`; prints as one line.

        Raises:
            KeyError: a name that was not compared.
        """
        other = self.baseline if other is None else other
        found, against = self.between(name, other), self.between(other, name)
        call_s = found.levels_s.get(other, (math.nan,))[0]
        cost_s = before_s + sum(found.first_calls_s) - sum(against.first_calls_s)
        # At the quiet level the calls of the warm-ups would have taken this.
        cost_s -= call_s * (len(found.first_calls_s) * found.ratio - len(against.first_calls_s))

        def calls(ratio: float) -> float:
            if not (found.verdict in (FASTER, NOT_DECIDED) and ratio < 1 and cost_s == cost_s):
                return math.inf
            return max(1.0, math.ceil(cost_s / (call_s * (1 - ratio))))

        ends = calls(found.ratio), calls(found.low), calls(found.high)
        return BreakEven(name, other, *ends, found.verdict)

    def against(self, earlier: Comparison) -> Changes:
        """Compare this run with an earlier one, such as before an update: what has changed?

        Times of two days cannot be compared: the machine's speed differs. The times relative to
        the baseline can.

        Args:
            earlier: another run with the same baseline.

        Returns:
            `Changes`: for each function in both runs its ratio then and now.

        Raises:
            TypeError: `earlier` is no Comparison.
            ValueError: the baselines differ, or the runs share no other function.
        """
        if not isinstance(earlier, Comparison):
            raise TypeError(
                f"against takes a Comparison, but got {type(earlier).__name__}. "
                "Read a saved one with Comparison.load(path)."
            )
        shared = [n for n in self.names if n in earlier.names and n != self.baseline]
        if self.baseline != earlier.baseline or not shared:
            raise ValueError(
                "two runs can be compared where they share the baseline and another function, but "
                f"one has {self.names} with the baseline {self.baseline!r}, the other "
                f"{earlier.names} with {earlier.baseline!r}."
            )
        return Changes(self, earlier, shared)


def _relative(found: Ratio) -> list[str]:
    """Two cells of a table: the ratio with its interval, and the verdict."""
    if found.verdict == BASELINE:
        return ["1 (baseline)", ""]
    return [format_ratio(found.ratio, found.low, found.high), found.verdict]


def _counts(found: list[Ratio], confidence: float, elapsed_s: float) -> str:
    """The line below a table that says how much was measured."""
    ratios = [f for f in found if f.verdict != BASELINE]

    def span(counts: list[int]) -> str:
        low, high = min(counts), max(counts)
        return f"{low}" if low == high else f"{low} to {high}"

    used, out = span([f.rounds for f in ratios]), span([f.discarded for f in ratios])
    used += " round" if used == "1" else " rounds"
    share = f"{confidence * 100:g} %"
    return f"{share} intervals from {used} in {elapsed_s:.2f} s ({out} discarded)"


def _reasons(found: list[Ratio], notes: list[str]) -> list[str]:
    """The lines below a table that say what is behind the verdicts, one for each reason."""
    names: dict[tuple[str, str], list[str]] = {}
    levels = {}
    for f in found:
        if f.reason:
            names.setdefault((f.verdict, f.reason), []).append(f.name)
        if f.varies:
            levels[f.varies] = " and ".join(map(format_seconds, f.levels_s[f.varies]))
    lines = [f"{word} ({', '.join(them)}): {why}" for (word, why), them in names.items()]
    lines += [f"note: two levels of {name}: {times}" for name, times in levels.items()]
    return lines + [f"note: {note}" for note in notes]


def check_kind(kind: str) -> None:
    """Raise ValueError for a kind of figure that there is not."""
    if kind not in ("times", "ratios"):
        raise ValueError(f"kind must be 'times' or 'ratios', but got {kind!r}.")


@dataclass(frozen=True, repr=False)
class Changes(Shown):
    """How the ratios of two runs differ; `changes["name"]` is (change, low, high).

    A change below 1 says that the function has become faster relative to the baseline.

    Attributes:
        now: the later run.
        earlier: the earlier run.
        names: the functions in both, without the baseline.
    """

    now: Comparison
    earlier: Comparison
    names: list[str]

    def __getitem__(self, name: str) -> tuple[float, float, float]:
        # Each of the two intervals gets half of the error allowed.
        new, old = (
            run.judged(name, run.baseline, 2 * len(self.names)) for run in (self.now, self.earlier)
        )
        high = new.high / old.low if old.low else math.inf
        return new.ratio / old.ratio, new.low / old.high, high

    def table(self) -> Table:
        """Return what is shown: a row for each function in both runs."""
        base = self.now.baseline
        header = ["", f"earlier, relative to {base}", f"now, relative to {base}", "now to earlier"]
        rows = [
            [name, _relative(self.earlier[name])[0], _relative(self.now[name])[0],
             format_ratio(*self[name])]
            for name in self.names
        ]  # fmt: skip
        footer = ["Where the last interval holds 1, no change was found."]
        cards = [run.machine.to_dict() if run.machine else {} for run in (self.now, self.earlier)]
        differ = [key for key in cards[0] if key in cards[1] and cards[0][key] != cards[1][key]]
        if differ:
            footer.append(f"note: the two machines differ in {', '.join(differ)}")
        return Table(header, rows, footer)
