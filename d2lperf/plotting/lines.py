"""Curves with markers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from d2lperf.plotting import style
from d2lperf.plotting.book import to_array
from d2lperf.plotting.colours import INK, colour_of, colours_of


def lines(
    x: Any,
    y: Any,
    *,
    xlabel: str = "",
    ylabel: str = "",
    log: str = "",
    xunit: str = "",
    yunit: str = "",
    low: Mapping[str, Sequence[float]] | None = None,
    high: Mapping[str, Sequence[float]] | None = None,
    ax: Any = None,
) -> Any:
    """Draw curves with a marker at each value.

    Args:
        x: the x values of all curves, or a dictionary of those of each by name.
        y: the values of one curve, or a dictionary of those of each by name. NaN leaves a gap.
        xlabel, ylabel: what is shown, with its unit ("time per call (ms)") unless `xunit` or
            `yunit` is given.
        log: logarithmic axes: "", "x", "y" or "xy".
        xunit, yunit: "s", "B", "B/s", "FLOP" or "FLOP/s": ticks then read "10 µs", "1 ms".
        low, high: ends of an interval for each value, by name.
        ax: where to draw.

    Returns:
        The axes, with a legend if there are several curves.

    Raises:
        ValueError: a curve has different numbers of x and y, or `log` is something else.
    """
    if log not in ("", "x", "y", "xy", "yx"):
        raise ValueError(f'log must be "", "x", "y" or "xy", but got {log!r}')
    curves = dict(y) if isinstance(y, Mapping) else {"": y}
    colours = (
        colours_of(curves) if len(curves) > 1 else {n: colour_of(n or "measured") for n in curves}
    )
    rows = []
    for name, values in curves.items():
        mine = to_array(x[name] if isinstance(x, Mapping) else x)
        values = to_array(values).astype(float)
        if len(mine) != len(values):
            raise ValueError(f"{name!r} has {len(mine)} values of x and {len(values)} of y")
        rows.append((str(name), mine, values))
    ax = style.axes(ax, 6.0, 3.4)
    handles = []
    for i, (name, mine, values) in enumerate(rows):
        options = {"color": colours[name], "marker": "osD^vP*X"[i % 8], "ms": 5, "lw": 1.5}
        handles += ax.plot(mine, values, **options)
        if low is not None and high is not None and name in low:
            ends = np.array([to_array(low[name]), to_array(high[name])], dtype=float)
            ax.vlines(mine, *ends, color=colours[name], lw=3, alpha=0.4)
    style.frame(ax)
    style.scale(ax.xaxis, "x" in log, xunit)
    style.scale(ax.yaxis, "y" in log, yunit)
    ax.set_xlabel(xlabel, color=INK, parse_math=False)
    ax.set_ylabel(ylabel, color=INK, parse_math=False)
    if len(rows) > 1 or any(name for name, *_ in rows):
        style.legend(ax, handles, [name for name, *_ in rows])
    return ax
