"""`explain`: count what a function does, predict its time, measure it, tell what limits it."""

from __future__ import annotations

import statistics
import sys
from collections import defaultdict
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple

import torch

from d2lperf.ceilings import Ceilings, measure_ceilings
from d2lperf.counting import Operation, OperationCounter
from d2lperf.device import synchronize
from d2lperf.explaining.advice import Limit, Part, advice, profile_first
from d2lperf.explaining.explanation import MOST_UNCOUNTED, Explanation, limit_of, parts_of
from d2lperf.explaining.stacks import StackSampler
from d2lperf.explaining.state import StateKeeper
from d2lperf.measuring import Measurement, measure
from d2lperf.measuring.instruments import Instruments, instruments
from d2lperf.measuring.undisturbed import undisturbed
from d2lperf.roofline import COMPUTE, MEMORY, OVERHEAD, Estimate, Regime, Roofline

__all__ = ["explain"]

TIMED_RUNS, TIMED_S = 3, 0.5  # the operations are timed so often, or until so much time is spent
SAMPLED_S, MOST_SAMPLED = 0.3, 200  # how long, and in how many runs, the stack is sampled
NAMED_FROM = 0.2  # share of the time outside of torch from which its functions are named
MUCH_FASTER = 0.5  # measured / predicted below which nothing needs help


def explain(
    fn: Callable[[], Any], *, ceilings: Ceilings | None = None, measured: bool = True
) -> Explanation:
    """Tell what limits a function; it is called about 5 times if slow, thousands if very quick.

    What it changes is put back afterwards: parameters, buffers, gradients, the state of optimizers
    and, in the main thread, of the random generators; the report says how often it was called and
    what was put back. The first call is watched, and later the first step of each optimizer. What
    else only a later call overwrites stays, such as an average of weights at every fourth call; the
    report says so where torch counts the changes of a tensor (not those through `.data` or NumPy,
    of sparse tensors, of subclasses and in inference mode). Python's own state cannot be put back:
    iterators advance, counters count, and an attribute that is assigned anew, such as
    `self.mean = 0.9 * self.mean`, keeps what it got last. For the copies there must be memory.

    Work is counted by the rules of `d2lperf.counting`; all of it is taken to run on the device of
    the ceilings. What cannot be counted (sorting, random numbers, recurrent layers) is timed by
    itself, and its time is part of the prediction. The time differs from the prediction where a
    kernel stays below the ceilings, or where Python or other libraries compute.

    Args:
        fn: called without arguments: a forward pass, a training step.
        ceilings: of the device; by default those that `measure_ceilings` finds. Those of
            `d2lperf.datasheets.datasheet("H100 SXM")` predict for a machine that is not here; then
            nothing is measured.
        measured: also measure the time; if not, the function runs twice.

    Raises:
        TypeError: `fn` is no function.
        ValueError: `fn` runs no operation of torch, or the ceilings lack the rate of its dtype.
        BaseException: what `fn` raises.

    >>> import torch
    >>> made = Ceilings({"float32": 1e11}, {"triad": 1e10}, 2e-6)
    >>> x = torch.ones(512, 512)
    >>> explain(lambda: x @ x, ceilings=made, measured=False).regime
    'compute'
    """
    if not callable(fn):
        raise TypeError(
            f"explain needs a function, not a {type(fn).__name__}: explain(lambda: f(x))"
        )
    runs, keeper = _Runs(fn), StateKeeper()
    given = instruments()
    with undisturbed():
        try:
            found = _study(runs, keeper, given, ceilings, measured)
        finally:
            keeper.put_back()
    return _explained(found, runs.count, keeper)


class _Runs:
    """The function, and how often it was called."""

    def __init__(self, fn: Callable[[], Any]):
        self.fn, self.count = fn, 0

    def __call__(self) -> Any:
        self.count += 1
        return self.fn()


class _Study(NamedTuple):
    """What the runs gave: operations, the time of the whole, and functions outside of torch."""

    operations: list[Operation]
    measurement: Measurement | None
    ceilings: Ceilings
    outside: float
    functions: dict[str, float]


def _study(
    runs: _Runs,
    keeper: StateKeeper,
    given: Instruments,
    ceilings: Ceilings | None,
    measured: bool,
) -> _Study:
    """Run the function: watched, timed as a whole, timed by its operations, sampled."""
    wait = given.synchronize or (lambda: None)
    if isinstance(wait, str):
        wait = synchronize
    counter = OperationCounter(given.clock, wait)
    # The counter takes composite operations apart before the keeper sees what they write.
    with _uncompiled(), keeper, counter:
        runs()
    if not counter.operations:
        raise ValueError(
            "explain ran the function, but it used no operation of torch, and it explains nothing "
            "else. measure(fn) takes the time of any function."
        )
    ceilings = ceilings or measure_ceilings(counter.device)
    counter.cache_bytes = ceilings.cache_bytes
    measurement = None
    if measured and ceilings.measured:
        measurement = measure(runs)
    timed = _timed_operations(runs, counter, TIMED_RUNS if measurement else 1)
    outside = _outside(timed, measurement)
    functions: dict[str, float] = {}
    if measurement and outside > NAMED_FROM:
        functions = _functions_outside(runs, counter, measurement.median_s)
    return _Study(timed.operations, measurement, ceilings, outside, functions)


