"""Figures: numbers in, axes in, axes out.

Nothing happens at import: matplotlib is loaded by the first function that draws, and no
style, backend or other setting of it is changed (but by `set_figsize`, whose purpose it is).
Every function takes ``ax=None`` (a new figure then) and returns the axes.

The module can itself be called: ``d2lperf.plot(X, Y)`` is the book's ``d2l.plot(X, Y)``,
``d2lperf.plot.distributions(...)`` is a function of this module.

Colours are those of M. Okabe and K. Ito, *Color Universal Design*, 2008, which people with
any of the usual colour deficiencies can tell apart.
"""

from __future__ import annotations

import importlib
import inspect
import math
import sys
import textwrap
from collections.abc import Hashable, Iterable, Mapping, Sequence
from itertools import pairwise
from types import ModuleType
from typing import Any

import numpy as np

__all__ = [
    "COLOURS",
    "distributions",
    "gantt",
    "graph",
    "intervals",
    "plot",
    "set_figsize",
    "waterfall",
]

COLOURS = {
    "blue": "#0072B2",
    "vermillion": "#D55E00",
    "green": "#009E73",
    "purple": "#CC79A7",
    "orange": "#E69F00",
    "sky": "#56B4E9",
    "black": "#000000",
}
"""Okabe and Ito's colours by name, in the order in which lines take them (their yellow is
left out: it is too faint for a line on white)."""

_INK = "#333333"  # text and axes
_SOFT = "#8A8A8A"  # what is said in passing
_FAINT = "#E6E6E6"  # grid, bands
_UNITS = {"s": 1.0, "ms": 1e-3, "µs": 1e-6, "ns": 1e-9}


# The book's two ---------------------------------------------------------------------------


def set_figsize(figsize: tuple[float, float] = (3.5, 2.5)) -> None:
    """Set the size of the figures to come, in inches, as the book's function does.

    (The book's also switches Jupyter to SVG; ours leaves the format as it is.)

    Args:
        figsize: width and height in inches.
    """
    from matplotlib import pyplot as plt

    plt.rcParams["figure.figsize"] = figsize


def plot(
    X: Any,
    Y: Any = None,
    xlabel: str | None = None,
    ylabel: str | None = None,
    legend: Sequence[str] | None = None,
    xlim: Any = None,
    ylim: Any = None,
    xscale: str = "linear",
    yscale: str = "linear",
    fmts: Sequence[str] = ("-", "--", "-.", ":"),
    figsize: tuple[float, float] = (3.5, 2.5),
    axes: Any = None,
) -> Any:
    """Draw lines: called like the book's ``d2l.plot``.

    Other than the book's, it has colours that everybody can tell apart, takes tensors on any
    device, draws every line even where there are more of them than formats, and leaves the
    default size of figures alone.

    Args:
        X: what goes along x: one sequence for all lines, or one for each. Without ``Y`` these
            are the values, drawn over 0, 1, 2, ...
        Y: the values: a sequence (one line), or a sequence of sequences.
        xlabel, ylabel, xlim, ylim, xscale, yscale: as in matplotlib.
        legend: a name for each line.
        fmts: matplotlib's format strings, taken in turn; a colour in them is kept.
        figsize: (width, height) in inches, if a new figure is made.
        axes: where to draw; whatever is there is removed. By default the current axes.

    Returns:
        The axes.

    Raises:
        ValueError: a line has different numbers of x and y, or X and Y do not match.
    """
    xs, ys = _lines(X, Y)
    if axes is None:
        from matplotlib import pyplot as plt

        axes = (
            plt.gca()
            if plt.get_fignums()
            else plt.figure(figsize=figsize, layout="constrained").gca()
        )
    axes.cla()
    axes.set_prop_cycle(color=list(COLOURS.values()))
    for i, (x, y) in enumerate(zip(xs, ys, strict=True)):
        fmt = fmts[i % len(fmts)] if fmts else "-"
        axes.plot(y, fmt) if x is None else axes.plot(x, y, fmt)
    axes.set(xlabel=xlabel or "", ylabel=ylabel or "", xscale=xscale, yscale=yscale)
    axes.set_xlim(xlim)
    axes.set_ylim(ylim)
    if legend:
        axes.legend(legend)
    axes.grid(color=_FAINT)
    axes.set_axisbelow(True)
    return axes


def _lines(X: Any, Y: Any) -> tuple[list[Any], list[Any]]:
    xs, ys = _rows(X), None if Y is None else _rows(Y)
    if ys is None:
        xs, ys = [None] * len(xs), xs
    elif len(xs) == 1:
        xs = xs * len(ys)
    if len(xs) != len(ys):
        raise ValueError(
            f"X has {len(xs)} lines and Y has {len(ys)}; give one X for all, or one for each Y"
        )
    for i, (x, y) in enumerate(zip(xs, ys, strict=True)):
        if x is not None and len(x) and len(x) != len(y):
            raise ValueError(f"line {i} has {len(x)} values of x and {len(y)} of y")
    return [None if x is None or not len(x) else x for x in xs], ys


def _rows(values: Any) -> list[np.ndarray]:
    """One array for each line, from a sequence of numbers or a sequence of sequences."""
    if hasattr(values, "ndim"):
        array = _array(values)
        return [array] if array.ndim == 1 else list(array)
    values = list(values)
    if not values or np.ndim(_array(values[0])) == 0:
        return [_array(values)]
    return [_array(row) for row in values]


def _array(values: Any) -> np.ndarray:
    """NumPy's array of a sequence or a tensor of any device, kind or gradient."""
    if isinstance(values, (list, tuple)):
        values = [v.item() if hasattr(v, "detach") and v.ndim == 0 else v for v in values]
    if hasattr(values, "detach"):
        values = values.detach().cpu()
        if values.is_floating_point():
            values = values.double()
    return np.asarray(values)


