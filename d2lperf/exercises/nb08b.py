"""Checkers of notebook 08b, sharding a model over several devices.

They check bytes and counts. Nothing is timed.
"""

from __future__ import annotations

from collections.abc import Callable

from d2lperf.exercises import Feedback, checker, failed, gave, passed
from d2lperf.exercises.values import as_whole, close, off

__all__ = ["check_devices", "check_held"]


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
