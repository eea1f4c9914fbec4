"""What a measurement found: data with the ways to show, save and question it.

`Measurement` is one function's times, `Comparison` several functions' times taken together. Both
keep every raw sample in seconds; units appear only when something is shown.
"""

from __future__ import annotations

import html
import json
import math
import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import MISSING, asdict, dataclass, field
from functools import lru_cache
from typing import Any

from d2lperf import stats
from d2lperf.device import Machine, num_gpus

__all__ = [
    "Claim",
    "ClaimContradicted",
    "Comparison",
    "Entry",
    "Measurement",
    "Ratio",
    "format_seconds",
]

FASTER = "faster"
SLOWER = "slower"
NO_DIFFERENCE = "no measurable difference"
NOT_DECIDED = "not decided"
BASELINE = "baseline"

# An interval that reaches further than this many margins from 1 is too wide for the sentence
# "no measurable difference": a real difference of that size would hide in it.
WIDE_MARGINS = 3

# Sampling stops when the interval is narrow, and an interval is narrow a little more often when the
# noise happens to look small. So intervals are computed for this share of the error allowed;
# tests/test_benchmark.py simulates that with all the looks they then cover what they promise.
SHARE_OF_ERROR = 0.6

# The ratio compares quiet levels. A function whose samples reach this much further above its quiet
# level than the other's varies by itself, and a ratio of quiet levels would hide it.
UNSTEADY = 1.1


class ClaimContradicted(AssertionError):
    """A notebook's claim was contradicted by this machine, with D2LPERF_STRICT=1."""


