"""Curves with markers."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import cycle
from typing import TYPE_CHECKING, Any

from d2lperf.plotting import style
from d2lperf.plotting.colours import colours_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def lines(
    x: Any,
    y: Any,
    *,
    xlabel: str = "",
    ylabel: str = "",
    log: str = "",
    yunit: str = "",
    low: Mapping[str, Any] | None = None,
    high: Mapping[str, Any] | None = None,
    predicted: Any = None,
    palette: Mapping[str, str] | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw curves with a marker at each value, and a legend if they have names; return the axes.

    Args:
        x, y: the values of one curve, or dictionaries of them by name; `x` may be the same for
            all. NaN leaves a gap.
        xlabel, ylabel: what is shown, with its unit unless the ticks have it.
        log: logarithmic axes: "", "x", "y" or "xy".
        yunit: unit on the ticks: "s" ("10 µs", "1 ms"), "B" or any other text.
        low, high: ends of an interval for each value of some or all curves, by name.
        predicted: what was predicted, like `y`: dashed curves in the colours of the measured ones.
        palette: colours of some curves by name, such as {"eager": "green"}.
        ax: axes to draw into; a new figure by default.

    Raises:
        ValueError: no curves, an end without the other, or names that no curve has.
    """
    curves = y if isinstance(y, Mapping) else {"measured": y}
    said = predicted if isinstance(predicted, Mapping) else {"measured": predicted}
    said = {} if predicted is None else said
    low, high = low or {}, high or {}
    _check(curves, low, high, said)
    ax, colours, handles = style.axes(ax, 6.0, 3.4), colours_of(curves, palette), []
    for (name, values), marker in zip(curves.items(), cycle("osD^vP*X")):
        own = style.to_array(x[name] if isinstance(x, Mapping) else x)
        colour, values = colours[str(name)], style.to_array(values)
        handles += ax.plot(own, values, color=colour, marker=marker, ms=5, lw=1.5, label=name)
        if name in low:
            ends = style.to_array(low[name]), style.to_array(high[name])
            ax.vlines(own, *ends, color=colour, lw=4, alpha=0.4)
        if name in said:
            ax.plot(own, style.to_array(said[name]), color=colour, lw=1.5, ls="--", zorder=1.5)
    style.frame(ax, xlabel, ylabel)
    style.ticks(ax.xaxis, "x" in log)
    if "x" not in log and own.dtype.kind in "iu":
        locator: Any = ax.xaxis.get_major_locator()
        locator.set_params(integer=True)
    style.ticks(ax.yaxis, "y" in log, yunit)
    names = list(curves)
    if said:
        (dashed,) = ax.plot([], [], color="black", lw=1.5, ls="--", label="predicted")
        handles, names = [*handles, dashed], [*names, "predicted"]
    if said or isinstance(y, Mapping):
        style.legend(ax, handles, names)
    return ax


def _check(
    curves: Mapping[str, Any],
    low: Mapping[str, Any],
    high: Mapping[str, Any],
    said: Mapping[str, Any],
) -> None:
    if not curves:
        raise ValueError("lines needs at least one curve: y has none. Pass {name: values}.")
    if set(low) != set(high):
        raise ValueError(f"an interval needs low and high: {sorted(set(low) ^ set(high), key=str)}")
    unknown = [name for name in [*low, *said] if name not in curves]
    if unknown:
        raise ValueError(f"low, high or predicted name {unknown}, but y has only {list(curves)}")
