"""Checkers of notebook 09, collectives.

They check numbers, sums and what is sent. The time of a real message decides nothing.
"""

from __future__ import annotations

import math
import random
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import torch

from d2lperf.exercises import Feedback, checker, failed, gave, passed, show
from d2lperf.exercises.values import as_list, as_number, close, off
from d2lperf.formats import format_value

__all__ = [
    "check_both_ways_s",
    "check_fit",
    "check_overlapped_s",
    "check_reduce_while_computing",
    "check_two_way_ring",
]


# ------------------------------------------------------------------------------- both_ways_s


@checker
def check_both_ways_s(both_ways_s: Callable[..., float]) -> Feedback:
    """Check the time of a ring that sends in both directions.

    Args:
        both_ways_s: function of n (workers), nbytes, alpha (seconds for each message), beta
            (seconds for each byte) and own_links (whether each neighbour has a link of its own)
            that returns seconds.
    """
    cases = [
        ("one link for both neighbours", (4, 16e6, 1e-5, 1e-10, False), 12e-5 + 2.4e-3),
        ("a link for each neighbour", (4, 16e6, 1e-5, 1e-10, True), 6e-5 + 1.2e-3),
        ("messages alone", (8, 0, 1e-5, 1e-10, True), 14e-5),
        ("messages alone on one link", (8, 0, 1e-5, 1e-10, False), 28e-5),
        ("bytes alone", (8, 1e9, 0.0, 1e-10, True), 0.0875),
        ("two workers have one neighbour each", (2, 1e6, 1e-5, 1e-9, True), 4e-5 + 1e-3),
        ("two workers, one link anyway", (2, 1e6, 1e-5, 1e-9, False), 4e-5 + 1e-3),
        ("one worker has nothing to do", (1, 1e6, 1e-5, 1e-9, True), 0.0),
    ]
    for what, given, wanted in cases:
        found = both_ways_s(*given)
        if not close(found, wanted):
            return failed(f"{what}: {gave(found, both_ways_s, *given)}, {off(found, wanted)}")
    return passed("Both directions help where they do not share a link.")


# ------------------------------------------------------------------------------ overlapped_s


@checker
def check_overlapped_s(overlapped_s: Callable[[list, list], float]) -> Feedback:
    """Check when everything is sent if sending overlaps with computing.

    Args:
        overlapped_s: function of the seconds to compute and to send each gradient, in the order
            of the backward pass, that returns seconds.
    """
    cases = [
        ("one layer", [3], [2], 5),
        ("sending is short", [2, 2, 2], [1, 1, 1], 7),
        ("sending is long", [1, 1, 1], [3, 3, 3], 10),
        ("a long gap between", [1, 8, 1], [4, 1, 1], 11),
        ("the last is large", [1, 1, 1], [1, 1, 9], 12),
        ("the first is large", [1, 1, 1], [9, 1, 1], 12),
        ("nothing to send at the end", [1, 5], [2, 0], 6),
        ("no layers", [], [], 0),
        ("a long first message hides two layers", [1, 1, 5], [5, 1, 1], 8),
        ("a long message after a long layer", [1, 5, 1], [1, 5, 1], 12),
    ]
    for what, compute_s, send_s, wanted in cases:
        found = overlapped_s(list(compute_s), list(send_s))
        if close(found, wanted):
            continue
        call = f"{what}: {gave(found, overlapped_s, compute_s, send_s)}"
        number = as_number(found)
        if number is None:
            return failed(f"{call}; wanted are seconds")
        if number > wanted:
            return failed(f"{call}, too large: something waits that could go on")
        return failed(
            f"{call}, too small: a gradient is sent before it is computed, or two at once"
        )
    return passed("Each gradient leaves as soon as it is there and the link is free.")


# ------------------------------------------------------------------------------ two_way_ring

_SIZES = (1, 2, 5, 64, 103)


class _Message:
    """A message under way, until it is waited for."""

    def __init__(self, work: Any, under_way: list, to: int):
        self.work, self.under_way, self.to = work, under_way, to
        under_way.append(to)

    def wait(self) -> None:
        if self.to in self.under_way:
            self.under_way.remove(self.to)
        self.work.wait()


class _Wire:
    """Sends and receives; notes bytes by receiver, and whether it ever sent two ways at once."""

    def __init__(self) -> None:
        self.sent: Counter = Counter()
        self.under_way: list[Any] = []
        self.both = False

    def send(self, piece: torch.Tensor, to: int) -> _Message:
        import torch.distributed as dist

        self.sent[to] += piece.nbytes
        message = _Message(dist.isend(piece, to), self.under_way, to)
        self.both |= len({*self.under_way}) == 2
        return message

    def receive(self, piece: torch.Tensor, sender: int) -> Any:
        import torch.distributed as dist

        return dist.irecv(piece, sender)


