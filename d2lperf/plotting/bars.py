"""Horizontal bars with their values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from d2lperf.formats import format_value
from d2lperf.plotting import style
from d2lperf.plotting.colours import colours_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def bars(
    values: Mapping[str, float],
    *,
    xlabel: str = "",
    unit: str = "",
    predicted: Mapping[str, float] | None = None,
    palette: Mapping[str, str] | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw a horizontal bar for each value, with the value beside it; return the axes.

    Args:
        values: numbers by name, drawn from the top.
        xlabel: what the values are.
        unit: "s" (values read "3.20 ms"), "B", or any text that follows the values.
        predicted: what was predicted, for some or all names: a diamond, and its number.
        palette: colours of some names, such as {"eager": "green"} or {"eager": "#009E73"}.
        ax: axes to draw into; a new figure by default.
    """
    ax, colours = style.row_axes(ax, values, xlabel), colours_of(values, palette)
    for row, (name, value) in enumerate(values.items()):
        ax.barh(row, value, height=0.62, color=colours[str(name)], zorder=2)
        text = format_value(value, unit)
        if predicted and name in predicted:
            style.predictions(ax, [row], [predicted[name]])
            text += f"\n◇ {format_value(predicted[name], unit)} predicted"
        style.beside(ax, row, text)
    style.ticks(ax.xaxis, False, unit)
    return ax
