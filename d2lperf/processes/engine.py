"""Worker processes: start them, talk to them, find out which one failed, end them.

The calling process (a notebook's kernel) is never forked: OpenMP and CUDA do not survive a fork
after torch was used. `multiprocessing`'s fork server is a fresh Python that imports torch and then
waits; each worker is a fork of it, which takes milliseconds. Functions travel by cloudpickle.
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
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from typing import Any

import cloudpickle
import numpy as np
import torch
import torch.distributed as dist

__all__ = ["Crew", "LaunchTimeout", "Packed", "Worker", "WorkerError", "pack"]

# The first optimiser of a process imports torch._dynamo, which takes longer than torch itself.
_PRELOAD = ["torch", "d2lperf.processes.launch", "torch._dynamo"]
_LARGE_BYTES = 1 << 12  # memory of this size travels beside the pickle, not inside
_PATIENCE_S = 1.0  # how long a "connection closed" waits for news of who closed it
_GOODBYE_S, _LEFTOVER_S = 3.0, 0.3  # what workers, then processes they left, may take to leave
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
    """A worker died, or what it should get or return cannot travel.

    Attributes:
        rank: number of the worker at fault; None where it is not one worker's fault.
        signal: number of the signal that killed it, or None.
    """

    def __init__(self, text: str, rank: int | None = None, signal: int | None = None):
        super().__init__(text)
        self.rank, self.signal = rank, signal


class LaunchTimeout(WorkerError):
    """A collective waited longer than `timeout_s`, or the whole launch longer than `deadline_s`."""


class WorkerTraceback(Exception):
    """Shows the traceback of a worker, as the cause of the error that was raised there."""


# ------------------------------------------------------------------------ what travels

Packed = tuple[bytes, list[memoryview]]  # a pickle, and the memory that travels beside it


class _Pickler(cloudpickle.Pickler):
    """Cloudpickle that does not copy the memory of large tensors."""

    def reducer_override(self, x: Any) -> Any:
        if type(x) is torch.Tensor and not vars(x):
            with suppress(TypeError, RuntimeError):  # dtypes, layouts, devices that NumPy lacks
                return torch.from_numpy, (x.numpy(),)
        return super().reducer_override(x)


def pack(value: Any) -> Packed:
    """Return the pickle of a value, and the memory of its large tensors and arrays."""
    stream, beside = io.BytesIO(), []

    def keep_inside(buffer: pickle.PickleBuffer) -> bool:
        small = buffer.raw().nbytes < _LARGE_BYTES
        return small or beside.append(buffer.raw())

    _Pickler(stream, protocol=5, buffer_callback=keep_inside).dump(value)
    return stream.getvalue(), beside


def _send(link: Connection, kind: str, packed: Packed = (b"", [])) -> None:
    link.send((kind, [memory.nbytes for memory in packed[1]]))
    link.send_bytes(packed[0])
    for memory in packed[1]:
        while memory:
            memory = memory[os.write(link.fileno(), memory) :]


def _receive(link: Connection) -> tuple[str, bytes, list[np.ndarray]]:
    """Wait for a message; return its kind, the pickle and the memory beside it."""
    kind, sizes = link.recv()
    body, beside = link.recv_bytes(), []
    for size in sizes:
        beside.append(torch.empty(size, dtype=torch.uint8).numpy())  # aligned as torch wants it
        memory = memoryview(beside[-1])
        while memory:
            count = os.readv(link.fileno(), [memory])
            if not count:
                raise EOFError
            memory = memory[count:]
    return kind, body, beside


# ------------------------------------------------------------------------ in a worker

here: _Here | None = None
reporter: Callable[[Any], Any] | None = None  # where `report` sends its value


def _work(link: Connection, out: Connection, err: Connection, settings: dict[str, Any]) -> None:
    """Run in a worker, from its first moment to its last."""
    global here, reporter
    with suppress(OSError):
        os.setpgid(0, 0)  # what it starts ends with it
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    for name, fd, end in (("stdout", 1, out), ("stderr", 2, err)):
        os.dup2(end.fileno(), fd)
        end.close()
        stream = open(fd, "w", 1, "utf-8", "backslashreplace", closefd=False)  # noqa: SIM115
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)
    faulthandler.enable(all_threads=False)
    atexit._clear()  # what the server would do at its end
    weakref.finalize._registered_with_atexit = False
    os.environ.clear()
    os.environ.update(settings["environment"])
    sys.path[:] = settings["path"]
    linecache.cache.update(settings["cells"])
    for name, value in settings["torch"].items():
        if getattr(torch, f"get_{name}")() != value:  # some setters import half of torch
            getattr(torch, f"set_{name}")(value)
    torch.set_grad_enabled(settings["grad"])
    torch.set_num_threads(settings["threads"])
    multiprocessing.set_start_method(settings["start_method"], force=True)
    # torch has its default seed, as in any fresh process. These two have the server's state.
    random.seed()
    np.random.seed()
    here = _Here(link, settings)
    reporter = lambda value: here.send("report", value, "the reported value")  # noqa: E731
    here.live()
    atexit._run_exitfuncs()


class _Here:
    """The worker that this process is: it runs tasks one by one and answers the kernel."""

    def __init__(self, link: Connection, settings: dict[str, Any]):
        self.index, self._label, self._link = settings["index"], settings["label"], link
        self._sending, self._tasks = threading.Lock(), queue.SimpleQueue()

    def live(self) -> None:
        threading.Thread(target=self._listen, daemon=True).start()
        while (task := self._tasks.get()) is not None:
            try:
                fn = pickle.loads(task[0], buffers=task[1])
                self.send("result", fn(), "its result")
            except SystemExit:
                raise
            except BaseException as error:  # also KeyboardInterrupt and asyncio's CancelledError
                self.send("error", _described(error), "its error")

    def send(self, kind: str, value: Any, what: str) -> None:
        try:
            packed = pack(value)
        except Exception as error:
            what = f"{self._label}: {what} ({type(value).__name__}) cannot be sent to the notebook"
            raise WorkerError(f"{what}: {error}. {_ADVICE}", self.index) from error
        with self._sending:
            _send(self._link, kind, packed)

    def _listen(self) -> None:
        """In a thread: take tasks, say where the function is, end together with the kernel."""
        main = threading.main_thread().ident
        try:
            while True:
                kind, *task = _receive(self._link)
                if kind == "where":
                    frames = traceback.extract_stack(sys._current_frames()[main])
                    self.send("where", _place(frames), "its place")
                else:
                    self._tasks.put(task if kind == "task" else None)
        except (EOFError, OSError):
            _kill(os.getpid())


def _place(frames: Sequence[traceback.FrameSummary]) -> tuple[str, bool]:
    """Where in the user's code that is, in words, and whether it waits for other ranks there."""
    words = []
    for frame in reversed(frames):
        if not frame.filename.startswith(_LIBRARIES):
            file = os.path.basename(frame.filename) if os.path.exists(frame.filename) else "cell"
            words.append(f"{file}, line {frame.lineno}, in {frame.name}: {frame.line}")
    text = "\n    called from ".join(words) or "not in the function yet"
    return text, bool(frames) and frames[-1].filename.startswith(_COLLECTIVES)


