"""Checkers of notebook 07, multi-GPU training from scratch.

They compare parameters and counts, on the CPU and in one process. Nothing is timed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch.nn import functional as F

from d2lperf.exercises import Feedback, checker, failed, gave, passed, show
from d2lperf.exercises.values import as_list, as_number, close, off

__all__ = [
    "check_accuracy_on",
    "check_best_rates",
    "check_epoch",
    "check_loss_factor",
]


# ------------------------------------------------------------------------------------- epoch


def _start() -> list[torch.Tensor]:
    """LeNet's parameters, in double precision."""
    generator = torch.Generator().manual_seed(7)
    params = []
    for shape, inputs, units in [
        ((20, 1, 5, 5), 25, 20),
        ((50, 20, 5, 5), 500, 50),
        ((800, 128), 800, 128),
        ((128, 10), 128, 10),
    ]:
        weight = torch.randn(shape, generator=generator, dtype=torch.float64)
        params += [weight / math.sqrt(inputs), torch.zeros(units, dtype=torch.float64)]
    return params


def _lenet(X: torch.Tensor, params: Sequence[torch.Tensor]) -> torch.Tensor:
    W1, b1, W2, b2, W3, b3, W4, b4 = params
    X = (X - 0.3) / 0.36
    X = F.avg_pool2d(F.relu(F.conv2d(X, W1, b1)), 2)
    X = F.avg_pool2d(F.relu(F.conv2d(X, W2, b2)), 2)
    return F.relu(X.flatten(1) @ W3 + b3) @ W4 + b4


def _trained(X: Any, y: Any, params: Any, size: int, lr: float) -> list[torch.Tensor]:
    """Parameters after one pass on one device with minibatches of `size` images."""
    params = [p.clone().requires_grad_() for p in params]
    for X_part, y_part in zip(X.split(size), y.split(size)):
        gradients = torch.autograd.grad(F.cross_entropy(_lenet(X_part, params), y_part), params)
        with torch.no_grad():
            for p, gradient in zip(params, gradients):
                p -= lr * gradient
    return [p.detach() for p in params]


def _far(params: Any, others: Any) -> float:
    """The largest difference between two lists of parameters."""
    return max((p.detach().cpu() - q).abs().max().item() for p, q in zip(params, others))


class _Updates:
    """A `train_batch` that does the update and notes what it was given.

    Attributes:
        seen: for each call the numbers of images, of copies and of devices.
    """

    def __init__(self):
        self.seen: list[tuple[int, int, int]] = []

    def __call__(self, X: Any, y: Any, device_params: Any, devices: Any, lr: Any) -> None:
        self.seen.append((len(X), len(device_params), len(devices)))
        k, total = len(device_params), None
        for X_part, y_part, params in zip(X.tensor_split(k), y.tensor_split(k), device_params):
            leaves = [p.detach().requires_grad_() for p in params]
            logits = _lenet(X_part.to(leaves[0].device), leaves)
            loss = F.cross_entropy(logits, y_part.to(logits.device), reduction="sum")
            gradients = [g.cpu() for g in torch.autograd.grad(loss, leaves)]
            total = [a + b for a, b in zip(total, gradients)] if total else gradients
        for params in device_params:
            for p, gradient in zip(params, total or []):
                p.detach().sub_(lr / len(X) * gradient.to(p.device))


@checker
def check_epoch(epoch: Callable) -> Feedback:
    """Check one pass over the data with minibatches that grow with the number of devices.

    Args:
        epoch: function of images (n, 1, 28, 28), labels (n,), eight parameters, k, b, the
            learning rate and train_batch, that returns the parameters on the first device and the
            number of updates.
    """
    generator = torch.Generator().manual_seed(1)
    X = torch.rand(45, 1, 28, 28, generator=generator, dtype=torch.float64)
    y = torch.randint(10, (45,), generator=generator)
    start = _start()
    for k, b in ((1, 20), (2, 6), (3, 6)):
        given, train_batch = [p.clone() for p in start], _Updates()
        result = epoch(X, y, given, k, b, 0.1, train_batch)
        what = f"for 45 images, k={k} and b={b}"
        changed = _far(given, start)
        if changed:
            return failed(
                f"{what} the parameters that were given have changed, by up to {changed:.1g}: "
                "train copies"
            )
        problem = _wrong_calls(train_batch.seen, k, k * b) or _wrong_result(
            result, len(train_batch.seen), _trained(X, y, start, k * b, 0.1)
        )
        if problem:
            return failed(f"{what} {problem}")
    return passed("As on one device with the large minibatch, and shared out to all of them.")


