"""Horizontal bars with their values."""

from collections.abc import Mapping
from typing import Any

from d2lperf.plotting import style
from d2lperf.plotting.colours import INK, colours_of


def bars(
    values: Mapping[str, float], *, low: Mapping[str, float] | None = None,
    high: Mapping[str, float] | None = None, xlabel: str = "", unit: str = "", ax: Any = None,
) -> Any:  # fmt: skip
    """Draw a horizontal bar for each value, with the value beside it; return the axes.

    Args:
        values: numbers by name, drawn from the top.
        low, high: ends of an interval for some or all values, by name.
        xlabel: what the values are.
        unit: "s" (values read "3.20 ms"), "B", or any text that follows the values.
        ax: where to draw; a new figure by default.

    Raises:
        ValueError: there are no values.
    """
    if not values:
        raise ValueError("there are no values to draw")
    ax, colours = style.row_axes(ax, values, xlabel), colours_of(values)
    for row, (name, value) in enumerate(values.items()):
        ax.barh(row, value, height=0.62, color=colours[str(name)], zorder=2)
        text = style.quantity(value, unit)
        if low and high and name in low:
            ends = low[name], high[name]
            ax.plot(ends, [row, row], color=INK, lw=2, zorder=3)
            text += f" [{', '.join(style.quantity(end, unit) for end in ends)}]"
        style.beside(ax, row, text)
    style.ticks(ax.xaxis, False, unit)
    return ax