def _described(error: BaseException) -> dict[str, Any]:
    """What the kernel may want to know of an error, with the error itself if it can travel."""
    frames = error.__traceback__
    while frames is not None and frames.tb_frame.f_code.co_filename.startswith(_OURS):
        frames = frames.tb_next
    lines = traceback.format_exception(type(error), error, frames or error.__traceback__)
    blob, chain = None, [error]
    with suppress(Exception):
        sent = cloudpickle.dumps(error)
        blob = sent if type(pickle.loads(sent)) is type(error) else None
    while (cause := chain[-1].__cause__ or chain[-1].__context__) and cause not in chain:
        chain.append(cause)
    return {
        "blob": blob,
        "said": _words(error),
        "text": "".join(lines).rstrip(),
        "place": _place(traceback.extract_tb(frames))[0],
        "late": _said_of_others(error) == "late",
        "doubtful": any(map(_said_of_others, chain)),
    }


def _words(error: BaseException) -> str:
    return "".join(traceback.format_exception_only(type(error), error)).strip()


def _said_of_others(error: BaseException) -> str:
    """What torch.distributed says of other ranks by this error: "lost", "late" or nothing.

    Words alone do not decide: a RuntimeError that the user's code raises is the user's own. The
    instruction at which the innermost frame stopped tells a `raise` from a call into C++.
    """
    frames = error.__traceback__
    if not isinstance(error, RuntimeError) or frames is None:
        return ""
    message = _words(error)
    if not isinstance(error, dist.DistError):
        while frames.tb_next is not None:
            frames = frames.tb_next
        code = frames.tb_frame.f_code
        raised = dis.opname[code.co_code[frames.tb_lasti]] == "RAISE_VARARGS"
        theirs = not raised or code.co_filename.startswith(_COLLECTIVES)
        if not (theirs and _SPEAKER.search(message)):
            return ""
    return "late" if _LATE.search(message) else "lost" if _LOST.search(message) else ""


