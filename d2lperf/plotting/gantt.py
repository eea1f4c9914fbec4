"""What ran when: a row for each lane, a bar for each span."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from d2lperf.plotting import style
from d2lperf.plotting.colours import GREY, colours_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class DrawnSpan(NamedTuple):
    """A span as it is drawn; times in seconds."""

    name: str
    start_s: float
    duration_s: float
    lane: str
    depth: int  # 1 or more: it lies inside another one and is drawn below it


def gantt(
    spans: Iterable[DrawnSpan | tuple[Any, ...]],
    *,
    lanes: Iterable[str] | None = None,
    length_s: float | None = None,
    palette: Mapping[str, str] | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Show what ran when: a row for each lane, a bar for each span; return the axes, in seconds.

    The six names on which most time went have a colour, the others are grey. A number after a
    space, "_", "#" or "-" makes no other name ("load 0", "load 1"). Names that do not fit into
    their bars stand in a legend. A span that took no time is a line.

    Args:
        spans: each a `DrawnSpan`, or a tuple (name, start_s, duration_s, lane, depth), times in
            seconds. A span of depth 1 or more lies inside another one and is drawn below it.
        lanes: the lanes to draw, from the top; by default all, in the order of the spans. If there
            are none, the figure says so.
        length_s: seconds along x; by default up to the last end.
        palette: colours of some names, such as {"forward": "green"}.
        ax: axes to draw into; a new figure by default.
    """
    from matplotlib.colors import to_rgb
    from matplotlib.patches import Patch, PathPatch
    from matplotlib.path import Path

    bars = [DrawnSpan(*span) for span in spans]
    lanes = list(dict.fromkeys(bar.lane for bar in bars) if lanes is None else lanes)
    place = {lane: i for i, lane in enumerate(lanes)}
    bars = [bar for bar in bars if bar.lane in place]
    names = [str(bar.name) for bar in bars]
    rows = [(bar.start_s, bar.duration_s, place[bar.lane], bar.depth) for bar in bars]
    start, duration, lane, depth = np.array(rows, dtype=float).reshape(-1, 4).T
    lane = lane.astype(int)
    length_s = float((start + duration).max(initial=0.0) if length_s is None else length_s) or 1.0
    levels = np.ones(max(1, len(lanes)))
    np.maximum.at(levels, lane, depth + 1)
    made = ax is None
    ax = style.row_axes(ax, lanes or ["no lanes"], "time", 0.42 * levels.mean())
    ax.set_xlim(-0.01 * length_s, 1.01 * length_s)
    style.ticks(ax.xaxis, False, "s")
    ax.barh(range(len(lanes)), length_s, height=0.8, color="#F4F4F4", zorder=0)

    kind = {name: re.sub(r"[\s_#-]+\d+$", "", name) or name for name in dict.fromkeys(names)}
    seconds: dict[str, float] = defaultdict(float)
    for name, took in zip(names, duration.tolist()):
        seconds[kind[name]] += took
    most = sorted(seconds, key=lambda name: -seconds[name])[:6]
    key = {**colours_of([name for name in seconds if name in most], palette), "other": GREY}
    number = {name: i for i, name in enumerate(key)}
    colour = np.array([number.get(kind[name], len(key) - 1) for name in names], dtype=int)

    figure: Any = ax.figure
    figure.canvas.figure.draw_without_rendering()  # the names of the lanes take their room
    point = length_s / (ax.get_window_extent().width * 72 / figure.dpi)  # in seconds
    end, high = start + np.maximum(duration, 0.8 * point), 0.8 / levels[lane]
    top = lane - 0.4 + depth * high
    corners = np.array([[start, start, end, end], [top, top + high, top + high, top]]).T
    wide = duration > 4 * point  # a white edge parts it from its neighbours
    for i, shade in enumerate(key.values()):
        for those, edge in ((~wide, 0.0), (wide, 0.6)):  # an artist for each would take seconds
            path = Path.make_compound_path_from_polys(corners[(colour == i) & those])
            ax.add_artist(PathPatch(path, facecolor=shade, edgecolor="white", lw=edge, zorder=2))
    light = [np.dot(to_rgb(shade), (0.3, 0.59, 0.11)) for shade in key.values()]
    options: dict[str, Any] = {
        "fontsize": 9,
        "ha": "center",
        "va": "center",
        "clip_on": True,
        "parse_math": False,
    }
    fits = duration > point * np.array([6 * len(name) + 4 for name in names])
    for i in np.flatnonzero(fits)[:200]:
        ink = "white" if light[colour[i]] < 0.55 else "black"
        ax.text(start[i] + duration[i] / 2, top[i] + high[i] / 2, names[i], color=ink, **options)
    missing = [name for name, i in number.items() if i in colour[~fits]]
    if missing:
        # The longest name decides how many stand side by side; 7 points for a letter.
        column = 7 * max(map(len, missing)) + 40
        ncols = min(4, max(1, int(72 * figure.get_figwidth() // column)))
        above = {"loc": "lower left", "bbox_to_anchor": (0, 1), "frameon": False, "ncols": ncols}
        style.legend(ax, [Patch(color=key[name], lw=0) for name in missing], missing, **above)
        if made:
            width, high = figure.get_size_inches()
            figure.set_size_inches(width, high + 0.26 * math.ceil(len(missing) / ncols))
    return ax
