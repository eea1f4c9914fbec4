"""The book's `plot` and `set_figsize`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from d2lperf.plotting import style
from d2lperf.plotting.colours import COLOURS

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def set_figsize(figsize: tuple[float, float] = (3.5, 2.5)) -> None:
    """Set width and height of the next figures, in inches; Jupyter's image format stays."""
    from matplotlib import pyplot as plt

    plt.rcParams["figure.figsize"] = figsize


def plot(
    X: Any,
    Y: Any = None,
    xlabel: str | None = None,
    ylabel: str | None = None,
    legend: Sequence[str] | None = None,
    xlim: Sequence[float] | None = None,
    ylim: Sequence[float] | None = None,
    xscale: str = "linear",
    yscale: str = "linear",
    fmts: Sequence[str] | None = ("-", "--", "-.", ":"),
    figsize: tuple[float, float] = (3.5, 2.5),
    axes: Axes | None = None,
) -> Axes:
    """Draw lines like the book's ``d2l.plot``, into the current axes by default; return the axes.

    Unlike the book's, it takes tensors of any device, draws all lines even where there are more of
    them than formats, and leaves the default size of figures as it is.

    Args:
        X: x values, one sequence for all lines or one for each. Without `Y` these are the values.
        Y: the values, a sequence for one line, or a sequence of sequences.
        legend: a name for each line.
        figsize: width and height in inches if a new figure is made.
    """
    from matplotlib import pyplot as plt

    xs = _rows(X)
    xs, ys = ([np.arange(len(x)) for x in xs], xs) if Y is None else (xs, _rows(Y))
    xs = xs * len(ys) if len(xs) == 1 else xs
    axes = style.axes(plt.gca() if axes is None and plt.get_fignums() else axes, *figsize)
    axes.cla()
    axes.set_prop_cycle(color=list(COLOURS.values()))
    for i, (x, y) in enumerate(zip(xs, ys, strict=True)):
        axes.plot(x, y, fmts[i % len(fmts)] if fmts else "-")
    axes.set(xscale=xscale, yscale=yscale, xlim=xlim, ylim=ylim)
    style.frame(axes, xlabel or "", ylabel or "")
    if legend:
        style.legend(axes, axes.lines[: len(legend)], legend[: len(axes.lines)])
    return axes


def _rows(values: Any) -> list[np.ndarray]:
    """One array for each line, from a sequence of numbers or a sequence of sequences."""
    rows = [style.to_array(row) for row in values]
    return rows if rows and rows[0].ndim else [np.array(rows)]
