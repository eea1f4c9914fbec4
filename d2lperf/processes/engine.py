"""Worker processes: start them, talk to them, find out which one failed, end them.

The calling process is never forked: OpenMP and CUDA do not survive that. The fork server of
`multiprocessing` is a fresh Python that imports torch and waits; a fork of it takes milliseconds.
A worker that fails stays alive until the kernel ends it, so that the first error to arrive is the
cause, and not what the other workers said about a lost connection.
"""

from __future__ import annotations

import atexit
import dis
import faulthandler
import io
import linecache
import math
import multiprocessing
import os
import pickle
import queue
import random
import re
import signal
import sys
import sysconfig
import threading
import time
import traceback
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from multiprocessing.connection import Connection, wait
from types import ModuleType
from typing import Any

import cloudpickle
import numpy as np
import torch
import torch.distributed as dist

__all__ = ["Crew", "LaunchTimeout", "WorkerError", "pack"]

# The first optimiser of a process imports torch._dynamo, which takes longer than torch itself.
_PRELOAD = ["torch", "d2lperf.processes.launch", "torch._dynamo"]
_PATIENCE_S = 1.0  # how long a "connection closed" waits for news of who closed it
_GOODBYE_S = 3.0  # what workers may take to leave
_ADVICE = "Return tensors, arrays, numbers and containers of them (compare: or pass check=False)."
_SERVER_ENDED = "the process that starts the workers has ended. Launch again."
_OURS = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_LIBRARIES = (_OURS, "<frozen", *map(sysconfig.get_path, ("stdlib", "purelib", "platlib")))
_COLLECTIVES = os.path.dirname(dist.__file__) + os.sep
# What gloo, NCCL and the store say when another rank is gone, or did not come in time.
_SPEAKER = re.compile("gloo|c10d|nccl|ProcessGroup")
_LOST = re.compile("(?i)connection|closed|broken pipe|failed to|remote|nccl(remote|system)error")
_LATE = re.compile("(?i)time(d )?out")
_GREETING = re.compile(  # what gloo prints for each group
    rb"\[Gloo\] Rank \d+ is connected to (\d+) peer ranks\. Expected [a-z ]+ ranks is : \1"
)
_SETTINGS = "default_dtype", "float32_matmul_precision", "deterministic_debug_mode"  # of torch


class WorkerError(RuntimeError):
    """A worker died (`.rank`, by `.signal` or None), or what it gets or returns cannot travel."""

    def __init__(self, text: str, rank: int | None = None, signal: int | None = None):
        super().__init__(text)
        self.rank, self.signal = rank, signal


class LaunchTimeout(WorkerError):
    """A collective waited longer than `timeout_s`, or the whole launch longer than `deadline_s`."""


class WorkerTraceback(Exception):
    """Shows the traceback of a worker, as the cause of the error that was raised there."""


class _Pickler(cloudpickle.Pickler):
    """Cloudpickle that does not copy the memory of tensors."""

    def reducer_override(self, x: Any) -> Any:
        if type(x) is torch.Tensor and not vars(x):
            with suppress(TypeError, RuntimeError):  # dtypes, layouts, devices that NumPy lacks
                return torch.from_numpy, (x.numpy(),)
        return super().reducer_override(x)


def pack(value: Any) -> list[memoryview]:
    """Return the pickle of a value, then the memory of each of its tensors and arrays."""
    stream, beside = io.BytesIO(), []
    _Pickler(stream, protocol=5, buffer_callback=beside.append).dump(value)
    return [stream.getbuffer(), *(buffer.raw() for buffer in beside)]


def _unpack(packed: Sequence[Any]) -> Any:
    return pickle.loads(packed[0], buffers=packed[1:])


def _send(link: Connection, kind: str, packed: Sequence[memoryview] = ()) -> None:
    link.send((kind, [len(memory) for memory in packed]))
    for memory in packed:
        while memory:
            memory = memory[os.write(link.fileno(), memory) :]


def _receive(link: Connection) -> tuple[str, list[np.ndarray]]:
    kind, sizes = link.recv()
    packed = [torch.empty(size, dtype=torch.uint8).numpy() for size in sizes]  # aligned for torch
    for memory in map(memoryview, packed):
        while memory:
            if not (count := os.readv(link.fileno(), [memory])):
                raise EOFError
            memory = memory[count:]
    return kind, packed


