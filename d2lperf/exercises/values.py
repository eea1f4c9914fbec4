"""Numbers, whole numbers and lists as learners hand them in: from Python, NumPy or torch.

A right answer is right in any of these types, so checkers read every result with these functions.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from numbers import Real
from typing import Any

import numpy as np
import torch

__all__ = ["as_list", "as_number", "as_whole", "close", "off"]

_ARRAYS = (np.ndarray, np.generic, torch.Tensor)


def as_number(value: Any) -> float | int | None:
    """Return a real number as Python's, or None where a value is not one.

    Args:
        value: a number of Python or NumPy, or an array or tensor with a single element.

    >>> as_number(np.float32(0.5)), as_number(torch.tensor([3])), as_number(math.inf)
    (0.5, 3, inf)
    >>> as_number("3"), as_number(True), as_number(math.nan), as_number(np.ones(2))
    (None, None, None, None)
    """
    if isinstance(value, _ARRAYS):
        if math.prod(value.shape) != 1:
            return None
        value = value.item()
    return value if _is_number(value) else None


def _is_number(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool) and not math.isnan(value)


def as_whole(value: Any) -> int | None:
    """Return a whole number as Python's int, or None; np.ceil gives whole numbers as floats.

    >>> as_whole(np.int64(3)), as_whole(torch.tensor(3)), as_whole(3.0), as_whole(3.5)
    (3, 3, 3, None)
    """
    number = as_number(value)
    return int(number) if number is not None and float(number).is_integer() else None


def as_list(value: Any, length: int | None = None) -> list | None:
    """Return a list, tuple, array or tensor as a list, or None where a value is none of these.

    Args:
        value: what a learner returned. A text is not a list, nor is a set, which has no order.
        length: the wanted length; None for any.

    >>> as_list((1, "memory"), 2), as_list(np.arange(3)), as_list([1], 2), as_list("ab", 2)
    ([1, 'memory'], [0, 1, 2], None, None)
    """
    if isinstance(value, _ARRAYS):
        found = value.tolist() if len(value.shape) else None
    elif isinstance(value, Sequence) and not isinstance(value, (str, bytes)):
        found = list(value)
    else:
        found = None
    if found is None or length is None or len(found) == length:
        return found
    return None


def close(found: Any, right: float) -> bool:
    """Whether a value is this number up to rounding, also that of float32.

    >>> close(np.float32(0.1), 0.1), close(0.1001, 0.1), close("0.1", 0.1)
    (True, False, False)
    """
    number = as_number(found)
    return number is not None and math.isclose(number, right, rel_tol=1e-6, abs_tol=1e-12)


def off(found: Any, right: float) -> str:
    """Say what is wrong with a number, without the right one.

    >>> off(3, 2), off(1, 2), off("2", 2)
    ('too large', 'too small', 'not a number')
    """
    number = as_number(found)
    if number is None:
        return "not a number"
    return "too large" if number > right else "too small"
