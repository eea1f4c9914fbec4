"""A function on several processes that can talk to each other: `launch(fn, workers=4)`.

It works from inside a notebook, with functions, classes and closures that are defined in its cells.
Each call gets fresh worker processes: joined in a process group of `torch.distributed` (NCCL where
each worker can have a CUDA device of its own, gloo on CPU processes otherwise), gone when it ends.
Under ``torchrun`` the same call runs the function in place, so the same code runs on many hosts.

How it works. The notebook's kernel is never forked: OpenMP and CUDA do not survive that once torch
was used. The first launch starts a helper, a fresh Python that imports torch and then waits; each
worker is a fork of that helper, which takes milliseconds. Functions travel by cloudpickle. A rank
that fails stays alive, silent, until the kernel has read its error, so that the first error to
arrive is the cause and not what its peers said about the lost connection.

Why a fork server of our own (each line was tried or read, on two cores):

- loky (joblib) reports a peer's "connection closed" where another rank failed, its workers import
  torch again after one was killed, and their prints do not come to the notebook;
- `multiprocessing` cannot pickle functions of cells ("spawn"), hangs after torch was used ("fork"),
  or imports the caller's script again in each worker ("forkserver"), and its daemons may not have
  children, which a `DataLoader` needs;
- accelerate's ``notebook_launcher`` forks the kernel; torchrunx hung on a worker's exception;
  torch's own elastic launcher hides the traceback in log files.

The helper imports torch and this package only: your own modules are imported by each worker, as
they are on the disk then. What else of torch a worker had to import (an optimiser pulls in a
second's worth) the helper imports after the launch, for those to come.

Needs `os.fork`: Linux and macOS. On Windows use WSL 2, or a script and ``torchrun``.
"""

from __future__ import annotations

import atexit
import faulthandler
import gc
import importlib
import inspect
import linecache
import math
import os
import pickle
import re
import selectors
import signal
import socket
import struct
import subprocess
import sys
import sysconfig
import tempfile
import threading
import time
import traceback
import warnings
import weakref
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from datetime import timedelta
from functools import partial
from itertools import count
from types import ModuleType
from typing import Any, NoReturn

import torch
import torch.distributed as dist

from d2lperf.device import usable_cores

__all__ = ["LaunchTimeout", "WorkerError", "launch", "report"]

_LARGE_BYTES = 50e6  # what is copied to each worker without a warning
_PATIENCE_S = 1.0  # how long a "connection closed" waits for the news of who closed it
_GOODBYE_S = 3.0  # how long a worker may take to leave when all is done
_calls = count()  # of calls in place, the same in every rank

# What gloo, NCCL and the store say when a peer is gone, and when it did not come in time.
_LOST_PEER = re.compile(
    "connection (was |is )?(closed|reset|refused)|closed by peer|broken pipe|pair closure"
    "|failed to (connect|recv|send)|remote process exited|ncclRemoteError|ncclSystemError",
    re.IGNORECASE,
)
_TOO_LATE = re.compile(
    r"timed out waiting \d+ ?ms|timed out after \d+ ?(ms|seconds waiting for clients)"
    "|wait timeout after|collective operation timeout"
    "|socket timeout|connect(ion)? time(d )?out",
    re.IGNORECASE,
)


class WorkerError(RuntimeError):
    """A worker of `launch` died, or what it had to say cannot travel to the notebook.

    Attributes:
        rank: number of the worker, or None where it is not one worker's doing.
        signal: number of the signal that killed it, or None.
    """

    rank: int | None = None
    signal: int | None = None


class LaunchTimeout(WorkerError):
    """A collective waited longer than `timeout_s`, or the whole launch longer than `deadline_s`."""


class WorkerTraceback(Exception):
    """Shows the traceback of a worker, as the cause of the error that was raised there."""

    def __str__(self) -> str:
        return f"\n{self.args[0]}"


