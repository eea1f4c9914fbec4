"""Results: hold, show and save them. `Ratio`, `Rounds` and `Timed` are in `measuring.verdict`."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from numbers import Real
from pathlib import Path
from statistics import NormalDist
from typing import Any, ClassVar

import numpy as np

from d2lperf._version import __version__
from d2lperf.formats import Shown, Table, format_ratio, format_seconds, format_value
from d2lperf.machine import Machine
from d2lperf.measuring import stats
from d2lperf.measuring.claims import Claim, expect
from d2lperf.measuring.verdict import BASELINE, FASTER, NOT_DECIDED, Ratio, Rounds, Timed, judge


class Saved:
    """A dataclass that is written to a JSON file and read back, by other versions too."""

    # Name of a field -> function that makes it from the plain value in a file.
    made_by: ClassVar[dict[str, Callable]] = {}

    def save(self, path: str | Path) -> None:
        """Write everything, raw samples and the machine's card included, to a JSON file."""
        values = {"d2lperf": __version__, "kind": type(self).__name__, **asdict(self)}
        text = json.dumps(values, default=lambda x: x.item() if hasattr(x, "item") else str(x))
        Path(path).write_text(text + "\n", encoding="utf-8")

    @classmethod
    def load(cls, path: str | Path):
        """Return what `save` wrote, in any version; ValueError where it cannot be understood."""
        file = Path(path).name
        try:
            values = json.loads(Path(path).read_text(encoding="utf-8"))
            if (kind := values["kind"]) == cls.__name__:
                return cls.made_of(values)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise ValueError(
                f"{file} is not a {cls.__name__} that d2lperf {__version__} can read: it was cut, "
                f"edited, or written by another version ({type(error).__name__}: {error})."
            ) from None
        raise ValueError(f"{file} holds a {kind}, not a {cls.__name__}: use {kind}.load().")

    @classmethod
    def made_of(cls, values: dict):
        """Make a result of plain values; unknown names are ignored, defaults may be missing."""
        made = {name: values[name] for name in cls.__dataclass_fields__ if name in values}
        for name, make in cls.made_by.items():
            if made.get(name) is not None:
                made[name] = make(made[name])
        return cls(**made)


def _rounds(values: dict) -> Rounds:
    """The rounds in a file; JSON has made lists of pairs."""
    made = {name: values[name] for name in Rounds.__dataclass_fields__ if name in values}
    for name in ("lower_s", "upper_s"):
        made[name] = {key: [(a, b) for a, b in pairs] for key, pairs in made[name].items()}
    return Rounds(**made)


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
    confidence: float = 0.95
    elapsed_s: float = 0.0
    machine: Machine | None = None
    made_by: ClassVar = {"machine": Machine.from_dict}

    @property
    def interval_s(self) -> tuple[float, float]:
        """The interval around the median, in seconds. It is (0, inf) if there are too few samples.

        The share below the median varies from phase to phase; that variance, or the one of
        independent samples if larger, gives an interval of shares, whose quantiles are the ends
        (Woodruff, *JASA* 47, 1952, for samples in clusters).
        """
        n, step, middle = len(self.samples_s), self.samples_per_phase, self.median_s
        phases = np.split(np.asarray(self.samples_s), range(step, n, step))
        if (k := len(phases)) < stats.min_pairs(self.confidence):
            return 0.0, math.inf
        below = [np.mean(p < middle) + np.mean(p == middle) / 2 for p in phases]
        variance = max(np.var(below, ddof=1) / k, 0.25 / n)
        z, v = NormalDist().inv_cdf(0.5 + self.confidence / 2), k - 1
        # Student's t from the normal quantile: Abramowitz and Stegun 26.7.5.
        t = z + (z**3 + z) / (4 * v) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * v**2)
        half = t * math.sqrt(variance)
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
        between = f"{format_seconds(low)} to {format_seconds(high)} ({self.confidence * 100:g} %)"
        rows = [
            ["median", format_seconds(self.median_s)],
            ["interval", between if high < math.inf else "unknown: too few samples"],
            ["quartiles", " to ".join(map(format_seconds, self.quartiles_s))],
            ["first call", format_seconds(self.first_call_s)],
            ["samples", f"{len(self.samples_s)} of {self.loops} calls each"],
        ]
        notes = []
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


