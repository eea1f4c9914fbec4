"""What would help a function, and how much at most (Amdahl's law on its parts)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Literal, NamedTuple

from d2lperf.ceilings import CONVOLUTION
from d2lperf.counting import Operation
from d2lperf.counting.classes import POINTWISE, PRODUCT
from d2lperf.roofline import COMPUTE, MEMORY, OVERHEAD, Estimate, Roofline, rate_key

__all__ = ["Lever", "Limit", "Part", "advice", "levers", "profile_first"]

Limit = Literal["overhead", "memory", "compute", "outside of torch", "not known"]
OUTSIDE: Limit = "outside of torch"
UNKNOWN: Limit = "not known"
NEW_MEMORY, FUNCTIONS = "new memory", "functions"
WORTH = 1.2  # a lower precision is advised where its products are faster by this
MUCH_SLOWER = 2.0  # measured / predicted above which advice is about the smaller part of the time
HELP = {
    OVERHEAD: "fewer and larger operations: a larger batch, torch.compile, on a GPU CUDA graphs",
    NEW_MEMORY: "results that reuse memory (out=, in place): here large ones get new pages",
    POINTWISE: "fusion (torch.compile): one pass over the data for several operations; bfloat16",
    PRODUCT: "a larger batch: what a product reads then serves more rows; smaller numbers",
    MEMORY: "fewer passes over the data; smaller numbers, such as bfloat16",
    FUNCTIONS: "cheaper functions, such as ReLU for GELU",
    COMPUTE: "fewer FLOPs, or a routine nearer to the ceiling",
}
ITEM = "_local_scalar_dense"  # what `.item()` runs


class Part(NamedTuple):
    """An operation, what the roofline predicts for it, and its share of the measured time."""

    operation: Operation
    estimate: Estimate
    share: float


class Lever(NamedTuple):
    """Something to do, and by which factor the function is faster afterwards, at most."""

    what: str
    gain: float


class Precision(NamedTuple):
    """The dtype with the fastest products, and how many times as fast they are."""

    dtype: str
    gain: float


def advice(
    parts: list[Part],
    regime: Limit,
    roofline: Roofline,
    outside: dict[str, float],
    uncounted: dict[str, float],
) -> str:
    """Return what would help against the regime that the function is in.

    Args:
        parts: of the function.
        regime: what it waits for; "outside of torch" and "not known" are two of them.
        roofline: with the ceilings.
        outside: Python functions outside of torch -> share of the time there.
        uncounted: operations that cannot be counted -> share of the time.
    """
    if regime == OUTSIDE:
        return _advice_outside(parts, outside)
    if regime == UNKNOWN:
        return f"not known: nobody counts the work of {_largest(uncounted)}"
    seconds: dict[str, float] = defaultdict(float)
    for operation, estimate, _ in parts:
        if estimate.regime == regime:
            seconds[_cause(operation, regime)] += estimate.seconds
    cause = _largest(seconds)
    faster = _faster(cause, roofline) if regime == COMPUTE and cause != FUNCTIONS else None
    if faster:
        where = "here" if roofline.ceilings.measured else "there"
        times = f"{faster.gain:.1f} times as fast {where}"
        return f"lower precision: products in {faster.dtype} are {times}"
    return HELP.get(cause, HELP[regime])


def profile_first(regime: Limit, measured_s: float, predicted_s: float) -> str:
    """Return a warning where the ceilings explain less than half of a call's time, "" elsewhere.

    Time outside of torch and in what is not counted needs no warning: the advice is about that.

    Args:
        regime: what the function waits for.
        measured_s: seconds of a call, nan where it was not measured.
        predicted_s: seconds of a call at the ceilings.
    """
    if regime in (OUTSIDE, UNKNOWN) or not measured_s > MUCH_SLOWER * predicted_s:
        return ""
    explained = f"the ceilings explain {predicted_s / measured_s:.0%} of the time"
    return f"{explained}: look at a profile (torch.profiler) first"


def _largest(amounts: Mapping[str, float]) -> str:
    return max(amounts, key=amounts.__getitem__)


def _cause(operation: Operation, regime: str) -> str:
    """Why an operation is in its regime: its kind, its place in memory, or its dtype."""
    if regime == MEMORY:
        return NEW_MEMORY if NEW_MEMORY in operation.bytes else operation.kind
    if regime == COMPUTE and operation.functions + operation.activations:
        return FUNCTIONS
    if regime == COMPUTE:
        return str(rate_key(operation)).removeprefix("torch.")
    return regime


def _faster(name: str, roofline: Roofline) -> Precision | None:
    """The precision with faster products than the rate of this name, or None."""
    rates = roofline.ceilings.flops
    own = rates.get(name, rates.get("float32" if name == CONVOLUTION else name))
    floating = {k: rate for k, rate in rates.items() if k not in ("int8", CONVOLUTION)}
    if own is None or not floating:
        return None
    best = max(floating, key=floating.__getitem__)
    gain = floating[best] / own
    return Precision(best, gain) if gain > WORTH else None


def _advice_outside(parts: list[Part], outside: dict[str, float]) -> str:
    """What helps a function that works in Python or waits for data."""
    where = ", ".join(f"{name} {share:.0%}" for name, share in list(outside.items())[:3])
    items = sum(operation.name == ITEM for operation, _, _ in parts)
    text = "prepare the data in other processes (DataLoader with num_workers), "
    text += "transform them once and keep the result"
    if items:
        text += f", call .item() less often ({items} in a call, the optimizer's included)"
    return f"{text}. The time outside goes to: {where}" if where else text


def levers(
    parts: list[Part], outside: float, functions: dict[str, float], roofline: Roofline
) -> list[Lever]:
    """Return what would help, with the gain at most, the largest first.

    Each gain is 1 / (1 - what is saved), where the saving is the share of the measured time that
    the change can remove at best; the levers do not add up.

    Args:
        parts: of the function.
        outside: share of the time outside of torch's operations.
        functions: Python functions there -> share of that time.
        roofline: with the ceilings.
    """
    saved: dict[str, float] = defaultdict(float)
    names = ", ".join(list(functions)[:2]) or "Python code"
    saved[f"take what {names} does out of the step: worker processes, results kept"] = outside
    passes = [part for part in parts if _is_pass(part)]
    for part in parts:
        what, share = _saving(part, roofline, len(passes))
        saved[what] += share
    found = [Lever(what, 1 / max(1e-3, 1 - share)) for what, share in saved.items() if share > 0]
    return sorted(found, key=lambda lever: -lever.gain)


class _Saving(NamedTuple):
    what: str
    share: float


def _is_pass(part: Part) -> bool:
    """Whether a part is one pass of a pointwise operation over data in memory."""
    return part.operation.kind == POINTWISE and part.estimate.regime == MEMORY


def _saving(part: Part, roofline: Roofline, passes: int) -> _Saving:
    """What would help one operation, and how much of the time that saves at best."""
    operation, estimate, share = part
    if not operation.counted:
        return _Saving(f"do without {operation.name}, or do it once", share)
    if estimate.regime == OVERHEAD:
        return _Saving(HELP[OVERHEAD], share)
    if NEW_MEMORY in operation.bytes and estimate.regime == MEMORY:
        slower = roofline.bandwidth("memory") / roofline.bandwidth(NEW_MEMORY)
        return _Saving(HELP[NEW_MEMORY], share * max(0.0, 1 - 1 / slower))
    if _is_pass(part):
        return _Saving(HELP[POINTWISE], share * (1 - 1 / passes))
    if estimate.regime == COMPUTE and operation.kind == PRODUCT:
        faster = _faster(_cause(operation, COMPUTE), roofline)
        if faster:
            return _Saving(f"products in {faster.dtype}", share * (1 - 1 / faster.gain))
    return _Saving("", 0.0)
