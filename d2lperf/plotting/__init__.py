"""Figures: numbers in, axes in, axes out.

Each function takes ``ax=None`` (a new figure then) and returns the axes; a ValueError says what it
cannot draw. Matplotlib is imported when something is drawn; only `set_figsize` changes a setting.
"""

from d2lperf.plotting.bars import bars as bars
from d2lperf.plotting.book import plot as plot
from d2lperf.plotting.book import set_figsize as set_figsize
from d2lperf.plotting.colours import COLOURS as COLOURS
from d2lperf.plotting.colours import colour_of as colour_of
from d2lperf.plotting.distributions import distributions as distributions
from d2lperf.plotting.gantt import DrawnSpan as DrawnSpan
from d2lperf.plotting.gantt import gantt as gantt
from d2lperf.plotting.graph import graph as graph
from d2lperf.plotting.intervals import intervals as intervals
from d2lperf.plotting.lines import lines as lines
from d2lperf.plotting.waterfall import waterfall as waterfall
