"""Predictions against measurements."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from d2lperf.plotting import style
from d2lperf.plotting.colours import INK, SOFT, colour_of


def scores(
    rows: Iterable[Sequence[Any]],
    *,
    xlabel: str = "measured relative to predicted",
    ax: Any = None,
) -> Any:
    """Show how measurements compare with what was predicted: a row each, beside a line at 1.

    Args:
        rows: (label, predicted, measured, low, high), all positive. low and high are the ends of
            the measured interval, or None.
        xlabel: what the axis shows.
        ax: where to draw.

    Returns:
        The axes. The axis is logarithmic: half and twice the prediction are equally far off.

    Raises:
        ValueError: no rows, or a number that is not positive.
    """
    rows = [tuple(row) for row in rows]
    if not rows:
        raise ValueError("there are no predictions to draw")
    for label, *numbers in rows:
        if bad := [n for n in numbers if n is not None and not 0 < n < np.inf]:
            raise ValueError(f"{label}: {bad[0]} has no place on a logarithmic axis")
    table = [
        (measured / predicted, *(None if end is None else end / predicted for end in ends))
        for _, predicted, measured, *ends in rows
    ]
    known = [value for row in table for value in row if value is not None]
    least, most = min([*known, 1 / 1.5]), max([*known, 1.5])
    ax = style.row_axes(ax, [label for label, *_ in rows], 0.42)
    ax.set_xlim(least / 1.15, most * 1.15)
    style.scale(ax.xaxis, True)
    ax.axvline(1, color=INK, lw=1, zorder=1)
    colour = colour_of("measured")
    for i, (factor, *ends) in enumerate(table):
        ax.plot([1, factor], [i, i], color=colour, lw=1, zorder=2)
        if ends and None not in ends:
            ax.plot(ends, [i, i], color=colour, lw=8, alpha=0.45, solid_capstyle="butt", zorder=3)
        ax.plot([factor], [i], "o", color=colour, ms=6, zorder=4)
        style.beside(ax, i, f"× {style.number(factor)}")
    ax.annotate(
        "predicted", (1, 1), (0, 4), xycoords=ax.get_xaxis_transform(), ha="center", color=SOFT,
        textcoords="offset points", fontsize="small",
    )  # fmt: skip
    ax.set_xlabel(xlabel, color=INK, parse_math=False)
    return ax
