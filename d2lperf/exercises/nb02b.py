"""Checkers of notebook 02b, graphs and programs.

They count graphs, breaks and calls of Python functions. Nothing is timed, and no C++ compiler is
needed.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr
from io import StringIO
from typing import Any

import numpy as np
import torch
from torch import fx, nn

from d2lperf.exercises import Feedback, checker, failed, passed, show

__all__ = [
    "OUTCOMES",
    "check_branch",
    "check_conversions",
    "check_hybridise",
    "check_mean_once",
]

OUTCOMES = ("refused", "baked in", "right, with a break", "right, in one graph")


@contextmanager
def _fresh_compiler():
    """Nothing compiled before counts, nothing compiled here stays; warnings and logs kept quiet."""
    torch._dynamo.reset()
    try:
        with warnings.catch_warnings(), redirect_stderr(StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        torch._dynamo.reset()


class _Counting:
    """A backend that runs graphs as they are; counts them and how often one of them runs."""

    def __init__(self):
        self.graphs: list[fx.GraphModule] = []
        self.runs = 0

    def __call__(self, graph: fx.GraphModule, example_inputs: Sequence[Any]) -> Callable:
        self.graphs.append(graph)

        def run(*inputs: Any) -> Any:
            self.runs += 1
            return graph.forward(*inputs)

        return run


def _same(found: Any, wanted: torch.Tensor) -> bool:
    return (
        isinstance(found, torch.Tensor)
        and found.shape == wanted.shape
        and torch.allclose(found, wanted, rtol=1e-4, atol=1e-5)
    )


def _told(value: Any) -> str:
    """A result as text: of a small tensor its numbers."""
    small = isinstance(value, torch.Tensor) and value.numel() <= 8
    return str(value.tolist()) if small else show(value)


def _differs(found: Any, wanted: torch.Tensor) -> str:
    """What is wrong with a result, without the right one."""
    if not isinstance(found, torch.Tensor) or found.shape != wanted.shape:
        return "which has not the shape of the network's result"
    return f"which differs from the network's result by up to {(found - wanted).abs().max():.1g}"


def _plural(n: int, noun: str) -> str:
    return f"{n} {noun}" if n == 1 else f"{n} {noun}s"


# --------------------------------------------------------------------------------- hybridise

_LAYERS = os.path.join("torch", "nn", "modules", "")


def _python_layers(function: Callable[[], Any]) -> int:
    """How many `forward` methods of torch's layers Python runs during a call."""
    calls = 0

    def profile(frame, event, argument):
        nonlocal calls
        code = frame.f_code
        if event == "call" and code.co_name == "forward" and _LAYERS in code.co_filename:
            calls += 1

    before = sys.getprofile()
    sys.setprofile(profile)
    try:
        function()
    finally:
        sys.setprofile(before)
    return calls


def _convolutions() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 6, 5, padding=2),
        nn.Sigmoid(),
        nn.AvgPool2d(2),
        nn.Conv2d(6, 16, 5),
        nn.Sigmoid(),
        nn.AvgPool2d(2),
        nn.Flatten(),
        nn.Linear(400, 120),
        nn.Sigmoid(),
        nn.Linear(120, 10),
    )


@checker
def check_hybridise(hybridise: Callable[[nn.Module, torch.Tensor], Callable]) -> Feedback:
    """Check a function that takes Python out of a convolutional network.

    Args:
        hybridise: function of a network and an example input of shape (batch, 1, 28, 28) that
            returns a callable.
    """
    generator = torch.Generator().manual_seed(0)
    net = _convolutions().eval().requires_grad_(False)
    example, *others = (torch.randn(n, 1, 28, 28, generator=generator) for n in (2, 2, 5))
    with _fresh_compiler():
        fast = hybridise(net, example)
        if not callable(fast):
            return failed(f"hybridise(net, x) gave {show(fast)}, which cannot be called")
        found = fast(example)
        if not _same(found, net(example)):
            return failed(
                f"called with the example, a batch of {len(example)}, what hybridise(net, x) "
                f"returned gives {show(found)}, {_differs(found, net(example))}"
            )
        for x in others:
            try:
                found = fast(x)
            except Exception as error:
                return failed(
                    f"right on the example (a batch of {len(example)}), but a batch of {len(x)} "
                    f"raises {type(error).__name__}: is the batch size of the example kept as a "
                    "constant?"
                )
            if not _same(found, net(x)):
                return failed(
                    f"right on the example (a batch of {len(example)}), but other images, a batch "
                    f"of {len(x)}, give {show(found)}, {_differs(found, net(x))}: what was "
                    "computed once must not be kept"
                )
        calls = _python_layers(lambda: fast(others[0]))
        eager = _python_layers(lambda: net(others[0]))
    if calls > 1:
        return failed(
            f"the results are right, but for a batch of {len(others[0])} Python still runs "
            f"{_plural(calls, 'forward method')} of layers (the network as given: {eager})"
        )
    return passed(f"Equal results, and Python runs {calls} of the network's {eager} forwards.")


# ------------------------------------------------------------------------------- conversions


class _NumPy(nn.Module):
    def forward(self, x):
        return torch.from_numpy(np.log1p(x.numpy()))


class _Item(nn.Module):
    def forward(self, x):
        return x * x.max().item()


