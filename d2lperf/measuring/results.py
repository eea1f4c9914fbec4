"""Results of `measure` and `compare`: hold, show and save them. A `Ratio` is in `verdict.py`."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from d2lperf.formats import Shown, Table, format_ratio, format_seconds, step_between
from d2lperf.machine import Machine
from d2lperf.measuring import claims, stats
from d2lperf.measuring.claims import Claim, ClaimContradicted, Claimed
from d2lperf.measuring.defaults import CONFIDENCE, MARGIN
from d2lperf.measuring.judging import judge
from d2lperf.measuring.rounds import Rounds, Timed
from d2lperf.measuring.saved import Saved
from d2lperf.measuring.verdict import (
    BASELINE,
    FASTER,
    NOT_DECIDED,
    Interval,
    Ratio,
    Verdict,
    widest,
)

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes


def _rounds(values: dict) -> Rounds:
    """The rounds in a file; JSON has made lists of pairs."""
    made = {name: values[name] for name in Rounds.__dataclass_fields__ if name in values}
    for name in ("lower_s", "upper_s"):
        made[name] = {key: [(a, b) for a, b in pairs] for key, pairs in made[name].items()}
    return Rounds(**made)


def _span(counts: list[int]) -> str:
    """A count, or from the least to the most."""
    return " to ".join(map(str, sorted({min(counts), max(counts)})))


@dataclass(frozen=True, repr=False)
class Measurement(Timed, Shown, Saved):
    """Times of one function, in seconds for one call.

    Attributes:
        samples_s: every sample after the warm-up, in order, each the mean of `loops` calls.
        first_calls_s: the calls of the warm-up one by one; the first is the first call ever.
        samples_per_phase: samples taken in a row. They are not independent, phases nearly are.
        confidence: of the interval.
    """

    name: str
    samples_s: list[float]
    first_calls_s: list[float]
    loops: int = 1
    samples_per_phase: int = 1
    confidence: float = CONFIDENCE
    elapsed_s: float = 0.0
    others_cores: float | None = None  # cores that other processes kept busy; None: not known
    notes: list[str] = field(default_factory=list)
    machine: Machine | None = None
    made_by: ClassVar = {"machine": Machine.from_dict}

    @property
    def interval_s(self) -> tuple[float, float]:
        """The interval around the median, in seconds. It is (0, inf) if there are too few samples.

        The share below the median varies from phase to phase; that variance, or the one of
        independent samples if larger, gives an interval of shares, whose quantiles are the ends
        (Woodruff, *JASA* 47, 1952, for samples in clusters).
        """
        from scipy.special import stdtrit

        n, step, middle = len(self.samples_s), self.samples_per_phase, self.median_s
        phases = np.split(np.asarray(self.samples_s), range(step, n, step))
        k = len(phases)
        if k < stats.min_pairs(self.confidence):
            return 0.0, math.inf
        below = [np.mean(p < middle) + np.mean(p == middle) / 2 for p in phases]
        variance = max(np.var(below, ddof=1) / k, 0.25 / n)
        half = stdtrit(k - 1, 0.5 + self.confidence / 2) * math.sqrt(variance)
        first, last = math.floor(n * (0.5 - half)), math.ceil(n * (0.5 + half)) - 1
        ordered = sorted(self.samples_s)
        return ordered[max(0, first)], ordered[min(n - 1, last)]

    @property
    def levels_s(self) -> tuple[float, float]:
        """Quiet and slow level in seconds; both the median where the samples have one level."""
        return stats.two_levels(self.samples_s) or (self.median_s, self.median_s)

    def table(self) -> Table:
        """Return what is shown."""
        (low, high), (quiet, slow) = self.interval_s, self.levels_s
        show = partial(format_seconds, step=step_between(low, high))
        between = f"{show(low)} to {show(high)} ({self.confidence * 100:g} %)"
        rows = [
            ["median", show(self.median_s)],
            ["interval", between if high < math.inf else "unknown: too few samples"],
            ["quartiles", " to ".join(map(format_seconds, self.quartiles_s))],
            ["first call", format_seconds(self.first_call_s)],
            ["samples", f"{len(self.samples_s)} of {self.loops} calls each"],
        ]
        notes = [f"note: {note}" for note in self.notes]
        if slow > quiet:
            share = np.mean(np.array(self.samples_s) > math.sqrt(quiet * slow))
            notes.append(
                f"note: two levels: {format_seconds(quiet)} in {100 * (1 - share):.0f} % of the "
                f"samples, {format_seconds(slow)} in {100 * share:.0f} %"
            )
        return Table([self.name, ""], rows, notes)

    def to_frame(self) -> pd.DataFrame:
        """Return a `pandas.DataFrame` with a row for each sample: `name`, `seconds` of one call."""
        import pandas as pd

        return pd.DataFrame({"name": self.name, "seconds": self.samples_s}).rename_axis("sample")

    def plot(self, ax: Axes | None = None, *, palette: Mapping[str, str] | None = None) -> Axes:
        """Draw the samples with their median and quartiles; return the axes.

        palette: the colour of the function by its name, as `plotting.distributions` takes it.
        """
        from d2lperf import plotting

        return plotting.distributions({self.name: self.samples_s}, palette=palette, ax=ax)


@dataclass(frozen=True, repr=False)
class BreakEven:
    """Calls after which a function has paid back its slower first calls."""

    name: str
    other: str
    calls: float  # by the estimated ratio; 1: `name` leads from the first call on; inf: never
    low: float  # the fewest and the most calls that the interval of the ratio allows
    high: float
    verdict: Verdict  # on the quiet levels; only "faster" shows that there is a break-even
    statement: str  # the verdict as it is shown

    def __repr__(self) -> str:
        found = f"after {self.calls:,.0f} calls [{self.low:,.0f}, {self.high:,.0f}]"
        least = f", at least {self.low:,.0f} calls" if 1 < self.low < math.inf else ""
        if self.verdict == NOT_DECIDED:
            found = f"not decided here{least}"
        elif self.low == math.inf:
            found = f"never ({self.statement})"
        elif self.verdict != FASTER:
            found = f"{self.statement}{least}"
        elif self.calls == 1:
            found = "from the first call on"
        return f"break-even of {self.name} against {self.other}: {found}"


@dataclass(frozen=True, repr=False)
class Comparison(Shown, Saved, Mapping[str, Ratio]):
    """Times of several functions that were measured in turns, and what follows from them.

    A mapping from each function's name to its `Ratio` to the baseline: ratio, interval, verdict and
    samples. Ratios compare the second quickest of a few samples (of many the lower quartile), in
    rounds near the *quiet level* (undisturbed calls).

    Attributes:
        rounds: what was measured, round by round.
        confidence: that all the intervals against the baseline hold together.
        margin: differences smaller than this fraction do not count.
        checked: the results were compared and agreed before anything was timed.
        elapsed_s: seconds that the measuring took, warm-up included.
        refusal: why there is no verdict at all, or "".
        others_cores: cores that other processes kept busy meanwhile, on average; None: not
            known.
    """

    rounds: Rounds
    confidence: float = CONFIDENCE
    margin: float = MARGIN
    isolated: bool = False
    checked: bool = False
    elapsed_s: float = 0.0
    refusal: str = ""
    others_cores: float | None = None
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

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self.names)

    def __contains__(self, name: object) -> bool:
        return name in self.names

    def between(self, name: str, other: str) -> Ratio:
        """Return the time of `name` relative to `other`, any two of the functions.

        Against the baseline this is the table's row. Other pairs get a wider interval, corrected
        for the number of all pairs, because one may pick the most striking. KeyError: no such name.
        """
        if missing := {name, other} - set(self.names):
            there = ", ".join(map(repr, self.names))
            raise KeyError(f"no function named {min(missing)!r} was compared; there are {there}.")
        judged = self.__dict__.setdefault("_judged", {})
        if (name, other) not in judged:
            judged[name, other] = self._judge(name, other)
        return judged[name, other]

    def _judge(self, name: str, other: str) -> Ratio:
        k = len(self.names)
        pairs = k - 1 if self.baseline in (name, other) else k * (k - 1) // 2
        return judge(
            self.rounds,
            name,
            other,
            confidence=self.confidence,
            margin=self.margin,
            intervals=max(1, pairs),
            refusal=self.refusal,
            isolated=self.isolated,
        )

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain values, with the verdicts; these are judged anew by `load`."""
        verdicts = {}
        for name, found in self.items():
            values = {key: getattr(found, key) for key in ("ratio", "low", "high", "within")}
            verdicts[name] = values | {"statement": found.statement, "reason": found.reason}
        return asdict(self) | {"verdicts": verdicts}

    def table(self) -> Table:
        """Return what is shown."""
        header = ["", "median time", "first call", f"time relative to {self.baseline}", "verdict"]
        rows = []
        for f in self.values():
            relative, statement = "1 (baseline)", ""
            if f.verdict != BASELINE:
                relative, statement = format_ratio(f.ratio, f.low, f.high), f.statement
            times = map(format_seconds, (f.median_s, f.first_call_s))
            rows.append([f.name, *times, relative, statement])
        return Table(header, rows, self._footer(), right=(1, 2))

    def _footer(self) -> list[str]:
        others = [f for f in self.values() if f.verdict != BASELINE]
        used = _span([f.rounds for f in others])
        rounds = "round" if used == "1" else "rounds"
        discarded = _span([f.discarded for f in others])
        builds = len(set(self.rounds.builds))
        of_builds = f" of {builds} builds" if builds else ""
        reasons: dict[str, list[str]] = {}
        for f in others:
            if f.reason:
                reasons.setdefault(f"{f.statement} ({{}}): {f.reason}", []).append(f.name)
        levels = {f.varies: f.levels_s[f.varies] for f in others if f.varies}
        return [
            f"{self.confidence * 100:g} % intervals from {used} {rounds}{of_builds} in "
            f"{self.elapsed_s:.2f} s ({discarded} discarded)",
            "The ratio leaves out disturbed calls, so it may differ from the ratio of the medians.",
            *(line.replace("{}", ", ".join(names), 1) for line, names in reasons.items()),
            *(
                f"note: two levels of {name}: {' and '.join(map(format_seconds, pair))}"
                for name, pair in levels.items()
            ),
            *(f"note: {note}" for note in self.notes),
        ]

    def to_frame(self) -> pd.DataFrame:
        """Return a `pandas.DataFrame` with one row for each function, indexed by name.

        Times are in seconds for one call; `ratio`, `low` and `high` are relative to the baseline.
        """
        import pandas as pd

        times = ["median_s", "q25_s", "q75_s", "quiet_s", "slow_s"]
        same = ["first_call_s", "ratio", "low", "high", "verdict", "within", "statement", "reason"]
        same += ["rounds", "discarded"]
        rows = {}
        for name, f in self.items():
            rows[name] = [f.median_s, *f.quartiles_s, *f.levels_s[name]]
            rows[name] += [*(getattr(f, key) for key in same), len(f.samples_s)]
        columns = [*times, *same, "samples"]
        return pd.DataFrame.from_dict(rows, "index", columns=columns).rename_axis("name")

    def plot(
        self,
        ax: Axes | None = None,
        *,
        kind: Literal["times", "ratios"] = "times",
        palette: Mapping[str, str] | None = None,
    ) -> Axes:
        """Draw all samples, or with kind="ratios" the intervals of the ratios; return the axes.

        palette: colours of some functions, as `plotting.distributions` takes them. In "ratios" a
        colour tells the verdict, so there it is a ValueError.
        """
        from d2lperf import plotting

        if kind == "times":
            return plotting.distributions(self.rounds.samples_s, palette=palette, ax=ax)
        if kind != "ratios":
            raise ValueError(f"kind must be 'times' or 'ratios', but got {kind!r}.")
        if palette is not None:
            raise ValueError("with kind='ratios' the colours are those of the verdicts: no palette")
        found = [f for f in self.values() if f.verdict != BASELINE]
        ratios = {f.name: Interval(f.ratio, f.low, f.high) for f in found}
        words, xlabel = {f.name: f.statement for f in found}, f"time relative to {self.baseline}"
        return plotting.intervals(ratios, margin=self.margin, verdicts=words, xlabel=xlabel, ax=ax)

    def expect(
        self,
        name: str,
        *,
        faster_than: str | None = None,
        slower_than: str | None = None,
        same_as: str | None = None,
        within: float | None = None,
        at_most: float | None = None,
    ) -> Claim:
        """State a claim; print whether this machine bears it out, and by how much.

        The claim is held against the interval: it is 'borne out' where it is true of the whole
        interval, 'contradicted' where it is true of none of it, and otherwise 'open'. One that is
        contradicted raises only with the environment variable D2LPERF_STRICT=1 (our own tests).

        Args:
            name: the function that the claim is about.
            faster_than, slower_than: the other function; by more than the margin.
            same_as: the other function; the times differ by no more than `within`, a fraction,
                by default the 5 % (or the margin) up to which "no difference above" is said.
            at_most: the longest time relative to the baseline: 1.1 is "not slower than 10 %".

        Returns:
            A `Claim` with its `.outcome` and `.text`.

        Raises:
            ValueError: not exactly one of the four claims, or a function against itself.
            KeyError: no such function.
        """
        __tracebackhide__ = True
        other, claimed = self._claimed(name, faster_than, slower_than, same_as, within, at_most)
        return claims.hold_against(self.between(name, other), claimed, bool(self.refusal))

    def require(self, name: str, **claim: Any) -> Claim:
        """As `expect`, but raise ClaimContradicted unless the claim is borne out: for test suites.

        Args:
            name: the function that the claim is about.
            claim: the arguments of `expect`, such as at_most=1.1 against a slow-down.
        """
        __tracebackhide__ = True
        made = self.expect(name, **claim)
        if made.outcome == "borne out":
            return made
        advice = ""
        if made.outcome == "open":
            advice = (
                "\nThe interval is too wide to tell: allow more time (budget_s=), or claim less."
            )
        raise ClaimContradicted(f"{made.text}{advice}\n{self}")

    def _claimed(
        self,
        name: str,
        faster_than: str | None,
        slower_than: str | None,
        same_as: str | None,
        within: float | None,
        at_most: float | None,
    ) -> tuple[str, Claimed]:
        """The other function, and what is claimed; or an error that says what is wrong."""
        others = {"faster_than": faster_than, "slower_than": slower_than, "same_as": same_as}
        given = [
            word for word, value in (others | {"at_most": at_most}).items() if value is not None
        ]
        if len(given) != 1:
            wanted = "faster_than=, slower_than=, same_as=, at_most="
            raise ValueError(f"a claim needs exactly one of {wanted}, but got {given}.")
        if within is not None and same_as is None:
            raise ValueError("within= belongs to same_as=.")
        for what, value in {"within": within, "at_most": at_most}.items():
            if value is not None and not value > 0:
                raise ValueError(f"{what} must be a number above 0, but got {value!r}.")
        other = next((there for there in others.values() if there is not None), self.baseline)
        if name == other:
            raise ValueError(f"a claim compares two functions, but both are {name!r}.")
        if faster_than is not None:
            return other, claims.faster(other, self.margin)
        if slower_than is not None:
            return other, claims.slower(other, self.margin)
        if at_most is not None:
            return other, claims.at_most(other, at_most)
        return other, claims.same(other, widest(self.margin) if within is None else within)

    def break_even(
        self, name: str, other: str | None = None, *, before_s: float = 0.0
    ) -> BreakEven:
        """Return after how many calls `name` has paid back its slow first calls.

        The cost is what the calls of the warm-up took beyond the quiet level, more than those of
        `other`, by default the baseline; each later call gains the difference of the quiet levels.
        The interval is that of the ratio: first calls happen once. `before_s`: seconds that `name`
        has cost before its first call, such as scripting. ValueError: a function against itself.
        """
        other = self.baseline if other is None else other
        if name == other:
            raise ValueError(f"a break-even is between two functions, but both are {name!r}.")
        found, against = self.between(name, other), self.between(other, name)
        call_s = found.levels_s[other][0]
        cost_s = before_s + sum(found.first_calls_s) - sum(against.first_calls_s)
        # At the quiet levels the calls of the warm-ups would have taken this.
        cost_s -= len(found.first_calls_s) * found.levels_s[name][0]
        cost_s += len(against.first_calls_s) * call_s

        def calls(ratio: float) -> float:
            if math.isnan(cost_s) or not ratio < 1:
                return math.inf
            return max(1.0, math.ceil(cost_s / (call_s * (1 - ratio))))

        mean, low, high = map(calls, (found.ratio, found.low, found.high))
        return BreakEven(name, other, mean, low, high, found.verdict, found.statement)

    def against(self, earlier: Comparison) -> pd.DataFrame:
        """Compare this run with an earlier one, such as before an update: what has changed?

        Times of two days cannot be compared, because the machine's speed differs; times relative
        to the baseline can. Below 1 the function has become faster relative to the baseline.

        Returns:
            A `pandas.DataFrame`: for each function in both runs its ratio `earlier` and `now`, the
            `change`, and its interval, `low` to `high`: where it holds 1, no change was found.
        """
        import pandas as pd

        shared = [n for n in self.names if n in earlier.names and n != self.baseline]
        if self.baseline != earlier.baseline or not shared:
            found = " and ".join(f"{run.baseline!r} of {run.names}" for run in (self, earlier))
            raise ValueError(f"two runs must share the baseline and another function: {found}.")
        rows = {}
        for name in shared:
            then, now = earlier[name], self[name]
            # The errors of two runs are independent: both at their ends is rarer than either.
            low, high = now.low / then.high, now.high / then.low if then.low else math.inf
            rows[name] = [then.ratio, now.ratio, now.ratio / then.ratio, low, high]
        columns = ["earlier", "now", "change", "low", "high"]
        return pd.DataFrame.from_dict(rows, orient="index", columns=columns)