@dataclass(frozen=True, repr=False)
class BreakEven:
    """Calls after which a function has paid back its slower first calls."""

    name: str
    other: str
    calls: float  # 1: `name` leads from the first call on; inf: never
    low: float  # the fewest and the most calls that the interval of the ratio allows
    high: float
    verdict: str  # on the quiet levels; only "faster" makes a break-even

    def __repr__(self) -> str:
        found = f"after {self.calls:,.0f} calls [{self.low:,.0f}, {self.high:,.0f}]"
        if self.verdict not in (FASTER, NOT_DECIDED):
            found = f"never ({self.verdict})"
        elif self.verdict == NOT_DECIDED:
            least = f", at least {self.low:,.0f} calls" if 1 < self.low < math.inf else ""
            found = f"not decided here{least}"
        elif self.calls == 1:
            found = "from the first call on"
        return f"break-even of {self.name} against {self.other}: {found}"


@dataclass(frozen=True, repr=False)
class Comparison(Shown, Saved):
    """Times of several functions that were measured in turns, and what follows from them.

    `comparison["name"]` is the `Ratio` of a function to the baseline: ratio, interval, verdict and
    samples. Ratios compare lower quartiles, in rounds near the *quiet level* (undisturbed calls).

    Attributes:
        rounds: what was measured, round by round.
        confidence: that all the intervals against the baseline hold together.
        margin: differences smaller than this fraction do not count.
        checked: the results were compared and agreed before anything was timed.
        elapsed_s: seconds that the measuring took, warm-up included.
        refusal: why there is no verdict at all, or "".
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
        for the number of all pairs, because one may pick the most striking. KeyError: no such name.
        """
        if missing := {name, other} - set(self.names):
            there = ", ".join(map(repr, self.names))
            raise KeyError(f"no function named {min(missing)!r} was compared; there are {there}.")
        k = len(self.names)
        pairs = k - 1 if self.baseline in (name, other) else k * (k - 1) // 2
        rules = {"confidence": self.confidence, "margin": self.margin, "refusal": self.refusal}
        return judge(self.rounds, name, other, intervals=max(1, pairs), **rules)

    def table(self) -> Table:
        """Return what is shown."""
        header = ["", "median time", "first call", f"time relative to {self.baseline}", "verdict"]
        rows, counts, levels = [], [], {}
        names: dict[tuple[str, str], list[str]] = {}
        for f in self:
            relative = "1 (baseline)", ""
            if f.verdict != BASELINE:
                relative = format_ratio(f.ratio, f.low, f.high), f.verdict
                counts.append((f.rounds, f.discarded))
            rows.append([f.name, *map(format_seconds, (f.median_s, f.first_call_s)), *relative])
            if f.reason:
                names.setdefault((f.verdict, f.reason), []).append(f.name)
            if f.varies:
                levels[f.varies] = " and ".join(map(format_seconds, f.levels_s[f.varies]))
        used, out = (" to ".join(map(str, sorted({min(n), max(n)}))) for n in zip(*counts))
        footer = [
            f"{self.confidence * 100:g} % intervals from {used} round{'s' * (used != '1')} in "
            f"{self.elapsed_s:.2f} s ({out} discarded)",
            "The ratio leaves out disturbed calls, so it may differ from the ratio of the medians.",
            *(f"{word} ({', '.join(them)}): {why}" for (word, why), them in names.items()),
            *(f"note: two levels of {name}: {times}" for name, times in levels.items()),
            *(f"note: {note}" for note in self.notes),
        ]
        return Table(header, rows, footer, right=(1, 2))

    def to_frame(self):
        """Return a `pandas.DataFrame` with one row for each function, indexed by name.

        Times are in seconds for one call; `ratio`, `low` and `high` are relative to the baseline.
        """
        import pandas as pd

        times = ["median_s", "q25_s", "q75_s", "quiet_s", "slow_s"]
        same = ["first_call_s", "ratio", "low", "high", "verdict", "reason", "rounds", "discarded"]
        rows = {}
        for f in self:
            rows[f.name] = [f.median_s, *f.quartiles_s, *f.levels_s[f.name]]
            rows[f.name] += [*(getattr(f, key) for key in same), len(f.samples_s)]
        columns = [*times, *same, "samples"]
        return pd.DataFrame.from_dict(rows, "index", columns=columns).rename_axis("name")

    def plot(self, ax=None, *, kind: str = "times"):
        """Draw all samples, or with kind="ratios" the intervals of the ratios; return the axes."""
        from d2lperf import plotting

        if kind == "times":
            return plotting.distributions(self.rounds.samples_s, ax=ax)
        if kind != "ratios":
            raise ValueError(f"kind must be 'times' or 'ratios', but got {kind!r}.")
        found = [f for f in self if f.verdict != BASELINE]
        ratios = {f.name: (f.ratio, f.low, f.high) for f in found}
        words, xlabel = {f.name: f.verdict for f in found}, f"time relative to {self.baseline}"
        return plotting.intervals(ratios, margin=self.margin, verdicts=words, xlabel=xlabel, ax=ax)

    def expect(self, name: str, *, faster_than=None, slower_than=None, same_as=None) -> Claim:
        """State a claim; print whether this machine bears it out, and by how much.

        Give one of `faster_than`, `slower_than` and `same_as` the name of another function; "same"
        stands for no measurable difference. The `Claim` returned has an `.outcome`. One that is
        contradicted raises only with the environment variable D2LPERF_STRICT=1 (our own tests).
        """
        asked = {"faster than": faster_than, "slower than": slower_than, "the same as": same_as}
        given = [(words, other) for words, other in asked.items() if other is not None]
        if len(given) != 1:
            raise ValueError("expect needs exactly one of faster_than=, slower_than=, same_as=.")
        words, other = given[0]
        if name == other:
            raise ValueError(f"expect compares two functions, but both are {name!r}.")
        return expect(self.between(name, other), words, self.margin)

    def break_even(self, name: str, other: str | None = None, *, before_s=0.0) -> BreakEven:
        """Return after how many calls `name` has paid back its slow first calls.

        The cost is what the calls of the warm-up took beyond the quiet level, more than those of
        `other`, by default the baseline; each later call gains the difference of the quiet levels.
        The interval is that of the ratio: first calls happen once. `before_s`: seconds that `name`
        has cost before its first call, such as scripting.
        """
        other = self.baseline if other is None else other
        found, against = self.between(name, other), self.between(other, name)
        call_s = found.levels_s[other][0]
        cost_s = before_s + sum(found.first_calls_s) - sum(against.first_calls_s)
        # At the quiet level the calls of the warm-ups would have taken this.
        cost_s -= call_s * (len(found.first_calls_s) * found.ratio - len(against.first_calls_s))

        def calls(ratio: float) -> float:
            if found.verdict not in (FASTER, NOT_DECIDED) or math.isnan(cost_s) or not ratio < 1:
                return math.inf
            return max(1.0, math.ceil(cost_s / (call_s * (1 - ratio))))

        ends = map(calls, (found.ratio, found.low, found.high))
        return BreakEven(name, other, *ends, found.verdict)

    def against(self, earlier: Comparison):
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