def format_seconds(seconds: float) -> str:
    """Return a time with three significant digits and the unit that suits it.

    Args:
        seconds: a time in seconds, 0 or more.

    >>> format_seconds(0.0000371), format_seconds(1.5), format_seconds(0)
    ('37.1 µs', '1.50 s', '0 s')
    """
    if seconds == 0:
        return "0 s"
    if not math.isfinite(seconds):
        return f"{seconds} s"
    for factor, unit in ((1, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns")):
        # 0.9995 rounds to 1.00: without the slack it would be shown as 1000 ms.
        if abs(seconds) >= factor * 0.9995 or unit == "ns":
            value = seconds / factor
            digits = max(0, 2 - math.floor(math.log10(abs(value) * 1.0005))) if value else 0
            return f"{value:.{min(digits, 2)}f} {unit}"
    raise AssertionError("unreachable")


def interval_confidence(confidence: float, intervals: int = 1) -> float:
    """Return the confidence at which a single interval is computed.

    Args:
        confidence: wanted for all the intervals together, after all looks.
        intervals: how many there are.

    >>> round(interval_confidence(0.95), 3)
    0.97
    """
    return 1 - SHARE_OF_ERROR * (1 - stats.simultaneous_confidence(confidence, intervals))


def print_line(line: str) -> None:
    """Print a line; a standard output that is closed, or lacks a letter, costs no result."""
    try:
        print(line)
    except UnicodeEncodeError:
        print(line.encode("ascii", "backslashreplace").decode())
    except (OSError, ValueError):  # the pipe went away, the stream is closed
        pass


def _format_ratio(ratio: float, low: float, high: float) -> str:
    def show(x: float) -> str:
        if math.isinf(x) or math.isnan(x):
            return "inf" if x > 0 else "nan"
        if x >= 10:
            return f"{x:.1f}"
        # Three digits after the point, more where they would all be zeros.
        digits = 2 - math.floor(math.log10(x)) if 0 < x < 0.1 else 3
        return f"{x:.{digits}f}"

    return f"{show(ratio)} [{show(low)}, {show(high)}]"


# ------------------------------------------------------------------------------- one function


def _dump(kind: str, values: dict) -> str:
    from d2lperf._version import __version__

    return json.dumps({"d2lperf": __version__, "kind": kind, **values})


def _load(text: str, cls: type) -> dict:
    """The fields of a saved result; those that have a default may be missing."""
    kind = cls.__name__.lower()
    try:
        values = json.loads(text)
    except json.JSONDecodeError as error:
        raise ValueError(f"this is not JSON: {error}. Pass the text that to_json() gave.") from None
    found = values.get("kind") if isinstance(values, dict) else type(values).__name__
    if found != kind:
        raise ValueError(
            f"a saved {kind} was asked for, but this text holds {found!r}. "
            "Pass the text that to_json() of the same class gave."
        )
    fields = cls.__dataclass_fields__
    needed = {
        name for name, f in fields.items() if f.default is MISSING and f.default_factory is MISSING
    }
    missing = needed - set(values)
    if missing:
        raise ValueError(
            f"this saved {kind} lacks {sorted(missing)}: the text was cut, edited, or written by "
            f"another version of d2lperf (it says {values.get('d2lperf')!r})."
        )
    return {name: value for name, value in values.items() if name in fields}


@dataclass(frozen=True)
class Measurement:
    """Times of one function, in seconds for one call.

    Attributes:
        name: what was measured.
        samples_s: every sample after the warm-up, each the mean of `loops` calls in a row.
        first_calls_s: the calls of the warm-up one by one; the first is the first call ever.
        loops: calls in a sample.
        phases_s: one value for each phase of a few samples (their median); the interval rests
            on these because samples that follow at once are not independent.
        confidence: of the interval.
        elapsed_s: what the measuring itself took.
        machine: the card of the machine, or None.
    """

    name: str
    samples_s: list[float]
    first_calls_s: list[float]
    loops: int
    phases_s: list[float]
    confidence: float = 0.95
    elapsed_s: float = 0.0
    machine: Machine | None = field(default=None, repr=False)

    @property
    def median_s(self) -> float:
        """Median time of one call, in seconds."""
        return stats.median(self.samples_s)

    @property
    def quartiles_s(self) -> tuple[float, float]:
        """Lower and upper quartile of the samples, in seconds."""
        return stats.quartiles(self.samples_s)

    @property
    def interval_s(self) -> tuple[float, float]:
        """Interval of the median, in seconds, from the medians of the phases."""
        return stats.median_interval(self.phases_s, interval_confidence(self.confidence))

    @property
    def first_call_s(self) -> float:
        """Seconds that the very first call took: compilation, caches, allocation and all."""
        return self.first_calls_s[0]

    def _lines(self) -> list[tuple[str, str]]:
        quartiles = " to ".join(map(format_seconds, self.quartiles_s))
        interval = " to ".join(map(format_seconds, self.interval_s))
        return [
            ("median", format_seconds(self.median_s)),
            ("interval", f"{interval} ({self.confidence * 100:g} %)"),
            ("quartiles", quartiles),
            ("first call", format_seconds(self.first_call_s)),
            ("samples", f"{len(self.samples_s)} of {self.loops} calls each"),
        ]

    def __str__(self) -> str:
        body = [f"  {name:<11} {value}" for name, value in self._lines()]
        return "\n".join([self.name, *body])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><th style='text-align:left'>{name}</th>"
            f"<td style='text-align:left'>{html.escape(value)}</td></tr>"
            for name, value in self._lines()
        )
        return f"<table><caption>{html.escape(self.name)}</caption>{rows}</table>"

    def to_frame(self):
        """Return a `pandas.DataFrame` with one row for each sample.

        Columns: `name`, `sample` (from 0) and `seconds` (for one call).
        """
        import pandas as pd

        return pd.DataFrame(
            {"name": self.name, "sample": range(len(self.samples_s)), "seconds": self.samples_s}
        )

    def to_json(self) -> str:
        """Return everything, the machine's card included, as JSON text."""
        values = {**asdict(self), "machine": self.machine.to_dict() if self.machine else None}
        return _dump("measurement", values)

    @classmethod
    def from_json(cls, text: str) -> Measurement:
        """Return the measurement that `to_json` wrote.

        Raises:
            ValueError: the text is not JSON, holds something else, or lacks a field.
        """
        values = _load(text, cls)
        if values.get("machine") is not None:
            values["machine"] = Machine.from_dict(values["machine"])
        return cls(**values)

    def plot(self, ax=None):
        """Draw the samples, their median and quartiles; return the axes."""
        from d2lperf import plot

        return plot.distributions({self.name: self.samples_s}, ax=ax)


# --------------------------------------------------------------------------- several functions


@dataclass(frozen=True)
class Ratio:
    """Time of one function relative to another's, with its interval.

    Attributes:
        ratio: below 1 the first function is the faster one.
        low: lower end of the interval, 0 where there are too few pairs for one.
        high: upper end, inf where there are too few pairs for one.
        verdict: 'faster', 'slower', 'no measurable difference' or 'not decided'.
        reason: why it is not decided, or "".
    """

    ratio: float
    low: float
    high: float
    verdict: str
    reason: str = ""

    def __str__(self) -> str:
        return f"{_format_ratio(self.ratio, self.low, self.high)} {self.verdict}"


@dataclass(frozen=True)
class Entry:
    """One function of a `Comparison`, times in seconds for one call.

    Attributes:
        name: its name.
        median_s: median of the samples.
        samples_s: all the samples.
        first_call_s: the very first call.
        first_calls_s: all the calls of the warm-up.
        loops: calls in a sample.
        ratio: time relative to the baseline, 1 for the baseline itself.
        low: lower end of the ratio's interval.
        high: upper end of the ratio's interval.
        verdict: as in `Ratio`, or 'baseline'.
        reason: why it is not decided, or "".
    """

    name: str
    median_s: float
    samples_s: list[float]
    first_call_s: float
    first_calls_s: list[float]
    loops: int
    ratio: float
    low: float
    high: float
    verdict: str
    reason: str = ""

    @property
    def quartiles_s(self) -> tuple[float, float]:
        """Lower and upper quartile of the samples, in seconds.

        Raises:
            ValueError: there are no samples, as where an error came first.
        """
        return stats.quartiles(self.samples_s)


class Claim:
    """The outcome of `Comparison.expect`; shows nothing in a notebook, its line is printed.

    Attributes:
        outcome: 'borne out', 'contradicted', 'not decided' or 'not tested'.
        text: the line that was printed.
    """

    def __init__(self, outcome: str, text: str):
        self.outcome = outcome
        self.text = text

    def __repr__(self) -> str:
        return f"Claim({self.outcome!r})"

    def _ipython_display_(self) -> None:
        """Show nothing: `expect` has printed its line already."""


def judge(low: float, high: float, margin: float) -> str:
    """Return the verdict for an interval of the logarithm of a time ratio.

    Args:
        low: lower end, natural logarithm.
        high: upper end, natural logarithm.
        margin: ratios within 1 / (1 + margin) to 1 + margin count as no difference.

    Returns:
        'faster' or 'slower' only where the whole interval lies beyond the margin; otherwise
        'no measurable difference', or 'not decided' where the interval reaches further than
        three margins (at least 3 %) and so may hide a real difference.

    >>> judge(-0.30, -0.25, 0.01), judge(-0.005, 0.008, 0.01), judge(-0.2, 0.1, 0.01)
    ('faster', 'no measurable difference', 'not decided')
    """
    edge = math.log1p(margin)
    wide = WIDE_MARGINS * math.log1p(max(margin, 0.01))
    if high < -edge:
        return FASTER
    if low > edge:
        return SLOWER
    if -wide <= low and high <= wide:
        return NO_DIFFERENCE
    return NOT_DECIDED


@lru_cache(maxsize=4096)
def _ratio_of(first: tuple, second: tuple, confidence: float) -> tuple[float, float, float]:
    """Estimate and interval of the log time ratio from the phase values of two functions."""
    logs = log_ratios(first, second)
    return (stats.hodges_lehmann(logs), *stats.signed_rank_interval(logs, confidence))


def log_ratios(
    first: Sequence[tuple[float, float]], second: Sequence[tuple[float, float]]
) -> list[float]:
    """Return one log time ratio for each quiet round: the mean of its two mirrored pairs.

    Which rounds are quiet is told by `d2lperf.stats.quiet_rounds`.

    Args:
        first: for each round the two phase values of one function, in seconds.
        second: the other function's, of the same length.

    >>> [round(math.exp(x), 3) for x in log_ratios([(2.0, 8.0)], [(1.0, 4.0)])]
    [2.0]
    """
    return [_log_ratio(first[i], second[i]) for i in stats.quiet_rounds(first, second)]


def _log_ratio(first: tuple[float, float], second: tuple[float, float]) -> float:
    (a1, a2), (b1, b2) = first, second
    return (math.log(a1) + math.log(a2) - math.log(b1) - math.log(b2)) / 2


@dataclass(frozen=True)
class Comparison:
    """Times of several functions that were measured in turns, and what follows from them.

    A *round* runs every function twice, in a random order and then in the mirrored one (ABBA
    or BAAB for two functions, called a quad), so that anything that drifts hits all alike.

    Ratios compare *quiet levels*: what a call takes when nothing disturbs it. They leave out what
    neighbours do to the machine, and would leave out slow calls that are a function's own; where
    one function varies by itself and the other does not, there is no verdict.

    Attributes:
        names: the functions in the order given.
        baseline: the one that the others are held against.
        phases_s: name -> for each round its two phase values, in seconds for one call.
        samples: name -> every raw sample, in seconds for one call.
        first_calls_s: name -> the calls of the warm-up one by one, in seconds.
        loops: name -> calls in a sample.
        void: rounds that were thrown away because a phase was far beyond its plan.
        elapsed_s: what the measuring took, warm-up included.
        confidence: for all the intervals against the baseline together.
        margin: ratios closer to 1 than this count as no difference.
        isolated: each function ran in a process of its own.
        checked: the results were compared and agreed before anything was timed.
        uppers_s: name -> the upper quartiles of the same phases, in seconds for one call: far
            above the phase values where a function varies by itself.
        refusal: why no verdict is given at all, or "".
        notes: what the reader must know.
        machine: the card of the machine, or None.
    """

    names: list[str]
    baseline: str
    phases_s: dict[str, list[tuple[float, float]]]
    samples: dict[str, list[float]]
    first_calls_s: dict[str, list[float]]
    loops: dict[str, int]
    void: int = 0
    elapsed_s: float = 0.0
    confidence: float = 0.95
    margin: float = 0.01
    isolated: bool = False
    checked: bool = False
    uppers_s: dict[str, list[tuple[float, float]]] = field(default_factory=dict)
    refusal: str = ""
    notes: list[str] = field(default_factory=list)
    machine: Machine | None = None

    # -- the numbers

    @property
    def rounds(self) -> int:
        """How many rounds the ratios rest on."""
        return min((len(v) for v in self.phases_s.values()), default=0)

    @property
    def set_aside(self) -> int:
        """How many more rounds are left out of at least one ratio to the baseline: not quiet."""
        base = self.phases_s[self.baseline][: self.rounds]
        quiet = set(range(self.rounds))
        for name in self.names:
            quiet &= set(stats.quiet_rounds(self.phases_s[name][: self.rounds], base))
        return self.rounds - len(quiet)

    def _check_name(self, name: str) -> None:
        if name not in self.names:
            raise KeyError(
                f"no function named {name!r} was compared; there are "
                f"{', '.join(map(repr, self.names))}."
            )

    def _ratio(self, name: str, other: str, intervals: int) -> Ratio:
        self._check_name(name)
        self._check_name(other)
        n = self.rounds
        if n == 0:
            return Ratio(math.nan, 0.0, math.inf, NOT_DECIDED, self.refusal or self._why(0, 1))
        confidence = interval_confidence(self.confidence, intervals)
        first, second = (tuple(map(tuple, self.phases_s[key][:n])) for key in (name, other))
        centre, low, high = _ratio_of(first, second, confidence)
        ratio, ends = math.exp(centre), (math.exp(low), math.exp(high))
        reason = self.refusal or self._varies(name, other)
        verdict = NOT_DECIDED if reason else judge(low, high, self.margin)
        if verdict == NOT_DECIDED and not reason:
            left = len(stats.quiet_rounds(first, second))
            reason = self._why(left, stats.min_pairs(confidence))
        return Ratio(ratio, *ends, verdict, reason)

    def _varies(self, name: str, other: str) -> str:
        """Why quiet levels do not tell all about these two, or "".

        In quiet rounds, how far does a phase's upper quartile lie above its lower one, and
        how much further than the other's? As for the ratio itself, the whole interval decides.
        """
        if not (self.uppers_s.get(name) and self.uppers_s.get(other)):
            return ""
        excess = {
            key: [_log_ratio(*pairs) for pairs in zip(self.uppers_s[key], self.phases_s[key])]
            for key in (name, other)
        }
        quiet = stats.quiet_rounds(
            self.phases_s[name][: self.rounds], self.phases_s[other][: self.rounds]
        )
        further = [excess[name][i] - excess[other][i] for i in quiet]
        low, high = stats.signed_rank_interval(further, interval_confidence(self.confidence))
        if low <= math.log(UNSTEADY) and high >= -math.log(UNSTEADY):
            return ""
        return (
            f"{(name if low > 0 else other)!r} takes now more, now less time by itself, and ratios "
            "compare quiet levels: put so many calls into one function that the variation "
            "averages out"
        )

    def _why(self, rounds: int, needed: int) -> str:
        """Why there is no verdict: disturbed, too few rounds, or too much noise."""
        if self.void > self.rounds:
            return (
                f"{self.void} of {self.void + self.rounds} rounds went far beyond their plan: "
                "another program takes the cores, or the functions disturb each other "
                "(then use isolated=True)"
            )
        if rounds < needed:
            aside = f" ({self.rounds - rounds} more were disturbed)" if self.rounds > rounds else ""
            return (
                f"only {rounds} good rounds{aside} fitted the budget and an interval needs "
                f"{needed}: give a larger budget_s, such as {self._enough(needed):.2g}"
            )
        return "the interval is wide: give a larger budget_s, or a quieter machine"

    def _enough(self, needed: int) -> float:
        """A budget in seconds that should do, by what the rounds so far have taken."""
        return self.elapsed_s * 2 * needed / max(1, self.rounds + self.void)

    def between(self, name: str, other: str) -> Ratio:
        """Return the time of `name` relative to `other`, any two of the functions.

        Against the baseline this is the table's row. Other pairs get an interval corrected for
        all the pairs there are, as one may pick the most striking.

        Args:
            name: of the function that the ratio is about.
            other: of the one that it is held against.

        Returns:
            A `Ratio`: below 1 where `name` took less time, its interval and the verdict.

        Raises:
            KeyError: a name that was not compared.
        """
        k = len(self.names)
        against_baseline = self.baseline in (name, other)
        return self._ratio(name, other, max(1, k - 1 if against_baseline else k * (k - 1) // 2))

    def __getitem__(self, name: str) -> Entry:
        self._check_name(name)
        if name == self.baseline:
            found = Ratio(1.0, 1.0, 1.0, BASELINE)
        else:
            found = self.between(name, self.baseline)
        samples, calls = self.samples[name], self.first_calls_s[name]
        return Entry(
            name=name,
            median_s=stats.median(samples) if samples else math.nan,
            samples_s=samples,
            first_call_s=calls[0] if calls else math.nan,
            first_calls_s=calls,
            loops=self.loops.get(name, 1),
            **asdict(found),
        )

    def __iter__(self):
        return (self[name] for name in self.names)

    def __len__(self) -> int:
        return len(self.names)

    def __contains__(self, name: object) -> bool:
        return name in self.names

    # -- showing it

    def _table(self) -> tuple[list[str], list[list[str]], list[str]]:
        """Header, rows and footer lines, shared by text and HTML."""
        header = ["", "median time", "first call", f"time relative to {self.baseline}", "verdict"]
        rows = []
        for entry in self:
            relative = (
                "1 (baseline)"
                if entry.verdict == BASELINE
                else _format_ratio(entry.ratio, entry.low, entry.high)
            )
            verdict = "" if entry.verdict == BASELINE else entry.verdict
            rows.append(
                [
                    entry.name,
                    format_seconds(entry.median_s),
                    format_seconds(entry.first_call_s),
                    relative,
                    verdict,
                ]
            )
        unit = "quads" if len(self.names) == 2 else "rounds"
        footer = [
            f"{self.confidence * 100:g} % intervals from {self.rounds} {unit} "
            f"in {self.elapsed_s:.2f} s ({self.void} voided, {self.set_aside} set aside)"
        ]
        reasons = {entry.reason for entry in self if entry.reason}
        footer += [f"not decided: {reason}" for reason in sorted(reasons)]
        return header, rows, footer + [f"note: {note}" for note in self.notes]

    def __str__(self) -> str:
        header, rows, footer = self._table()
        table = [header, *rows]
        widths = [max(len(row[i]) for row in table) for i in range(len(header))]
        right = (1, 2)
        lines = [
            "   ".join(
                cell.rjust(width) if i in right else cell.ljust(width)
                for i, (cell, width) in enumerate(zip(row, widths))
            ).rstrip()
            for row in table
        ]
        return "\n".join(lines + footer)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        header, rows, footer = self._table()
        right = (1, 2)

        def line(cells: list[str], tag: str) -> str:
            return "".join(
                f"<{tag} style='text-align:{'right' if i in right else 'left'}'>"
                f"{html.escape(cell)}</{tag}>"
                for i, cell in enumerate(cells)
            )

        body = "".join(f"<tr>{line(row, 'td')}</tr>" for row in rows)
        foot = "<br>".join(html.escape(text) for text in footer)
        return (
            f"<table><thead><tr>{line(header, 'th')}</tr></thead><tbody>{body}</tbody></table>"
            f"<p>{foot}</p>"
        )

    def to_frame(self):
        """Return a `pandas.DataFrame` with one row for each function, indexed by name.

        Columns: `median_s`, `q25_s`, `q75_s`, `first_call_s` (seconds for one call), `ratio`,
        `low`, `high` (time relative to the baseline), `verdict`, `reason`, `samples` and `rounds`
        (how many).
        """
        import pandas as pd

        rows = []
        base = self.phases_s[self.baseline][: self.rounds]
        for entry in self:
            used = stats.quiet_rounds(self.phases_s[entry.name][: self.rounds], base)
            q25, q75 = entry.quartiles_s if entry.samples_s else (math.nan, math.nan)
            rows.append(
                {
                    "name": entry.name,
                    "median_s": entry.median_s,
                    "q25_s": q25,
                    "q75_s": q75,
                    "first_call_s": entry.first_call_s,
                    "ratio": entry.ratio,
                    "low": entry.low,
                    "high": entry.high,
                    "verdict": entry.verdict,
                    "reason": entry.reason,
                    "samples": len(entry.samples_s),
                    "rounds": len(used),
                }
            )
        return pd.DataFrame(rows).set_index("name")

    def to_json(self) -> str:
        """Return everything, raw samples and the machine's card included, as JSON text."""
        values = {**asdict(self), "machine": self.machine.to_dict() if self.machine else None}
        return _dump("comparison", values)

    @classmethod
    def from_json(cls, text: str) -> Comparison:
        """Return the comparison that `to_json` wrote; it gives the same verdicts.

        Raises:
            ValueError: the text is not JSON, holds something else, or lacks a field.
        """
        values: dict[str, Any] = _load(text, cls)
        if values.get("machine") is not None:
            values["machine"] = Machine.from_dict(values["machine"])
        for key in ("phases_s", "uppers_s"):
            try:
                pairs_by_name = values.get(key, {}).items()
                values[key] = {name: [tuple(p) for p in pairs] for name, pairs in pairs_by_name}
            except (AttributeError, TypeError):
                raise ValueError(
                    f"this is not what Comparison.to_json wrote: {key} should hold pairs of "
                    "numbers by name. Was the text edited?"
                ) from None
        return cls(**values)

    def plot(self, ax=None, *, kind: str = "times"):
        """Draw the comparison and return the axes.

        Args:
            ax: axes to draw on; new ones by default.
            kind: "times" for every sample with median and quartiles, "ratios" for the times
                relative to the baseline with their intervals and the margin.

        Raises:
            ValueError: another kind.
        """
        from d2lperf import plot

        if kind == "times":
            return plot.distributions({name: self.samples[name] for name in self.names}, ax=ax)
        if kind == "ratios":
            others = [entry for entry in self if entry.verdict != BASELINE]
            return plot.intervals(
                [entry.ratio for entry in others],
                [entry.low for entry in others],
                [entry.high for entry in others],
                [entry.name for entry in others],
                margin=self.margin,
                xlabel=f"time relative to {self.baseline}",
                ax=ax,
            )
        raise ValueError(f"kind must be 'times' or 'ratios', but got {kind!r}.")

    # -- claims

    def expect(
        self,
        name: str,
        *,
        faster_than: str | None = None,
        slower_than: str | None = None,
        same_as: str | None = None,
        requires: str | None = None,
    ) -> Claim:
        """State what a notebook claims; print whether this machine bears it out, and by how much.

        Never raises on a reader whose machine says otherwise. With the environment variable
        `D2LPERF_STRICT=1` (our own tests) a contradicted claim raises.

        A claim of *faster* or *slower* is contradicted by the opposite verdict, and by an
        interval that lies wholly inside the margin. A claim of *same* is contradicted by either
        verdict, and borne out where there is no measurable difference and the interval holds 1
        or lies inside the margin.

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
        asked = {
            "faster than": faster_than,
            "slower than": slower_than,
            "the same as": same_as,
        }
        given = [(words, other) for words, other in asked.items() if other is not None]
        if len(given) != 1:
            raise ValueError(
                "expect needs exactly one of faster_than=, slower_than=, same_as=, "
                f"but got {len(given)}."
            )
        if requires not in (None, "gpu"):
            raise ValueError(f"requires must be 'gpu' or None, but got {requires!r}.")
        words, other = given[0]
        self._check_name(name)
        self._check_name(other)
        sentence = f"{name} is {words} {other}"
        if requires == "gpu" and num_gpus() == 0:
            return self._report(
                "not tested", f"{sentence} (the claim needs a GPU; this machine has none)"
            )
        found = self.between(name, other)
        outcome = self._outcome(words, found)
        shown = _format_ratio(found.ratio, found.low, found.high)
        why = f"; {found.reason}" if found.reason else ""
        return self._report(outcome, f"{sentence} (time ratio {shown}{why})")

    def _outcome(self, words: str, found: Ratio) -> str:
        if found.verdict == NOT_DECIDED:
            return "not decided"
        edge = 1 + self.margin
        inside = 1 / edge <= found.low and found.high <= edge
        if words == "the same as":
            if found.verdict != NO_DIFFERENCE:
                return "contradicted"
            return "borne out" if inside or found.low <= 1 <= found.high else "not decided"
        if found.verdict == (FASTER if words == "faster than" else SLOWER):
            return "borne out"
        return "contradicted" if inside or found.verdict in (FASTER, SLOWER) else "not decided"

    def _report(self, outcome: str, text: str) -> Claim:
        here = " here" if outcome in ("not decided", "not tested") else ""
        line = f"claim {outcome}{here}: {text}"
        print_line(line)
        # benchmarks/strict_runs.py counts how often each claim was borne out.
        if path := os.environ.get("D2LPERF_CLAIMS"):
            with suppress(OSError), open(path, "a", encoding="utf-8") as file:
                file.write(f"{outcome}\t{text}\n")
        if outcome == "contradicted" and os.environ.get("D2LPERF_STRICT") == "1":
            raise ClaimContradicted(line)
        return Claim(outcome, line)
