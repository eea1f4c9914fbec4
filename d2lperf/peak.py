"""The theoretical peak of this CPU: cores x clock x lanes x units x 2, where it can be known.

A unit multiplies and adds (FMA, two FLOPs) a vector of numbers in each cycle. How wide the vectors
are and how many units there are follows from the processor's family; the tables of A. Fog,
*Instruction tables* (https://www.agner.org/optimize/), have them. The clock is the highest that the
system reports. A virtual machine hides it.
"""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

__all__ = ["Peak", "cpu_peak"]

CPUINFO = Path("/proc/cpuinfo")
CLOCK = Path("/sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq")  # in kHz
AVX2_LANES, AVX512_LANES = 16, 32  # float32 numbers in a cycle: two units of 8, or of 16
ZEN2, ZEN3_OR_4, ZEN5 = 23, 25, 26  # AMD's families; the first Zen has half as much


class Peak(NamedTuple):
    """FLOP/s in float32, or None where it is not known; and how it was found, or why not."""

    flops: float | None
    how: str


def cpu_peak(cores: int) -> Peak:
    """Return the theoretical peak of so many cores in float32."""
    text = ""
    with suppress(OSError):
        text = CPUINFO.read_text(errors="replace")
    if not text:
        return Peak(None, "the system does not describe its processor")
    fields = dict(re.findall(r"^([\w ]+?)\s*: (.*)$", text, re.MULTILINE))
    flags = set(fields.get("flags", "").split())
    if "hypervisor" in flags:
        return Peak(None, "the virtual machine hides the clock")
    lanes = _lanes(fields, flags)
    if lanes is None:
        return Peak(None, "the number of units of this processor is not in our table")
    clock_hz = 0.0
    with suppress(OSError, ValueError):
        clock_hz = 1e3 * float(CLOCK.read_text())
    if not clock_hz:
        return Peak(None, "the system does not report the highest clock")
    how = f"{cores} cores x {clock_hz / 1e9:.2f} GHz x {lanes} lanes in all units x 2"
    return Peak(2.0 * cores * clock_hz * lanes, how)


def _lanes(fields: dict[str, str], flags: set[str]) -> int | None:
    """Lanes of float32 in all FMA units of a core, or None where unknown."""
    vendor, name = fields.get("vendor_id", ""), fields.get("model name", "")
    family, model = (int(fields.get(key, "0")) for key in ("cpu family", "model"))
    if not {"avx2", "fma"} <= flags:
        return None
    if vendor == "AuthenticAMD":
        narrow = family == ZEN2 and model < 48
        wide = {ZEN2: AVX2_LANES, ZEN3_OR_4: AVX2_LANES}
        if family == ZEN5 and "EPYC" in name:  # other processors of this family have half of it
            return AVX512_LANES
        return AVX2_LANES // 2 if narrow else wide.get(family)
    if vendor == "GenuineIntel" and "avx512f" not in flags:
        return AVX2_LANES
    if vendor == "GenuineIntel" and re.search(r"Xeon.*(Platinum|Gold 6)", name):
        return AVX512_LANES
    return None
