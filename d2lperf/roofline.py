"""The roofline: what an operation takes at the ceilings of a machine.

An operation takes at least the longest of three times: the overhead of any operation; its bytes by
the bandwidth of where they are; its FLOPs by the rate of matrix products of its dtype, or of
convolutions (the roofline of S. Williams, A. Waterman, D. Patterson, *CACM* 52(4), 2009, and the
overhead). These add up.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import cycle
from typing import TYPE_CHECKING, Literal, NamedTuple

import torch

from d2lperf.ceilings import CONVOLUTION, Ceilings
from d2lperf.counting import Operation
from d2lperf.counting.classes import PRODUCT
from d2lperf.plotting import style
from d2lperf.plotting.colours import colours_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["COMPUTE", "MEMORY", "OVERHEAD", "Estimate", "Point", "Regime", "Roofline"]

Regime = Literal["overhead", "memory", "compute"]
OVERHEAD: Regime = "overhead"
MEMORY: Regime = "memory"
COMPUTE: Regime = "compute"
STANDARD = "float32"  # whose rate is taken where that of a dtype was not measured


class Point(NamedTuple):
    """A function in the figure: its FLOPs, its bytes, and the seconds that it takes."""

    flops: float
    bytes: float
    seconds: float


class Estimate(NamedTuple):
    """A predicted time in seconds, and its regime: "overhead", "memory" or "compute"."""

    seconds: float
    regime: Regime


@dataclass(frozen=True)
class Roofline:
    """Predicts times from ceilings, and draws them.

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
        activations: float = 0.0,
        access: str = "",
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
            activations: evaluations of GELU and the like; as functions where they have no ceiling.
            access: "one row" (of a product with a vector) or "transposed" (of a copy): ways through
                memory that have a bandwidth of their own.

        Raises:
            ValueError: there is no rate of this dtype, nor of float32 (in some data sheets).
        """
        made = self.ceilings
        if not isinstance(bytes, Mapping):
            bytes = {"cache" if bytes <= made.cache_bytes else "memory": bytes}
        times: dict[Regime, float] = {
            OVERHEAD: made.overhead_s,
            MEMORY: sum(n / self.bandwidth(place, access) for place, n in bytes.items()),
            COMPUTE: self._computing_s(flops, dtype, functions, activations),
        }
        regime = max(times, key=times.__getitem__)
        return Estimate(times[regime], regime)

    def predict_operation(self, operation: Operation) -> Estimate:
        """Return the estimate of an operation that was counted."""
        key = rate_key(operation)
        counts = operation.kind == PRODUCT or self.has_rate(key) or self.has_rate(STANDARD)
        return self.predict(
            operation.flops if counts else 0.0,  # a data sheet may have rates of products only
            operation.bytes,
            key,
            functions=operation.functions,
            activations=operation.activations,
            access=operation.access,
        )

    def bandwidth(self, place: str, access: str = "") -> float:
        """Return the bandwidth of a place in B/s; of memory where the place has none of its own."""
        found = self.ceilings.bandwidth
        return found.get(f"{place}, {access}", found.get(place, found["triad"]))

    def has_rate(self, dtype: torch.dtype | str) -> bool:
        """Whether the ceilings know the rate of products of a dtype."""
        return _plain(dtype) in self.ceilings.flops

    def rate(self, dtype: torch.dtype | str) -> float:
        """Return FLOP/s of products of a dtype, or of float32 where it was not measured."""
        rates = self.ceilings.flops
        if _plain(dtype) not in rates and STANDARD not in rates:
            known = ", ".join(rates)
            raise ValueError(
                f"a product in {_plain(dtype)} cannot be predicted for {self.ceilings.device}: its "
                f"ceilings have rates for {known} only. Let the function compute in one of these."
            )
        return rates.get(_plain(dtype), rates.get(STANDARD, 0.0))

    def _computing_s(
        self, flops: float, dtype: torch.dtype | str, functions: float, activations: float
    ) -> float:
        made = self.ceilings
        seconds = flops / self.rate(dtype) if flops else 0.0
        if functions and made.functions:
            seconds += functions / made.functions
        activation_rate = made.activations or made.functions
        if activations and activation_rate:
            seconds += activations / activation_rate
        return seconds

    def plot(
        self,
        points: Mapping[str, Point],
        ax: Axes | None = None,
        *,
        palette: Mapping[str, str] | None = None,
    ) -> Axes:
        """Draw the ceilings of memory, cache and float32 with measured points; return the axes.

        The flat roof is the rate of products. Convolutions may lie above it.

        Args:
            points: by name. What has no FLOPs has no place in the figure.
            ax: where to draw; a new figure by default.
            palette: colours of some points by name, such as {"all": "green"}.
        """
        placed = {n: (f / b, f / s) for n, (f, b, s) in points.items() if min(f, b, s) > 0}
        peak, found = self.rate(STANDARD), self.ceilings.bandwidth
        roofs = {"roof of memory": (found["triad"], "-")}
        if "cache" in found:
            roofs["roof of cache"] = found["cache"], "--"
        ends = [at for at, _ in placed.values()] + [peak / roof for roof, _ in roofs.values()]
        ax, colours, handles = style.axes(ax, 6.0, 3.4), colours_of(placed, palette), []
        for roof, line in roofs.values():
            along = [min(ends) / 2, peak / roof, 4 * max(ends)]
            handles += ax.plot(along, [min(peak, roof * v) for v in along], line, color="black")
        for (name, (x, y)), marker in zip(placed.items(), cycle("os^vDPX*")):
            handles += ax.plot([x], [y], marker, color=colours[name], zorder=3)
        style.frame(ax, "FLOPs for each byte", "rate")
        style.ticks(ax.xaxis, True)
        style.ticks(ax.yaxis, True, "FLOP/s")
        names = [*roofs, *placed]
        style.legend(ax, handles, names, loc="center left", bbox_to_anchor=(1, 0.5))
        return ax


def rate_key(operation: Operation) -> torch.dtype | str:
    """Return the key, in `Ceilings.flops`, of the rate that limits an operation."""
    if "convolution" in operation.name and operation.dtype == torch.float32:
        return CONVOLUTION
    return operation.dtype


def _plain(dtype: torch.dtype | str) -> str:
    return str(dtype).removeprefix("torch.")
