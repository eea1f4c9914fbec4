"""Figures: numbers in, axes in, axes out.

Every function takes ``ax=None`` (a new figure then) and returns the axes. Matplotlib is imported
when something is drawn. No style, backend or setting is changed, except by `set_figsize`.
"""

from d2lperf.plotting.bars import bars
from d2lperf.plotting.book import plot, set_figsize
from d2lperf.plotting.colours import COLOURS, colour_of, colours_of
from d2lperf.plotting.distributions import distributions
from d2lperf.plotting.gantt import gantt
from d2lperf.plotting.graph import graph
from d2lperf.plotting.intervals import intervals
from d2lperf.plotting.lines import lines
from d2lperf.plotting.scores import scores

__all__ = [
    "COLOURS",
    "bars",
    "colour_of",
    "colours_of",
    "distributions",
    "gantt",
    "graph",
    "intervals",
    "lines",
    "plot",
    "scores",
    "set_figsize",
]
