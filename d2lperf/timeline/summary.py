"""How long each thing took: a table of a timeline's spans by name and lane."""

from __future__ import annotations

import math
from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

from d2lperf.formats import Shown, Table, format_seconds
from d2lperf.timeline.intervals import length
from d2lperf.timeline.lanes import Arranged

if TYPE_CHECKING:
    import pandas as pd

_MOST = 20  # rows that are shown


class SummaryRow(NamedTuple):
    """What the spans of one name in one lane took together."""

    name: str
    lane: str
    calls: int
    total_s: float  # a span inside another one of the same name is not counted twice
    share: float  # of the timeline's duration; nan if that is 0


class Summary(Shown):
    """Time by name and lane, the longest first; made by `Timeline.summary`.

    Attributes:
        rows: a `SummaryRow` for each name of each lane.
        duration_s: the timeline's duration, of which `share` is a part.
        nested: whether some spans lie inside others, so that shares of a lane may exceed 1.
    """

    def __init__(self, found: Arranged):
        start, end = found.window
        self.duration_s = (end - start) / 1e9
        self.nested = any(row.depth for row in found.rows)
        times = defaultdict(list)
        for row in found.rows:
            times[row.name, row.lane].append((row.start, row.end))
        self.rows = [self._row(name, lane, those) for (name, lane), those in times.items()]
        self.rows.sort(key=lambda row: -row.total_s)

    def _row(self, name: str, lane: str, times: list[tuple[int, int]]) -> SummaryRow:
        total_s = length(times) / 1e9
        share = total_s / self.duration_s if self.duration_s else math.nan
        return SummaryRow(name, lane, len(times), total_s, share)

    def table(self) -> Table:
        """Return the longest rows as texts."""
        rows = [
            [row.name, row.lane, f"{row.calls:,}", format_seconds(row.total_s), _percent(row.share)]
            for row in self.rows[:_MOST]
        ]
        footer = [f"share: of the timeline's {format_seconds(self.duration_s)}"]
        if self.nested:
            footer.append("A span inside another one counts for both names.")
        if len(self.rows) > _MOST:
            footer.append(f"and {len(self.rows) - _MOST} more: .to_frame() has them all")
        return Table(["name", "lane", "calls", "time", "share"], rows, footer, right=(2, 3, 4))

    def to_frame(self) -> pd.DataFrame:
        """Return a `pandas.DataFrame` of all rows; its columns are those of `SummaryRow`."""
        import pandas as pd

        return pd.DataFrame(self.rows, columns=list(SummaryRow._fields))


def _percent(share: float) -> str:
    return "unknown" if math.isnan(share) else f"{100 * share:.1f} %"
