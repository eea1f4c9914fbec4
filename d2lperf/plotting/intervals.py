"""Ratios with their intervals beside a line at 1."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from d2lperf.formats import format_ratio, format_value
from d2lperf.plotting import style
from d2lperf.plotting.colours import COLOURS, FAINT, GREY, colour_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class Row(NamedTuple):
    """A ratio with the ends of its interval, what is written beside it, and its colour."""

    ratio: float
    low: float
    high: float
    text: str
    colour: str


def intervals(
    ratios: Mapping[str, tuple[float, float, float]],
    *,
    margin: float = 0.0,
    verdicts: Mapping[str, str] | None = None,
    predicted: Mapping[str, float] | None = None,
    xlabel: str = "",
    ax: Axes | None = None,
) -> Axes:
    """Show ratios with their intervals beside a line at 1; return the axes.

    The colour is that of the verdict: green for "faster", vermillion for "slower", grey for every
    other word. Without verdicts all rows are blue; none is computed here.

    Args:
        ratios: (ratio, low, high) by name; NaN where nothing is known, low 0 or high infinity
            where an interval has no end.
        margin: the band of differences that do not count: 1 / (1 + margin) to 1 + margin.
        verdicts: a text by name, such as "faster" or "no difference above 3 %".
        predicted: ratios that were predicted, for some or all names: a diamond, and its number
            (of 0 the number alone).
        xlabel: what the ratios are.
        ax: axes to draw into; a new figure by default.
    """
    predicted = predicted or {}
    rows: dict[str, Row] = {}
    for name, (ratio, low, high) in ratios.items():
        word = (verdicts or {}).get(name, "")
        text = f"{format_ratio(ratio, low, high)}\n{word}".strip()
        if name in predicted:
            text += f"\n◇ {format_value(predicted[name])} predicted"
        judged = colour_of(word) if word in ("faster", "slower") else GREY
        colour = COLOURS["blue"] if verdicts is None else judged
        rows[name] = Row(ratio, low, high, text, colour)
    band = 1 / (1 + margin), 1 + margin
    # A ratio of 0 may be predicted, but it has no place where the axis becomes logarithmic.
    said = {row: predicted[name] for row, name in enumerate(ratios) if predicted.get(name, 0) > 0}
    least = [*band, *said.values()]
    ax = _rows(rows, least, xlabel, ax)
    style.predictions(ax, list(said), list(said.values()))
    ax.axvspan(*band, color=FAINT, lw=0, zorder=0)
    top = {"xycoords": ax.get_xaxis_transform()}
    style.note(ax, "← faster", (1, 1), (-6, 4), ha="right", **top)
    style.note(ax, "slower →", (1, 1), (6, 4), **top)
    return ax


def _rows(rows: Mapping[str, Row], least: list[float], xlabel: str, ax: Axes | None) -> Axes:
    """Draw rows with a line at 1, and show at least the values `least`."""
    shown = [value for row in rows.values() for value in (row.ratio, row.low, row.high)]
    known = np.append([value for value in shown if 0 < value < np.inf], least)
    ax = style.row_axes(ax, rows, xlabel, 0.46)
    low, high = known.min(), known.max()
    log = high > 3 * low
    pad = (high / low) ** 0.08 if log else 0.08 * (high - low) or 0.05
    ax.set_xlim((low / pad, high * pad) if log else (low - pad, high + pad))
    style.ticks(ax.xaxis, log)
    ax.axvline(1, color="black", lw=1, zorder=1)
    for i, row in enumerate(rows.values()):
        ends = np.clip([row.low, row.high], *ax.get_xlim())
        look: dict[str, Any] = {"color": row.colour, "zorder": 3}
        ax.plot(ends, [i, i], lw=8, alpha=0.45, solid_capstyle="butt", **look)
        ax.plot([row.ratio], [i], "o", ms=6, **look)
        style.beside(ax, i, row.text)
    return ax