def _wrong_calls(seen: Sequence[tuple[int, int, int]], k: int, size: int) -> str:
    """What is wrong with the calls of train_batch; "" where nothing is."""
    images = [n for n, _, _ in seen]
    if sum(images) != 45:
        return f"train_batch got minibatches of {show(images)} images, {sum(images)} in all"
    if any(n != size for n in images[:-1]) or images[-1] > size:
        return f"train_batch got minibatches of {show(images)} images, not of k * b"
    for _, copies, devices in seen:
        if (copies, devices) != (k, k):
            return (
                f"train_batch got {copies} copies of the parameters and {devices} devices, not one "
                "copy for each of k devices"
            )
    return ""


def _wrong_result(result: object, calls: int, right: Sequence[torch.Tensor]) -> str:
    """What is wrong with what `epoch` returned; "" where nothing is."""
    pair = as_list(result, 2)
    if pair is None:
        return f"you return {show(result)}; wanted is a pair (parameters, updates)"
    found, updates = pair
    if not isinstance(found, (list, tuple)) or len(found) != len(right):
        return f"you return {show(found)}; wanted are the eight parameters of a device"
    if not close(updates, calls):
        return f"you return {show(updates)} updates, but train_batch ran {calls} times"
    gap = _far(found, right)
    if not gap < 1e-9:
        return (
            "the parameters differ from training on one device with minibatches of k * b images "
            f"(the last one smaller), by up to {gap:.1g}"
        )
    return ""


# -------------------------------------------------------------------------------- best_rates


@checker
def check_best_rates(best_rates: Callable) -> Feedback:
    """Check a search for the best learning rate for each number of devices.

    Args:
        best_rates: function of score, the numbers of devices, the rates and b that returns a
            dictionary from the number of devices to the best rate.
    """
    rates = [0.8, 0.1, 0.4, 0.2, 1.6]

    def proportional(k, batch_size, lr):
        # Best where the rate is in proportion to the batch; too large a rate blows up.
        ideal = 0.1 * batch_size / 16
        return math.nan if lr > 2.5 * ideal else 0.9 - abs(math.log2(lr / ideal)) / 10

    def flat(k, batch_size, lr):
        return math.nan if lr == 0.1 else 0.75

    cases = [
        (proportional, {1: 0.1, 2: 0.2, 4: 0.4, 8: 0.8}, "where the best rate grows with k"),
        (flat, {1: 0.2, 4: 0.2}, "where 0.1 gives nan and all other rates are equally good"),
    ]
    for fake, right, what in cases:
        asked: list[Any] = []

        def train(num_devices, batch_size, lr, fake=fake, asked=asked):
            asked.append((num_devices, batch_size, lr))
            return fake(num_devices, batch_size, lr)

        found = best_rates(train, list(right), list(rates), 16)
        wrong = [call for call in asked if call[1] != 16 * call[0]]
        if wrong:
            k, size, _ = wrong[0]
            return failed(f"with b=16, {k} device(s) must train on {16 * k} images, not on {size}")
        call = f"best_rates(score, {list(right)}, {rates}, 16) gave {show(found)}"
        tried = {k: [lr for n, _, lr in asked if n == k] for k in right}
        missing = [k for k in right if set(tried[k]) != set(rates)]
        if missing:
            k = missing[0]
            return failed(f"{call}; with {k} device(s) it tried the rates {show(tried[k])}")
        if not isinstance(found, Mapping) or set(found) != set(right):
            return failed(f"{call}; wanted is a dictionary with a rate for each k")
        for k in right:
            if not close(found[k], right[k]):
                accuracies = {lr: round(fake(k, 16 * k, lr), 3) for lr in rates}
                return failed(
                    f"{what}: for k={k} the accuracies are {accuracies}, and you return "
                    f"{show(found[k])}: not the highest, or not the smallest of equal rates"
                )
    return passed("The best rate for each number of devices; nan never wins.")


