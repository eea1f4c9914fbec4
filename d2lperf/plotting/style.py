"""What all figures share: axes, rows, ticks and texts. Names are never read as mathtext."""

import textwrap
from typing import Any

import numpy as np

from d2lperf.measuring.formats import format_value as quantity
from d2lperf.plotting.colours import FAINT, INK, SOFT


def axes(ax: Any, width: float, height: float) -> Any:
    """Return `ax`, or new axes of a size in inches; TypeError if `ax` is something else."""
    from matplotlib import pyplot as plt
    from matplotlib.axes import Axes

    if ax is None:
        return plt.subplots(figsize=(width, height), layout="constrained")[1]
    if isinstance(ax, Axes):
        return ax
    raise TypeError(
        f"ax must be matplotlib's axes, one of those that plt.subplots() makes, but got {ax!r}. "
        "To write a file, call .figure.savefig(path) of the axes that are returned."
    )


def frame(ax: Any, xlabel: str, ylabel: str = "", *, grid: str = "both") -> None:
    """Name the axes; draw a light grid and no more of the frame than is needed."""
    ax.set_xlabel(xlabel, color=INK, parse_math=False)
    ax.set_ylabel(ylabel, color=INK, parse_math=False)
    ax.spines[["top", "right", *(["left"] if grid == "x" else [])]].set_visible(False)
    ax.spines[:].set_color(SOFT)
    ax.tick_params(color=SOFT, labelcolor=INK)
    ax.grid(axis=grid, color=FAINT, lw=0.8)
    ax.set_axisbelow(True)


def row_axes(ax: Any, names: Any, xlabel: str, height: float = 0.42) -> Any:
    """Return axes with a row for each name, the first at the top."""
    ax = axes(ax, 7.0, 0.95 + height * len(names))
    frame(ax, xlabel, grid="x")
    ax.set_ylim(len(names) - 0.45, -0.55)
    shown = [textwrap.fill(str(name), 28) for name in names]
    ax.set_yticks(range(len(names)), shown, color=INK, parse_math=False)
    ax.tick_params(axis="y", length=0)
    return ax


def ticks(axis: Any, log: bool, unit: str = "") -> None:
    """Make an axis linear or logarithmic, its ticks plain numbers or numbers with a unit."""
    from matplotlib import ticker

    if log:
        axis.axes.set(**{f"{axis.axis_name}scale": "log"})
        low, high = axis.get_view_interval()
        subs = (1, 2, 5) if high < 50 * low else (1, 3) if high < 2000 * low else (1,)
        axis.set_major_locator(ticker.LogLocator(subs=subs, numticks=12))
        axis.set_minor_locator(ticker.NullLocator())
    if not axis.have_units():  # names instead of numbers keep their ticks
        plain = ticker.FuncFormatter(lambda v, _: quantity(float(v), unit) if unit else f"{v:g}")
        axis.set_major_formatter(ticker.EngFormatter("s") if unit == "s" else plain)


def x_range(ax: Any, low: float, high: float, log: bool, unit: str = "") -> None:
    """Show the x values from low to high with some room beside them."""
    pad = max((high / low) ** 0.08, 1.05) if log else 0.08 * (high - low) or 0.05 * high
    ax.set_xlim((low / pad, high * pad) if log else (low - pad, high + pad))
    ticks(ax.xaxis, log, unit)


def note(ax: Any, text: str, at: Any, offset: Any, **options: Any) -> None:
    """Write outside the axes, some points away from a place, as given by xycoords."""
    options = {"color": SOFT, "annotation_clip": False, **options}
    ax.annotate(text, at, offset, textcoords="offset points", parse_math=False, **options)


def beside(ax: Any, row: float, text: str) -> None:
    """Write at the right of a row."""
    note(ax, text, (1, row), (8, 0), xycoords=ax.get_yaxis_transform(), va="center", color=INK)


def legend(ax: Any, handles: Any, names: Any, **options: Any) -> None:
    """Add a legend; matplotlib's own leaves out names that start with "_"."""
    made = ax.legend(list(handles), ["name"] * len(names), **options)
    for text, name in zip(made.get_texts(), names):
        text.set(text=str(name), parse_math=False, color=INK)


def to_array(values: Any) -> np.ndarray:
    """Return the array of a sequence, or of a tensor of any device, dtype or gradient."""
    if isinstance(values, (list, tuple)):
        values = [v.item() if hasattr(v, "detach") and v.ndim == 0 else v for v in values]
    if hasattr(values, "detach"):
        values = values.detach().cpu()
        values = values.double() if values.is_floating_point() else values
    return np.asarray(values)
