"""What `sweep` returns: comparisons of the same functions at several values."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from numbers import Real
from typing import Any, ClassVar

from d2lperf.measuring.formats import Shown, Table, format_value
from d2lperf.measuring.results import Comparison
from d2lperf.measuring.saved import Saved
from d2lperf.measuring.verdict import BASELINE

__all__ = ["Sweep"]


@dataclass(frozen=True, repr=False)
class Sweep(Shown, Saved):
    """Comparisons of the same functions at several values, such as sizes.

    `sweep[value]` is the `Comparison` at a value.

    Attributes:
        label: what the values are, such as "size".
        values: what was varied.
        comparisons: one for each value.
    """

    label: str
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
        """Return what is shown: a row for each value and function, reasons below."""
        header = [self.label, "", "median time", "time relative to the baseline", "verdict"]
        rows, footer, reasons = [], [], []
        for value, run in zip(self.values, self):
            value = format_value(value) if isinstance(value, Real) else str(value)
            table = run.table()
            rows += [[value, name, median, *rest] for name, median, _, *rest in table.rows]
            seconds = sum(each.elapsed_s for each in self)
            footer = [f"{run.confidence * 100:g} % intervals; {seconds:.2f} s in all"]
            footer.append(table.footer[1])
            reasons += [f"{line} ({self.label} {value})" for line in table.footer[2:]]
        return Table(header, rows, footer + reasons, right=(0, 2))

    def to_frame(self):
        """Return the comparisons' frames, one below the other, indexed by value and name."""
        import pandas as pd

        frames = dict(zip(self.values, (run.to_frame() for run in self)))
        return pd.concat(frames, names=[self.label])

    def plot(self, ax=None):
        """Draw each function's time relative to the baseline, with its intervals, as a curve."""
        from d2lperf import plotting

        numbers = all(isinstance(value, Real) for value in self.values)
        curves: dict[str, list[tuple]] = {}
        for value, run in zip(self.values if numbers else map(str, self.values), self):
            for f in run:
                if f.verdict != BASELINE:
                    curves.setdefault(f.name, []).append((value, f.ratio, f.low, f.high))
        x, ratio, low, high = (
            {name: [row[i] for row in rows] for name, rows in curves.items()} for i in range(4)
        )
        log = "x" if numbers and 0 < 10 * min(self.values) <= max(self.values) else ""
        ylabel = f"time relative to {self.comparisons[0].baseline}"
        labels = {"xlabel": self.label, "ylabel": ylabel, "log": log}
        ax = plotting.lines(x, ratio, low=low, high=high, ax=ax, **labels)
        ax.axhline(1, color=plotting.COLOURS["black"], lw=1, zorder=1)
        return ax
