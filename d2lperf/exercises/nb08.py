"""Checkers of notebook 08, data-parallel training with PyTorch's own tools.

They check numbers, gradients and what is sent. Nothing is timed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from d2lperf.exercises import Feedback, checker, failed, gave, passed
from d2lperf.exercises.values import as_list, as_whole, close, off

__all__ = [
    "check_accumulate",
    "check_best_number",
    "check_settings",
    "check_share_out",
]


# ---------------------------------------------------------------------------------- settings


_STEPS = "an epoch has as many steps as whole batches of all devices together go into the images"
_RELATIONS = {
    "curve": {
        "rows for each device": "all devices together see as many rows a step as the one did",
        "lr": "a step sees as many rows as before, so the learning rate stays",
        "steps": _STEPS,
    },
    "load": {
        "rows for each device": "each device sees as many rows a step as the one did",
        "lr": "the learning rate grows in proportion to the rows of a step",
        "steps": _STEPS,
    },
}


@checker
def check_settings(settings: Callable[..., tuple[int, float, int]]) -> Feedback:
    """Check which settings belong together when a recipe moves to several devices.

    Args:
        settings: function of rows, lr, epochs, images, devices and keep ("curve" or "load") that
            returns rows for each device, the learning rate and the number of steps.
    """
    cases = [
        ((256, 0.1, 10, 60_000, 1, "curve"), (256, 0.1, 2340)),
        ((256, 0.1, 10, 60_000, 16, "curve"), (16, 0.1, 2340)),
        ((64, 0.05, 3, 1000, 4, "curve"), (16, 0.05, 45)),
        ((256, 0.1, 10, 60_000, 2, "load"), (256, 0.2, 1170)),
        ((256, 0.1, 10, 60_000, 16, "load"), (256, 1.6, 140)),
        ((100, 0.02, 2, 1000, 3, "load"), (100, 0.06, 6)),
    ]
    for given, wanted in cases:
        found = settings(*given)
        call, values = gave(found, settings, *given), as_list(found, 3)
        if values is None:
            return failed(f"{call}; wanted are three values (rows, lr, steps)")
        for what, one, right in zip(("rows for each device", "lr", "steps"), values, wanted):
            if not close(one, right):
                return failed(
                    f"{call}; {what} is {off(one, right)}: with {given[-1]!r} "
                    f"{_RELATIONS[given[-1]][what]}"
                )
    uneven = (256, 0.1, 10, 60_000, 3, "curve")
    try:
        found = settings(*uneven)
    except ValueError:
        return passed("The same curve where it is asked for, and the same load where that is.")
    return failed(
        f"{gave(found, settings, *uneven)}; the rows cannot be shared out evenly, so the curve "
        "cannot stay as it is: raise ValueError"
    )


# ------------------------------------------------------------------------------- best_number


def _seconds(n: int, step_s: float, nbytes: float, bandwidth: float, latency_s: float) -> float:
    return step_s / n + 2 * (n - 1) * (latency_s + nbytes / n / bandwidth)


@checker
def check_best_number(best_number: Callable[..., int]) -> Feedback:
    """Check a prediction of the number of devices that makes a step shortest.

    Args:
        best_number: function of step_s (seconds of a step on one device), nbytes (of the
            gradient), bandwidth (bytes in a second), latency_s (seconds for each message) and
            most (the largest number) that returns a number of devices.
    """
    cases = [
        ("much to compute", (10.0, 45e6, 1e10, 1e-5, 16)),
        ("a gradient that takes longer than the step", (1.0, 1e9, 1.5e9, 1e-6, 16)),
        ("latency alone", (1e-3, 0.0, 1e9, 1e-5, 64)),
        ("a slow link", (0.1, 45e6, 1e8, 1e-4, 16)),
        ("something between", (0.2, 45e6, 1e10, 1e-3, 16)),
        ("one device is all there is", (1.0, 45e6, 1e10, 1e-5, 1)),
        ("nothing to compute", (0.0, 0.0, 1e9, 0.0, 8)),
    ]
    for what, given in cases:
        *model, most = given
        times = [_seconds(n, *model) for n in range(1, most + 1)]
        found = best_number(*given)
        call, number = f"{what}: {gave(found, best_number, *given)}", as_whole(found)
        if number is None or not 1 <= number <= most:
            return failed(f"{call}; wanted is a whole number from 1 to most")
        best = min(times)
        if times[number - 1] > best * (1 + 1e-9):
            way = "fewer" if number > times.index(best) + 1 else "more"
            return failed(f"{call}; with {way} devices the step is shorter")
        if times[number - 1] == best and number != times.index(best) + 1:
            return failed(f"{call}; of equally good numbers the smallest is wanted")
    return passed("More devices as long as they help, and no longer.")


# --------------------------------------------------------------------------------- share_out


def _shared_out(rows: int, speeds: Sequence[float]) -> float:
    """Least possible time until the last device is done."""
    pieces = [0] * len(speeds)
    for _ in range(rows):
        i = min(range(len(speeds)), key=lambda i: (pieces[i] + 1) / speeds[i])
        pieces[i] += 1
    return max(piece / speed for piece, speed in zip(pieces, speeds))


@checker
def check_share_out(
    share_out: Callable[[int, list[float]], tuple[Sequence[int], float]],
) -> Feedback:
    """Check how a batch is divided over devices of different speed.

    Args:
        share_out: function of the number of rows and of the speeds in rows a second that returns
            the rows for each device, and how many times faster that is than the fastest alone.
    """
    cases = [
        (64, [1.0, 1.0]),
        (256, [50.0, 1.0]),
        (10, [3.0, 3.0, 1.0]),
        (7, [1.0, 2.0, 4.0]),
        (20, [1000.0, 1.0]),
        (5, [1.0, 1.0, 1.0]),
        (97, [2.5, 7.0, 0.8, 3.1]),
    ]
    for rows, speeds in cases:
        found = share_out(rows, list(speeds))
        call, pair = gave(found, share_out, rows, speeds), as_list(found, 2)
        if pair is None:
            return failed(f"{call}; wanted is a pair (pieces, gain)")
        pieces, gain = as_list(pair[0], len(speeds)), pair[1]
        if pieces is None:
            return failed(f"{call}; wanted is a list with one piece for each device")
        problem = _wrong_pieces(pieces, rows, speeds)
        if problem:
            return failed(f"{call}; {problem}")
        right = rows / max(speeds) / _shared_out(rows, speeds)
        if not close(gain, right):
            return failed(f"{call}; the pieces are right, but the gain is {off(gain, right)}")
    return passed("No device finishes later than necessary, and the gain is right.")


def _wrong_pieces(pieces: Sequence[object], rows: int, speeds: Sequence[float]) -> str:
    """What is wrong with the rows for each device; "" where nothing is."""
    read = [as_whole(piece) for piece in pieces]
    whole = [piece for piece in read if piece is not None]
    if len(whole) < len(read) or min(whole) < 0:
        return "pieces are whole numbers from 0"
    if sum(whole) != rows:
        return f"the pieces are {sum(whole)} rows in all"
    seconds = max(piece / speed for piece, speed in zip(whole, speeds))
    if seconds > _shared_out(rows, speeds) * (1 + 1e-9):
        return "with other pieces the last device is done earlier"
    return ""


# -------------------------------------------------------------------------------- accumulate

_WORKERS = 2
_LENGTHS = [(5, 2, 1), (4, 4), (8,)]  # rows of each micro-batch


def _micro_batches(lengths: Sequence[int], rank: int) -> list[tuple[torch.Tensor, torch.Tensor]]:
    generator = torch.Generator().manual_seed(10 * len(lengths) + rank)
    return [
        (torch.randn(n, 6, generator=generator), torch.randint(3, (n,), generator=generator))
        for n in lengths
    ]


def _small_net() -> nn.Module:
    with torch.random.fork_rng([]):
        torch.manual_seed(1)
        return nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3))


def _gradient(net: nn.Module) -> torch.Tensor:
    grads = [torch.zeros_like(p) if p.grad is None else p.grad for p in net.parameters()]
    return torch.cat([grad.flatten() for grad in grads])


def _try_accumulating(accumulate: Callable) -> list[tuple[torch.Tensor, float]]:
    """In a worker: for each case the gradient, and how many times it travelled."""
    import torch.distributed as dist

    found = []
    for lengths in _LENGTHS:
        net, sent = nn.parallel.DistributedDataParallel(_small_net()), list[Any]()

        def hook(sent, bucket):
            sent.append(bucket.buffer().numel())
            work = dist.all_reduce(bucket.buffer().div_(dist.get_world_size()), async_op=True)
            return work.get_future().then(lambda future: future.value()[0])

        net.register_comm_hook(sent, hook)
        accumulate(net, F.cross_entropy, _micro_batches(lengths, dist.get_rank()))
        gradient = _gradient(net)
        found.append((gradient, sum(sent) / gradient.numel()))
    return found


@checker
def check_accumulate(accumulate: Callable[[nn.Module, Callable, list], None]) -> Feedback:
    """Check the accumulation of gradients under DDP, on two processes.

    Args:
        accumulate: function of a DDP network, a loss that is a mean over rows, and a list of
            micro-batches (inputs, labels) of different lengths.
    """
    from d2lperf import launch

    by_rank = launch(_try_accumulating, _WORKERS, (accumulate,), backend="gloo", timeout_s=20)
    for case, lengths in enumerate(_LENGTHS):
        whole = [_micro_batches(lengths, rank) for rank in range(_WORKERS)]
        inputs, labels = (torch.cat(t) for t in zip(*[pair for parts in whole for pair in parts]))
        net = _small_net()
        F.cross_entropy(net(inputs), labels).backward()
        wanted = _gradient(net)
        what = f"micro-batches of {', '.join(map(str, lengths))} rows"
        (one, times), (other, _) = (found[case] for found in by_rank)
        if not torch.allclose(one, other, atol=1e-6):
            gap = (one - other).abs().max().item()
            return failed(f"{what}: the gradients of the two ranks differ by up to {gap:.1g}")
        if not torch.allclose(one, wanted, rtol=1e-4, atol=1e-6):
            ratio = (one.norm() / wanted.norm()).item()
            return failed(
                f"{what}: the gradient is not the one of the mean over all rows "
                f"(its length is {ratio:.2f} times that)"
            )
        if times != 1:
            return failed(
                f"{what}: the gradient is right, but it travelled {times:g} times; once is wanted"
            )
    return passed("The gradient of all rows, sent once.")
