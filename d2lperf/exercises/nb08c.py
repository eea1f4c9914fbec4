"""Checkers of notebook 08c, model parallelism.

They check bytes, counts and the order of a schedule. Nothing is timed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from d2lperf.exercises import Feedback, call_text, checker, failed, gave, passed, show
from d2lperf.exercises.values import as_list, as_whole

__all__ = ["check_cheaper", "check_micro", "check_schedule"]


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
