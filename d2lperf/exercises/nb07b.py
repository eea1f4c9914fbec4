"""Checkers of notebook 07b, what a second device costs.

They compare sums, counts and bytes, on the CPU and in one process. Nothing is timed.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch

from d2lperf.exercises import Feedback, checker, failed, gave, passed, show
from d2lperf.exercises.values import as_number

__all__ = ["Wires", "check_ring", "check_smallest_part"]


# -------------------------------------------------------------------------------------- ring


class Wires:
    """Connections between devices: they deliver copies, and count bytes.

    Args:
        k: number of devices.

    Attributes:
        sent: bytes that each device has sent.
        received: bytes that each device has received.
    """

    def __init__(self, k: int):
        self.sent, self.received = [0] * k, [0] * k

    def send(self, source: int, target: int, piece: torch.Tensor) -> torch.Tensor:
        """Return a tensor as it arrives.

        Args:
            source: number of the device that sends.
            target: number of the device that receives.
            piece: what is sent, of any shape.

        Raises:
            ValueError: there is no such device, or it would send to itself.
        """
        for device in (source, target):
            if not 0 <= device < len(self.sent):
                raise ValueError(f"there is no device {device}: they are 0 to {len(self.sent) - 1}")
        if source == target:
            raise ValueError(f"device {source} sends to itself: no wire is needed for that")
        self.sent[source] += piece.nbytes
        self.received[target] += piece.nbytes
        return piece.clone()


@checker
def check_ring(ring_allreduce: Callable[[list, Wires], None]) -> Feedback:
    """Check an all-reduce in which no device sends or receives more than it must.

    Args:
        ring_allreduce: function of k vectors of equal length, changed in place, and `Wires`.
    """
    for k, length in ((1, 5), (2, 6), (4, 12), (5, 1000), (4, 10), (5, 3)):
        data = [torch.arange(float(length)) * 10**i + i for i in range(min(k, 3))]
        data += [torch.full((length,), 2.0**i) for i in range(len(data), k)]
        right, wires = sum(data), Wires(k)
        given, start = list(data), [vector.clone() for vector in data]
        ring_allreduce(data, wires)
        what = f"{k} device(s), vectors of {length} numbers"
        for i, vector in enumerate(given):
            if vector.shape != right.shape:
                return failed(f"{what}: device {i} ends with {show(vector)}")
            if not torch.equal(vector, right):
                place = int((vector != right).nonzero()[0])
                return failed(
                    f"{what}: device {i} ends with {vector[place]:g} at place {place}, where the "
                    f"devices had {[before[place].item() for before in start]}"
                )
        nbytes = given[0].nbytes
        if sum(wires.sent) < 2 * (k - 1) * nbytes:
            return failed(
                f"{what}, {nbytes} bytes each: only {sum(wires.sent)} bytes went through the "
                "wires; what one device knows of another must have come through them"
            )
        piece = math.ceil(length / k) * given[0].element_size()
        for does, counts in (("sends", wires.sent), ("receives", wires.received)):
            worst = max(range(k), key=counts.__getitem__)
            if counts[worst] > 2 * (k - 1) * piece:
                return failed(
                    f"{what}: device {worst} {does} {counts[worst]} bytes, more than 2 (k - 1) "
                    f"pieces of {piece} bytes: is the work shared out?"
                )
    return passed("The sum is everywhere, and every device sent and received its share.")


# ----------------------------------------------------------------------------- smallest_part


@checker
def check_smallest_part(smallest_part: Callable[..., int]) -> Feedback:
    """Check the smallest part of a batch for which communication is cheap enough.

    Args:
        smallest_part: function of the fraction of time to be spent on computing, the number of
            workers, seconds for an image, bytes, bytes per second and seconds to start an
            all-reduce, that returns a number of images.
    """
    for target, n, image_s, nbytes, bandwidth, start_s in (
        (0.5, 2, 1e-3, 1_000_000, 1e8, 0.0),
        (0.75, 2, 1e-3, 1_000_000, 1e9, 2e-3),
        (0.9, 8, 2e-4, 517_552, 1e9, 5e-4),
        (0.95, 1000, 1e-4, 100_000_000, 1e10, 1e-3),
        (0.9, 1, 1e-3, 517_552, 1e9, 0.0),
        (0.5, 4, 1.0, 100, 1e9, 1e-4),
    ):
        found = smallest_part(target, n, image_s, nbytes, bandwidth, start_s)
        call = gave(found, smallest_part, target, n, image_s, nbytes, bandwidth, start_s)
        part = as_number(found)
        if part is None or not float(part).is_integer():
            return failed(f"{call}; images are a whole number")
        if part < 1:
            return failed(f"{call}; at least one image is needed")
        sending_s = start_s + 2 * (n - 1) / n * nbytes / bandwidth

        def share(m, image_s=image_s, sending_s=sending_s):
            return m * image_s / (m * image_s + sending_s)

        if share(part) < target - 1e-9:
            return failed(
                f"{call}; with so many only {100 * share(part):.2f} % of the time is computing, "
                f"not {100 * target:g} %"
            )
        if part > 1 and share(part - 1) > target + 1e-9:
            return failed(f"{call}, which is more than needed")
    return passed("The smallest part for each of six machines.")
