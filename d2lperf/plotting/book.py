"""The book's `plot` and `set_figsize`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from d2lperf.plotting.colours import COLOURS, FAINT
from d2lperf.plotting.style import axes as check_axes
from d2lperf.plotting.style import legend as add_legend


def set_figsize(figsize: tuple[float, float] = (3.5, 2.5)) -> None:
    """Set the size of the next figures, in inches, as the book's function does.

    The book's function also switches Jupyter to SVG. Ours leaves the format as it is.

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
    """Draw lines; called like the book's ``d2l.plot``.

    Differences from the book's: tensors of any device are fine, all lines are drawn even where
    there are more of them than formats, and the default size of figures stays as it is.

    Args:
        X: x values: one sequence for all lines, or one for each. Without `Y` these are the
            values, drawn over 0, 1, 2, ...
        Y: the values: a sequence (one line), or a sequence of sequences.
        xlabel, ylabel, xlim, ylim, xscale, yscale: as in matplotlib.
        legend: a name for each line.
        fmts: matplotlib's format strings, taken in turn.
        figsize: width and height in inches if a new figure is made.
        axes: where to draw; what is there is removed. Default: the current axes.

    Returns:
        The axes.

    Raises:
        ValueError: a line has different numbers of x and y, or X and Y do not match.
        TypeError: `axes` is something else than matplotlib's axes.
    """
    from matplotlib import pyplot as plt

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
    axes = check_axes(plt.gca() if axes is None and plt.get_fignums() else axes, *figsize)
    axes.cla()
    axes.set_prop_cycle(color=list(COLOURS.values()))
    for i, (x, y) in enumerate(zip(xs, ys, strict=True)):
        fmt = fmts[i % len(fmts)] if fmts else "-"
        axes.plot(y, fmt) if x is None or not len(x) else axes.plot(x, y, fmt)
    axes.set(xscale=xscale, yscale=yscale, xlim=xlim, ylim=ylim)
    axes.set_xlabel(xlabel or "", parse_math=False)
    axes.set_ylabel(ylabel or "", parse_math=False)
    if legend:
        shown = list(zip(axes.lines, legend, strict=False))
        add_legend(axes, *zip(*shown, strict=True), frameon=True, fontsize=None)
    axes.grid(color=FAINT)
    axes.set_axisbelow(True)
    return axes


def _rows(values: Any) -> list[np.ndarray]:
    """One array for each line, from a sequence of numbers or a sequence of sequences."""
    if hasattr(values, "ndim"):
        array = to_array(values)
        return [array] if array.ndim == 1 else list(array)
    values = list(values)
    if not values or np.ndim(to_array(values[0])) == 0:
        return [to_array(values)]
    return [to_array(row) for row in values]


def to_array(values: Any) -> np.ndarray:
    """NumPy's array of a sequence or of a tensor of any device, dtype or gradient."""
    if isinstance(values, (list, tuple)):
        values = [v.item() if hasattr(v, "detach") and v.ndim == 0 else v for v in values]
    if hasattr(values, "detach"):
        values = values.detach().cpu()
        if values.is_floating_point():
            values = values.double()
    return np.asarray(values)
