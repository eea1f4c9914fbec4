"""What ran when: a row for each lane, a bar for each span."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from d2lperf.plotting import style
from d2lperf.plotting.colours import GREY, INK, SOFT, colours_of

_LANE = "#F4F4F4"  # a row where nothing runs
_MOST = 6  # this many names have a colour, the others are grey
_OUTER, _INNER, _GAP, _HEADING = 0.7, 0.42, 0.3, 0.62  # heights


def gantt(
    spans: Iterable[Sequence[Any]],
    *,
    lanes: Sequence[str] | None = None,
    notes: Mapping[str, str] | None = None,
    notes_title: str = "",
    length_s: float | None = None,
    colours: Mapping[str, str] | None = None,
    ax: Any = None,
) -> Any:
    """Show what ran when: a row for each lane, a bar for each span.

    The names on which most time went have a colour, the others are grey. A name stands in its bar
    where it fits, and in the legend if it is missing in one. A span that took no time is a line.

    Args:
        spans: tuples (name, start_s, duration_s, lane, device, depth), times in seconds. Device
            and depth may be missing; rows of one device stand together under its name. A span of
            depth 1 or more lies inside another and is drawn below it, thinner.
        lanes: the lanes to draw, from the top; by default all, in the order of the spans.
        notes: a text at the right of each lane, by lane; `notes_title` stands above.
        length_s: seconds along x; by default up to the last end.
        colours: colours for some names.
        ax: where to draw.

    Returns:
        The axes.

    Raises:
        ValueError: there are neither spans nor lanes, or a duration is negative.
    """
    rows = [(*span, "", 0)[:6] if len(span) == 4 else (*span, 0)[:6] for span in spans]
    device = {lane: str(group) for *_, lane, group, _ in reversed(rows)}
    if lanes is None:
        lanes = list(dict.fromkeys(row[3] for row in rows))
    if not lanes:
        raise ValueError("there are no spans to draw")
    groups = list(dict.fromkeys(device.get(lane, "") for lane in lanes))
    lanes = sorted(lanes, key=lambda lane: groups.index(device.get(lane, "")))
    rows = [row for row in rows if row[3] in lanes]
    names = [str(row[0]) for row in rows]
    start, duration = (np.array([row[i] for row in rows], dtype=float) for i in (1, 2))
    depth = np.array([row[5] for row in rows], dtype=int)
    lane = np.array([lanes.index(row[3]) for row in rows], dtype=int)
    if (duration < 0).any():
        raise ValueError(f"a span takes {duration.min():g} s; a duration is 0 or more")
    if length_s is None:
        length_s = float((start + duration).max(initial=0.0))

    tops, heights, headings, y = [], [], [], 0.0
    for i, name in enumerate(lanes):
        group = device.get(name, "")
        if len(groups) > 1 and (i == 0 or group != device.get(lanes[i - 1], "")):
            headings.append((y + _GAP, group))
            y += _HEADING
        tops.append(y)
        heights.append(_OUTER + _INNER * depth[lane == i].max(initial=0))
        y += heights[-1] + _GAP
    ax = style.axes(ax, 8.0, 1.0 + 0.44 * y)
    unit, size = style.time_unit(length_s)
    width = length_s / size or 1.0
    ax.set(xlim=(-0.01 * width, 1.01 * width), ylim=(y - _GAP + 0.2, -0.2))
    style.frame(ax, grid="x", left=False)
    ax.grid(axis="x", color="white")
    ax.tick_params(axis="y", length=0)
    ax.set_xlabel(f"time ({unit})", color=INK)
    for name, top, height in zip(lanes, tops, heights, strict=True):
        ax.axhspan(top, top + height, color=_LANE, lw=0, zorder=0)
        if notes:
            style.beside(ax, top + height / 2, notes.get(name, ""))
    if notes_title:
        style.beside(ax, None, notes_title)
    middles = [top + height / 2 for top, height in zip(tops, heights, strict=True)]
    ax.set_yticks(middles, [_short(str(name)) for name in lanes], color=INK, parse_math=False)
    for place, text in headings:
        ax.annotate(
            text, (0, place), (-4, 0), xycoords=ax.get_yaxis_transform(), ha="right", va="center",
            textcoords="offset points", color=SOFT, fontsize="small", annotation_clip=False,
            parse_math=False,
        )  # fmt: skip

    key = _key(names, duration, colours or {})
    shades = [key.get(name, GREY) for name in names]
    below = np.array(tops)[lane] + np.where(depth > 0, _OUTER + _INNER * (depth - 1), 0)
    high = np.where(depth > 0, _INNER, _OUTER)
    points = _points(ax) / width  # for one unit of time
    _bars(ax, start / size, duration / size, below, high, shades, points)
    unwritten = _write(ax, names, start / size, duration / size, below + high / 2, shades, points)
    _legend(ax, key, names, unwritten, points * width)
    return ax


def _short(label: str, wide: int = 28) -> str:
    return label if len(label) <= wide else f"{label[: wide - 1]}…"


def _points(ax: Any) -> float:
    """How wide the axes will be, in points, once the names of the lanes have their room."""
    layout = ax.figure.get_layout_engine()
    if layout is not None:
        layout.execute(ax.figure.figure)
    return ax.get_window_extent().width * 72 / ax.figure.dpi


def _key(names: list[str], duration: np.ndarray, given: Mapping[str, str]) -> dict[str, str]:
    """Colours of the names on which most time went, in the order in which they appear."""
    time: dict[str, float] = dict.fromkeys(names, 0.0)
    for name, seconds in zip(names, duration.tolist(), strict=True):
        time[name] += seconds
    most = sorted(time, key=time.__getitem__, reverse=True)[:_MOST]
    chosen = [name for name in time if name in most or name in given]
    return {**colours_of(chosen), **{name: given[name] for name in chosen if name in given}}


def _bars(ax, start, duration, below, high, shades, points) -> None:
    """Draw all bars at once; those that took no time as lines."""
    from matplotlib.collections import PolyCollection

    corners = np.stack(
        [
            np.stack([start + i * duration, below + j * high], axis=1)
            for i, j in ((0, 0), (0, 1), (1, 1), (1, 0))
        ],
        axis=1,
    )
    # A white edge tells neighbours apart where it leaves something of the bar.
    wide = duration * points
    edges = np.where(wide > 4, "white", shades) if len(shades) else []
    lines = np.where(wide > 4, 0.6, np.where(wide > 0, 0.0, 1.0))
    ax.add_collection(
        PolyCollection(corners, facecolors=shades, edgecolors=edges, linewidths=lines, zorder=2),
        autolim=False,
    )


def _write(ax, names, start, duration, middle, shades, points, most: int = 200) -> set[str]:
    """Write names into bars that are wide enough; return those that do not fit in one."""
    from matplotlib.colors import to_rgb

    fits = duration * points > np.array([4.9 * len(name) + 6 for name in names])
    if fits.sum() > most:
        return set(names)
    for i in np.flatnonzero(fits):
        light = np.dot(to_rgb(shades[i]), (0.299, 0.587, 0.114)) > 0.55
        ax.text(
            start[i] + duration[i] / 2, middle[i], names[i], ha="center", va="center", zorder=4,
            fontsize=8, color="black" if light else "white", clip_on=True, parse_math=False,
        )  # fmt: skip
    return {name for name, fit in zip(names, fits, strict=True) if not fit}


def _legend(ax, key: dict[str, str], names: list[str], unwritten: set[str], width: float) -> None:
    """Name the colours above the axes, if there is a bar without its name."""
    from matplotlib.patches import Patch

    shown = {name: colour for name, colour in key.items() if name in unwritten}
    if unwritten - set(key):
        shown["other"] = GREY
    if not shown:
        return
    columns = max(1, min(len(shown), int(width / (5 * max(map(len, shown)) + 34))))
    style.legend(
        ax, [Patch(color=colour, lw=0) for colour in shown.values()], shown, loc="lower left",
        bbox_to_anchor=(0, 1), ncols=columns, borderaxespad=0.2, borderpad=0.1,
        handlelength=1, handleheight=1, handletextpad=0.5, columnspacing=1.4,
    )  # fmt: skip