# ------------------------------------------------------------------------------- the call


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
    the collectives work as usual, and `report(value)` sends a value to `on_report`. What a
    worker prints appears in the launching cell by whole lines, each with its rank.

    Random numbers: as in any fresh process, torch starts from the same default seed in every rank
    and in every launch. Call ``torch.manual_seed(seed + torch.distributed.get_rank())`` (and the
    like for NumPy) where ranks are to differ.

    Args:
        fn: the function. It and all it refers to is copied to each worker by cloudpickle; what it
            changes there does not come back. The default dtype and the like are taken along.
        workers: number of processes, at least 1.
        args: positional arguments of `fn`, the same for every rank.
        backend: "nccl" (worker i has CUDA device i), "gloo", or "auto": NCCL where there is a CUDA
            device for each worker, otherwise gloo.
        threads: threads of torch in each worker. Default: usable cores / workers, at least 1.
        timeout_s: seconds that one collective may wait for the other ranks.
        deadline_s: seconds that the workers may take, from when all have been started and have the
            function. Then it is shown where in its Python code each rank is, and the workers are
            ended. Default: no limit.
        on_report: called in the notebook as `on_report(rank, value)` while the workers run.

    Under ``torchrun`` (the variables RANK and WORLD_SIZE are set) the processes are there already:
    `fn` is called in place, `workers` is not used, `on_report` gets the values of its own rank, and
    the results of all ranks are gathered, so that every rank gets the same list. The first such
    call makes the group: `backend`, `threads` and `timeout_s` of later ones are not used.

    Returns:
        The results by rank. Tensors come as copies.

    Raises:
        Exception: what `fn` raised, as it was, with the worker's traceback as its cause.
        LaunchTimeout: a collective or the launch took too long.
        WorkerError: a worker was killed or left, or its result cannot travel.
        TypeError, ValueError: an argument cannot be right, or cannot be sent to a worker.
        NotImplementedError: this system cannot fork processes.

    >>> def add_ranks():
    ...     import torch
    ...     import torch.distributed as dist
    ...     x = torch.tensor([1.0 + dist.get_rank()])
    ...     dist.all_reduce(x)
    ...     return x.item()
    >>> launch(add_ranks, workers=2)
    [3.0, 3.0]
    """
    under_torchrun = "RANK" in os.environ and "WORLD_SIZE" in os.environ
    _check(fn, workers, args, threads, timeout_s, deadline_s, on_report)
    if under_torchrun:
        _warn_of_leftovers(workers)
        workers = int(os.environ.get("LOCAL_WORLD_SIZE", os.environ["WORLD_SIZE"]))
    backend = _backend(backend, workers)
    if threads is None:
        threads = max(1, usable_cores() // workers)
    if under_torchrun:
        return _in_place(fn, args, backend, threads, timeout_s, deadline_s, on_report)
    if not hasattr(os, "fork"):
        raise NotImplementedError(
            f"launch starts its workers with os.fork, which {sys.platform} does not have. Use "
            "WSL 2 (Linux in Windows), or write the function and this call to a script and run it "
            f"with: torchrun --nproc-per-node {workers} script.py"
        )
    if not _busy.acquire(blocking=False):
        raise RuntimeError(
            "launch was called while another launch of this process is running. Wait for that one "
            "(in a notebook: for its cell) to end."
        )
    try:
        settings = _settings(workers, backend, threads, timeout_s)
        crew = _Crew(workers, on_report, timeout_s)
        return crew.run(_pickled(fn, args, workers), settings, deadline_s)
    finally:
        _busy.release()


_busy = threading.Lock()


def report(value: Any) -> None:
    """Send a value from a worker of `launch` to the notebook, to `on_report(rank, value)` there.

    Args:
        value: anything that can be pickled; tensors are copied.

    Raises:
        RuntimeError: called outside of a function that `launch` runs.
    """
    if _reporter is None:
        raise RuntimeError(
            "report(value) sends a value out of a function that launch runs, but it was called "
            "outside of one. Call it inside fn of launch(fn, on_report=...)."
        )
    _reporter(value)


_reporter: Callable[[Any], None] | None = None


def _check(fn, workers, args, threads, timeout_s, deadline_s, on_report) -> None:
    """Complain about arguments that cannot be right, before anything is started."""
    if not callable(fn):
        raise TypeError(
            f"launch takes a function, but got {fn!r} ({type(fn).__name__}). "
            "Write launch(fn, args=(x,)), not launch(fn(x))."
        )
    for name, number in (("workers", workers), ("threads", threads)):
        if name == "threads" and number is None:
            continue
        if isinstance(number, bool) or not isinstance(number, int):
            raise TypeError(f"{name} is a whole number, but got {number!r}.")
        if number < 1:
            raise ValueError(f"{name} must be at least 1, but got {number}.")
    for name, seconds in (("timeout_s", timeout_s), ("deadline_s", deadline_s)):
        if name == "deadline_s" and seconds is None:
            continue
        if isinstance(seconds, bool) or not isinstance(seconds, (int, float)):
            raise TypeError(f"{name} is a number of seconds, but got {seconds!r}.")
        if not 0 < seconds < float("inf"):
            raise ValueError(f"{name} must be a positive number of seconds, but got {seconds}.")
    if on_report is not None and not callable(on_report):
        raise TypeError(
            f"on_report is a function of rank and value, but got {on_report!r} "
            f"({type(on_report).__name__})."
        )
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
        name = getattr(fn, "__name__", "fn")
        raise TypeError(
            f"{name}{signature} cannot be called with the {len(args)} argument(s) of args: "
            f"{error}. (The rank is not passed; ask torch.distributed.get_rank().)"
        ) from None


def _backend(backend: str, workers: int) -> str:
    """The backend to use, or why it cannot be that."""
    if not dist.is_available():
        raise RuntimeError(
            "This build of torch comes without torch.distributed, which launch needs. "
            "Install an official build of torch for Linux or macOS."
        )
    devices = torch.cuda.device_count() if dist.is_nccl_available() else 0
    if backend == "auto":
        return "nccl" if devices >= workers else "gloo"
    if backend not in ("gloo", "nccl"):
        raise ValueError(f'backend is "auto", "gloo" or "nccl", but got {backend!r}.')
    if backend == "nccl" and devices < workers:
        found = f"{devices} CUDA device(s) that NCCL can use"
        raise ValueError(
            f'backend="nccl" needs a CUDA device for each of the {workers} workers, but this '
            f'process sees {found}. Use fewer workers, or backend="gloo" (CPU processes).'
        )
    return backend


def _pickled(fn: Callable, args: Sequence[Any], workers: int) -> bytes:
    """The function and its arguments as bytes."""
    import cloudpickle

    try:
        payload = cloudpickle.dumps((fn, tuple(args)))
    except Exception as error:
        raise TypeError(
            f"{getattr(fn, '__name__', fn)} or what it refers to cannot be sent to a worker: "
            f"{error}. Make it inside the function (open files, locks, generators and connections "
            "belong to one process)."
        ) from error
    if len(payload) > _LARGE_BYTES:
        warnings.warn(
            f"launch copies {len(payload) / 1e6:,.0f} MB to each of {workers} workers: that is how "
            "much the function, its arguments and the variables it uses hold. Make or load the "
            "data inside the function to save the time and the memory.",
            UserWarning,
            stacklevel=3,
        )
    return payload


def _settings(workers: int, backend: str, threads: int, timeout_s: float) -> dict[str, Any]:
    """What a worker takes over from the notebook, beside the function."""
    cells = {
        name: entry
        for name, entry in linecache.cache.items()
        if len(entry) == 4 and not os.path.exists(name)
    }
    return {
        "workers": workers,
        "backend": backend,
        "threads": threads,
        "timeout_s": timeout_s,
        "environment": dict(os.environ),
        "folder": os.getcwd(),
        "path": sys.path,
        "cells": cells,
        "torch": {
            "set_default_dtype": torch.get_default_dtype(),
            "set_float32_matmul_precision": torch.get_float32_matmul_precision(),
        },
        "deterministic": torch.are_deterministic_algorithms_enabled(),
    }


# ---------------------------------------------------------------------- under torchrun


def _warn_of_leftovers(workers: int) -> None:
    """Warn where RANK and WORLD_SIZE may be what a notebook has left in its own environment."""
    world = os.environ["WORLD_SIZE"]
    if dist.is_initialized() or "TORCHELASTIC_RUN_ID" in os.environ or world == str(workers):
        return
    warnings.warn(
        f"launch was asked for {workers} workers, but RANK and WORLD_SIZE={world} are set in this "
        "process and torchrun is not at work: the function is called in place, as one of "
        f"{world} processes. If that is not meant, delete both from os.environ.",
        RuntimeWarning,
        stacklevel=3,
    )


def _in_place(fn, args, backend, threads, timeout_s, deadline_s, on_report) -> list[Any]:
    """Call the function in this process, which is one of those that torchrun started."""
    global _reporter
    rank = int(os.environ["RANK"])
    if not dist.is_initialized():
        device = None
        if backend == "nccl":
            device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", 0)))
            torch.cuda.set_device(device)
        torch.set_num_threads(threads)
        _limit_subgroups(timeout_s)
        dist.init_process_group(backend, timeout=timedelta(seconds=timeout_s), device_id=device)
        # It stays until the process ends: a second one in the same store would find the
        # addresses of the first.
        atexit.register(_leave_group)
    if deadline_s is not None:
        faulthandler.dump_traceback_later(deadline_s, exit=True)
    before = _reporter
    _reporter = (lambda value: on_report(rank, value)) if on_report else before or (lambda _: None)
    try:
        result = fn(*args)
        results: list[Any] = [None] * dist.get_world_size()
        dist.all_gather_object(results, result)
        _await_the_others(timeout_s)
        return results
    finally:
        _reporter = before
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


def _leave_group() -> None:
    if dist.is_initialized():
        with suppress(Exception):
            dist.destroy_process_group()


def _limit_subgroups(timeout_s: float) -> None:
    """Let groups that are made later (`new_group`, a device mesh) wait no longer either."""
    from torch.distributed import distributed_c10d as c10d

    for name in ("default_pg_timeout", "default_pg_nccl_timeout"):
        if getattr(c10d, name, None) is not None:
            setattr(c10d, name, timedelta(seconds=timeout_s))


# ------------------------------------------------------- messages between the processes

# Kernel and helper exchange short notes: a letter, a process, a number.
#   kernel -> helper   F fork a worker (four descriptors come along), S send a signal,
#                      P import modules (the number says how many bytes of names follow)
#   helper -> kernel   F the worker is this process (below 0: an error number), X this process
#                      ended with that status
_NOTE = struct.Struct("<cii")
# Workers and kernel exchange pickled values, each after its length.
_LENGTH = struct.Struct("<Q")


def _framed(blob: bytes) -> bytes:
    return _LENGTH.pack(len(blob)) + blob


def _receive_exactly(link: socket.socket, size: int) -> bytearray:
    data = bytearray(size)
    view = memoryview(data)
    got = 0
    while got < size:
        n = link.recv_into(view[got:])
        if n == 0:
            raise EOFError
        got += n
    return data


# --------------------------------------------------------------- in the helper process


def _serve(fd: int, kernel: int) -> NoReturn:
    """Runs in the helper: fork a worker when asked, tell when one ends, end all with the kernel."""
    import cloudpickle  # noqa: F401 - the workers will want it

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)  # until a worker says what it does with it
    bell, rung = os.pipe()
    for end in (bell, rung):
        os.set_blocking(end, False)
    signal.set_wakeup_fd(rung, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    link = socket.socket(fileno=fd)
    watch = selectors.DefaultSelector()
    for source in (link, bell):
        watch.register(source, selectors.EVENT_READ)
    alive: set[int] = set()
    gc.freeze()  # a worker's collector then leaves the shared pages alone
    with suppress(OSError, EOFError):
        while os.getppid() == kernel:
            ready = [key.fileobj for key, _ in watch.select(1.0 if alive else 10.0)]
            with suppress(BlockingIOError):
                os.read(bell, 4096)
            for pid in sorted(alive):
                ended, status = os.waitpid(pid, os.WNOHANG)
                if ended:
                    alive.discard(pid)
                    _signal(pid, signal.SIGKILL)  # what it may have left behind
                    link.sendall(_NOTE.pack(b"X", pid, status))
            if link not in ready:
                continue
            note, fds, _, _ = socket.recv_fds(link, _NOTE.size, 4, socket.MSG_WAITALL)
            if not note:
                break
            note += _receive_exactly(link, _NOTE.size - len(note))
            for end in fds:
                os.set_inheritable(end, False)
            kind, pid, number = _NOTE.unpack(note)
            if kind == b"F":
                try:
                    pid = os.fork()
                except OSError as error:
                    pid = -(error.errno or 1)
                if pid == 0:
                    signal.set_wakeup_fd(-1)
                    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                    watch.close()
                    link.close()
                    os.close(bell)
                    os.close(rung)
                    _work(*fds)
                if pid > 0:
                    alive.add(pid)
                    with suppress(OSError):  # the child does the same; whoever comes first
                        os.setpgid(pid, pid)
                for end in fds:
                    os.close(end)
                link.sendall(_NOTE.pack(b"F", pid, 0))
            elif kind == b"S" and pid in alive:
                _signal(pid, number)
            elif kind == b"P":
                for name in _receive_exactly(link, number).decode().split():
                    with suppress(Exception):
                        importlib.import_module(name)
                gc.freeze()
    for pid in alive:
        _signal(pid, signal.SIGKILL)
    for pid in alive:  # where nobody adopts them properly, as in some containers, they would stay
        with suppress(OSError):
            os.waitpid(pid, 0)
    os._exit(0)


def _signal(pid: int, number: int) -> None:
    with suppress(OSError):
        if number == signal.SIGKILL:
            os.killpg(pid, number)
        else:
            os.kill(pid, number)


# --------------------------------------------------------------------- in a worker


def _work(control_fd: int, out: int, err: int, stack: int) -> NoReturn:
    """Runs in a worker, from its first moment to its last."""
    status = 70
    try:
        with suppress(OSError):
            os.setpgid(0, 0)
        os.dup2(out, 1)
        os.dup2(err, 2)
        os.close(out)
        os.close(err)
        for name, fd in (("stdout", 1), ("stderr", 2)):
            stream = open(fd, "w", 1, "utf-8", "backslashreplace", closefd=False)  # noqa: SIM115
            setattr(sys, name, stream)
            setattr(sys, f"__{name}__", stream)
        faulthandler.enable(all_threads=False)
        faulthandler.register(signal.SIGUSR1, file=stack, all_threads=False)
        status = _Rank(socket.socket(fileno=control_fd)).live()
    except SystemExit as leave:
        status = leave.code if isinstance(leave.code, int) else int(leave.code is not None)
        if isinstance(leave.code, str):
            print(leave.code, file=sys.stderr)
    except (EOFError, ConnectionError):
        pass  # the kernel is gone
    except BaseException:
        traceback.print_exc()
    finally:
        with suppress(BaseException):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(status & 0xFF)


class _Rank:
    """A worker's life: receive, join, call, answer, wait for the others, leave."""

    def __init__(self, kernel: socket.socket):
        self._kernel = kernel
        self._sending = threading.Lock()
        self._all_done = threading.Event()

    def live(self) -> int:
        global _reporter
        atexit._clear()  # what the helper wants to do at its end takes longer than a launch
        weakref.finalize._registered_with_atexit = False
        known = set(sys.modules)
        settings = pickle.loads(_receive_exactly(self._kernel, self._length()))
        payload = _receive_exactly(self._kernel, self._length())
        threading.Thread(target=self._watch, daemon=True).start()
        self.rank = settings["rank"]
        _reporter = lambda value: self._send("report", self._portable(value))  # noqa: E731
        try:
            self._settle_in(settings)
            fn, args = pickle.loads(payload)
            del payload
            self._join(settings)
            answer = self._portable(fn(*args), "its result")
        except SystemExit:
            raise
        except BaseException as error:  # such as asyncio's CancelledError
            self._send("error", self._described(error))
        else:
            self._send("result", answer, _of_torch(n for n in sys.modules if n not in known))
        # Leaving now would look like a lost connection to the others.
        self._all_done.wait()
        if settings["backend"] == "nccl":  # gloo needs no farewell
            _leave_group()
        atexit._run_exitfuncs()
        return 0

    def _length(self) -> int:
        return _LENGTH.unpack(_receive_exactly(self._kernel, _LENGTH.size))[0]

    def _watch(self) -> None:
        """In a thread: hear that all are done, or that the kernel is gone."""
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
        with suppress(OSError):
            while self._kernel.recv(1):
                self._all_done.set()
        if not self._all_done.is_set():
            os.killpg(0, signal.SIGKILL)

    def _settle_in(self, settings: dict[str, Any]) -> None:
        os.environ.clear()
        os.environ.update(settings["environment"])
        os.environ["OMP_NUM_THREADS"] = str(settings["threads"])  # for what is loaded later
        sys.path[:] = settings["path"]
        with suppress(OSError):
            os.chdir(settings["folder"])
        linecache.cache.update(settings["cells"])
        for setter, value in settings["torch"].items():
            getattr(torch, setter)(value)
        if settings["deterministic"]:  # (to say False imports half of torch)
            torch.use_deterministic_algorithms(True)
        torch.set_num_threads(settings["threads"])

    def _join(self, settings: dict[str, Any]) -> None:
        """Become a member of the process group; all of its connections are on this machine."""
        workers, port = settings["workers"], settings["port"]
        os.environ.update(
            RANK=str(self.rank),
            LOCAL_RANK=str(self.rank),
            WORLD_SIZE=str(workers),
            LOCAL_WORLD_SIZE=str(workers),
            MASTER_ADDR="127.0.0.1",
            MASTER_PORT=str(port),
            TORCHELASTIC_USE_AGENT_STORE="True",  # whoever joins again is a client of the store
        )
        loopback = [name for _, name in socket.if_nameindex() if name in ("lo", "lo0")]
        for variable in ("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME"):
            if loopback:
                os.environ[variable] = loopback[0]
        device = None
        if settings["backend"] == "nccl":
            device = torch.device("cuda", self.rank)
            torch.cuda.set_device(device)
        # On a busy machine the last rank may come late. timeout_s is for the collectives, so the
        # ranks wait for each other before they make the group.
        patient = timedelta(seconds=max(60, settings["timeout_s"]))
        store = dist.TCPStore("127.0.0.1", port, is_master=False, timeout=patient)
        if store.add("d2lperf/here", 1) == workers:
            store.set("d2lperf/all here", "")
        store.wait(["d2lperf/all here"], patient)
        _limit_subgroups(settings["timeout_s"])
        dist.init_process_group(
            settings["backend"],
            store=store,
            rank=self.rank,
            world_size=workers,
            timeout=timedelta(seconds=settings["timeout_s"]),
            device_id=device,
        )

    def _portable(self, value: Any, what: str = "the reported value") -> bytes:
        import cloudpickle

        try:
            return cloudpickle.dumps(value)
        except Exception as error:
            problem = WorkerError(
                f"rank {self.rank}: {what} ({type(value).__name__}) cannot be sent to the "
                f"notebook: {error}. Return tensors, arrays, numbers and containers of them."
            )
            problem.rank = self.rank
            raise problem from error

    def _described(self, error: BaseException) -> dict[str, Any]:
        """All that the kernel may want to know of an error, the error itself if it can travel."""
        import cloudpickle

        frames = error.__traceback__
        if frames is not None and frames.tb_next is not None:
            frames = frames.tb_next  # without this module's own
        text = "".join(traceback.format_exception(type(error), error, frames))
        blob, message = None, ""
        with suppress(Exception):  # an error of the user's may fail to say what it is
            message = str(error)
        with suppress(Exception):
            sent = cloudpickle.dumps(error)
            if type(pickle.loads(sent)) is type(error):
                blob = sent
        return {
            "blob": blob,
            "text": text.rstrip(),
            "name": type(error).__name__,
            "message": message,
            "frames": [(f.filename, f.lineno, f.name) for f in traceback.extract_tb(frames)],
            "runtime": isinstance(error, RuntimeError),  # as torch's own are
        }

    def _send(self, *message: Any) -> None:
        with self._sending:
            self._kernel.sendall(_framed(pickle.dumps(message)))


