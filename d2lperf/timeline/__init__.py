"""What ran when: timelines, recorded by torch's profiler or made by hand."""

from d2lperf.timeline.intervals import gaps, intersection, length, union
from d2lperf.timeline.record import record
from d2lperf.timeline.timeline import Span, Timeline, TimelineError

__all__ = [
    "Span", "Timeline", "TimelineError", "gaps", "intersection", "length", "record", "union",
]  # fmt: skip
