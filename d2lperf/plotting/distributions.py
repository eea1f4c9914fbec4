"""Samples as points, with median and quartiles."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from d2lperf.plotting import style
from d2lperf.plotting.book import to_array
from d2lperf.plotting.colours import GREY, INK, SOFT, colours_of


def distributions(
    samples: Mapping[str, Any], *, xlabel: str = "time per call", ax: Any = None
) -> Any:
    """Show how times spread: each sample a point, a row for each function.

    The cloud of points has the shape of the distribution. The bar below it goes from the lower to
    the upper quartile; its tick is the median, which is also written at the right. The axis is
    logarithmic if the largest time is more than eight times the smallest.

    Args:
        samples: times in seconds by name. A name without samples keeps its row.
        xlabel: what the times are; the unit is added.
        ax: where to draw.

    Returns:
        The axes.

    Raises:
        ValueError: there are no samples, or one is not a positive number.
    """
    rows = {str(name): to_array(row).astype(float).ravel() for name, row in samples.items()}
    known = np.concatenate([*rows.values(), []])
    if not known.size:
        raise ValueError("there are no samples to draw")
    for name, row in rows.items():
        bad = row[~(np.isfinite(row) & (row > 0))]
        if bad.size:
            raise ValueError(f"{name!r} has a sample that is not a positive time: {bad[0]} s")
    unit, size = style.time_unit(min(np.median(row) for row in rows.values() if row.size))
    low, high = known.min() / size, known.max() / size
    log = high > 8 * low
    ax = style.row_axes(ax, list(rows), 0.62)
    pad = (high / low) ** 0.05 if log else 0.05 * (high - low) or 0.05 * high
    ax.set_xlim((low / pad, high * pad) if log else (low - pad, high + pad))
    style.scale(ax.xaxis, log)
    colours = colours_of(rows)
    for i, (name, row) in enumerate(rows.items()):
        if not row.size:
            style.beside(ax, i, "no samples", color=SOFT)
            continue
        row = row / size
        lower, median, upper = np.percentile(row, [25, 50, 75])
        style.beside(ax, i, style.quantity(median * size, "s"))
        heights = i - 0.1 + 0.24 * _spread(np.log(row) if log else row)
        alpha = float(np.clip(12 / math.sqrt(row.size), 0.15, 0.75)) if row.size > 1 else 1
        ax.scatter(row, heights, s=14, color=colours[name], alpha=alpha, linewidths=0, zorder=3)
        ax.plot([lower, upper], [i + 0.3] * 2, color=GREY, lw=5, solid_capstyle="butt")
        ax.plot([median], [i + 0.3], "|", color=INK, ms=9, mew=2, zorder=4)
    style.beside(ax, None, "median")
    shown = f"{xlabel} ({unit}{', logarithmic axis' if log else ''})"
    ax.set_xlabel(shown, color=INK, parse_math=False)
    return ax


def _spread(values: np.ndarray) -> np.ndarray:
    """Heights from -1 to 1 that fill the outline of the density; the same in each drawing."""
    n = len(values)
    counts, edges = np.histogram(values, bins=min(40, max(1, n // 4)))
    bins = np.clip(np.searchsorted(edges, values, side="right") - 1, 0, len(counts) - 1)
    near = counts[bins] / counts.max() if n >= 8 else np.full(n, 0.35 if n > 1 else 0.0)
    # Multiples of the golden ratio, modulo 1, put neighbours at heights far from each other.
    order = np.argsort(np.argsort(values, kind="stable"), kind="stable")
    return near * (2 * ((0.5 + order * 0.6180339887498949) % 1) - 1)
