"""What ran when: a row for each lane, a bar for each span."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from d2lperf.plotting import style
from d2lperf.plotting.colours import GREY, SOFT, colours_of, kind_of

_COLOURED = 6  # names with a colour of their own


def gantt(
    spans: Iterable[Sequence[Any]], *, lanes: Sequence[str] | None = None,
    notes: Mapping[str, str] | None = None, notes_title: str = "", length_s: float | None = None,
    colours: Mapping[str, str] | None = None, ax: Any = None,
) -> Any:  # fmt: skip
    """Show what ran when: a row for each lane, a bar for each span; return the axes, in seconds.

    The names on which most time went have a colour, the others are grey; a number at the end makes
    no other name ("load 0", "load 1"). A name stands in its bar where it fits, and in a legend if
    it is missing in one. A span that took no time is a line.

    Args:
        spans: tuples (name, start_s, duration_s, lane, device, depth), times in seconds. Rows of
            one device stand together. A span of depth 1 or more lies inside another one and is
            drawn below it. Device and depth may be left out.
        lanes: the lanes to draw, from the top; by default all, in the order of the spans.
        notes: a text at the right of each lane, by lane; `notes_title` stands above.
        length_s: seconds along x; by default up to the last end.
        colours: colours for some names.
        ax: where to draw; a new figure by default.

    Raises:
        ValueError: there are no lanes, or a duration is negative.
    """
    from matplotlib.collections import PolyCollection
    from matplotlib.colors import to_hex
    from matplotlib.patches import Patch

    rows = [(*span, *("", 0)[len(span) - 4 :])[:6] for span in spans]
    device = {lane: str(group) for *_, lane, group, _ in reversed(rows)}
    lanes = list(dict.fromkeys(row[3] for row in rows) if lanes is None else lanes)
    if not lanes or any(row[2] < 0 for row in rows):
        raise ValueError("there must be spans or lanes to draw, and no duration below 0 s")
    group = [device.get(lane, "") for lane in lanes]
    order = sorted(range(len(lanes)), key=lambda i: group.index(group[i]))
    lanes, group = [lanes[i] for i in order], [group[i] for i in order]
    rows = [row for row in rows if row[3] in lanes]
    names = [str(row[0]) for row in rows]
    start, duration, depth = np.array([(*row[1:3], row[5]) for row in rows], float).reshape(-1, 3).T
    lane = np.array([lanes.index(row[3]) for row in rows], dtype=int)
    length_s = float((start + duration).max(initial=0.0) if length_s is None else length_s) or 1.0

    levels = np.array([depth[lane == i].max(initial=0) + 1 for i in range(len(lanes))])
    several = len(set(group)) > 1
    shown = [f"{g} {n}" if several and g not in str(n) else str(n) for g, n in zip(group, lanes)]
    ax = style.row_axes(ax, shown, "time", 0.42 * levels.mean())
    ax.set_xlim(-0.01 * length_s, 1.01 * length_s)
    style.ticks(ax.xaxis, False, "s")
    style.note(ax, notes_title, (1, 1), (8, 4), xycoords="axes fraction")
    ax.barh(range(len(lanes)), length_s, height=0.8, color="#F4F4F4", zorder=0)
    for i in range(len(lanes)):
        style.beside(ax, i, (notes or {}).get(lanes[i], ""))
        if i and group[i] != group[i - 1]:
            ax.axhline(i - 0.5, color=SOFT, lw=0.8)
    kinds = [kind_of(name) for name in names]
    key = _key(kinds, duration, {kind_of(name): c for name, c in (colours or {}).items()})
    shades = [to_hex(key.get(kind, GREY)) for kind in kinds]
    high = 0.8 / levels[lane]
    below = lane - 0.4 + depth * high
    ax.figure.canvas.figure.draw_without_rendering()  # the names of the lanes take their room
    points = duration / length_s * ax.get_window_extent().width * 72 / ax.figure.dpi
    x, y = np.stack([start, start + duration]), np.stack([below, below + high])
    corners = np.stack([x[[0, 0, 1, 1]], y[[0, 1, 1, 0]]]).transpose(2, 1, 0)
    # A white edge parts neighbours where a bar is wide enough for it.
    edges = ["white" if width > 4 else shade for width, shade in zip(points, shades)]
    lw = np.where(points > 4, 0.6, np.where(points > 0.5, 0.0, 0.8))
    bars = PolyCollection(corners, facecolors=shades, edgecolors=edges, linewidths=lw, zorder=2)
    ax.add_collection(bars, autolim=False)
    fits = points > np.array([5 * len(name) + 4 for name in names])
    for i in np.flatnonzero(fits)[:200]:
        dark = np.dot([int(shades[i][j : j + 2], 16) for j in (1, 3, 5)], (0.3, 0.59, 0.11)) < 140
        ax.text(
            start[i] + duration[i] / 2, below[i] + high[i] / 2, names[i], ha="center", va="center",
            color="white" if dark else "black", fontsize=9, clip_on=True, parse_math=False,
        )  # fmt: skip
    missing = {kind for kind, fit in zip(kinds, fits) if not fit}
    named = [name for name in key if name in missing]
    named += ["other"] if missing - set(key) else []
    if named:
        style.legend(
            ax, [Patch(color=key.get(name, GREY), lw=0) for name in named],
            [name[:28] for name in named], loc="lower left", bbox_to_anchor=(0, 1), frameon=False,
            ncols=min(4, len(named)), borderaxespad=0.2, handlelength=1, handleheight=1,
        )  # fmt: skip
    return ax


def _key(names: Sequence[str], duration: np.ndarray, given: Mapping[str, str]) -> dict[str, str]:
    """Colours of the names on which most time went, in the order in which they appear."""
    time = dict.fromkeys(names, 0.0)
    for name, seconds in zip(names, duration.tolist()):
        time[name] += seconds
    most = sorted(time, key=time.__getitem__, reverse=True)[:_COLOURED]
    chosen = colours_of(name for name in time if name in most or name in given)
    return {name: given.get(name, colour) for name, colour in chosen.items()}
