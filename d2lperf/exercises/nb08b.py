"""Checkers of notebook 08b, sharding a model over several devices.

They check bytes, counts and the order of a schedule. Nothing is timed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from d2lperf.exercises import Feedback, call_text, checker, failed, gave, passed, show
from d2lperf.exercises.values import as_list, as_whole, close, off

__all__ = ["check_cheaper", "check_devices", "check_held", "check_micro", "check_schedule"]


# -------------------------------------------------------------------------------------- held


@checker
def check_held(held: Callable[..., float]) -> Feedback:
    """Check the bytes that each rank holds for a parameter.

    Args:
        held: function of the stage of ZeRO (0 to 3), the number of ranks and the bytes of a
            weight, its gradient and its part of the optimizer's state.
    """
    shares = {0: "nothing", 1: "the optimizer's state", 2: "that and the gradients", 3: "all"}
    for stage, n, weight, gradient, state in [
        (0, 8, 4, 4, 8),
        (1, 8, 4, 4, 8),
        (2, 8, 4, 4, 8),
        (3, 8, 4, 4, 8),
        (1, 64, 2, 2, 12),
        (2, 64, 2, 2, 12),
        (3, 64, 2, 2, 12),
        (3, 1, 2, 2, 12),
        (1, 4, 2, 4, 12),
        (2, 4, 2, 4, 12),
    ]:
        # Stage 0 shards nothing, each further one the next of these.
        order = [state, gradient, weight]
        wanted = sum(order[stage:]) + sum(order[:stage]) / n
        found = held(stage, n, weight, gradient, state)
        if not close(found, wanted):
            return failed(
                f"{gave(found, held, stage, n, weight, gradient, state)}, which is "
                f"{off(found, wanted)}: stage {stage} shards {shares[stage]}"
            )
    return passed("What is sharded is divided by the ranks, the rest is there on each of them.")


# ----------------------------------------------------------------------------------- devices


def _fits(n: int, parameters: int, kept: int, memory: int) -> bool:
    """Whether both moments of a step with Adam in 32 bits fit; exact for whole numbers."""
    return 12 * parameters + n * kept <= n * memory and 16 * parameters <= n * memory


@checker
def check_devices(fewest_devices: Callable[[int, int, int], int | None]) -> Feedback:
    """Check the fewest processes with which a model's training step fits.

    Args:
        fewest_devices: function of the number of parameters, the bytes of the activations in each
            process and the bytes of a device that returns a whole number or None.
    """
    for parameters, kept, memory in [
        (1_000, 0, 4_000),  # the end of the backward pass decides, and just fits
        (1_000, 4_000, 16_000),  # both moments just fit
        (1_000, 10_000, 16_000),  # its beginning decides, and just fits
        (1_000, 10_001, 16_000),
        (7_000_000_000, 38_000_000_000, 80_000_000_000),
        (7_000_000_000, 60_000_000_000, 80_000_000_000),
        (175_000_000_000, 20_000_000_000, 80_000_000_000),
        (1_000, 15_999, 16_000),
        (1_000, 16_000, 16_000),  # activations alone fill the device
        (1_000, 20_000, 16_000),
    ]:
        found = fewest_devices(parameters, kept, memory)
        call = gave(found, fewest_devices, parameters, kept, memory)
        if kept >= memory:
            if found is not None:
                return failed(f"{call}; the activations leave no memory, whatever the number")
            continue
        n = as_whole(found)
        if n is None or n < 1:
            return failed(f"{call}; wanted is a whole number from 1: some number is enough")
        if not _fits(n, parameters, kept, memory):
            begins, ends = 12 * parameters / n + kept, 16 * parameters / n
            return failed(
                f"{call}; each then holds {begins:,.0f} bytes when the backward pass begins and "
                f"{ends:,.0f} when it ends"
            )
        if n > 1 and _fits(n - 1, parameters, kept, memory):
            return failed(f"{call}; these are enough, but fewer would be")
    return passed("Both moments fit, and activations do not shrink with the number of devices.")


# ------------------------------------------------------------------------------------- micro


@checker
def check_micro(fewest: Callable[[int, float], int]) -> Feedback:
    """Check the fewest micro-batches that keep a pipeline's bubble small.

    Args:
        fewest: function of the number of stages and of the largest share of idle time.
    """
    for stages, share in [(2, 0.5), (2, 0.2), (4, 0.25), (4, 0.3), (8, 0.1), (8, 0.06), (1, 0.1)]:
        found = fewest(stages, share)
        call, micro = gave(found, fewest, stages, share), as_whole(found)
        if micro is None or micro < 1:
            return failed(f"{call}; wanted is a whole number from 1")
        idle = (stages - 1) / (micro + stages - 1)
        if idle > share + 1e-12:
            return failed(f"{call}; with so many micro-batches the bubble is {idle:.3f}")
        if micro > 1 and (stages - 1) / (micro + stages - 2) <= share + 1e-12:
            return failed(f"{call}; these are enough, but fewer would be")
    return passed("Enough to fill the pipeline, and no more.")


# ----------------------------------------------------------------------------------- cheaper


@checker
def check_cheaper(cheaper: Callable[[int, int, int, int], str]) -> Feedback:
    """Check which way of dividing a block sends fewer bytes.

    Args:
        cheaper: function of the width, the inner width, the rows of a batch and the number of
            processes that returns "tensor" or "data".
    """
    for width, wide, batch, n in [
        (128, 512, 64, 2),
        (128, 512, 1024, 2),
        (1024, 4096, 2048, 8),
        (1024, 4096, 8192, 8),
        (4096, 512, 1024, 2),
        (64, 2048, 1024, 64),
        (256, 512, 512, 4),  # as many bytes, not fewer
    ]:
        found = cheaper(width, wide, batch, n)
        call = gave(found, cheaper, width, wide, batch, n)
        if found not in ("tensor", "data"):
            return failed(f'{call}; wanted is "tensor" or "data"')
        gradients, activations = 2 * width * wide, 2 * batch * width  # numbers
        if found != ("tensor" if activations < gradients else "data"):
            return failed(
                f"{call}, which sends no fewer bytes. Count what a step all-reduces: gradients of "
                "two matrices, or activations in two passes"
            )
    return passed("The batch against the inner width decides.")


# ---------------------------------------------------------------------------------- schedule

_TASK = re.compile(r"([FB])(\d+)")


def _wait_for(task: str, stage: int, stages: int) -> tuple[str, int] | None:
    """What must be done, and where, before a task can begin."""
    if task[0] == "F":
        return (task, stage - 1) if stage else None
    return (task, stage + 1) if stage + 1 < stages else ("F" + task[1:], stage)


def _turns(orders: Sequence[Sequence[str]]) -> tuple[int, list[str]]:
    """Turns until all is done if each task takes one, and the tasks that never begin."""
    done: dict[tuple[str, int], int] = {}
    place, turn = [0] * len(orders), 0
    while any(i < len(order) for i, order in zip(place, orders)):
        turn += 1
        ready = []
        for stage, order in enumerate(orders):
            if place[stage] < len(order):
                task = order[place[stage]]
                needed = _wait_for(task, stage, len(orders))
                if needed is None or done.get(needed, turn) < turn:
                    ready.append((task, stage))
        if not ready:
            return turn, [
                f"{order[i]} on stage {stage}"
                for stage, (i, order) in enumerate(zip(place, orders))
                if i < len(order)
            ]
        for task, stage in ready:
            done[task, stage] = turn
            place[stage] += 1
    return turn, []


def _wrong_tasks(order: Sequence[Any], micro: int) -> str:
    """Which tasks of a stage are not as they should be; "" where all are."""
    odd = [task for task in order if not isinstance(task, str) or not _TASK.fullmatch(task)]
    if odd:
        return f'{show(odd[0])} is not of the form "F0" or "B0"'
    if sorted(order) != sorted(f"{kind}{i}" for kind in "FB" for i in range(micro)):
        return "every micro-batch goes forward once and backward once"
    return ""


def _in_flight(order: Sequence[str]) -> int:
    """The most micro-batches that have gone forward and not yet backward."""
    ahead = most = 0
    for task in order:
        ahead += 1 if task[0] == "F" else -1
        most = max(most, ahead)
    return most


@checker
def check_schedule(one_f_one_b: Callable[[int, int, int], list[str]]) -> Feedback:
    """Check the order of forward and backward passes of a pipeline under 1F1B.

    Args:
        one_f_one_b: function of the stage, the number of stages and the number of micro-batches
            that returns a list such as ["F0", "F1", "B0", "B1"].
    """
    for stages, micro in [(1, 3), (2, 2), (2, 4), (3, 5), (4, 8), (4, 4)]:
        orders = []
        for stage in range(stages):
            call = call_text(one_f_one_b, stage, stages, micro)
            found = one_f_one_b(stage, stages, micro)
            order = as_list(found)
            problem = "wanted is a list" if order is None else _wrong_tasks(order, micro)
            if order is None or problem:
                return failed(f"{call} gave {show(found, 100)}; {problem}")
            most = _in_flight(order)
            if most > stages - stage:
                return failed(
                    f"{call} gave {show(found, 100)}; {most} micro-batches are in flight at a "
                    "time, more than stages - stage"
                )
            orders.append(order)
        what = f"{micro} micro-batches; the stages have the orders {show(orders, 150)}"
        turns, stuck = _turns(orders)
        if stuck:
            return failed(f"{what}: all wait forever ({', '.join(stuck)})")
        least = 2 * (micro + stages - 1)
        if turns > least:
            return failed(f"{what}: this order takes {turns} turns, more than GPipe's")
    return passed("No stage waits in vain, and few micro-batches are in flight.")
