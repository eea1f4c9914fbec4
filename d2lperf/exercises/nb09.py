"""Checkers of notebook 09, collectives and parameter servers.

They check numbers, sums and what is sent. Nothing is timed.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch

from d2lperf.exercises import Feedback, call_text, checker, failed, passed, show

__all__ = [
    "check_both_ways_s",
    "check_compress",
    "check_homes",
    "check_overlapped_s",
    "check_reduce_while_computing",
    "check_two_way_ring",
]


def _is_number(x: Any) -> bool:
    return isinstance(x, (int, float)) and not isinstance(x, bool)


def _close(a: float, b: float) -> bool:
    return abs(a - b) <= 1e-9 * max(1e-12, abs(b))


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
        ("one link for both neighbours", (4, 16e6, 1e-5, 1e-10, False), 6e-5 + 2.4e-3),
        ("a link for each neighbour", (4, 16e6, 1e-5, 1e-10, True), 6e-5 + 1.2e-3),
        ("messages alone", (8, 0, 1e-5, 1e-10, True), 14e-5),
        ("bytes alone", (8, 1e9, 0.0, 1e-10, True), 0.0875),
        ("two workers have one neighbour each", (2, 1e6, 1e-5, 1e-9, True), 2e-5 + 1e-3),
        ("one worker has nothing to do", (1, 1e6, 1e-5, 1e-9, True), 0.0),
    ]
    for what, given, wanted in cases:
        found = both_ways_s(*given)
        if not _is_number(found):
            return failed(f"wanted are seconds, but got {show(found)}")
        if not _close(found, wanted):
            way = "too much" if found > wanted else "too little"
            return failed(f"{what}: {call_text(both_ways_s, *given)} cannot be {found:g}, {way}")
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
    ]
    for what, compute_s, send_s, wanted in cases:
        found = overlapped_s(list(compute_s), list(send_s))
        if not _is_number(found):
            return failed(f"wanted are seconds, but got {show(found)}")
        if not _close(found, wanted):
            call = call_text(overlapped_s, compute_s, send_s)
            hint = "a gradient is sent before it is computed, or two at once"
            hint = "something waits that could go on" if found > wanted else hint
            return failed(f"{what}: {call} is not {found:g}: {hint}")
    return passed("Each gradient leaves as soon as it is there and the link is free.")


# ------------------------------------------------------------------------------------- homes


@checker
def check_homes(homes: Callable[[int, list[str], int], Sequence[str]]) -> Feedback:
    """Check on which servers a key is kept.

    Args:
        homes: function of a key, the names of the servers and the number of copies that returns
            the names of as many different servers.
    """
    servers, keys = [f"server {name}" for name in "abcde"], range(2000)
    for copies in (1, 2, 5):
        found = homes(7, list(servers), copies)
        if not isinstance(found, (list, tuple)) or len(found) != copies:
            return failed(f"wanted is a list of {copies} servers, but got {show(found)}")
        if not set(found) <= set(servers):
            return failed(f"{show(found)}: some of these are not among the servers")
        if len(set(found)) < copies:
            return failed(f"the copies of a key must be on different servers, not on {show(found)}")
    before = {key: set(homes(key, list(servers), 2)) for key in keys}
    shuffled = random.Random(0).sample(servers, len(servers))
    if any(set(homes(key, list(shuffled), 2)) != before[key] for key in keys):
        return failed("another order of the same servers gives other homes: workers would disagree")
    shares = Counter(server for found in before.values() for server in found)
    mean = 2 * len(keys) / len(servers)
    for server in servers:
        if not 0.7 * mean < shares[server] < 1.3 * mean:
            text = f"{server} has {shares[server]} of {2 * len(keys)} copies"
            return failed(f"{text}; equally shared, it would have about {mean:.0f}")
    for lost in servers:
        left = [server for server in servers if server != lost]
        after = {key: set(homes(key, list(left), 2)) for key in keys}
        stayed = [key for key in keys if lost not in before[key]]
        moved = sum(after[key] != before[key] for key in stayed)
        if moved:
            text = f"{lost} is lost; {moved} of {len(stayed)} keys that it never had move"
            return failed(f"{text}, but only its own keys may")
        if any(not before[key] - {lost} <= after[key] for key in keys):
            return failed(f"{lost} is lost; a copy that still exists is not among the new homes")
    return passed("A lost server moves its own keys, and their other copies stay where they are.")


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
        self.sent, self.under_way, self.both = Counter(), [], False

    def send(self, piece: torch.Tensor, to: int) -> _Message:
        import torch.distributed as dist

        self.sent[to] += piece.nbytes
        message = _Message(dist.isend(piece, to), self.under_way, to)
        self.both |= len({*self.under_way}) == 2
        return message

    def receive(self, piece: torch.Tensor, sender: int) -> Any:
        import torch.distributed as dist

        return dist.irecv(piece, sender)


def _try_two_ways(two_way_ring: Callable) -> list[tuple[bool, dict[int, int], bool]]:
    """In a worker: for each size whether the sum is right, bytes by receiver, both at once."""
    import torch.distributed as dist

    rank, n, found = dist.get_rank(), dist.get_world_size(), []
    for size in _SIZES:
        wire, numbers = _Wire(), torch.arange(size, dtype=torch.float32)
        data = numbers + 100 * rank
        two_way_ring(data, wire)
        right = torch.equal(data, n * numbers + 50 * n * (n - 1))
        found.append((right, dict(wire.sent), wire.both))
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
        for rank, found in enumerate(by_rank):
            neighbours = {(rank + 1) % n, (rank - 1) % n}
            for size, (right, counts, both) in zip(_SIZES, found):
                what = f"{size} numbers on {n} workers"
                if not right:
                    return failed(f"{what}: rank {rank} ends without the sum")
                if not set(counts) <= neighbours:
                    return failed(
                        f"{what}: rank {rank} sends to {sorted(set(counts) - neighbours)}"
                    )
                half = -(-size // 2)
                most = 4 * 2 * (n - 1) * -(-half // n) * (1 if n > 2 else 2)
                if counts and max(counts.values()) > most:
                    text = f"rank {rank} sends {max(counts.values())} bytes to one neighbour"
                    return failed(f"{what}: {text}, at most {most} are needed")
                if n > 2 and size >= 2 * n and not both:
                    return failed(f"{what}: rank {rank} never sends in both directions at once")
    return passed("Each half goes its own way round, at the same time.")


# ---------------------------------------------------------------------------------- compress


@checker
def check_compress(compress: Callable[..., tuple]) -> Feedback:
    """Check that the largest entries are sent, and that nothing is lost.

    Args:
        compress: function of a gradient, of what was left and of k that returns places and values
            of the k largest entries, and what is left now.
    """
    cases = [
        ([5.0, 1.0, 2.0], [0.0, 0.0, 0.0], 1),
        ([1.0, -7.0, 2.0, 3.0], [0.0, 0.0, 0.0, 0.0], 2),
        ([1.0, 2.0, 3.0], [4.0, 0.0, 0.0], 1),
        ([1.0, -2.0, 3.0, 0.0, 1.0], [0.0, -6.0, -3.0, 0.0, 0.0], 2),
        ([4.0, 3.0], [1.0, 1.0], 2),
    ]
    for gradient, left, k in cases:
        given = torch.tensor(gradient), torch.tensor(left)
        call, total = f"compress({gradient}, {left}, {k})", sum(given)
        found = compress(*given, k)
        if not isinstance(found, tuple) or len(found) != 3:
            return failed(f"wanted are (places, values, left), but got {show(found)}")
        if given[0].tolist() != gradient or given[1].tolist() != left:
            return failed(f"{call} changes its arguments")
        places, values, rest = found
        sizes = [torch.as_tensor(x).shape for x in found]
        if sizes != [(k,), (k,), (len(gradient),)]:
            text = f"wanted are {k} places, {k} values and {len(gradient)} numbers left"
            return failed(
                f"{call}: {text}, but got shapes {', '.join(map(str, map(tuple, sizes)))}"
            )
        sent = torch.zeros(len(gradient))
        sent[places] = values
        if not torch.equal(sent + rest, total):
            return failed(
                f"{call}: what is sent and what is left do not add up to {total.tolist()}"
            )
        wanted = total.abs().topk(k).values.sum()
        if sent.abs().sum() != wanted:
            return failed(
                f"{call}: of {total.tolist()}, these are not the {k} largest: {show(values)}"
            )
        if rest[places].any():
            return failed(f"{call}: a part of an entry that was sent is left")
    return passed("The largest entries are sent; what is left is sent later.")


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
    if isinstance(found, (list, tuple)):
        found = [x.tolist() if isinstance(x, torch.Tensor) else x for x in found]
    return found, log


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
            return failed(f"the sums are there, but what comes back is {show(found)}")
    return passed("Started at once, waited for at the end.")
