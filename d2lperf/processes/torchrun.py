"""`launch` in processes that are there already: those of torchrun, or of a launch around it."""

from __future__ import annotations

import atexit
import faulthandler
import os
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import timedelta
from itertools import count
from typing import Any

import torch
import torch.distributed as dist

from d2lperf.processes import engine

__all__ = ["in_place", "is_at_work", "join", "leave", "warn_of_leftovers"]

_calls = count()  # of calls in place, the same in every rank


def is_at_work() -> bool:
    """Return whether this process is one of several that were started together."""
    return "RANK" in os.environ and "WORLD_SIZE" in os.environ


def warn_of_leftovers(workers: int) -> None:
    """Warn if RANK and WORLD_SIZE may be left over in a notebook's own environment."""
    world = os.environ["WORLD_SIZE"]
    if dist.is_initialized() or "TORCHELASTIC_RUN_ID" in os.environ or world == str(workers):
        return
    warnings.warn(
        f"launch was asked for {workers} workers, but RANK and WORLD_SIZE={world} are set in this "
        "process and torchrun is not at work: the function is called in place, as one of "
        f"{world} processes. If you do not want that, delete both from os.environ.",
        RuntimeWarning,
        stacklevel=3,
    )


def join(backend: str, device: torch.device | None, timeout_s: float, **where: Any) -> None:
    """Become a member of the process group.

    Args:
        backend: name of the backend, such as "gloo".
        device: the accelerator of this rank, or None.
        timeout_s: seconds that a collective may wait, also in groups that are made later.
        where: store, rank and world_size; default: what the environment says.
    """
    from torch.distributed import distributed_c10d as c10d

    if device is not None:
        torch.get_device_module(device).set_device(device)
    timeout = timedelta(seconds=timeout_s)
    for name in ("default_pg_timeout", "default_pg_nccl_timeout"):
        if getattr(c10d, name, None) is not None:
            setattr(c10d, name, timeout)
    dist.init_process_group(backend, timeout=timeout, device_id=device, **where)


def leave() -> None:
    """Leave the process group, if there is one."""
    if dist.is_initialized():
        with suppress(Exception):
            dist.destroy_process_group()


def in_place(
    fn: Callable[..., Any],
    args: Sequence[Any],
    backend: str,
    accelerator: str | None,
    threads: int,
    timeout_s: float,
    deadline_s: float | None,
    on_report: Callable[[int, Any], Any] | None,
) -> list[Any]:
    """Call the function in this process; return the results of all ranks, in every rank."""
    rank = int(os.environ["RANK"])
    if not dist.is_initialized():
        local = int(os.environ.get("LOCAL_RANK", 0))
        torch.set_num_threads(threads)
        join(backend, accelerator and torch.device(accelerator, local), timeout_s)
        # It stays until the process ends: a second one in the same store would find the
        # addresses of the first.
        atexit.register(leave)
    if deadline_s is not None:
        faulthandler.dump_traceback_later(deadline_s, exit=True)
    before = engine.reporter
    if on_report is not None:
        engine.reporter = lambda value: on_report(rank, value)
    elif before is None:
        engine.reporter = lambda value: None
    try:
        result = fn(*args)
        results: list[Any] = [None] * dist.get_world_size()
        dist.all_gather_object(results, result)
        _await_the_others(timeout_s)
        return results
    finally:
        engine.reporter = before
        if deadline_s is not None:
            faulthandler.cancel_dump_traceback_later()


def _await_the_others(timeout_s: float) -> None:
    """Go on when all ranks have their results.

    A rank that left at once would close its connections while a slower one still reads from them.
    The store is the launcher's, so waiting there needs no connection between ranks.
    """
    store, key = dist.distributed_c10d._get_default_store(), f"d2lperf/done/{next(_calls)}"
    with suppress(Exception):  # the results are here; only the courtesy failed
        if store.add(key, 1) == dist.get_world_size():
            store.set(f"{key}/all", "1")
        store.wait([f"{key}/all"], timedelta(seconds=timeout_s))