# ------------------------------------------------------------------------------- accuracy_on


@checker
def check_accuracy_on(accuracy_on: Callable) -> Feedback:
    """Check an accuracy that is computed on several devices.

    Args:
        accuracy_on: function of a network, images, labels, the parameters on each device, and
            the devices, that returns the fraction of right answers.
    """
    for n, k, wrong in ((10, 4, (0, 1, 2)), (7, 2, (5,)), (3, 5, (1,)), (6, 1, ()), (9, 3, (8,))):
        labels = (torch.arange(n) * 7) % 10
        answers = labels.clone()
        answers[list(wrong)] = (answers[list(wrong)] + 1) % 10
        X = torch.stack([torch.arange(n), answers], 1).double().view(n, 1, 1, 2)
        params = [[torch.tensor(float(i))] for i in range(k)]
        seen: dict[int, list[int]] = {}
        graphs: list[Any] = []

        def net(X, own, params=params, seen=seen, graphs=graphs):
            (number,) = [i for i, p in enumerate(params) if p is own] or [-1]
            flat = X.reshape(len(X), 2).long()
            if len(X):
                seen.setdefault(number, []).extend(flat[:, 0].tolist())
            graphs.append(torch.is_grad_enabled())
            return F.one_hot(flat[:, 1], 10).double()

        found = accuracy_on(net, X, labels, params, [torch.device("cpu")] * k)
        what, right = f"{n} images on {k} device(s)", (n - len(wrong)) / n
        rows = sorted(row for part in seen.values() for row in part)
        if -1 in seen:
            return failed(f"{what}: net was not called with the parameters of one of the devices")
        if rows != list(range(n)):
            return failed(f"{what}: each image must be looked at once; looked at were {rows}")
        if len(seen) != min(n, k):
            return failed(f"{what}: only {len(seen)} device(s) had work")
        if any(graphs):
            return failed(f"{what}: net was called with gradients enabled: use torch.no_grad()")
        if not close(found, right):
            return failed(
                f"{what}, {len(wrong)} answers wrong: you return {show(found)}, {off(found, right)}"
            )
    return passed("Every image once, on all devices, and counts were added up.")


# ------------------------------------------------------------------------------- loss_factor


@checker
def check_loss_factor(loss_factor: Callable[[int, Sequence[int]], float]) -> Feedback:
    """Check the weight of a process's mean loss where gradients are averaged over processes.

    Args:
        loss_factor: function of the number of images of a process, and of all processes.
    """
    for sizes in ([4, 4], [79, 78], [128, 29], [5], [1, 2, 3, 0]):
        values = torch.arange(1.0, sum(sizes) + 1, dtype=torch.float64)  # gradients, by image
        average = 0.0
        for own, part in zip(sizes, values.split(sizes)):
            found = loss_factor(own, list(sizes))
            factor = as_number(found)
            call = gave(found, loss_factor, own, sizes)
            if factor is None:
                return failed(f"{call}, which is no number")
            if own == 0 and factor != 0:
                return failed(f"{call}, but a process without images has no say")
            average += factor * part.mean().item() / len(sizes) if own else 0.0
        if not close(average, values.mean().item()):
            return failed(
                f"{gave(loss_factor(sizes[0], list(sizes)), loss_factor, sizes[0], sizes)}; with "
                "this and the factors of the others, the averaged gradient is "
                f"{off(average, values.mean().item())}"
            )
    return passed("Every image counts the same, wherever it is.")
