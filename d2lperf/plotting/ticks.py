"""Numbers on an axis, all of them in one format."""

import math
from typing import Any

import numpy as np
from matplotlib.ticker import Formatter

from d2lperf.formats import prefix_for

_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


class TickLabels(Formatter):
    """Labels of an axis: 10 µs, 1 ms on a logarithmic one; 0 ms, 0.5 ms, 1 ms on a linear one.

    Without a unit numbers are plain ("0.001", "10,000") as long as all of them are from 0.0001 to
    below ten million; otherwise all are powers of ten.
    """

    def __init__(self, unit: str, log: bool):
        self.unit, self.log = unit, log

    def __call__(self, x, pos=None):
        """Return the label of one number."""
        return self.format_ticks([x])[0]

    def format_ticks(self, values):
        """Return the labels of all ticks; those outside of the axis do not count for the format."""
        axis: Any = self.axis
        low, high = sorted(axis.get_view_interval())
        slack = 1e-9 * (high - low)
        shown = [v for v in values if low - slack <= v <= high + slack] or list(values)
        sizes = [abs(float(v)) for v in shown if v != 0] or [1.0]
        if prefix_for(1.0, self.unit) is None and (max(sizes) >= 1e7 or min(sizes) < 1e-4):
            exponent = None if self.log else _exponent(max(sizes))
            return [_power(float(v), exponent, self.unit) for v in values]
        if self.log:
            return [self._label(float(v), abs(float(v)), None) for v in values]
        step = float(np.diff(np.sort(shown)).min()) if len(shown) > 1 else sizes[0]
        return [self._label(float(v), max(sizes), step) for v in values]

    def _label(self, value, size, step):
        """`value` with the prefix that suits `size`, and the digits that `step` needs."""
        prefix = prefix_for(size, self.unit)
        divisor, letter = (1.0, "") if prefix is None else prefix
        step = abs(value) if step is None else step
        number = _plain(value / divisor, step / divisor)
        return f"{number} {letter}{self.unit}".rstrip()


def _plain(value, step):
    """Return a number with as many digits as multiples of `step` need."""
    digits = next((d for d in range(12) if abs(round(step, d) - step) <= 1e-6 * step), 12)
    return f"{value + 0.0 if round(value, digits) else 0.0:,.{digits}f}"


def _exponent(size):
    return math.floor(math.log10(size) + 1e-9)


def _power(value, exponent, unit):
    """Return "3·10⁻⁶", with the given power of ten or with the number's own."""
    if value == 0:
        return f"0 {unit}".rstrip()
    exponent = _exponent(abs(value)) if exponent is None else exponent
    factor = f"{value / 10**exponent:.6g}"
    power = f"10{str(exponent).translate(_RAISED)}"
    number = power if factor == "1" else f"{factor}·{power}"
    return f"{number} {unit}".rstrip()
