"""What was measured: hold it, show it, save it. Verdicts come from `d2lperf.measuring.verdict`.

Every raw sample is kept in seconds for one call; units appear only where something is shown.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from dataclasses import MISSING, asdict, dataclass, field
from pathlib import Path
from statistics import NormalDist
from typing import Any

from d2lperf._version import __version__
from d2lperf.machine import Machine
from d2lperf.measuring import claims, stats
from d2lperf.measuring.formats import Shown, Table, format_number, format_ratio, format_seconds
from d2lperf.measuring.verdict import BASELINE, FASTER, NOT_DECIDED, SLOWER, Ratio, Rounds, judge

__all__ = ["BreakEven", "Changes", "Comparison", "Measurement", "Sweep"]

MEDIANS_DIFFER = "The median includes disturbances; the ratio leaves them out."


# ----------------------------------------------------------------------------- files


def _load(kind: type, values: Any) -> Any:
    """Make a result of plain values: unknown fields are ignored, those with a default may lack."""
    name = kind.__name__.lower()
    found = values.get("kind") if isinstance(values, dict) else type(values).__name__
    if found != name:
        raise ValueError(
            f"this file holds {found!r}, not a {name}. Use the load() of the class that saved it."
        )
    try:
        return kind(**_fields(kind, values))
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise ValueError(
            f"this is not a {name} that d2lperf can read: {error}. The file was cut, edited, or "
            f"written by another version (it says {values.get('d2lperf')!r}; this is {__version__})."
        ) from None


def _fields(kind: type, values: dict) -> dict:
    """The fields of a dataclass among the values, nested ones made anew."""
    known = kind.__dataclass_fields__
    lacking = [
        name
        for name, f in known.items()
        if name not in values and f.default is MISSING and f.default_factory is MISSING
    ]
    if lacking:
        raise ValueError(f"it lacks {', '.join(lacking)}")
    made = {name: value for name, value in values.items() if name in known}
    if made.get("machine") is not None:
        made["machine"] = Machine.from_dict(made["machine"])
    if kind is Comparison:
        made["rounds"] = Rounds(**_fields(Rounds, made["rounds"]))
    if kind is Sweep:
        made["comparisons"] = [Comparison(**_fields(Comparison, c)) for c in made["comparisons"]]
    for name in ("lower_s", "upper_s") if kind is Rounds else ():
        made[name] = {key: [(a, b) for a, b in pairs] for key, pairs in made[name].items()}
    return made


def _plain(value: Any) -> Any:
    """What JSON writes for a value that it does not know: a number, or text."""
    return value.item() if hasattr(value, "item") else str(value)


class Saved:
    """A result that is written to a JSON file and read back."""

    def save(self, path: str | Path) -> None:
        """Write everything, raw samples and the machine's card included, to a JSON file.

        Args:
            path: of the file, which is replaced.
        """
        kind = type(self).__name__.lower()
        values = {"d2lperf": __version__, "kind": kind, **asdict(self)}
        Path(path).write_text(json.dumps(values, default=_plain) + "\n", encoding="utf-8")

    @classmethod
    def load(cls, path: str | Path):
        """Return what `save` wrote, by this or another version of d2lperf.

        Args:
            path: of the file.

        Raises:
            OSError: the file cannot be read.
            ValueError: the file is not JSON, holds something else, or lacks a field.
        """
        text = Path(path).read_text(encoding="utf-8")
        try:
            values = json.loads(text)
        except json.JSONDecodeError as error:
            raise ValueError(f"{Path(path).name} is not JSON: {error}.") from None
        return _load(cls, values)


# ----------------------------------------------------------------------------- one function


@dataclass(frozen=True, repr=False)
class Measurement(Shown, Saved):
    """Times of one function, in seconds for one call.

    Attributes:
        name: what was measured.
        samples_s: every sample after the warm-up, in order, each the mean of `loops` calls.
        first_calls_s: the calls of the warm-up one by one; the first is the first call ever.
        loops: calls in a sample.
        samples_per_phase: samples taken in a row. They are not independent, phases nearly are.
        confidence: of the interval.
        elapsed_s: seconds that the measuring itself took.
        notes: what the reader should know.
        machine: the card of the machine, or None.
    """

    name: str
    samples_s: list[float]
    first_calls_s: list[float]
    loops: int = 1
    samples_per_phase: int = 1
    confidence: float = 0.95
    elapsed_s: float = 0.0
    notes: list[str] = field(default_factory=list)
    machine: Machine | None = None

    @property
    def median_s(self) -> float:
        """Median time of one call in seconds; nan without samples."""
        return stats.median(self.samples_s) if self.samples_s else math.nan

    @property
    def quartiles_s(self) -> tuple[float, float]:
        """Lower and upper quartile of the samples in seconds; nan without samples."""
        return stats.quartiles(self.samples_s) if self.samples_s else (math.nan, math.nan)

    @property
    def first_call_s(self) -> float:
        """Seconds of the very first call: compilation, caches and allocation included."""
        return self.first_calls_s[0] if self.first_calls_s else math.nan
