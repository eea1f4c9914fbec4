"""Ratios with their intervals, coloured by their verdicts."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from d2lperf.plotting import style
from d2lperf.plotting.colours import COLOURS, FAINT, GREY, INK, SOFT

_VERDICTS = {"faster": COLOURS["green"], "slower": COLOURS["vermillion"]}


def intervals(
    ratios: Mapping[str, tuple[float, float, float]],
    *,
    margin: float | None = None,
    verdicts: Mapping[str, str] | None = None,
    xlabel: str = "time relative to the baseline",
    sides: tuple[str, str] | None = ("faster", "slower"),
    ax: Any = None,
) -> Any:
    """Show ratios with their intervals beside a line at 1.

    The colour says the verdict: green for "faster", vermillion for "slower", grey for every
    other word. Without verdicts all rows are blue: no verdict is computed here.

    Args:
        ratios: (ratio, low, high) by name; NaN for what is not known, 0 and infinity where an
            interval has no end.
        margin: differences up to it do not count: the band goes from 1 / (1 + margin) to
            1 + margin. None for no band.
        verdicts: a word by name, such as "faster" or "not decided".
        xlabel: what the ratio is of.
        sides: words for "below 1" and "above 1", or None.
        ax: where to draw.

    Returns:
        The axes.

    Raises:
        ValueError: no ratios, a ratio outside its interval, or a verdict without a ratio.
    """
    verdicts = verdicts or {}
    if not ratios:
        raise ValueError("there are no ratios to draw")
    if unknown := [name for name in verdicts if name not in ratios]:
        raise ValueError(f"there is a verdict but no ratio for {', '.join(map(repr, unknown))}")
    table = np.array([[float(end) for end in row] for row in ratios.values()])
    for name, (ratio, low, high) in zip(ratios, table, strict=True):
        if not (math.isnan(ratio) or 0 <= low <= ratio <= high):
            raise ValueError(f"{name}: the ratio {ratio:g} is not in [{low:g}, {high:g}]")
    band = (1 / (1 + (margin or 0)), 1 + (margin or 0))
    known = np.append(table[np.isfinite(table) & (table > 0)], band)
    least, most = known.min(), known.max()
    log = most > 3 * least
    pad = (most / least) ** 0.1 if log else 0.1 * (most - least) or 0.05
    ax = style.row_axes(ax, list(ratios), 0.46)
    ax.set_xlim((least / pad, most * pad) if log else (least - pad, most + pad))
    style.scale(ax.xaxis, log)
    if margin:
        ax.axvspan(*band, color=FAINT, lw=0, zorder=0)
    ax.axvline(1, color=INK, lw=1, zorder=1)
    for i, (name, (ratio, low, high)) in enumerate(zip(ratios, table, strict=True)):
        word = verdicts.get(name, "")
        colour = _VERDICTS.get(word, GREY) if verdicts else COLOURS["blue"]
        text, ends = "not known", (low, high)
        if not math.isnan(ratio):
            text = f"{style.number(ratio)} [{style.number(low)}, {style.number(high)}]"
            if low == 0 and high == math.inf:
                text = f"{style.number(ratio)}, no interval"
            shown = np.clip(ends, *ax.get_xlim())
            ax.plot(shown, [i, i], color=colour, lw=8, alpha=0.45, solid_capstyle="butt", zorder=3)
            ax.plot([ratio], [i], "|", color=colour, ms=12, mew=2.2, zorder=4)
        style.beside(
            ax, i, f"{text}\n{word}" if word else text, color=INK if ratio == ratio else SOFT
        )
    for word, place, side in zip(sides or (), (-6, 6), ("right", "left"), strict=False):
        ax.annotate(
            f"← {word}" if place < 0 else f"{word} →", (1, 1), (place, 4), ha=side, color=SOFT,
            xycoords=ax.get_xaxis_transform(), textcoords="offset points", fontsize="small",
            parse_math=False,
        )  # fmt: skip
    ax.set_xlabel(xlabel, color=INK, parse_math=False)
    return ax
