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
from d2lperf.exercises import Feedback, call_text, checker, failed, gave, passed, show
from d2lperf.exercises.values import as_list, close, off

__all__ = [
    "check_amdahl",
    "check_cumulative",
    "check_epoch",
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
        found = amdahl(list(parts))
        if not close(found, 1 / left):
            return failed(
                f"{gave(found, amdahl, parts)}, which is {off(found, 1 / left)}. Add up what is "
                "left of the time: of each part, and of the rest"
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
                f"{gave(found, with_worker, *case)}, which is {off(found, right)}: here {free}. "
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
        found = cumulative(list(steps))
        call, three = gave(found, cumulative, steps), as_list(found, 3)
        if three is None:
            return failed(f"{call}; wanted are three numbers (ratio, low, high)")
        call = gave(three, cumulative, steps)
        for name, one, wanted in zip(("ratio", "lower end", "upper end"), three, right):
            if not close(one, wanted):
                return failed(f"{call}: the {name} is {off(one, wanted)}")
    return passed("Independent errors partly cancel: the interval is narrower than the product.")


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
        call = call_text(fast_epoch, X, y, w, **options)
        for name, tensor, was in zip("Xyw", (X, y, w), before):
            if not torch.equal(tensor, was):
                gap = (tensor - was).abs().max()
                return failed(f"{call} changes {name}, by up to {gap:.1g}; leave it as it is")
        pair = as_list(found, 2)
        if pair is None:
            return failed(f"{call} gave {show(found)}; wanted is a pair (weights, losses)")
        for name, one, right in zip(("weights", "losses"), pair, wanted):
            problem = _differs(one, right)
            if problem:
                return failed(f"{call}: the {name} you return {problem} those of slow_epoch")
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


def _differs(found: object, right: torch.Tensor) -> str:
    """How a result differs from the right one, as the middle of a sentence; "" where not."""
    if not isinstance(found, torch.Tensor) or found.shape != right.shape:
        return f"are {show(found)}, in another form than"
    found = found.to(right.dtype)
    if torch.allclose(found, right, rtol=1e-4, atol=1e-5):
        return ""
    return f"differ by up to {(found - right).abs().max():.1g} from"
