"""What `sweep` returns: comparisons of the same functions at several values."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from numbers import Real
from typing import Any, ClassVar

from d2lperf.measuring.formats import Shown, Table, format_number
from d2lperf.measuring.results import Comparison, check_kind
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

    def __len__(self) -> int:
        return len(self.comparisons)

    def _shown(self) -> list[str]:
        """The values as texts; numbers with their digits."""
        return [
            f"{v:,}" if isinstance(v, int) else format_number(v) if isinstance(v, Real) else str(v)
            for v in self.values
        ]

    def table(self) -> Table:
        """Return what is shown: a row for each value and function, reasons below."""
        header = [self.label, "", "median time", "time relative to the baseline", "verdict"]
        rows, reasons = [], []
        for value, run in zip(self._shown(), self):
            table = run.table()
            rows += [[value, name, median, *rest] for name, median, _, *rest in table.rows]
            reasons += [f"{line} ({self.label} {value})" for line in table.footer[2:]]
        footer = []
        for run in self.comparisons[:1]:
            seconds = sum(each.elapsed_s for each in self)
            footer = [f"{run.confidence * 100:g} % intervals; {seconds:.2f} s in all"]
            footer.append(run.table().footer[1])
        return Table(header, rows, footer + reasons, right=(0, 2))

    def to_frame(self):
        """Return a `pandas.DataFrame`: the frames of the comparisons, one below the other.

        It is indexed by the value (its level has the name `label`) and the function's name.
        """
        import pandas as pd

        frames = dict(zip(self.values, (run.to_frame() for run in self)))
        return pd.concat(frames, names=[self.label])

    def plot(self, ax=None, *, kind: str = "ratios"):
        """Draw a curve for each function over the values; return the axes.

        Args:
            ax: axes to draw on; new ones by default.
            kind: "ratios" for the times relative to the baseline with their intervals, "times" for
                medians with their quartiles.

        Raises:
            ValueError: another kind.
        """
        from d2lperf import plotting

        check_kind(kind)
        numbers = all(isinstance(value, Real) for value in self.values)
        curves: dict[str, list[tuple]] = {}
        for value, run in zip(self.values if numbers else self._shown(), self):
            for f in run:
                if kind == "times":
                    curves.setdefault(f.name, []).append((value, f.median_s, *f.quartiles_s))
                elif f.verdict != BASELINE:
                    curves.setdefault(f.name, []).append((value, f.ratio, f.low, f.high))
        x, middle, low, high = (
            {name: [row[i] for row in rows] for name, rows in curves.items()} for i in range(4)
        )
        log = "x" if numbers and 0 < 10 * min(self.values) <= max(self.values) else ""
        words = {"ylabel": f"time relative to {self.comparisons[0].baseline}"}
        if kind == "times":
            times = [time for curve in middle.values() for time in curve]
            log += "y" if max(times) >= 10 * min(times) else ""
            words = {"ylabel": "median time of a call", "yunit": "s"}
        words |= {"xlabel": self.label, "log": log}
        ax = plotting.lines(x, middle, low=low, high=high, ax=ax, **words)
        if kind == "ratios":
            ax.axhline(1, color=plotting.COLOURS["black"], lw=1, zorder=1)
        return ax