# Times and ratios -------------------------------------------------------------------------


def distributions(
    samples: Mapping[str, Any] | Sequence[Any],
    *,
    labels: Sequence[str] | None = None,
    unit: str | None = None,
    xlabel: str = "time per call",
    ax: Any = None,
) -> Any:
    """Show how times spread: every sample a point, one row for each function.

    Points lie as high above or below the middle of their row as there are others nearby, so
    that the cloud has the shape of the distribution. The bar below covers the middle half
    (from quartile to quartile), its tick is the median, written at the right; a row without
    samples says so. The axis is logarithmic if the largest time is more than eight times the
    smallest.

    Args:
        samples: times in seconds by name, or a sequence of such sequences.
        labels: names for the rows, instead of the keys of ``samples``.
        unit: "s", "ms", "µs" or "ns"; by default the one that suits the medians.
        xlabel: what the times are; the unit is added.
        ax: where to draw.

    Returns:
        The axes.

    Raises:
        ValueError: nothing to draw, a sample that is not a positive number, or a unit or
            number of labels that does not fit.
    """
    names, rows = _named(samples, labels)
    if unit is not None and unit not in _UNITS:
        raise ValueError(f"unit {unit!r} is none of {', '.join(_UNITS)}")
    medians = [float(np.median(row)) if row.size else math.nan for row in rows]
    least = float(np.nanmin(medians))
    texts = []
    for median in medians:
        own = unit or _time_unit(median)
        text = f"{_three_digits(median / _UNITS[own])} {own}"
        texts.append("no samples" if math.isnan(median) else text)
    unit = unit or _time_unit(least)
    rows = [row / _UNITS[unit] for row in rows]
    low, high = np.concatenate(rows).min(), np.concatenate(rows).max()
    log = high > 8 * low
    ax = _row_axes(ax, names, 0.62)
    _scale(ax, low, high, log)
    colours = list(COLOURS.values())
    for i, row in enumerate(rows):
        _margin_text(ax, i, texts[i], color=_INK if row.size else _SOFT)
        if not row.size:
            continue
        colour = colours[i % len(colours)]
        points = ax.scatter(
            row,
            i - 0.1 + 0.24 * _spread(np.log(row) if log else row),
            s=14,
            color=colour,
            alpha=float(np.clip(12 / math.sqrt(len(row)), 0.15, 0.75)) if len(row) > 1 else 1,
            linewidths=0,
            zorder=3,
        )
        points.set_label(names[i])
        lower, median, upper = np.percentile(row, [25, 50, 75])
        if len(row) > 1:
            ax.plot([lower, upper], [i + 0.3] * 2, color="#B5B5B5", lw=5, solid_capstyle="butt")
        ax.plot([median], [i + 0.3], "|", color=_INK, ms=9, mew=2, zorder=4)
    _margin_text(ax, None, "median")
    ax.set_xlabel(f"{xlabel} ({unit}{', logarithmic axis' if log else ''})", color=_INK)
    return ax


def intervals(
    estimates: Sequence[float],
    lows: Sequence[float],
    highs: Sequence[float],
    labels: Sequence[str],
    *,
    margin: float | None = None,
    ax: Any = None,
    xlabel: str = "time relative to the baseline",
    sides: tuple[str, str] | None = ("faster", "slower"),
) -> Any:
    """Show ratios with their intervals: a row each, beside the line at 1 (no difference).

    An interval that lies wholly below the margin is green, one wholly above it vermillion,
    any other grey.

    Args:
        estimates, lows, highs: ratios and the ends of their intervals, 0 and infinity where
            an interval has no end; an estimate of NaN for a row where nothing is known.
        labels: names for the rows.
        margin: half the width of the band around 1 in which a difference does not count (0.01:
            from 0.99 to 1.01); None for no band.
        ax: where to draw.
        xlabel: what the ratio is of.
        sides: words for "below 1" and "above 1", or None.

    Returns:
        The axes.

    Raises:
        ValueError: different lengths, no rows, or a ratio outside its own interval.
    """
    table = [np.asarray(column, dtype=float).ravel() for column in (estimates, lows, highs)]
    names = [str(label) for label in labels]
    lengths = [len(column) for column in table] + [len(names)]
    if len(set(lengths)) != 1 or not names:
        raise ValueError(
            "estimates, lows, highs and labels must have one entry for each row, "
            f"and there are {', '.join(map(str, lengths))}"
        )
    for name, (estimate, low, high) in zip(names, zip(*table, strict=True), strict=True):
        if not (np.isnan(estimate) or 0 <= low <= estimate <= high):
            raise ValueError(f"{name}: the ratio {estimate:g} is not in [{low:g}, {high:g}]")
    band = margin or 0.0
    known = np.concatenate([column[~np.isnan(column)] for column in table])
    known = known[np.isfinite(known) & (known > 0)]
    least, most = min([*known, 1 - band]), max([*known, 1 + band])
    ax = _row_axes(ax, names, 0.42)
    _scale(ax, least, most, most > 3 * least, pad=0.1)
    if margin:
        ax.axvspan(1 - margin, 1 + margin, color=_FAINT, lw=0, zorder=0)
    ax.axvline(1, color=_INK, lw=1, zorder=1)
    for i, (estimate, low, high) in enumerate(zip(*table, strict=True)):
        if np.isnan(estimate):
            _margin_text(ax, i, "not known", color=_SOFT)
            continue
        colour = _SOFT
        if high < 1 - band:
            colour = COLOURS["green"]
        elif low > 1 + band:
            colour = COLOURS["vermillion"]
        ax.plot([1, estimate], [i, i], color=colour, lw=1, zorder=2)
        shown = np.clip([low, high], *ax.get_xlim())
        ax.plot(shown, [i, i], color=colour, lw=8, alpha=0.4, solid_capstyle="butt", zorder=3)
        ax.plot([estimate], [i], "|", color=colour, ms=12, mew=2.2, zorder=4)
        ends = [f"{end:.3f}" if end < 10 else f"{end:.1f}" for end in (estimate, low, high)]
        text = "{} [{}, {}]".format(*ends)
        if low == high == 1:
            text = "1"
        elif low == 0 or high == np.inf:
            text = f"{ends[0]}, no interval"
        _margin_text(ax, i, text)
    if sides:
        for word, place, side in ((f"← {sides[0]}", -6, "right"), (f"{sides[1]} →", 6, "left")):
            ax.annotate(
                word,
                (1, 1),
                (place, 4),
                xycoords=ax.get_xaxis_transform(),
                textcoords="offset points",
                ha=side,
                color=_SOFT,
                fontsize="small",
            )
    ax.set_xlabel(xlabel, color=_INK)
    return ax


