"""FLOPs of products: matrices, batches, vectors, convolutions and attention.

A multiplication and an addition are two FLOPs, as in `torch.utils.flop_counter`, whose formulas we
use where it has one. It has none for products with a vector, for `addbmm` and for the attention of
the CPU. What is added to a product (the bias of `addmm`) counts nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

from d2lperf import _compat

__all__ = ["product_flops"]

COMPLEX_FLOPS = 4  # real multiplications and additions for one of complex numbers


def _batched(a: torch.Tensor, b: torch.Tensor) -> float:
    """Products of (..., m, k) and (..., k, n)."""
    return 2.0 * a.numel() * b.shape[-1]


def _trilinear(first: Any, second: Any, third: Any, *expand_and_sum: Any) -> float:
    """Sum over products of three factors; each is expanded by its own list of dimensions."""
    sizes = [
        torch.Size(_expanded(t, dims)) for t, dims in zip((first, second, third), expand_and_sum)
    ]
    return 3.0 * math.prod(torch.broadcast_shapes(*sizes))


def _expanded(tensor: torch.Tensor, dims: list[int]) -> list[int]:
    """The shape with a dimension of size one at each of `dims`."""
    shape = list(tensor.shape)
    for dim in sorted(dims):
        shape.insert(dim, 1)
    return shape


# Name of the operation -> FLOPs from its positional arguments, in torch's order.
_OWN: dict[str, Callable[..., float]] = {
    "_addmm_activation": lambda bias, a, b, *rest: _batched(a, b),
    "_int_mm": lambda a, b, *rest: _batched(a, b),
    "_trilinear": _trilinear,
    "addbmm": lambda bias, a, b, *rest: _batched(a, b),
    "addmv": lambda bias, matrix, vector, *rest: 2.0 * matrix.numel(),
    "addr": lambda bias, a, b, *rest: 2.0 * a.numel() * b.numel(),
    "dot": lambda a, b: 2.0 * a.numel(),
    "linear": lambda x, weight, *rest: 2.0 * x.numel() * weight.shape[0],
    "mkldnn_linear": lambda x, weight, *rest: 2.0 * x.numel() * weight.shape[0],
    "mv": lambda matrix, vector: 2.0 * matrix.numel(),
    "vdot": lambda a, b: 2.0 * a.numel(),
}
_IN_PLACE = ("addbmm_", "addmm_", "addmv_", "addr_", "baddbmm_")


def product_flops(func: Any, args: tuple, kwargs: dict, made: Any) -> float | None:
    """Return the FLOPs of an operation that is a product, or None for any other.

    Args:
        func: the operation, as `TorchDispatchMode` gets it.
        args, kwargs: its arguments.
        made: its result.
    """
    name = func.overloadpacket.__name__
    if name in _IN_PLACE:
        name = name.rstrip("_")
    packet = getattr(torch.ops.aten, name.replace("_for_cpu", ""), func.overloadpacket)
    formula = _compat.flop_formula(packet)
    if name in _OWN:
        flops = _OWN[name](*args)
    elif formula is not None:
        flops = float(formula(*args, **kwargs, out_val=made))
    else:
        return None
    first = next((a for a in args if isinstance(a, torch.Tensor)), None)
    return flops * COMPLEX_FLOPS if first is not None and first.is_complex() else flops


def has_one_row(name: str, args: tuple) -> bool:
    """Whether a product reads each number of a matrix once, for a single row or column."""
    if name.rstrip("_") in ("mv", "addmv"):
        return True
    tensors = [a for a in args if isinstance(a, torch.Tensor)]
    if name.rstrip("_") not in ("mm", "addmm", "bmm", "baddbmm", "linear") or len(tensors) < 2:
        return False
    a, b = tensors[:2] if name in ("mm", "bmm") else tensors[-2:]
    return a.dim() > 1 and b.dim() > 1 and 1 in (a.shape[-2], b.shape[-1])
