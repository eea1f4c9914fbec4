"""Which devices there are, waiting for them, and a card that describes the machine.

Everything goes through `torch.accelerator`, so NVIDIA's, AMD's, Intel's and Apple's devices all
count as "a GPU" here.
"""

from __future__ import annotations

import html
import os
import platform
import re
import sys
import warnings
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from pathlib import Path

import torch

__all__ = [
    "Machine",
    "cpu",
    "describe_machine",
    "gpu",
    "num_gpus",
    "synchronize",
    "try_all_gpus",
    "try_gpu",
    "usable_cores",
]


# ------------------------------------------------------------------------------- devices


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


def _accelerator_type() -> str:
    """The kind of accelerator of this machine, 'cuda' where there is none (the book's default)."""
    if not torch.accelerator.is_available():
        return "cuda"
    return torch.accelerator.current_accelerator().type


def gpu(i: int = 0) -> torch.device:
    """Return accelerator `i` by name, whether or not this machine has it.

    Args:
        i: number of the device, from 0.

    Returns:
        `torch.device("cuda:0")` and the like; 'mps' or 'xpu' on machines of that kind.

    Raises:
        TypeError: `i` is not an integer.
        ValueError: `i` is negative.
    """
    return torch.device(_accelerator_type(), _check_index(i, "gpu"))


def num_gpus() -> int:
    """Return how many accelerators this process may use; 0 on a machine without any."""
    return torch.accelerator.device_count() if torch.accelerator.is_available() else 0


def try_gpu(i: int = 0) -> torch.device:
    """Return accelerator `i` if it is there, otherwise the CPU.

    Args:
        i: number of the device, from 0.

    Returns:
        The device. A missing device 0 is an everyday case and passes silently; asking for a
        higher one that is not there also gives the CPU, with a warning that says so.

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
            f"(numbers start at 0): using the CPU instead. Ask try_all_gpus() for what there is.",
            UserWarning,
            stacklevel=2,
        )
    return cpu()


def try_all_gpus() -> list[torch.device]:
    """Return every accelerator this process may use, or `[cpu()]` where there is none."""
    return [gpu(i) for i in range(num_gpus())] or [cpu()]


def _used_accelerators() -> list[torch.device]:
    """The accelerators on which this process has work, or may have.

    A device that was never touched is left alone: to synchronise it would create a context on
    it, which takes hundreds of megabytes and a second.
    """
    if not torch.accelerator.is_available():
        return []
    kind = _accelerator_type()
    module = getattr(torch, kind, None)
    if not getattr(module, "is_initialized", lambda: True)():
        return []
    devices = [torch.device(kind, i) for i in range(torch.accelerator.device_count())]
    has_context = getattr(torch._C, "_cuda_hasPrimaryContext", None) if kind == "cuda" else None
    return [d for d in devices if has_context is None or has_context(d.index)]


def synchronize() -> None:
    """Wait until every accelerator that this process has used is idle.

    Does nothing on a machine without one, where each operation has ended when it returns.
    """
    for device in _used_accelerators():
        torch.accelerator.synchronize(device)


def synchronizer() -> Callable[[], None] | None:
    """Return a cheap function that waits for the devices in use now, or None if there are none.

    The timing loops ask once and call the answer often, so that a run on a CPU pays nothing.
    """
    devices = _used_accelerators()
    if not devices:
        return None
    wait = torch.accelerator.synchronize

    def wait_for_all() -> None:
        for device in devices:
            wait(device)

    return wait_for_all


# ---------------------------------------------------------------------- the machine's card


def _cgroup_cpu_limit(root: Path = Path("/sys/fs/cgroup")) -> float | None:
    """Cores' worth of time a container may use (cgroup v2, then v1), or None without a limit."""
    try:
        quota, period = (root / "cpu.max").read_text().split()[:2]
        if quota != "max":
            return int(quota) / int(period)
    except (OSError, ValueError):
        pass
    try:
        quota = int((root / "cpu" / "cpu.cfs_quota_us").read_text())
        period = int((root / "cpu" / "cpu.cfs_period_us").read_text())
        if quota > 0 and period > 0:
            return quota / period
    except (OSError, ValueError):
        pass
    return None


def _cgroup_memory_limit(root: Path = Path("/sys/fs/cgroup")) -> int | None:
    """Bytes a container may use (cgroup v2, then v1), or None without a limit."""
    for name in ("memory.max", "memory/memory.limit_in_bytes"):
        try:
            limit = int((root / name).read_text())
        except (OSError, ValueError):
            continue
        # Version 1 writes a number near 2 ** 63 for "no limit".
        if 0 < limit < 2**60:
            return limit
    return None


def usable_cores() -> int:
    """Return how many cores this process may really use.

    That is the least of the machine's logical cores, the process's affinity mask and the
    container's quota (rounded down, at least 1); `os.cpu_count()` knows only the first.
    """
    try:
        cores = len(os.sched_getaffinity(0))
    except AttributeError:  # not on macOS and Windows
        cores = os.cpu_count() or 1
    limit = _cgroup_cpu_limit()
    if limit is not None:
        cores = min(cores, int(limit))
    return max(1, cores)


@lru_cache(maxsize=1)
def _processor_name() -> str:
    """The processor's name as its maker writes it, or the architecture where none is told."""
    name = ""
    if sys.platform.startswith("linux"):
        try:
            text = Path("/proc/cpuinfo").read_text(errors="replace")
            match = re.search(r"^model name\s*:\s*(.+)$", text, re.MULTILINE)
            name = match.group(1) if match else ""
        except OSError:
            pass
    elif sys.platform == "darwin":
        import subprocess

        ask = ["sysctl", "-n", "machdep.cpu.brand_string"]
        with suppress(OSError, subprocess.SubprocessError):
            name = subprocess.run(ask, capture_output=True, text=True, timeout=5).stdout
    elif sys.platform == "win32":
        import winreg

        key = r"HARDWARE\DESCRIPTION\System\CentralProcessor\0"
        try:
            with winreg.OpenKey(winreg.HKEY_LOCAL_MACHINE, key) as handle:
                name = winreg.QueryValueEx(handle, "ProcessorNameString")[0]
        except OSError:
            pass
    return " ".join(name.split()) or platform.machine() or "unknown processor"


