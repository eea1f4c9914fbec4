"""Bytes of tensors, and where they are when they are used.

The function is called over and over. A tensor comes from the cache if little else was used since
its last use: up to half of the cache it is all there, beyond the whole cache none of it, and
between the two a part. A result at a new address is taken to reuse memory of the calls before. On a
CPU, results of 32 MiB and more are new memory, which the operating
system hands out page by page.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch

from d2lperf import _compat

__all__ = ["NEW_BYTES", "RecentlyUsed"]

NEW_BYTES = 32 * 2**20  # Linux's C library returns blocks of this size to the system when freed
CACHE, MEMORY, NEW_MEMORY = "cache", "memory", "new memory"
_COMPRESSED = {
    torch.sparse_csr: ("crow_indices", "col_indices"),
    torch.sparse_bsr: ("crow_indices", "col_indices"),
    torch.sparse_csc: ("ccol_indices", "row_indices"),
    torch.sparse_bsc: ("ccol_indices", "row_indices"),
}


def tensors_in(values: Any) -> list[torch.Tensor]:
    """The tensors in nested values, each once."""
    found = {
        id(value): value for value in _compat.leaves(values) if isinstance(value, torch.Tensor)
    }
    return list(found.values())


def is_sparse(tensor: torch.Tensor) -> bool:
    """Whether a tensor holds only some of its numbers."""
    return tensor.layout == torch.sparse_coo or tensor.layout in _COMPRESSED


def has_dispatch(tensor: torch.Tensor) -> bool:
    """Whether torch asks a tensor's class to do its operations."""
    return type(tensor).__torch_dispatch__ != torch.Tensor.__torch_dispatch__


def wraps_others(tensor: torch.Tensor) -> bool:
    """Whether a tensor has no memory, and its class does operations on tensors inside it."""
    if not has_dispatch(tensor):
        return False
    try:
        tensor.untyped_storage().data_ptr()
    except RuntimeError:  # so torch says that there is none
        return True
    return False


def address(tensor: torch.Tensor) -> int:
    """Where a tensor's memory begins; a number of its own where it has no single block."""
    if tensor.layout != torch.strided:
        return -id(tensor)
    return tensor.untyped_storage().data_ptr()


def bytes_of(tensor: torch.Tensor) -> float:
    """Bytes of a tensor; what is expanded counts once, of a sparse one what is stored."""
    if is_sparse(tensor):
        return float(sum(bytes_of(part) for part in _parts(tensor)))
    if tensor.layout != torch.strided:
        return float(tensor.numel() * tensor.element_size())
    counts = [n for n, step in zip(tensor.shape, tensor.stride()) if step]
    return math.prod(counts) * tensor.element_size()


def _parts(tensor: torch.Tensor) -> list[torch.Tensor]:
    """Indices and values of a sparse tensor."""
    if tensor.layout == torch.sparse_coo:
        whole = tensor.coalesce()
        return [whole.indices(), whole.values()]
    return [*(getattr(tensor, name)() for name in _COMPRESSED[tensor.layout]), tensor.values()]


def is_transposed(source: torch.Tensor, target: torch.Tensor) -> bool:
    """Whether neighbours in one tensor are apart in the other, so that a copy goes across lines."""
    if source.shape != target.shape or source.layout != target.layout:
        return False
    if source.layout != torch.strided:
        return False
    sizes = enumerate(zip(source.shape, source.stride(), target.stride()))
    apart = {i for i, (n, _, to) in sizes if n > 1 and to == 1}
    near = {
        i for i, (n, step) in enumerate(zip(source.shape, source.stride())) if n > 1 and step == 1
    }
    return bool(apart and near) and not apart & near


class Use(NamedTuple):
    """The last use of an address: its bytes, and those of all uses so far, this one included."""

    size: float
    until: float


class RecentlyUsed:
    """What was used last, and therefore is in the cache.

    Attributes:
        cache_bytes: how much stays in the cache for certain, in bytes; twice as much fits in.
    """

    def __init__(self, cache_bytes: float = 0.0):
        self.cache_bytes = cache_bytes
        self._used: dict[int, Use] = {}  # by address, the last used last
        self._distinct = self._all = 0.0  # bytes used: each address once, and every use

    def use(self, where: int, size: float, made: bool = False) -> float:
        """Use `size` bytes at an address now; return the part of them that was in the cache.

        Args:
            where: the address.
            size: in bytes.
            made: whether it is a result, which the allocator puts where something else was.
        """
        if made and where not in self._used:
            part = self._part(self._distinct or math.inf)
        else:
            part = self._part(self._since(where, size))
        before = self._used.pop(where, Use(0.0, 0.0))
        self._distinct += size - before.size
        self._all += size
        self._used[where] = Use(size, self._all)
        return part

    def _since(self, where: int, size: float) -> float:
        """Bytes used since the last use of an address, its own included; inf at the first.

        As exactly as `_part` needs: what lies within the cache, or beyond twice of it, is not added
        up in full.
        """
        if where not in self._used:
            return math.inf
        since = size + self._all - self._used[where].until
        if since <= self.cache_bytes:  # enough to know, though it counts each use
            return since
        since = size
        for other in reversed(self._used):
            if other == where or since > 2 * self.cache_bytes:
                break
            since += self._used[other].size
        return since

    def _part(self, since: float) -> float:
        if not self.cache_bytes:
            return 0.0
        return min(1.0, max(0.0, 2 - since / self.cache_bytes))
