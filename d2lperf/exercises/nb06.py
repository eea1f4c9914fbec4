"""Checkers of notebook 06, memory and precision. Everything is counted; nothing is timed."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch

from d2lperf.exercises import Feedback, call_text, checker, failed, passed, show

__all__ = [
    "check_activation_bytes",
    "check_best_segments",
    "check_loss_scale",
    "check_micro_batch",
    "check_step_bytes",
    "check_to_bfloat16",
]


@checker
def check_step_bytes(step_bytes: Callable[[int, str], int]) -> Feedback:
    """Check the bytes of parameters, gradients and optimizer state in float32.

    Args:
        step_bytes: function of the number of parameters and the optimizer's name.
    """
    for count, optimizer, each in ((1000, "sgd", 8), (7, "momentum", 12), (512, "adam", 16)):
        found = step_bytes(count, optimizer)
        if found != count * each:
            return failed(
                f"{call_text(step_bytes, count, optimizer)} is {count * each} bytes, {each} for "
                f"each parameter, not {show(found)}"
            )
    return passed("Parameters, gradients and state of three optimizers.")


@checker
def check_activation_bytes(activation_bytes: Callable[[Sequence[int], int, int], int]) -> Feedback:
    """Check the bytes of activations that a network of linear layers and ReLUs keeps.

    Args:
        activation_bytes: function of the hidden widths, the batch and the bytes of a number.
    """
    for widths, batch, size in (([512] * 8, 1024, 4), ([30, 20, 10], 7, 2), ([5], 1, 4)):
        found, right = activation_bytes(widths, batch, size), sum(widths) * batch * size
        if found != right:
            return failed(
                f"{call_text(activation_bytes, widths, batch, size)} is {right} bytes, "
                f"not {show(found)}"
            )
    return passed("One tensor for each hidden layer; input and output of a ReLU are not both kept.")


@checker
def check_best_segments(best_segments: Callable[[int], int]) -> Feedback:
    """Check the number of segments with which checkpointing keeps the fewest activations.

    Args:
        best_segments: function of the number of equal blocks.
    """
    for blocks in (1, 4, 9, 12, 16, 24, 100):
        divisors = [k for k in range(1, blocks + 1) if blocks % k == 0]
        right = min(divisors, key=lambda k, n=blocks: (k + n // k, k))
        found = best_segments(blocks)
        if found != right:
            return failed(
                f"{call_text(best_segments, blocks)} is {right} ({right} inputs and "
                f"{blocks // right} blocks of one segment at once), not {show(found)}"
            )
    return passed("About the square root of the number of blocks.")


@checker
def check_loss_scale(loss_scale: Callable[[torch.Tensor], float]) -> Feedback:
    """Check the largest power of two that scales gradients without overflow in float16.

    Args:
        loss_scale: function of a float32 tensor of gradients.
    """
    cases = [[1e-9, 3e-4], [-2.0, 1e-3], [1.0, 0.5], [65504.0], [-7e4, 1.0], [1e-12]]
    for values in cases:
        gradients = torch.tensor(values)
        right = 2.0 ** math.floor(math.log2(65504.0 / gradients.abs().max().item()))
        found = loss_scale(gradients)
        try:
            number = float(found)
        except (TypeError, ValueError):
            return failed(f"return a number, not {show(found)}")
        if number <= 0 or math.log2(number) != int(math.log2(number)):
            return failed(f"for {values} you return {number:g}, which is no power of two")
        if number > right:
            return failed(f"for {values} the factor {number:g} overflows: {right:g} is the largest")
        if number < right:
            return failed(f"for {values} the factor may be {right:g}, but you return {number:g}")
    return passed("The largest power of two for six tensors, also for negative gradients.")


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
        found, right = to_bfloat16(values.clone()), values.bfloat16().float()
        if not isinstance(found, torch.Tensor) or found.dtype != torch.float32:
            return failed(f"return a float32 tensor, not {show(found)}")
        wrong = (found != right).nonzero().flatten()
        if len(wrong):
            i = int(wrong[0])
            return failed(
                f"{what}: {values[i].item()!r} becomes {right[i].item()!r}, "
                f"but you return {found[i].item()!r}"
            )
    return passed("As torch rounds: to the nearest, ties to the even one.")


@checker
def check_micro_batch(micro_batch: Callable[[int, int, int, int], tuple[int, int]]) -> Feedback:
    """Check the largest micro-batch that fits and how many of them make a batch.

    Args:
        micro_batch: function of the memory, the fixed bytes, the bytes of one example and the
            batch size, that returns (examples in a micro-batch, number of micro-batches).
    """
    cases = [(1000, 200, 10, 256), (1000, 200, 10, 80), (1000, 200, 10, 81)]
    cases += [(1000, 200, 10, 50), (50, 10, 40, 3)]
    for memory, fixed, each, batch in cases:
        size = min(batch, (memory - fixed) // each)
        right, found = (size, math.ceil(batch / size)), micro_batch(memory, fixed, each, batch)
        if found != right:
            return failed(
                f"{call_text(micro_batch, memory, fixed, each, batch)} is {right}, "
                f"not {show(found)}"
            )
    try:
        found = micro_batch(100, 90, 20, 4)
    except ValueError:
        return passed("The largest micro-batch that fits; where none fits, you say so.")
    return failed(f"where not one example fits, raise ValueError; you return {show(found)}")
