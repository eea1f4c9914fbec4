"""Samples as points, with median and quartiles."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from d2lperf.plotting import style
from d2lperf.plotting.colours import GREY, INK, colours_of


def distributions(
    samples: Mapping[str, Any], *, xlabel: str = "time per call", ax: Any = None
) -> Any:
    """Show how times spread: each sample a point, a row for each function; return the axes.

    The bar goes from the lower to the upper quartile; its tick is the median, written at the
    right. The axis is logarithmic if the largest time is more than eight times the smallest.

    Args:
        samples: times in seconds by name. A name without samples keeps its row.
        xlabel: what the times are.
        ax: where to draw; a new figure by default.

    Raises:
        ValueError: there are no samples, or one is not a positive number.
    """
    rows = {str(name): style.to_array(row).astype(float) for name, row in samples.items()}
    known = np.concatenate([*rows.values(), []])
    if (bad := [time for time in known if not 0 < time < np.inf]) or not known.size:
        raise ValueError(f"samples must be positive times, but there are {bad or 'none'}")
    log = known.max() > 8 * known.min()
    ax = style.row_axes(ax, rows, f"{xlabel}{', logarithmic axis' if log else ''}", 0.62)
    style.x_range(ax, known.min(), known.max(), log, "s")
    colours = colours_of(rows)
    for i, (name, row) in enumerate(rows.items()):
        if not row.size:
            style.beside(ax, i, "no samples")
            continue
        lower, median, upper = np.percentile(row, [25, 50, 75])
        style.beside(ax, i, f"median {style.quantity(median, 's')}")
        # Multiples of the golden ratio, modulo 1, keep neighbours apart, the same each time.
        heights = i - 0.3 + 0.45 * (np.arange(row.size) * 0.618034 % 1)
        alpha = min(0.75, max(0.15, 10 / row.size**0.5))
        ax.scatter(row, heights, s=14, color=colours[name], alpha=alpha, lw=0, zorder=3)
        ax.plot([lower, upper], [i + 0.3] * 2, color=GREY, lw=5, solid_capstyle="butt")
        ax.plot([median], [i + 0.3], "|", color=INK, ms=9, mew=2, zorder=4)
    return ax