def waterfall(
    times: Sequence[float],
    labels: Sequence[str],
    *,
    total: str = "in the end",
    notes: Sequence[str] | None = None,
    notes_title: str = "",
    clear: Sequence[bool] | None = None,
    xlabel: str = "time",
    ax: Any = None,
) -> Any:
    """Show how one time becomes another step by step: what each single change was worth.

    The first and the last row are whole times. Each row between them is the part that one change
    took away (green) or added (vermillion); a change that is not clear is grey, and keeps its
    row. The axis is logarithmic if the largest time is more than twenty times the smallest.

    Args:
        times: seconds at first, and after each of the changes.
        labels: what it was at first, and what each change was; one for each time.
        total: the name of the last row.
        notes: a text at the right of each row but the last; such as the ratio of a change.
        notes_title: what the notes are.
        clear: for each change whether it made a difference; by default every one that is not 0.
        xlabel: what the times are; the unit is added.
        ax: where to draw.

    Returns:
        The axes.

    Raises:
        ValueError: different lengths, no change, or a time that is not positive.
    """
    times = np.asarray(times, dtype=float).ravel()
    changes = len(times) - 1
    clear = list(times[1:] != times[:-1]) if clear is None else list(clear)
    lengths = {"times": len(times), "labels": len(labels), "clear + 1": len(clear) + 1}
    if notes is not None:
        lengths["notes"] = len(notes)
    if len(set(lengths.values())) != 1 or changes < 1:
        found = ", ".join(f"{name}: {n}" for name, n in lengths.items())
        raise ValueError(f"there must be two times or more and a label for each, but {found}")
    if not (np.isfinite(times) & (times > 0)).all():
        raise ValueError(f"a time must be positive, but one is {times.min():g} s")
    log = times.max() > 20 * times.min()
    unit = _time_unit(float(np.median(times)))
    times = times / _UNITS[unit]
    ax = _row_axes(ax, [*labels, total], 0.42)
    left = times.min() / 2 if log else 0.0
    if log:
        _scale(ax, left, times.max(), log)
    ax.set_xlim(left, times.max() * (1.25 if log else 1.05))
    ends = {0: times[0], changes + 1: times[-1]}
    for row, end in ends.items():
        ax.barh(row, end - left, left=left, height=0.62, color="#B5B5B5", zorder=2)
        _margin_text(ax, row, f"{_three_digits(end)} {unit}" if notes is None or row else notes[0])
    for row in range(1, changes + 1):
        before, after = times[row - 1], times[row]
        colour = COLOURS["green"] if after < before else COLOURS["vermillion"]
        colour = colour if clear[row - 1] else _SOFT
        # A bar too thin to see still has its line.
        ax.barh(row, after - before, left=before, height=0.62, color=colour, zorder=2)
        ax.plot([after, after], [row - 0.31, row + 0.31], color=colour, lw=2, zorder=3)
        ax.plot([before, before], [row - 0.69, row + 0.31], color=_SOFT, lw=0.8, ls=":", zorder=1)
        if notes is not None:
            _margin_text(ax, row, notes[row])
    last = times[-1]
    ax.plot([last, last], [changes + 0.31, changes + 0.69], color=_SOFT, lw=0.8, ls=":", zorder=1)
    if notes_title:
        _margin_text(ax, None, notes_title)
    ax.set_xlabel(f"{xlabel} ({unit}{', logarithmic axis' if log else ''})", color=_INK)
    return ax


def _named(samples: Any, labels: Sequence[str] | None) -> tuple[list[str], list[np.ndarray]]:
    if isinstance(samples, Mapping):
        names, values = [str(name) for name in samples], list(samples.values())
    else:
        values = list(samples)
        if values and np.ndim(values[0]) == 0:
            values = [values]
        names = [str(i) for i in range(len(values))]
    if labels is not None:
        if len(labels) != len(values):
            raise ValueError(f"{len(labels)} labels for {len(values)} rows of samples")
        names = [str(label) for label in labels]
    rows = [np.asarray(_array(row), dtype=float).ravel() for row in values]
    if not any(row.size for row in rows):
        raise ValueError("there are no samples to draw")
    for name, row in zip(names, rows, strict=True):
        if not (np.isfinite(row) & (row > 0)).all():
            bad = row[~(np.isfinite(row) & (row > 0))][0]
            raise ValueError(f"{name!r} has a sample that is no positive time: {bad} s")
    return names, rows


def _time_unit(seconds: float) -> str:
    return next((unit for unit, size in _UNITS.items() if seconds >= size), "ns")


