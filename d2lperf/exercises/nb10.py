"""Checkers of notebook 10, a script made fast. Operations are counted; nothing is timed."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import torch

from d2lperf.counting import OperationCounter
from d2lperf.device import synchronize
from d2lperf.exercises import Feedback, call_text, checker, failed, passed, show
from d2lperf.exercises.values import close

__all__ = [
    "check_amdahl",
    "check_bounds",
    "check_cumulative",
    "check_epoch",
    "check_fixed_cost",
    "check_worker",
]

ROWS, FEATURES = 1500, 12  # of the data for `check_epoch`: the last batch of 16 is smaller
MOST_OPERATIONS = 40  # for each batch; a plain solution has about 15
MOST_PASSES = 12  # over all rows, in bytes; a plain solution has about 8
MOST_FOR_A_BATCH = 24  # times the bytes of the weights; a plain solution has about 12


@checker
def check_amdahl(amdahl: Callable[[Sequence[tuple[float, float]]], float]) -> Feedback:
    """Check how many times as fast the whole becomes when parts become faster.

    Args:
        amdahl: function of pairs (share of the time, factor).
    """
    cases: list[list[tuple[float, float]]] = [[(0.5, 2)], [(0.2, 1e9)], [(0.3, 3), (0.6, 4)]]
    cases += [[(1.0, 2.5)], [(0.1, 0.5)], []]
    for parts in cases:
        rest = 1 - sum(share for share, _ in parts)
        left = rest + sum(share / factor for share, factor in parts)
        found = amdahl(parts)
        if not close(found, 1 / left):
            return failed(
                f"{call_text(amdahl, parts)} gave {show(found)}. Add up what is left of the time: "
                "of each part, and of the rest"
            )
    return passed("A part without a share gains nothing, however fast it becomes.")


@checker
def check_worker(with_worker: Callable[[float, float, int, int], float]) -> Feedback:
    """Check the least time of a step while a worker process makes the next batch.

    Args:
        with_worker: function of the batch's seconds, the step's seconds, threads and cores.
    """
    for case in ((0.02, 0.1, 1, 2), (0.2, 0.1, 1, 2), (0.02, 0.1, 2, 2), (0.5, 0.1, 2, 2),
                 (0.08, 0.1, 8, 8), (0.08, 0.1, 4, 8)):  # fmt: skip
        batch_s, step_s, threads, cores = case
        least = step_s if threads < cores else (batch_s + threads * step_s) / cores
        right = max(batch_s, least)
        found = with_worker(*case)
        if not close(found, right):
            free = "a core is free" if threads < cores else "no core is free"
            return failed(
                f"{call_text(with_worker, *case)} gave {show(found)}, but here {free}. "
                "Is it the least time of a step? How long does the worker need by itself?"
            )
    return passed("A worker moves work to another core. Without a free one, little is saved.")


@checker
def check_cumulative(
    cumulative: Callable[[Sequence[tuple[float, float, float]]], tuple[float, float, float]],
) -> Feedback:
    """Check the ratio of a whole way and its interval.

    Args:
        cumulative: function of steps (ratio, low, high) that returns (ratio, low, high).
    """
    cases = [
        [(0.5, 0.4, 0.55)],
        [(0.8, 0.75, 0.9), (0.5, 0.49, 0.52)],
        [(0.9, 0.8, 1.0), (1.1, 1.0, 1.3), (0.7, 0.65, 0.72)],
    ]
    for steps in cases:
        ratio = math.prod(step[0] for step in steps)
        below = math.hypot(*[math.log(r / low) for r, low, _ in steps])
        above = math.hypot(*[math.log(high / r) for r, _, high in steps])
        right = (ratio, ratio * math.exp(-below), ratio * math.exp(above))
        found = cumulative(steps)
        if not isinstance(found, (tuple, list)) or len(found) != 3:
            return failed(f"return three numbers (ratio, low, high), not {show(found)}")
        for name, one, wanted in zip(("ratio", "lower end", "upper end"), found, right):
            if not close(one, wanted):
                return failed(
                    f"{call_text(cumulative, steps)} gave {show(found)}: the {name} is not right"
                )
    return passed("Independent errors partly cancel: the interval is narrower than the product.")


@checker
def check_fixed_cost(
    fixed_cost: Callable[[tuple[float, float], tuple[float, float]], tuple[float, float]],
) -> Feedback:
    """Check the fixed time of a step and the time of a token.

    Args:
        fixed_cost: function of two pairs (tokens in a step, tokens per second) that returns
            (fixed seconds, seconds per token).
    """
    for fixed_s, each_s, n, m in ((2e-3, 1e-6, 1000, 8000), (0.0, 1e-5, 64, 512),
                                  (5e-2, 2e-6, 4096, 512)):  # fmt: skip
        pairs = [(tokens, tokens / (fixed_s + tokens * each_s)) for tokens in (n, m)]
        found = fixed_cost(*pairs)
        if not isinstance(found, (tuple, list)) or len(found) != 2:
            return failed(f"return a pair (fixed seconds, seconds per token), not {show(found)}")
        for name, one, wanted in zip(("fixed time", "time per token"), found, (fixed_s, each_s)):
            if not close(one, wanted):
                return failed(
                    f"{call_text(fixed_cost, *pairs)} gave {show(found)}: with this {name}, "
                    "the two measurements do not come out"
                )
    return passed("The fixed time is what a larger batch spreads over more tokens.")


@checker
def check_bounds(bounds: Callable[[float, float, int], tuple[float, float]]) -> Feedback:
    """Check the least and the largest speed-up by data-parallel training.

    Args:
        bounds: function of seconds of computing, seconds of an all-reduce on two devices, and the
            number of devices; returns the speed-up without and with full overlap.
    """
    for case in ((31.0, 34.0, 2), (31.0, 34.0, 4), (40.0, 10.0, 8), (10.0, 60.0, 3)):
        compute_s, reduce_s, devices = case
        sent_s = reduce_s * 2 * (devices - 1) / devices
        work = devices * compute_s
        right = work / (compute_s + sent_s), work / max(compute_s, sent_s)
        found = bounds(*case)
        if not isinstance(found, (tuple, list)) or len(found) != 2:
            return failed(f"return a pair (without overlap, with full overlap), not {show(found)}")
        for name, one, wanted in zip(("without overlap", "with full overlap"), found, right):
            if not close(one, wanted):
                return failed(
                    f"{call_text(bounds, *case)} gave {show(found)}: {name} it is another number. "
                    "How long is the all-reduce, and how many rows are done meanwhile?"
                )
    return passed("The published speed-ups of two and four GPUs lie between these bounds.")


class _Work(NamedTuple):
    """What a call has done."""

    operations: int
    bytes: float


@checker
def check_epoch(
    fast_epoch: Callable[..., tuple[torch.Tensor, torch.Tensor]],
    slow_epoch: Callable[..., tuple[torch.Tensor, torch.Tensor]],
) -> Feedback:
    """Check that one epoch gives the same results with few operations and few bytes.

    Args:
        fast_epoch: function of X, shape (rows, features), y, shape (rows,), and w, shape
            (features,), with the options lr and batch; returns the weights and all losses.
        slow_epoch: the same, as it was.
    """
    generator = torch.Generator().manual_seed(0)
    X = 3 * torch.randn(ROWS, FEATURES, generator=generator) + 1
    y, w = (torch.randn(n, generator=generator) for n in (ROWS, FEATURES))
    for options in ({}, {"lr": 0.02, "batch": 32}):
        before = [tensor.clone() for tensor in (X, y, w)]
        found, wanted = fast_epoch(X, y, w, **options), slow_epoch(*before, **options)
        if not all(torch.equal(a, b) for a, b in zip((X, y, w), before)):
            return failed("fast_epoch changes its arguments; slow_epoch leaves them as they are")
        if not isinstance(found, (tuple, list)) or len(found) != 2:
            return failed(f"return a pair (weights, losses), not {show(found)}")
        for name, one, right in zip(("weights", "losses"), found, wanted):
            if not _same(one, right):
                return failed(
                    f"the {name} differ from those of slow_epoch with the options {options}: "
                    f"you return {show(one)}, it returns {show(right)}"
                )
    return _check_work(fast_epoch, X, y, w)


def _check_work(
    fast_epoch: Callable, X: torch.Tensor, y: torch.Tensor, w: torch.Tensor
) -> Feedback:
    """Feedback on the operations and bytes of two epochs, the second with smaller batches."""
    for batch in (16, 1):
        steps, work = math.ceil(ROWS / batch), _work(partial(fast_epoch, X, y, w, batch=batch))
        if work.operations > MOST_OPERATIONS * steps:
            return failed(
                f"{work.operations} operations for {steps} batches of {batch} rows; "
                f"{MOST_OPERATIONS} for each batch are enough. Which are called once for each row?"
            )
        # What does not depend on the step is done once; the rest is small.
        most = MOST_PASSES * X.nbytes + steps * MOST_FOR_A_BATCH * w.nbytes
        if work.bytes > most:
            return failed(
                f"{work.bytes:,.0f} bytes are read and written for {steps} batches; {most:,.0f} "
                "are enough. What is read as a whole, or copied as a whole, for each batch?"
            )
    return passed("Work that does not depend on the step is done once, rows become one product.")


def _work(call: Callable[[], object]) -> _Work:
    with OperationCounter(time.perf_counter, synchronize) as counter:
        call()
    return _Work(len(counter.operations), sum(sum(o.bytes.values()) for o in counter.operations))


def _same(found: object, right: torch.Tensor) -> bool:
    if not isinstance(found, torch.Tensor) or found.shape != right.shape:
        return False
    return torch.allclose(found.to(right.dtype), right, rtol=1e-4, atol=1e-5)
