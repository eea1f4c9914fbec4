"""Curves with markers."""

from collections.abc import Mapping
from itertools import cycle

from d2lperf.plotting import style
from d2lperf.plotting.colours import colours_of


def lines(x, y, *, xlabel="", ylabel="", log="", yunit="", low=None, high=None, ax=None):
    """Draw curves with a marker at each value, and a legend if they have names; return the axes.

    Args:
        x, y: the values of one curve, or dictionaries of them by name; `x` may be the same for
            all. NaN leaves a gap.
        xlabel, ylabel: what is shown, with its unit unless the ticks have it.
        log: logarithmic axes: "", "x", "y" or "xy".
        yunit: unit on the ticks: "s" ("10 µs", "1 ms"), "B" or any other text.
        low, high: ends of an interval for each value of some or all curves, by name.
    """
    curves = y if isinstance(y, Mapping) else {"measured": y}
    ax, colours, handles = style.axes(ax, 6.0, 3.4), colours_of(curves), []
    for (name, values), marker in zip(curves.items(), cycle("osD^vP*X")):
        own = style.to_array(x[name] if isinstance(x, Mapping) else x)
        colour, values = colours[str(name)], style.to_array(values)
        handles += ax.plot(own, values, color=colour, marker=marker, ms=5, lw=1.5)
        if low and high and name in low:
            ends = style.to_array(low[name]), style.to_array(high[name])
            ax.vlines(own, *ends, color=colour, lw=4, alpha=0.4)
    style.frame(ax, xlabel, ylabel)
    style.ticks(ax.xaxis, "x" in log)
    if "x" not in log and own.dtype.kind in "iu":
        ax.xaxis.get_major_locator().set_params(integer=True)
    style.ticks(ax.yaxis, "y" in log, yunit)
    if isinstance(y, Mapping):
        style.legend(ax, handles, list(curves))
    return ax
