"""`launch(fn, workers=4)`: a function on several processes that can talk to each other.

It works in a notebook, with functions, classes and closures of its cells. Each call gets fresh
workers, joined in a process group of `torch.distributed` on this machine. Under ``torchrun`` the
same call runs the function in place, so the same code runs on many hosts.
"""

from __future__ import annotations

import inspect
import os
import socket
import warnings
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

from d2lperf.device import accelerator_type, num_gpus
from d2lperf.machine import usable_cores
from d2lperf.processes import engine, torchrun

__all__ = ["launch", "report"]

_LARGE_BYTES = 50e6  # what is copied to each worker without a warning


def launch(
    fn: Callable[..., Any],
    workers: int = 2,
    args: Sequence[Any] = (),
    *,
    backend: str = "auto",
    threads: int | None = None,
    timeout_s: float = 60,
    deadline_s: float | None = None,
    on_report: Callable[[int, Any], Any] | None = None,
) -> list[Any]:
    """Call `fn(*args)` on several worker processes at once; return what each returned, by rank.

    In a worker the process group is there: `torch.distributed.get_rank()`, `get_world_size()` and
    the collectives work as usual, and `report(value)` sends a value to `on_report`. What a worker
    prints appears in the launching cell, line by line, with its rank.

    Random numbers: torch starts from the same default seed in every rank and every launch, as in
    any fresh process; call ``torch.manual_seed(seed + torch.distributed.get_rank())`` if ranks
    should differ. NumPy and `random` draw a fresh seed in each worker.

    Args:
        fn: the function. It and all it refers to is copied to each worker by cloudpickle; changes
            made there do not come back. The default dtype, `no_grad`, the environment and the
            folder of the caller are taken over.
        workers: number of processes, at least 1.
        args: positional arguments of `fn`, the same for every rank.
        backend: "gloo" (CPU), that of this machine's accelerator such as "nccl" (rank i gets
            device i), or "auto": the second if there is a device for each worker, else gloo.
        threads: threads of torch in each worker. Default: usable cores / workers, at least 1.
        timeout_s: seconds that one collective may wait for the other ranks.
        deadline_s: seconds that the function may take on all workers. Default: no limit.
        on_report: called in the notebook as `on_report(rank, value)` while the workers run.

    Under ``torchrun`` (RANK and WORLD_SIZE are set) `fn` is called in place, `workers` is not used,
    `on_report` gets the values of its own rank, and every rank gets the results of all. The first
    such call makes the group: `backend`, `threads` and `timeout_s` of later ones are not used.

    Returns:
        The results by rank. Tensors come as copies.

    Raises:
        Exception: what `fn` raised, as it was, with `.rank`, caused by the worker's traceback.
        LaunchTimeout: a collective or the launch took too long; the message says where each rank
            was, and `.rank` is the one that the others waited for, if it is one.
        WorkerError: a worker was killed or left, or its result cannot travel.
        TypeError, ValueError: an argument cannot be right, or cannot be sent to a worker.
        NotImplementedError: this system has no fork server (Windows).

    >>> def add_ranks():
    ...     import torch
    ...     import torch.distributed as dist
    ...     x = torch.tensor([1.0 + dist.get_rank()])
    ...     dist.all_reduce(x)
    ...     return x.item()
    >>> launch(add_ranks, workers=2)
    [3.0, 3.0]
    """
    _check(fn, workers, args, threads, timeout_s, deadline_s, on_report)
    in_place = torchrun.is_at_work()
    if in_place:
        torchrun.warn_of_leftovers(workers)
        workers = int(os.environ.get("LOCAL_WORLD_SIZE", os.environ["WORLD_SIZE"]))
    backend, accelerator = _backend(backend, workers)
    threads = threads or max(1, usable_cores() // workers)
    if in_place:
        return torchrun.in_place(
            fn, args, backend, accelerator, threads, timeout_s, deadline_s, on_report
        )
    names = {f"rank {rank}": f"rank {rank} of {workers}" for rank in range(workers)}
    crew = engine.Crew(names, threads, on_report)
    store = _open_store()
    task = _packed(fn, args, (workers, store.port, backend, accelerator, threads, timeout_s))
    with crew:
        crew.give(task)
        return crew.gather(timeout_s=timeout_s, deadline_s=deadline_s)


def report(value: Any) -> None:
    """Send a value from a worker of `launch` to the notebook, to `on_report(rank, value)` there.

    Args:
        value: anything that can be pickled; tensors are copied.

    Raises:
        RuntimeError: called outside of a function that `launch` runs.
    """
    if engine.reporter is None:
        raise RuntimeError(
            "report(value) sends a value out of a function that launch runs, but it was called "
            "outside of one. Call it inside fn of launch(fn, on_report=...)."
        )
    engine.reporter(value)


def _check(fn, workers, args, threads, timeout_s, deadline_s, on_report) -> None:
    """Complain about arguments that cannot be right, before anything is started."""
    if not callable(fn):
        raise TypeError(
            f"launch takes a function, but got {fn!r} ({type(fn).__name__}). "
            "Write launch(fn, args=(x,)), not launch(fn(x))."
        )
    for name, number in (("workers", workers), ("threads", 1 if threads is None else threads)):
        if isinstance(number, bool) or not isinstance(number, int):
            raise TypeError(f"{name} is a whole number, but got {number!r}.")
        if number < 1:
            raise ValueError(f"{name} must be at least 1, but got {number}.")
    limits = {"timeout_s": timeout_s, "deadline_s": 1 if deadline_s is None else deadline_s}
    for name, seconds in limits.items():
        if isinstance(seconds, bool) or not isinstance(seconds, (int, float)):
            raise TypeError(f"{name} is a number of seconds, but got {seconds!r}.")
        if not 0 < seconds < float("inf"):
            raise ValueError(f"{name} must be a positive number of seconds, but got {seconds}.")
    if on_report is not None and not callable(on_report):
        raise TypeError(f"on_report is a function of rank and value, but got {on_report!r}.")
    if not isinstance(args, (tuple, list)):
        raise TypeError(
            f"args is a tuple of the arguments of fn, but got {type(args).__name__}. "
            "For one argument write args=(x,), with the comma."
        )
    try:
        signature = inspect.signature(fn)
    except (TypeError, ValueError):  # not every built-in tells
        return
    try:
        signature.bind(*args)
    except TypeError as error:
        raise TypeError(
            f"{getattr(fn, '__name__', 'fn')}{signature} cannot be called with the {len(args)} "
            f"argument(s) of args: {error}. (The rank is not passed; ask "
            "torch.distributed.get_rank().)"
        ) from None


def _backend(backend: str, workers: int) -> tuple[str, str | None]:
    """The backend to use and the type of its devices, or why it cannot be that."""
    if not dist.is_available():
        raise RuntimeError(
            "This build of torch comes without torch.distributed, which launch needs. "
            "Install an official build of torch for Linux or macOS."
        )
    kind = accelerator_type()
    theirs = dist.Backend.default_device_backend_map.get(kind, "gloo")
    devices = num_gpus() if theirs != "gloo" and dist.is_backend_available(theirs) else 0
    if backend == "auto":
        backend = theirs if devices >= workers else "gloo"
    if backend == "gloo":
        return backend, None
    if backend != theirs:
        raise ValueError(f'backend is "auto", "gloo" or "{theirs}" here, but got {backend!r}.')
    if devices < workers:
        raise ValueError(
            f'backend="{backend}" needs an accelerator for each of the {workers} workers, but this '
            f'process sees {devices} that it can use. Use fewer workers, or backend="gloo" (CPU).'
        )
    return backend, kind


def _packed(fn: Callable, args: Sequence[Any], group: tuple) -> engine.Packed:
    """The function and its arguments, as they travel."""
    try:
        task = engine.pack((_member, (fn, tuple(args), *group)))
    except Exception as error:
        raise TypeError(
            f"{getattr(fn, '__name__', fn)} or what it refers to cannot be sent to a worker: "
            f"{error}. Make it inside the function (open files, locks, generators and connections "
            "belong to one process)."
        ) from error
    size = len(task[0]) + sum(memory.nbytes for memory in task[1])
    if size > _LARGE_BYTES:
        warnings.warn(
            f"launch copies {size / 1e6:,.0f} MB to each of {group[0]} workers: that is how much "
            "the function, its arguments and the variables it uses hold. Make or load the data "
            "inside the function to save the time and the memory.",
            UserWarning,
            stacklevel=3,
        )
    return task


def _open_store() -> dist.TCPStore:
    """Where the ranks find each other: in the kernel, so that it outlives each of them.

    The system chooses the port. Left to itself, the store would listen on every interface.
    """
    # torch 2.6 takes a socket of ours only without libuv, and leaks it where it refuses.
    version = tuple(int(part) for part in torch.__version__.split(".")[:2])
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(1024)
        port = listener.getsockname()[1]
        return dist.TCPStore(
            "127.0.0.1",
            port,
            is_master=True,
            wait_for_workers=False,
            master_listen_fd=listener.detach(),
            use_libuv=version >= (2, 13),  # the oldest where that was tried and works
        )


def _member(fn, args, workers, port, backend, accelerator, threads, timeout_s) -> Any:
    """Runs in a worker: join the group, call the function."""
    rank = engine.here.index
    os.environ.update(
        RANK=str(rank),
        LOCAL_RANK=str(rank),
        WORLD_SIZE=str(workers),
        LOCAL_WORLD_SIZE=str(workers),
        MASTER_ADDR="127.0.0.1",
        MASTER_PORT=str(port),
        OMP_NUM_THREADS=str(threads),  # for what is loaded later
        TORCHELASTIC_USE_AGENT_STORE="True",  # a rank that joins again is a client of the store
    )
    for _, name in socket.if_nameindex():
        if name in ("lo", "lo0"):
            os.environ.update(GLOO_SOCKET_IFNAME=name, NCCL_SOCKET_IFNAME=name)
    # On a busy machine the last rank may come late. timeout_s is for the collectives, so the
    # ranks wait for each other before they make the group.
    patient = timedelta(seconds=max(60, timeout_s))
    store = dist.TCPStore("127.0.0.1", port, is_master=False, timeout=patient)
    if store.add("d2lperf/here", 1) == workers:
        store.set("d2lperf/all here", "")
    store.wait(["d2lperf/all here"], patient)
    device = accelerator and torch.device(accelerator, rank)
    torchrun.join(backend, device, timeout_s, store=store, rank=rank, world_size=workers)
    if accelerator:
        import atexit

        atexit.register(torchrun.leave)  # gloo needs no farewell
    return fn(*args)
