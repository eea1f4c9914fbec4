"""What ran when: timelines, recorded by torch's profiler or made by hand."""

from d2lperf.timeline.intervals import gaps as gaps
from d2lperf.timeline.record import record as record
from d2lperf.timeline.summary import Summary as Summary
from d2lperf.timeline.timeline import Span as Span
from d2lperf.timeline.timeline import Timeline as Timeline
from d2lperf.timeline.timeline import TimelineError as TimelineError
