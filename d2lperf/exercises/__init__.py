"""What a checker of exercises is made of. Each notebook's checkers are in a module of their own.

A notebook imports its module and ends a cell with a call that shows a `Feedback`:

    from d2lperf.exercises import nb01
    nb01.check_time_job(time_job)

A checker never raises because of the learner's code and never depends on the machine's speed. Its
messages show the input, what came back and what is wrong in it, but not the right result. Numbers,
pairs and lists are read by d2lperf/exercises/values.py, so that their type does not matter.
"""

from __future__ import annotations

import functools
import html
import inspect
import linecache
import re
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from types import FrameType
from typing import Any, NamedTuple

from d2lperf.installed import is_installed

__all__ = ["Feedback", "call_text", "checker", "failed", "gave", "not_attempted", "passed", "show"]

# Sign and colour (of Okabe and Ito, distinguishable for everyone) of each status.
_SIGNS = {
    "not attempted": ("\N{WHITE CIRCLE}", "#767676"),
    "passed": ("\N{CHECK MARK}", "#009e73"),
    "failed": ("\N{MULTIPLICATION SIGN}", "#d55e00"),
}


_NUMPY_NUMBER = re.compile(r"\bnp\.(?:float|int)\d+\(([^()]*)\)")


@dataclass(frozen=True)
class Feedback:
    """What a checker found.

    Args:
        status: "not attempted", "passed" or "failed".
        message: one or two sentences for the learner; a failure needs one.

    Raises:
        ValueError: another status, or a failure without a message.

    >>> print(Feedback("passed", "Every quartile is right."))
    ✓ passed: Every quartile is right.
    """

    status: str
    message: str = ""

    def __post_init__(self):
        if self.status not in _SIGNS:
            raise ValueError(f"status must be one of {', '.join(_SIGNS)}; got {self.status!r}")
        if self.status == "failed" and not self.message.strip():
            raise ValueError("a failed exercise must say why: give a reason")

    def __str__(self) -> str:
        sign, _ = _SIGNS[self.status]
        return f"{sign} {self.status}: {self.message}" if self.message else f"{sign} {self.status}"

    __repr__ = __str__

    def _repr_html_(self) -> str:
        sign, colour = _SIGNS[self.status]
        message = html.escape(self.message).replace("\n", "<br>")
        return (
            f'<div style="border-left: 4px solid {colour}; padding: 0.2em 0.8em">'
            f"<strong>{sign} {self.status}</strong>"  # in the theme's colour, to be read in each
            f"{'<br>' if message else ''}{message}</div>"
        )


def not_attempted() -> Feedback:
    """Return the feedback for a stub that is as it was."""
    return Feedback("not attempted", "Replace the stub above, run its cell, then run this one.")


def passed(message: str = "") -> Feedback:
    """Return the feedback for a right answer, with what the learner may take along."""
    return Feedback("passed", message)


def failed(reason: str) -> Feedback:
    """Return the feedback for a wrong answer.

    Args:
        reason: what was expected and what was found; not the answer itself.
    """
    return Feedback("failed", reason)


def checker(check: Callable[..., Feedback]) -> Callable[..., Feedback]:
    """Decorate a function that inspects an answer, so that no answer makes it raise.

    An argument that is None, or code that raises the stub's NotImplementedError, has not been
    attempted. Any other exception is a failure; the message says what was raised in which line of
    the learner, or is the text of an AssertionError.

    Args:
        check: function of the learner's values or functions that returns a `Feedback`.

    Returns:
        A function of the same arguments, marked with the attribute `is_checker`.

    Raises:
        TypeError: when called, if `check` returned no `Feedback`: a mistake of the checker.

    >>> @checker
    ... def check_total(total):
    ...     return passed() if total == 6 else failed(f"1 + 2 + 3 is not {show(total)}")
    >>> check_total(7)
    × failed: 1 + 2 + 3 is not 7
    >>> check_total(None).status
    'not attempted'
    """

    @functools.wraps(check)
    def checked(*args: Any, **kwargs: Any) -> Feedback:
        if any(value is None for value in (*args, *kwargs.values())):
            return not_attempted()
        try:
            feedback = check(*args, **kwargs)
        except NotImplementedError as error:
            # Also torch raises it, for an operator that a device lacks.
            frames = _learners_frames(error, check)
            if not frames or _line(frames[-1])[1].startswith("raise NotImplementedError"):
                return not_attempted()
            return failed(_told(error, check))
        except Exception as error:
            return failed(_told(error, check))
        if not isinstance(feedback, Feedback):
            raise TypeError(
                f"{check.__name__} must return passed(), failed(reason) or not_attempted(); "
                f"it returned {type(feedback).__name__}"
            )
        return feedback

    vars(checked)["is_checker"] = True
    return checked