def _three_digits(value: float) -> str:
    if not 0 < value < math.inf:
        return f"{value:g}"
    return f"{value:.{max(0, 2 - math.floor(math.log10(value)))}f}"


def _spread(values: np.ndarray) -> np.ndarray:
    """Heights from -1 to 1 that fill the outline of the values' density, always the same."""
    n = len(values)
    if n == 1:
        return np.zeros(1)
    lower, upper = np.percentile(values, [25, 75])
    # The width of a bin: Freedman and Diaconis' rule; equal values need some width, too.
    width = 2 * (upper - lower) / n ** (1 / 3) or (values.max() - values.min()) / 20 or 1.0
    ranks = np.sort(values)
    near = np.searchsorted(ranks, values + width / 2, side="right")
    near = near - np.searchsorted(ranks, values - width / 2, side="left")
    near = near / near.max()
    if n < 8:
        near = np.full(n, 0.35)
    # Neighbours get heights far from each other: multiples of the golden ratio, modulo 1.
    order = np.argsort(np.argsort(values, kind="stable"), kind="stable")
    return near * (2 * ((0.5 + order * 0.6180339887498949) % 1) - 1)


def _row_axes(ax: Any, names: Sequence[str], height: float) -> Any:
    """Axes with a row for each name, the first at the top."""
    if ax is None:
        from matplotlib import pyplot as plt

        size = (7.0, 0.95 + height * len(names))
        ax = plt.subplots(figsize=size, layout="constrained")[1]
    ax.set_ylim(len(names) - 0.45, -0.55)
    shown = [textwrap.fill(name, 28) for name in names]
    ax.set_yticks(range(len(names)), shown, color=_INK)
    ax.tick_params(axis="y", length=0)
    ax.tick_params(axis="x", color=_SOFT, labelcolor=_INK)
    ax.spines[["top", "right", "left"]].set_visible(False)
    ax.spines["bottom"].set_color(_SOFT)
    ax.grid(axis="x", color=_FAINT, lw=0.8)
    ax.set_axisbelow(True)
    return ax


def _scale(ax: Any, low: float, high: float, log: bool, pad: float = 0.05) -> None:
    from matplotlib import ticker

    if log:
        ax.set_xscale("log")
        margin = (high / low) ** pad
        ax.set_xlim(low / margin, high * margin)
        subs = (1, 2, 5) if high < 1000 * low else (1,)
        ax.xaxis.set_major_locator(ticker.LogLocator(subs=subs, numticks=12))
        ax.xaxis.set_major_formatter(ticker.FuncFormatter(lambda x, _: f"{x:g}"))
        ax.xaxis.set_minor_locator(ticker.NullLocator())
    else:
        margin = pad * (high - low) or 0.05 * abs(high) or 1.0
        ax.set_xlim(low - margin, high + margin)
        ax.xaxis.set_major_locator(ticker.MaxNLocator(6))
        ax.ticklabel_format(axis="x", useOffset=False, style="plain")


def _margin_text(ax: Any, row: int | None, text: str, color: str = _INK) -> None:
    """Text at the right of a row; above the first one if row is None."""
    where = {"xycoords": ax.get_yaxis_transform(), "annotation_clip": False}
    if row is None:
        where = {"xycoords": "axes fraction", "annotation_clip": False}
        color = _SOFT
    ax.annotate(
        text,
        (1, 1 if row is None else row),
        (8, 4 if row is None else 0),
        textcoords="offset points",
        va="bottom" if row is None else "center",
        color=color,
        fontsize="small" if row is None else "medium",
        **where,
    )


# Timelines --------------------------------------------------------------------------------

_LANE = "#F4F4F4"  # a row where nothing runs


