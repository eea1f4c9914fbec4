"""The machine's card: processor, instructions, cores, memory, accelerators, threads, versions."""

from __future__ import annotations

import os
import platform
import re
import subprocess
import sys
from contextlib import suppress
from dataclasses import asdict, dataclass, field, fields
from functools import lru_cache
from pathlib import Path

import torch

from d2lperf._version import __version__
from d2lperf.device import accelerator_type, in_use, num_gpus
from d2lperf.formats import Table, html_table

CGROUP = Path("/sys/fs/cgroup")
RUNGS = "CPU", "one GPU", "several GPUs"
# As torch.cpu.get_capabilities() calls the instructions that multiply and add numbers of bfloat16.
BFLOAT16 = "avx512_bf16", "amx_bf16", "bf16", "sve_bf16"


@dataclass(frozen=True)
class Machine:
    """The machine on which numbers were measured; holds no host name, user or path.

    Attributes:
        processor: name as its maker writes it; virtual machines often hide the model.
        instructions: vector instructions that torch uses, and whether the processor multiplies
            numbers of bfloat16 itself: "AVX2, no bfloat16", "AVX512, bfloat16".
        architecture, system: such as x86_64 or arm64, Linux or Windows.
        cores_usable: cores that this process may use, of the `cores_logical` that there are.
        memory_bytes: memory that this process may use.
        accelerators: one line for each.
        torch_threads, torch_interop_threads: threads inside one operation, and between operations.
        versions: versions of Python, torch, numpy and d2lperf by name.
    """

    processor: str = "unknown processor"
    instructions: str = "unknown"
    architecture: str = ""
    system: str = ""
    cores_usable: int = 0
    cores_logical: int = 0
    memory_bytes: int = 0
    accelerators: tuple[str, ...] = ()
    torch_threads: int = 0
    torch_interop_threads: int = 0
    versions: dict[str, str] = field(default_factory=dict)

    @property
    def rung(self) -> str:
        """What the notebooks run on here: 'several GPUs', 'one GPU' or 'CPU'."""
        return RUNGS[min(2, len(self.accelerators))]

    @property
    def processor_name(self) -> str:
        """The processor in a heading: "2-core AMD EPYC (AVX2, no bfloat16)".

        The instructions belong to it: a virtual machine may hide the model.
        """
        noise = r"\((?:R|TM|C)\)|\bCPU\b|\bProcessor\b|\b\d+-Core\b|@.*"
        words = re.sub(noise, " ", self.processor).split()
        has = "" if self.instructions == "unknown" else f" ({self.instructions})"
        return f"{self.cores_usable}-core {' '.join(words)}{has}"

    @property
    def name(self) -> str:
        """The machine in a heading: its accelerator, such as "H200", or else its processor."""
        if not self.accelerators:
            return self.processor_name
        first = self.accelerators[0].split(",")[0].removeprefix("NVIDIA ")
        return first if len(self.accelerators) == 1 else f"{len(self.accelerators)} x {first}"

    def to_dict(self) -> dict:
        """Return the card as plain values that JSON can hold."""
        return {**asdict(self), "accelerators": list(self.accelerators)}

    @classmethod
    def from_dict(cls, values: dict) -> Machine:
        """Return the card that `to_dict` of this or of another version of d2lperf wrote."""
        known = {f.name: values[f.name] for f in fields(cls) if f.name in values}
        return cls(**{**known, "accelerators": tuple(known.get("accelerators", ()))})

    def _rows(self) -> list[tuple[str, str]]:
        more = f" of {self.cores_logical}" if self.cores_logical != self.cores_usable else ""
        inside, between = self.torch_threads, self.torch_interop_threads
        return [
            ("processor", f"{self.processor} ({self.architecture})"),
            ("instructions", self.instructions),
            ("cores", f"{self.cores_usable} usable{more}"),
            ("memory", f"{self.memory_bytes / 2**30:.1f} GiB"),
            ("accelerators", "; ".join(self.accelerators) or "none"),
            ("threads", f"{inside} in an operation, {between} between operations"),
            ("system", self.system),
            ("versions", ", ".join(f"{name} {v}" for name, v in self.versions.items())),
            ("runs on", self.rung),
        ]

    def __str__(self) -> str:
        return "\n".join(f"{name:<13} {value}" for name, value in self._rows())

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return html_table(Table(header=(), rows=self._rows()))


