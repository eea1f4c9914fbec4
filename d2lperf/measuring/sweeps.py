"""`Sweep`: comparisons of the same functions at several values, such as sizes."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from numbers import Real
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch

from d2lperf.formats import Shown, Table, format_estimate, format_value
from d2lperf.measuring.results import Comparison
from d2lperf.measuring.saved import Saved, decoded, encoded
from d2lperf.measuring.verdict import BASELINE, FASTER, SLOWER, Ratio

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes


@dataclass(frozen=True, repr=False)
class Crossing:
    """Where the time ratio of two functions crosses 1, in the unit of the sweep's values.

    Attributes:
        name, other: the two functions.
        value: the estimate, by straight lines between the logarithms; nan where none was found.
        low, high: neighbouring values of the sweep between which it crosses for certain: at both
            the interval of the ratio lies beyond 1, on different sides. 0 and inf: none found.
    """

    name: str
    other: str
    value: float = math.nan
    low: float = 0.0
    high: float = math.inf

    def __repr__(self) -> str:
        if math.isnan(self.value):
            return f"{self.name} against {self.other}: no crossing found"
        where = format_estimate(self.value, self.low, self.high)
        return f"{self.name} against {self.other}: crosses at {where}"


@dataclass(frozen=True, repr=False)
class Sweep(Shown, Saved):
    """Comparisons of the same functions at several values; `sweep[value]` is one of them."""

    label: str  # what the values are, such as "size"
    values: list[Any]
    comparisons: list[Comparison]
    made_by: ClassVar = {
        "values": lambda values: [decoded(value) for value in values],
        "comparisons": lambda runs: [Comparison.made_of(run) for run in runs],
    }

    def __getitem__(self, value: Any) -> Comparison:
        for there, run in zip(self.values, self.comparisons):
            if _same(there, value):
                return run
        raise KeyError(f"no {self.label} {value!r}; there are {self.values}.")

    def __iter__(self) -> Iterator[Comparison]:
        return iter(self.comparisons)

    def __len__(self) -> int:
        return len(self.comparisons)

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain values; tuples, dtypes and tensors come back by `load`."""
        values = [encoded(value) for value in self.values]
        comparisons = [run.to_dict() for run in self.comparisons]
        return {"label": self.label, "values": values, "comparisons": comparisons}

    def table(self) -> Table:
        """Return what is shown."""
        header = [self.label, "", "median time", "time relative to the baseline", "verdict"]
        rows, footer, reasons = [], [], []
        seconds = sum(run.elapsed_s for run in self)
        for value, run in zip(self.values, self):
            shown, table = _shown(value), run.table()
            for name, median, _, ratio, verdict in table.rows:
                rows.append([shown, name, median, ratio, verdict])
            together = f"{run.confidence * 100:g} % intervals; {seconds:.2f} s in all"
            footer = [together, table.footer[1]]
            reasons += [f"{line} ({self.label} {shown})" for line in table.footer[2:]]
        return Table(header, rows, footer + reasons, right=(0, 2))

    def to_frame(self) -> pd.DataFrame:
        """Return a `pandas.DataFrame` with a row for each value and function.

        The columns are those of `Comparison.to_frame`; the index has the value and the name.
        """
        import pandas as pd

        frames = [run.to_frame() for run in self]
        if not frames:
            return pd.DataFrame()
        keys = [value if _is_number(value) else str(value) for value in self.values]
        return pd.concat(frames, keys=keys, names=[self.label])

    def crossing(self, name: str | None = None) -> Crossing:
        """Return where the ratio of a function to the baseline crosses 1.

        Args:
            name: the function; may be left out if only one was compared with the baseline.

        Raises:
            ValueError: the values are not positive numbers in order, the name is needed, or the
                ratio crosses 1 more than once.
        """
        name = self._other() if name is None else name
        numbers = [value for value in self.values if _is_number(value) and value > 0]
        if len(numbers) < len(self.values) or numbers != sorted(set(numbers)):
            raise ValueError(
                f"a crossing needs positive {self.label}s in ascending order, but they are "
                f"{self.values}."
            )
        ratios = [run[name] for run in self]
        # Only what is faster or slower counts: near 1, an interval may miss 1 by chance.
        decided = (FASTER, SLOWER)
        sides = [(value, r) for value, r in zip(numbers, ratios) if r.verdict in decided]
        pairs = list(itertools.pairwise(sides))
        turns = [
            (left, right) for left, right in pairs if (left[1].high < 1) != (right[1].high < 1)
        ]
        baseline = self.comparisons[0].baseline if self.comparisons else ""
        if not turns:
            return Crossing(name, baseline)
        if len(turns) > 1:
            places = ", ".join(f"between {left[0]:g} and {right[0]:g}" for left, right in turns)
            raise ValueError(f"the ratio of {name!r} crosses 1 more than once: {places}.")
        (low, _), (high, _) = turns[0]
        inside = [(v, r) for v, r in zip(numbers, ratios) if low <= v <= high]
        return Crossing(name, baseline, _crosses_one(inside), low, high)

    def _other(self) -> str:
        names = [f.name for run in self.comparisons[:1] for f in run.values()]
        others = [name for name in names if name != self.comparisons[0].baseline]
        if len(others) != 1:
            raise ValueError(f"name the function whose crossing is meant, one of {others}.")
        return others[0]

    def plot(self, ax: Axes | None = None, *, palette: Mapping[str, str] | None = None) -> Axes:
        """Draw each function's time relative to the baseline, with its intervals, as a curve.

        palette: colours of some functions, as `plotting.lines` takes them.
        """
        from d2lperf import plotting

        if not self.comparisons:
            raise ValueError("there is nothing to draw: the sweep has no values.")
        numbers = all(map(_is_number, self.values))
        curves: dict[str, list[Ratio]] = {}
        x: dict[str, list[Any]] = {}
        for value, run in zip(self.values if numbers else map(str, self.values), self):
            for name, found in run.items():
                if found.verdict != BASELINE:
                    curves.setdefault(name, []).append(found)
                    x.setdefault(name, []).append(value)
        wide = numbers and 0 < 10 * min(self.values) <= max(self.values)
        ax = plotting.lines(
            x,
            {name: [found.ratio for found in curve] for name, curve in curves.items()},
            low={name: [found.low for found in curve] for name, curve in curves.items()},
            high={name: [found.high for found in curve] for name, curve in curves.items()},
            xlabel=self.label,
            ylabel=f"time relative to {self.comparisons[0].baseline}",
            log="xy" if wide else "y",  # as a ratio is judged, and `crossing` interpolates
            palette=palette,
            ax=ax,
        )
        ax.axhline(1, color=plotting.COLOURS["black"], lw=1, zorder=1)
        return ax


def _shown(value: Any) -> str:
    return format_value(value) if _is_number(value) else str(value)


def _is_number(value: Any) -> bool:
    return isinstance(value, Real)


def _same(there: Any, asked: Any) -> bool:
    """Whether two values of a sweep are the same; arrays are compared as wholes."""
    kinds: list[tuple[type, Callable]] = [(torch.Tensor, torch.equal), (np.ndarray, np.array_equal)]
    for kind, equal in kinds:
        if isinstance(there, kind) or isinstance(asked, kind):
            return isinstance(there, kind) and isinstance(asked, kind) and equal(there, asked)
    if isinstance(there, tuple) and isinstance(asked, tuple):
        return len(there) == len(asked) and all(map(_same, there, asked))
    return bool(there == asked)


def _crosses_one(points: list[tuple[float, Ratio]]) -> float:
    """The first value at which the line through the points crosses 1, both axes logarithmic."""
    for (left, first), (right, second) in itertools.pairwise(points):
        start, end = math.log(first.ratio), math.log(second.ratio)
        if start == 0:
            return float(left)
        if start * end < 0:
            share = start / (start - end)
            return math.exp(math.log(left) + share * (math.log(right) - math.log(left)))
    return float(points[-1][0])
