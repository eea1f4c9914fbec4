"""What the functions are called that are measured: their names, or the code of a lambda."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from types import CodeType
from typing import Any

__all__ = ["check_callable", "name_of", "named"]


def check_callable(fn: Any, what: str) -> None:
    """Complain about what cannot be called."""
    if not callable(fn):
        raise TypeError(
            f"{what} must be a function, but got {type(fn).__name__}. "
            "Wrap the work: lambda: net(x)."
        )


def named(functions: Mapping[str, Callable] | Iterable[Callable]) -> dict[str, Callable]:
    """Return name -> function, with clear complaints."""
    if isinstance(functions, Mapping):
        pairs = [(str(name), fn) for name, fn in functions.items()]
    elif callable(functions) or isinstance(functions, str) or not isinstance(functions, Iterable):
        raise TypeError(
            "compare takes a dictionary of functions, such as "
            f'{{"eager": f, "scripted": g}}, but got {type(functions).__name__}.'
        )
    else:
        pairs = [(name_of(fn), fn) for fn in functions]
    for name, fn in pairs:
        check_callable(fn, repr(name))
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError(
            f"two functions share a name: {[name for name, _ in pairs]}. "
            'Give a dictionary, such as {"eager": f, "scripted": g}.'
        )
    if len(found) < 2:
        raise ValueError(
            f"compare needs at least two functions, but got {list(found)}. "
            "Use measure() for a single one."
        )
    return found


def name_of(fn: Callable) -> str:
    """A function's name; of a lambda the text of its code."""
    name = getattr(fn, "__name__", None) or type(fn).__name__
    if name != "<lambda>":
        return name
    text = ""
    with suppress(OSError, TypeError, SyntaxError, ValueError):
        source = "".join(inspect.findsource(fn)[0])
        text = _code_of_lambda(fn.__code__, source)
    return textwrap.shorten(text, 40, placeholder="...") or "function"


def _code_of_lambda(code: CodeType, source: str) -> str:
    """The text behind the colon; "" where two lambdas of a line cannot be told apart."""
    found = [
        node.body
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Lambda) and node.lineno == code.co_firstlineno
    ]
    if len(found) > 1 and hasattr(code, "co_positions"):  # not before Python 3.11
        places = set(code.co_positions())
        found = [
            b for b in found if (b.lineno, b.end_lineno, b.col_offset, b.end_col_offset) in places
        ]
    return ast.get_source_segment(source, found[0]) if len(found) == 1 else ""
