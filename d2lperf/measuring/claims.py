"""What was said beforehand, and how it turned out: claims of a notebook and predicted numbers."""

from __future__ import annotations

import html
import math
import os
from contextlib import suppress
from numbers import Integral
from typing import Any

from d2lperf.device import num_gpus
from d2lperf.measuring.formats import format_ratio, format_value, print_line
from d2lperf.measuring.verdict import FASTER, NO_DIFFERENCE, NOT_DECIDED, SLOWER, Ratio

__all__ = ["Claim", "ClaimContradicted", "Prediction", "Predictions", "predict", "predictions"]

# Closer to the prediction than this factor is "as predicted".
CLOSE = 1.05


# ----------------------------------------------------------------------------- claims


class ClaimContradicted(AssertionError):
    """This machine contradicts the claim of a notebook, with D2LPERF_STRICT=1."""


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


def expect(found: Ratio, words: str, margin: float, requires: str | None = None) -> Claim:
    """Hold a claim against a time ratio and print how it turned out.

    A claim of *faster* or *slower* is contradicted by the opposite verdict, and by "no measurable
    difference" with an interval wholly inside the margin. A claim of *same* is contradicted by
    "faster" and "slower".

    Args:
        found: the time of one function relative to another.
        words: "faster than", "slower than" or "the same as".
        margin: differences smaller than this fraction do not count.
        requires: "gpu" for a claim that can hold only on a machine that has one.

    Raises:
        ValueError: an unknown requirement.
        ClaimContradicted: only with the environment variable D2LPERF_STRICT=1.
    """
    if requires not in (None, "gpu"):
        raise ValueError(f"requires must be 'gpu' or None, but got {requires!r}.")
    sentence = f"{found.name} is {words} {found.other}"
    if requires == "gpu" and num_gpus() == 0:
        outcome, why = "not tested", "the claim needs a GPU; this machine has none"
    else:
        outcome = _outcome(found, words, margin)
        why = f"time ratio {format_ratio(found.ratio, found.low, found.high)}"
        why += f"; {found.reason}" if found.reason else ""
    here = " here" if outcome in ("not decided", "not tested") else ""
    line = f"claim {outcome}{here}: {sentence} ({why})"
    print_line(line)
    # benchmarks/strict_runs.py counts how often each claim was borne out.
    if path := os.environ.get("D2LPERF_CLAIMS"):
        with suppress(OSError), open(path, "a", encoding="utf-8") as file:
            file.write(f"{outcome}\t{sentence} ({why})\n")
    if outcome == "contradicted" and os.environ.get("D2LPERF_STRICT") == "1":
        raise ClaimContradicted(line)
    return Claim(outcome, line)


def _outcome(found: Ratio, words: str, margin: float) -> str:
    if found.verdict == NOT_DECIDED:
        return "not decided"
    wanted = {"faster than": FASTER, "slower than": SLOWER, "the same as": NO_DIFFERENCE}[words]
    if found.verdict == wanted:
        return "borne out"
    inside = 1 / (1 + margin) <= found.low and found.high <= 1 + margin
    # "Within 2 %" where the margin is 1 % leaves room for a small difference.
    return "contradicted" if inside or found.verdict != NO_DIFFERENCE else "not decided"


# ----------------------------------------------------------------------------- predictions


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
    made = Prediction(label, value, unit)
    _session[made.label] = made
    return made