def _of_torch(names: Iterable[str]) -> list[str]:
    """Modules that the helper may import for later workers: torch's, which nobody edits.

    Their order is kept, since some of them cannot be the first of a circle of imports. Inductor is
    left out: it starts processes when it is imported.
    """
    return [name for name in names if name.startswith("torch.") and "inductor" not in name]


# ---------------------------------------------------------------------- in the kernel


class _HelperGone(Exception):
    """The helper process does not answer any more."""


class _Helper:
    """The kernel's side of the helper process."""

    def __init__(self) -> None:
        self.kernel = os.getpid()
        self.link, theirs = socket.socketpair()
        code = (
            f"import sys; sys.path[:] = {sys.path!r}; from d2lperf.launch import _serve; "
            f"_serve({theirs.fileno()}, {self.kernel})"
        )
        environment = dict(os.environ)
        if sys.platform == "darwin":
            environment["OBJC_DISABLE_INITIALIZE_FORK_SAFETY"] = "YES"
        self._log = tempfile.TemporaryFile()  # noqa: SIM115
        with theirs:
            # A session of its own: the stop button sends SIGINT to the kernel's whole group.
            self._process = subprocess.Popen(
                [sys.executable, "-c", code],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=self._log,
                stderr=self._log,
                start_new_session=True,
                env=environment,
            )
        self._notes = bytearray()
        self._ended: list[tuple[int, int]] = []

    def usable(self) -> bool:
        """Whether it is alive, and of this process (not of one that this was forked from)."""
        return self.kernel == os.getpid() and self._process.poll() is None

    def _write(self, kind: bytes, pid: int, number: int, more: bytes = b"", fds=()) -> None:
        note = _NOTE.pack(kind, pid, number)
        try:
            if fds:
                socket.send_fds(self.link, [note], fds)
            else:
                self.link.sendall(note + more)
        except OSError as error:
            raise _HelperGone from error

    def _read(self) -> list[tuple[bytes, int, int]]:
        """Wait for notes, return them."""
        try:
            data = self.link.recv(65536)
        except OSError as error:
            raise _HelperGone from error
        if not data:
            raise _HelperGone
        self._notes += data
        whole = len(self._notes) // _NOTE.size * _NOTE.size
        notes = list(_NOTE.iter_unpack(bytes(self._notes[:whole])))
        del self._notes[:whole]
        return notes

    def fork(self, fds: list[int]) -> int:
        """Have a worker forked, which gets these descriptors; return its process number."""
        self._write(b"F", 0, 0, fds=fds)
        forked = 0
        while not forked:
            for kind, pid, status in self._read():
                if kind == b"F":
                    forked = pid
                else:
                    self._ended.append((pid, status))
        if forked < 0:
            raise OSError(-forked, f"a worker cannot be started: {os.strerror(-forked)}")
        return forked

    def ended(self, *, wait: bool = False) -> list[tuple[int, int]]:
        """Return the processes that ended since this was asked last, each with its status."""
        if wait:
            self._ended += [(pid, status) for _, pid, status in self._read()]
        ended, self._ended = self._ended, []
        return ended

    def signal(self, pid: int, number: int) -> None:
        """Send a signal to a worker, if it is still there."""
        self._write(b"S", pid, number)

    def preload(self, modules: Iterable[str]) -> None:
        """Have modules imported for the workers to come."""
        names = " ".join(modules).encode()
        self._write(b"P", 0, len(names), names)

    def last_words(self) -> str:
        """What it wrote before it ended."""
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(1)
        self._log.seek(0)
        return self._log.read().decode(errors="replace").strip()

    def close(self) -> None:
        """End it, and with it all workers."""
        self.link.close()
        self._log.close()
        if self.kernel == os.getpid():
            try:
                self._process.wait(1)
            except subprocess.TimeoutExpired:  # it imports something
                self._process.kill()
                self._process.wait()


