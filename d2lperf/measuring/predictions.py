"""Numbers that are stated before they are measured, and the line that scores them."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import date
from functools import partial
from numbers import Integral
from typing import Any, NamedTuple

from d2lperf.formats import Table, format_estimate, format_value, html_table, print_line
from d2lperf.machine import Machine, describe_machine
from d2lperf.measuring import recorded
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
    """Return the predictions of this session, which show themselves as text or as a table.

    Beside this run stands what another machine measured, where the notebooks are in a clone that
    has a record of their predictions (`notebooks/recorded`): of a machine with other accelerators
    if there is one, and otherwise the newest.

    Raises:
        ValueError: a file of `notebooks/recorded` is not a recorded run.
    """
    return Predictions(tuple(_session.values()), describe_machine(), date.today().isoformat())


class Cells(NamedTuple):
    """A prediction as texts, "" where there is nothing to tell."""

    predicted: str
    measured: str
    off: str
    guess: str = ""
    guess_off: str = ""


@dataclass(eq=False, repr=False)
class Prediction:
    """A number that was stated before it was measured; made by `predict`."""

    label: str
    value: float
    unit: str = ""
    own: float | None = None  # the reader's guess
    measured: float | None = None
    interval: tuple[float, float] | None = None  # 0 to infinity where nothing is known
    published: str = ""  # the card on which others measured it; "" where this run did

    def guess(self, value: float) -> None:
        """Note the reader's own number, in the same unit; `score` shows how it turned out too."""
        self.own = _number(value, "a guess")

    def score(
        self,
        measured: Any,
        low: float | None = None,
        high: float | None = None,
        *,
        published: str = "",
    ) -> None:
        """Note what was measured; print it beside the prediction.

        `measured` is a number in the unit of the prediction, with its interval (a result brings its
        own); the `Ratio` of a comparison; or for a prediction in seconds a `Measurement` or
        `Ratio`, of which the median counts. `published`: the card, such as "RTX 4090", on which
        others measured the number and printed it; it has its own column in the table.
        """
        self.published = published
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
        cells = self.cells()
        line = f"{self.label}: predicted {cells.predicted}, "
        if self.measured is None:
            return line + cells.measured + (f", your guess {cells.guess}" if cells.guess else "")
        line += f"{self.source} {cells.measured}, {cells.off}"
        return f"{line}\n  your guess {cells.guess}, {cells.guess_off}" if cells.guess else line

    __repr__ = __str__

    @property
    def source(self) -> str:
        """Who measured: "measured", or "published on RTX 4090"."""
        return f"published on {self.published}" if self.published else "measured"

    def cells(self) -> Cells:
        """Return as texts: predicted, measured and how far off; the guess and how far off."""
        show = partial(format_value, unit=self.unit)
        said, own = show(self.value), "" if self.own is None else show(self.own)
        if self.measured is None:
            return Cells(said, "not measured yet", "", own)
        found = show(self.measured)
        if self.interval and not math.isnan(self.measured):
            found = format_estimate(self.measured, *self.interval, show)
        off = self._off(self.value, self.measured, "as predicted")
        own_off = "" if self.own is None else self._off(self.own, self.measured, "right")
        return Cells(said, found, off, own, own_off)

    @property
    def key(self) -> recorded.Key:
        """What the prediction is found by in a recorded run."""
        return recorded.Key(self.label, self.unit)

    def to_dict(self) -> dict:
        """Return the prediction as values that JSON can hold: inf and nan are texts."""
        return {
            "text": self.label,
            "predicted": _plain(self.value),
            "measured": _plain(self.measured),
            "interval": self.interval and [_plain(end) for end in self.interval],
            "unit": self.unit,
            "guess": _plain(self.own),
            "published": self.published,
        }

    @classmethod
    def from_dict(cls, values: dict) -> Prediction:
        """Return the prediction that `to_dict` wrote."""
        guess, measured, ends = values["guess"], values["measured"], values["interval"]
        return cls(
            values["text"],
            _from_plain(values["predicted"]),
            values["unit"],
            None if guess is None else _from_plain(guess),
            None if measured is None else _from_plain(measured),
            None if ends is None else (_from_plain(ends[0]), _from_plain(ends[1])),
            values["published"],
        )

    @property
    def is_measured_here(self) -> bool:
        """Whether this run measured it, and both numbers are known."""
        if self.measured is None or self.published:
            return False
        return _finite(self.value) and _finite(self.measured)

    def measured_here(self) -> dict:
        """Return what a recorded run keeps; an interval only where both ends are known."""
        kept = {name: value for name, value in self.to_dict().items() if name in recorded.KEYS}
        if self.interval and not all(map(_finite, self.interval)):
            kept["interval"] = None
        return kept

    def _off(self, number: float, measured: float, close: str) -> str:
        """How far a number is off what was measured, or the word for close."""
        if _positive(number, measured):
            factor = max(number / measured, measured / number)
            far = f"a factor of {factor:.{_digits(factor)}f}"
        else:
            factor, far = math.inf, format_value(abs(measured - number), self.unit)
        if number == measured or factor < CLOSE:
            return close
        low, high = self.interval or (math.nan, math.nan)
        inside = low <= number <= high and (low > 0 or high < math.inf)
        return f"off by {far}{' (inside the interval)' if inside else ''}"


