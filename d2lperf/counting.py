"""What a function does: the operations that torch dispatches, their FLOPs, and the bytes they move.

Views are operations, too: they have overhead, but move nothing. Code of `torch.compile` is counted
as the operations that it replaces.

* FLOPs: products, convolutions and attention as `torch.utils.flop_counter` counts them; other
  arithmetic one for each element of its largest tensor; exponentials and similar functions are also
  counted separately.
  Those of sorting, decompositions, random numbers and so on are unknown.
* Bytes: each input is read once, each output written once. A gather reads as much as it returns.
  What `copy_`, `fill_` or `out=` overwrite is not read.
* Places: the function is called over and over. A tensor comes from the cache if no more than
  `cache_bytes` were used since its last use. On a CPU, results of 32 MiB and more are new memory,
  which the operating system hands out page by page.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import flop_registry

__all__ = ["NEW_BYTES", "Operation", "OperationCounter"]

NEW_BYTES = 32 * 2**20  # Linux's C library returns blocks of this size to the system when freed

# Parts of names: what only moves numbers, and what has one FLOP for each element.
_MOVES = (
    *("arange", "cat", "clone", "copy", "embedding", "eye", "fill", "flip", "full", "gather"),
    *("index", "lift_fresh", "local_scalar", "new_", "ones", "_pad", "repeat", "roll", "scatter"),
    *("scalar_tensor", "stack", "tril", "triu", "unfold", "zero"),
)
_BY_ELEMENT = (
    *("_norm", "_pool", "foreach", "fused", "max", "mean", "min", "nll_loss", "prod", "softmax"),
    *("std", "sum", "var"),
)
# Whole names: for each element an evaluation of exp, or of what takes about as long.
_FUNCTIONS = (
    *("cos", "elu", "erf", "exp", "expm1", "gelu", "gelu_backward", "log", "log1p", "log_softmax"),
    *("logsumexp", "mish", "pow", "sigmoid", "silu", "silu_backward", "sin", "softmax", "tanh"),
)
_GATHERS = ("embedding", "gather", "index", "index_select", "take")
_OVERWRITES = ("copy_", "fill_", "zero_")


class Operation(NamedTuple):
    """One operation: its work, and its seconds while it was counted.

    `kind` is "product", "pointwise", "other", or "unknown" where FLOPs are; `functions` are
    evaluations of exp and similar ones; `bytes` has them by place: "memory", "cache", "new memory",
    "to device, pageable", "from device, pageable".
    """

    name: str
    kind: str
    dtype: torch.dtype
    flops: float
    functions: float
    bytes: dict[str, float]
    seconds: float


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
    """

    def __init__(self, clock: Callable[[], float], wait: Callable[[], None]):
        super().__init__()
        self.clock, self.wait = clock, wait
        self.operations: list[Operation] = []
        self.device, self.cache_bytes = torch.device("cpu"), 0
        self._used: dict[int, float] = {}  # address -> bytes, the last used last

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run an operation and count it."""
        self.wait()
        start = self.clock()
        result = func(*args, **(kwargs or {}))
        self.wait()
        took = self.clock() - start
        if func.namespace != "profiler":
            self.operations.append(self._operation(func, args, kwargs or {}, result, took))
        return result

    def _operation(self, func: Any, args: Any, kwargs: Any, made: Any, took: float) -> Operation:
        packet, name = func.overloadpacket, func.overloadpacket.__name__
        given = {**dict(enumerate(args)), **kwargs}
        takes = [(given.get(a.name, given.get(i)), a) for i, a in enumerate(func._schema.arguments)]
        read = _tensors([value for value, a in takes if not a.is_out])
        written = _tensors([v for v, a in takes if a.alias_info and a.alias_info.is_write])
        old = {_address(t) for t in read + written}
        new = [t for t in _tensors(made) if _address(t) not in old]
        every = read + written + new
        dtypes = [t.dtype for t in every if t.is_floating_point()] + [t.dtype for t in every]
        dtype = (*dtypes, torch.float32)[0]
        if "empty" in name or not written + new:  # nothing is written: memory as it is, or a view
            return Operation(name, "other", dtype, 0, 0, {}, took)
        places = self._moved(name, read[name in _OVERWRITES :], written, new)
        elements = max(t.numel() for t in every)
        if "_foreach" in name or "_fused" in name:  # many tensors at once
            elements = sum(t.numel() for t in written or new)
        if "_flash_attention_for_cpu" in name:  # torch has the formula under the name for GPUs
            packet = getattr(torch.ops.aten, name.replace("_for_cpu", ""))
        if packet in flop_registry:
            flops = flop_registry[packet](*args, **kwargs, out_val=made)
            return Operation(name, "product", dtype, flops, 0, places, took)
        if any(part in name for part in _MOVES):
            return Operation(name, "other", dtype, 0, 0, places, took)
        kind = "pointwise" if torch.Tag.pointwise in func.tags else "unknown"
        if kind == "unknown" and any(part in name for part in _BY_ELEMENT):
            kind = "other"
        functions = elements * (name.strip("_") in _FUNCTIONS)
        flops = elements * (kind != "unknown")
        return Operation(name, kind, dtype, flops, functions, places, took)

    def _moved(self, name: str, read: list, written: list, new: list) -> dict[str, float]:
        """Bytes by place."""
        found: dict[str, float] = {}
        devices = [t.device for t in read + written + new if t.dim()]
        self.device = next((d for d in devices if d.type != "cpu"), self.device)
        for i, tensor in enumerate(read + written + new):
            size = sum(map(_bytes, new)) if name in _GATHERS and i == 0 else _bytes(tensor)
            place = self._place(_address(tensor), size)
            if tensor.device.type == "cpu" and size >= NEW_BYTES and i >= len(read + written):
                place = "new memory"
            if len({d.type for d in devices}) > 1:  # from device to device, bytes count once
                place = f"{'to' if devices[0].type == 'cpu' else 'from'} device, pageable"
                size /= 2
            found[place] = found.get(place, 0) + size
        return found

    def _place(self, address: int, size: float) -> str:
        """Where a tensor is now; afterwards it is the one used last."""
        since = 0.0 if address in self._used else math.inf
        for other in reversed(self._used):
            since += size if other == address else self._used[other]
            if other == address or since > self.cache_bytes:
                break
        self._used.pop(address, None)
        self._used[address] = size
        return "cache" if since <= self.cache_bytes else "memory"


def _tensors(values: Any) -> list[torch.Tensor]:
    """The tensors in nested values, each once."""
    found = {id(value): value for value in tree_leaves(values) if isinstance(value, torch.Tensor)}
    return list(found.values())


def _address(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage().data_ptr()


def _bytes(tensor: torch.Tensor) -> float:
    """Bytes of a tensor; what is expanded counts once."""
    counts = [n for n, step in zip(tensor.shape, tensor.stride()) if step]
    return math.prod(counts) * tensor.element_size()
