"""`launch(fn, workers=4)`: a function on several processes that can talk to each other."""

import inspect
import math
import os
import socket
import sys
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple

import torch
import torch.distributed as dist

from d2lperf import _compat
from d2lperf.device import accelerator_type, num_gpus
from d2lperf.machine import usable_cores
from d2lperf.processes import torchrun, worker
from d2lperf.processes.engine import Crew
from d2lperf.processes.wire import pack


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
    """Call `fn(*args)` on several new processes at once; return what each returned, by rank.

    In a worker the process group is there: `torch.distributed.get_rank()` and the collectives work
    as usual. What it prints appears in the launching cell, line by line with its rank. torch has
    its default seed in every rank (``torch.manual_seed(seed + rank)`` makes them differ); NumPy and
    `random` have a new one.

    Args:
        fn: the function; functions and classes of notebook cells may be used. It and all it refers
            to is copied to each worker; changes made there do not come back. The default dtype,
            `no_grad`, the environment and the folder of the caller are taken over.
        workers: number of processes, at least 1.
        args: positional arguments of `fn`, the same for every rank.
        backend: "gloo" (CPU), that of this machine's accelerator such as "nccl" (rank i gets
            device i), or "auto": the second if there is a device for each worker, else gloo.
        threads: threads of torch in each worker. Default: usable cores / workers, at least 1.
        timeout_s: seconds that one collective may wait for the other ranks.
        deadline_s: seconds from the start of the workers to the last result. Default: no limit.
        on_report: called as `on_report(rank, value)` for each `report(value)` in a worker.

    Under ``torchrun`` (RANK and WORLD_SIZE are set) `fn` is called in place, also on many hosts:
    `workers` is not used, `on_report` gets the values of its own rank, and every rank gets all
    results. The first such call makes the group, with its `backend`, `threads` and `timeout_s`.
    There is no LaunchTimeout: after `deadline_s` each process prints where it is, and ends.

    Raises:
        Exception: what `fn` raised, as it was, with `.rank`, caused by the worker's traceback.
        LaunchTimeout: a collective or the launch took too long. The message says where each rank
            was; `.rank` is the one that the others waited for, if it is one.
        WorkerError: a worker was killed or left, or its result cannot be sent.
        TypeError, ValueError: an argument is invalid, or cannot be sent to a worker.
        NotImplementedError: this system has no fork server (Windows).

    >>> import torch.distributed as dist
    >>> launch(dist.get_rank, workers=3)
    [0, 1, 2]
    """
    _check(fn, args, on_report, workers, threads, timeout_s, deadline_s)
    in_place = "RANK" in os.environ and "WORLD_SIZE" in os.environ
    if in_place:
        torchrun.warn_of_leftovers(workers)
        workers = int(os.environ.get("LOCAL_WORLD_SIZE", os.environ["WORLD_SIZE"]))
    threads = threads or max(1, usable_cores() // workers)
    group = torchrun.Group(*_connection(backend, workers), threads, timeout_s)
    if in_place:
        return group.call(partial(fn, *args), deadline_s, on_report)
    names = {f"rank {rank}": f"rank {rank} of {workers}" for rank in range(workers)}
    crew = Crew(names, threads, on_report)
    # The store, in which the ranks find each other, is in the kernel and outlives each of them.
    # Left to itself, it listens on every interface. With libuv, an older torch takes no socket.
    with socket.create_server(("127.0.0.1", 0), backlog=1024) as server:
        host, port = server.getsockname()
        store = dist.TCPStore(
            host,
            port,
            is_master=True,
            wait_for_workers=False,
            master_listen_fd=server.detach(),
            use_libuv=False,
        )
    refusal = f"{getattr(fn, '__name__', 'fn')} or what it refers to cannot be sent to a worker"
    advice = "Make it inside the function: open files, locks, generators and connections stay here."
    task = partial(_member, fn, args, workers, store.port, group)
    packed = pack(task, refusal, advice, TypeError)
    size = sum(map(len, packed))
    if size > 50e6:
        text = f"launch copies {size / 1e6:,.0f} MB to each of {workers} workers: the function, its"
        text += " arguments and all they use. Make or load the data inside the function instead."
        warnings.warn(text, UserWarning, stacklevel=2)
    with crew:
        crew.give(packed)
        return crew.gather(timeout_s, deadline_s or math.inf)


def report(value: Any) -> None:
    """Send a value from a worker of `launch` to the notebook, to `on_report(rank, value)` there.

    Raises:
        RuntimeError: called outside of a function that `launch` runs.
    """
    if worker.reporter is None:
        text = "report(value) was called outside of a function that launch runs. Call it inside"
        raise RuntimeError(f"{text} fn of launch(fn, on_report=...).")
    worker.reporter(value)


def _check(
    fn: Any,
    args: Any,
    on_report: Any,
    workers: Any,
    threads: Any,
    timeout_s: Any,
    deadline_s: Any,
) -> None:
    if not callable(fn):
        raise TypeError(f"launch takes a function, but got {fn!r}. Write launch(fn, args=(x,)).")
    if on_report is not None and not callable(on_report):
        raise TypeError(f"on_report is a function of rank and value, but got {on_report!r}.")
    if not isinstance(args, (tuple, list)):
        raise TypeError(f"args is a tuple (args=(x,), with the comma), not {type(args).__name__}.")
    counts = {"workers": workers, "threads": 1 if threads is None else threads}
    times = {"timeout_s": timeout_s, "deadline_s": 1 if deadline_s is None else deadline_s}
    for name, value in (counts | times).items():
        kind = "whole number" if name in counts else "number of seconds"
        types = int if name in counts else (int, float)
        if isinstance(value, bool) or not isinstance(value, types):
            raise TypeError(f"{name} is a {kind}, but got {value!r}.")
        if not 0 < value < math.inf:
            raise ValueError(f"{name} must be a positive {kind}, but got {value}.")
    with suppress(ValueError):  # not every built-in tells
        signature = inspect.signature(fn)
        try:
            signature.bind(*args)
        except TypeError as error:
            call = f"{getattr(fn, '__name__', 'fn')}{signature}"
            text = f"{call} cannot be called with the {len(args)} argument(s) of args: {error}."
            raise TypeError(f"{text} (torch.distributed.get_rank() tells the rank.)") from None


class _Connection(NamedTuple):
    """How ranks are connected."""

    backend: str
    accelerator: str | None  # type of the devices, of which each rank gets one; None: the CPU


def _connection(backend: str, workers: int) -> _Connection:
    """Choose the backend, or raise an error that says which there are."""
    kind, on_cpu = accelerator_type(), _Connection("gloo", None)
    theirs = _backend_of(kind)
    devices = num_gpus() if theirs and dist.is_backend_available(theirs) else 0
    if backend == "gloo" or (backend == "auto" and devices < workers):
        return on_cpu
    if theirs is None or backend not in ("auto", theirs):
        names = f'"auto", "gloo" or "{theirs}"' if theirs else '"auto" or "gloo"'
        raise ValueError(f"backend is {names} here, but got {backend!r}.")
    if devices < workers:
        text = f"each of the {workers} workers, but this process sees {devices} that it can use."
        advice = 'Use fewer workers, or backend="gloo" (CPU).'
        raise ValueError(f'backend="{theirs}" needs an accelerator for {text} {advice}')
    return _Connection(theirs, kind)


def _backend_of(kind: str) -> str | None:
    """The backend that connects devices of this kind, if torch has one for them."""
    try:
        theirs = dist.get_default_backend_for_device(torch.device(kind))
    except ValueError:
        return None
    return None if theirs == "gloo" else theirs


def _member(fn: Callable, args: Any, workers: int, port: int, group: Any) -> Any:
    """Runs in a worker: join the group, call the function."""
    rank, loopback = worker.here.index, "lo0" if sys.platform == "darwin" else "lo"
    os.environ.update(
        dict.fromkeys(("RANK", "LOCAL_RANK"), str(rank)),
        **dict.fromkeys(("WORLD_SIZE", "LOCAL_WORLD_SIZE"), str(workers)),
        **dict.fromkeys(("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME"), loopback),
        MASTER_ADDR="127.0.0.1",
        MASTER_PORT=str(port),
        OMP_NUM_THREADS=str(group.threads),  # for what is loaded later
        TORCHELASTIC_USE_AGENT_STORE="True",  # a rank that joins again is a client of the store
    )
    # On a busy machine the last rank may come late. timeout_s is for the collectives, so the
    # ranks wait for each other before they make the group.
    store = dist.TCPStore("127.0.0.1", port, is_master=False)
    _compat.wait_for_ranks(store, workers, "d2lperf/here", max(60, group.timeout_s))
    group.join(rank, store=store, rank=rank, world_size=workers)
    return fn(*args)