@dataclass(eq=False, repr=False)
class Predictions:
    """The predictions of a session in order; shows as lines of text or as a table.

    Attributes:
        rows: the predictions.
        card: the machine of this run.
        day: the day of this run, such as "2026-11-23".
        beside: what another machine measured, where something is recorded.
    """

    rows: tuple[Prediction, ...]
    card: Machine
    day: str
    beside: recorded.Column | None = field(init=False)

    def __post_init__(self) -> None:
        own = {p.key: math.nan if p.measured is None else p.measured for p in self.rows}
        self.beside = recorded.choose(recorded.read(), self.card, own)

    def __iter__(self) -> Iterator[Prediction]:
        return iter(self.rows)

    def __str__(self) -> str:
        lines = [str(p) + self._recorded_line(p) for p in self.rows]
        return "\n".join(lines) or "no predictions yet"

    __repr__ = __str__

    def _recorded(self, prediction: Prediction) -> str:
        """What the recorded run measured, and predicted if not the same; "" where it has not."""
        if self.beside is None or prediction.published:
            return ""
        found = self.beside.numbers.get(prediction.key)
        if found is None:
            return ""
        predicted, measured = (format_value(number, prediction.unit) for number in found)
        same = predicted == prediction.cells().predicted
        return measured if same else f"{measured} (predicted {predicted})"

    def _recorded_line(self, prediction: Prediction) -> str:
        found = self._recorded(prediction)
        if self.beside is None or not found:
            return ""
        return f"\n  recorded on {self.beside.machine}: {found}"

    def _row(self, p: Prediction) -> dict[str, str]:
        """The texts of one prediction by column. The score line has the interval."""
        cells = p.cells()
        found = "not measured yet" if p.measured is None else format_value(p.measured, p.unit)
        machine = self.beside.machine if self.beside else ""
        return {
            "prediction": p.label,
            "predicted": cells.predicted,
            "this run": "" if p.published else found,
            f"recorded on {machine}": self._recorded(p),
            "published": f"{found} ({p.published})" if p.published else "",
            "result": cells.off,
            "your guess": cells.guess,
            "its result": cells.guess_off,
        }

    def _repr_html_(self) -> str:
        """A table. The class `score` marks what differs from run to run (tests/sanitize.cfg)."""
        rows = [self._row(p) for p in self.rows]
        always = ["prediction", "predicted", "this run", "result"]
        columns = list(rows[0]) if rows else always
        shown = [c for c in columns if c in always or any(row[c] for row in rows)]
        texts = [[row[column] for column in shown] for row in rows]
        return html_table(Table(shown, texts, scores=tuple(range(1, len(shown)))))

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> tuple[dict, dict]:
        """What a notebook stores beside text and table; notebooks/build.py reads it."""
        return {}, {"d2lperf": self.to_dict()}

    def to_dict(self) -> dict:
        """Return the run as values that JSON can hold."""
        rows = [p.to_dict() for p in self.rows]
        return {"date": self.day, "card": self.card.to_dict(), "predictions": rows}

    @classmethod
    def from_dict(cls, values: dict) -> Predictions:
        """Return the run that `to_dict` wrote, beside what is recorded today."""
        rows = tuple(map(Prediction.from_dict, values["predictions"]))
        return cls(rows, Machine.from_dict(values["card"]), values["date"])

    def measured_here(self) -> list[dict]:
        """Return what a recorded run keeps: each prediction that this machine has measured."""
        return [p.measured_here() for p in self.rows if p.is_measured_here]


def _finite(value: float) -> bool:
    return abs(value) < math.inf


def _plain(value: float | None) -> float | str | None:
    """A number as JSON can hold it."""
    return value if value is None or _finite(value) else repr(value)


def _from_plain(value: float | str) -> float:
    return float(value) if isinstance(value, str) else value


def _digits(factor: float) -> int:
    """Digits after the point of a factor: enough to tell it from 1, none for large ones."""
    if factor < 1.055:
        return 3
    if factor < 1.095:
        return 2
    return 1 if factor < 99.5 else 0


def _positive(*values: float) -> bool:
    return all(0 < value < math.inf for value in values)


def _number(value: Any, what: str) -> float:
    """A Python number: int for whole numbers, float for all else that can be one."""
    try:
        return int(value) if isinstance(value, Integral) else float(value + 0)
    except (TypeError, ValueError, RuntimeError):
        raise TypeError(f"{what} must be a number, but got {value!r}.") from None