_helper: _Helper | None = None


@atexit.register
def _close_helper() -> None:
    """End the helper process; the next launch starts another."""
    global _helper
    helper, _helper = _helper, None
    if helper is not None:
        helper.close()


def _ready_helper() -> _Helper:
    global _helper
    if _helper is not None and not _helper.usable():
        _close_helper()
    if _helper is None:
        _helper = _Helper()
    return _helper


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
            None,
            True,
            wait_for_workers=False,
            master_listen_fd=listener.detach(),
            use_libuv=version >= (2, 13),  # the oldest where that was tried and works
        )


class _Worker:
    """What the kernel knows of one rank."""

    def __init__(self, rank: int):
        self.rank = rank
        self.pid: int | None = None
        self.status: int | None = None  # as os.waitpid gives it, once the process has ended
        self.result: bytes | None = None
        self.error: dict[str, Any] | None = None
        self.open: dict[str, Any] = {}  # control (a socket), out, err, stack (descriptors)
        self.inbox = bytearray()
        self.begun = {"out": b"", "err": b""}  # lines that have no end yet
        self.stack = b""
        self.last_errors = b""

    @property
    def gone(self) -> bool:
        return self.pid is None or self.status is not None

    @property
    def running(self) -> bool:
        return not self.gone and self.result is None and self.error is None


