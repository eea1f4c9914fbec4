"""Checkers of notebook 06, memory. Everything is counted; nothing is timed."""

from __future__ import annotations

import math
from collections.abc import Callable

import psutil
import torch
from torch import nn
from torch.nn import functional as F

from d2lperf.exercises import Feedback, checker, failed, gave, passed, show
from d2lperf.exercises.values import as_list, as_number, as_whole, close, off

__all__ = [
    "check_best_segments",
    "check_largest_batch",
    "check_micro_batch",
]


# ----------------------------------------------------------------------------- largest_batch

_MOST_ROWS = 4096  # that the learner's measurements may use
_WIDTH = 256  # of the network of section 1


class _Step:
    """A training step whose peak is in the update or in the backward pass; notes what was asked."""

    def __init__(self, update: int, fixed: int, each: int):
        self.update, self.fixed, self.each = update, fixed, each
        self.asked: list[int] = []

    def peak_of(self, rows: int) -> int:
        number = as_whole(rows)
        if number is None or number < 1:
            raise AssertionError(f"peak_of({show(rows)}): a batch has at least one row")
        self.asked.append(number)
        return max(self.update, self.fixed + self.each * number)

    def __str__(self) -> str:
        return (
            f"the update has {self.update:,} bytes, the backward pass {self.fixed:,} and "
            f"{self.each:,} more for each row"
        )


@checker
def check_largest_batch(largest_batch: Callable[[Callable[[int], int], int], int]) -> Feedback:
    """Check a prediction of the largest batch from peaks of smaller ones; then tell that of here.

    Args:
        largest_batch: function of a measurement (the peak of a step by its rows: that of the
            update, or that of the backward pass if it is larger) and of the bytes there are, that
            returns a number of rows.
    """
    cases = [(2000, 1200, 10, 100_000), (2000, 1200, 10, 100_009), (20_000, 12_000, 10, 20_000)]
    cases += [(1_000_003, 600_001, 700, 50_000_000), (0, 0, 4096, 4096 * 9000)]
    cases += [(500, 300, 40, 500), (90_000, 54_000, 20, 91_234)]
    for update, fixed, each, memory in cases:
        step, right = _Step(update, fixed, each), (memory - fixed) // each
        found = largest_batch(step.peak_of, memory)
        what = f"{step}, and there are {memory:,}; you return {show(found)}"
        if max(step.asked, default=0) > _MOST_ROWS:
            return failed(
                f"{what} after a step of {max(step.asked):,} rows; at most {_MOST_ROWS:,} are meant"
            )
        if as_whole(found) is None:
            return failed(f"{what}; wanted is a whole number of rows")
        if not close(found, right):
            return failed(f"{what}, which is {off(found, right)}")
    for update, fixed, each, memory in ((1000, 990, 20, 1009), (2000, 1200, 10, 1999)):
        step = _Step(update, fixed, each)
        try:
            found = largest_batch(step.peak_of, memory)
        except ValueError:
            continue
        return failed(
            f"{step}, and there are {memory:,}, so not even one row fits: raise ValueError; you "
            f"return {show(found)}"
        )
    return passed(_batch_here(largest_batch))


