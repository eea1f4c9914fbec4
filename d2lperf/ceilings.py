"""The best that this machine does, measured: rates of products, bandwidth, overhead.

Those of another machine come from its data sheet: `d2lperf.datasheets`.
"""

from __future__ import annotations

import platform
import subprocess
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import torch
from torch.nn import functional

from d2lperf import _compat
from d2lperf.counting import NEW_BYTES
from d2lperf.device import gpu, num_gpus, try_gpu
from d2lperf.formats import Shown, Table, format_value
from d2lperf.machine import Machine, machine_card
from d2lperf.measuring import stats
from d2lperf.measuring.instruments import Instruments, chosen, instruments
from d2lperf.measuring.sampling import Plan, Subject
from d2lperf.measuring.saved import Saved
from d2lperf.measuring.undisturbed import undisturbed
from d2lperf.peak import cpu_peak
from d2lperf.progress import bar_wanted

__all__ = ["Ceilings", "cache_sizes", "measure_ceilings"]

MIB = 2**20
CACHES = Path("/sys/devices/system/cpu/cpu0/cache")
SAMPLING_S, MOST_S = 5.0, 9.0  # of sampling, and of everything: no round begins after it
SLOWEST_S = 0.25  # calls that would take longer are not tried
DTYPES = ("float32", "float64", "bfloat16", "float16", "int8")
CONVOLUTION = "convolution"
BILLIONS = "billion/s"
_session: dict[tuple, Ceilings] = {}


class Named(NamedTuple):
    """A ceiling as it is shown: label, value and unit."""

    label: str
    value: float
    unit: str


