"""Ratios with their intervals beside a line at 1: of comparisons, and of predictions."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from d2lperf.measuring.formats import format_ratio
from d2lperf.plotting import style
from d2lperf.plotting.colours import COLOURS, FAINT, GREY, INK, colour_of


def intervals(
    ratios: Mapping[str, Sequence[float]], *, margin: float = 0.0,
    verdicts: Mapping[str, str] | None = None, xlabel: str = "time relative to the baseline",
    ax: Any = None,
) -> Any:  # fmt: skip
    """Show ratios with their intervals beside a line at 1; return the axes.

    The colour is that of the verdict: green for "faster", vermillion for "slower", grey for every
    other word. Without verdicts all rows are blue; none is computed here.

    Args:
        ratios: (ratio, low, high) by name; NaN where nothing is known, low 0 or high infinity
            where an interval has no end.
        margin: the band of differences that do not count: 1 / (1 + margin) to 1 + margin.
        verdicts: a word by name, such as "faster" or "not decided".
        xlabel: what the ratio is of.
        ax: where to draw; a new figure by default.

    Raises:
        ValueError: no ratios, a ratio outside its interval, or a verdict without a ratio.
    """
    if not ratios or set(verdicts or ()) - set(ratios):
        raise ValueError(f"verdicts for {list(verdicts or ())}, ratios for {list(ratios)}")
    texts, colours = [], []
    for name, (ratio, low, high) in ratios.items():
        if not (np.isnan(ratio) or 0 <= low <= ratio <= high):
            raise ValueError(f"{name}: the ratio {ratio:g} is not in [{low:g}, {high:g}]")
        word = (verdicts or {}).get(name, "")
        text = "not known" if np.isnan(ratio) else format_ratio(ratio, low, high)
        texts.append(f"{text}\n{word}".strip())
        judged = colour_of(word) if word in ("faster", "slower") else GREY
        colours.append(COLOURS["blue"] if verdicts is None else judged)
    band = 1 / (1 + margin), 1 + margin
    ax = _rows(ratios, list(ratios.values()), texts, colours, band, xlabel, ax)
    ax.axvspan(*band, color=FAINT, lw=0, zorder=0)
    top = {"xycoords": ax.get_xaxis_transform()}
    style.note(ax, "← faster", (1, 1), (-6, 4), ha="right", **top)
    style.note(ax, "slower →", (1, 1), (6, 4), **top)
    return ax


def scores(
    rows: Iterable[Sequence[Any]], *, xlabel: str = "measured / predicted", ax: Any = None
) -> Any:
    """Show what was measured relative to what was predicted, beside a line at 1; return the axes.

    Args:
        rows: (label, predicted, measured, low, high), positive numbers. low and high are the ends
            of the measured interval, or None.
        xlabel: what the axis shows; it is logarithmic.
        ax: where to draw; a new figure by default.

    Raises:
        ValueError: no rows, or a number that is not positive.
    """
    names, table = [], []
    for label, predicted, *measured in rows:
        found = [np.nan if value is None else value for value in measured]
        if not (predicted > 0 and all(value > 0 or np.isnan(value) for value in found)):
            raise ValueError(f"{label}: {predicted} or {found} is not positive")
        names.append(label)
        table.append([float(value) / predicted for value in (*found, np.nan, np.nan)[:3]])
    if not names:
        raise ValueError("there are no predictions to draw")
    texts, colours = (
        [f"× {style.quantity(row[0])}" for row in table],
        [COLOURS["blue"]] * len(table),
    )
    ax = _rows(names, table, texts, colours, (1 / 1.5, 1.5), xlabel, ax, log=True)
    style.note(ax, "predicted", (1, 1), (0, 4), ha="center", xycoords=ax.get_xaxis_transform())
    return ax


def _rows(names, table, texts, colours, least, xlabel, ax, log=False) -> Any:
    """Draw rows of (ratio, low, high) with a line at 1, and show at least the values `least`."""
    known = np.append([v for row in table for v in row if 0 < v < np.inf], least)
    ax = style.row_axes(ax, names, xlabel, 0.46)
    style.x_range(ax, known.min(), known.max(), log or known.max() > 3 * known.min())
    ax.axvline(1, color=INK, lw=1, zorder=1)
    for i, (ratio, *ends) in enumerate(table):
        shown, row = np.clip(ends, *ax.get_xlim()), {"color": colours[i], "zorder": 3}
        ax.plot(shown, [i, i], lw=8, alpha=0.45, solid_capstyle="butt", **row)
        ax.plot([ratio], [i], "o", ms=6, **row)
        style.beside(ax, i, texts[i])
    return ax