def gantt(
    names: Sequence[str],
    starts: Sequence[float],
    durations: Sequence[float],
    rows: Sequence[int],
    *,
    labels: Sequence[str],
    kinds: Sequence[str] | None = None,
    levels: Sequence[int] | None = None,
    groups: Sequence[str] | None = None,
    notes: Sequence[str] | None = None,
    notes_title: str = "",
    length: float | None = None,
    colours: Mapping[str, str] | None = None,
    ax: Any = None,
) -> Any:
    """Show what ran when: a row for each lane, a bar for each thing that ran in it.

    The six kinds that most time went on have a colour, the others are grey. A name stands in
    its bar where there is room for it. Something that took no time is a thin line.

    Args:
        names: what ran, one name for each bar.
        starts, durations: in seconds.
        rows: in which row each bar lies, from 0.
        labels: names of the rows, from the top.
        kinds: what the colours and the legend go by; by default the names.
        levels: for bars that lie inside others: 0 for the outer ones, which are drawn above.
        groups: a heading for each row; rows of one heading should follow each other.
        notes: a text at the right of each row.
        notes_title: what the notes are.
        length: seconds along x; by default up to the last end.
        colours: colours for some kinds. The others take those that are left.
        ax: where to draw.

    Returns:
        The axes.

    Raises:
        ValueError: different lengths, no rows, a row that has no label, or a negative duration.
    """
    starts, durations = (np.asarray(times, dtype=float) for times in (starts, durations))
    rows = np.asarray(rows, dtype=int)
    levels = np.zeros(len(rows), int) if levels is None else np.asarray(levels, dtype=int)
    names = [str(name) for name in names]
    kinds = names if kinds is None else [str(kind) for kind in kinds]
    lengths = [len(column) for column in (names, starts, durations, rows, kinds, levels)]
    if len(set(lengths)) != 1 or not len(labels):
        raise ValueError(
            "names, starts, durations, rows, kinds and levels must have one entry for each bar, "
            f"and there are {', '.join(map(str, lengths))}, in {len(labels)} rows"
        )
    if len(rows) and not (rows.min() >= 0 and rows.max() < len(labels)):
        raise ValueError(
            f"rows go from {rows.min()} to {rows.max()}, but {len(labels)} have labels"
        )
    if not (durations >= 0).all():
        raise ValueError(f"a bar takes {durations.min():g} s; a duration is 0 or more")
    if length is None:
        length = float((starts + durations).max()) if len(rows) else 0.0

    deep = np.ones(len(labels), dtype=int)  # how many levels each row has
    np.maximum.at(deep, rows, levels + 1)
    tops, headings, y = [], [], 0.0
    for i in range(len(labels)):
        if groups is not None and (i == 0 or groups[i] != groups[i - 1]):
            headings.append((y + 0.3, str(groups[i])))
            y += 0.62
        tops.append(y)
        y += 0.3 + _thickness(0) + _thickness(1) * (deep[i] - 1)
    tops, bottom = np.array(tops), y - 0.3
    legend = _key(kinds, durations, colours or {})

    if ax is None:
        from matplotlib import pyplot as plt

        size = (8.0, 1.0 + 0.44 * bottom)
        ax = plt.subplots(figsize=size, layout="constrained")[1]
    unit = _time_unit(length)
    scale = _UNITS[unit]
    width = length / scale or 1.0
    ax.set_xlim(-0.01 * width, 1.01 * width)
    ax.set_ylim(bottom + 0.2, -0.2)
    middles = []
    for i in range(len(labels)):
        height = _thickness(0) + _thickness(1) * (deep[i] - 1)
        ax.axhspan(tops[i], tops[i] + height, color=_LANE, lw=0, zorder=0)
        middles.append(tops[i] + height / 2)
        if notes is not None:
            _margin_text(ax, middles[-1], notes[i])
    if notes_title:
        _margin_text(ax, None, notes_title)
    ax.set_yticks(middles, [_two_lines(str(label)) for label in labels], color=_INK)
    for place, heading in headings:
        ax.annotate(
            heading, (0, place), (-4, 0), xycoords=ax.get_yaxis_transform(),
            textcoords="offset points", ha="right", va="center", color=_SOFT, fontsize="small",
            annotation_clip=False,
        )  # fmt: skip
    ax.tick_params(axis="y", length=0)
    ax.tick_params(axis="x", color=_SOFT, labelcolor=_INK)
    ax.spines[["top", "right", "left"]].set_visible(False)
    ax.spines["bottom"].set_color(_SOFT)
    ax.grid(axis="x", color="white", lw=0.8)
    ax.set_axisbelow(True)
    ax.set_xlabel(f"time ({unit})", color=_INK)

    below = tops[rows] + np.where(levels > 0, _thickness(0) + _thickness(1) * (levels - 1), 0)
    high = np.where(levels > 0, _thickness(1), _thickness(0))
    points = _width(ax) / width
    handles = _bars(
        ax, np.asarray(kinds), starts / scale, durations / scale, below, high, legend, points
    )
    shades = [legend.get(kind, _OTHER) for kind in kinds]
    _bar_names(ax, names, starts / scale, durations / scale, below + high / 2, shades, points)
    if handles:
        widest = max(len(handle.get_label()) for handle in handles)
        columns = max(1, min(len(handles), int(points * width / (5 * widest + 34))))
        ax.legend(
            handles=handles, loc="lower left", bbox_to_anchor=(0, 1), ncols=columns,
            frameon=False, fontsize="small", labelcolor=_INK, borderaxespad=0.2, borderpad=0.1,
            handlelength=1, handleheight=1, handletextpad=0.5, columnspacing=1.4,
        )  # fmt: skip
    return ax


def _two_lines(label: str, wide: int = 28) -> str:
    """A lane's name in two lines at most, as many as a row has room for."""
    lines = textwrap.wrap(label, wide) or [""]
    if len(lines) > 2:
        lines = [lines[0], f"{lines[1][: wide - 1]}…"]
    return "\n".join(lines)


def _width(ax: Any) -> float:
    """How wide the axes are going to be, in points: the names of its rows take their room first."""
    layout = ax.figure.get_layout_engine()
    if layout is not None:
        layout.execute(ax.figure.figure)
    return ax.get_window_extent().width * 72 / ax.figure.dpi


def _thickness(level: int) -> float:
    """How thick a bar is, in rows: those inside another one are thinner."""
    return 0.42 if level else 0.7


def _key(kinds: Sequence[str], durations: np.ndarray, given: Mapping[str, str]) -> dict[str, str]:
    """The kinds that get a colour, by the time spent on them, with it."""
    unique, index = np.unique(np.asarray(kinds, dtype=str), return_inverse=True)
    time = np.bincount(index.ravel(), weights=durations, minlength=len(unique))
    ranked = [str(unique[i]) for i in np.argsort(-time, kind="stable")]
    free = [c for c in list(COLOURS.values())[:6] if c not in given.values()]
    chosen = [kind for kind in ranked if kind not in given][: len(free)]
    colours = {**dict(zip(chosen, free, strict=False)), **given}
    return {kind: colours[kind] for kind in ranked if kind in colours}


_OTHER = "#A6A6A6"


