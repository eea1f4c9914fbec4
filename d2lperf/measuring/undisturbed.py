"""What holds while functions are timed: one measurement at a time, no garbage collection."""

from __future__ import annotations

import gc
import random
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import numpy as np
import torch

# Two threads that measure at once would disturb each other, and each would switch the garbage
# collector on under the other. The same thread may measure within a measurement.
_turn = threading.RLock()
PATIENCE_S = 600.0


@contextmanager
def undisturbed(threads: int | None = None) -> Iterator[None]:
    """Keep the garbage collector off; put back threads, grad mode and random state at the end.

    Args:
        threads: for torch inside of operations; by default as many as now.

    Raises:
        RuntimeError: another thread of this process measures, and did so for ten minutes.
    """
    if not _turn.acquire(timeout=PATIENCE_S):
        raise RuntimeError(
            f"another thread of this process has been measuring for {PATIENCE_S:.0f} s, and two at "
            "once would disturb each other. Measure in one thread only, or wait for the other."
        )
    before = torch.get_num_threads()
    with ExitStack() as at_the_end:
        at_the_end.callback(_turn.release)
        # In a thread the generators are left alone: the other threads draw from them meanwhile.
        if threading.current_thread() is threading.main_thread():
            _keep_random_state(at_the_end.callback)
        at_the_end.callback(torch.set_grad_enabled, torch.is_grad_enabled())
        if gc.isenabled():
            at_the_end.callback(gc.enable)
            gc.disable()
        try:
            if threads is not None:
                torch.set_num_threads(threads)
            yield
        finally:
            if torch.get_num_threads() != before:
                torch.set_num_threads(before)


def _keep_random_state(at_the_end: Callable[..., Any]) -> None:
    """Have the state of the global random generators put back, the accelerator's too."""
    at_the_end(random.setstate, random.getstate())
    at_the_end(np.random.set_state, np.random.get_state())
    at_the_end(torch.set_rng_state, torch.get_rng_state())
    if not torch.accelerator.is_available():
        return
    module = torch.get_device_module(torch.accelerator.current_accelerator())
    if not getattr(module, "is_initialized", lambda: True)():
        # Its generators will be seeded like the CPU's at its first use.
        seed = torch.initial_seed()
        at_the_end(lambda: module.is_initialized() and module.manual_seed_all(seed))
        return
    ending = "_all" if hasattr(module, "get_rng_state_all") else ""
    if hasattr(module, f"get_rng_state{ending}"):
        state = getattr(module, f"get_rng_state{ending}")()
        at_the_end(getattr(module, f"set_rng_state{ending}"), state)
