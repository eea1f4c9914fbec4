"""The snippets that the study of verdicts compares: pairs whose true ratio is known.

A maker sets up data and returns `snippet(n)`: a function that does one step `n` times. Snippets
of one pair share their data, since two tensors at other addresses differ in speed by a per cent
or two, which is real and not the error of a tool. 110 steps are 10 % more work than 100,
whatever a step costs.
"""

from __future__ import annotations

import time
import types
from collections.abc import Callable

import numpy as np
import torch


def python_loop():
    def snippet(n):
        def run():
            total = 0
            for i in range(n):
                total += i & 7

        return run

    return snippet


def small_operations():
    x = torch.ones(64)

    def snippet(n):
        def run():
            for _ in range(n):
                torch.add(x, 1.0)

        return run

    return snippet


def products():
    a = torch.ones(32, 32)

    def snippet(n):
        def run():
            for _ in range(n):
                torch.mm(a, a)

        return run

    return snippet


def copies():
    source, target = torch.ones(4096), torch.empty(4096)

    def snippet(n):
        def run():
            for _ in range(n):
                target.copy_(source)

        return run

    return snippet


def forwards():
    """A step is a layer of one sample: overhead and a thin product."""
    weight, bias, x = torch.ones(64, 64), torch.ones(64), torch.ones(1, 64)

    def snippet(n):
        def run():
            with torch.no_grad():
                for _ in range(n):
                    torch.relu(torch.addmm(bias, x, weight))

        return run

    return snippet


def threaded_forwards():
    """A step is a layer of a batch, which every core takes part in."""
    weight, x = torch.ones(256, 256), torch.ones(64, 256)

    def snippet(n):
        def run():
            with torch.no_grad():
                for _ in range(n):
                    torch.relu(torch.mm(x, weight))

        return run

    return snippet


def mlp_forwards():
    """A step is the forward of a small network, with torch's default threads."""
    net = torch.nn.Sequential(
        torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 10)
    ).eval()
    x = torch.ones(16, 64)

    def snippet(n):
        def run():
            with torch.no_grad():
                for _ in range(n):
                    net(x)

        return run

    return snippet


def numpy_products():
    """A step is a product of NumPy's, which its own threads take part in."""
    a = np.ones((192, 192), dtype=np.float32)

    def snippet(n):
        def run():
            for _ in range(n):
                a @ a

        return run

    return snippet


# name -> (maker, steps at 1.00, 1.03 and 1.10 of the work). A threaded step is long: fewer of them
# keep the snippet below 5 ms, and so 3 % takes a longer one than 10 %.
SNIPPETS = {
    "python": (python_loop, (1000, 1030, 1100)),
    "small operations": (small_operations, (100, 103, 110)),
    "products": (products, (100, 103, 110)),
    "copies": (copies, (100, 103, 110)),
    "forward": (forwards, (100, 103, 110)),
    "small network": (mlp_forwards, (100, 103, 110)),
    "threaded forward": (threaded_forwards, (10, None, 11)),
    "long threaded forward": (threaded_forwards, (33, 34, None)),
    "numpy products": (numpy_products, (10, None, 11)),
    "long numpy products": (numpy_products, (33, 34, None)),
}
# Whose products get several threads, however small they are: on two cores the system's record of
# running time (/proc/self/task/*/schedstat) shows a second thread busy for 95 to 100 % of the time,
# and for at most 1 % in the other snippets.
THREADED = (threaded_forwards, numpy_products, products, mlp_forwards)


def copy_of(fn: types.FunctionType) -> types.FunctionType:
    """The same code with the same data under another name: an exact copy."""
    return types.FunctionType(
        fn.__code__, fn.__globals__, fn.__name__, fn.__defaults__, fn.__closure__
    )


def with_slow_start(fn: Callable[[], object]) -> Callable[[], object]:
    """The same function, but its first three calls also take 30 ms each, as if to compile."""
    left = [3]

    def run():
        if left[0]:
            left[0] -= 1
            until = time.perf_counter() + 0.03
            while time.perf_counter() < until:
                pass
        return fn()

    return run


def without_slow_start(fn: Callable[[], object]) -> Callable[[], object]:
    """The partner of `with_slow_start`: the same wrapping, no slow calls."""
    left = [0]

    def run():
        if left[0]:
            left[0] -= 1
        return fn()

    return run