def show(value: Any, limit: int = 80) -> str:
    """Return a value as one short line of text; of arrays and tensors only shape and dtype.

    NumPy's numbers look like Python's.

    Args:
        value: anything that a learner handed in.
        limit: longest text, in characters.

    >>> show([0.1, 0.25]), show(len)
    ('[0.1, 0.25]', 'the function len')
    >>> show(list(range(100)), limit=20)
    '[0, 1, 2, 3, 4, 5...'
    """
    try:
        text = _shown(value)
    except Exception as error:  # a learner's own class may have a broken repr
        text = f"a {type(value).__name__} whose repr raises {type(error).__name__}"
    return text if len(text) <= limit else text[: limit - 3] + "..."


def _shown(value: Any) -> str:
    if callable(value) and hasattr(value, "__name__"):
        return f"the {'class' if isinstance(value, type) else 'function'} {value.__name__}"
    shape, dtype = getattr(value, "shape", None), getattr(value, "dtype", None)
    if shape is not None and dtype is not None and len(shape) > 0:
        return f"{type(value).__name__} of shape {tuple(shape)} and dtype {dtype}"
    return " ".join(_NUMPY_NUMBER.sub(r"\1", repr(value)).split())


def call_text(function: Callable, *args: Any, **kwargs: Any) -> str:
    """Return a call as it would be written, to say which one went wrong.

    >>> call_text(max, [3, 1], default=0)
    'max([3, 1], default=0)'
    """
    inside = [show(a) for a in args] + [f"{name}={show(a)}" for name, a in kwargs.items()]
    return f"{getattr(function, '__name__', type(function).__name__)}({', '.join(inside)})"


def gave(found: Any, function: Callable, *args: Any, **kwargs: Any) -> str:
    """Return a call and its result, as the beginning of a message.

    Args:
        found: what the call returned.
        function: the learner's function.
        *args: its arguments.
        **kwargs: its arguments by name.

    >>> gave(3, max, [3, 1], default=0)
    'max([3, 1], default=0) gave 3'
    """
    return f"{call_text(function, *args, **kwargs)} gave {show(found)}"


def _told(error: Exception, check: Callable) -> str:
    """One sentence on what the learner's code raised, or the checker on its result."""
    text = str(error).strip()
    if isinstance(error, AssertionError) and text:
        return text.splitlines()[0]
    what = f"{type(error).__name__}: {text}" if text else type(error).__name__
    frames = _learners_frames(error, check)
    if not frames:
        return f"Your answer could not be used as the task asks; trying it raised {what}"
    number, source = _line(frames[-1])
    line = f"line {number}{f': {source}' if source else ''}"
    return f"Your code raised {what} ({line}){_arguments(frames[0].frame)}"


class _Place(NamedTuple):
    frame: FrameType
    number: int  # of the line


def _learners_frames(error: Exception, check: Callable) -> list[_Place]:
    """Places outside the checker and all that is installed, the outermost first."""
    return [
        _Place(frame, number)
        for frame, number in traceback.walk_tb(error.__traceback__)
        if frame.f_code.co_filename != check.__code__.co_filename
        and not is_installed(frame.f_code.co_filename)
    ]


def _line(place: _Place) -> tuple[int, str]:
    name = place.frame.f_code.co_filename
    return place.number, linecache.getline(name, place.number).strip()


def _arguments(frame: FrameType) -> str:
    """What the arguments of a learner's function are when it raises; the code may change them."""
    names, more, _, values = inspect.getargvalues(frame)
    names = [n for n in (*names, more) if n and n in values and n != "self" and n[0] != "."]
    shown = ", ".join(f"{name}={show(values[name])}" for name in names)
    return f", where {shown}" if shown else ""
