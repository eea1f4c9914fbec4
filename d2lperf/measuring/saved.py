"""Results in files: JSON that other versions can read."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import ClassVar

from d2lperf._version import __version__

__all__ = ["Saved"]


class Saved:
    """A dataclass that is written to a JSON file and read back, by other versions too."""

    # How fields are made of the plain values in a file, where they are not plain themselves.
    made_by: ClassVar[dict[str, Callable]] = {}

    def save(self, path: str | Path) -> None:
        """Write everything, raw samples and the machine's card included, to a JSON file."""
        values = {"d2lperf": __version__, "kind": type(self).__name__, **asdict(self)}
        text = json.dumps(values, default=lambda x: x.item() if hasattr(x, "item") else str(x))
        Path(path).write_text(text + "\n", encoding="utf-8")

    @classmethod
    def load(cls, path: str | Path):
        """Return what `save` wrote, by this or another version of d2lperf.

        Raises:
            ValueError: the file holds something else, or cannot be understood.
        """
        file = Path(path).name
        try:
            values = json.loads(Path(path).read_text(encoding="utf-8"))
            if (kind := values["kind"]) == cls.__name__:
                return cls.made_of(values)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise ValueError(
                f"{file} is not a {cls.__name__} that d2lperf {__version__} can read: it was cut, "
                f"edited, or written by another version ({type(error).__name__}: {error})."
            ) from None
        raise ValueError(f"{file} holds a {kind}, not a {cls.__name__}: use {kind}.load().")

    @classmethod
    def made_of(cls, values: dict):
        """Return the result of plain values; others are ignored, defaults may be missing."""
        made = {name: values[name] for name in cls.__dataclass_fields__ if name in values}
        for name, make in cls.made_by.items():
            if made.get(name) is not None:
                made[name] = make(made[name])
        return cls(**made)