here: _Here | None = None
reporter: Callable[[Any], Any] | None = None  # where `report` sends its value


class _Here:
    """The worker that this process is, from its first moment to its last."""

    def __init__(self, index: int, label: str, settings: dict, *pipes: Connection):
        global here, reporter
        here, reporter = self, partial(self.send, "report", "the reported value")
        self.index, self._label, self._link = index, label, pipes[0]
        self._sending, self._tasks = threading.Lock(), queue.SimpleQueue()
        os.setpgid(0, 0)  # what it starts ends with it
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        for name, fd, pipe in (("stdout", 1, pipes[1]), ("stderr", 2, pipes[2])):
            os.dup2(pipe.fileno(), fd)
            pipe.close()
            stream = open(fd, "w", 1, "utf-8", "backslashreplace", closefd=False)  # noqa: SIM115
            vars(sys).update({name: stream, f"__{name}__": stream})
        faulthandler.enable(all_threads=False)
        atexit._clear()  # what the server would do at its end takes a while
        weakref.finalize._registered_with_atexit = False
        os.environ.clear()
        os.environ.update(settings["environment"])
        linecache.cache.update(settings["cells"])
        for name, value in settings["torch"].items():
            if getattr(torch, f"get_{name}")() != value:  # some setters import half of torch
                getattr(torch, f"set_{name}")(value)
        torch.set_grad_enabled(settings["grad"])
        multiprocessing.set_start_method(None, force=True)  # as in any fresh process
        random.seed()  # as torch does not: it has its default seed, as in any fresh process
        np.random.seed()
        self.live()
        atexit._run_exitfuncs()  # which multiprocessing leaves out

    def live(self) -> None:
        threading.Thread(target=self._listen, daemon=True).start()
        while (task := self._tasks.get()) is not None:
            try:
                self.send("result", "its result", _unpack(task)())
            except SystemExit:
                raise
            except BaseException as error:  # also asyncio's CancelledError
                self.send("error", "its error", _described(error))

    def send(self, kind: str, what: str, value: Any) -> None:
        try:
            packed = pack(value)
        except Exception as error:
            what = f"{self._label}: {what} ({type(value).__name__}) cannot be sent to the notebook"
            raise WorkerError(f"{what}: {error}. {_ADVICE}", self.index) from error
        with self._sending:
            _send(self._link, kind, packed)

    def _listen(self) -> None:
        """In a thread: take tasks, say where the function is, end together with the kernel."""
        try:
            while True:
                kind, task = _receive(self._link)
                if kind == "where":
                    frame = sys._current_frames()[threading.main_thread().ident]
                    self.send("where", "its place", _place(traceback.extract_stack(frame)))
                else:
                    self._tasks.put(task if kind == "task" else None)
        except (EOFError, OSError):
            _kill(os.getpid())


def _place(frames: Sequence[traceback.FrameSummary]) -> tuple[str, bool]:
    """Where in the user's code that is, and whether it waits for other ranks there."""
    words = []
    for frame in reversed(frames):
        if not frame.filename.startswith(_LIBRARIES):
            file = os.path.basename(frame.filename) if os.path.exists(frame.filename) else "cell"
            words.append(f"{file}, line {frame.lineno}, in {frame.name}: {frame.line}")
    text = "\n    called from ".join(words) or "not in the function yet"
    return text, bool(frames) and frames[-1].filename.startswith(_COLLECTIVES)


def _described(error: BaseException) -> dict[str, Any]:
    """What the kernel wants to know of an error, with the error itself if it can travel."""
    frames, blob, chain = error.__traceback__, None, [error]
    while frames is not None and frames.tb_frame.f_code.co_filename.startswith(_OURS):
        frames = frames.tb_next
    with suppress(Exception):
        sent = cloudpickle.dumps(error)
        blob = sent if type(pickle.loads(sent)) is type(error) else None
    while (cause := chain[-1].__cause__ or chain[-1].__context__) and cause not in chain:
        chain.append(cause)
    return {
        "blob": blob,
        "said": _words(error),
        "text": "".join(traceback.format_exception(type(error), error, frames)).rstrip(),
        "place": f"gave up at {_place(traceback.extract_tb(frames))[0]}",
        "late": _said_of_others(error) == "late",
        "doubtful": any(map(_said_of_others, chain)),
    }


