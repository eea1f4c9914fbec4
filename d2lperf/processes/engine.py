"""Worker processes: start them, talk to them, find out which one failed, end them.

The calling process is never forked: OpenMP and CUDA do not survive that. The fork server of
`multiprocessing` is a fresh Python that imports torch and waits; a fork of it takes milliseconds.
A worker that fails stays alive until the kernel ends it, so that the first error to arrive is the
cause, and not what the other workers said about a lost connection.
"""

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
import re
import signal
import sys
import sysconfig
import threading
import time
import traceback
import weakref
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field
from functools import partial
from multiprocessing import forkserver, resource_tracker
from multiprocessing.connection import Connection, wait
from types import ModuleType
from typing import Any

import cloudpickle
import numpy as np
import torch
import torch.distributed as dist

_PATIENCE_S = 1.0  # seconds to wait for the real cause after a 'connection closed' error
_ADVICE = "Return tensors, arrays, numbers and containers of them (compare: or pass check=False)."
_SERVER_ENDED = "the process that starts the workers has ended. Launch again."
_OURS = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_LIBRARIES = (_OURS, "<frozen", *map(sysconfig.get_path, ("stdlib", "purelib", "platlib")))
_COLLECTIVES = os.path.dirname(dist.__file__) + os.sep
# What gloo, NCCL and the store say when another rank is gone, or did not come in time.
_SPEAKER = re.compile("gloo|c10d|nccl|ProcessGroup")
_LOST = re.compile("(?i)connection|closed|broken pipe|failed to|remote|nccl(remote|system)error")
_LATE = re.compile("(?i)time(d )?out")
# What gloo prints for each group.
_GREETING = re.compile(rb"\[Gloo\] Rank \d+ is connected to (\d+) peer ranks\. Expected .* is : \1")
_SETTINGS = "default_dtype", "float32_matmul_precision", "deterministic_debug_mode"  # of torch


class WorkerError(RuntimeError):
    """A worker died (`.rank`, by `.signal` or None), or what it gets or returns cannot be sent."""

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


def pack(value: Any, refusal: str = "", advice: str = "", kind: type = WorkerError) -> list:
    """Return the pickle of a value, then the memory of each of its tensors and arrays."""
    stream, beside = io.BytesIO(), []
    try:
        _Pickler(stream, protocol=5, buffer_callback=beside.append).dump(value)
        return [stream.getbuffer(), *(buffer.raw() for buffer in beside)]
    except Exception as error:
        raise kind(f"{refusal}: {error}. {advice}") from error


def _send(link: Connection, kind: str, packed: Sequence[memoryview] = ()) -> None:
    with suppress(ConnectionError):  # the other process died, which `_step` will notice
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


here = None  # the _Here of this process, if it is a worker
reporter = None  # where `report` sends its value


class _Here:
    """The worker that this process is, from its first moment to its last."""

    def __init__(self, index: int, label: str, settings: tuple, *pipes: Connection):
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
        environment, cells, state, grad = settings
        os.environ.clear()
        os.environ.update(environment)
        linecache.cache.update(cells)
        for name, value in state.items():
            if getattr(torch, f"get_{name}")() != value:  # some setters import half of torch
                getattr(torch, f"set_{name}")(value)
        torch.set_grad_enabled(grad)
        multiprocessing.set_start_method(None, force=True)  # as in any fresh process
        np.random.seed()  # as `random` does after a fork; torch has its default seed
        self.live()
        atexit._run_exitfuncs()  # which multiprocessing leaves out

    def live(self) -> None:
        threading.Thread(target=self._listen, daemon=True).start()
        while (task := self._tasks.get()) is not None:
            try:
                self.send("result", "its result", pickle.loads(task[0], buffers=task[1:])())
            except SystemExit:
                raise
            except BaseException as error:  # also asyncio's CancelledError
                self.send("error", "its error", _described(error))

    def send(self, kind: str, what: str, value: Any) -> None:
        what = f"{self._label}: {what} ({type(value).__name__})"
        packed = pack(value, f"{what} cannot be sent to the notebook", _ADVICE)
        with self._sending:
            _send(self._link, kind, packed)

    def _listen(self) -> None:
        """In a thread: take tasks, say where the function is, end together with the kernel."""
        try:
            while True:
                kind, task = _receive(self._link)
                if kind == "where":
                    frame = sys._current_frames()[threading.main_thread().ident]
                    self.send("where", "its place", _place("is at", traceback.extract_stack(frame)))
                else:
                    self._tasks.put(task if kind == "task" else None)
        except (EOFError, OSError):
            _kill(os.getpid())


