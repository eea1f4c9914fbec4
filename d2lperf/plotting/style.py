"""What all figures share: axes, rows, ticks and texts. Names are never read as mathtext."""

from __future__ import annotations

import sys
from collections.abc import Collection
from functools import cache
from textwrap import fill
from typing import TYPE_CHECKING, Any

import numpy as np

from d2lperf.plotting.colours import COLOURS, FAINT, SOFT

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def axes(ax: Axes | None, width: float, height: float) -> Axes:
    """Return `ax`, or new axes of a size in inches; TypeError if `ax` is something else."""
    from matplotlib import pyplot as plt

    if ax is None:
        ax = plt.subplots(figsize=(width, height), layout="constrained")[1]
    if not isinstance(ax, plt.Axes):
        text = f"ax must be axes, such as plt.subplots() makes, not {ax!r}; to write a file, call"
        raise TypeError(f"{text} .figure.savefig(path) of the axes that are returned.")
    crisp_in_notebooks()  # the first figure has loaded the notebook's backend
    return ax


@cache
def crisp_in_notebooks():
    """Show figures of a notebook with twice the pixels, unless its reader has chosen a format.

    As ``%config InlineBackend.figure_formats = ["retina"]`` does; the size on the page stays.
    """
    inline = sys.modules.get("matplotlib_inline.backend_inline")
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    if inline is None or shell is None:
        return
    backend = inline.InlineBackend.instance(parent=shell)
    if backend.figure_formats == {"png"}:
        backend.shell = shell
        backend.figure_formats = {"retina"}


def frame(ax, xlabel, ylabel="", grid="both"):
    """Name the axes; draw a light grid and no more of the frame than is needed."""
    ax.set_xlabel(xlabel, parse_math=False)
    ax.set_ylabel(ylabel, parse_math=False)
    ax.spines[["top", "right"]].set_visible(False)
    ax.spines["left"].set_visible(grid != "x")
    ax.spines[:].set_color(SOFT)
    ax.grid(axis=grid, color=FAINT, lw=0.8)
    ax.set_axisbelow(True)


def row_axes(ax: Axes | None, names: Collection[str], xlabel: str, height: float = 0.42) -> Axes:
    """Return axes with a row of a height in inches for each name, the first at the top."""
    ax = axes(ax, 7.0, 0.95 + height * len(names))
    frame(ax, xlabel, grid="x")
    ax.set_ylim(len(names) - 0.45, -0.55)
    ax.set_yticks(range(len(names)), [fill(str(name), 28) for name in names], parse_math=False)
    ax.tick_params(axis="y", length=0)
    return ax


def _subdivisions(span):
    """Where a logarithmic axis has ticks between powers of ten, by what its ends differ."""
    if span < 8:
        return 1, 1.5, 2, 3, 4, 5, 7
    if span < 50:
        return 1, 2, 5
    return (1, 3) if span < 2000 else (1,)


def ticks(axis, log, unit=""):
    """Make an axis linear or logarithmic, its ticks numbers with or without a unit."""
    from matplotlib import ticker

    if log:
        axis.axes.set(**{f"{axis.axis_name}scale": "log"})
        low, high = axis.get_view_interval()
        axis.set_major_locator(ticker.LogLocator(subs=_subdivisions(high / low), numticks=12))
        axis.set_minor_locator(ticker.NullLocator())
    elif unit and unit != "s" and axis.axis_name == "x":
        axis.set_major_locator(ticker.MaxNLocator(5))  # long labels side by side
    if not axis.have_units():  # names instead of numbers keep their ticks
        from d2lperf.plotting.ticks import TickLabels

        axis.set_major_formatter(TickLabels(unit, log))


def note(ax, text, at, offset, **options):
    """Write outside the axes, some points away from a place, as given by xycoords."""
    options = {"color": SOFT, "annotation_clip": False, **options}
    ax.annotate(text, at, offset, textcoords="offset points", parse_math=False, **options)


def beside(ax, row, text):
    """Write at the right of a row."""
    note(ax, text, (1, row), (8, 0), xycoords=ax.get_yaxis_transform(), va="center", color="black")


def predictions(ax, rows, values):
    """Mark what was predicted for some rows with a diamond; `beside` says which number it is."""
    ax.plot(values, rows, "D", color=COLOURS["black"], mfc="white", ms=6, ls="", zorder=5)


def legend(ax, handles, names, **options):
    """Add a legend; matplotlib's own leaves out names that start with "_"."""
    made = ax.legend(handles, ["name"] * len(names), **options)
    for text, name in zip(made.get_texts(), names):
        text.set(text=str(name), parse_math=False)


def to_array(values: Any) -> np.ndarray:
    """Return the array of a sequence, or of a tensor of any device, dtype or gradient."""
    if isinstance(values, (list, tuple)):
        return np.array([to_array(value) for value in values])
    if hasattr(values, "detach"):
        values = values.detach().cpu()
        values = values.double() if values.is_floating_point() else values
    return np.asarray(values)
