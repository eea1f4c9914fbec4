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
from d2lperf.measuring.verdict import BASELINE, FASTER, NOT_DECIDED, Ratio, Rounds, Timed, judge

__all__ = ["BreakEven", "Changes", "Comparison", "Measurement"]


@dataclass(frozen=True, repr=False)
class Measurement(Timed, Shown, Saved):
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
    def interval_s(self) -> tuple[float, float]:
        """Interval of the median in seconds; it holds the median. (0, inf): too few samples."""
        return median_interval(self.samples_s, self.samples_per_phase, self.confidence)

    @property
    def levels_s(self) -> tuple[float, float]:
        """Quiet and slow level in seconds; both the median where the samples have one level."""
        enough = len(self.samples_s) >= 20
        found = stats.two_levels(self.samples_s, least_share=0.1) if enough else None
        return found or (self.median_s, self.median_s)

    def table(self) -> Table:
        """Return what is shown: a row for each number."""
        low, high = map(format_seconds, self.interval_s)
        known = self.interval_s != (0, math.inf)
        between = f"{low} to {high} ({self.confidence * 100:g} %)"
        rows = [
            ["median", format_seconds(self.median_s)],
            ["interval", between if known else "unknown: too few samples"],
            ["quartiles", " to ".join(map(format_seconds, self.quartiles_s))],
            ["first call", format_seconds(self.first_call_s)],
            ["samples", f"{len(self.samples_s)} of {self.loops} calls each"],
        ]
        notes = [f"note: {note}" for note in self.notes]
        quiet, slow = self.levels_s
        if slow > quiet:
            share = np.mean(np.array(self.samples_s) > math.sqrt(quiet * slow))
            notes.append(
                f"note: two levels: {format_seconds(quiet)} in {100 * (1 - share):.0f} % of the "
                f"samples, {format_seconds(slow)} in {100 * share:.0f} %"
            )
        return Table([self.name, ""], rows, notes)

    def to_frame(self):
        """Return a `pandas.DataFrame` with a row for each sample: `name`, `seconds` of one call."""
        import pandas as pd

        return pd.DataFrame({"name": self.name, "seconds": self.samples_s}).rename_axis("sample")

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
    (Woodruff, *JASA* 47, 1952, for samples in clusters). It always holds the median; it is
    `(0, inf)` where there are too few phases.

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


@dataclass(frozen=True, repr=False)
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

    def __repr__(self) -> str:
        found = f"after {self.calls:,.0f} calls [{self.low:,.0f}, {self.high:,.0f}]"
        if self.never:
            found = f"never ({self.verdict})"
        elif self.verdict == NOT_DECIDED:
            least = f", at least {self.low:,.0f} calls" if 1 < self.low < math.inf else ""
            found = f"not decided here{least}"
        elif self.calls == 1:
            found = "from the first call on"
        return f"break-even of {self.name} against {self.other}: {found}"


