"""Every default of `measure` and `compare` that a user may ask about: margins and budgets."""

import os

# A difference smaller than this fraction does not count. Two deep copies of one network differ by
# up to about 2 %, because their weights lie at other places in memory (benchmarks/verdicts.py).
MARGIN = 0.02
ISOLATED_MARGIN = 0.05  # functions in processes of their own: these are measured less precisely
# "no difference above X %" is said for X up to this (or the margin, if that is larger).
WIDEST = 0.05
# Without build=True a difference up to this can come from the places in memory alone.
PLACEMENT = 0.02

CONFIDENCE = 0.95

# Default budgets are multiplied by this. The tests' kernels set it to be done sooner.
SHARE = float(os.environ.get("D2LPERF_BUDGET", 1))
BUDGET_S = 0.5 * SHARE  # of measure
# Of compare, in seconds for each function: how long we improve the precision, how long we look for
# a function that varies by itself, and when sampling ends without a verdict.
PRECISE_S, WATCH_S, LIMIT_S = 0.2 * SHARE, 0.75 * SHARE, 1.7 * SHARE
MOST_SLOW_S = 30.0 * SHARE  # in all, for functions so slow that few rounds fit
