"""What `measure` and `compare` are given: checked, and with names for the functions."""

from __future__ import annotations

import ast
import inspect
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Any

from d2lperf.measuring import stats

LONGEST_NAME = 40


def check_callable(fn: Any, what: str) -> None:
    """Raise TypeError unless `fn` can be called."""
    if not callable(fn):
        kind = type(fn).__name__
        raise TypeError(f"{what} must be a function, but got {kind}; wrap the work: lambda: net(x)")


def named(functions: Mapping[str, Callable] | Iterable[Callable]) -> dict[str, Callable]:
    """Return name -> function, or raise an error that says what is wrong."""
    wanted = 'a dictionary of functions, such as {"eager": f, "scripted": g}'
    if callable(functions) or isinstance(functions, str) or not isinstance(functions, Iterable):
        raise TypeError(f"compare takes {wanted}, but got {type(functions).__name__}.")
    if isinstance(functions, Mapping):
        names, fns = [str(name) for name in functions], list(functions.values())
    else:
        fns = list(functions)
        names = _names_of(fns)
    for name, fn in zip(names, fns):
        check_callable(fn, repr(name))
    if len(set(names)) < len(names):
        raise ValueError(f"two functions share a name: {names}. Give {wanted}.")
    if len(names) < 2:
        raise ValueError(f"compare needs at least two functions: {names}. measure() times one.")
    return dict(zip(names, fns))


def name_of(fn: Callable) -> str:
    """Return a function's name; of a lambda the text of its code, cut where it is long."""
    return _shortened(_full_name(fn))


def _names_of(fns: list[Callable]) -> list[str]:
    """Short names; the full ones where short ones would be the same."""
    short = [name_of(fn) for fn in fns]
    count = Counter(short)
    return [name if count[name] == 1 else _full_name(fn) for name, fn in zip(short, fns)]


def _shortened(name: str) -> str:
    return name if len(name) <= LONGEST_NAME else name[: LONGEST_NAME - 3].rstrip() + "..."


def _full_name(fn: Callable) -> str:
    name = getattr(fn, "__name__", None) or type(fn).__name__
    if name != "<lambda>":
        return name
    text = ""
    with suppress(OSError, TypeError, SyntaxError, ValueError):
        text = _text_of(fn)
    return " ".join(text.split()) or "function"


def _text_of(fn: Callable) -> str:
    """The source of a lambda's body, "" where it cannot be told from another on its line."""
    code, source = fn.__code__, "".join(inspect.findsource(fn)[0])
    lambdas = (node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Lambda))
    found = [node.body for node in lambdas if node.lineno == code.co_firstlineno]
    if len(found) > 1 and hasattr(code, "co_positions"):  # not before Python 3.11
        places = set(code.co_positions())
        ends = [(b.lineno, b.end_lineno, b.col_offset, b.end_col_offset) for b in found]
        found = [body for body, place in zip(found, ends) if place in places]
    if len(found) != 1:
        return ""
    return ast.get_source_segment(source, found[0]) or ""


def check_setup(setup: Any) -> None:
    """Raise TypeError unless `setup` is a function or None."""
    if setup is not None:
        check_callable(setup, "setup")


def check_budget(budget_s: float | None, confidence: float, threads: int | None) -> None:
    """Raise where a time, a probability or a number of threads cannot be one."""
    stats.min_pairs(confidence)  # raises an error if it is invalid
    if budget_s is not None and not budget_s > 0:
        raise ValueError(f"budget_s is a time in seconds above 0, but got {budget_s!r}.")
    if threads is not None and (isinstance(threads, bool) or not isinstance(threads, int)):
        raise TypeError(f"threads is a whole number of 1 or more, but got {threads!r}.")
    if threads is not None and threads < 1:
        raise ValueError(f"threads is a whole number of 1 or more, but got {threads!r}.")


def check_margin(margin: float) -> None:
    """Raise ValueError unless the margin is a fraction."""
    if not 0 <= margin < 1:
        raise ValueError(f"margin is a fraction such as 0.02 for 2 %, but got {margin!r}.")


def check_of_results(check: Any, rtol: float | None, atol: float | None) -> None:
    """Raise where it is not clear how results are to be compared."""
    if not isinstance(check, bool) and not callable(check):
        wanted = "True, False or a function of two results (tolerances are rtol= and atol=)"
        raise TypeError(f"check must be {wanted}, but got {check!r}.")
    if check is not True and (rtol is not None or atol is not None):
        raise ValueError("rtol and atol belong to check=True; a check of your own has its own.")
    for name, value in {"rtol": rtol, "atol": atol}.items():
        if value is not None and not value >= 0:
            raise ValueError(f"{name} must be a number of 0 or more, but got {value!r}.")