def _place(verb: str, frames: Sequence[traceback.FrameSummary]) -> tuple[str, bool]:
    """Where in the user's code that is, and whether it waits for other ranks there."""
    words = []
    for frame in reversed(frames):
        if not frame.filename.startswith(_LIBRARIES):
            file = os.path.basename(frame.filename) if os.path.exists(frame.filename) else "cell"
            words.append(f"{file}, line {frame.lineno}, in {frame.name}: {frame.line}")
    text = f"{verb} " + ("\n    called from ".join(words) or "not in the function yet")
    return text, bool(frames) and frames[-1].filename.startswith(_COLLECTIVES)


def _described(error: BaseException) -> tuple[bytes | None, str, str, str, bool, bool]:
    """The error (None if it cannot be sent), its text, traceback and place; doubtful? late?"""
    frames, blob, chain = error.__traceback__, None, [error]
    while frames is not None and frames.tb_frame.f_code.co_filename.startswith(_OURS):
        frames = frames.tb_next
    with suppress(Exception):
        sent = cloudpickle.dumps(error)
        blob = sent if type(pickle.loads(sent)) is type(error) else None
    while (cause := chain[-1].__cause__ or chain[-1].__context__) and cause not in chain:
        chain.append(cause)
    said = "".join(traceback.format_exception_only(error)).strip()
    text = "".join(traceback.format_exception(type(error), error, frames)).rstrip()
    place, _ = _place("gave up at", traceback.extract_tb(frames))
    others = list(map(_said_of_others, chain))
    return blob, said, text, place, any(others), others[0] == "late"


def _said_of_others(error: BaseException) -> str:
    """What torch.distributed says of other ranks by this error: "lost", "late" or nothing."""
    # A RuntimeError that the user's code raises is the user's own, whatever its words. The
    # instruction at which the innermost frame stopped tells a `raise` from a call into C++.
    frames = error.__traceback__
    if not isinstance(error, RuntimeError) or frames is None:
        return ""
    message = "".join(traceback.format_exception_only(error))
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
    failure: BaseException | None = None
    place: str = ""  # where it was when we asked, or how it ended
    waits: bool = False  # there, for other ranks
    begun: dict[str, bytearray] = field(default_factory=dict)  # lines
    late: bool = False  # it wrote so to stderr

    def start(self, settings: tuple) -> None:
        """Fork the server."""
        self.open["link"], link = multiprocessing.Pipe()
        self.open["out"], out = multiprocessing.Pipe(duplex=False)
        self.open["err"], err = multiprocessing.Pipe(duplex=False)
        self.process = multiprocessing.get_context("forkserver").Process(
            target=_Here, args=(self.index, self.label, settings, link, out, err), daemon=False
        )
        # In a thread, which no stop button interrupts, and which leaving the block waits for.
        with link, out, err, _starting, ThreadPoolExecutor(1) as thread:
            thread.submit(self._start).result()

    def _start(self) -> None:
        # The button reaches the server as well, which ignores it only after its imports. (The
        # tracker would unblock the signal.)
        resource_tracker.ensure_running()
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        # The first optimiser imports torch._dynamo, which takes longer than torch itself.
        multiprocessing.set_forkserver_preload(["d2lperf.processes.launch", "torch._dynamo"])
        forkserver.ensure_running()
        main = sys.modules["__main__"]
        sys.modules["__main__"] = ModuleType("__main__")  # the fork imports no script
        try:
            self.process.start()
            self.open["end"] = self.process.sentinel
        except (EOFError, ConnectionError) as error:
            raise WorkerError(_SERVER_ENDED) from error
        finally:
            sys.modules["__main__"] = main

    def tell(self, kind: str, packed: Sequence[memoryview] = ()) -> None:
        """Send it something, unless it is ending: then its death will arrive."""
        if "link" in self.open:
            _send(self.open["link"], kind, packed)

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