class Prediction:
    """A number that was stated before it was measured.

    Attributes:
        label: what the number is.
        value: the number.
        unit: as in `predict`.
        own: the reader's guess, or None.
        measured: what was measured, None until `score`.
        low: lower end of its interval, or None.
        high: upper end of its interval, or None.
    """

    def __init__(self, label: str, value: float, unit: str = ""):
        self.label = str(label)
        self.value = _number(value, "the predicted value")
        self.unit = unit
        self.own: float | None = None
        self.measured: float | None = None
        self.low: float | None = None
        self.high: float | None = None

    def guess(self, value: float) -> None:
        """Note the reader's own number; `score` shows how it turned out too.

        Args:
            value: the guess, in the unit of the prediction.

        Raises:
            TypeError: `value` is not a number.
        """
        self.own = _number(value, "a guess")

    def score(self, measured: Any, low: float | None = None, high: float | None = None) -> None:
        """Note what was measured; print it beside the prediction.

        Args:
            measured: a number in the unit of the prediction, the `Ratio` of a comparison, or a
                `Measurement` (its median, for a prediction in seconds).
            low: lower end of the interval of a number; taken from a result.
            high: upper end of it.

        Raises:
            TypeError: `measured` is none of these.
            ValueError: a `Measurement` for a prediction that is not in seconds.
        """
        if isinstance(measured, Ratio) and self.unit == "s":
            measured = measured.median_s
        elif isinstance(measured, Ratio):
            measured, low, high = measured.ratio, measured.low, measured.high
        elif hasattr(measured, "interval_s"):
            if self.unit != "s":
                raise ValueError(
                    "a Measurement is a time in seconds, but this prediction is not: "
                    f'write predict({self.label!r}, {self.value!r}, unit="s").'
                )
            (low, high), measured = measured.interval_s, measured.median_s
        self.measured = _number(measured, "what was measured")
        self.low = None if low is None else _number(low, "low")
        self.high = None if high is None else _number(high, "high")
        print_line(str(self))

    @property
    def factor(self) -> float:
        """Measured divided by predicted; nan where one of them is not positive or not known."""
        return _factor(self.value, self.measured)

    def __str__(self) -> str:
        line = f"{self.label}: predicted {self._show(self.value)}, {self._found()}"
        if self.measured is None:
            return f"{line}, your guess {self._show(self.own)}" if self.own is not None else line
        line += f", {self._off(self.value)}"
        if self.own is not None:
            line += f"\n  your guess {self._show(self.own)}, {self._off(self.own, 'right')}"
        return line

    __repr__ = __str__

    def _show(self, value: float) -> str:
        return format_value(value, self.unit)

    def _found(self) -> str:
        if self.measured is None:
            return "not measured yet"
        found = f"measured {self._show(self.measured)}"
        if self.low is not None and self.high is not None:
            found += f" [{self._show(self.low)}, {self._show(self.high)}]"
        return found

    def _off(self, said: float, close: str = "as predicted") -> str:
        """How far a number that was said is from what was measured."""
        if self.measured is None:
            return ""
        factor = _factor(said, self.measured)
        factor = max(factor, 1 / factor) if factor > 0 else factor
        if said == self.measured or factor < CLOSE:
            return close
        inside = self.low is not None and self.high is not None and self.low <= said <= self.high
        hedge = " (inside the interval)" if inside else ""
        if math.isnan(factor):
            return f"off by {self._show(abs(self.measured - said))}{hedge}"
        return f"off by a factor of {factor:.{1 if factor < 99.5 else 0}f}{hedge}"


class Predictions:
    """The predictions of a session in order; shows as lines of text, a table, or a figure."""

    def __init__(self, made: list[Prediction]):
        self._made = made

    def __iter__(self):
        return iter(self._made)

    def __len__(self) -> int:
        return len(self._made)

    def __str__(self) -> str:
        return "\n".join(map(str, self._made)) or "no predictions yet"

    __repr__ = __str__

    def _repr_html_(self) -> str:
        """A table. The class `score` marks what differs from run to run (tests/sanitize.cfg)."""
        guesses = any(p.own is not None for p in self._made)
        header = ["prediction", "predicted", "measured", "result"]
        header += ["your guess", "its result"] if guesses else []
        rows = ["".join(f"<th style='text-align:left'>{cell}</th>" for cell in header)]
        for p in self._made:
            cells = [p._show(p.value), p._found().removeprefix("measured "), p._off(p.value)]
            if guesses:
                cells += ["", ""] if p.own is None else [p._show(p.own), p._off(p.own, "right")]
            rows.append(
                f"<td style='text-align:left'>{html.escape(p.label)}</td>"
                + "".join(f"<td class='score'>{html.escape(cell)}</td>" for cell in cells)
            )
        return f"<table>{''.join(f'<tr>{row}</tr>' for row in rows)}</table>"

    def plot(self, ax=None):
        """Draw each measured number relative to its prediction; return the axes.

        Predictions without a score, and numbers that are not positive, have no place in it.

        Args:
            ax: axes to draw on; new ones by default.

        Raises:
            ValueError: there is nothing to draw.
        """
        from d2lperf import plotting

        drawn = [p for p in self._made if math.isfinite(p.factor)]
        if not drawn:
            raise ValueError("no prediction has a positive score yet: call .score(measured) first.")
        ends = [[p.low, p.high] if _drawable(p.low, p.high) else [None, None] for p in drawn]
        return plotting.scores(
            [(p.label, p.value, p.measured, *pair) for p, pair in zip(drawn, ends)], ax=ax
        )

    def clear(self) -> None:
        """Forget the predictions of this session."""
        _session.clear()


def predictions() -> Predictions:
    """Return the predictions of this session: text, an HTML table and `.plot()`."""
    return Predictions(list(_session.values()))


_session: dict[str, Prediction] = {}


def _drawable(low: float | None, high: float | None) -> bool:
    return low is not None and high is not None and 0 < low <= high < math.inf


def _factor(said: float, measured: float | None) -> float:
    if measured is None or not (0 < said < math.inf and 0 < measured < math.inf):
        return math.nan
    return measured / said


def _number(value: Any, what: str) -> float:
    """A Python number: int for whole numbers, float for all else that can be one."""
    if isinstance(value, Integral) and not isinstance(value, bool):
        return int(value)
    try:
        if isinstance(value, (str, bytes)):
            raise TypeError
        return float(value)
    except (TypeError, ValueError, RuntimeError):
        raise TypeError(f"{what} must be a number, but got {value!r}.") from None
