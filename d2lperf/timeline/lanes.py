"""Which spans lie inside others, and which need a lane of their own. Times in nanoseconds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

HOST = "CPU"


class Entry(NamedTuple):
    """A span as it was noted; entries of other threads than their neighbours never nest."""

    name: str
    start: int
    end: int
    lane: str
    thread: int = 0  # 0 where it is not known


class Row(NamedTuple):
    """A span in its place: `depth` others of its lane are around it."""

    name: str
    start: int
    end: int
    lane: str
    depth: int


class Interval(NamedTuple):
    """A start and an end."""

    start: int
    end: int


class Arranged(NamedTuple):
    """All spans in their places.

    `rows` are sorted by start, outer spans first; `times` holds the intervals of each lane that has
    any, lanes of the host first; `device_of` knows the lanes that were added, too, and `added` maps
    them to the lanes in which their spans were noted. `seen` is the number of entries;
    `window` reaches from the first start to the last end.
    """

    seen: int
    rows: list[Row]
    times: dict[str, list[Interval]]
    device_of: dict[str, str]
    added: dict[str, str]
    window: Interval


NOTHING = Arranged(0, [], {}, {}, {}, Interval(0, 0))


class _Lane:
    """One lane, filled in the order of the starts."""

    def __init__(self, name: str):
        self.name = name
        self.times: list[Interval] = []
        self._running: list[Entry] = []

    def depth_of(self, entry: Entry) -> int:
        """In how many of the spans that are running it lies."""
        self._running = [other for other in self._running if other.end > entry.start]
        return sum(1 for other in self._running if other.end >= entry.end)

    def has_room_for(self, entry: Entry) -> bool:
        """Whether it lies inside all that is running, and is of the same thread."""
        depth = self.depth_of(entry)
        one_thread = all(other.thread == entry.thread for other in self._running)
        return one_thread and depth == len(self._running)

    def put(self, entry: Entry) -> Row:
        depth = self.depth_of(entry)
        self._running.append(entry)
        self.times.append(Interval(entry.start, entry.end))
        return Row(entry.name, entry.start, entry.end, self.name, depth)


def arrange(
    entries: Sequence[Entry], device_of: dict[str, str], window: Interval | None
) -> Arranged:
    """Return the spans in their places.

    A span that crosses another one of its lane, or that runs beside one of another thread, goes to
    a lane "x (2)", "x (3)" ... of the same device. With a `window`, as a recording has it, spans
    stay where they are: kernels of a stream may cross.
    """
    lanes = {name: [_Lane(name)] for name in device_of}
    device_of, added, rows = dict(device_of), {}, []
    # Inner spans are noted first, so of two equal spans the later one is the outer.
    for entry in sorted(reversed(entries), key=lambda entry: (entry.start, -entry.end)):
        family = lanes[entry.lane]
        fitting = [lane for lane in family if window or lane.has_room_for(entry)]
        if not fitting:
            fitting = [_Lane(_free_name(entry.lane, device_of))]
            family += fitting
            added[fitting[0].name] = entry.lane
            device_of[fitting[0].name] = device_of[entry.lane]
        rows.append(fitting[0].put(entry))
    devices = list(dict.fromkeys(device_of.values()))
    devices.sort(key=lambda device: device != HOST)
    families = sorted(lanes, key=lambda name: devices.index(device_of[name]))
    times = {lane.name: lane.times for name in families for lane in lanes[name] if lane.times}
    starts, ends = [row.start for row in rows], [row.end for row in rows]
    limits = Interval(min([*starts, *(window or ())]), max([*ends, *(window or ())]))
    return Arranged(len(entries), rows, times, device_of, added, limits)


def _free_name(lane: str, taken: dict[str, str]) -> str:
    number = 2
    while f"{lane} ({number})" in taken:
        number += 1
    return f"{lane} ({number})"