class _Run(NamedTuple):
    """One run of the function: its operations, and the seconds outside of them."""

    operations: list[Operation]
    outside_s: float


def _timed_operations(runs: _Runs, counter: OperationCounter, times: int) -> _Run:
    """The operations, each with the median of its seconds; what is not counted is timed alone."""
    if times == 1:  # then the only run also times alone what is not counted
        counter.alone = True
        run = _one_run(runs, counter)
        counter.alone = False
        return run
    timed: list[_Run] = []
    began = counter.clock()
    while len(timed) < times and (not timed or counter.clock() - began < TIMED_S):
        timed.append(_one_run(runs, counter))
    last = timed[-1].operations
    if not all(operation.counted for operation in last):
        counter.alone = True
        last = _one_run(runs, counter).operations
        counter.alone = False
    names = [operation.name for operation in last]
    alike = [run.operations for run in timed if [op.name for op in run.operations] == names]
    operations = []
    for i, operation in enumerate(last):
        if operation.counted and alike:
            middle_s = statistics.median(run[i].seconds for run in alike)
            operation = operation._replace(seconds=middle_s)
        operations.append(operation)
    return _Run(operations, min(run.outside_s for run in timed))


def _uncompiled() -> AbstractContextManager:
    """Run compiled functions as they are written, where there may be any.

    Otherwise torch would note that they cannot be compiled here, and never compile them again.
    """
    if "torch._dynamo" in sys.modules:
        return torch.compiler.set_stance("force_eager")
    return nullcontext()


def _one_run(runs: _Runs, counter: OperationCounter) -> _Run:
    """Run the function once and count its operations."""
    counter.operations, counter.inside_s = [], 0.0
    with _uncompiled(), counter:
        began = counter.clock()
        runs()
        took_s = counter.clock() - began
    return _Run(counter.operations, max(0.0, took_s - counter.inside_s))


def _outside(run: _Run, measurement: Measurement | None) -> float:
    """Share of a call outside of torch's operations: the smaller one of two estimates.

    One is what the measured time exceeds the operations by, the other what passed between them
    while they were counted. A disturbance enlarges one of them, work outside of torch both.
    """
    if measurement is None:
        return 0.0
    least_s = min(measurement.samples_s)
    spent_s = sum(operation.seconds for operation in run.operations)
    outside_s = min(run.outside_s, least_s - spent_s)
    return max(0.0, outside_s / least_s) if least_s > 0 else 0.0


def _functions_outside(runs: _Runs, counter: OperationCounter, call_s: float) -> dict[str, float]:
    """Python functions outside of torch -> share of the time there."""
    times = max(1, min(MOST_SAMPLED, round(SAMPLED_S / max(call_s, 1e-6))))
    with _uncompiled(), StackSampler() as sampler, counter:
        for _ in range(times):
            counter.operations = []
            runs()
    return sampler.shares()


def _explained(found: _Study, runs: int, keeper: StateKeeper) -> Explanation:
    """Put together what was found."""
    roofline = Roofline(found.ceilings)
    pairs = [(op, _estimate(op, roofline)) for op in found.operations]
    parts = parts_of(pairs, found.outside)
    uncounted: dict[str, float] = defaultdict(float)
    for operation, _, share in parts:
        if not operation.counted:
            uncounted[operation.name] += share
    unknown = sum(uncounted.values())
    shares = _shares(parts) if unknown <= MOST_UNCOUNTED else {}
    total_s = sum(est.seconds for _, est in pairs)
    regime = limit_of(shares, unknown, found.outside)
    help = advice(parts, regime, roofline, found.functions, uncounted)
    if found.measurement:
        help = _with_measured(help, regime, found.measurement.median_s, total_s)
    return Explanation(
        flops=sum(op.flops for op in found.operations),
        bytes=sum(sum(op.bytes.values()) for op in found.operations),
        predicted_s=total_s,
        measurement=found.measurement,
        shares=shares,
        help=help,
        uncounted=dict(uncounted),
        operations=pairs,
        ceilings=found.ceilings,
        outside=found.outside,
        functions=found.functions,
        runs=runs,
        changed=keeper.changed,
        left=keeper.left,
    )


def _with_measured(help: str, regime: Limit, measured_s: float, predicted_s: float) -> str:
    """The advice, where the measured time is about what was predicted; else what comes first."""
    if measured_s < MUCH_FASTER * predicted_s:
        return "nothing: it is faster than predicted (compiled code, or a nearer cache)"
    warning = profile_first(regime, measured_s, predicted_s)
    return f"{help}. But {warning}" if warning else help


def _estimate(operation: Operation, roofline: Roofline) -> Estimate:
    """The roofline's estimate; for what cannot be counted the time that it takes by itself."""
    if operation.counted:
        return roofline.predict_operation(operation)
    if roofline.ceilings.measured:
        return Estimate(operation.seconds, OVERHEAD)
    return Estimate(0.0, OVERHEAD)  # nobody has measured it on the machine of the data sheet


def _shares(parts: list[Part]) -> dict[Regime, float]:
    """Regime -> share of the predicted seconds, of the operations that are counted."""
    shares: dict[Regime, float] = dict.fromkeys((OVERHEAD, MEMORY, COMPUTE), 0.0)
    counted = [part.estimate for part in parts if part.operation.counted]
    total_s = sum(estimate.seconds for estimate in counted) or 1.0
    for seconds, regime in counted:
        shares[regime] += seconds / total_s
    return shares
