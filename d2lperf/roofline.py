"""What limits a function on this machine: overhead, memory or arithmetic?

An operation takes at least the longest of three times: the overhead of any operation; its bytes by
the bandwidth of where they are; its FLOPs by the rate of matrix products of its dtype (the roofline
of S. Williams, A. Waterman, D. Patterson, *CACM* 52(4), 2009, and the overhead). These add up.
What an operation does is counted by the rules of `d2lperf.counting`.
"""

from __future__ import annotations

import math
import os
import platform
import subprocess
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import torch
from torch.nn import functional

from d2lperf import plotting
from d2lperf.counting import NEW_BYTES, Operation, OperationCounter
from d2lperf.device import synchronize, try_gpu
from d2lperf.machine import Machine, machine_card
from d2lperf.measuring import Measurement, measure, stats
from d2lperf.measuring.formats import Shown, Table, format_value
from d2lperf.measuring.sampling import Instruments, Subject, undisturbed
from d2lperf.measuring.saved import Saved

__all__ = [
    *("Ceilings", "Estimate", "Explanation", "Roofline"),
    *("cache_sizes", "explain", "measure_ceilings"),
]

OVERHEAD, MEMORY, COMPUTE = "overhead", "memory", "compute"
MIB = 2**20
CACHES = Path("/sys/devices/system/cpu/cpu0/cache")
SAMPLING_S, MOST_S = 5.0, 9.0  # of sampling, and of everything: no round begins after it
SLOWEST_S = 0.25  # calls that would take longer are not tried
DTYPES = ("float32", "bfloat16", "float16", "int8")
_session: dict[tuple, Ceilings] = {}


# ------------------------------------------------------------------------------------- ceilings


