"""Results as JSON files: written whole or not at all, read by other versions too."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, fields, is_dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch

from d2lperf._version import __version__
from d2lperf.files import write_whole


def encoded(value: Any) -> Any:
    """Return a key of the user's as plain values that JSON can hold."""
    if isinstance(value, torch.dtype):
        return {"dtype": str(value).removeprefix("torch.")}
    if isinstance(value, torch.Tensor):
        return {**_elements("tensor", value), **encoded(value.dtype)}
    if isinstance(value, np.ndarray):
        return {**_elements("array", value), "dtype": str(value.dtype)}
    if isinstance(value, complex):
        return {"complex": [value.real, value.imag]}
    if isinstance(value, tuple):
        return {"tuple": [encoded(part) for part in value]}
    if isinstance(value, list):
        return [encoded(part) for part in value]
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    # A number of another library has no dimensions; types of numbers, too, have the method.
    is_number = hasattr(value, "item") and getattr(value, "ndim", None) == 0
    return value.item() if is_number else str(value)


def _elements(kind: str, value: torch.Tensor | np.ndarray) -> dict[str, Any]:
    """The elements as nested lists; also the shape where these do not tell it."""
    shape = {"shape": list(value.shape)} if 0 in value.shape else {}
    return {kind: encoded(value.tolist()), **shape}


def decoded(value: Any) -> Any:
    """Return what `encoded` was given."""
    if isinstance(value, list):
        return [decoded(part) for part in value]
    if not isinstance(value, dict):
        return value
    if "tensor" in value:
        tensor = torch.tensor(decoded(value["tensor"]), dtype=getattr(torch, value["dtype"]))
        return tensor.reshape(value.get("shape", tensor.shape))
    if "array" in value:
        array = np.array(decoded(value["array"]), dtype=value["dtype"])
        return array.reshape(value.get("shape", array.shape))
    if "complex" in value:
        return complex(*value["complex"])
    if "tuple" in value:
        return tuple(decoded(part) for part in value["tuple"])
    return getattr(torch, value["dtype"])


class Saved:
    """A dataclass that is written to a JSON file and read back, by other versions too."""

    # Name of a field -> function that makes it from the plain value in a file.
    made_by: ClassVar[dict[str, Callable]] = {}

    def save(self, path: str | Path) -> None:
        """Write everything, raw samples and the machine's card included, to a JSON file."""
        values = {"d2lperf": __version__, "kind": type(self).__name__}
        text = json.dumps(values | self.to_dict(), default=encoded)
        write_whole(path, text + "\n")

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain values, but for numbers of other libraries."""
        assert is_dataclass(self)
        return asdict(self)

    @classmethod
    def load(cls, path: str | Path) -> Any:
        """Return what `save` wrote, in any version; ValueError where it cannot be understood."""
        file = Path(path).name
        try:
            values = json.loads(Path(path).read_text(encoding="utf-8"))
            kind = values["kind"]
            if kind == cls.__name__:
                return cls.made_of(values)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise ValueError(
                f"{file} is not a {cls.__name__} that d2lperf {__version__} can read: it was cut, "
                f"edited, or written by another version ({type(error).__name__}: {error})."
            ) from None
        raise ValueError(f"{file} holds a {kind}, not a {cls.__name__}: use {kind}.load().")

    @classmethod
    def made_of(cls, values: dict) -> Any:
        """Make a result of plain values; unknown names are ignored, defaults may be missing."""
        assert is_dataclass(cls)
        names = [one.name for one in fields(cls)]
        made = {name: values[name] for name in names if name in values}
        for name, make in cls.made_by.items():
            if made.get(name) is not None:
                made[name] = make(made[name])
        return cls(**made)