def _peak_of(net: nn.Sequential, rows: int) -> int:
    """Peak of a step with Adam, counted as in section 2; what autograd keeps is what it shows."""
    kept: dict[int, int] = {}

    def note(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    weights = {p.untyped_storage().data_ptr(): p.nbytes for p in net.parameters()}
    X, y = torch.zeros(rows, _WIDTH), torch.zeros(rows, dtype=torch.long)
    with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        loss = F.cross_entropy(net(X), y)
    del loss
    activations = sum(size for pointer, size in kept.items() if pointer not in weights)
    parameters = sum(weights.values())
    # Two gradients of activations at the start of the backward pass; the roots in the update.
    return max(5 * parameters, 3 * parameters + activations + 2 * X.nbytes)


def _batch_here(largest_batch: Callable) -> str:
    """Ask the learner's function about this machine, and try its model on a larger batch."""
    blocks = [nn.Sequential(nn.Linear(_WIDTH, _WIDTH), nn.ReLU()) for _ in range(8)]
    net = nn.Sequential(*blocks, nn.Linear(_WIDTH, 10))

    def peak_of(rows: int) -> int:
        return _peak_of(net, rows)

    available = psutil.virtual_memory().available
    budget, rows = peak_of(3000), largest_batch(peak_of, available)
    return (
        f"A test: {budget:,} bytes are the peak of 3,000 rows, and your function says "
        f"{largest_batch(peak_of, budget):,}. On this machine {available / 1e9:.1f} GB are "
        f"available: by your function room for {rows:,} rows in the network of section 1."
    )


# ----------------------------------------------------------------------------- best_segments


@checker
def check_best_segments(best_segments: Callable[[int], int]) -> Feedback:
    """Check the number of segments with which checkpointing keeps the fewest activations.

    Args:
        best_segments: function of the number of equal blocks.
    """
    for blocks in (1, 4, 9, 12, 16, 24, 100):
        divisors = [k for k in range(1, blocks + 1) if blocks % k == 0]
        _, right = min((k + blocks // k, k) for k in divisors)
        found = best_segments(blocks)
        if close(found, right):
            continue
        call, k = gave(found, best_segments, blocks), as_number(found)
        if k not in divisors:
            return failed(f"{call}, which does not divide {blocks}")
        kept = k + blocks // k
        if kept == right + blocks // right:
            return failed(f"{call}; a smaller number keeps as few activations")
        return failed(f"{call}; with it {kept:g} are kept, and with another number fewer")
    return passed("About the square root of the number of blocks.")


# ------------------------------------------------------------------------------- micro_batch


@checker
def check_micro_batch(micro_batch: Callable[[int, int, int, int], tuple[int, int]]) -> Feedback:
    """Check the largest micro-batch that fits and how many of them make a batch.

    Args:
        micro_batch: function of the memory, the count of parameters, the bytes of one row and the
            batch size, that returns (rows in a micro-batch, number of micro-batches).
    """
    # (memory, count, each, batch, rows): the last fit by 16 bytes per parameter, the whole by 12.
    cases = [(1000, 10, 10, 256, 84), (1000, 10, 10, 88, 88), (1000, 10, 10, 89, 84)]
    cases += [(1000, 10, 10, 50, 50), (200, 10, 40, 3, 1), (200, 10, 40, 2, 2)]
    cases += [(1000, 10, 10, 84, 84), (2003, 50, 7, 10_000, 171)]
    for *case, size in cases:
        memory, count, _, batch = case
        found = micro_batch(*case)
        call, pair = gave(found, micro_batch, *case), as_list(found, 2)
        if pair is None:
            return failed(f"{call}; wanted is a pair (rows in a micro-batch, micro-batches)")
        for what, one, right in zip(
            ("rows in a micro-batch", "micro-batches"), pair, (size, math.ceil(batch / size))
        ):
            if not close(one, right):
                return failed(
                    f"{call}; {show(one)} {what} is {off(one, right)}. A single batch leaves "
                    f"{memory - 12 * count} bytes for its rows, accumulation {memory - 16 * count}"
                )
    # The update, which the first three exceed, the third also without a row; a row.
    for small in ((199, 10, 1, 4), (130, 10, 1, 4), (100, 10, 6, 4), (200, 10, 41, 4)):
        try:
            found = micro_batch(*small)
        except ValueError:
            continue
        return failed(
            f"{gave(found, micro_batch, *small)}; the update needs {20 * small[1]} bytes, a row of "
            f"accumulation {16 * small[1] + small[2]}: where one does not fit, raise ValueError"
        )
    return passed("The largest micro-batch that fits; where none fits, you say so.")
