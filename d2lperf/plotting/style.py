"""What all figures share: axes, rows, texts and numbers."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterable, Sequence
from typing import Any

from d2lperf.plotting.colours import FAINT, INK, SOFT

_PREFIXES = {1e12: "T", 1e9: "G", 1e6: "M", 1e3: "k", 1.0: "", 1e-3: "m", 1e-6: "µ", 1e-9: "n"}
_PREFIXED = ("s", "B", "B/s", "FLOP", "FLOP/s")


def axes(ax: Any, width: float, height: float) -> Any:
    """Return `ax`, or new axes of a size in inches.

    Raises:
        TypeError: `ax` is something else than matplotlib's axes.
    """
    from matplotlib import pyplot as plt
    from matplotlib.axes import Axes

    if ax is None:
        return plt.subplots(figsize=(width, height), layout="constrained")[1]
    if isinstance(ax, Axes):
        return ax
    advice = "such as those of plt.subplots()"
    if isinstance(ax, (str, bytes)) or hasattr(ax, "__fspath__"):
        advice = "to write a file, call savefig of the figure: .plot().figure.savefig(path)"
    elif hasattr(ax, "flat"):
        advice = "pass one of the array's axes, such as axes[0]"
    raise TypeError(f"ax must be matplotlib's axes ({advice}), but got {ax!r}")


def number(value: float) -> str:
    """Return a number with three significant digits.

    >>> number(0.00012), number(1.8912), number(1234.5)
    ('0.000120', '1.89', '1,234')
    """
    if value == 0 or not math.isfinite(value):
        return f"{value:g}"
    if not 1e-4 <= abs(value) < 1e7:
        return f"{value:.2e}"
    return f"{value:,.{max(0, 2 - math.floor(math.log10(abs(value) * 1.0005)))}f}"


def quantity(value: float, unit: str = "") -> str:
    """Return a number with its unit, with a prefix for seconds, bytes and operations.

    >>> quantity(0.000371, "s"), quantity(2e9, "B/s"), quantity(3, "rows"), quantity(0.5)
    ('371 µs', '2.00 GB/s', '3.00 rows', '0.500')
    """
    size, prefix = 1.0, ""
    if unit in _PREFIXED and value and math.isfinite(value):
        most = 1.0 if unit == "s" else 1e12
        sizes = [s for s in _PREFIXES if s <= most and (unit == "s" or s >= 1)]
        size = next((s for s in sizes if abs(value) >= 0.9995 * s), sizes[-1])
        prefix = _PREFIXES[size]
    return f"{number(value / size)} {prefix}{unit}".rstrip()


def time_unit(seconds: float) -> tuple[str, float]:
    """Return the unit that suits a time, and its size in seconds: ("ms", 0.001)."""
    sizes = (1.0, 1e-3, 1e-6, 1e-9)
    size = next((size for size in sizes if abs(seconds) >= 0.9995 * size), 1e-9 if seconds else 1.0)
    return f"{_PREFIXES[size]}s", size


def row_axes(ax: Any, names: Sequence[str], height: float, width: float = 7.0) -> Any:
    """Return axes with a row for each name, the first at the top."""
    ax = axes(ax, width, 0.95 + height * len(names))
    ax.set_ylim(len(names) - 0.45, -0.55)
    shown = [textwrap.fill(str(name), 28) for name in names]
    ax.set_yticks(range(len(names)), shown, color=INK, parse_math=False)
    ax.tick_params(axis="y", length=0)
    frame(ax, grid="x", left=False)
    return ax


def frame(ax: Any, grid: str = "both", left: bool = True) -> None:
    """Draw a light grid and no more of the frame than is needed."""
    ax.spines[["top", "right"]].set_visible(False)
    ax.spines["left"].set_visible(left)
    ax.spines[["left", "bottom"]].set_color(SOFT)
    ax.tick_params(axis="both" if left else "x", color=SOFT, labelcolor=INK)
    ax.grid(axis=grid, color=FAINT, lw=0.8)
    ax.set_axisbelow(True)


def scale(axis: Any, log: bool, unit: str = "") -> None:
    """Make an axis linear or logarithmic, with plain numbers or numbers with a unit."""
    from matplotlib import ticker

    if log:
        axis.axes.set(**{f"{axis.axis_name}scale": "log"})
        low, high = axis.get_view_interval()
        wide = high > 1000 * low
        axis.set_major_locator(ticker.LogLocator(subs=(1,) if wide else (1, 2, 5), numticks=12))
        axis.set_minor_locator(ticker.NullLocator())
    if unit in _PREFIXED:
        axis.set_major_formatter(ticker.EngFormatter(unit))
    elif log:
        axis.set_major_formatter(ticker.FuncFormatter(lambda x, _: f"{x:g}"))
    else:
        axis.get_major_formatter().set_useOffset(False)


def beside(ax: Any, row: float | None, text: str, color: str = INK) -> Any:
    """Write at the right of a row, or above the first one if `row` is None."""
    head = row is None
    return ax.annotate(
        text, (1, 1 if head else row), (8, 4 if head else 0), textcoords="offset points",
        xycoords="axes fraction" if head else ax.get_yaxis_transform(),
        va="bottom" if head else "center", color=SOFT if head else color,
        fontsize="small" if head else "medium", annotation_clip=False, parse_math=False,
    )  # fmt: skip


def legend(ax: Any, handles: Iterable[Any], names: Iterable[str], **options: Any) -> Any:
    """Add a legend that shows names as they are, with "$" or a "_" at the start, too."""
    handles, names = list(handles), list(names)
    options = {"frameon": False, "fontsize": "small", "labelcolor": INK, **options}
    made = ax.legend(handles, ["name"] * len(names), **options)
    for text, name in zip(made.get_texts(), names, strict=True):
        text.set(text=str(name), parse_math=False)
    return made
