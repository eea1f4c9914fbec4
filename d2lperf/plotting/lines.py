"""Curves with markers."""

from collections.abc import Mapping
from typing import Any

from d2lperf.plotting import style
from d2lperf.plotting.colours import colours_of


def lines(
    x: Any, y: Any, *, xlabel: str = "", ylabel: str = "", log: str = "", xunit: str = "",
    yunit: str = "", low: Mapping[str, Any] | None = None, high: Mapping[str, Any] | None = None,
    ax: Any = None,
) -> Any:  # fmt: skip
    """Draw curves with a marker at each value, and a legend if they have names; return the axes.

    Args:
        x: the x values of all curves, or a dictionary of them by name.
        y: the values of one curve, or a dictionary of them by name; NaN leaves a gap.
        xlabel, ylabel: what is shown, with its unit unless the ticks have it.
        log: logarithmic axes: "", "x", "y" or "xy".
        xunit, yunit: units on the ticks: "s" ("10 µs", "1 ms"), "B" or any other text.
        low, high: ends of an interval for each value, by name.
        ax: where to draw; a new figure by default.

    Raises:
        ValueError: a curve has different numbers of x and y, or `log` is something else.
    """
    if log not in ("", "x", "y", "xy"):
        raise ValueError(f'log must be "", "x", "y" or "xy", but got {log!r}')
    curves, points = y if isinstance(y, Mapping) else {"measured": y}, {}
    for name, values in curves.items():
        own = x[name] if isinstance(x, Mapping) else x
        points[name] = style.to_array(own), style.to_array(values)
        if len(own) != len(values):
            raise ValueError(f"{name!r} has {len(own)} values of x and {len(values)} of y")
    ax, colours, handles = style.axes(ax, 6.0, 3.4), colours_of(curves), []
    for i, (name, (own, values)) in enumerate(points.items()):
        colour = colours[str(name)]
        handles += ax.plot(own, values, color=colour, marker="osD^vP*X"[i % 8], ms=5, lw=1.5)
        if low and high and name in low:
            ends = style.to_array(low[name]), style.to_array(high[name])
            ax.vlines(own, *ends, color=colour, lw=4, alpha=0.4)
    style.frame(ax, xlabel, ylabel)
    style.ticks(ax.xaxis, "x" in log, xunit)
    style.ticks(ax.yaxis, "y" in log, yunit)
    if isinstance(y, Mapping):
        style.legend(ax, handles, list(points))
    return ax
