"""The book's `plot` and `set_figsize`."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from d2lperf.plotting import style
from d2lperf.plotting.colours import COLOURS, FAINT


def set_figsize(figsize: tuple[float, float] = (3.5, 2.5)) -> None:
    """Set width and height of the next figures, in inches; Jupyter's image format stays."""
    from matplotlib import pyplot as plt

    plt.rcParams["figure.figsize"] = figsize


def plot(
    X: Any, Y: Any = None, xlabel: str | None = None, ylabel: str | None = None,
    legend: Sequence[str] | None = None, xlim: Any = None, ylim: Any = None,
    xscale: str = "linear", yscale: str = "linear",
    fmts: Sequence[str] = ("-", "--", "-.", ":"), figsize: tuple[float, float] = (3.5, 2.5),
    axes: Any = None,
) -> Any:  # fmt: skip
    """Draw lines, called like the book's ``d2l.plot``; return the axes.

    Unlike the book's, it takes tensors of any device, draws all lines even where there are more of
    them than formats, and leaves the default size of figures as it is.

    Args:
        X: x values: one sequence for all lines, or one for each. Without `Y` these are the
            values, drawn over 0, 1, 2, ...
        Y: the values: a sequence (one line), or a sequence of sequences.
        xlabel, ylabel, xlim, ylim, xscale, yscale, fmts: as in matplotlib.
        legend: a name for each line.
        figsize: width and height in inches if a new figure is made.
        axes: where to draw; what is there is removed. Default: the current axes.

    Raises:
        ValueError: X and Y do not match.
        TypeError: `axes` is something else than matplotlib's axes.
    """
    from matplotlib import pyplot as plt

    xs = _rows(X)
    xs, ys = ([np.arange(len(x)) for x in xs], xs) if Y is None else (xs, _rows(Y))
    xs = xs * len(ys) if len(xs) == 1 else xs
    sizes = [len(x) for x in xs], [len(y) for y in ys]
    if sizes[0] != sizes[1]:
        raise ValueError("X has lines of {} values, Y of {}; give one X or one each".format(*sizes))
    axes = style.axes(plt.gca() if axes is None and plt.get_fignums() else axes, *figsize)
    axes.cla()
    axes.set_prop_cycle(color=list(COLOURS.values()))
    for i, (x, y) in enumerate(zip(xs, ys)):
        axes.plot(x, y, fmts[i % len(fmts)] if fmts else "-")
    axes.set(xscale=xscale, yscale=yscale, xlim=xlim, ylim=ylim)
    axes.set_xlabel(xlabel or "", parse_math=False)
    axes.set_ylabel(ylabel or "", parse_math=False)
    if legend:
        style.legend(axes, axes.lines[: len(legend)], legend[: len(axes.lines)], frameon=True)
    axes.grid(color=FAINT)
    return axes


def _rows(values: Any) -> list[np.ndarray]:
    """One array for each line, from a sequence of numbers or a sequence of sequences."""
    values = style.to_array(values) if hasattr(values, "ndim") else list(values)
    if not len(values) or np.ndim(style.to_array(values[0])) == 0:
        return [style.to_array(values)]
    return [style.to_array(row) for row in values]