def _kill(pid: int) -> None:
    """End a process with all of its group."""
    for kill in (os.killpg, os.kill):
        with suppress(OSError):
            kill(pid, signal.SIGKILL)


# ------------------------------------------------------------------------ in the kernel

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

    if sys.platform == "darwin":
        os.environ.setdefault("OBJC_DISABLE_INITIALIZE_FORK_SAFETY", "YES")
    with _starting:
        multiprocessing.set_forkserver_preload(_PRELOAD)
        starter = threading.Thread(target=start)
        starter.start()
        starter.join()
        main = vars(sys.modules["__main__"])
        kept = {name: main.pop(name) for name in ("__file__", "__spec__") if name in main}
        try:
            main["__spec__"] = None
            yield
        except (EOFError, ConnectionError) as error:
            raise WorkerError(_SERVER_ENDED) from error
        finally:
            main.update(kept)


@dataclass
class Worker:
    """What the kernel knows of one worker."""

    index: int
    label: str
    who: str  # its name in sentences
    process: Any = None
    open: dict[str, Any] = field(default_factory=dict)  # link, out, err; end: the process itself
    busy: bool = False  # from a task to its answer
    value: Any = None
    failure: dict[str, Any] | None = None  # of its error or death: error, doubtful, late, place
    place: tuple[str, bool] | None = None
    begun: dict[str, list[bytes]] = field(default_factory=lambda: {"out": [], "err": []})
    last: bytes = b""  # of what it wrote to stderr

    def start(self, settings: dict[str, Any]) -> None:
        """Have it forked."""
        self.open["link"], link = multiprocessing.Pipe()
        self.open["out"], out = multiprocessing.Pipe(duplex=False)
        self.open["err"], err = multiprocessing.Pipe(duplex=False)
        settings = {**settings, "index": self.index, "label": self.label}
        self.process = multiprocessing.get_context("forkserver").Process(
            target=_work, args=(link, out, err, settings), name=self.label, daemon=False
        )
        try:
            with _server():
                self.process.start()
            self.open["end"] = self.process.sentinel
        finally:
            for end in (link, out, err):
                end.close()

    def death(self) -> WorkerError:
        """The error that says how it ended."""
        status, names = self.process.exitcode, {int(n): n.name for n in signal.Signals}
        how = f"exited with status {status}"
        hint = "Something called sys.exit or os._exit. Let the function return instead."
        if status < 0:
            how = f"was killed by signal {-status} ({names.get(-status, 'without a name')})"
            hint = "That is a crash in compiled code; what it wrote is above, if it did."
        if -status in (signal.SIGKILL, signal.SIGTERM):
            hint = "If nobody did that by hand, the system may have run out of memory."
        with suppress(OSError):
            if status == 255:
                os.kill(self.process.pid, 0)  # it lives: the server, which would tell us, does not
                return WorkerError(_SERVER_ENDED)
        when = "" if self.busy else " after its function had returned"
        return WorkerError(f"{self.who} {how}{when}. {hint}", self.index, max(0, -status) or None)

    def where(self) -> str:
        """What it is doing, as far as is known, for an error message."""
        if self.failure or not self.busy:
            doing = self.failure["place"] if self.failure else "its function has returned"
        else:
            doing = f"is at {self.place[0]}" if self.place else "is in compiled code"
        return f"[{self.label}] {doing}"


