"""Samples as points, with median and quartiles."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from d2lperf.formats import format_value
from d2lperf.plotting import style
from d2lperf.plotting.colours import GREY, colours_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def distributions(
    samples: Mapping[str, Any],
    *,
    palette: Mapping[str, str] | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Show how times spread: each sample a point, a row for each function; return the axes.

    The bar goes from the lower to the upper quartile; its tick is the median, written at the
    right. The axis is logarithmic if the largest time is more than eight times the smallest.

    Args:
        samples: positive times in seconds by name.
        palette: colours of some names, such as {"eager": "green"}.
        ax: axes to draw into; a new figure by default.
    """
    rows = {str(name): style.to_array(row).astype(float) for name, row in samples.items()}
    known = np.concatenate([*rows.values(), []])
    if not all(row.size for row in rows.values()) or not known.size or known.min() <= 0:
        raise ValueError(f"each row needs samples, all of them positive times, not {samples}")
    log = known.max() > 8 * known.min()
    ax = style.row_axes(ax, rows, f"time per call{', logarithmic axis' if log else ''}", 0.62)
    colours = colours_of(rows, palette)
    for i, (name, row) in enumerate(rows.items()):
        lower, median, upper = np.percentile(row, [25, 50, 75])
        style.beside(ax, i, f"median {format_value(median, 's')}")
        # Multiples of the golden ratio, modulo 1, keep neighbours apart, the same each time.
        heights = i - 0.3 + 0.45 * (np.arange(row.size) * 0.618034 % 1)
        alpha = min(0.75, max(0.15, 10 / row.size**0.5))
        ax.scatter(row, heights, s=14, color=colours[name], alpha=alpha, lw=0, zorder=3)
        ax.plot([lower, upper], [i + 0.3] * 2, color=GREY, lw=5, solid_capstyle="butt")
        ax.plot([median], [i + 0.3], "|", color="black", ms=9, mew=2, zorder=4)
    style.ticks(ax.xaxis, log, "s")
    return ax
