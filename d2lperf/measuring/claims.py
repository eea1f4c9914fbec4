"""What was said beforehand, and how it turned out: claims of a notebook and predicted numbers."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from numbers import Integral
from typing import Any

from d2lperf.measuring.formats import format_interval, format_ratio, format_value, print_line
from d2lperf.measuring.verdict import FASTER, NO_DIFFERENCE, NOT_DECIDED, SLOWER, Ratio

__all__ = ["Claim", "ClaimContradicted", "Prediction", "Predictions", "predict", "predictions"]

# Closer to the prediction than this factor is "as predicted".
CLOSE = 1.05


class ClaimContradicted(AssertionError):
    """This machine contradicts the claim of a notebook, with D2LPERF_STRICT=1."""


@dataclass(frozen=True)
class Claim:
    """The outcome of `Comparison.expect`; shows nothing in a notebook, its line is printed."""

    outcome: str  # 'borne out', 'contradicted' or 'not decided'
    text: str  # the line

    def _ipython_display_(self) -> None:
        """Show nothing: `expect` has printed its line already."""


def expect(found: Ratio, words: str, margin: float) -> Claim:
    """Print how the claim turned out that `found` is "faster than", "slower than", "the same as".

    *Faster* and *slower* are contradicted by the opposite verdict, and by "no measurable
    difference" with an interval wholly inside the margin; *same* by "faster" and "slower".
    """
    wanted = {"faster than": FASTER, "slower than": SLOWER, "the same as": NO_DIFFERENCE}[words]
    # "Within 2 %" where the margin is 1 % leaves room for a small difference.
    inside = 1 / (1 + margin) <= found.low and found.high <= 1 + margin
    outcome = "contradicted"
    if found.verdict == wanted:
        outcome = "borne out"
    elif found.verdict == NOT_DECIDED or (found.verdict == NO_DIFFERENCE and not inside):
        outcome = "not decided"
    why = f"time ratio {format_ratio(found.ratio, found.low, found.high)}"
    why += f"; {found.reason}" if found.reason else ""
    sentence = f"{found.name} is {words} {found.other} ({why})"
    line = f"claim {outcome}{' here' * (outcome == 'not decided')}: {sentence}"
    print_line(line)
    # benchmarks/strict_runs.py counts how often each claim was borne out.
    if path := os.environ.get("D2LPERF_CLAIMS"):
        with suppress(OSError), open(path, "a", encoding="utf-8") as file:
            file.write(f"{outcome}\t{sentence}\n")
    if outcome == "contradicted" and os.environ.get("D2LPERF_STRICT") == "1":
        raise ClaimContradicted(line)
    return Claim(outcome, line)


_session: dict[str, Prediction] = {}


def predict(label: str, value: float, unit: str = "") -> Prediction:
    """State a number before it is measured.

    Args:
        label: what the number is, such as "8 rows against 1 row". A prediction with the same label
            takes the place of the earlier one, so that a cell can be run again.
        value: the number.
        unit: "" for a ratio or a count, "s" for seconds, "B" for bytes; any other text, such as
            "GB/s", is written behind the number.

    Returns:
        A `Prediction`: `.score(measured)` prints how it turned out.

    Raises:
        TypeError: `value` is not a number.

    >>> rows = predict("8 rows against 1 row", 1.0)
    >>> rows.score(1.89, low=1.84, high=1.95)
    8 rows against 1 row: predicted 1.00, measured 1.89 [1.84, 1.95], off by a factor of 1.9
    """
    made = Prediction(str(label), _number(value, "the predicted value"), unit)
    _session[made.label] = made
    return made


def predictions() -> Predictions:
    """Return the predictions of this session: text, an HTML table and `.plot()`."""
    return Predictions(list(_session.values()))


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

        Args:
            measured: a number in the unit of the prediction; the `Ratio` of a comparison; or for a
                prediction in seconds a `Measurement` or `Ratio`, of which the median counts.
            low, high: the interval of a number; a result brings its own.

        Raises:
            TypeError: `measured` is none of these.
            ValueError: a result for a prediction in another unit.
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
        self.measured = _number(measured, "what was measured")
        known = low is not None and high is not None
        self.interval = (_number(low, "low"), _number(high, "high")) if known else None
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
        said, found, own = (
            "" if number is None else self._show(number)
            for number in (self.value, self.measured, self.own)
        )
        if self.measured is None:
            return [said, "not measured yet", "", own, ""]
        if self.interval:
            found += f" {format_interval(*self.interval, self._show)}"
        own_off = self._off(self.own, "right") if own else ""
        return [said, found, self._off(self.value, "as predicted"), own, own_off]

    def _show(self, number: float) -> str:
        return format_value(number, self.unit)

    def _off(self, said: float, close: str) -> str:
        factor, (low, high) = math.nan, self.interval or (math.nan, math.nan)
        if _positive(said, self.measured):
            factor = max(said / self.measured, self.measured / said)
        if said == self.measured or factor < CLOSE:
            return close
        off = f"a factor of {factor:.{1 if factor < 99.5 else 0}f}"
        if math.isnan(factor):
            off = self._show(abs(self.measured - said))
        known = low > 0 or high < math.inf
        return f"off by {off}{' (inside the interval)' if known and low <= said <= high else ''}"


@dataclass(frozen=True, repr=False)
class Predictions:
    """The predictions of a session in order; shows as lines of text, a table, or a figure."""

    made: list[Prediction]

    def __iter__(self) -> Iterator[Prediction]:
        return iter(self.made)

    def __str__(self) -> str:
        return "\n".join(map(str, self)) or "no predictions yet"

    __repr__ = __str__

    def _repr_html_(self) -> str:
        """A table. The class `score` marks what differs from run to run (tests/sanitize.cfg)."""
        from html import escape

        shown = 5 if any(p.own is not None for p in self) else 3
        header = ["prediction", "predicted", "measured", "result", "your guess", "its result"]
        rows = ["".join(f"<th style='text-align:left'>{x}</th>" for x in header[: shown + 1])]
        for p in self:
            cells = "".join(f"<td class='score'>{escape(x)}</td>" for x in p.cells()[:shown])
            rows.append(f"<td style='text-align:left'>{escape(p.label)}</td>{cells}")
        return f"<table>{''.join(f'<tr>{row}</tr>' for row in rows)}</table>"

    def plot(self, ax=None):
        """Draw what was measured relative to the predictions, where both are positive."""
        from d2lperf import plotting

        drawn = [p for p in self if p.measured is not None and _positive(p.value, p.measured)]
        if not drawn:
            raise ValueError("no prediction has a positive score yet: call .score(measured) first.")
        unknown = (None, None)
        ends = [p.interval if _positive(*(p.interval or (0,))) else unknown for p in drawn]
        rows = [(p.label, p.value, p.measured, *pair) for p, pair in zip(drawn, ends)]
        return plotting.scores(rows, ax=ax)

    def clear(self) -> None:
        """Forget the predictions of this session."""
        _session.clear()


def _positive(*values: float) -> bool:
    return all(0 < value < math.inf for value in values)


def _number(value: Any, what: str) -> float:
    """A Python number: int for whole numbers, float for all else that can be one."""
    try:
        return int(value) if isinstance(value, Integral) else float(value + 0)
    except (TypeError, ValueError, RuntimeError):
        raise TypeError(f"{what} must be a number, but got {value!r}.") from None
