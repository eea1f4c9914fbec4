"""Which accelerators there are, and waiting for them.

Everything goes through `torch.accelerator`: devices of NVIDIA, AMD, Intel and Apple, and of any
other backend of torch, count as "a GPU" here.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable

import torch

__all__ = [
    "accelerator_type",
    "cpu",
    "gpu",
    "in_use",
    "num_gpus",
    "synchronize",
    "synchronizer",
    "try_all_gpus",
    "try_gpu",
]


def _check_index(i: int, name: str) -> int:
    if isinstance(i, bool) or not isinstance(i, int):
        raise TypeError(
            f"{name} takes the number of a device, 0 for the first, but got {i!r}. Write {name}(0)."
        )
    if i < 0:
        raise ValueError(
            f"{name} takes the number of a device, 0 for the first, but got {i}. "
            "Negative numbers do not count from the end."
        )
    return i


def cpu() -> torch.device:
    """Return the CPU device.

    >>> cpu()
    device(type='cpu')
    """
    return torch.device("cpu")


def accelerator_type() -> str:
    """Return the type of this machine's accelerator, such as "cuda", "xpu" or "mps".

    Without an accelerator it is "cuda", which is what the book's `gpu` names.
    """
    if not torch.accelerator.is_available():
        return "cuda"
    return torch.accelerator.current_accelerator().type


def in_use() -> bool:
    """Return whether this process has set up its accelerator; asking does not set it up."""
    if not torch.accelerator.is_available():
        return False
    module = torch.get_device_module(accelerator_type())
    return getattr(module, "is_initialized", lambda: True)()


def gpu(i: int = 0) -> torch.device:
    """Return accelerator `i` by name, whether or not this machine has it.

    Args:
        i: number of the device, from 0.

    Returns:
        The device, such as `torch.device("cuda:0")` or `torch.device("xpu:0")`.

    Raises:
        TypeError: `i` is not an integer.
        ValueError: `i` is negative.
    """
    return torch.device(accelerator_type(), _check_index(i, "gpu"))


def num_gpus() -> int:
    """Return how many accelerators this process may use; 0 on a machine without any."""
    return torch.accelerator.device_count() if torch.accelerator.is_available() else 0


def try_gpu(i: int = 0) -> torch.device:
    """Return accelerator `i` if it is there, otherwise the CPU.

    Args:
        i: number of the device, from 0.

    Returns:
        The device. A missing device 0 gives the CPU without a word; a missing device with a
        higher number gives the CPU and a warning.

    Raises:
        TypeError: `i` is not an integer.
        ValueError: `i` is negative.
    """
    _check_index(i, "try_gpu")
    there = num_gpus()
    if i < there:
        return gpu(i)
    if i > 0:
        warnings.warn(
            f"try_gpu({i}) asked for accelerator number {i}, but this process sees {there} "
            f"(numbers start at 0): using the CPU instead. try_all_gpus() lists what there is.",
            UserWarning,
            stacklevel=2,
        )
    return cpu()


def try_all_gpus() -> list[torch.device]:
    """Return every accelerator this process may use, or `[cpu()]` where there is none."""
    return [gpu(i) for i in range(num_gpus())] or [cpu()]


def _used_accelerators() -> list[torch.device]:
    """The accelerators on which this process may have work.

    CUDA devices without a context are left out: synchronising one would create the context,
    which takes hundreds of megabytes and a second.
    """
    if not in_use():
        return []
    devices = [gpu(i) for i in range(num_gpus())]
    if accelerator_type() != "cuda":
        return devices
    has_context = getattr(torch._C, "_cuda_hasPrimaryContext", lambda index: True)
    return [device for device in devices if has_context(device.index)]


def synchronize() -> None:
    """Wait until every accelerator that this process uses is idle.

    Without an accelerator there is nothing to wait for: operations on a CPU return when done.
    """
    wait = synchronizer()
    if wait is not None:
        wait()


def synchronizer() -> Callable[[], None] | None:
    """Return a function that waits for the accelerators in use now, or None if there are none.

    A timing loop asks once and calls the result for each sample, so a CPU run pays nothing.
    """
    devices = _used_accelerators()
    if not devices:
        return None

    def wait() -> None:
        for device in devices:
            torch.accelerator.synchronize(device)

    return wait
