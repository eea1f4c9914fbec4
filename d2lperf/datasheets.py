"""Accelerators by their data sheets: what a device does at best according to its maker.

Rates are for dense matrices: without the factor of two that makers add for sparsity. Of float32
they are those of ordinary float32 (not TF32), which is torch's default for products.
"""

from __future__ import annotations

from difflib import get_close_matches
from typing import NamedTuple

from d2lperf.ceilings import Ceilings

__all__ = ["ACCELERATORS", "DataSheet", "datasheet"]

READ = "2026-11"  # year and month in which the sources were read
NVIDIA = "https://www.nvidia.com/en-us/data-center/"
AMD = "https://www.amd.com/en/products/accelerators/instinct/"
BLACKWELL = "https://nvdam.widen.net/s/wwnsxrhm2w/blackwell-datasheet-3384703"
TPUS = "https://docs.cloud.google.com/tpu/docs/tpu7x"


class DataSheet(NamedTuple):
    """What a maker publishes; None where it publishes nothing.

    Rates are in TFLOP/s (int8: in 10^12 operations a second), the bandwidth of memory in GB/s, the
    memory in GB (of both TPUs in GiB, as their source has it).
    """

    year: int
    memory_gb: float
    bandwidth_gb_s: float
    float64: float | None
    float32: float | None
    float16: float | None
    bfloat16: float | None
    int8: float | None
    source: str


ACCELERATORS = {
    "NVIDIA T4": DataSheet(2018, 16, 320, None, 8.1, 65, None, 130, NVIDIA + "tesla-t4/"),
    "NVIDIA H100 SXM": DataSheet(2022, 80, 3350, 67, 67, 989, 989, 1979, NVIDIA + "h100/"),
    "NVIDIA H200 SXM": DataSheet(2023, 141, 4800, 67, 67, 989, 989, 1979, NVIDIA + "h200/"),
    "NVIDIA B200 (HGX)": DataSheet(2024, 180, 7700, 37, 75, 2250, 2250, 4500, BLACKWELL),
    "AMD MI300X": DataSheet(
        2023, 192, 5300, 163.4, 163.4, 1307, 1307, 2615, AMD + "mi300/mi300x.html"
    ),
    "AMD MI355X": DataSheet(
        2025, 288, 8000, 78.6, 157.3, 2517, 2517, 5033, AMD + "mi350/mi355x.html"
    ),
    "Google TPU v5p": DataSheet(2023, 95, 2765, None, None, None, 459, None, TPUS),
    "Google TPU7x": DataSheet(2025, 192, 7380, None, None, None, 2307, None, TPUS),
}
_RATES = ("float64", "float32", "bfloat16", "float16", "int8")


def datasheet(name: str) -> Ceilings:
    """Return the ceilings of an accelerator by its data sheet, for `explain(fn, ceilings=...)`.

    The overhead of an operation is not in a data sheet, nor is the bandwidth of caches: predictions
    leave the overhead out and take all data from memory.

    Args:
        name: one of `ACCELERATORS`, with or without the maker: "NVIDIA H100 SXM", "H100 SXM".

    Raises:
        ValueError: there is no accelerator of this name; the message lists all.

    >>> datasheet("H100 SXM").flops["bfloat16"]
    989000000000000.0
    """
    sheets = {full.partition(" ")[2]: full for full in ACCELERATORS}
    full = sheets.get(name, name)
    if full not in ACCELERATORS:
        close = get_close_matches(name, [*sheets, *ACCELERATORS], n=1)
        advice = f" Did you mean {close[0]!r}?" if close else ""
        known = ", ".join(ACCELERATORS)
        raise ValueError(f"there is no data sheet of {name!r} here; there are: {known}.{advice}")
    sheet = ACCELERATORS[full]
    rates = {dtype: getattr(sheet, dtype) for dtype in _RATES}
    return Ceilings(
        flops={dtype: 1e12 * rate for dtype, rate in rates.items() if rate is not None},
        bandwidth={"triad": 1e9 * sheet.bandwidth_gb_s},
        overhead_s=0.0,
        device=full,
        source=sheet.source,
        read=READ,
    )