def _outcome(tool: str, module: nn.Module) -> str:
    """What really happens, as one of `OUTCOMES`."""
    seen, other = torch.tensor([1.0, 2.0, 3.0]), torch.tensor([4.0, 0.5, 7.0])
    backend = _Counting()
    with _fresh_compiler():
        try:
            if tool == "trace":
                made = torch.jit.trace(module, seen)
            elif tool == "script":
                made = torch.jit.script(module)
            else:
                made = torch.compile(module, backend=backend)
                made(seen)
                pieces = len(backend.graphs)
            if not _same(made(other), module(other)):
                return "baked in"
        except Exception:
            return "refused"
    if tool != "compile" or pieces == 1:
        return "right, in one graph"
    return "right, with a break"


@checker
def check_conversions(outcome: Mapping[tuple[str, str], str]) -> Feedback:
    """Check predictions of what tools do with a conversion to NumPy or to a Python number.

    Args:
        outcome: (conversion, tool) -> one of `OUTCOMES`; conversions "numpy" and "item", tools
            "trace", "script" and "compile".
    """
    modules = {"numpy": _NumPy(), "item": _Item()}
    wanted = [(c, t) for c in modules for t in ("trace", "script", "compile")]
    missing = [key for key in wanted if key not in outcome]
    if missing:
        return failed(f"no prediction for {missing[0]}; wanted are {len(wanted)} of them")
    for key in wanted:
        if outcome[key] not in OUTCOMES:
            return failed(f"{key}: {outcome[key]!r} is none of the task's {len(OUTCOMES)} outcomes")
    wrong = [k for k in wanted if outcome[k] != _outcome(k[1], modules[k[0]])]
    if wrong:
        return failed(
            f"{len(wrong)} of {len(wanted)} are not what happens; look again at "
            + " and at ".join(
                f"{tool} of .{c}() (you say {outcome[c, tool]!r})" for c, tool in wrong[:2]
            )
        )
    return passed("All six as they happen here.")


# ------------------------------------------------------------------------------------ branch


@checker
def check_branch(flip_whole: Callable[[torch.Tensor], torch.Tensor]) -> Feedback:
    """Check a data-dependent decision that stays inside one graph.

    Args:
        flip_whole: function that returns x where the sum of x is positive and -x otherwise.
    """
    inputs = [
        torch.tensor([1.0, 2.0, -0.5]),
        torch.tensor([-1.0, 2.0, -3.0]),
        torch.tensor([3.0, -3.0]),
    ]
    wanted = [x if x.sum() > 0 else -x for x in inputs]
    for x, right in zip(inputs, wanted):
        found = flip_whole(x.clone())
        if not _same(found, right):
            return failed(
                f"flip_whole({x.tolist()}) gave {_told(found)}; the sum is {x.sum().item():g}, and "
                "flip decides by the sum alone, for all entries"
            )
    with _fresh_compiler():
        whole = torch.compile(flip_whole, backend="eager", fullgraph=True)
        try:
            results = [whole(x.clone()) for x in inputs]
        except Exception as error:
            return failed(
                "the values are right, but it does not fit into one graph: with fullgraph=True "
                f"torch.compile raises {type(error).__name__}"
            )
        for x, found, right in zip(inputs, results, wanted):
            if not _same(found, right):
                return failed(
                    f"flip_whole({x.tolist()}) is right when interpreted, but gives {_told(found)} "
                    "when compiled"
                )

        class Module(nn.Module):
            def forward(self, x):
                return flip_whole(x)

        try:
            exported = torch.export.export(Module(), (inputs[0],), strict=False).module()
        except Exception as error:
            return failed(
                f"the values are right, but torch.export with the example {inputs[0].tolist()} "
                f"raises {type(error).__name__}"
            )
        found = exported(inputs[1])
        if not _same(found, wanted[1]):
            return failed(
                f"exported with the example {inputs[0].tolist()}, flip_whole gives {_told(found)} "
                f"for {inputs[1].tolist()}: it takes the path of its example"
            )
    return passed("Both ways in one graph: nothing is left for Python to decide.")


# --------------------------------------------------------------------------------- mean_once


@checker
def check_mean_once(mean_once: Callable[[Callable], Callable]) -> Feedback:
    """Check a mean over the batch that is compiled once for all batch sizes.

    Args:
        mean_once: function of a backend that returns a compiled function of x, shape
            (batch, features), which gives the mean over the batch, shape (features,).
    """
    backend = _Counting()
    with _fresh_compiler():
        compiled = mean_once(backend)
        counts = []
        for size in (2, 3, 5, 8, 13):
            x, runs = torch.arange(4.0 * size).reshape(size, 4), backend.runs
            found = compiled(x)
            if not _same(found, x.mean(0)):
                return failed(
                    f"the batch {x.tolist()} gave {_told(found)}, which is not the mean over the "
                    "batch"
                )
            counts.append(len(backend.graphs))
            if counts[-1] == 0:
                return failed(
                    f"a batch of {size} gave the right mean, but the backend was given no graph"
                )
            if backend.runs == runs:
                return failed(
                    f"the batch of {size} ran without a graph, in eager mode: the one graph is to "
                    "serve all batches, not only the first"
                )
    if counts[-1] > 1:
        return failed(
            f"batches of 2, 3, 5, 8 and 13 took {counts[-1]} graphs ({counts} after each): "
            "wanted is one for all"
        )
    return passed("Five batch sizes, one graph.")
