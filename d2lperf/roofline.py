"""What limits a function on this machine: overhead, memory or arithmetic?

An operation takes at least the longest of three times: the overhead of any operation; its bytes by
the bandwidth of where they are; its FLOPs by the rate of matrix products of its dtype, or of
convolutions (the roofline of S. Williams, A. Waterman, D. Patterson, *CACM* 52(4), 2009, and the
overhead). These add up.
What an operation does is counted by the rules of `d2lperf.counting`.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import cycle
from typing import Any, NamedTuple

import torch

from d2lperf.ceilings import CONVOLUTION, Ceilings, measure_ceilings
from d2lperf.counting import Operation, OperationCounter
from d2lperf.device import synchronize
from d2lperf.formats import Shown, Table, format_value
from d2lperf.measuring import Measurement, measure
from d2lperf.measuring.sampling import Instruments, undisturbed
from d2lperf.plotting import style
from d2lperf.plotting.colours import colours_of

__all__ = ["Estimate", "Explanation", "Roofline", "explain"]

OVERHEAD, MEMORY, COMPUTE = "overhead", "memory", "compute"


# ------------------------------------------------------------------------------------- roofline


class Estimate(NamedTuple):
    """A predicted time in seconds, and its regime: "overhead", "memory" or "compute"."""

    seconds: float
    regime: str


@dataclass(frozen=True)
class Roofline:
    """Predicts times from measured ceilings, and draws them.

    >>> Roofline(Ceilings({"float32": 1e11}, {"triad": 1e10}, 2e-6)).predict(2e9, 12e6)
    Estimate(seconds=0.02, regime='compute')
    """

    ceilings: Ceilings

    def predict(
        self,
        flops: float,
        bytes: float | Mapping[str, float],
        dtype: torch.dtype | str = torch.float32,
        *,
        functions: float = 0.0,
    ) -> Estimate:
        """Return the time that one operation takes at the ceilings, and what it waits for.

        Args:
            flops: its FLOPs.
            bytes: bytes that it reads and writes. A number counts as in the cache if it fits into
                half of the last level. A dictionary has them by place ("memory", "cache" or
                another key of the ceilings' bandwidth).
            dtype: of its numbers, or "convolution" for one in float32; the rate is that of products
                in float32 where it was not measured.
            functions: evaluations of exp and the like.
        """
        made = self.ceilings
        if not isinstance(bytes, Mapping):
            bytes = {"cache" if bytes <= made.cache_bytes else "memory": bytes}
        memory = made.bandwidth["triad"]
        rate = made.flops.get(str(dtype).removeprefix("torch."), made.flops["float32"])
        times = {
            OVERHEAD: made.overhead_s,
            MEMORY: sum(n / made.bandwidth.get(place, memory) for place, n in bytes.items()),
            COMPUTE: flops / rate + (functions / made.functions if made.functions else 0),
        }
        regime = max(times, key=times.__getitem__)
        return Estimate(times[regime], regime)

    def plot(self, points: Mapping[str, tuple[float, float, float]], ax: Any = None) -> Any:
        """Draw the ceilings of memory, cache and float32 with measured points; return the axes.

        The flat roof is the rate of products. Convolutions may lie above it.

        Args:
            points: name -> (FLOPs, bytes, seconds). What has no FLOPs has no place in the figure.
            ax: where to draw; a new figure by default.
        """
        placed = {n: (f / b, f / s) for n, (f, b, s) in points.items() if min(f, b, s) > 0}
        peak, found = self.ceilings.flops["float32"], self.ceilings.bandwidth
        roofs = {"roof of memory": (found["triad"], "-")}
        if "cache" in found:
            roofs["roof of cache"] = found["cache"], "--"
        ends = [at for at, _ in placed.values()] + [peak / roof for roof, _ in roofs.values()]
        ax, colours, handles = style.axes(ax, 6.0, 3.4), colours_of(placed), []
        for roof, line in roofs.values():
            x = [min(ends) / 2, peak / roof, 4 * max(ends)]
            handles += ax.plot(x, [min(peak, roof * v) for v in x], line, color="black")
        for (name, (x, y)), marker in zip(placed.items(), cycle("os^vDPX*")):
            handles += ax.plot([x], [y], marker, color=colours[name], zorder=3)
        style.frame(ax, "FLOPs for each byte", "rate")
        style.ticks(ax.xaxis, True)
        style.ticks(ax.yaxis, True, "FLOP/s")
        names = [*roofs, *placed]
        style.legend(ax, handles, names, loc="center left", bbox_to_anchor=(1, 0.5))
        return ax


# ---------------------------------------------------------------------------------- explanation

_HELP = {
    OVERHEAD: "fewer and larger operations: a larger batch, torch.compile, on a GPU CUDA graphs",
    "new memory": "results that reuse memory (out=, in place): here large ones get new pages",
    "pointwise": "fusion (torch.compile): one pass over the data for several operations; bfloat16",
    "product": "a larger batch: what a product reads then serves more rows; smaller numbers",
    MEMORY: "fewer passes over the data; smaller numbers, such as bfloat16",
    "functions": "cheaper functions, such as ReLU for GELU",
    COMPUTE: "nothing, at this precision and with these FLOPs",
}


@dataclass(frozen=True, repr=False)
class Explanation(Shown):
    """What a function does, what it should take at the ceilings, and what it takes.

    Attributes:
        flops: FLOPs of one call, without the operations that cannot be counted.
        bytes: bytes that one call reads and writes.
        predicted_s: seconds of one call: the sum over its operations.
        measurement: of the function; None where it was not measured.
        shares: regime -> share of the predicted seconds.
        help: what would help.
        uncounted: operations that cannot be counted: name -> share of the time of all operations.
        operations: each with what the roofline predicts for it.
        ceilings: by which it predicts.
    """

    flops: float
    bytes: float
    predicted_s: float
    measurement: Measurement | None
    shares: dict[str, float]
    help: str
    uncounted: dict[str, float]
    operations: list[tuple[Operation, Estimate]]
    ceilings: Ceilings

    @property
    def regime(self) -> str:
        """What the function mostly waits for: "overhead", "memory" or "compute"."""
        return max(self.shares, key=self.shares.__getitem__)

    @property
    def measured_s(self) -> float:
        """Median seconds of one call; nan where it was not measured."""
        return self.measurement.median_s if self.measurement else math.nan

    @property
    def point(self) -> tuple[float, float, float]:
        """FLOPs, bytes and seconds (predicted ones where not measured), for `Roofline.plot`."""
        return self.flops, self.bytes, self.measured_s if self.measurement else self.predicted_s

    def table(self) -> Table:
        """Return what is shown: the costliest kinds of operations, what limits and what helps."""
        spent_s, rows = sum(op.seconds for op, _ in self.operations), []
        for name in dict.fromkeys(op.name for op, _ in self.operations):
            ops, estimates = zip(*(pair for pair in self.operations if pair[0].name == name))
            seconds, share = (
                sum(e.seconds for e in estimates),
                sum(o.seconds for o in ops) / (spent_s or 1),
            )
            flops = math.nan if name in self.uncounted else float(sum(o.flops for o in ops))
            size = float(sum(sum(o.bytes.values()) for o in ops))
            values = ((flops, "FLOP"), (size, "B"), (seconds, "s"))
            cells = [name, str(len(ops)), *(format_value(v, unit) for v, unit in values)]
            cells += [f"{share:.0%}", max(estimates).regime]
            rows.append((max(seconds / self.predicted_s, share), cells))
        rows.sort(reverse=True)
        work = f"{format_value(self.flops, 'FLOP')}, {format_value(self.bytes, 'B')}"
        shares = ", ".join(f"{name} {share:.0%}" for name, share in self.shares.items())
        foot = [f"and {len(rows) - 8} more kinds"] * (len(rows) > 8)
        foot += [f"one call: {len(self.operations)} operations, {work}"]
        foot += [f"limit: {self.regime} (of the predicted time: {shares})"]
        foot += [f"predicted: {format_value(self.predicted_s, 's')}"]
        if self.measurement:
            times = self.measured_s / self.predicted_s
            foot += [f"measured: {format_value(self.measured_s, 's')}, {times:.2g} times as much"]
            least_s = min(self.measurement.samples_s)
            if least_s > max(2 * self.predicted_s, 1.5 * spent_s):
                outside = 1 - spent_s / least_s
                foot += [f"outside of torch's operations: {outside:.0%} of the time"]
        foot += [f"not counted: {name}, {s:.0%} of the time" for name, s in self.uncounted.items()]
        header = ["", "calls", "FLOPs", "bytes", "predicted", "share of time", "limit"]
        cells = [cells for _, cells in rows[:8]]
        return Table(header, cells, [*foot, f"what would help: {self.help}"], right=(1, 2, 3, 4, 5))

    def plot(self, ax: Any = None) -> Any:
        """Draw the function and its four longest operations in a roofline; return the axes."""
        longest = sorted((op for op, _ in self.operations), key=lambda op: -op.seconds)[:4]
        points = {op.name: (op.flops, sum(op.bytes.values()), op.seconds) for op in longest}
        return Roofline(self.ceilings).plot({"all": self.point, **points}, ax)


def explain(
    fn: Callable[[], Any], *, ceilings: Ceilings | None = None, measured: bool = True,
    instruments: Instruments | None = None,
) -> Explanation:  # fmt: skip
    """Tell what limits a function: its work, predicted and measured time, and what would help.

    Work is counted by the rules of `d2lperf.counting`; all of it is taken to run on the device of
    the ceilings. The time differs from the prediction where a kernel stays below the ceilings, or
    where Python or other libraries compute.

    Args:
        fn: called without arguments, several times: a forward pass, a training step.
        ceilings: of the device; by default those that `measure_ceilings` finds.
        measured: also measure the time; if not, the function runs twice.
        instruments: clock and synchronisation, for tests.

    Raises:
        ValueError: `fn` runs no operation of torch.
        BaseException: what `fn` raises.

    >>> made = Ceilings({"float32": 1e11}, {"triad": 1e10}, 2e-6)
    >>> x = torch.ones(512, 512)
    >>> explain(lambda: x @ x, ceilings=made, measured=False).regime
    'compute'
    """
    measurement = measure(fn, instruments=instruments) if measured else None
    given = instruments or Instruments()
    wait = synchronize if given.synchronize == "auto" else given.synchronize or (lambda: None)
    with undisturbed(), OperationCounter(given.clock, wait) as counter:
        fn()
    if not counter.operations:
        raise ValueError("explain ran the function, but it used no operation of torch.")
    ceilings = ceilings or measure_ceilings(counter.device)
    counter.operations, counter.cache_bytes = [], ceilings.cache_bytes
    with undisturbed(), counter:
        fn()
    ops, predict = counter.operations, Roofline(ceilings).predict
    pairs = [(o, predict(o.flops, o.bytes, _rate_key(o), functions=o.functions)) for o in ops]
    total_s, spent_s = sum(e.seconds for _, e in pairs), sum(o.seconds for o in ops) or 1.0
    shares, uncounted = dict.fromkeys((OVERHEAD, MEMORY, COMPUTE), 0.0), Counter()
    for op, (seconds, regime) in pairs:
        shares[regime] += seconds / total_s
        uncounted.update({op.name: op.seconds / spent_s} if op.kind == "unknown" else {})
    help = _help(pairs, max(shares, key=shares.__getitem__), uncounted, ceilings.flops)
    if measurement and measurement.median_s < total_s / 2:
        help = "nothing: it is faster than predicted (compiled code, or a nearer cache)"
    return Explanation(
        flops=sum(op.flops for op in ops),
        bytes=sum(sum(op.bytes.values()) for op in ops),
        predicted_s=total_s,
        measurement=measurement,
        shares=shares,
        help=help,
        uncounted=dict(uncounted),
        operations=pairs,
        ceilings=ceilings,
    )


def _rate_key(op: Operation) -> torch.dtype | str:
    """The key, in `Ceilings.flops`, of the rate that limits an operation."""
    return CONVOLUTION if "convolution" in op.name and op.dtype == torch.float32 else op.dtype


def _help(pairs: list, regime: str, uncounted: Counter, rates: dict[str, float]) -> str:
    """What helps against most of the time that is predicted in the regime."""
    if sum(uncounted.values()) > 0.5:
        return f"not known: nobody counts the work of {uncounted.most_common(1)[0][0]}"
    rates, seconds = {CONVOLUTION: rates["float32"], **rates}, Counter()
    for op, estimate in pairs:
        key = regime
        if regime == MEMORY:
            key = "new memory" if "new memory" in op.bytes else op.kind
        elif regime == COMPUTE:
            key = "functions" if op.functions else str(_rate_key(op)).removeprefix("torch.")
        seconds[key] += estimate.seconds * (estimate.regime == regime)
    key = seconds.most_common(1)[0][0]
    best = max(rates, key=lambda name: rates[name] * (name not in ("int8", CONVOLUTION)))
    gain = rates[best] / rates.get(key, math.inf)
    if gain > 1.2:
        return f"lower precision: products in {best} are {gain:.1f} times as fast here"
    return _HELP.get(key, _HELP[regime])
