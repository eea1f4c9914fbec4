"""Checkers of notebook 06b, precision. Everything is counted; nothing is timed."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import torch

from d2lperf.exercises import Feedback, checker, failed, passed, show
from d2lperf.exercises.values import as_number

__all__ = ["check_loss_scale", "check_to_bfloat16"]


# -------------------------------------------------------------------------------- loss_scale


@checker
def check_loss_scale(loss_scale: Callable[[torch.Tensor], float]) -> Feedback:
    """Check the largest power of two that scales gradients without overflow in float16.

    Args:
        loss_scale: function of a float32 tensor of gradients.
    """
    cases = [[1e-9, 3e-4], [-2.0, 1e-3], [1.0, 0.5], [65504.0], [-7e4, 1.0], [1e-12]]
    cases += [[3.0] * 16, [-0.75] * 40, [0.0, 0.0]]
    for values in cases:
        found = loss_scale(torch.tensor(values))
        number = as_number(found)
        call = f"loss_scale(torch.tensor({show(values)})) gave {show(found)}"
        if number is None:
            return failed(f"{call}, which is no number")
        if number <= 0 or math.isinf(number) or math.frexp(number)[0] != 0.5:
            return failed(f"{call}, which is no power of two")
        # What is really there are float32 numbers; fractions compare without rounding.
        largest = Fraction(torch.tensor(values).abs().max().item())
        if largest == 0 and number != 1:
            return failed(f"{call}; any factor fits gradients that are all 0, wanted is 1")
        if Fraction(number) * largest > 65504:
            return failed(f"{call}; times this, {max(values, key=abs):g} exceeds 65504")
        if largest and 2 * Fraction(number) * largest <= 65504:
            return failed(f"{call}; a larger factor fits, too")
    return passed(f"The largest power of two for {len(cases)} tensors.")


# ------------------------------------------------------------------------------- to_bfloat16


@checker
def check_to_bfloat16(to_bfloat16: Callable[[torch.Tensor], torch.Tensor]) -> Feedback:
    """Check rounding to bfloat16 with integers: to nearest, ties to even.

    Args:
        to_bfloat16: function of a float32 tensor that returns float32 values.
    """
    generator = torch.Generator().manual_seed(0)
    ties = torch.tensor([1 + 2**-8, 1 + 3 * 2**-8, -1 - 2**-8, 2 + 2**-7, 0.0, -0.0, 1e-30])
    for what, values in (
        ("random numbers", torch.randn(1000, generator=generator)),
        ("numbers half-way between two, zeros and a tiny one", ties),
    ):
        given = values.clone()
        found, right = to_bfloat16(given), values.bfloat16().float()
        if not isinstance(found, torch.Tensor) or found.dtype != torch.float32:
            return failed(f"{what}: you return {show(found)}; wanted is a float32 tensor")
        if found.shape != values.shape:
            return failed(f"{what}: {show(values)} gave {show(found)}")
        if not torch.equal(given, values):
            i = int((given != values).nonzero()[0])
            return failed(
                f"{what}: you round x itself: {values[i].item()!r} in it has become "
                f"{given[i].item()!r}; round a copy"
            )
        wrong = (found != right).nonzero().flatten()
        if len(wrong):
            i = int(wrong[0])
            value, got = values[i].item(), found[i].item()
            way = "up" if got > right[i].item() else "down"
            return failed(f"{what}: {value!r} gave {got!r}, which is rounded {way} too far")
    return passed("As torch rounds: to the nearest, ties to the even one.")
