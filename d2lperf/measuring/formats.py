"""How numbers are written: one definition each for times, ratios, bytes, and for tables of them."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from numbers import Integral

__all__ = [
    *("Shown", "Table", "format_interval", "format_ratio", "format_seconds", "format_value"),
    "print_line",
]

# What takes a prefix: the unit -> the prefixes that it has, largest first.
_PREFIXES = {"s": ((1.0, ""), (1e-3, "m"), (1e-6, "µ"), (1e-9, "n"))} | dict.fromkeys(
    ("B", "B/s", "FLOP", "FLOP/s"), ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, ""))
)


def format_value(value: float, unit: str = "") -> str:
    """Return a number in its unit: counts as they are, others with three significant digits.

    Args:
        value: the number; nan is "unknown".
        unit: "" for a ratio or a count; "s", "B", "B/s", "FLOP" or "FLOP/s" get a prefix (of
            powers of 1000: kB, MB, GB); any other text follows the number.

    >>> format_value(0.02, "s"), format_value(2e9, "B/s"), format_value(512, "B")
    ('20.0 ms', '2.00 GB/s', '512 B')
    >>> format_value(13.2, "GiB"), format_value(3251, "kernels"), format_value(1.0)
    ('13.2 GiB', '3,251 kernels', '1.00')
    """
    if math.isnan(value):
        return "unknown"
    prefixes = _PREFIXES.get(unit, ())
    if value == 0 or math.isinf(value) or not prefixes:
        return f"{_digits(value)} {unit}".rstrip()
    # 0.9995 rounds to 1.00: without the slack it would be shown as 1000 of the next unit.
    size, prefix = next((p for p in prefixes if abs(value) >= 0.9995 * p[0]), prefixes[-1])
    whole = size == 1 and unit != "s"
    return f"{_digits(value if whole else value / size)} {prefix}{unit}"


def _digits(value: float) -> str:
    if isinstance(value, Integral):
        return f"{int(value):,}"
    if value == 0 or math.isinf(value):
        return f"{value:g}"
    exponent = math.floor(math.log10(abs(value) * 1.0005))  # of the rounded number
    return f"{value:,.{max(0, 2 - exponent)}f}" if -5 <= exponent < 7 else f"{value:.2e}"


def format_seconds(seconds: float) -> str:
    """Return a time in seconds with three significant digits and the unit that suits it.

    >>> format_seconds(0.0000371), format_seconds(1.5), format_seconds(0)
    ('37.1 µs', '1.50 s', '0 s')
    """
    return format_value(seconds, "s")


def format_ratio(ratio: float, low: float, high: float) -> str:
    """Return a time ratio with its interval; three digits after the point, more if they are zeros.

    Args:
        ratio: a time divided by another, nan where unknown.
        low: lower end of the interval, 0 where it has none.
        high: upper end, inf where it has none.

    >>> format_ratio(0.76, 0.752, 0.768), format_ratio(0.76, 0, math.inf)
    ('0.760 [0.752, 0.768]', '0.760 [unknown]')
    """

    def show(x: float) -> str:
        if x >= 10:
            return f"{x:.1f}"
        digits = 2 - math.floor(math.log10(x)) if 0 < x < 0.1 else 3
        return f"{x:.{digits}f}"

    return "unknown" if math.isnan(ratio) else f"{show(ratio)} {format_interval(low, high, show)}"


def format_interval(low: float, high: float, show: Callable[[float], str]) -> str:
    """Return an interval, its ends as `show` writes them; 0 to inf is unknown."""
    return f"[{show(low)}, {show(high)}]" if low > 0 or high < math.inf else "[unknown]"


def print_line(line: str) -> None:
    """Print a line; a closed standard output, or one that lacks a letter, costs no result."""
    try:
        print(line)
    except UnicodeEncodeError:
        print(line.encode("ascii", "backslashreplace").decode())
    except (OSError, ValueError):  # the pipe or the stream is closed
        pass


@dataclass(frozen=True)
class Table:
    """Cells as text with lines below them; `right`: numbers of the columns aligned on the right."""

    header: list[str]
    rows: list[list[str]]
    footer: list[str] = field(default_factory=list)
    right: tuple[int, ...] = ()

    def text(self) -> str:
        """Return aligned columns and the footer as plain text."""
        table = [self.header, *self.rows]
        widths = [max(map(len, column)) for column in zip(*table)]
        layout = [f"{'>' if i in self.right else '<'}{width}" for i, width in enumerate(widths)]
        lines = ["   ".join(map(format, row, layout)).rstrip() for row in table]
        return "\n".join(lines + self.footer)

    def html(self) -> str:
        """Return an HTML table, the footer's lines below it."""
        from html import escape

        def line(cells: list[str], tag: str) -> str:
            sides = ("right" if i in self.right else "left" for i in range(len(cells)))
            shown = (
                f"<{tag} style='text-align:{side}'>{escape(cell)}</{tag}>"
                for cell, side in zip(cells, sides)
            )
            return f"<tr>{''.join(shown)}</tr>"

        body = "".join(line(row, "td") for row in self.rows)
        foot = "".join(f"<div>{escape(text)}</div>" for text in self.footer)
        return f"<table><thead>{line(self.header, 'th')}</thead><tbody>{body}</tbody></table>{foot}"


class Shown:
    """A result that shows itself as the table that its method `table` returns."""

    def __str__(self) -> str:
        return self.table().text()

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return self.table().html()