def _words(error: BaseException) -> str:
    return "".join(traceback.format_exception_only(type(error), error)).strip()


def _said_of_others(error: BaseException) -> str:
    """What torch.distributed says of other ranks by this error: "lost", "late" or nothing."""
    # A RuntimeError that the user's code raises is the user's own, whatever its words. The
    # instruction at which the innermost frame stopped tells a `raise` from a call into C++.
    frames = error.__traceback__
    if not isinstance(error, RuntimeError) or frames is None:
        return ""
    message = _words(error)
    while frames.tb_next is not None:
        frames = frames.tb_next
    code = frames.tb_frame.f_code
    raised = dis.opname[code.co_code[frames.tb_lasti]] == "RAISE_VARARGS"
    theirs = code.co_filename.startswith(_COLLECTIVES) or not raised
    if not isinstance(error, dist.DistError) and not (theirs and _SPEAKER.search(message)):
        return ""
    return "late" if _LATE.search(message) else "lost" if _LOST.search(message) else ""


def _kill(pid: int) -> None:
    """End a process with all of its group."""
    for kill in (os.killpg, os.kill):
        with suppress(OSError):
            kill(pid, signal.SIGKILL)


_starting = threading.Lock()


@contextmanager
def _server() -> Iterator[None]:
    """Have the fork server running, and keep its forks from importing the caller's script."""
    from multiprocessing import forkserver, resource_tracker

    def start() -> None:
        # In a thread, since no stop button interrupts it there. The button reaches the server as
        # well, which ignores it only after its imports. (The tracker would unblock the signal.)
        resource_tracker.ensure_running()
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        forkserver.ensure_running()

    with _starting:
        multiprocessing.set_forkserver_preload(_PRELOAD)
        starter = threading.Thread(target=start)
        starter.start()
        starter.join()
        main = sys.modules["__main__"]
        sys.modules["__main__"] = ModuleType("__main__")
        try:
            yield
        except (EOFError, ConnectionError) as error:
            raise WorkerError(_SERVER_ENDED) from error
        finally:
            sys.modules["__main__"] = main


@dataclass
class Worker:
    """What the kernel knows of one worker."""

    index: int
    label: str
    who: str  # in sentences
    process: Any = None
    open: dict[str, Any] = field(default_factory=dict)  # pipes; end: the process itself
    busy: bool = False  # from a task to its answer
    value: Any = None
    failure: dict[str, Any] | None = None  # error, doubtful, late, place, at
    place: tuple[str, bool] | None = None
    begun: dict[str, bytearray] = field(default_factory=dict)  # lines
    late: bool = False  # it wrote so to stderr

    def start(self, settings: dict[str, Any]) -> None:
        self.open["link"], link = multiprocessing.Pipe()
        self.open["out"], out = multiprocessing.Pipe(duplex=False)
        self.open["err"], err = multiprocessing.Pipe(duplex=False)
        self.process = multiprocessing.get_context("forkserver").Process(
            target=_Here, args=(self.index, self.label, settings, link, out, err), daemon=False
        )
        with link, out, err, _server():
            self.process.start()
        self.open["end"] = self.process.sentinel

    def death(self) -> WorkerError:
        """The error that says how it ended."""
        status, names = self.process.exitcode, {-n: n.name for n in signal.Signals}
        how = f"exited with status {status}"
        hint = "Something called sys.exit or os._exit. Let the function return instead."
        if status < 0:
            how = f"was killed by signal {-status} ({names.get(status, 'without a name')})"
            hint = "That is a crash in compiled code; what it wrote is above, if it did."
        if status in (-signal.SIGKILL, -signal.SIGTERM):
            hint = "If nobody did that by hand, the system may have run out of memory."
        with suppress(OSError):
            if status == 255:
                os.kill(self.process.pid, 0)  # it lives: the server, which would tell us, does not
                return WorkerError(_SERVER_ENDED)
        when = "" if self.busy else " after its function had returned"
        return WorkerError(f"{self.who} {how}{when}. {hint}", self.index, max(0, -status) or None)