class _Sent(NamedTuple):
    """What one worker did with a vector of one size."""

    given: list[float]
    result: list[float]
    nbytes: dict[int, int]  # by receiver
    both_at_once: bool


def _try_two_ways(two_way_ring: Callable) -> list[_Sent]:
    """In a worker: what happens with a vector of each size."""
    import torch.distributed as dist

    rank, found = dist.get_rank(), []
    for size in _SIZES:
        wire, data = _Wire(), torch.arange(size, dtype=torch.float32) + 100 * rank
        given = data.tolist()
        two_way_ring(data, wire)
        found.append(_Sent(given, data.tolist(), dict(wire.sent), wire.both))
    return found


@checker
def check_two_way_ring(two_way_ring: Callable[[torch.Tensor, Any], None]) -> Feedback:
    """Check an all-reduce that goes round in both directions, on 2 to 4 processes.

    Args:
        two_way_ring: function of a vector, which it changes in place, and of a wire.
    """
    from d2lperf import launch

    for n in (2, 3, 4):
        by_rank = launch(_try_two_ways, n, (two_way_ring,), backend="gloo", timeout_s=20, threads=1)
        for i, size in enumerate(_SIZES):
            here = [found[i] for found in by_rank]
            for rank, sent in enumerate(here):
                problem = _wrong_sum(sent, here) or _wrong_messages(sent, rank, n)
                if problem:
                    return failed(f"{size} numbers on {n} workers: rank {rank} {problem}")
    return passed("Each half goes its own way round, at the same time.")


def _wrong_sum(sent: _Sent, workers: Sequence[_Sent]) -> str:
    """Where a result is not the sum; "" where it is everywhere."""
    sums = [sum(column) for column in zip(*(worker.given for worker in workers))]
    if sent.result == sums:
        return ""
    place = next(i for i, (a, b) in enumerate(zip(sent.result, sums)) if a != b)
    given = [worker.given[place] for worker in workers]
    return f"ends with {sent.result[place]:g} at place {place}, where the workers had {given}"


def _wrong_messages(sent: _Sent, rank: int, n: int) -> str:
    """What is wrong with what a rank sent; "" where nothing is."""
    size, neighbours = len(sent.given), {(rank + 1) % n, (rank - 1) % n}
    others = sorted(set(sent.nbytes) - neighbours)
    if others:
        return f"sends to {others}, not to its neighbours alone"
    rings = 1 if n > 2 else 2  # of two workers, both neighbours are the same
    chunk = math.ceil(math.ceil(size / 2) / n)  # numbers
    most = 4 * 2 * (n - 1) * chunk * rings
    if max(sent.nbytes.values(), default=0) > most:
        return (
            f"sends {max(sent.nbytes.values())} bytes to one neighbour, more than 2 (n - 1) "
            "chunks of each ring"
        )
    if n > 2 and size >= 2 * n and not sent.both_at_once:
        return "never sends in both directions at once"
    return ""


# -------------------------------------------------------------------- reduce_while_computing

_GRADIENTS = 4


def _try_overlap(reduce_while_computing: Callable) -> tuple[Any, list[str]]:
    """In a worker: what came back, and what happened in which order."""
    import torch.distributed as dist

    rank, log = dist.get_rank(), []

    class Work:
        def __init__(self, work):
            self.work = work

        def wait(self, *timeout):
            log.append("wait")
            return self.work.wait(*timeout)

    def all_reduce(tensor, op=dist.ReduceOp.SUM, group=None, async_op=False):
        log.append("start" if async_op else "wait")
        work = dist.all_reduce(tensor, op, group, async_op)
        return Work(work) if async_op else work

    def backward() -> Iterable[torch.Tensor]:
        for i in range(_GRADIENTS):
            log.append("compute")
            yield torch.full((3,), float(i + 10 * rank))

    found = reduce_while_computing(backward, all_reduce)
    sums = as_list(found)
    if sums is None:
        return show(found), log
    return [x.tolist() if isinstance(x, torch.Tensor) else x for x in sums], log


