"""What limits work, what fits into memory, what communication costs: formulas of the notebooks.

Pure functions of numbers, in bytes and seconds. Notebooks 05b, 06, 06b, 08b, 08c and 09 derive
them. The calculators of the web page (`docs/calculators`) compute the same, and a test compares
both.
"""

from __future__ import annotations

import math
from typing import NamedTuple

__all__ = [
    "Held",
    "Traffic",
    "WorkTimes",
    "all_reduce_s",
    "all_reduce_traffic",
    "communication_share",
    "pipeline_idle",
    "training_bytes",
    "work_times",
]

# Bytes of a weight and its gradient, of the optimizer's 32-bit copy of a weight, and of a kept
# number of the activations. autocast keeps a 16-bit copy of each weight for the backward pass
# (notebook 06b); the last one is the mixed precision of ZeRO (notebook 08b).
_PRECISIONS = {
    "float32": (4, 4, 0, 4),
    "autocast": (4 + 2, 4, 0, 2),
    "16 bit": (2, 2, 4, 2),
}
_AVERAGES = {"sgd": 0, "momentum": 1, "adam": 2}  # running averages, each of 4 bytes


# ------------------------------------------------------------------------------ which limit?


class WorkTimes(NamedTuple):
    """Seconds that work takes at least by each of three limits."""

    overhead: float
    memory: float
    arithmetic: float

    @property
    def seconds(self) -> float:
        """The longest of the three."""
        return max(self)

    @property
    def limit(self) -> str:
        """Which one that is: "overhead", "memory" or "arithmetic"."""
        return self._fields[self.index(self.seconds)]


def work_times(
    flops: float,
    bytes: float,
    calls: float,
    *,
    flops_per_s: float,
    bytes_per_s: float,
    overhead_s: float,
) -> WorkTimes:
    """Return the times of the roofline model with overhead (notebook 05b, section 5).

    Each call takes the longest of its overhead, its bytes by the bandwidth and its FLOPs by the
    rate (S. Williams, A. Waterman, D. Patterson, *CACM* 52(4), 2009, and the overhead). The calls
    are taken to share the work equally.

    Args:
        flops: FLOPs of all calls together.
        bytes: bytes that they read and write together.
        calls: how many there are.
        flops_per_s: rate of the device.
        bytes_per_s: bandwidth of its memory.
        overhead_s: seconds that a call takes at least.

    >>> work_times(2e9, 12e6, 1, flops_per_s=1e11, bytes_per_s=1e10, overhead_s=2e-6).limit
    'arithmetic'
    """
    return WorkTimes(calls * overhead_s, bytes / bytes_per_s, flops / flops_per_s)


# -------------------------------------------------------------------------------- what fits?


class Held(NamedTuple):
    """Bytes that each device holds in training, by part."""

    weights: float
    gradients: float
    optimizer: float
    activations: float

    @property
    def total(self) -> float:
        """All parts together."""
        return sum(self)


