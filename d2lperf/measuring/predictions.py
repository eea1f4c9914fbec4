"""Numbers that are stated before they are measured, and the line that scores them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from numbers import Integral
from typing import Any

from d2lperf.formats import Table, format_interval, format_value, html_table, print_line
from d2lperf.measuring.verdict import Ratio

CLOSE = 1.05  # nearer to the prediction than this factor is "as predicted"

_session: dict[str, Prediction] = {}


def predict(label: str, value: float, unit: str = "") -> Prediction:
    """State a number before it is measured; `.score(measured)` prints how it turned out.

    Args:
        label: what the number is, such as "8 rows against 1 row". A prediction with the same label
            takes the place of the earlier one, so that a cell can be run again.
        value: the number.
        unit: "" for a ratio or a count, "s" for seconds, "B" for bytes; any other text, such as
            "GB/s", is written behind the number.

    >>> rows = predict("8 rows against 1 row", 1.0)
    >>> rows.score(1.89, low=1.84, high=1.95)
    8 rows against 1 row: predicted 1.00, measured 1.89 [1.84, 1.95], off by a factor of 1.9
    """
    made = Prediction(str(label), _number(value, "the predicted value"), unit)
    _session[made.label] = made
    return made


def predictions() -> Predictions:
    """Return the predictions of this session: text, an HTML table and `.plot()`."""
    return Predictions(_session.values())


@dataclass(eq=False, repr=False)
class Prediction:
    """A number that was stated before it was measured; made by `predict`."""

    label: str
    value: float
    unit: str = ""
    own: float | None = None  # the reader's guess
    measured: float | None = None
    interval: tuple[float, float] | None = None  # 0 to infinity where nothing is known

    def guess(self, value: float) -> None:
        """Note the reader's own number, in the same unit; `score` shows how it turned out too."""
        self.own = _number(value, "a guess")

    def score(self, measured: Any, low: float | None = None, high: float | None = None) -> None:
        """Note what was measured; print it beside the prediction.

        `measured` is a number in the unit of the prediction, with its interval (a result brings its
        own); the `Ratio` of a comparison; or for a prediction in seconds a `Measurement` or
        `Ratio`, of which the median counts.
        """
        if isinstance(measured, Ratio) and not self.unit:
            measured, low, high = measured.ratio, measured.low, measured.high
        elif hasattr(measured, "median_s"):
            if self.unit != "s":
                raise ValueError(
                    f"a {type(measured).__name__} has times in seconds, but this prediction is in "
                    f'another unit: write predict({self.label!r}, {self.value!r}, unit="s").'
                )
            low, high = getattr(measured, "interval_s", (None, None))
            measured = measured.median_s
        if (low is None) != (high is None):
            raise ValueError(
                f"an interval has two ends, but got low={low!r} and high={high!r}: give both."
            )
        self.measured = _number(measured, "what was measured")
        self.interval = None if low is None else (_number(low, "low"), _number(high, "high"))
        print_line(str(self))

    def __str__(self) -> str:
        said, found, off, own, own_off = self.cells()
        line = f"{self.label}: predicted {said}, "
        if self.measured is None:
            return line + found + (f", your guess {own}" if own else "")
        line += f"measured {found}, {off}"
        return f"{line}\n  your guess {own}, {own_off}" if own else line

    __repr__ = __str__

    def cells(self) -> list[str]:
        """Return as texts: predicted, measured and how far off; the guess and how far off."""
        show = partial(format_value, unit=self.unit)
        said, own = show(self.value), "" if self.own is None else show(self.own)
        if self.measured is None:
            return [said, "not measured yet", "", own, ""]
        found = show(self.measured)
        if self.interval and not math.isnan(self.measured):
            found += f" {format_interval(*self.interval, show)}"
        own_off = "" if self.own is None else self._off(self.own, "right")
        return [said, found, self._off(self.value, "as predicted"), own, own_off]

    def _off(self, number: float, close: str) -> str:
        """How far a number is off what was measured, or the word for close."""
        if _positive(number, self.measured):
            factor = max(number / self.measured, self.measured / number)
            digits = 3 if factor < 1.055 else 2 if factor < 1.095 else int(factor < 99.5)
            far = f"a factor of {factor:.{digits}f}"
        else:
            factor, far = math.inf, format_value(abs(self.measured - number), self.unit)
        if number == self.measured or factor < CLOSE:
            return close
        low, high = self.interval or (math.nan, math.nan)
        inside = low <= number <= high and (low > 0 or high < math.inf)
        return f"off by {far}{' (inside the interval)' if inside else ''}"


class Predictions(tuple[Prediction, ...]):
    """The predictions of a session in order; shows as lines of text, a table, or a figure."""

    def __str__(self) -> str:
        return "\n".join(map(str, self)) or "no predictions yet"

    __repr__ = __str__

    def _repr_html_(self) -> str:
        """A table. The class `score` marks what differs from run to run (tests/sanitize.cfg)."""
        shown = 5 if any(p.own is not None for p in self) else 3
        header = ["prediction", "predicted", "measured", "result", "your guess", "its result"]
        rows = [[p.label, *p.cells()[:shown]] for p in self]
        return html_table(Table(header[: shown + 1], rows, scores=tuple(range(1, shown + 1))))

    def plot(self, ax=None):
        """Draw what was measured relative to the predictions, where both are positive."""
        from d2lperf import plotting

        rows = []
        for p in self:
            if p.measured is not None and _positive(p.value, p.measured):
                ends = p.interval if p.interval and _positive(*p.interval) else (None, None)
                rows.append((p.label, p.value, p.measured, *ends))
        if not rows:
            raise ValueError("no prediction has a positive score yet: call .score(measured) first.")
        return plotting.scores(rows, ax=ax)


def _positive(*values: float) -> bool:
    return all(0 < value < math.inf for value in values)


def _number(value: Any, what: str) -> float:
    """A Python number: int for whole numbers, float for all else that can be one."""
    try:
        return int(value) if isinstance(value, Integral) else float(value + 0)
    except (TypeError, ValueError, RuntimeError):
        raise TypeError(f"{what} must be a number, but got {value!r}.") from None