class Crew:
    """Some workers. Leaving the `with` block lets them go, an error kills them; none is left.

    `names` is label -> name in sentences of each worker. What it prints starts with its label.
    """

    def __init__(self, names: dict[str, str], threads: int, on_report: Callable | None = None):
        if "forkserver" not in multiprocessing.get_all_start_methods():
            text = f"Workers are forks of a server process, which {sys.platform} does not support. "
            text += (
                "Use WSL 2 (Linux in Windows), or write function and launch to a script and run: "
            )
            raise NotImplementedError(f"{text}torchrun --nproc-per-node {len(names)} script.py")
        cells = {k: v for k, v in linecache.cache.items() if len(v) == 4 and not os.path.exists(k)}
        state = {name: getattr(torch, f"get_{name}")() for name in _SETTINGS}
        self._settings = {
            "environment": dict(os.environ),
            "cells": cells,
            "torch": {**state, "num_threads": threads},
            "grad": torch.is_grad_enabled(),
        }
        self.workers = [Worker(i, *pair) for i, pair in enumerate(names.items())]
        self._on_report = on_report
        self._failed: list[Worker] = []  # in the order of their news

    def __enter__(self) -> Crew:
        with ExitStack() as stack:
            stack.push(self)
            for worker in self.workers:
                worker.start(self._settings)
            stack.pop_all()
        return self

    def give(self, task: Sequence[memoryview], workers: Sequence[Worker] = ()) -> None:
        """Send a packed function without arguments to some workers, or to all of them."""
        self._failed.clear()
        for worker in workers or self.workers:
            if "end" not in worker.open:
                raise worker.failure["error"]
            worker.busy, worker.value, worker.failure = True, None, None
            with suppress(ConnectionError):  # that it died will be heard
                _send(worker.open["link"], "task", task)

    def gather(self, timeout_s: float = math.inf, deadline_s: float = math.inf) -> list[Any]:
        """Wait for all answers and return them, or raise the reason why one will not come."""
        end = time.monotonic() + deadline_s
        while self._failed or any(w.busy for w in self.workers):
            now, settle = time.monotonic(), math.inf
            if cause := self._cause():
                raise cause
            if self._failed:  # each of them perhaps because of another one
                settle = self._failed[0].failure["at"] + _PATIENCE_S
            if now >= settle or not any(w.busy for w in self.workers):
                if not any(w.failure["late"] for w in self._failed):
                    raise self._failed[0].failure["error"]
                text = f"a collective waited longer than timeout_s = {timeout_s:g} s: "
                raise self._too_late(text + "not every rank took part in it.")
            if now >= end:
                raise self._too_late(f"the launch took longer than deadline_s = {deadline_s:g} s.")
            self._step(min(settle, end) - now)
        return [w.value for w in self.workers]

    def _cause(self) -> BaseException | None:
        """The first error that no other worker can have caused."""
        return next((w.failure["error"] for w in self._failed if not w.failure["doubtful"]), None)

    def _too_late(self, text: str) -> BaseException:
        """The timeout, with the place of each worker; or the cause, if it arrives meanwhile."""
        asked = [w for w in self.workers if w.busy]
        for worker in asked:
            worker.place = None
            with suppress(ConnectionError):
                _send(worker.open["link"], "where")
        end = time.monotonic() + _PATIENCE_S
        while any(w.busy and not w.place for w in asked) and time.monotonic() < end:
            self._step(end - time.monotonic())
        missing = [w for w in asked if w.busy and not (w.place and w.place[1])]
        missing = missing or [w for w in self.workers if not w.busy and not w.failure]
        for worker in self.workers:
            place = f"is at {worker.place[0]}" if worker.place else "is in compiled code"
            place = place if worker.busy else "its function has returned"
            text += f"\n[{worker.label}] {worker.failure['place'] if worker.failure else place}"
        error = LaunchTimeout(text, missing[0].index if len(missing) == 1 else None)
        late = [w.failure["error"].__cause__ for w in self._failed if w.failure["late"]]
        error.__cause__ = late[0] if late else None
        return self._cause() or error

    def _step(self, timeout_s: float) -> None:
        """Take in what has arrived, or wait for the next of it."""
        sources = {end: (w, name) for w in self.workers for name, end in w.open.items()}
        handlers = {"link": self._on_message, "end": self._on_end}
        for worker, name in map(sources.get, wait(sources, max(0.0, min(timeout_s, 60.0)))):
            if name in worker.open:  # not closed by one before it
                handlers.get(name, self._on_output)(worker, name)

    def _close(self, worker: Worker, name: str) -> None:
        worker.open.pop(name).close()
        if rest := worker.begun.pop(name, None):
            self._show(worker, name, rest)

    def _on_output(self, worker: Worker, name: str) -> None:
        data = os.read(worker.open[name].fileno(), 1 << 20)
        if not data:
            return self._close(worker, name)
        worker.begun.setdefault(name, bytearray()).extend(data)
        if b"\n" in data:
            whole, _, worker.begun[name] = worker.begun[name].rpartition(b"\n")
            self._show(worker, name, whole)

    def _show(self, worker: Worker, name: str, lines: bytearray) -> None:
        worker.late = worker.late or b"operation timeout" in lines
        stream = sys.stdout if name == "out" else sys.stderr
        for line in lines.split(b"\n"):
            if not _GREETING.fullmatch(line):
                # Of a progress bar, which goes back to the start of its line, what it showed last.
                text = line.rstrip(b"\r").rsplit(b"\r", 1)[-1].decode(errors="replace")
                stream.write(f"[{worker.label}] {text}\n")
        stream.flush()

    def _on_message(self, worker: Worker, name: str) -> None:
        try:
            kind, packed = _receive(worker.open[name])
        except (EOFError, OSError):
            return self._close(worker, name)
        try:
            value = _unpack(packed)
        except Exception as error:
            what = f"the {kind} of {worker.label} arrived, but cannot be read here"
            raise WorkerError(f"{what}: {type(error).__name__}: {error}.", worker.index) from error
        if kind == "where":
            worker.place = value
        elif kind == "error":
            self._on_error(worker, **value)
        elif kind == "result":
            worker.busy, worker.value = False, value
        elif self._on_report is not None:
            self._on_report(worker.index, value)

    def _on_error(self, worker: Worker, blob: bytes, said: str, text: str, **about: Any) -> None:
        unsent = "(its traceback is above; the error itself cannot be sent to the notebook)"
        error = WorkerError(f"{worker.label} raised {said} {unsent}")
        with suppress(Exception):
            error = pickle.loads(blob)
        with suppress(Exception):
            error.rank = worker.index if getattr(error, "rank", None) is None else error.rank
        error.__cause__ = WorkerTraceback(f"\n{worker.who} raised this:\n{text}")
        self._note(worker, error=error, **about)

    def _on_end(self, worker: Worker, name: str) -> None:
        """A process has ended: read its last message, and find out why."""
        worker.process.join()
        del worker.open[name]
        while "link" in worker.open and worker.open["link"].poll():
            self._on_message(worker, "link")
        _kill(worker.process.pid)  # what it left behind
        if worker.failure is None:
            error = worker.death()
            # A library that loses another rank in a thread of its own aborts, such as NCCL's.
            doubtful = error.signal == signal.SIGABRT
            self._note(worker, error=error, place=f"{error}", doubtful=doubtful, late=worker.late)

    def _note(self, worker: Worker, **failure: Any) -> None:
        worker.busy, worker.failure = False, {**failure, "at": time.monotonic()}
        self._failed.append(worker)

    def __exit__(self, kind: type | None, *_: Any) -> None:
        """Leave no process, no connection and no unshown line behind."""
        self._on_report = None
        try:
            for worker in self.workers:
                if kind is not None and "end" in worker.open:
                    _kill(worker.process.pid)
                with suppress(KeyError, ConnectionError):
                    if kind is None:
                        _send(worker.open["link"], "leave")
                    else:  # we may have stopped inside a message
                        self._close(worker, "link")
            end = time.monotonic() + _GOODBYE_S
            while any(w.open.keys() - {"link"} for w in self.workers) and time.monotonic() < end:
                self._step(end - time.monotonic())
        finally:
            for worker in self.workers:
                if worker.open.pop("end", None) is not None:
                    _kill(worker.process.pid)
                for name in list(worker.open):
                    self._close(worker, name)  # a worker whose link ends, leaves
                with suppress(ValueError, AttributeError):
                    worker.process.close()
