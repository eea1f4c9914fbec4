"""A made-up accelerator for tests: torch lists its devices and calls its Python module.

torch's Python hooks for such a backend carry the number of devices, events, streams and the random
state, but neither separate memories nor waiting. It cannot be removed again, so a test installs it
in a process of its own: `import toy_device; toy_device.install(2)`.
"""

from types import SimpleNamespace

import torch
from torch.utils import backend_registration

KIND = "toy"


class Module:
    """What `torch.get_device_module("toy")` returns."""

    def __init__(self, count):
        self.count, self.states = count, {i: torch.zeros(1) for i in range(count)}

    def is_available(self):
        return self.count > 0

    def is_initialized(self):
        return True

    def _is_in_bad_fork(self):
        return False

    def device_count(self):
        return self.count

    def current_device(self):
        return 0

    def get_device_properties(self, index):
        return SimpleNamespace(name=f"Toy {index}", total_memory=8 * 2**30)

    def manual_seed_all(self, seed):
        self.states = {i: torch.tensor([float(seed)]) for i in self.states}

    def get_rng_state(self, device="toy:0"):
        return self.states[torch.device(device).index or 0]

    def set_rng_state(self, state, device="toy:0"):
        self.states[torch.device(device).index or 0] = state


def supported():
    """Whether this torch has the Python hooks."""
    return hasattr(backend_registration, "_setup_privateuseone_for_python_backend")


def install(count):
    """Give this process so many accelerators; returns their module."""
    acc = torch._C._acc

    class Hook(acc.PrivateUse1Hooks):
        def is_available(self):
            return count > 0

        def has_primary_context(self, index):
            return True

        def is_built(self):
            return True

    class Guard(acc.DeviceGuard):
        def type_(self):
            return torch._C._autograd.DeviceType.PrivateUse1

    module = Module(count)
    backend_registration._setup_privateuseone_for_python_backend(KIND, module, Hook(), Guard())
    return module
