"""Horizontal bars with their values."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from d2lperf.plotting import style
from d2lperf.plotting.colours import INK, colours_of


def bars(
    values: Mapping[str, float],
    *,
    low: Mapping[str, float] | None = None,
    high: Mapping[str, float] | None = None,
    xlabel: str = "",
    unit: str = "",
    ax: Any = None,
) -> Any:
    """Draw a horizontal bar for each value, with the value beside it.

    Args:
        values: numbers by name, drawn from the top. The bar of NaN is left out.
        low, high: ends of an interval for some or all values, by name.
        xlabel: what the values are.
        unit: "s", "B", "B/s", "FLOP" or "FLOP/s" give values such as "3.20 ms"; another text
            is written behind each value.
        ax: where to draw.

    Returns:
        The axes.

    Raises:
        ValueError: there are no values.
    """
    if not values:
        raise ValueError("there are no values to draw")
    ax = style.row_axes(ax, list(values), 0.42)
    colours = colours_of(values)
    for row, (name, value) in enumerate(values.items()):
        text = "no value" if math.isnan(value) else style.quantity(value, unit)
        if not math.isnan(value):
            ax.barh(row, value, height=0.62, color=colours[str(name)], zorder=2)
        ends = [(side or {}).get(name) for side in (low, high)]
        if None not in ends:
            ax.plot(ends, [row, row], color=INK, lw=2, zorder=3)
            text += f" [{', '.join(style.quantity(end, unit) for end in ends)}]"
        style.beside(ax, row, text)
    style.scale(ax.xaxis, False, unit)
    ax.set_xlabel(xlabel, color=INK, parse_math=False)
    return ax