class _Crew:
    """One launch, seen from the kernel."""

    def __init__(self, workers: int, on_report: Callable | None, timeout_s: float):
        self._workers = [_Worker(rank) for rank in range(workers)]
        self._on_report = on_report
        self._timeout_s = timeout_s
        self._watch = selectors.DefaultSelector()
        self._decided: BaseException | None = None  # why the launch fails
        self._doubtful: _Worker | None = None  # it failed, perhaps because of another one
        self._doubtful_since = 0.0
        self._ending = False
        self._tidy = False  # the workers are gone, and the helper has nothing more to say
        self._modules: dict[str, None] = {}  # in the order of their import

    # ---- from the first moment to the last

    def run(self, payload: bytes, settings: dict[str, Any], deadline_s: float | None) -> list[Any]:
        """Start the workers, see them through, return their results."""
        try:
            self._store = _open_store()
            self._helper = _ready_helper()
            self._watch.register(self._helper.link, selectors.EVENT_READ, self._on_ended)
            for worker in self._workers:
                self._start(worker)
            self._send(payload, {**settings, "port": self._store.port})
            del payload
            self._see_through(deadline_s)
            results = [self._load(w, w.result, "result") for w in self._workers]
            self._end_all()
            if self._modules:
                self._helper.preload(self._modules)
            self._tidy = True
            return results
        except _HelperGone as error:
            words = self._helper.last_words()
            raise WorkerError(
                "the process that starts the workers ended"
                + (f". It wrote:\n{words}" if words else "; launch again.")
            ) from error
        except Exception:
            with suppress(_HelperGone):
                self._end_all(signal.SIGKILL)
                self._tidy = all(w.gone for w in self._workers)
            raise
        finally:
            self._let_go()

    def _start(self, worker: _Worker) -> None:
        worker.open["control"], theirs = socket.socketpair()
        given = [theirs.detach()]
        try:
            for name in ("out", "err", "stack"):
                worker.open[name], end = os.pipe()
                given.append(end)
                os.set_blocking(worker.open[name], False)
            worker.pid = self._helper.fork(given)
        finally:
            for fd in given:
                os.close(fd)
        handlers = {"control": self._on_message, "stack": self._on_stack}
        for name, source in worker.open.items():
            handler = partial(handlers.get(name, self._on_output), worker, name)
            self._watch.register(source, selectors.EVENT_READ, handler)

    def _send(self, payload: bytes, settings: dict[str, Any]) -> None:
        for worker in self._workers:
            control = worker.open["control"]
            with suppress(ConnectionError):  # that it died will be heard
                control.sendall(_framed(pickle.dumps({**settings, "rank": worker.rank})))
                control.sendall(_framed(payload))
            control.setblocking(False)

    def _see_through(self, deadline_s: float | None) -> None:
        """Wait until all have answered, or raise the reason why that will not be."""
        end = math.inf if deadline_s is None else time.monotonic() + deadline_s
        while not all(w.result is not None and not w.gone for w in self._workers):
            now = time.monotonic()
            if self._decided is not None:
                raise self._decided
            if self._doubtful is not None:
                settle = self._doubtful_since + _PATIENCE_S
                if now >= settle or not any(w.running for w in self._workers):
                    raise self._settled()
            else:
                settle = math.inf
            if now >= end:
                raise self._out_of_time(deadline_s)
            self._step(min(settle, end) - now)

    def _step(self, timeout_s: float) -> None:
        """Take in what has arrived, or wait for the next of it."""
        for pid, status in self._helper.ended():
            self._end(pid, status)
        timeout = None if timeout_s == math.inf else max(0.0, timeout_s)
        for key, _ in self._watch.select(timeout):
            if key.fd in self._watch.get_map():  # not closed by one before it
                key.data()

    def _end_all(self, number: int | None = None) -> None:
        """Let the workers leave, or kill them; show what they printed until then.

        A process that a worker left behind in a session of its own may keep the pipes open for
        ever: it gets little time when the workers themselves are gone.
        """
        self._ending = True
        for worker in self._workers:
            with suppress(OSError):
                if number is None:
                    worker.open["control"].send(b".")
                elif not worker.gone:
                    self._helper.signal(worker.pid, number)
        end, short = time.monotonic() + _GOODBYE_S, math.inf
        while (now := time.monotonic()) < min(end, short):
            if all(w.gone for w in self._workers):
                if not any({"out", "err"} & set(w.open) for w in self._workers):
                    return
                short = min(short, now + 0.3)
            self._step(min(end, short) - now)
        if number is None and not all(w.gone for w in self._workers):
            self._end_all(signal.SIGKILL)

    def _let_go(self) -> None:
        """Leave nothing behind, however the launch ended."""
        self._ending = True
        if not self._tidy:
            # The stop button came, perhaps between a question to the helper and its answer (or it
            # is gone). With the helper all of its workers end; the next launch starts another.
            _close_helper()
            for worker in self._workers:
                if not worker.gone:
                    _signal(worker.pid, signal.SIGKILL)
        for worker in self._workers:
            with suppress(Exception):
                self._drain(worker)
            for name in list(worker.open):
                self._close(worker, name)  # a worker whose line to the kernel ends, leaves
        self._watch.close()
        self._store = None

    def _drain(self, worker: _Worker) -> None:
        """Show what it had printed, waiting for nothing: it may have left others that print."""
        for name in ("out", "err"):
            for _ in range(100):
                if name not in worker.open or not self._on_output(worker, name):
                    break

    # ---- what arrives

    def _close(self, worker: _Worker, name: str) -> None:
        source = worker.open.pop(name)
        with suppress(KeyError, ValueError):
            self._watch.unregister(source)
        if name == "control":
            source.close()
        else:
            os.close(source)
        if worker.begun.get(name):
            self._show(worker, name, [worker.begun.pop(name)])

    def _read(self, worker: _Worker, name: str) -> bytes:
        """Return what is there to read; close the source where it has ended."""
        source = worker.open[name]
        try:
            data = source.recv(1 << 20) if name == "control" else os.read(source, 1 << 16)
        except BlockingIOError:
            return b""
        except ConnectionError:
            data = b""
        if not data:
            self._close(worker, name)
        return data

    def _on_output(self, worker: _Worker, name: str) -> bool:
        """Show the whole lines that have arrived; return whether anything has."""
        data = self._read(worker, name)
        if data:
            *whole, worker.begun[name] = (worker.begun[name] + data).split(b"\n")
            self._show(worker, name, whole)
            if name == "err":
                worker.last_errors = (worker.last_errors + data)[-10_000:]
        return bool(data)

    def _show(self, worker: _Worker, name: str, lines: list[bytes]) -> None:
        stream = sys.stdout if name == "out" else sys.stderr
        for line in lines:
            # Of a progress bar, which goes back to the start of its line, what it showed last.
            text = line.rstrip(b"\r").rsplit(b"\r", 1)[-1].decode(errors="replace")
            if not text.startswith("[Gloo] Rank "):  # gloo greets each group
                stream.write(f"[rank {worker.rank}] {text}\n")
        if lines:
            stream.flush()

    def _on_stack(self, worker: _Worker, name: str) -> None:
        worker.stack += self._read(worker, name)

    def _on_message(self, worker: _Worker, name: str = "control") -> bool:
        """Take in what a rank says; return whether it said anything."""
        data = self._read(worker, name)
        worker.inbox += data
        while len(worker.inbox) >= _LENGTH.size:
            end = _LENGTH.size + _LENGTH.unpack_from(worker.inbox)[0]
            if len(worker.inbox) < end:
                break
            kind, *content = pickle.loads(worker.inbox[_LENGTH.size : end])
            del worker.inbox[:end]
            if kind == "result":
                worker.result, modules = content
                self._modules.update(dict.fromkeys(modules))
            elif kind == "error":
                worker.error = content[0]
                self._weigh(worker)
            elif self._on_report is not None and not self._ending:
                self._on_report(worker.rank, self._load(worker, content[0], "report"))
        return bool(data)

    def _on_ended(self) -> None:
        for pid, status in self._helper.ended(wait=True):
            self._end(pid, status)

    def _end(self, pid: int, status: int) -> None:
        """A process has ended: hear its last message, and think about why."""
        worker = next((w for w in self._workers if w.pid == pid), None)
        if worker is None:  # of an earlier launch
            return
        worker.status = status
        while "control" in worker.open and self._on_message(worker):
            pass
        if not self._ending and worker.error is None:
            self._weigh(worker)

    # ---- who is to blame

    def _weigh(self, worker: _Worker) -> None:
        """Decide that this rank is the cause, or that it may be the victim of another.

        The others' errors after that are not looked at: nobody who is asked to name a cause
        wants to hear of the consequences.
        """
        if self._decided is not None or self._ending:
            return
        if worker.error is None:
            # A library that loses a peer in a thread of its own aborts.
            doubtful = (
                os.WIFSIGNALED(worker.status) and os.WTERMSIG(worker.status) == signal.SIGABRT
            )
        else:
            message = worker.error["message"]
            doubtful = worker.error["runtime"] and bool(
                _LOST_PEER.search(message) or _TOO_LATE.search(message)
            )
        if not doubtful:
            self._decided = self._error_of(worker)
        elif self._doubtful is None:
            self._doubtful, self._doubtful_since = worker, time.monotonic()

    def _error_of(self, worker: _Worker) -> BaseException:
        """The error to raise for a rank that failed."""
        if worker.error is None:
            return self._death_of(worker)
        about = worker.error
        if about["blob"] is not None:
            error = self._load(worker, about["blob"], "error")
        else:
            error = WorkerError(
                f"rank {worker.rank} raised {about['name']}: {about['message']} "
                "(its traceback is above; the error itself cannot be sent to the notebook)"
            )
            error.rank = worker.rank
        error.__cause__ = self._trace(worker)
        return error

    def _trace(self, worker: _Worker) -> WorkerTraceback:
        return WorkerTraceback(
            f"rank {worker.rank} of {len(self._workers)} raised this:\n{worker.error['text']}"
        )

    def _death_of(self, worker: _Worker) -> WorkerError:
        who = f"rank {worker.rank} of {len(self._workers)}"
        when = "" if worker.result is None else " after its function had returned"
        number = None
        if os.WIFSIGNALED(worker.status):
            number = os.WTERMSIG(worker.status)
            hints = {
                signal.SIGKILL: " Where nobody did that by hand, the system ran out of memory.",
                signal.SIGTERM: "",
            }
            crash = " That is a crash in compiled code; what it wrote is above, if it did."
            text = (
                f"{who} was killed by signal {number} ({_signal_name(number)}){when}."
                + hints.get(number, crash)
            )
        else:
            text = (
                f"{who} exited with status {os.WEXITSTATUS(worker.status)}{when}: something in it "
                "called sys.exit or os._exit. Let the function return instead."
            )
        error = WorkerError(text)
        error.rank, error.signal = worker.rank, number
        return error

    def _settled(self) -> BaseException:
        """The error to raise where nobody came forward but ranks that lost their peers."""
        late = [w for w in self._workers if self._too_late(w)]
        if not late:
            return self._error_of(self._doubtful)
        places = self._places()
        if self._decided is not None:  # meanwhile somebody came forward
            return self._decided
        error = LaunchTimeout(
            f"a collective waited longer than timeout_s = {self._timeout_s:g} s: "
            "not every rank took part in it.\n" + "\n".join(places)
        )
        error.rank = late[0].rank
        if late[0].error is not None:
            error.__cause__ = self._trace(late[0])
        return error

    @staticmethod
    def _too_late(worker: _Worker) -> bool:
        if worker.error is not None:
            said = worker.error["message"] if worker.error["runtime"] else ""
        else:
            said = worker.last_errors.decode(errors="replace") if worker.gone else ""
        return bool(_TOO_LATE.search(said))

    def _out_of_time(self, deadline_s: float) -> LaunchTimeout:
        """Show where each rank is; the error to raise then."""
        running = [w.rank for w in self._workers if w.running]
        for line in self._places(whole=True):
            sys.stdout.write(f"{line}\n")
        sys.stdout.flush()
        who = f"rank {running[0]}" if len(running) == 1 else f"ranks {', '.join(map(str, running))}"
        error = LaunchTimeout(
            f"the launch took longer than deadline_s = {deadline_s:g} s; "
            f"still at work: {who}. Where they were is printed above."
        )
        error.rank = running[0] if len(running) == 1 else None
        return error

    def _places(self, whole: bool = False) -> list[str]:
        """Where in its Python code each rank is, in words: its last line of the user's, or all."""
        self._ask_for_stacks()
        lines = []
        for worker in self._workers:
            start = f"[rank {worker.rank}]"
            if worker.result is not None:
                lines.append(f"{start} its function has returned")
            elif worker.error is None and worker.gone:
                lines.append(f"{start} {self._death_of(worker)}")
            else:
                frames = worker.error["frames"] if worker.error else _frames(worker.stack)
                shown = _in_words(frames) or ["not in the function yet"]
                doing = "gave up" if worker.error else "is"
                if whole:
                    lines.append(f"{start} {doing} at (most recent call last):")
                    lines += [f"{start}   {place}" for place in shown]
                else:
                    lines.append(f"{start} {doing} at {shown[-1]}")
        return lines

    def _ask_for_stacks(self) -> None:
        asked = [w for w in self._workers if w.running]
        for worker in asked:
            worker.stack = b""
            self._helper.signal(worker.pid, signal.SIGUSR1)
        end, size = time.monotonic() + _PATIENCE_S, -1
        # A stack has no end mark: it is whole when nothing has come for a while.
        while time.monotonic() < end:
            before, size = size, sum(len(w.stack) for w in asked)
            if size == before and all(w.stack or not w.running for w in asked):
                break
            quiet = time.monotonic() + 0.05
            while (left := quiet - time.monotonic()) > 0:
                self._step(left)

    def _load(self, worker: _Worker, blob: bytes, what: str) -> Any:
        try:
            return pickle.loads(blob)
        except Exception as error:
            problem = WorkerError(
                f"the {what} of rank {worker.rank} arrived, but cannot be read here: "
                f"{type(error).__name__}: {error}. "
                "Return tensors, arrays, numbers and containers of them."
            )
            problem.rank = worker.rank
            raise problem from error


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return "a signal without a name"