class Crew:
    """Some workers. Leaving the `with` block lets them go, an error kills them; none is left.

    Args:
        names: label -> name in sentences of each worker. What it prints starts with its label.
        threads: threads of torch in each worker.
        on_report: called as `on_report(index, value)`.
    """

    def __init__(self, names: dict[str, str], threads: int, on_report: Callable | None = None):
        if "forkserver" not in multiprocessing.get_all_start_methods():
            raise NotImplementedError(
                f"Workers are forks of a server process, which {sys.platform} does not support. "
                "Use WSL 2 (Linux in Windows), or write the function and its launch to a script "
                f"and run it with: torchrun --nproc-per-node {len(names)} script.py"
            )
        cells = {k: v for k, v in linecache.cache.items() if len(v) == 4 and not os.path.exists(k)}
        self.workers = [Worker(i, *pair) for i, pair in enumerate(names.items())]
        self._settings = {
            "environment": dict(os.environ),
            "path": sys.path,
            "cells": cells,
            "torch": {name: getattr(torch, f"get_{name}")() for name in _SETTINGS},
            "grad": torch.is_grad_enabled(),
            "threads": threads,
            "start_method": multiprocessing.get_start_method(allow_none=True),
        }
        self._on_report = on_report
        self._failed: list[Worker] = []  # in the order of their news
        self._failed_at = 0.0

    def __enter__(self) -> Crew:
        try:
            for worker in self.workers:
                worker.start(self._settings)
        except BaseException as error:
            self.__exit__(type(error))
            raise
        return self

    def give(self, task: Packed, workers: Sequence[Worker] = ()) -> None:
        """Send a packed function without arguments to some workers, or to all of them."""
        self._failed.clear()
        for worker in workers or self.workers:
            if "end" not in worker.open:
                raise worker.failure["error"]
            worker.busy, worker.value, worker.failure = True, None, None
            with suppress(ConnectionError):  # that it died will be heard
                _send(worker.open["link"], "task", task)

    def gather(self, timeout_s: float = math.inf, deadline_s: float | None = None) -> list[Any]:
        """Wait for all answers and return them, or raise the reason why one will not come.

        `timeout_s` is how long a collective waits, for the error message.
        """
        end = math.inf if deadline_s is None else time.monotonic() + deadline_s
        while self._failed or any(w.busy for w in self.workers):
            now, settle = time.monotonic(), math.inf
            if cause := self._cause():
                raise cause
            if self._failed:  # each of them perhaps because of another one
                settle = self._failed_at + _PATIENCE_S
                if now >= settle or not any(w.busy for w in self.workers):
                    if not any(w.failure["late"] for w in self._failed):
                        raise self._failed[0].failure["error"]
                    raise self._too_late(
                        f"a collective waited longer than timeout_s = {timeout_s:g} s: "
                        "not every rank took part in it."
                    )
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
        error = LaunchTimeout("\n".join([text, *(w.where() for w in self.workers)]))
        late = [w.failure["error"] for w in self._failed if w.failure["late"]]
        error.__cause__ = late[0].__cause__ if late else None
        missing = [w for w in self.workers if w.busy and not (w.place and w.place[1])]
        missing = missing or [w for w in self.workers if not w.busy and not w.failure]
        error.rank = missing[0].index if len(missing) == 1 else None
        return self._cause() or error

    # ---- what arrives

    def _step(self, timeout_s: float) -> None:
        """Take in what has arrived, or wait for the next of it."""
        sources = {end: (w, name) for w in self.workers for name, end in w.open.items()}
        handlers = {"link": self._on_message, "end": self._on_end}
        ready = wait(list(sources), None if timeout_s == math.inf else max(0.0, timeout_s))
        for worker, name in map(sources.get, ready):
            if name in worker.open:  # not closed by one before it
                handlers.get(name, self._on_output)(worker, name)

    def _close(self, worker: Worker, name: str) -> None:
        worker.open.pop(name).close()
        if any(worker.begun.get(name, ())):
            self._show(worker, name, [b"".join(worker.begun.pop(name))])

    def _on_output(self, worker: Worker, name: str) -> None:
        """Show the lines that are whole."""
        data = os.read(worker.open[name].fileno(), 1 << 20)
        if not data:
            return self._close(worker, name)
        if name == "err":
            worker.last = (worker.last + data)[-10_000:]
        whole, newline, rest = data.rpartition(b"\n")
        if newline:
            self._show(worker, name, b"".join([*worker.begun[name], whole]).split(b"\n"))
            worker.begun[name] = []
        worker.begun[name].append(rest)

    def _show(self, worker: Worker, name: str, lines: list[bytes]) -> None:
        stream = sys.stdout if name == "out" else sys.stderr
        for line in lines:
            if not _GREETING.fullmatch(line):
                # Of a progress bar, which goes back to the start of its line, what it showed last.
                text = line.rstrip(b"\r").rsplit(b"\r", 1)[-1].decode(errors="replace")
                stream.write(f"[{worker.label}] {text}\n")
        stream.flush()

    def _on_message(self, worker: Worker, name: str) -> None:
        try:
            kind, body, beside = _receive(worker.open[name])
        except (EOFError, OSError):
            return self._close(worker, name)
        if kind == "where":
            worker.place = pickle.loads(body)
        elif kind == "error":
            self._on_error(worker, pickle.loads(body))
        elif kind == "result":
            worker.value = self._load(worker, kind, body, beside)
            worker.busy = False
        elif self._on_report is not None:
            self._on_report(worker.index, self._load(worker, kind, body, beside))

    def _load(self, worker: Worker, what: str, body: bytes, beside: Sequence[Any] = ()) -> Any:
        try:
            return pickle.loads(body, buffers=beside)
        except Exception as error:
            what = f"the {what} of {worker.label} arrived, but cannot be read here"
            raise WorkerError(f"{what}: {type(error).__name__}: {error}.", worker.index) from error

    def _on_error(self, worker: Worker, about: dict[str, Any]) -> None:
        """A function has raised."""
        unsent = "(its traceback is above; the error itself cannot be sent to the notebook)"
        error = WorkerError(f"{worker.label} raised {about['said']} {unsent}")
        if about["blob"] is not None:
            error = self._load(worker, "error", about["blob"])
        if getattr(error, "rank", None) is None:
            with suppress(Exception):
                error.rank = worker.index
        error.__cause__ = WorkerTraceback(f"\n{worker.who} raised this:\n{about['text']}")
        self._note(worker, {**about, "error": error, "place": f"gave up at {about['place']}"})

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
            doubtful, late = error.signal == signal.SIGABRT, b"operation timeout" in worker.last
            about = {"error": error, "place": str(error), "doubtful": doubtful, "late": late}
            self._note(worker, about)

    def _note(self, worker: Worker, failure: dict[str, Any]) -> None:
        worker.busy, worker.failure = False, failure
        self._failed_at = self._failed_at if self._failed else time.monotonic()
        self._failed.append(worker)

    # ---- the end

    def __exit__(self, kind: type | None, *_: Any) -> None:
        """Leave no process, no connection and no unshown line behind."""
        self._on_report = None
        try:
            for worker in self.workers:
                if kind is not None and "end" in worker.open:
                    _kill(worker.process.pid)
                if kind is not None and "link" in worker.open:
                    self._close(worker, "link")  # we may have stopped inside a message
                elif "link" in worker.open:
                    with suppress(ConnectionError):
                        _send(worker.open["link"], "leave")
            end = time.monotonic() + _GOODBYE_S
            while left := {name for w in self.workers for name in w.open} - {"link"}:
                now = time.monotonic()
                if "end" not in left:  # other processes hold the pipes open
                    end = min(end, now + _LEFTOVER_S)
                if now >= end:
                    break
                self._step(end - now)
        finally:
            for worker in self.workers:
                if worker.open.pop("end", None) is not None:
                    _kill(worker.process.pid)
                for name in list(worker.open):
                    self._close(worker, name)  # a worker whose link ends, leaves
                with suppress(ValueError, AttributeError):
                    worker.process.close()
