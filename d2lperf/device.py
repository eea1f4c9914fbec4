"""Which accelerators there are, and waiting for them.

Everything goes through `torch.accelerator`: devices of NVIDIA, AMD, Intel and Apple, and of any
other backend of torch, count as "a GPU" here.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from contextlib import suppress

import torch
import torch.distributed as dist

from d2lperf import _compat


def cpu() -> torch.device:
    """Return the CPU device, `torch.device("cpu")`."""
    return torch.device("cpu")


def accelerator_type() -> str:
    """Return the type of this machine's accelerator, "cuda" (as in the book) if there is none."""
    device = torch.accelerator.current_accelerator()
    if device is None or not torch.accelerator.is_available():
        return "cuda"
    return device.type


def in_use() -> bool:
    """Return whether this process has set up its accelerator; asking does not set it up."""
    module = torch.get_device_module(accelerator_type())
    return torch.accelerator.is_available() and getattr(module, "is_initialized", lambda: True)()


def gpu(i: int = 0) -> torch.device:
    """Return accelerator `i` by name, such as `torch.device("cuda:0")`, whether or not it is there.

    Args:
        i: number of the device, from 0.

    Raises:
        TypeError, ValueError: `i` is not an integer, or it is negative.
    """
    asked = f"gpu and try_gpu take the number of a device, 0 for the first, but got {i!r}"
    if isinstance(i, bool) or not isinstance(i, int):
        raise TypeError(asked)
    if i < 0:
        raise ValueError(f"{asked}. Negative numbers do not count from the end.")
    return torch.device(accelerator_type(), i)


def num_gpus() -> int:
    """Return how many accelerators this process may use; 0 on a machine without any."""
    return torch.accelerator.device_count() if torch.accelerator.is_available() else 0


def try_gpu(i: int = 0) -> torch.device:
    """Return accelerator `i` if it is there, otherwise the CPU.

    Args:
        i: as for `gpu`. If another one than 0 is missing, there is a warning.
    """
    device, there = gpu(i), num_gpus()
    if i < there:
        return device
    if i > 0:
        warnings.warn(
            f"try_gpu({i}) asked for accelerator number {i}, but this process sees {there} "
            f"(numbers start at 0): using the CPU instead. try_all_gpus() lists what there is.",
            stacklevel=2,
        )
    return cpu()


def try_all_gpus() -> list[torch.device]:
    """Return every accelerator this process may use, or `[cpu()]` where there is none."""
    return [gpu(i) for i in range(num_gpus())] or [cpu()]


def synchronize() -> None:
    """Wait until every accelerator that this process uses is idle; on a CPU, return at once."""
    if wait := synchronizer():
        wait()


def synchronizer() -> Callable[[], None] | None:
    """Return a function that waits for the accelerators in use now, or None if there are none."""
    devices = [device for device in try_all_gpus() if _has_work(device)] if in_use() else []

    def wait() -> None:
        for device in devices:
            torch.accelerator.synchronize(device)

    return wait if devices else None


def _has_work(device: torch.device) -> bool:
    """Whether this process may have work on an accelerator."""
    # To wait for a device without a context would create it: a second, and 100s of MB. And of
    # several processes on a machine none should wait for the devices of the others.
    if device.type == "cuda":
        return _compat.has_context(device.index)
    reserved = _memory_reserved(device)
    if reserved is not None:
        return reserved > 0
    if dist.is_available() and dist.is_initialized():
        return device.index == torch.accelerator.current_device_index()
    return True


def _memory_reserved(device: torch.device) -> int | None:
    """Bytes that this process has on an accelerator; None where its kind does not tell."""
    for module in (torch.accelerator, torch.get_device_module(device)):
        with suppress(AttributeError, RuntimeError):
            return module.memory_reserved(device)
    return None