def _accelerator_names(touch: bool = True) -> list[str]:
    """One line for each accelerator: its name and memory, where the backend tells them.

    To ask for its name sets CUDA up in this process, after which it cannot be forked. With
    `touch=False` a backend that is not in use is not asked.
    """
    kind = _accelerator_type()
    module = getattr(torch, kind, None)
    if not touch and not getattr(module, "is_initialized", lambda: True)():
        return [f"{kind} device {number}" for number in range(num_gpus())]
    names = []
    for number in range(num_gpus()):
        try:
            properties = module.get_device_properties(number)
            memory = getattr(properties, "total_memory", 0)
            size = f", {memory / 2**30:.0f} GiB" if memory else ""
            names.append(f"{properties.name}{size}")
        except (AttributeError, RuntimeError, AssertionError):
            names.append(f"{kind} device {number}")
    return names


@dataclass(frozen=True)
class Machine:
    """What the numbers were measured on; holds no host name, user or path.

    Attributes:
        processor: name as the maker writes it.
        architecture: such as x86_64 or arm64.
        system: operating system, such as Linux.
        cores_usable: what this process may use (affinity and container limits).
        cores_logical: what the operating system shows.
        memory_bytes: what this process may use, in bytes.
        accelerators: one line for each.
        torch_threads: threads inside one operation (intra-op).
        torch_interop_threads: threads between operations.
        versions: name -> version of Python, torch, numpy and d2lperf.
    """

    processor: str
    architecture: str
    system: str
    cores_usable: int
    cores_logical: int
    memory_bytes: int
    accelerators: tuple[str, ...]
    torch_threads: int
    torch_interop_threads: int
    versions: dict[str, str] = field(default_factory=dict)

    @property
    def rung(self) -> str:
        """The step of the ladder: 'several GPUs', 'one GPU' or 'CPU'."""
        return {0: "CPU", 1: "one GPU"}.get(len(self.accelerators), "several GPUs")

    @property
    def rung_sentence(self) -> str:
        """One sentence that says on which step of the ladder this machine stands."""
        return {
            "CPU": "This machine stands on the CPU rung: no GPU; where a lesson wants one, threads "
            "or processes stand in.",
            "one GPU": "This machine stands on the one-GPU rung; where a lesson wants several, CPU "
            "processes stand in.",
            "several GPUs": "This machine stands on the top rung: several GPUs; the lessons that "
            "need several use them.",
        }[self.rung]

    def to_dict(self) -> dict:
        """Return the card as plain values that JSON can hold."""
        return {**asdict(self), "accelerators": list(self.accelerators)}

    @classmethod
    def from_dict(cls, values: dict) -> Machine:
        """Return the card that `to_dict` wrote.

        Raises:
            ValueError: a field is missing or unknown.
        """
        wanted = set(cls.__dataclass_fields__)
        if set(values) != wanted:
            raise ValueError(
                f"a machine's card has the fields {sorted(wanted)}, but got {sorted(values)}."
            )
        return cls(**{**values, "accelerators": tuple(values["accelerators"])})

    def _rows(self) -> list[tuple[str, str]]:
        cores = f"{self.cores_usable} usable"
        if self.cores_logical != self.cores_usable:
            cores += f" of {self.cores_logical}"
        return [
            ("processor", f"{self.processor} ({self.architecture})"),
            ("cores", cores),
            ("memory", f"{self.memory_bytes / 2**30:.1f} GiB"),
            ("accelerators", "; ".join(self.accelerators) or "none"),
            (
                "threads",
                f"{self.torch_threads} in an operation, {self.torch_interop_threads} between",
            ),
            ("system", self.system),
            ("versions", ", ".join(f"{name} {v}" for name, v in self.versions.items())),
            ("rung", self.rung),
        ]

    def __str__(self) -> str:
        return "\n".join(f"{name:<13} {value}" for name, value in self._rows())

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><th style='text-align:left'>{name}</th>"
            f"<td style='text-align:left'>{html.escape(value)}</td></tr>"
            for name, value in self._rows()
        )
        return f"<table>{rows}</table>"


def describe_machine() -> Machine:
    """Return the card of this machine: processor, cores, memory, accelerators, versions, threads.

    Returns:
        A `Machine`: shows as text and as an HTML table, and goes into every saved result.

    >>> describe_machine().cores_usable >= 1
    True
    """
    return machine_card(touch=True)


def machine_card(*, touch: bool) -> Machine:
    """The card; with `touch=False` without setting up an accelerator that is not in use."""
    import numpy
    import psutil

    from d2lperf._version import __version__

    memory = psutil.virtual_memory().total
    limit = _cgroup_memory_limit()
    return Machine(
        processor=_processor_name(),
        architecture=platform.machine(),
        system=platform.system(),
        cores_usable=usable_cores(),
        cores_logical=os.cpu_count() or 1,
        memory_bytes=min(memory, limit) if limit else memory,
        accelerators=tuple(_accelerator_names(touch)),
        torch_threads=torch.get_num_threads(),
        torch_interop_threads=torch.get_num_interop_threads(),
        versions={
            "Python": platform.python_version(),
            "torch": torch.__version__,
            "numpy": numpy.__version__,
            "d2lperf": __version__,
        },
    )