@checker
def check_reduce_while_computing(
    reduce_while_computing: Callable[[Callable, Callable], list],
) -> Feedback:
    """Check that all-reduces run while the next gradients are computed, on two processes.

    Args:
        reduce_while_computing: function of backward (a generator of gradients) and all_reduce
            that returns the list of sums.
    """
    from d2lperf import launch

    by_rank = launch(
        _try_overlap, 2, (reduce_while_computing,), backend="gloo", timeout_s=20, threads=1
    )
    for found, log in by_rank:
        order = " ".join(log)
        computed = len(log) - log[::-1].index("compute") if "compute" in log else 0
        if "wait" in log[:computed]:
            return failed(f"it waits before the last gradient is computed: {order}")
        if log[: 2 * _GRADIENTS] != ["compute", "start"] * _GRADIENTS:
            text = "each all-reduce is to start before the next gradient is computed"
            return failed(f"{text}, but this happens: {order}")
        if log.count("wait") < _GRADIENTS:
            return failed(f"not every all-reduce is waited for: {order}")
        if found != [[2.0 * i + 10] * 3 for i in range(_GRADIENTS)]:
            return failed(
                f"with gradients that hold i on rank 0 and i + 10 on rank 1, for i from 0 to "
                f"{_GRADIENTS - 1}, you return {show(found)}: these are not the sums in order"
            )
    return passed("Started at once, waited for at the end.")


# --------------------------------------------------------------------------------------- fit


@checker
def check_fit(fit: Callable[[list[int], list[float]], tuple[float, float]]) -> Feedback:
    """Check the numbers of two simulated links, then tell those between two processes here.

    Args:
        fit: function of the bytes and of the seconds of messages that returns the seconds of a
            message and of a byte.
    """
    for alpha, beta in ((2e-5, 1e-9), (1e-3, 2e-8)):
        sizes, seconds = _messages(alpha, beta)
        found = fit(list(sizes), list(seconds))
        pair = as_list(found, 2)
        call = (
            f"for {len(sizes)} messages of {min(sizes):,} to {max(sizes):,} bytes over a simulated "
            f"link, whose undisturbed messages lie on a line, you return {show(found)}"
        )
        if pair is None:
            return failed(f"{call}; wanted is a pair")
        for name, number, right in zip(("a message", "a byte"), pair, (alpha, beta)):
            value = as_number(number)
            if value is None or not abs(value / right - 1) <= 0.05:
                return failed(
                    f"{call}; the time of {name} is {off(number, right)}. "
                    "Which of the two comes first? Do disturbed messages count?"
                )
    return passed(_link_here(fit))


def _link_here(fit: Callable) -> str:
    """What the learner's fit finds between two processes of this machine."""
    try:
        sizes, seconds = _messages_here()
    except (RuntimeError, OSError) as error:  # those of launch are among them
        return f"Here, no message came through between two processes: {type(error).__name__}."
    alpha, beta = (float(number) for number in fit(sizes, seconds))
    if min(alpha, beta) <= 0:
        return "Between two processes of this machine, no line with positive numbers fits."
    return (
        f"Between two processes of this machine, a message takes {format_value(alpha, 's')}, and "
        f"a byte {format_value(beta, 's')}."
    )


_BYTES = [2**k for k in range(12, 23, 2)]  # of the messages, each several times


def _messages(alpha: float, beta: float) -> tuple[list[int], list[float]]:
    """Bytes and seconds of messages over a link; most of them are disturbed a little, some much."""
    draw = random.Random(0)
    sizes = _BYTES * 6
    slowness = [1 + 0.05 * draw.random() for _ in sizes]
    slowness[: len(_BYTES)] = [1.0] * len(_BYTES)
    for i in draw.sample(range(len(_BYTES), len(sizes)), 9):
        slowness[i] = 15.0
    messages = [(size, (alpha + beta * size) * slow) for size, slow in zip(sizes, slowness)]
    draw.shuffle(messages)
    return [size for size, _ in messages], [seconds for _, seconds in messages]


def _round_trips(sizes: Sequence[int]) -> list[float]:
    """In one of two workers: half of the seconds that each size takes there and back."""
    import torch.distributed as dist

    seconds, rank = [], dist.get_rank()
    for size in sizes:
        data = torch.zeros(size, dtype=torch.uint8)
        dist.barrier()
        start = time.perf_counter()
        for sender in (0, 1):
            if rank == sender:
                dist.send(data, 1 - rank)
            else:
                dist.recv(data, sender)
        seconds.append((time.perf_counter() - start) / 2)
    return seconds


def _messages_here() -> tuple[list[int], list[float]]:
    """Bytes and seconds of messages between two processes of this machine."""
    from d2lperf import launch

    sizes = _BYTES * 10
    seconds = launch(_round_trips, 2, (sizes,), backend="gloo", timeout_s=60, threads=1)[0]
    return sizes, seconds
