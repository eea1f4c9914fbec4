"""What each step of an optimisation left of the time."""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import fill
from typing import TYPE_CHECKING

import numpy as np

from d2lperf.formats import format_value
from d2lperf.plotting import style
from d2lperf.plotting.colours import COLOURS, GREY

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_WIDTH = 0.62  # of a bar; neighbours are 1 apart


def waterfall(
    labels: Sequence[str],
    values: Sequence[float],
    low: Sequence[float | None] | None = None,
    high: Sequence[float | None] | None = None,
    predicted: Sequence[float | None] | None = None,
    *,
    ylabel: str = "time per step",
    unit: str = "s",
    ax: Axes | None = None,
) -> Axes:
    """Draw a bar for what is left after each step, in the order of the steps; return the axes.

    The pale part above a bar is what this step saved; a dotted line marks the value of the step
    before. A step that made things worse has no pale part.

    Args:
        labels: what was done in each step, from the left; "as it was" for the first, say.
        values: what was measured after each step, not negative, as many as labels.
        low, high: ends of each interval. None, or None or NaN in a place, where it is unknown.
        predicted: what was predicted for each step, a diamond beside the bar; None as for `low`.
        ylabel: what the values are.
        unit: "s" (a value of 0.0032 reads "3.20 ms"), "B", or any text that follows the values.
        ax: axes to draw into; a new figure by default.

    Raises:
        ValueError: no steps, a value for each label is missing, or a value is negative.
    """
    labels = [str(label) for label in labels]
    place = np.arange(len(labels))
    height = _column("values", values, len(labels))
    if not labels or not (height >= 0).all():
        raise ValueError(f"waterfall needs at least one step, none of them negative, not {values}")
    lower = _column("low", low, len(labels))
    upper = _column("high", high, len(labels))
    said = _column("predicted", predicted, len(labels))

    ax = style.axes(ax, max(4.2, 1.1 + 1.05 * len(labels)), 3.4)
    ax.bar(place, height, _WIDTH, color=COLOURS["blue"], zorder=2)
    saved = np.maximum(height[:-1] - height[1:], 0)
    pale = ax.bar(place[1:], saved, _WIDTH, bottom=height[1:], color=COLOURS["blue"], alpha=0.15)
    left, right = place[:-1] - _WIDTH / 2, place[1:] + _WIDTH / 2
    ax.hlines(height[:-1], left, right, color=GREY, lw=1, ls=":", zorder=1)
    ends = ax.vlines(place, lower, upper, color="black", lw=1.5, zorder=4)
    ends.set_capstyle("butt")
    ax.plot(np.append(place, place), np.append(lower, upper), "_", color="black", ms=8, zorder=4)
    for x, value, end in zip(place, height, upper):
        top = float(np.fmax(value, end))
        text = format_value(float(value), unit)
        style.note(ax, text, (x, top), (0, 4), ha="center", color="black")

    ax.set_ylim(0, 1.12 * np.nanmax([*height, *upper, *said]) or 1)
    ax.set_xlim(-0.6, len(labels) - 0.3)
    style.frame(ax, "", ylabel, grid="y")
    ax.set_xticks(place, [fill(label, 14) for label in labels], parse_math=False)
    ax.tick_params(axis="x", length=0)
    style.ticks(ax.yaxis, False, unit)
    if not np.isnan(said).all():
        beside = place + _WIDTH / 2 + 0.09
        marks = ax.plot(beside, said, "D", color=COLOURS["black"], ms=6, zorder=5)
        style.legend(ax, [ax.containers[0], pale, *marks], ["measured", "saved", "predicted"])
    return ax


def _column(name: str, values: Sequence[float | None] | None, length: int) -> np.ndarray:
    """One float for each step; NaN where nothing is known."""
    if values is None:
        return np.full(length, np.nan)
    column = np.array([np.nan if v is None else float(v) for v in values])
    if column.size != length:
        raise ValueError(f"waterfall has {length} labels, but {column.size} {name}")
    return column
