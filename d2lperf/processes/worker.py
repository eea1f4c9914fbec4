"""The worker that a process is: it takes over the caller's settings, runs tasks, and ends well."""

import faulthandler
import multiprocessing
import os
import queue
import signal
import sys
import threading
import traceback
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

import numpy as np
import torch

from d2lperf import _compat
from d2lperf.processes.errors import described, place_of
from d2lperf.processes.wire import pack, receive, send, unpack

_ADVICE = "Return tensors, arrays, numbers and containers of them (compare: or pass check=False)."
_OF_TORCH = "default_dtype", "float32_matmul_precision", "deterministic_debug_mode"

here: "Here"  # the worker that this process is; there in workers only
reporter: Callable[[Any], None] | None = None  # where `report` sends its value


class Settings(NamedTuple):
    """What a worker takes over from the process that starts it."""

    environment: dict[str, str]
    cells: dict[str, tuple]  # sources of the notebook's cells, for tracebacks
    torch: dict[str, Any]  # name of a setting -> value
    grad: bool


def current_settings(threads: int) -> Settings:
    """Return the settings of this process, with a number of threads for torch."""
    of_torch = {name: getattr(torch, f"get_{name}")() for name in _OF_TORCH}
    of_torch["num_threads"] = threads
    cells = _compat.sources_of_cells()
    return Settings(dict(os.environ), cells, of_torch, torch.is_grad_enabled())


class Here:
    """The worker that this process is, from its first moment to its last."""

    def __init__(
        self,
        index: int,
        label: str,
        settings: Settings,
        link: Connection,
        out: Connection,
        err: Connection,
    ):
        global here, reporter
        here, reporter = self, partial(self.send, "report", "the reported value")
        self.index, self._label, self._link = index, label, link
        self._sending = threading.Lock()
        self._tasks: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self.subject: Any = None  # the `Subject` of a comparison, for as long as there is one
        os.setpgid(0, 0)  # what it starts ends with it
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        _redirect("stdout", 1, out)
        _redirect("stderr", 2, err)
        faulthandler.enable(all_threads=False)
        _compat.forget_exit_functions()  # what the server would do at its end takes a while
        _take_over(settings)
        multiprocessing.set_start_method(None, force=True)  # as in any fresh process
        np.random.seed()  # as `random` does after a fork; torch has its default seed
        self.live()
        _compat.run_exit_functions()  # which multiprocessing leaves out

    def live(self) -> None:
        """Run one task after the other, until there are no more."""
        threading.Thread(target=self._listen, daemon=True).start()
        while True:
            task = self._tasks.get()
            if task is None:
                return
            try:
                self.send("result", "its result", unpack(task)())
            except SystemExit:
                raise
            except BaseException as error:  # also asyncio's CancelledError
                self.send("error", "its error", described(error))

    def send(self, kind: str, what: str, value: Any) -> None:
        """Send the kernel a value; WorkerError if it cannot be sent."""
        what = f"{self._label}: {what} ({type(value).__name__})"
        packed = pack(value, f"{what} cannot be sent to the notebook", _ADVICE)
        with self._sending:
            send(self._link, kind, packed)

    def _listen(self) -> None:
        """In a thread: take tasks, say where the function is, end together with the kernel."""
        try:
            while True:
                kind, task = receive(self._link)
                if kind == "where":
                    frame = _compat.frame_of(threading.main_thread().ident)
                    place = place_of("is at", traceback.extract_stack(frame))
                    self.send("where", "its place", place)
                else:
                    self._tasks.put(task if kind == "task" else None)
        except (EOFError, OSError):
            kill_group(os.getpid())


def kill_group(pid: int) -> None:
    """End a process with all of its group, or at least the process."""
    for kill in (os.killpg, os.kill):
        with suppress(OSError):
            kill(pid, signal.SIGKILL)


def _redirect(name: str, fd: int, pipe: Connection) -> None:
    """Let what this process writes to a stream go into a pipe, also from below Python."""
    os.dup2(pipe.fileno(), fd)
    pipe.close()
    stream = os.fdopen(fd, "w", 1, "utf-8", "backslashreplace", closefd=False)
    setattr(sys, name, stream)
    setattr(sys, f"__{name}__", stream)


def _take_over(settings: Settings) -> None:
    os.environ.clear()
    os.environ.update(settings.environment)
    _compat.add_sources(settings.cells)
    for name, value in settings.torch.items():
        if getattr(torch, f"get_{name}")() != value:  # some setters import half of torch
            getattr(torch, f"set_{name}")(value)
    torch.set_grad_enabled(settings.grad)