def training_bytes(
    parameters: float,
    *,
    optimizer: str = "adam",
    precision: str = "float32",
    batch: float = 1,
    kept: float = 0,
    stage: int = 0,
    devices: int = 1,
) -> Held:
    """Return the bytes that each device holds in a training step (notebooks 06, 06b and 08b).

    ZeRO divides the optimizer's state over the devices from stage 1 on, the gradients from stage 2
    on, the weights at stage 3, which is FSDP2 (S. Rajbhandari et al., arXiv:1910.02054). Buffers,
    and the whole pieces that stage 3 gathers while they compute, come on top.

    Args:
        parameters: how many numbers are trained.
        optimizer: "sgd", "momentum" or "adam": 0, 1 or 2 running averages in 32 bits.
        precision: "float32", "autocast" (weights in 32 bits, products in 16 bits) or "16 bit"
            (weights and gradients in 16 bits; the optimizer has a copy in 32 bits).
        batch: examples on each device.
        kept: numbers of the activations that are kept for the backward pass of one example.
        stage: 0 (DDP) to 3.
        devices: how many share the work.

    Raises:
        ValueError: the optimizer, the precision or the stage is unknown.

    >>> training_bytes(1e9).total
    16000000000.0
    """
    if optimizer not in _AVERAGES or precision not in _PRECISIONS or stage not in range(4):
        raise ValueError(
            f"unknown: optimizer {optimizer!r}, precision {precision!r} or stage {stage!r}; there "
            f"are {', '.join(_AVERAGES)}, {', '.join(_PRECISIONS)}, and the stages 0 to 3"
        )
    weight, gradient, copy, number = _PRECISIONS[precision]
    state = copy + 4 * _AVERAGES[optimizer]

    def share(from_stage: int) -> int:
        return devices if stage >= from_stage else 1

    return Held(
        weights=parameters * weight / share(3),
        gradients=parameters * gradient / share(2),
        optimizer=parameters * state / share(1),
        activations=batch * kept * number,
    )


# ----------------------------------------------------------------- what does communication cost?


class Traffic(NamedTuple):
    """What an all-reduce sends.

    Attributes:
        chain: messages of the longest chain, in which each waits for the one before.
        messages: messages of the busiest worker.
        share: bytes of the busiest worker, relative to the data.
    """

    chain: float
    messages: float
    share: float


def all_reduce_traffic(way: str, workers: int) -> Traffic:
    """Return what an all-reduce sends (notebook 09, section 4).

    Args:
        way: "one server", "every worker serves", "ring" or "halving and doubling" (R. Thakur et
            al., *IJHPCA* 19(1), 2005; exact where the number of workers is a power of two).
        workers: how many add up their data.

    Raises:
        ValueError: the way is unknown.

    >>> all_reduce_traffic("ring", 4)
    Traffic(chain=6, messages=6, share=1.5)
    """
    turns, levels = 2 * (workers - 1), 2 * math.ceil(math.log2(workers))
    found = {
        "one server": Traffic(2, turns, turns),
        "every worker serves": Traffic(2, turns, turns / workers),
        "ring": Traffic(turns, turns, turns / workers),
        "halving and doubling": Traffic(levels, levels, turns / workers),
    }
    if way not in found:
        raise ValueError(f"unknown way {way!r}; there are {', '.join(found)}")
    return found[way]


def all_reduce_s(
    way: str,
    workers: int,
    nbytes: float,
    *,
    latency_s: float,
    message_s: float,
    bytes_per_s: float,
) -> float:
    """Return the seconds of an all-reduce (notebook 09, section 4).

    Args:
        way: as in `all_reduce_traffic`.
        workers: how many add up their data, each with a link of its own.
        nbytes: bytes of the data of each worker.
        latency_s: seconds that a message is under way. Messages that do not wait for each other
            are under way at the same time.
        message_s: seconds that a message occupies its link, however small it is.
        bytes_per_s: bandwidth of a link in each direction.

    >>> all_reduce_s("ring", 4, 100e6, latency_s=0, message_s=0, bytes_per_s=10e9)
    0.015
    """
    chain, messages, share = all_reduce_traffic(way, workers)
    return chain * latency_s + messages * message_s + share * nbytes / bytes_per_s


def communication_share(compute_s: float, communication_s: float) -> float:
    """Return the share of a step that is communication, if nothing computes meanwhile.

    >>> communication_share(3.0, 1.0)
    0.25
    """
    return communication_s / (compute_s + communication_s)


def pipeline_idle(stages: int, micro: int) -> float:
    """Return the share of the time that a pipeline is idle (notebook 08c, section 3).

    Args:
        stages: how many devices the layers are divided over.
        micro: micro-batches of a step.

    >>> pipeline_idle(4, 8)
    0.2727272727272727
    """
    return (stages - 1) / (micro + stages - 1)
