"""Checkers of notebook 09, collectives and parameter servers.

They check numbers, sums and what is sent. Nothing is timed.
"""

from __future__ import annotations

import json
import math
import os
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import cloudpickle
import torch

from d2lperf.exercises import Feedback, checker, failed, gave, passed, show
from d2lperf.exercises.values import as_list, as_number, close, off

__all__ = [
    "check_both_ways_s",
    "check_compress",
    "check_homes",
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


# ------------------------------------------------------------------------------------- homes


@checker
def check_homes(homes: Callable[[int, list[str], int], Sequence[str]]) -> Feedback:
    """Check on which servers a key is kept.

    Args:
        homes: function of a key, the names of the servers and the number of copies that returns
            the names of as many different servers.
    """
    for copies in (1, 2, 5):
        found = homes(7, list(_SERVERS), copies)
        problem = _wrong_names(found, copies)
        if problem:
            return failed(f"{gave(found, homes, 7, _SERVERS, copies)}; {problem}")
    before = _kept(homes, _SERVERS)
    problem = _disagreement(homes, before) or _uneven(before)
    for lost in _SERVERS:
        problem = problem or _moved(homes, before, lost)
    if problem:
        return failed(problem)
    return passed("A lost server moves its own keys, and their other copies stay where they are.")


_SERVERS = [f"server {name}" for name in "abcde"]
_KEYS = range(2000)


def _kept(homes: Callable, servers: Sequence[str]) -> dict[int, set[str]]:
    """The servers of each key, with two copies."""
    return {key: set(homes(key, list(servers), 2)) for key in _KEYS}


def _wrong_names(found: Any, copies: int) -> str:
    """What is wrong with the servers of one key; "" where nothing is."""
    names = as_list(found)
    if names is None or len(names) != copies:
        return "wanted is a list of as many servers as copies"
    if not set(names) <= set(_SERVERS):
        return "some of these are not among the servers"
    if len(set(names)) < copies:
        return "the copies of a key must be on different servers"
    return ""


def _disagreement(homes: Callable, before: dict[int, set[str]]) -> str:
    """Why two workers would look for a key on different servers; "" where they do not."""
    shuffled = random.Random(0).sample(_SERVERS, len(_SERVERS))
    if _kept(homes, shuffled) != before:
        return "another order of the same servers gives other homes: workers would disagree"
    here, there = (set(homes(7, list(_SERVERS), 2)), before[7])
    if here != there:
        return f"asked twice, key 7 is on {sorted(there)} and on {sorted(here)}"
    keys = list(_KEYS[:50])
    for key, names in zip(keys, _in_another_process(homes, keys)):
        if set(names) != before[key]:
            return (
                f"key {key} is on {sorted(before[key])}, but in another process on "
                f"{sorted(names)}: workers would disagree"
            )
    return ""


_ASK = """
import json, sys
import cloudpickle
homes, keys, servers = cloudpickle.loads(sys.stdin.buffer.read())
print(json.dumps([list(homes(key, list(servers), 2)) for key in keys]))
"""


def _in_another_process(homes: Callable, keys: Sequence[int]) -> list[list[str]]:
    """What the function returns in a process whose `hash` of texts differs from this one's."""
    seed = "2" if os.environ.get("PYTHONHASHSEED") == "1" else "1"
    path = os.pathsep.join(sys.path)
    done = subprocess.run(
        [sys.executable, "-c", _ASK],
        input=cloudpickle.dumps((homes, keys, _SERVERS)),
        env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": path},
        capture_output=True,
        check=False,
        timeout=60,
    )
    if done.returncode:
        last = done.stderr.decode(errors="replace").strip().splitlines()[-1:]
        raise AssertionError(f"in a new process it raises {''.join(last)}")
    return json.loads(done.stdout)


def _uneven(before: dict[int, set[str]]) -> str:
    """Which server has far more or fewer copies than its share; "" where none has."""
    shares = Counter(server for found in before.values() for server in found)
    mean = 2 * len(_KEYS) / len(_SERVERS)
    for server in _SERVERS:
        if not 0.7 * mean < shares[server] < 1.3 * mean:
            return (
                f"{server} has {shares[server]} of {2 * len(_KEYS)} copies on {len(_SERVERS)} "
                "servers: not about equally many"
            )
    return ""


def _moved(homes: Callable, before: dict[int, set[str]], lost: str) -> str:
    """What is wrong after a server is lost; "" where nothing is."""
    after = _kept(homes, [server for server in _SERVERS if server != lost])
    stayed = [key for key in _KEYS if lost not in before[key]]
    moved = sum(after[key] != before[key] for key in stayed)
    if moved:
        return (
            f"{lost} is lost; {moved} of {len(stayed)} keys that it never had move, but only its "
            "own keys may"
        )
    if any(not before[key] - {lost} <= after[key] for key in _KEYS):
        return f"{lost} is lost; a copy that still exists is not among the new homes"
    return ""


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
        call, total = f"compress({gradient}, {left}, {k})", given[0] + given[1]
        found = compress(*given, k)
        parts = as_list(found, 3)
        if parts is None:
            return failed(f"{call} gave {show(found)}; wanted are (places, values, left)")
        if given[0].tolist() != gradient or given[1].tolist() != left:
            return failed(f"{call} changes its arguments")
        sizes = [torch.as_tensor(x).shape for x in parts]
        if sizes != [(k,), (k,), (len(gradient),)]:
            text = f"wanted are {k} places, {k} values and {len(gradient)} numbers left"
            return failed(
                f"{call}: {text}, but got shapes {', '.join(map(str, map(tuple, sizes)))}"
            )
        places, values, rest = (torch.as_tensor(x) for x in parts)
        told = f"{call} gave {places.tolist()}, {values.tolist()}, {rest.tolist()}"
        sent = torch.zeros(len(gradient))
        sent[places] = values.to(sent.dtype)
        if not torch.equal(sent + rest, total):
            return failed(f"{told}: what is sent and what is left are not gradient + left")
        wanted = total.abs().topk(k).values.sum()
        if sent.abs().sum() != wanted:
            return failed(f"{told}: of {total.tolist()}, these are not the {k} largest")
        if rest[places].any():
            return failed(f"{told}: a part of an entry that was sent is left")
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
