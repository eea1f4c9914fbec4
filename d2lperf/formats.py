"""How numbers are written: one definition each for times, ratios, bytes, and for tables of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from html import escape
from numbers import Integral
from typing import NamedTuple

# What takes a prefix: the unit -> the prefixes that it has, largest first.
_PREFIXES = {"s": ((1.0, ""), (1e-3, "m"), (1e-6, "µ"), (1e-9, "n"))} | dict.fromkeys(
    ("B", "B/s", "FLOP", "FLOP/s"), ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, ""))
)

MOST_MORE = 3  # digits that a number may get so that the ends of an interval differ


class Prefix(NamedTuple):
    """A prefix of a unit: how many units it stands for, and its letter."""

    size: float
    letter: str


def prefix_for(value: float, unit: str) -> Prefix | None:
    """Return the prefix with which a number is written; None for a unit that takes none."""
    if unit not in _PREFIXES:
        return None
    known = [Prefix(*row) for row in _PREFIXES[unit]]
    # 0.9995 rounds to 1.00: without the slack it would be shown as 1000 of the next unit.
    return next((p for p in known if abs(value) >= 0.9995 * p.size), known[-1])


def format_value(value: float, unit: str = "", step: float = math.inf) -> str:
    """Return a number in its unit: counts as they are, others with three significant digits.

    "s", "B", "B/s", "FLOP" and "FLOP/s" get a prefix (of powers of 1000: kB, MB, GB); any other
    unit follows the number. nan is "unknown". With a `step` there are more digits where one unit
    of the last place would be larger than it.
    """
    if math.isnan(value):
        return "unknown"
    letter = ""
    prefix = prefix_for(value, unit) if 0 < abs(value) < math.inf else None
    if prefix is not None:
        letter = prefix.letter
        whole = prefix.size == 1 and unit != "s"  # counts of bytes stay whole numbers
        if not whole:
            value, step = value / prefix.size, step / prefix.size
    if isinstance(value, Integral):
        text = f"{int(value):,}"
    elif value == 0 or math.isinf(value):
        text = f"{value:g}"
    else:
        exponent = math.floor(math.log10(abs(value)) + math.log10(1.0005))  # of the rounded number
        places = _places(max(0, 2 - exponent), step)
        text = f"{value:,.{places}f}" if -5 <= exponent < 7 else f"{value:.2e}"
    return f"{text} {letter}{unit}".rstrip()


format_seconds = partial(format_value, unit="s")


def _places(usual: int, step: float) -> int:
    """Digits after the point: the usual ones, and up to three more until they tell `step`."""
    if not 0 < step < math.inf:
        return usual
    needed = math.ceil(-math.log10(step) - 1e-9)
    return max(usual, min(needed, usual + MOST_MORE))


def step_between(low: float, high: float) -> float:
    """Return the `step` with which the ends of an interval are two units or more apart."""
    return (high - low) / 2


def format_interval(low: float, high: float, show: Callable[..., str] = format_value) -> str:
    """Return an interval with so many digits that its ends differ; 0 to inf is unknown.

    Args:
        low, high: the ends.
        show: called as `show(end, step=...)`: `format_value`, perhaps with a unit.

    >>> format_interval(1.103, 1.109)
    '[1.103, 1.109]'
    """
    if low <= 0 and high == math.inf:
        return "[unknown]"
    step = step_between(low, high)
    return f"[{show(low, step=step)}, {show(high, step=step)}]"


def format_estimate(
    value: float, low: float, high: float, show: Callable[..., str] = format_value
) -> str:
    """Return a number with its interval, all with the same digits: `1.106 [1.103, 1.109]`."""
    return f"{show(value, step=step_between(low, high))} {format_interval(low, high, show)}"


def _show_ratio(x: float, step: float) -> str:
    """Three digits after the point, more after zeros, one from 10 on."""
    usual = 3 if x < 10 else 1
    if 0 < x < 0.1:
        usual = 2 - math.floor(math.log10(x))
    return f"{x:.{_places(usual, step)}f}"


def format_ratio(ratio: float, low: float, high: float) -> str:
    """Return a time ratio with its interval: three digits after the point, more after zeros."""
    return "unknown" if math.isnan(ratio) else format_estimate(ratio, low, high, _show_ratio)


def print_line(line: str) -> None:
    """Print a line; a closed stdout or a character that it cannot encode raises nothing."""
    try:
        print(line)
    except UnicodeEncodeError:
        print(line.encode("ascii", "backslashreplace").decode())
    except (OSError, ValueError):  # the pipe or the stream is closed
        pass


class Table(NamedTuple):
    """Cells as text, with lines below them; columns are named by their numbers.

    Attributes:
        header: names of the columns; none for a card, whose rows begin with their names.
        rows: the cells.
        footer: lines below the table.
        right: columns that are aligned on the right.
        scores: columns that differ from run to run; in HTML their cells have the class `score`.
    """

    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    footer: Sequence[str] = ()
    right: tuple[int, ...] = ()
    scores: tuple[int, ...] = ()


class Shown:
    """A result that shows itself as the `Table` that its method `table` returns."""

    def table(self) -> Table:
        """Return what is shown."""
        raise NotImplementedError

    def __str__(self) -> str:
        header, rows, footer, right, _ = self.table()
        widths = [max(map(len, column)) for column in zip(header, *rows)]
        layout = [f"{'>' if i in right else '<'}{width}" for i, width in enumerate(widths)]
        lines = ["   ".join(map(format, row, layout)).rstrip() for row in [header, *rows]]
        return "\n".join([*lines, *footer])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return html_table(self.table())


def html_table(table: Table) -> str:
    """Return the HTML of a table, as Jupyter shows it; texts are escaped."""
    body = "".join(_html_row(table, row, head=False) for row in table.rows)
    if not table.header:
        return f"<table>{body}</table>{_html_footer(table)}"
    head = _html_row(table, table.header, head=True)
    inside = f"<thead>{head}</thead><tbody>{body}</tbody>"
    return f"<table>{inside}</table>{_html_footer(table)}"


def _html_row(table: Table, cells: Sequence[str], *, head: bool) -> str:
    found = []
    for column, text in enumerate(cells):
        tag = "th" if head or (column == 0 and not table.header) else "td"
        look = f"style='text-align:{'right' if column in table.right else 'left'}'"
        if tag == "td" and column in table.scores:
            look = "class='score'"
        found.append(f"<{tag} {look}>{escape(text)}</{tag}>")
    return f"<tr>{''.join(found)}</tr>"


def _html_footer(table: Table) -> str:
    return "".join(f"<div>{escape(text)}</div>" for text in table.footer)
