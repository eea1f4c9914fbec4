"""Runs a function and notes its operations: names, FLOPs, bytes, seconds.

Views are operations, too: they have overhead, but move nothing. Code of `torch.compile` is counted
as the operations that it replaces, and a composite operation, such as `matmul` in inference mode,
as those that it is made of. So are operations on tensors that wrap others. Each input is read once,
each output written once. A gather reads as much as it returns. What `copy_`, `fill_` or `out=`
overwrite is not read.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from typing import Any, NamedTuple

import torch

from d2lperf import _compat
from d2lperf._compat import TorchDispatchMode
from d2lperf.counting import classes, places, products

__all__ = ["Operation", "OperationCounter"]

OVERWRITES = ("copy_", "fill_", "zero_")
COPIES = ("clone", "copy_", "contiguous", "_to_copy")
ONE_ROW, TRANSPOSED = "one row", "transposed"  # ways of access with a bandwidth of their own
# The fused kernels of batch norm change the running statistics, but their signatures hide it.
STATISTICS = ("running_mean", "running_var")
ALONE_S, MOST_ALONE = 0.02, 5  # an operation is timed alone for so long, or so often


class Operation(NamedTuple):
    """One operation: its work, and its seconds while it was counted.

    `kind` is one of `d2lperf.counting.classes`, "unknown" where FLOPs are. `functions` and
    `activations` are evaluations of exp and of GELU, and of what takes about as long. `bytes` has
    them by place: "memory", "cache", "new memory", "to device, pageable", "from device, pageable".
    `access` is "one row" (of a product), "transposed" (of a copy), or empty.
    """

    name: str
    kind: str
    dtype: torch.dtype
    flops: float
    functions: float
    bytes: dict[str, float]
    seconds: float
    activations: float = 0.0
    access: str = ""

    @property
    def counted(self) -> bool:
        """Whether its work is known."""
        return self.kind != classes.UNKNOWN


class Touched(NamedTuple):
    """The tensors of an operation: what it reads, what of that it overwrites, what it makes."""

    read: list[torch.Tensor]
    written: list[torch.Tensor]
    new: list[torch.Tensor]


def touched_by(func: Any, args: tuple, kwargs: dict, made: Any) -> Touched:
    """Return the tensors of an operation; what `out=` names is written and not read."""
    given = {**dict(enumerate(args)), **kwargs}
    takes = [(given.get(a.name, given.get(i)), a) for i, a in enumerate(_compat.arguments_of(func))]
    read = places.tensors_in([value for value, a in takes if not a.is_out])
    written = places.tensors_in([v for v, a in takes if a.alias_info and a.alias_info.is_write])
    if "batch_norm" in func.overloadpacket.__name__ and not written:
        written = places.tensors_in([v for v, a in takes if a.name in STATISTICS])
    old = {places.address(t) for t in read + written}
    new = [t for t in places.tensors_in(made) if places.address(t) not in old]
    return Touched(read, written, new)


class OperationCounter(TorchDispatchMode):
    """Counts the operations that run in its with-block.

    The first call fills the cache: run the function once, empty `operations`, run it again.

    Args:
        clock: returns seconds.
        wait: returns when the devices in use are idle.

    Attributes:
        operations: what was counted.
        device: the accelerator that was used, or the CPU.
        cache_bytes: how much stays in the cache, in bytes.
        alone: time what cannot be counted alone, on the inputs it has: a few more calls of it.
        inside_s: seconds in operations and in counting them; the rest of a run is outside of torch.
    """

    def __init__(self, clock: Callable[[], float], wait: Callable[[], None]):
        super().__init__()
        self.clock, self.wait = clock, wait
        self.operations: list[Operation] = []
        self.device, self.alone, self.inside_s = torch.device("cpu"), False, 0.0
        self._recent = places.RecentlyUsed()

    @property
    def cache_bytes(self) -> float:
        """How much stays in the cache, in bytes."""
        return self._recent.cache_bytes

    @cache_bytes.setter
    def cache_bytes(self, size: float) -> None:
        self._recent.cache_bytes = size

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run an operation and count it, or those that it is made of."""
        if types and any(map(places.wraps_others, places.tensors_in([args, kwargs]))):
            return NotImplemented  # torch asks the class, and we see what it does
        kwargs, entered = kwargs or {}, self.clock()
        if _compat.is_composite(func, args, kwargs):
            before_s = self.inside_s
            with self:
                result = _compat.run_composed(func, args, kwargs)
            self.inside_s = before_s + self.clock() - entered  # with what lies between its parts
            return result
        self.wait()
        start = self.clock()
        result = func(*args, **kwargs)
        self.wait()
        took_s = self.clock() - start
        if func.namespace != "profiler":
            operation = self._operation(func, args, kwargs, result, took_s)
            if self.alone and not operation.counted:
                operation = operation._replace(seconds=self._alone_s(func, args, kwargs, took_s))
            self.operations.append(operation)
        self.inside_s += self.clock() - entered
        return result

    def _operation(self, func: Any, args: Any, kwargs: Any, made: Any, took_s: float) -> Operation:
        name, touched = func.overloadpacket.__name__, touched_by(func, args, kwargs, made)
        every = [*touched.read, *touched.written, *touched.new]
        plain = Operation(name, classes.MOVE, _dtype(every), 0.0, 0.0, {}, took_s)
        is_view = not touched.written + touched.new or torch.Tag.inplace_view in func.tags
        if is_view or "empty" in name:
            return plain  # nothing is written
        if any(t.is_nested and t.layout == torch.strided for t in every):
            return plain._replace(kind=classes.UNKNOWN)  # such tensors have no sizes
        moved = plain._replace(
            bytes=self._moved(name, touched), access=_access(name, args, touched)
        )
        if any(places.is_sparse(t) for t in every):
            return moved._replace(kind=classes.UNKNOWN)
        flops = products.product_flops(func, args, kwargs, made)
        if flops is not None:
            return moved._replace(kind=classes.PRODUCT, flops=flops)
        kind = classes.kind_of(name, func.tags)
        if kind in (classes.MOVE, classes.UNKNOWN):
            return moved._replace(kind=kind)
        elements = float(max(t.numel() for t in every))
        if classes.on_several(name):
            elements = float(sum(t.numel() for t in touched.written or touched.new))
        each = classes.evaluations(name, args)
        return moved._replace(
            kind=kind,
            flops=elements,
            functions=elements * each.functions,
            activations=elements * each.activations,
        )

    def _moved(self, name: str, touched: Touched) -> dict[str, float]:
        """Bytes by place."""
        found: dict[str, float] = {}

        def add(place: str, size: float) -> None:
            if size:
                found[place] = found.get(place, 0.0) + size

        read = touched.read[1:] if name in OVERWRITES else touched.read
        old = [*read, *touched.written]
        devices = [t.device for t in [*old, *touched.new] if t.dim()]
        self.device = next((d for d in devices if d.type != "cpu"), self.device)
        across = len({d.type for d in devices}) > 1
        returned = sum(places.bytes_of(t) for t in touched.new)
        for i, tensor in enumerate([*old, *touched.new]):
            size = places.bytes_of(tensor)
            if i == 0 and name in classes.GATHERS:
                size = returned
            part = self._recent.use(places.address(tensor), size, made=i >= len(old))
            if across:  # from device to device, bytes count once
                way = "to" if devices[0].type == "cpu" else "from"
                add(f"{way} device, pageable", size / 2)
            elif i >= len(old) and tensor.device.type == "cpu" and size >= places.NEW_BYTES:
                add(places.NEW_MEMORY, size)
            else:
                add(places.CACHE, size * part)
                add(places.MEMORY, size * (1 - part))
        return found

    def _alone_s(self, func: Any, args: Any, kwargs: Any, took_s: float) -> float:
        """Median seconds of an operation by itself, on copies of what it overwrites.

        Only torch's own operations run again: another one may send a message to other processes.
        """
        if func.namespace != "aten":
            return took_s
        written = {id(t): t.clone() for t in touched_by(func, args, kwargs, None).written}

        def copied(value: Any) -> Any:
            return written.get(id(value), value)

        args, kwargs = _compat.map_leaves(copied, (args, kwargs))
        samples_s: list[float] = []
        while len(samples_s) < MOST_ALONE and sum(samples_s) < ALONE_S:
            self.wait()
            start = self.clock()
            func(*args, **kwargs)
            self.wait()
            samples_s.append(self.clock() - start)
        return statistics.median(samples_s)


def _dtype(tensors: list[torch.Tensor]) -> torch.dtype:
    """The first floating-point dtype of some tensors, or their first."""
    dtypes = [t.dtype for t in tensors]
    return next((d for d in dtypes if d.is_floating_point), next(iter(dtypes), torch.float32))


def _access(name: str, args: tuple, touched: Touched) -> str:
    """The way of access that has a bandwidth of its own, or "" where it is the usual one."""
    if products.has_one_row(name, args):
        return ONE_ROW
    targets = touched.new or touched.written
    if name in COPIES and targets and touched.read:
        source = touched.read[-1]
        return TRANSPOSED if places.is_transposed(source, targets[0]) else ""
    return ""