@dataclass(frozen=True, repr=False)
class Ceilings(Shown, Saved):
    """The best that a device was seen to do.

    Attributes:
        flops: dtype -> FLOP/s of matrix products (for int8, integer operations).
        bandwidth: B/s, read and written: of memory "triad" and "copy", "cache" (the last level),
            "new memory", "to device, pageable" and so on.
        overhead_s: seconds of a tiny operation.
        functions: evaluations of exp in a second; 0 where unknown.
        device: which one.
        caches: level -> bytes, as the system tells them.
        samples: all samples by name, in the unit of the ceiling.
        notes: what is missing, and why.
        elapsed_s: seconds that the measuring took.
        machine: the card of the machine, which holds the number of threads, or None.
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
    made_by: ClassVar = {"machine": Machine.from_dict}

    @property
    def cache_bytes(self) -> int:
        """What is taken to stay in the cache: half of the last level; 0 where unknown."""
        return max(self.caches.values(), default=0) // 2 if "cache" in self.bandwidth else 0

    def table(self) -> Table:
        """Return what is shown: a row for each ceiling, with the quartiles of its samples."""
        found = {k: (f"matrix products, {k}", rate, "FLOP/s") for k, rate in self.flops.items()}
        found |= {k: (f"bandwidth, {k}", rate, "B/s") for k, rate in self.bandwidth.items()}
        found["functions"] = ("exponentials", self.functions / 1e9, "billion/s")
        found["overhead"] = ("overhead of an operation", self.overhead_s, "s")
        rows = []
        for name, (label, best, unit) in found.items():
            scale = 1e9 if name == "functions" else 1
            ends = stats.quartiles(self.samples[name]) if name in self.samples else ()
            spread = " to ".join(format_value(end / scale, unit) for end in ends)
            rows.append([label, format_value(best, unit), spread])
        sizes = ", ".join(f"{k} {v // 1024:,} KiB" for k, v in self.caches.items()) or "unknown"
        foot = [f"{self.device}; threads: {self.machine.torch_threads}"] if self.machine else []
        foot += [f"caches: {sizes}", "Clock rates and what shares the cache may change all of it."]
        return Table(
            ["", "best", "quartiles of all samples"], rows, foot + self.notes, right=(1, 2)
        )


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
            level, kind, size = (
                (folder / n).read_text().strip() for n in ("level", "type", "size")
            )
            if kind != "Instruction":
                scale = {"K": 1024, "M": MIB}.get(size[-1], 1)
                found[f"L{level}"] = int(size.rstrip("KM")) * scale
    return found


def measure_ceilings(
    device: torch.device | str | None = None, *, instruments: Instruments | None = None
) -> Ceilings:
    """Measure the best that a device does: at most 10 s on two cores, once in a session.

    Each ceiling is the best of many short samples that take turns with those of the others.

    Args:
        device: by default the first accelerator, or the CPU where there is none.
        instruments: clock and synchronisation, for tests; then nothing is remembered.

    Returns:
        `Ceilings`, remembered for each device and number of threads; `.save(path)` keeps them.

    Raises:
        RuntimeError: the device is not there.
    """
    from tqdm.auto import tqdm

    device = torch.device(device) if device is not None else try_gpu()
    key = str(device), torch.get_num_threads(), torch.get_float32_matmul_precision()
    if instruments is None and key in _session:
        return _session[key]
    given = instruments or Instruments()
    began, notes, pieces = given.clock(), [], []
    caches = cache_sizes() if device.type == "cpu" else {}
    if device.type == "cuda":
        size = getattr(torch.cuda.get_device_properties(device), "L2_cache_size", 0)
        caches = {"L2": size} if size else {}

    def add(name: str, work: float, call: Callable[[], Any]) -> float:
        """Take a piece of work into the turns unless it is slow; return the seconds of a call."""
        subject = Subject(name, call, instruments=given)
        subject.call()
        call_s = subject.first_calls_s[0]
        if call_s < 4 * SLOWEST_S:
            call_s = subject.warm_up(0.1)
        if call_s < SLOWEST_S:
            pieces.append((subject, work, subject.plan(call_s)))
        return call_s

    samples: dict[str, list[float]] = {}
    off = os.environ.get("TQDM_DISABLE", "") not in ("", "0")  # in a kernel tqdm ignores it
    layout = "measuring ceilings {bar}| {n:.0f} of at most {total:.0f} s"
    with (
        undisturbed(),
        torch.no_grad(),
        tqdm(total=MOST_S, bar_format=layout, leave=False, disable=off) as bar,
    ):
        _add_products(device, add, notes)
        _add_arrays(device, add, notes, max(caches.values(), default=0))
        _add_transfers(device, add, notes)
        _add_tiny(device, add)
        ends = min(given.clock() + SAMPLING_S, began + MOST_S)
        while not samples or given.clock() < ends:
            for subject, work, plan in pieces:
                rates = [work / s for s in subject.phase(plan) if s > 0]
                samples.setdefault(subject.name, []).extend(rates)
                bar.update(min(MOST_S, given.clock() - began) - bar.n)
    best = {name: max(rates) for name, rates in samples.items()}
    tiny = [name for name in samples if name.startswith("tiny")]
    tiny_s = [1 / best.pop(name) for name in tiny]
    found = Ceilings(
        flops={name: best.pop(name) for name in DTYPES if name in best},
        functions=best.pop("functions"),
        bandwidth=best,
        overhead_s=stats.median(tiny_s),
        device=str(device),
        caches=caches,
        samples={n: s for n, s in samples.items() if n not in tiny} | {"overhead": tiny_s},
        notes=notes,
        elapsed_s=given.clock() - began,
        machine=machine_card(touch=False),
    )
    if instruments is None:
        _session[key] = found
    return found


def _add_products(device: torch.device, add: Callable, notes: list[str]) -> None:
    """Square matrix products by dtype, ever larger ones as long as they are fast enough."""
    for name in DTYPES:
        size, call_s = 256, 0.0
        while size <= 8192 and 8 * call_s < SLOWEST_S:
            try:
                a = torch.randint(-9, 9, (size, size), device=device).to(getattr(torch, name))
                # torch.mm overflows in int8. The product that sums in int32 has no public name.
                product = torch._int_mm if name == "int8" else torch.mm
                call_s = add(name, 2.0 * size**3, lambda a=a, product=product: product(a, a))
            except (RuntimeError, AttributeError) as error:
                notes.append(f"no products of {name}: {str(error).splitlines()[0]}")
                break
            size *= 2


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
        dtype: torch.dtype = torch.float32,
        *,
        functions: float = 0.0,
    ) -> Estimate:
        """Return the time that one operation takes at the ceilings, and what it waits for.

        Args:
            flops: its FLOPs.
            bytes: bytes that it reads and writes. A number counts as in the cache if it fits into
                half of the last level. A dictionary has them by place ("memory", "cache" or
                another key of the ceilings' bandwidth).
            dtype: of its numbers; the rate is that of float32 where it was not measured.
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

        Args:
            points: name -> (FLOPs, bytes, seconds). What has no FLOPs has no place in the figure.
            ax: where to draw; a new figure by default.
        """
        placed = {n: (f / b, f / s) for n, (f, b, s) in points.items() if min(f, b, s) > 0}
        peak, curves = self.ceilings.flops["float32"], {}
        roofs = {"memory": self.ceilings.bandwidth["triad"]}
        if "cache" in self.ceilings.bandwidth:
            roofs["cache"] = self.ceilings.bandwidth["cache"]
        xs = [x for x, _ in placed.values()] + [peak / roof for roof in roofs.values()]
        for name, roof in roofs.items():
            x = [min(xs) / 2, peak / roof, 4 * max(xs)]
            curves[name] = x, [min(peak, roof * v) for v in x]
        curves |= {name: ([x], [y]) for name, (x, y) in placed.items()}
        x, y = ({name: pair[i] for name, pair in curves.items()} for i in (0, 1))
        words = {"xlabel": "FLOPs for each byte", "ylabel": "rate", "yunit": "FLOP/s"}
        return plotting.lines(x, y, **words, log="xy", ax=ax)


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
            measured = format_value(self.measured_s, "s")
            foot += [f"measured: {measured}, {times:.2g} times the prediction"]
            if self.measured_s > max(2 * self.predicted_s, 1.5 * spent_s):
                outside = 1 - spent_s / self.measured_s
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

    Work is counted by the rules of `d2lperf.counting`. The time differs from the prediction where
    a kernel stays below the ceilings, or where Python or other libraries compute.

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
    pairs = [(o, predict(o.flops, o.bytes, o.dtype, functions=o.functions)) for o in ops]
    total_s, spent_s = sum(e.seconds for _, e in pairs), sum(o.seconds for o in ops) or 1.0
    shares, uncounted = dict.fromkeys((OVERHEAD, MEMORY, COMPUTE), 0.0), Counter()
    for op, (seconds, regime) in pairs:
        shares[regime] += seconds / total_s
        uncounted.update({op.name: op.seconds / spent_s} if op.kind == "unknown" else {})
    return Explanation(
        flops=sum(op.flops for op in ops),
        bytes=sum(sum(op.bytes.values()) for op in ops),
        predicted_s=total_s,
        measurement=measurement,
        shares=shares,
        help=_help(pairs, max(shares, key=shares.__getitem__), uncounted, ceilings.flops),
        uncounted=dict(uncounted),
        operations=pairs,
        ceilings=ceilings,
    )


def _help(pairs: list, regime: str, uncounted: Counter, rates: dict[str, float]) -> str:
    """What helps against most of the time that is predicted in the regime."""
    if sum(uncounted.values()) > 0.5:
        return f"not known: nobody counts the work of {uncounted.most_common(1)[0][0]}"
    seconds: Counter[str] = Counter()
    for op, estimate in pairs:
        key = regime
        if regime == MEMORY:
            key = "new memory" if "new memory" in op.bytes else op.kind
        elif regime == COMPUTE:
            key = "functions" if op.functions else str(op.dtype).removeprefix("torch.")
        seconds[key] += estimate.seconds * (estimate.regime == regime)
    key = seconds.most_common(1)[0][0]
    best = max(rates, key=lambda name: rates[name] * (name != "int8"))
    gain = rates[best] / rates.get(key, math.inf)
    if gain > 1.2:
        return f"lower precision: products in {best} are {gain:.1f} times as fast here"
    return _HELP.get(key, _HELP[regime])