def _bars(
    ax: Any,
    kinds: np.ndarray,
    starts: np.ndarray,
    durations: np.ndarray,
    below: np.ndarray,
    high: np.ndarray,
    legend: Mapping[str, str],
    points: float,
) -> list[Any]:
    """Draw all bars, those of a colour together: fast however many they are."""
    from matplotlib.collections import LineCollection, PolyCollection
    from matplotlib.patches import Patch

    handles = []
    parts = [(kind, colour, kinds == kind) for kind, colour in legend.items()]
    parts.append(("other", _OTHER, ~np.isin(kinds, list(legend))))
    for kind, colour, mine in parts:
        if not mine.any():
            continue
        x, y = starts[mine], below[mine]
        across, up = durations[mine], high[mine]
        corners = np.stack(
            [np.stack([x + i * across, y + j * up], axis=1) for i, j in _CORNERS], axis=1
        )
        long = across > 0
        # A white edge tells neighbours apart, but only where it leaves something of the bar.
        edges = np.where(across[long] * points > 4, 0.6, 0.0)
        if long.any():
            bars = PolyCollection(
                corners[long], facecolors=colour, edgecolors="white", linewidths=edges, zorder=2
            )
            bars.set_label(kind)
            if (across[long] * points < 1).mean() > 0.5:
                bars.set_snap(False)  # many to a pixel: they mix, and show how dense they are
            ax.add_collection(bars, autolim=False)
        if not long.all():
            ticks = LineCollection(
                corners[~long][:, :2], colors=colour, linewidths=1.0, zorder=3, label=kind
            )
            ax.add_collection(ticks, autolim=False)
        handles.append(Patch(color=colour, label=kind, lw=0))
    return handles


_CORNERS = ((0, 0), (0, 1), (1, 1), (1, 0))


def _bar_names(
    ax: Any,
    names: Sequence[str],
    starts: np.ndarray,
    durations: np.ndarray,
    middle: np.ndarray,
    shades: Sequence[str],
    points: float,
    most: int = 200,
) -> None:
    """Write names into bars that are long enough, unless there are too many of them."""
    letters = np.array([len(name) for name in names])
    fits = np.flatnonzero(durations * points > 4.9 * letters + 6) if len(names) else []
    if len(fits) > most:
        return
    from matplotlib.colors import to_rgb

    for i in fits:
        light = np.dot(to_rgb(shades[i]), (0.299, 0.587, 0.114)) > 0.55
        ax.text(
            starts[i] + durations[i] / 2, middle[i], names[i], ha="center", va="center",
            fontsize=7.5, color="black" if light else "white", zorder=4, clip_on=True,
        )  # fmt: skip


# Graphs -----------------------------------------------------------------------------------

_FONT = 10.0  # points, as are all the lengths below
_PADDING = (9.0, 6.0)
_LINE = 13.0
_GAP = (46.0, 18.0)


def graph(
    nodes: Iterable[Hashable],
    edges: Iterable[Sequence[Any]],
    *,
    labels: Mapping[Any, str] | None = None,
    highlight: Iterable[Hashable] = (),
    ax: Any = None,
) -> Any:
    """Draw a small directed graph without cycles, such as a data flow, from left to right.

    Each node stands one column right of the last of those it depends on. Inputs (nothing
    leads to them) are grey, results (nothing follows) green, highlighted nodes orange, all
    others blue.

    Args:
        nodes: names, in the order in which they are put from top to bottom where the edges
            leave it open.
        edges: pairs (from, to), or triples (from, to, text beside the arrow).
        labels: texts to show instead of the names; a line break starts a new line.
        highlight: nodes to stand out.
        ax: where to draw; the drawing is made smaller where that is needed.

    Returns:
        The axes, with one unit a point (1/72 inch).

    Raises:
        ValueError: no nodes, a node given twice, an edge from or to a node that is not given,
            or a cycle.
    """
    nodes = list(nodes)
    edges = [tuple(edge) for edge in edges]
    highlight = set(highlight)
    _check_graph(nodes, edges, highlight | set(labels or {}))
    text = {node: str((labels or {}).get(node, node)) for node in nodes}
    size = {node: _box(text[node]) for node in nodes}
    layers, chains = _layers(nodes, edges)
    place = _coordinates(layers, chains, size)

    width = max(place[n][0] + size[n][0] / 2 for n in nodes)
    tops = [place[n][1] - size[n][1] / 2 for n in nodes] + [y for _, y in place.values()]
    bottoms = [place[n][1] + size[n][1] / 2 for n in nodes] + [y for _, y in place.values()]
    top, bottom, border = min(tops), max(bottoms), 8.0
    extent = (width + 2 * border, bottom - top + 2 * border)
    if ax is None:
        from matplotlib import pyplot as plt

        shrink = min(1.0, 12 * 72 / extent[0])
        figure = plt.figure(figsize=(extent[0] * shrink / 72, extent[1] * shrink / 72))
        ax = figure.add_axes((0, 0, 1, 1))
    ax.set_axis_off()
    ax.set_xlim(-border, width + border)
    ax.set_ylim(bottom + border, top - border)
    ax.set_aspect("equal", adjustable="box", anchor="C")
    window = ax.get_window_extent()
    scale = min(
        1.0,
        *(have * 72 / ax.figure.dpi / need for have, need in zip(window.size, extent, strict=True)),
    )

    sources = set(nodes) - {edge[1] for edge in edges}
    sinks = set(nodes) - {edge[0] for edge in edges}
    for node in nodes:
        fill, line = "#DCEBF5", COLOURS["blue"]
        if node in highlight:
            fill, line = "#FBE3B5", COLOURS["vermillion"]
        elif node in sources:
            fill, line = "#F2F2F2", _SOFT
        elif node in sinks:
            fill, line = "#D9F0E8", COLOURS["green"]
        _draw_box(ax, place[node], size[node], text[node], fill, line, scale)
    for path, label in _routes(chains, place, size):
        _draw_arrow(ax, path, label, scale)
    return ax


