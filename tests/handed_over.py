"""Whether a message of a checker tells the result that an exercise asks for.

A checker is run on a wrong answer whose calls are noted; the folded answer is then called with the
same arguments. A message may name what went in and what came back, but no other number or text
of the right result.
"""

import copy
import functools
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from numbers import Real

import numpy as np
import torch

NUMBER = re.compile(r"(?<![\w.])-?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?(?:e[+-]?\d+)?")


@dataclass
class Call:
    """A call by a checker: the arguments, and result and arguments after it, as it is and right."""

    given: object
    found: object = None
    right: object = None

    def told_by(self, message):
        """Numbers and texts of the right result that a message tells; none that it was given."""
        known = values_in(self.given) | values_in(self.found)
        written = [text for text in NUMBER.findall(message) if not is_any(text, known)]
        return {
            value
            for value in values_in(self.right) - known
            if (isinstance(value, str) and re.search(rf"\b{re.escape(value)}\b", message))
            or (not isinstance(value, str) and any(is_rounded(text, value) for text in written))
        }


class Noted:
    """A learner's function that notes what its last call was given and what came back."""

    def __init__(self, function):
        functools.update_wrapper(self, function)
        self.function, self.given, self.mine, self.found = function, None, None, None
        self.kwargs = {}

    def __call__(self, *args, **kwargs):
        args = [list(a) if isinstance(a, Iterator) else a for a in args]
        self.given, self.mine, self.found = copies(args), copies(args), None
        self.kwargs = kwargs
        result = self.function(*map(again, args), **kwargs)
        self.found = [result, args]
        return result

    def last_call(self, right):
        """The last call, and what the right function makes of it; nothing where it refuses."""
        try:
            result = right(*map(again, self.mine), **self.kwargs)
        except ValueError:  # the exercise asks for one
            return Call([self.given, self.kwargs], self.found)
        return Call([self.given, self.kwargs], self.found, [result, self.mine])


def again(value):
    """An argument as the checker gave it: losses come as an iterator."""
    losses = isinstance(value, list) and value and isinstance(value[0], torch.Tensor)
    return iter(value) if losses and value[0].dim() == 0 else value


def copies(args):
    """Copies of arguments, but neither of functions nor of the objects that they move."""
    owners = [getattr(a, "__self__", None) for a in args]
    return [a if callable(a) or any(a is o for o in owners) else copied(a) for a in args]


def copied(value):
    """A copy, where there can be one: losses on a device and timelines do not change."""
    try:
        return copy.deepcopy(value)
    except (TypeError, RuntimeError, NotImplementedError):
        return value


def values_in(value):
    """The numbers and texts in a result or in arguments."""
    if isinstance(value, (np.ndarray, np.generic, torch.Tensor)):
        value = value.tolist()
    if isinstance(value, str):
        return {str(value)}
    if isinstance(value, Real):
        return {float(value)}
    if hasattr(value, "spans"):
        value = [(*span, span.end_s) for span in value.spans]
    if isinstance(value, Mapping):
        value = [*value.keys(), *value.values()]
    if isinstance(value, (list, tuple, set)):
        return set().union(*map(values_in, value))
    return set()


def is_any(text, values):
    """Whether a written number is one of these values."""
    return any(is_rounded(text, value) for value in values if not isinstance(value, str))


def is_rounded(text, number):
    """Whether a written number is this one, exactly or rounded to three digits or more."""
    text = text.replace(",", "")
    digits = len(re.sub(r"e.*|\D", "", text).lstrip("0"))
    rounded = float(f"{number:.{digits}g}") if digits >= 3 else number
    return float(text) in (number, rounded)