class Crew(AbstractContextManager):
    """Some workers. Leaving the `with` block lets them go, an error kills them; none is left.

    `names` is label -> name in sentences of each worker. What it prints starts with its label.
    """

    def __init__(self, names: dict[str, str], threads: int, on_report: Callable | None = None):
        if "forkserver" not in multiprocessing.get_all_start_methods():
            text = f"Workers are forks of a server process, which {sys.platform} lacks. Use WSL 2"
            text += " (Linux in Windows), or write function and launch to a script and run: "
            raise NotImplementedError(f"{text}torchrun --nproc-per-node {len(names)} script.py")
        cells = {k: v for k, v in linecache.cache.items() if len(v) == 4 and not os.path.exists(k)}
        state = {k: getattr(torch, f"get_{k}")() for k in _SETTINGS} | {"num_threads": threads}
        self._settings = dict(os.environ), cells, state, torch.is_grad_enabled()
        self.workers = [Worker(i, *pair) for i, pair in enumerate(names.items())]
        self._on_report = on_report
        self._failed: list[tuple[BaseException, bool, bool]] = []  # error, doubtful, late

    def give(self, task: Sequence[memoryview], workers: Sequence[Worker] = ()) -> None:
        """Send a packed function without arguments to some workers, or to all of them."""
        self._failed.clear()
        for worker in workers or self.workers:
            if worker.process is None:
                worker.start(self._settings)
            elif "end" not in worker.open:
                raise worker.failure
            worker.busy, worker.value, worker.failure = True, None, None
            worker.place, worker.waits = "", False
            worker.tell("task", task)

    def gather(self, timeout_s: float = math.inf, deadline_s: float = math.inf) -> list[Any]:
        """Wait for all answers and return them, or raise the reason why one will not come."""
        end, settle = time.monotonic() + deadline_s, math.inf
        while (busy := any(w.busy for w in self.workers)) or self._failed:
            if cause := self._cause():
                raise cause
            now = time.monotonic()
            if self._failed:  # each of them perhaps because of another one
                settle = min(settle, now + _PATIENCE_S)
            if not busy or now >= settle:
                if not any(late for *_, late in self._failed):
                    raise self._failed[0][0]
                text = f"a collective waited longer than timeout_s = {timeout_s:g} s: "
                raise self._too_late(text + "not every rank took part in it.")
            if now >= end:
                raise self._too_late(f"the launch took longer than deadline_s = {deadline_s:g} s.")
            self._step(min(settle, end) - now)
        return [w.value for w in self.workers]

    def _cause(self) -> BaseException | None:
        """The first error that no other worker can have caused."""
        return next((error for error, doubtful, _ in self._failed if not doubtful), None)

    def _too_late(self, text: str) -> BaseException:
        """The timeout, with the place of each worker; or the cause, if it arrives meanwhile."""
        asked = [w for w in self.workers if w.busy]
        for worker in asked:
            worker.tell("where")
        end = time.monotonic() + _PATIENCE_S
        while any(w.busy and not w.place for w in asked) and time.monotonic() < end:
            self._step(end - time.monotonic())
        missing = [w for w in asked if w.busy and not w.waits]
        missing = missing or [w for w in self.workers if not w.busy and w.failure is None]
        text += "".join(f"\n[{w.label}] {w.place or 'is in compiled code'}" for w in self.workers)
        error = LaunchTimeout(text, missing[0].index if len(missing) == 1 else None)
        error.__cause__ = next((one.__cause__ for one, _, late in self._failed if late), None)
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
                # A progress bar returns to the start of its line: show what it showed last.
                text = line.rstrip(b"\r").rsplit(b"\r", 1)[-1].decode(errors="replace")
                stream.write(f"[{worker.label}] {text}\n")
        stream.flush()

    def _on_message(self, worker: Worker, name: str) -> None:
        try:
            kind, packed = _receive(worker.open[name])
        except (EOFError, OSError):
            return self._close(worker, name)
        try:
            value = pickle.loads(packed[0], buffers=packed[1:])
        except Exception as error:
            what = f"the {kind} of {worker.label} arrived, but cannot be read here"
            raise WorkerError(f"{what}: {type(error).__name__}: {error}.", worker.index) from error
        if kind == "where":
            if worker.busy:
                worker.place, worker.waits = value
        elif kind == "error":
            self._on_error(worker, *value)
        elif kind == "result":
            worker.busy, worker.value, worker.place = False, value, "its function has returned"
        elif self._on_report is not None:
            self._on_report(worker.index, value)

    def _on_error(self, worker, blob, said, text, place, *about) -> None:
        unsent = "(its traceback is above; the error itself cannot be sent to the notebook)"
        error = WorkerError(f"{worker.label} raised {said} {unsent}")
        with suppress(Exception):
            error = pickle.loads(blob)
        with suppress(Exception):
            error.rank = worker.index if getattr(error, "rank", None) is None else error.rank
        error.__cause__ = WorkerTraceback(f"\n{worker.who} raised this:\n{text}")
        self._failed.append((error, *about))
        worker.busy, worker.failure, worker.place = False, error, place

    def _on_end(self, worker: Worker, name: str) -> None:
        """A process has ended: read its last message, and find out why."""
        worker.process.join()
        del worker.open[name]
        while "link" in worker.open and worker.open["link"].poll():
            self._on_message(worker, "link")
        with suppress(OSError):  # what it left behind; its own number may be a stranger's by now
            os.killpg(worker.process.pid, signal.SIGKILL)
        if worker.failure is None:
            error = worker.death()
            # A library that loses another rank in a thread of its own aborts, such as NCCL's.
            self._failed.append((error, error.signal == signal.SIGABRT, worker.late))
            worker.busy, worker.failure, worker.place = False, error, f"{error}"

    def __exit__(self, kind: type | None, *_: Any) -> None:
        """Leave no process, no connection and no unshown line behind."""
        self._on_report = None
        try:
            for worker in self.workers:
                if kind is not None and "end" in worker.open:
                    _kill(worker.process.pid)
                if kind is None:
                    worker.tell("leave")
                elif "link" in worker.open:  # we may have stopped inside a message
                    self._close(worker, "link")
            end = time.monotonic() + 3.0  # what workers may take to leave
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