def _check_graph(nodes: list[Any], edges: list[Any], mentioned: set[Any]) -> None:
    if not nodes:
        raise ValueError("there are no nodes to draw")
    twice = sorted({str(node) for node in nodes if nodes.count(node) > 1})
    if twice:
        raise ValueError(f"nodes given twice: {', '.join(twice)}")
    for edge in edges:
        if len(edge) not in (2, 3):
            raise ValueError(f"an edge is (from, to) or (from, to, text), not {edge!r}")
        for end in edge[:2]:
            if end not in nodes:
                raise ValueError(f"the edge {edge!r} has an end that is not a node: {end!r}")
    for node in mentioned - set(nodes):
        raise ValueError(f"labels or highlight speak of a node that is not given: {node!r}")


def _box(text: str) -> tuple[float, float]:
    """Width and height of a box around a text, in points."""
    from matplotlib.textpath import TextPath

    lines = text.split("\n")
    widths = [TextPath((0, 0), line, size=_FONT).get_extents().width for line in lines if line]
    inner = max(widths, default=0.0)
    return max(inner, 12.0) + 2 * _PADDING[0], len(lines) * _LINE + 2 * _PADDING[1]


def _layers(nodes: list[Any], edges: list[Any]) -> tuple[list[list[Any]], list[Any]]:
    """Columns of nodes, and for each edge its chain of nodes, one a column.

    An edge that jumps over columns goes through an invisible node in each of them, so that
    the layout keeps a lane free for it.
    """
    before: dict[Any, list[Any]] = {node: [] for node in nodes}
    for source, target, *_ in edges:
        before[target].append(source)
    depth: dict[Any, int] = {}

    def visit(node: Any, path: tuple[Any, ...]) -> int:
        if node in path:
            cycle = " -> ".join(map(str, reversed((*path[path.index(node) :], node))))
            raise ValueError(f"the graph has a cycle, so it has no left to right: {cycle}")
        if node not in depth:
            depth[node] = max((visit(b, (*path, node)) + 1 for b in before[node]), default=0)
        return depth[node]

    for node in nodes:
        visit(node, ())
    for node in nodes:  # an input stands just left of the first that needs it
        after = [depth[edge[1]] for edge in edges if edge[0] == node]
        if not before[node] and after:
            depth[node] = min(after) - 1
    layers: list[list[Any]] = [[] for _ in range(max(depth.values()) + 1)]
    for node in nodes:
        layers[depth[node]].append(node)
    chains = []
    for k, (source, target, *label) in enumerate(edges):
        lane = [_Lane((k, column)) for column in range(depth[source] + 1, depth[target])]
        for column, node in enumerate(lane, depth[source] + 1):
            layers[column].append(node)
        chains.append(([source, *lane, target], label[0] if label else ""))
    _order(layers, chains)
    return layers, chains


class _Lane(tuple):
    """An invisible node: the place where a long edge crosses a column."""

    __slots__ = ()


def _neighbours(chains: list[Any]) -> tuple[dict[Any, list[Any]], dict[Any, list[Any]]]:
    left: dict[Any, list[Any]] = {}
    right: dict[Any, list[Any]] = {}
    for chain, _ in chains:
        for a, b in pairwise(chain):
            right.setdefault(a, []).append(b)
            left.setdefault(b, []).append(a)
    return left, right


def _order(layers: list[list[Any]], chains: list[Any]) -> None:
    """Sort each column so that few edges cross (Sugiyama's barycentre method), in place."""
    left, right = _neighbours(chains)

    def crossings() -> int:
        rank = {node: i for layer in layers for i, node in enumerate(layer)}
        total = 0
        for layer in layers:
            ends = [(rank[a], rank[b]) for a in layer for b in right.get(a, ())]
            total += sum(
                (a - c) * (b - d) < 0 for i, (a, b) in enumerate(ends) for c, d in ends[:i]
            )
        return total

    best, fewest = [list(layer) for layer in layers], crossings()
    for sweep in range(12):
        side = left if sweep % 2 == 0 else right
        for layer in layers if sweep % 2 == 0 else layers[::-1]:
            rank = {node: i for other in layers for i, node in enumerate(other)}
            centre = {}
            for node in layer:
                near = [rank[n] for n in side.get(node, ())]
                centre[node] = sum(near) / len(near) if near else rank[node]
            layer.sort(key=centre.__getitem__)
        now = crossings()
        if now < fewest:
            best, fewest = [list(layer) for layer in layers], now
    for layer, order in zip(layers, best, strict=True):
        layer[:] = order


def _coordinates(
    layers: list[list[Any]], chains: list[Any], size: dict[Any, tuple[float, float]]
) -> dict[Any, tuple[float, float]]:
    """Centres of all nodes, x to the right and y downwards, in points."""
    left, right = _neighbours(chains)
    labelled = {id_ for chain, label in chains if label for id_ in chain[:-1]}
    x, here = {}, 0.0
    for layer in layers:
        wide = max((size[n][0] for n in layer if n in size), default=0.0)
        for node in layer:
            x[node] = here + wide / 2
        text = max(
            (_box(label)[0] for chain, label in chains if label and chain[0] in layer), default=0.0
        )
        here += wide + _GAP[0] + (text if labelled & set(layer) else 0.0)

    def height(node: Any) -> float:
        return size[node][1] if node in size else 4.0

    y: dict[Any, float] = {}
    for layer in layers:
        offsets = _offsets([height(n) for n in layer])
        middle = (offsets[0] + offsets[-1]) / 2
        for node, offset in zip(layer, offsets, strict=True):
            y[node] = offset - middle
    for sweep in range(61):
        for layer in layers if sweep % 2 == 0 else layers[::-1]:
            wish = []
            for node in layer:
                near = [n for side in (left, right) for n in side.get(node, ())]
                # A lane pulls more than a box, so that long edges become straight.
                near = [y[n] for n in near for _ in range(4 if isinstance(n, _Lane) else 1)]
                wish.append(sum(near) / len(near) if near else y[node])
            offsets = _offsets([height(n) for n in layer])
            for node, place in zip(layer, _apart(wish, offsets), strict=True):
                y[node] = place
    return {node: (x[node], y[node]) for node in x}