def _rounds(values: dict) -> Rounds:
    """The rounds in a file of this or another version; JSON has made lists of pairs."""
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
        return map(self.__getitem__, self.names)

    def __contains__(self, name: object) -> bool:
        return name in self.names

    def between(self, name: str, other: str) -> Ratio:
        """Return the time of `name` relative to `other`, any two of the functions.

        Against the baseline this is the table's row. Other pairs get a wider interval, corrected
        for the number of all pairs, because one may pick the most striking.

        Raises:
            KeyError: a name that was not compared.
        """
        k = len(self.names)
        pairs = k - 1 if self.baseline in (name, other) else k * (k - 1) // 2
        return self._judged(name, other, pairs)

    def _judged(self, name: str, other: str, intervals: int) -> Ratio:
        """The same for one of so many intervals that are looked at together."""
        for wanted in (name, other):
            if wanted not in self.names:
                there = ", ".join(map(repr, self.names))
                raise KeyError(f"no function named {wanted!r} was compared; there are {there}.")
        rules = {"confidence": self.confidence, "margin": self.margin, "refusal": self.refusal}
        return judge(self.rounds, name, other, intervals=max(1, intervals), **rules)

    def table(self) -> Table:
        """Return what is shown: a row for each function, counts and reasons below."""
        found = list(self)
        ratios = [f for f in found if f.verdict != BASELINE]
        used, out = (_span({getattr(f, key) for f in ratios}) for key in ("rounds", "discarded"))
        footer = [
            f"{self.confidence * 100:g} % intervals from {used} round{'s' * (used != '1')} in "
            f"{self.elapsed_s:.2f} s ({out} discarded)",
            "The median includes disturbances; the ratio leaves them out.",
        ]
        names: dict[tuple[str, str], list[str]] = {}
        levels = {}
        for f in found:
            if f.reason:
                names.setdefault((f.verdict, f.reason), []).append(f.name)
            if f.varies:
                levels[f.varies] = " and ".join(map(format_seconds, f.levels_s[f.varies]))
        footer += [f"{word} ({', '.join(them)}): {why}" for (word, why), them in names.items()]
        footer += [f"note: two levels of {name}: {times}" for name, times in levels.items()]
        footer += [f"note: {note}" for note in self.notes]
        header = ["", "median time", "first call", f"time relative to {self.baseline}", "verdict"]
        rows = [
            [f.name, format_seconds(f.median_s), format_seconds(f.first_call_s), *_relative(f)]
            for f in found
        ]
        return Table(header, rows, footer, right=(1, 2))

    def to_frame(self):
        """Return a `pandas.DataFrame` with one row for each function, indexed by name.

        Columns: `median_s`, `q25_s`, `q75_s`, `quiet_s`, `slow_s`, `first_call_s` (seconds for one
        call), `ratio`, `low`, `high` (time relative to the baseline), `verdict`, `reason`,
        `rounds`, `discarded` and `samples` (how many).
        """
        import pandas as pd

        same = ("first_call_s", "ratio", "low", "high", "verdict", "reason", "rounds", "discarded")
        rows = {}
        for f in self:
            levels = f.levels_s.get(f.name, (math.nan, math.nan))
            row = dict(zip(("q25_s", "q75_s", "quiet_s", "slow_s"), f.quartiles_s + levels))
            row |= {key: getattr(f, key) for key in same}
            rows[f.name] = {"median_s": f.median_s, **row, "samples": len(f.samples_s)}
        return pd.DataFrame.from_dict(rows, orient="index").rename_axis("name")

    def plot(self, ax=None, *, kind: str = "times"):
        """Draw the comparison and return the axes.

        Args:
            ax: axes to draw on; new ones by default.
            kind: "times" for every sample with median and quartiles, "ratios" for the times
                relative to the baseline with their intervals and the margin.
        """
        from d2lperf import plotting

        if kind not in ("times", "ratios"):
            raise ValueError(f"kind must be 'times' or 'ratios', but got {kind!r}.")
        if kind == "times":
            return plotting.distributions(self.rounds.samples_s, ax=ax)
        others = [f for f in self if f.verdict != BASELINE]
        return plotting.intervals(
            {f.name: (f.ratio, f.low, f.high) for f in others},
            margin=self.margin,
            verdicts={f.name: f.verdict for f in others},
            xlabel=f"time relative to {self.baseline}",
            ax=ax,
        )

    def expect(
        self,
        name: str,
        *,
        faster_than: str | None = None,
        slower_than: str | None = None,
        same_as: str | None = None,
        requires: str | None = None,
    ) -> claims.Claim:
        """State a claim about `name`; print whether this machine bears it out, and by how much.

        A contradicted claim raises only with the environment variable `D2LPERF_STRICT=1` (our own
        tests), never on a reader's machine.

        Args:
            name: the function that the claim is about.
            faster_than, slower_than, same_as: the other one's name; give one of the three.
                "Same" stands for no measurable difference.
            requires: "gpu" for a claim that can hold only on a machine that has one.

        Returns:
            A `Claim` with its `.outcome`.

        Raises:
            KeyError: a name that was not compared.
            ValueError: not exactly one of the three claims, or an unknown requirement.
            ClaimContradicted: only with D2LPERF_STRICT=1.
        """
        asked = {"faster than": faster_than, "slower than": slower_than, "the same as": same_as}
        given = [(words, other) for words, other in asked.items() if other is not None]
        if len(given) != 1:
            raise ValueError("expect needs exactly one of faster_than=, slower_than=, same_as=.")
        words, other = given[0]
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
        """
        other = self.baseline if other is None else other
        found, against = self.between(name, other), self.between(other, name)
        call_s = found.levels_s.get(other, (math.nan,))[0]
        cost_s = before_s + sum(found.first_calls_s) - sum(against.first_calls_s)
        # At the quiet level the calls of the warm-ups would have taken this.
        cost_s -= call_s * (len(found.first_calls_s) * found.ratio - len(against.first_calls_s))

        def calls(ratio: float) -> float:
            if found.verdict not in (FASTER, NOT_DECIDED) or math.isnan(cost_s) or not ratio < 1:
                return math.inf
            return max(1.0, math.ceil(cost_s / (call_s * (1 - ratio))))

        ends = calls(found.ratio), calls(found.low), calls(found.high)
        return BreakEven(name, other, *ends, found.verdict)

    def against(self, earlier: Comparison) -> Changes:
        """Compare this run with an earlier one, such as before an update: what has changed?

        Times of two days cannot be compared: the machine's speed differs. The times relative to
        the baseline can.

        Raises:
            TypeError: `earlier` is no Comparison.
            ValueError: the baselines differ, or the runs share no other function.
        """
        if not isinstance(earlier, Comparison):
            raise TypeError("against takes a Comparison; read a saved one: Comparison.load(path).")
        shared = [n for n in self.names if n in earlier.names and n != self.baseline]
        if self.baseline != earlier.baseline or not shared:
            raise ValueError(
                "two runs can be compared where they share the baseline and another function, but "
                f"one has {self.names} with the baseline {self.baseline!r}, the other "
                f"{earlier.names} with {earlier.baseline!r}."
            )
        return Changes(self, earlier, shared)


def _relative(f: Ratio) -> list[str]:
    """Two cells of a table: the ratio with its interval, and the verdict."""
    if f.verdict == BASELINE:
        return ["1 (baseline)", ""]
    return [format_ratio(f.ratio, f.low, f.high), f.verdict]


def _span(counts: set[int]) -> str:
    return " to ".join(map(str, sorted({min(counts), max(counts)})))


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
        runs = self.now, self.earlier
        new, old = (run._judged(name, run.baseline, 2 * len(self.names)) for run in runs)
        high = new.high / old.low if old.low else math.inf
        return new.ratio / old.ratio, new.low / old.high, high

    def table(self) -> Table:
        """Return what is shown: a row for each function in both runs."""
        base = self.now.baseline
        header = ["", f"earlier, relative to {base}", f"now, relative to {base}", "now to earlier"]
        rows = []
        for name in self.names:
            then, now = (_relative(run[name])[0] for run in (self.earlier, self.now))
            rows.append([name, then, now, format_ratio(*self[name])])
        footer = ["Where the last interval holds 1, no change was found."]
        cards = [run.machine.to_dict() if run.machine else {} for run in (self.now, self.earlier)]
        differ = [key for key in cards[0] if key in cards[1] and cards[0][key] != cards[1][key]]
        if differ:
            footer.append(f"note: the two machines differ in {', '.join(differ)}")
        return Table(header, rows, footer)