@dataclass(frozen=True, repr=False)
class Ceilings(Shown, Saved):
    """The best that a device was seen to do.

    Attributes:
        flops: dtype -> FLOP/s of matrix products (for int8, integer operations); "convolution" ->
            FLOP/s of convolutions in float32.
        bandwidth: B/s, read and written: of memory "triad" and "copy", "cache" (the last level),
            "new memory", "to device, pageable" and so on; "memory, one row" for the product of a
            matrix in memory and a vector, "cache, transposed" for a copy across the lines.
        overhead_s: seconds of a tiny operation; 0 where unknown.
        functions: evaluations of exp in a second; 0 where unknown.
        activations: evaluations of GELU in a second; 0 where unknown.
        device: which one.
        caches: level -> bytes, as the system tells them.
        samples: all samples by name, in the unit of the ceiling; of "overhead" the best times of
            the tiny operations, one for each.
        notes: what is missing, and why.
        elapsed_s: seconds that the measuring took.
        machine: the card of the machine, which holds the number of threads, or None.
        theoretical: peak of the CPU in float32 in FLOP/s, or None where it is not known.
        source: address of the data sheet; "" for ceilings that were measured.
        read: year and month in which the data sheet was read.
    """

    flops: dict[str, float]
    bandwidth: dict[str, float]
    overhead_s: float
    functions: float = 0.0
    device: str = "cpu"
    caches: dict[str, int] = field(default_factory=dict)
    samples: dict[str, list[float]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    elapsed_s: float = 0.0
    machine: Machine | None = None
    activations: float = 0.0
    theoretical: float | None = None
    source: str = ""
    read: str = ""
    made_by: ClassVar = {"machine": Machine.from_dict}

    @property
    def cache_bytes(self) -> int:
        """What is taken to stay in the cache: half of the last level; 0 where unknown."""
        return max(self.caches.values(), default=0) // 2 if "cache" in self.bandwidth else 0

    @property
    def measured(self) -> bool:
        """Whether they were measured, and not read in a data sheet."""
        return not self.source

    def table(self) -> Table:
        """Return what is shown: a row for each ceiling, with the quartiles of its samples."""
        rows = []
        for name, (label, best, unit) in self._named().items():
            scale = 1e9 if unit == BILLIONS else 1
            ends = stats.quartiles(self.samples[name]) if name in self.samples else ()
            spread = " to ".join(format_value(end / scale, unit) for end in ends)
            rows.append([label, format_value(best, unit), spread])
        return Table(["", "ceiling", "quartiles"], rows, self._remarks(), right=(1, 2))

    def _named(self) -> dict[str, Named]:
        """What is known, by the names of the samples."""
        found = {
            k: Named(f"matrix products, {k}", rate, "FLOP/s") for k, rate in self.flops.items()
        }
        if CONVOLUTION in found:
            found[CONVOLUTION] = found[CONVOLUTION]._replace(label="convolutions, float32")
        for name, rate in self.bandwidth.items():
            found[name] = Named(f"bandwidth, {name}", rate, "B/s")
        if self.functions:
            found["functions"] = Named("exponentials", self.functions / 1e9, BILLIONS)
        if self.activations:
            found["activations"] = Named("GELUs", self.activations / 1e9, BILLIONS)
        if self.overhead_s:
            found["overhead"] = Named("overhead of an operation", self.overhead_s, "s")
        return found

    def _remarks(self) -> list[str]:
        if not self.measured:
            return [f"{self.device} by its data sheet, read {self.read}: {self.source}"]
        threads = [f"{self.device}; threads: {self.machine.torch_threads}"] if self.machine else []
        sizes = ", ".join(f"{k} {v // 1024:,} KiB" for k, v in self.caches.items()) or "unknown"
        remarks = [*threads, f"caches: {sizes}"]
        if self.theoretical:
            share = self.flops["float32"] / self.theoretical
            peak = format_value(self.theoretical, "FLOP/s")
            remarks.append(f"theoretical peak, float32: {peak}; products reach {share:.0%} of it")
        changing = "These numbers change with the clock rate and with other programs."
        return [*remarks, changing, *self.notes]


def cache_sizes() -> dict[str, int]:
    """Return the bytes of the first core's caches, such as {"L1": 49152, "L2": ..., "L3": ...}.

    They are as the system tells them (Linux: sysfs; macOS: sysctl), {} where it does not. A virtual
    machine may share the last level with others without knowing it.
    """
    found: dict[str, int] = {}
    with suppress(OSError, ValueError, subprocess.SubprocessError):
        for level in (1, 2, 3) if platform.system() == "Darwin" else ():
            ask = ["sysctl", "-n", f"hw.l{level}{'d' if level == 1 else ''}cachesize"]
            text = subprocess.run(ask, capture_output=True, text=True, timeout=5).stdout
            found |= {f"L{level}": int(text)} if text.strip() not in ("", "0") else {}
        for folder in sorted(CACHES.glob("index*")):
            number, kind, size = (
                (folder / n).read_text().strip() for n in ("level", "type", "size")
            )
            if kind != "Instruction":
                scale = {"K": 1024, "M": MIB}.get(size[-1], 1)
                found[f"L{number}"] = int(size.rstrip("KM")) * scale
    return found


def measure_ceilings(device: torch.device | str | None = None) -> Ceilings:
    """Measure the best that a device does: at most 10 s on two cores, once in a session.

    Each ceiling is the best of many short samples that take turns with those of the others.

    Args:
        device: by default the first accelerator, or the CPU where there is none.

    Returns:
        `Ceilings`, remembered for each device, number of threads and precision of float32 products
        (`torch.set_float32_matmul_precision`) and convolutions; `.save(path)` keeps them.

    Raises:
        RuntimeError: the device is not there.
    """
    device = torch.device(device) if device is not None else try_gpu()
    _check_there(device)
    precision = torch.get_float32_matmul_precision(), _convolution_precision()
    key = str(device), torch.get_num_threads(), precision
    if chosen():  # tests have clocks of their own: nothing is remembered
        return _measured_on(device, instruments())
    if key not in _session:
        _session[key] = _measured_on(device, instruments())
    return _session[key]


def _check_there(device: torch.device) -> None:
    """Raise RuntimeError unless this process has a device."""
    there = ["cpu", *(str(gpu(i)) for i in range(num_gpus()))]
    if device.type != "cpu" and f"{device.type}:{device.index or 0}" not in there:
        have = ", ".join(there)
        raise RuntimeError(f"there is no device {str(device)!r} here. There are: {have}.")


class Piece(NamedTuple):
    """Work with the plan of its turns."""

    subject: Subject
    work: float  # amount of one call
    plan: Plan


class Pieces:
    """Work that is measured: name, amount and function, each with the plan of its turns."""

    def __init__(self, given: Instruments):
        self._given = given
        self._planned: list[Piece] = []
        self.samples: dict[str, list[float]] = {}

    def add(self, name: str, work: float, call: Callable[[], Any]) -> float:
        """Give work its turns, unless it is optional and slow; return the seconds of a call."""
        subject = Subject(name, call, tools=self._given)
        subject.call()
        call_s = subject.first_calls_s[0]
        if call_s < 4 * SLOWEST_S:
            call_s = subject.warm_up(0.1)
        if call_s < SLOWEST_S or name not in DTYPES[1:]:
            self._planned.append(Piece(subject, work, subject.plan(call_s)))
        return call_s

    def sample(self, began: float, show: Callable[[float], Any]) -> None:
        """Let all take turns until the time is over; `show` gets the seconds since `began`."""
        clock = self._given.clock
        ends = min(clock() + SAMPLING_S, began + MOST_S)
        while not self.samples or clock() < ends:
            for subject, work, plan in self._planned:
                rates = [work / s for s in subject.phase(plan) if s > 0]
                self.samples.setdefault(subject.name, []).extend(rates)
                show(min(MOST_S, clock() - began))


def _measured_on(device: torch.device, given: Instruments) -> Ceilings:
    """Measure the ceilings of a device."""
    from tqdm.auto import tqdm

    began, pieces = given.clock(), Pieces(given)
    notes: list[str] = []
    caches = _caches_of(device)
    layout = "measuring ceilings {bar}| {n:.0f} of at most {total:.0f} s"
    with (
        undisturbed(),
        torch.no_grad(),
        tqdm(total=MOST_S, bar_format=layout, leave=False, disable=not bar_wanted()) as bar,
    ):
        last = max(caches.values(), default=0)
        _add_products(device, pieces.add, notes)
        _add_convolutions(device, pieces.add, notes)
        _add_arrays(device, pieces.add, notes, last)
        _add_matrices(device, pieces.add, last)
        _add_transfers(device, pieces.add, notes)
        _add_tiny(device, pieces.add)
        pieces.sample(began, lambda spent_s: bar.update(spent_s - bar.n))
        bar.total = bar.n  # as in progress.py, so that no red bar is left
    samples = pieces.samples
    best = {name: max(rates) for name, rates in samples.items()}
    if best.get("cache", best["triad"]) < best["triad"]:
        busy = "something else kept the cores busy. Measure again in a quiet session"
        notes.append(f"the cache seems slower than memory: {busy}")
    tiny = [name for name in samples if name.startswith("tiny")]
    tiny_s = [1 / best.pop(name) for name in tiny]
    theoretical = None
    if device.type == "cpu":
        peak = cpu_peak(torch.get_num_threads())
        theoretical = peak.flops
        notes.append(f"theoretical peak: {peak.how if peak.flops else f'not known: {peak.how}'}")
    return Ceilings(
        flops={name: best.pop(name) for name in (*DTYPES, CONVOLUTION) if name in best},
        functions=best.pop("functions"),
        activations=best.pop("activations"),
        bandwidth=best,
        overhead_s=stats.median(tiny_s),
        device=str(device),
        caches=caches,
        samples={n: s for n, s in samples.items() if n not in tiny} | {"overhead": tiny_s},
        notes=notes,
        elapsed_s=given.clock() - began,
        machine=machine_card(touch=False),
        theoretical=theoretical,
    )


def _caches_of(device: torch.device) -> dict[str, int]:
    """Bytes of a device's caches by level, {} where unknown."""
    if device.type == "cpu":
        return cache_sizes()
    if device.type != "cuda":
        return {}
    size = getattr(torch.cuda.get_device_properties(device), "L2_cache_size", 0)
    return {"L2": size} if size else {}


def _add_products(device: torch.device, add: Callable, notes: list[str]) -> None:
    """Square matrix products by dtype, ever larger ones as long as they are fast enough."""
    for name in DTYPES:
        size, call_s = 256, 0.0
        while size <= 8192 and 8 * call_s < SLOWEST_S:
            try:
                a = torch.randint(-9, 9, (size, size), device=device).to(getattr(torch, name))
                product = _compat.int8_product() if name == "int8" else torch.mm
                call_s = add(name, 2.0 * size**3, lambda a=a, product=product: product(a, a))
            except (RuntimeError, AttributeError, TypeError) as error:
                notes.append(f"no products of {name}: {str(error).splitlines()[0]}")
                break
            size *= 2


def _add_convolutions(device: torch.device, add: Callable, notes: list[str]) -> None:
    """Convolutions of 3 x 3 in float32, over ever more images as long as they are fast enough.

    They have kernels of their own, which may be faster than products (oneDNN and MKL on some CPUs),
    and on a GPU another default precision (TF32).
    """
    images, call_s = 2, 0.0
    kernels = torch.rand(128, 128, 3, 3, device=device)
    while images <= 128 and 4 * call_s < SLOWEST_S / 4:  # on a CPU more images are not faster
        x = torch.rand(images, 128, 28, 28, device=device)
        flops = 2.0 * images * 128 * 26 * 26 * 128 * 9
        try:
            call_s = add(CONVOLUTION, flops, lambda x=x: functional.conv2d(x, kernels))
        except RuntimeError as error:
            notes.append(f"no convolutions: {str(error).splitlines()[0]}")
            break
        images *= 4


def _convolution_precision() -> Any:
    """What float32 convolutions are computed in on a GPU; its name depends on torch's version."""
    cudnn = torch.backends.cudnn
    return cudnn.conv.fp32_precision if hasattr(cudnn, "conv") else cudnn.allow_tf32


def _add_arrays(device: torch.device, add: Callable, notes: list[str], last: int) -> None:
    """Bandwidth of memory, of the last-level cache and of new memory; exponentials."""
    size = min(max(4 * last, 128 * MIB), 512 * MIB, machine_card(touch=False).memory_bytes // 32)
    if size < 4 * last or not last:
        cache = f"{last // MIB} MiB" if last else "of unknown size"
        notes.append(f"memory was measured with arrays of {size // MIB} MiB; the cache is {cache}")
    a, b, c = (torch.ones(size // 4, device=device) for _ in range(3))
    add("triad", 3 * size, lambda: torch.add(b, c, alpha=2.0, out=a))
    add("copy", 2 * size, lambda: a.copy_(b))
    if last:
        x, y, z = (array[: last // 48] for array in (a, b, c))  # a quarter of the cache in all
        add("cache", 12 * len(x), lambda: torch.add(y, z, alpha=2.0, out=x))
    if device.type == "cpu":
        add("new memory", 2 * NEW_BYTES, lambda: torch.ones(2 * NEW_BYTES // 4))
    few, out = b[: MIB // 4], a[: MIB // 4]
    add("functions", len(few), lambda: torch.exp(few, out=out))
    add("activations", len(few), lambda: functional.gelu(few))


def _add_matrices(device: torch.device, add: Callable, last: int) -> None:
    """Bandwidth of two ways through a matrix: with a vector, and across its lines."""
    side = 1024
    while 4 * side**2 < min(2 * last, 512 * MIB):
        side *= 2
    far, near = torch.ones(side, side, device=device), torch.ones(1024, 1024, device=device)
    add("memory, one row", 4 * side**2, lambda: torch.mv(far, far[0]))
    if last:
        add("cache, one row", 4 * 1024**2, lambda: torch.mv(near, near[0]))
        add("cache, transposed", 8 * 1024**2, lambda: near.t().contiguous())
    add("memory, transposed", 8 * side**2, lambda: far.t().contiguous())


def _add_transfers(device: torch.device, add: Callable, notes: list[str]) -> None:
    """Copies between the host and the device, from pageable and from pinned memory."""
    there = torch.ones(16 * MIB, device=device)
    for kind in () if device.type == "cpu" else ("pageable", "pinned"):
        try:
            here = torch.ones(16 * MIB, pin_memory=kind == "pinned")
        except RuntimeError as error:
            notes.append(f"no {kind} memory: {str(error).splitlines()[0]}")
            continue
        add(f"to device, {kind}", 64 * MIB, lambda here=here: there.copy_(here))
        add(f"from device, {kind}", 64 * MIB, lambda here=here: here.copy_(there))


def _add_tiny(device: torch.device, add: Callable) -> None:
    """Ordinary operations on almost nothing; the overhead is the median of their best times."""
    x, rows = torch.ones(4, 4, device=device), torch.zeros(4, dtype=torch.long, device=device)
    add("tiny add", 1, lambda: torch.add(x, x))
    add("tiny relu", 1, lambda: torch.relu(x))
    add("tiny sum", 1, lambda: x.sum())
    add("tiny linear", 1, lambda: functional.linear(x, x))
    add("tiny layer_norm", 1, lambda: functional.layer_norm(x, (4,)))
    add("tiny embedding", 1, lambda: functional.embedding(rows, x))