def _offsets(heights: list[float]) -> list[float]:
    """Centres of boxes stacked with the smallest gap, the first at 0."""
    places = [0.0]
    for above, below in pairwise(heights):
        places.append(places[-1] + (above + below) / 2 + _GAP[1])
    return places


def _apart(wish: list[float], offsets: list[float]) -> list[float]:
    """The places nearest to the wished ones that keep order and distances (isotonic fit)."""
    blocks: list[list[float]] = []  # sum, number
    for want, offset in zip(wish, offsets, strict=True):
        blocks.append([want - offset, 1])
        while len(blocks) > 1 and blocks[-2][0] / blocks[-2][1] > blocks[-1][0] / blocks[-1][1]:
            total, count = blocks.pop()
            blocks[-1][0] += total
            blocks[-1][1] += count
    fitted = [total / count for total, count in blocks for _ in range(int(count))]
    return [place + offset for place, offset in zip(fitted, offsets, strict=True)]


def _routes(
    chains: list[Any], place: dict[Any, tuple[float, float]], size: dict[Any, tuple[float, float]]
) -> list[tuple[list[tuple[float, float]], str]]:
    """For each edge the points it goes through, from border to border, and its text."""

    def ports(node: Any, ends: list[tuple[float, int]]) -> dict[int, float]:
        """Where on the border of a node each of its edges is fastened, sorted by direction."""
        step = min(7.0, 0.6 * size[node][1] / max(1, len(ends)))
        ends = sorted(ends)
        first = place[node][1] - step * (len(ends) - 1) / 2
        return {k: first + step * i for i, (_, k) in enumerate(ends)}

    out: dict[Any, list[tuple[float, int]]] = {}
    into: dict[Any, list[tuple[float, int]]] = {}
    for k, (chain, _) in enumerate(chains):
        into.setdefault(chain[-1], []).append((place[chain[-2]][1], k))
        out.setdefault(chain[0], []).append((place[chain[1]][1], k))
    # Leaving edges share one point (it is one value); entering ones are kept apart.
    entry = {node: ports(node, ends) for node, ends in into.items()}
    routes = []
    for k, (chain, label) in enumerate(chains):
        source, target = chain[0], chain[-1]
        start = (place[source][0] + size[source][0] / 2, place[source][1])
        end = (place[target][0] - size[target][0] / 2, entry[target][k])
        routes.append(([start, *(place[lane] for lane in chain[1:-1]), end], label))
    return routes


def _draw_box(
    ax: Any, centre: Any, size: Any, text: str, fill: str, line: str, scale: float
) -> None:
    from matplotlib.patches import FancyBboxPatch

    (x, y), (w, h) = centre, size
    box = FancyBboxPatch(
        (x - w / 2, y - h / 2),
        w,
        h,
        boxstyle="round,pad=0,rounding_size=5",
        facecolor=fill,
        edgecolor=line,
        linewidth=1.2 * scale,
        zorder=3,
    )
    box.set_gid(text)
    ax.add_patch(box)
    ax.text(
        x, y, text, ha="center", va="center", fontsize=_FONT * scale, color=_INK, zorder=4,
        linespacing=1.15,
    )  # fmt: skip


def _draw_arrow(ax: Any, points: list[tuple[float, float]], label: str, scale: float) -> None:
    """A smooth line through the points, level at both ends, with a head at the last."""
    from matplotlib.patches import FancyArrowPatch
    from matplotlib.path import Path

    inner = [(y1 - y0) / (x1 - x0) for (x0, y0), (x1, y1) in zip(points, points[2:], strict=False)]
    slopes = [0.0, *inner, 0.0]
    path, codes = [points[0]], [Path.MOVETO]
    for i, ((x0, y0), (x1, y1)) in enumerate(pairwise(points)):
        bend = (x1 - x0) * (0.5 if len(points) == 2 else 0.4)
        path += [(x0 + bend, y0 + bend * slopes[i]), (x1 - bend, y1 - bend * slopes[i + 1])]
        path.append((x1, y1))
        codes += [Path.CURVE4] * 3
    ax.add_patch(
        FancyArrowPatch(
            path=Path(path, codes),
            arrowstyle="-|>,head_length=5,head_width=2.4",
            mutation_scale=scale,
            color="#666666",
            linewidth=1.2 * scale,
            capstyle="butt",
            joinstyle="miter",
            shrinkA=0,
            shrinkB=0,
            zorder=2,
        )
    )
    if label:
        (x0, y0), (x1, y1) = points[:2]
        ax.text(
            (x0 + x1) / 2, (y0 + y1) / 2, label, ha="center", va="center", color=_INK,
            fontsize=0.9 * _FONT * scale, zorder=5,
            bbox={"facecolor": "white", "edgecolor": "none", "pad": 1.5 * scale},
        )  # fmt: skip


class _CallableModule(ModuleType):
    """Lets ``d2lperf.plot`` be the book's function and this module at the same time."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return plot(*args, **kwargs)

    @property
    def __signature__(self) -> inspect.Signature:
        return inspect.signature(plot)

    def __reduce__(self) -> tuple[Any, ...]:  # a module is pickled as its name
        return importlib.import_module, (self.__name__,)


sys.modules[__name__].__class__ = _CallableModule