@dataclass(frozen=True, repr=False)
class Sweep(Shown, Saved):
    """Comparisons of the same functions at several values; `sweep[value]` is one of them."""

    label: str  # what the values are, such as "size"
    values: list[Any]
    comparisons: list[Comparison]
    made_by: ClassVar = {"comparisons": lambda runs: [Comparison.made_of(run) for run in runs]}

    def __getitem__(self, value: Any) -> Comparison:
        if value not in self.values:
            raise KeyError(f"no {self.label} {value!r}; there are {self.values}.")
        return self.comparisons[self.values.index(value)]

    def __iter__(self) -> Iterator[Comparison]:
        return iter(self.comparisons)

    def table(self) -> Table:
        """Return what is shown."""
        header = [self.label, "", "median time", "time relative to the baseline", "verdict"]
        rows, footer, reasons = [], [], []
        seconds = sum(run.elapsed_s for run in self)
        for value, run in zip(self.values, self):
            value = format_value(value) if isinstance(value, Real) else str(value)
            table = run.table()
            rows += [[value, name, median, *rest] for name, median, _, *rest in table.rows]
            together = f"{run.confidence * 100:g} % intervals; {seconds:.2f} s in all"
            footer = [together, table.footer[1]]
            reasons += [f"{line} ({self.label} {value})" for line in table.footer[2:]]
        return Table(header, rows, footer + reasons, right=(0, 2))

    def plot(self, ax=None):
        """Draw each function's time relative to the baseline, with its intervals, as a curve."""
        from d2lperf import plotting

        numbers = all(isinstance(value, Real) for value in self.values)
        x, ratio, low, high = curves = {}, {}, {}, {}
        for value, run in zip(self.values if numbers else map(str, self.values), self):
            for f in run:
                if f.verdict != BASELINE:
                    for curve, number in zip(curves, (value, f.ratio, f.low, f.high)):
                        curve.setdefault(f.name, []).append(number)
        log = "x" if numbers and 0 < 10 * min(self.values) <= max(self.values) else ""
        ylabel = f"time relative to {self.comparisons[0].baseline}"
        labels = {"xlabel": self.label, "ylabel": ylabel, "log": log}
        ax = plotting.lines(x, ratio, low=low, high=high, ax=ax, **labels)
        ax.axhline(1, color=plotting.COLOURS["black"], lw=1, zorder=1)
        return ax
