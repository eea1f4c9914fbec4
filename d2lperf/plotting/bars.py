"""Horizontal bars with their values."""

from d2lperf.plotting import style
from d2lperf.plotting.colours import colours_of


def bars(values, *, xlabel="", unit="", ax=None):
    """Draw a horizontal bar for each value, with the value beside it; return the axes.

    Args:
        values: numbers by name, drawn from the top.
        xlabel: what the values are.
        unit: "s" (values read "3.20 ms"), "B", or any text that follows the values.
    """
    ax, colours = style.row_axes(ax, values, xlabel), colours_of(values)
    for row, (name, value) in enumerate(values.items()):
        ax.barh(row, value, height=0.62, color=colours[str(name)], zorder=2)
        style.beside(ax, row, style.quantity(value, unit))
    style.ticks(ax.xaxis, False, unit)
    return ax
