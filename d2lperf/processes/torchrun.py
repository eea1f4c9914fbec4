"""How ranks join a group, and `launch` in processes of torchrun, or of a launch around it."""

import atexit
import faulthandler
import os
import warnings
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from functools import partial
from itertools import count
from typing import Any, NamedTuple

import torch
import torch.distributed as dist

from d2lperf import _compat
from d2lperf.processes import worker

_calls = count()  # of calls in place, the same in every rank


class Group(NamedTuple):
    """How ranks are joined."""

    backend: str
    accelerator: str | None  # type of its devices, of which each rank gets one
    threads: int  # of torch
    timeout_s: float  # for a collective

    def join(self, local_rank: int, **where: Any) -> None:
        """Become a member; `where` is store, rank and world_size, or what the environment says."""
        import torch.distributed.nn  # before the group: later, it would keep that alive

        device, timeout = None, timedelta(seconds=self.timeout_s)
        if self.accelerator:
            device = torch.device(self.accelerator, local_rank)
            torch.accelerator.set_device_index(local_rank)
        _compat.set_default_timeout(timeout)
        dist.init_process_group(self.backend, timeout=timeout, device_id=device, **where)
        atexit.register(_leave)

    def call(self, fn: Callable[[], Any], deadline_s: float | None, on_report: Any) -> list[Any]:
        """Call the function in this process; return the results of all ranks, in every rank."""
        if not dist.is_initialized():
            # It stays: a second one in the same store would find the addresses of the first.
            torch.set_num_threads(self.threads)
            self.join(int(os.environ.get("LOCAL_RANK", 0)))
        if deadline_s is not None:
            faulthandler.dump_traceback_later(deadline_s, exit=True)
        rank, before = int(os.environ["RANK"]), worker.reporter
        worker.reporter = partial(on_report, rank) if on_report else before or (lambda value: None)
        try:
            results: list[Any] = [None] * dist.get_world_size()
            dist.all_gather_object(results, fn())
            # A rank that left at once would close connections from which a slower one still reads.
            with suppress(Exception):  # the results are here; only the courtesy failed
                key = f"d2lperf/done/{next(_calls)}"
                _compat.wait_for_ranks(_compat.default_store(), len(results), key, self.timeout_s)
            return results
        finally:
            worker.reporter = before
            if deadline_s is not None:
                faulthandler.cancel_dump_traceback_later()


def _leave() -> None:
    with suppress(Exception):
        dist.destroy_process_group()


def warn_of_leftovers(workers: int) -> None:
    """Warn if RANK and WORLD_SIZE may be left over in a notebook's own environment."""
    world = os.environ["WORLD_SIZE"]
    if not (dist.is_initialized() or "TORCHELASTIC_RUN_ID" in os.environ or world == str(workers)):
        text = f"launch was asked for {workers} workers, but RANK and WORLD_SIZE={world} are set in"
        text += " this process and torchrun is not at work: the function is called in place, as one"
        text += f" of {world} processes. If you do not want that, delete both from os.environ."
        warnings.warn(text, RuntimeWarning, stacklevel=3)
