"""Runs of the notebooks on named machines: `notebooks/recorded/*.json`, by `make record`."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from datetime import date
from pathlib import Path
from typing import NamedTuple

from d2lperf.machine import Machine

# In a clone. An installed package has no notebooks beside it, and then nothing is recorded.
FOLDER = Path(__file__).resolve().parents[2] / "notebooks" / "recorded"
KEYS = {"text", "predicted", "measured", "interval", "unit"}


class Key(NamedTuple):
    """What a prediction is found by: its text and its unit."""

    text: str
    unit: str


class Found(NamedTuple):
    """What a recorded run predicted, and what it measured."""

    predicted: float
    measured: float


class Record(NamedTuple):
    """A run of course and studies.

    Attributes:
        card: the machine, with the versions of what ran.
        day: the day of the run, such as "2026-11-23".
        notebooks: what was found, by notebook and prediction.
    """

    card: Machine
    day: str
    notebooks: Mapping[str, Mapping[Key, Found]]

    def notebook_of(self, keys: Iterable[Key]) -> Mapping[Key, Found]:
        """Return what was found in the notebook that has most of these predictions."""
        keys = set(keys)
        best = max(self.notebooks.values(), key=lambda found: len(keys & set(found)), default={})
        return {key: found for key, found in best.items() if key in keys}


class Column(NamedTuple):
    """What another run found: the name of its machine, and its numbers by prediction."""

    machine: str
    numbers: Mapping[Key, Found]


def read() -> list[Record]:
    """Return the runs in `FOLDER`, in the order of their files; none where there is no folder.

    Raises:
        ValueError: a file is not a recorded run.
    """
    return [read_file(path) for path in sorted(FOLDER.glob("*.json"))]


def read_file(path: Path) -> Record:
    """Return the run in a file; raise a ValueError where it is not a recorded run."""
    try:
        return _record(json.loads(path.read_text(encoding="utf-8")))
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise ValueError(
            f"notebooks/recorded/{path.name} is not a recorded run: "
            f"{type(error).__name__}: {error}. Remove the file, or write it again: make record"
        ) from None


def _record(values: dict) -> Record:
    """Return the run that a file holds; raise one of the usual errors where it holds none."""
    day, card = values["date"], Machine.from_dict(values["card"])
    date.fromisoformat(day)
    if not card.versions:
        raise KeyError("card.versions")
    notebooks = {name: _numbers(rows) for name, rows in values["notebooks"].items()}
    return Record(card, day, notebooks)


def _numbers(rows: list[dict]) -> dict[Key, Found]:
    """Return what a notebook found, by prediction."""
    found = {}
    for row in rows:
        if set(row) != KEYS:
            raise ValueError(f"a prediction has {sorted(KEYS)}, but found {sorted(row)}")
        for name in ("predicted", "measured"):
            if isinstance(row[name], bool) or not isinstance(row[name], (int, float)):
                raise ValueError(f"{row['text']!r}: {name} is {row[name]!r} and no number")
        found[Key(row["text"], row["unit"])] = Found(row["predicted"], row["measured"])
    return found


def choose(records: Iterable[Record], this: Machine, own: Mapping[Key, float]) -> Column | None:
    """Return the numbers to show beside those of this run, or None where there are none.

    A machine with other accelerators than this one comes first: a GPU's numbers beside a CPU's.
    Then comes one with another processor, then the newest run. A record of this very run would say
    nothing new; another machine that found the same does.

    Args:
        records: what was recorded.
        this: this machine.
        own: what this run measured (nan where it has not), by prediction.
    """
    best, best_rank = None, (False, False, "")
    for record in records:
        numbers = record.notebook_of(own)
        card = record.card
        other = (
            card.accelerators != this.accelerators,
            card.processor_name != this.processor_name,
        )
        equal = all(own[key] == found.measured for key, found in numbers.items())
        if not numbers or (equal and not any(other)):
            continue
        rank = (*other, record.day)
        if best is None or rank > best_rank:
            best, best_rank = Column(card.name, numbers), rank
    return best


def file_name(card: Machine) -> str:
    """Return the name of the file for a machine.

    >>> file_name(Machine(processor="AMD EPYC 9654 96-Core Processor", cores_usable=16))
    '16-core-amd-epyc-9654.json'
    """
    names = [card.name, card.processor_name] if card.accelerators else [card.processor_name]
    return re.sub(r"[^a-z0-9]+", "-", " ".join(names).lower()).strip("-") + ".json"


def to_text(day: str, card: Machine, notebooks: Mapping[str, list[dict]]) -> str:
    """Return a run as it stands in its file; `read` takes it back.

    Args:
        day: the day of the run, such as "2026-11-23".
        card: the machine.
        notebooks: the predictions of each notebook, as `Predictions.measured_here` returns them.
    """
    values = {"date": day, "card": card.to_dict(), "notebooks": notebooks}
    return json.dumps(values, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
