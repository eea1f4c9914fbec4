"""Classes of operations, by their names: what each does for an element of its largest tensor.

* `MOVE`: no arithmetic (copies, gathers, what fills memory).
* `POINTWISE` and `REDUCTION`: one FLOP. Some also evaluate a function such as exp, which takes
  longer: by a library of mathematics (`FUNCTIONS`) or in torch's own vector code (`ACTIVATIONS`).
* `UNKNOWN`: the rest. Its work depends on the data (sorting), or its time has little to do with
  bytes and FLOPs (random numbers, scans, recurrent layers, windows, additions at given places).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch

__all__ = ["MOVE", "POINTWISE", "PRODUCT", "REDUCTION", "UNKNOWN", "Evaluations"]

PRODUCT, POINTWISE, REDUCTION = "product", "pointwise", "reduction"
MOVE, UNKNOWN = "move", "unknown"


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


GATHERS = frozenset({"embedding", "gather", "index", "index_select", "take"})
MOVES = GATHERS | _words(
    """
    arange as_strided_copy cat clone constant_pad_nd contiguous copy expand_copy eye fill flip full
    full_like lift_fresh linspace local_scalar_dense masked_scatter new_full new_ones new_zeros ones
    ones_like pad_sequence permute_copy reflection_pad1d reflection_pad2d repeat replication_pad2d
    roll scalar_tensor scatter select_backward select_scatter slice_backward slice_scatter
    split_with_sizes_copy stack to_copy tril triu unfold unfold_backward view_copy zero zeros
    zeros_like
    """
)
REDUCTIONS = _words(
    """
    adaptive_avg_pool2d adaptive_avg_pool2d_backward all amax amin any avg_pool2d
    avg_pool2d_backward fused_rms_norm fused_rms_norm_backward linalg_vector_norm log_softmax
    log_softmax_backward_data logsumexp max mean min native_group_norm native_group_norm_backward
    native_layer_norm native_layer_norm_backward nll_loss2d_backward nll_loss2d_forward
    nll_loss_backward nll_loss_forward norm prod safe_softmax softmax softmax_backward_data sum
    """
)
FUNCTIONS = _words(
    """
    acos acosh asin asinh atan atan2 atanh binary_cross_entropy cos cosh digamma erf erfc erfinv exp
    expm1 float_power hypot lgamma log log10 log1p log2 log_sigmoid_forward logaddexp logaddexp2
    logsumexp mish pow rsqrt sin sinh softplus sqrt tan tanh xlogy
    """
)
ACTIVATIONS = _words(
    """
    celu elu exp2 gelu gelu_backward log_softmax logit safe_softmax selu sigmoid silu silu_backward
    softmax
    """
)
# Exponents that torch computes by multiplications and divisions.
CHEAP_EXPONENTS = (-2, -1, 0, 1, 2, 3)
_SEVERAL = ("foreach_", "fused_")  # operations on lists of tensors


class Evaluations(NamedTuple):
    """How often each element needs a function of mathematics, or one of torch's activations."""

    functions: int
    activations: int


def plain_name(name: str) -> str:
    """The name without the marks of variants: "_foreach_add_" and "add_" are "add"."""
    plain = name.strip("_")
    for prefix in _SEVERAL:
        plain = plain.removeprefix(prefix)
    return plain


def on_several(name: str) -> bool:
    """Whether an operation works on lists of tensors at once."""
    return name.lstrip("_").startswith(_SEVERAL)


def kind_of(name: str, tags: Any) -> str:
    """Return the kind of an operation that is no product.

    Args:
        name: as torch writes it, such as "add_".
        tags: of the operation, by which torch marks what is pointwise.
    """
    plain = plain_name(name)
    if plain in MOVES:
        return MOVE
    if torch.Tag.pointwise in tags or on_several(name):
        return POINTWISE
    if plain in REDUCTIONS:
        return REDUCTION
    return UNKNOWN


def evaluations(name: str, args: tuple) -> Evaluations:
    """Return what an element needs beside arithmetic; `args` hold the exponent of a power."""
    plain = plain_name(name)
    exponent = args[1] if plain == "pow" and len(args) > 1 else None
    if isinstance(exponent, (int, float)) and exponent in CHEAP_EXPONENTS:
        return Evaluations(0, 0)
    if plain in ACTIVATIONS:
        return Evaluations(0, 1)
    if plain in FUNCTIONS or plain.startswith("special_"):
        return Evaluations(1, 0)
    return Evaluations(0, 0)