def describe_machine() -> Machine:
    """Return the card of this machine; every saved result contains it."""
    return machine_card(touch=True)


def machine_card(*, touch: bool) -> Machine:
    """Return the card. `touch` may set up an accelerator, and then the process cannot be forked."""
    import numpy
    import psutil

    memory = psutil.virtual_memory().total
    versions = {"torch": torch.__version__, "numpy": numpy.__version__, "d2lperf": __version__}
    return Machine(
        processor=_processor_name(),
        architecture=platform.machine(),
        instructions=_instructions(),
        system=platform.system(),
        cores_usable=usable_cores(),
        cores_logical=os.cpu_count() or 1,
        memory_bytes=min(memory, container_limits()[1] or memory),
        accelerators=tuple(_accelerator_names(touch)),
        torch_threads=torch.get_num_threads(),
        torch_interop_threads=torch.get_num_interop_threads(),
        versions={"Python": platform.python_version(), **versions},
    )


def usable_cores() -> int:
    """Return how many cores this process may use, by its affinity mask and container's quota."""
    cores = os.cpu_count() or 1
    if hasattr(os, "sched_getaffinity"):  # not on macOS and Windows
        cores = len(os.sched_getaffinity(0))
    return max(1, min(cores, int(container_limits()[0] or cores)))


def container_limits() -> tuple[float | None, int | None]:
    """Return what the container allows: cores' worth of time and bytes; None means no limit."""

    def numbers(name: str) -> list[int]:
        with suppress(OSError, ValueError):  # also where a limit is the word "max"
            return [int(word) for word in (CGROUP / name).read_text().split()]
        return []

    # cgroup version 2, then version 1, which writes a number near 2 ** 63 for "no limit"
    quota = numbers("cpu.max") or numbers("cpu/cpu.cfs_quota_us") + numbers("cpu/cpu.cfs_period_us")
    cores = quota[0] / quota[1] if len(quota) == 2 and min(quota) > 0 else None
    memory = numbers("memory.max") or numbers("memory/memory.limit_in_bytes")
    return cores, memory[0] if memory and 0 < memory[0] < 2**60 else None


@lru_cache(maxsize=1)
def _processor_name() -> str:
    name = ""
    with suppress(OSError, subprocess.SubprocessError):
        if sys.platform == "linux":
            text = Path("/proc/cpuinfo").read_text(errors="replace")
            name = "".join(re.findall(r"^model name\s*:(.*)$", text, re.MULTILINE)[:1])
        elif sys.platform == "darwin":
            ask = ["sysctl", "-n", "machdep.cpu.brand_string"]
            name = subprocess.run(ask, capture_output=True, text=True, timeout=5).stdout
        elif sys.platform == "win32":
            import winreg

            key = r"HARDWARE\DESCRIPTION\System\CentralProcessor\0"
            with winreg.OpenKey(winreg.HKEY_LOCAL_MACHINE, key) as handle:
                name = winreg.QueryValueEx(handle, "ProcessorNameString")[0]
    return " ".join(name.split()) or platform.machine() or "unknown processor"


def _instructions() -> str:
    words = torch.backends.cpu.get_cpu_capability()
    with suppress(AttributeError, RuntimeError):  # an older torch does not tell
        known = torch.cpu.get_capabilities()
        words += ", bfloat16" if any(map(known.get, BFLOAT16)) else ", no bfloat16"
    return words


def _accelerator_names(touch: bool) -> list[str]:
    """One line for each accelerator: name and memory where the backend tells them."""
    kind = accelerator_type()
    names = [f"{kind} device {number}" for number in range(num_gpus())]
    if not names or not (touch or in_use()):
        return names
    module = torch.get_device_module(kind)
    for number in range(len(names)):
        with suppress(AttributeError, RuntimeError, AssertionError):
            properties = module.get_device_properties(number)
            memory = getattr(properties, "total_memory", 0)
            names[number] = properties.name + (f", {memory / 2**30:.0f} GiB" if memory else "")
    return names
