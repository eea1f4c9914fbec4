"""What `explain` found: operations, limit, times; as text, as a table and as a figure."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from d2lperf.ceilings import Ceilings
from d2lperf.counting import Operation
from d2lperf.explaining.advice import OUTSIDE, UNKNOWN, Lever, Limit, Part, levers
from d2lperf.formats import Shown, Table, format_value
from d2lperf.measuring import Measurement
from d2lperf.roofline import Estimate, Point, Regime, Roofline

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["Explanation", "limit_of", "parts_of"]

MOST_UNCOUNTED = 0.25  # of the time; beyond it the limit is not known
MOST_OUTSIDE = 0.5  # of the time; beyond it torch is not what limits
SHOWN = 8  # kinds of operations in the table
HEADER = ["", "calls", "FLOPs", "bytes", "predicted", "share of time", "limit"]
HEADER_ELSEWHERE = [cell.replace("share of time", "share of time here") for cell in HEADER]


def limit_of(shares: dict[Regime, float], uncounted: float, outside: float) -> Limit:
    """Return what a function waits for: "overhead", "memory", "compute", or none of them.

    Args:
        shares: regime -> share of the predicted time.
        uncounted, outside: shares of the time in operations that cannot be counted, and outside of
            torch's operations.
    """
    if outside > MOST_OUTSIDE:
        return OUTSIDE
    if uncounted > MOST_UNCOUNTED:
        return UNKNOWN
    return max(shares, key=shares.__getitem__)


def parts_of(operations: list[tuple[Operation, Estimate]], outside: float) -> list[Part]:
    """Return the operations with their shares of the time; with `outside` they add up to 1.

    Args:
        operations: each with the seconds it took, and with what the roofline predicts for it.
        outside: share of the time outside of them.
    """
    spent_s = sum(op.seconds for op, _ in operations) or 1.0
    return [Part(op, est, (1 - outside) * op.seconds / spent_s) for op, est in operations]


@dataclass(frozen=True, repr=False)
class Explanation(Shown):
    """What a function does, what it should take at the ceilings, and what it takes.

    Attributes:
        flops: FLOPs of one call, without the operations that cannot be counted.
        bytes: bytes that one call reads and writes.
        predicted_s: seconds of one call: the sum over its operations. Those that cannot be counted
            contribute what each takes by itself, measured; with a data sheet they are left out.
        measurement: of the function; None where it was not measured.
        shares: regime -> share of the predicted seconds; empty where more than a quarter of the
            time is not counted.
        help: what would help.
        uncounted: operations that cannot be counted: name -> share of the time.
        operations: each with what the roofline predicts for it.
        ceilings: by which it predicts.
        outside: share of the time outside of torch's operations; 0 where it was not measured.
        functions: Python functions there -> share of that time.
        runs: how often the function was called.
        changed: what it changed, and was put back.
        left: what it changed, and could not be put back.
    """

    flops: float
    bytes: float
    predicted_s: float
    measurement: Measurement | None
    shares: dict[Regime, float]
    help: str
    uncounted: dict[str, float]
    operations: list[tuple[Operation, Estimate]]
    ceilings: Ceilings
    outside: float = 0.0
    functions: dict[str, float] = field(default_factory=dict)
    runs: int = 0
    changed: list[str] = field(default_factory=list)
    left: list[str] = field(default_factory=list)

    @property
    def regime(self) -> Limit:
        """What the function mostly waits for.

        "overhead", "memory" or "compute"; "outside of torch" where more than half of the time is
        outside of its operations; "not known" where more than a quarter is not counted.
        """
        return limit_of(self.shares, sum(self.uncounted.values()), self.outside)

    @property
    def measured_s(self) -> float:
        """Median seconds of one call; nan where it was not measured."""
        return self.measurement.median_s if self.measurement else math.nan

    @property
    def point(self) -> Point:
        """FLOPs, bytes and seconds (predicted ones where not measured), for `Roofline.plot`."""
        seconds = self.measured_s if self.measurement else self.predicted_s
        return Point(self.flops, self.bytes, seconds)

    @cached_property
    def parts(self) -> list[Part]:
        """The operations with their shares of the time; with `outside` they add up to 1."""
        return parts_of(self.operations, self.outside)

    def levers(self) -> list[Lever]:
        """Return what would help, each with the factor that it gains at most, largest first."""
        return levers(self.parts, self.outside, self.functions, Roofline(self.ceilings))

    def table(self) -> Table:
        """Return what is shown: the costliest kinds of operations, what limits and what helps."""
        names = dict.fromkeys(part.operation.name for part in self.parts)
        kinds = [[p for p in self.parts if p.operation.name == name] for name in names]
        kinds.sort(key=self._weight, reverse=True)
        rows = [self._row(parts) for parts in kinds[:SHOWN]]
        if self.outside >= 0.01:
            rows.append(["outside of torch", "", "", "", "", f"{self.outside:.0%}", ""])
        rest = sum(part.share for parts in kinds[SHOWN:] for part in parts)
        more = []
        if len(kinds) > SHOWN:
            more = [f"and {len(kinds) - SHOWN} more kinds: {rest:.0%} of the time"]
        foot = [*more, *self._work(), *self._times(), *self._caveats(), *self._runs()]
        header = HEADER if self.ceilings.measured else HEADER_ELSEWHERE
        return Table(header, rows, [*foot, f"what would help: {self.help}"], right=(1, 2, 3, 4, 5))

    def _weight(self, parts: list[Part]) -> float:
        """What puts a kind of operation on top: its share of the predicted or measured time."""
        predicted_s = sum(part.estimate.seconds for part in parts)
        return max(predicted_s / (self.predicted_s or 1.0), sum(part.share for part in parts))

    def _row(self, parts: list[Part]) -> list[str]:
        operations = [part.operation for part in parts]
        name = operations[0].name
        flops = math.nan if name in self.uncounted else sum(o.flops for o in operations)
        size = float(sum(sum(o.bytes.values()) for o in operations))
        seconds = math.nan if name in self.uncounted else sum(p.estimate.seconds for p in parts)
        longest = max(part.estimate for part in parts)
        return [
            name,
            str(len(parts)),
            format_value(float(flops), "FLOP"),
            format_value(size, "B"),
            format_value(seconds, "s"),
            f"{sum(part.share for part in parts):.0%}",
            UNKNOWN if name in self.uncounted else longest.regime,
        ]

    def _work(self) -> list[str]:
        work = f"{format_value(self.flops, 'FLOP')}, {format_value(self.bytes, 'B')}"
        shares = ", ".join(f"{name} {share:.0%}" for name, share in self.shares.items())
        why = f"of the predicted time: {shares}"
        if self.regime == UNKNOWN:
            why = f"{sum(self.uncounted.values()):.0%} of the time is not counted"
        if self.regime == OUTSIDE:
            why = f"{self.outside:.0%} of the time"
        one = f"one call: {len(self.operations)} operations, {work}"
        return [one, f"limit: {self.regime} ({why})"]

    def _times(self) -> list[str]:
        predicted = format_value(self.predicted_s, "s")
        if not self.ceilings.measured:
            device = self.ceilings.device
            vowel = device.startswith(("NVIDIA", *"AEIOU"))  # "an" before it, as it is said
            where = f"on {'an' if vowel else 'a'} {device} by its data sheet"
            least = "at least " if self.uncounted else ""
            return [
                f"predicted {where}: {least}{predicted}, overhead not included",
                f"data sheet: {self.ceilings.source} (read {self.ceilings.read})",
            ]
        lines = [f"predicted: {predicted}"]
        if self.measurement:
            measured = f"measured: {format_value(self.measured_s, 's')}"
            if self.predicted_s:  # 0 where only views are made, and the overhead is not known
                measured += f", {self.measured_s / self.predicted_s:.2g} times as much"
            lines.append(measured)
        if self.outside >= 0.01:
            lines.append(f"outside of torch's operations: {self.outside:.0%} of the time")
        return lines

    def _caveats(self) -> list[str]:
        lines = []
        for name, share in self.uncounted.items():
            seconds = sum(op.seconds for op, _ in self.operations if op.name == name)
            alone = f"by itself {format_value(float(seconds), 's')}"
            lines.append(f"not counted: {name}, {share:.0%} of the time ({alone})")
        roofline = Roofline(self.ceilings)
        products = {op.dtype for op, _ in self.operations if op.kind == "product"}
        for dtype in sorted(map(str, products)):
            if not roofline.has_rate(dtype):
                lines.append(f"no ceiling for products in {dtype[6:]}: that of float32 is used")
        return lines

    def _runs(self) -> list[str]:
        changed = f"; put back: {', '.join(self.changed)}" if self.changed else ""
        left = f"; changed for good: {', '.join(self.left)}" if self.left else ""
        return [f"called {self.runs:,} times{changed}{left}"]

    def plot(self, ax: Axes | None = None, *, palette: Mapping[str, str] | None = None) -> Axes:
        """Draw the function and its four longest operations in a roofline; return the axes.

        palette: colours of some of them, as `Roofline.plot` takes them; the function is "all".
        """
        longest = sorted((op for op, _ in self.operations), key=lambda op: -op.seconds)[:4]
        points = {op.name: Point(op.flops, sum(op.bytes.values()), op.seconds) for op in longest}
        return Roofline(self.ceilings).plot({"all": self.point, **points}, ax, palette=palette)