_FRAME = re.compile(r'^  File "(.*)", line (\d+) in (.*)$', re.MULTILINE)


def _frames(stack: bytes) -> list[tuple[str, int, str]]:
    """File, line and function of each frame that faulthandler wrote, the most recent call last."""
    found = _FRAME.findall(stack.decode(errors="replace"))
    return [(file, int(line), name) for file, line, name in reversed(found)]


def _in_words(frames: list[tuple[str, int, str]]) -> list[str]:
    """The frames of the user's own code, each with its source."""
    start = [i for i, (file, _, name) in enumerate(frames) if (file, name) == (__file__, "live")]
    places = []
    for file, line, name in frames[start[-1] + 1 :] if start else frames:
        if file.startswith((*_LIBRARIES, __file__, "<frozen")):
            continue
        source = linecache.getline(file, line).strip()
        where = os.path.basename(file) if os.path.exists(file) else "cell"
        places.append(f"{where}, line {line}, in {name}" + (f": {source}" if source else ""))
    return places


_LIBRARIES = tuple({sysconfig.get_path(name) for name in ("stdlib", "purelib", "platlib")})


class _CallableModule(ModuleType):
    """Lets ``d2lperf.launch`` be the function and this module at the same time."""

    __call__ = staticmethod(launch)

    @property
    def __signature__(self) -> inspect.Signature:
        return inspect.signature(launch)

    def __reduce__(self) -> tuple[Any, ...]:  # a module is pickled as its name
        return importlib.import_module, (self.__name__,)


sys.modules[__name__].__class__ = _CallableModule
