"""Worker processes: start them, talk to them, find out which one failed, end them.

The calling process is never forked: OpenMP and CUDA do not survive that. The fork server of
`multiprocessing` is a fresh Python that imports torch and waits; a fork of it takes milliseconds.

This is the part of the package that depends most on how Python and torch work inside:

* `multiprocessing`: its fork server (which can be started ahead, and told what to import), what it
  sends to a fork (`d2lperf._compat.no_script` removes the caller's script), and that a process
  ends without its exit functions.
* Linux and macOS: process groups, and that a pipe ends when its last writer does.
* torch: a process that has imported it, but has computed nothing, may be forked.
* cloudpickle: functions and classes of a notebook's cells travel by value.

If a new version of Python or torch breaks it: run `pytest tests/test_compat.py` first. It tries
each internal name of theirs that we use and says what for. Then `tests/processes/test_engine.py`,
from its top: it goes from the start of a worker to its end. Every use of such a name is in
`d2lperf/_compat.py`, so the repair belongs there. Until then users have `torchrun`: under it
`launch` starts no process, and this file is not used.
"""

import math
import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field
from multiprocessing.connection import wait
from typing import Any, NamedTuple

from d2lperf import _compat
from d2lperf.processes import output
from d2lperf.processes.errors import (
    SERVER_ENDED,
    Failure,
    LaunchTimeout,
    Place,
    WorkerError,
    death_of,
    revived,
)
from d2lperf.processes.wire import receive, send, unpack
from d2lperf.processes.worker import Here, Settings, current_settings, kill_group

_PATIENCE_S = 1.0  # seconds to wait for the real cause after a 'connection closed' error
_LEAVING_S = 3.0  # seconds that workers may take to leave
_UNKNOWN = 255  # the exit code where the server ended before it could tell

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
    late: bool = False  # it wrote so to stderr

    def start(self, settings: Settings) -> None:
        """Fork the server."""
        self.open["link"], link = multiprocessing.Pipe()
        self.open["out"], out = multiprocessing.Pipe(duplex=False)
        self.open["err"], err = multiprocessing.Pipe(duplex=False)
        self.process = multiprocessing.get_context("forkserver").Process(
            target=Here, args=(self.index, self.label, settings, link, out, err), daemon=False
        )
        # In a thread, which no stop button interrupts, and which leaving the block waits for.
        with link, out, err, _starting, ThreadPoolExecutor(1) as thread:
            thread.submit(self._start).result()

    def _start(self) -> None:
        _compat.ensure_resource_tracker()  # it would unblock the signal
        # The button reaches the server as well, which ignores it only after its imports.
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        # The first optimiser imports torch._dynamo, which takes longer than torch itself.
        multiprocessing.set_forkserver_preload(["d2lperf.processes.launch", "torch._dynamo"])
        _compat.ensure_fork_server()
        try:
            with _compat.no_script(self.process.name):
                self.process.start()
            self.open["end"] = self.process.sentinel
        except (EOFError, ConnectionError) as error:
            raise WorkerError(SERVER_ENDED) from error

    def give(self, task: Sequence[memoryview]) -> None:
        """Send it a packed function."""
        self.busy, self.value, self.failure, self.place, self.waits = True, None, None, "", False
        self.tell("task", task)

    def tell(self, kind: str, packed: Sequence[memoryview] = ()) -> None:
        """Send it something, unless it is ending: then its death will arrive."""
        if "link" in self.open:
            send(self.open["link"], kind, packed)

    def fail(self, error: BaseException, place: str) -> None:
        """Note that no answer will come, and why."""
        self.busy, self.failure, self.place = False, error, place

    def kill(self) -> None:
        """End it with all that it has started; after its own end, what it has left behind."""
        pid, status = self.process.pid, self.process.exitcode
        if status is None or status == _UNKNOWN:  # nobody has waited for it
            kill_group(pid)
            return
        # A number is not given to another process while a group has it. So if there is a process
        # of this number now, the worker left no group, and the process is a stranger.
        try:
            os.getpgid(pid)
        except ProcessLookupError:
            with suppress(OSError):
                os.killpg(pid, signal.SIGKILL)

    def death(self) -> WorkerError:
        """The error that says how it ended."""
        status = self.process.exitcode
        if status == _UNKNOWN and _lives(self.process.pid):
            return WorkerError(SERVER_ENDED)
        return death_of(self.who, self.index, status, self.busy)


class _Failed(NamedTuple):
    """A worker's error, and what it says of the others."""

    error: BaseException
    doubtful: bool  # another worker may have caused it
    late: bool  # it waited too long for another worker


class Crew(AbstractContextManager):
    """Some workers. Leaving the `with` block lets them go, an error kills them; none is left.

    `names` is label -> name in sentences of each worker. What it prints starts with its label.
    """

    def __init__(self, names: dict[str, str], threads: int, on_report: Callable | None = None):
        if "forkserver" not in multiprocessing.get_all_start_methods():
            text = f"Workers are forks of a server process, which {sys.platform} lacks. Use WSL 2"
            text += " (Linux in Windows), or write function and launch to a script and run: "
            raise NotImplementedError(f"{text}torchrun --nproc-per-node {len(names)} script.py")
        self._settings = current_settings(threads)
        self.workers = [Worker(i, *pair) for i, pair in enumerate(names.items())]
        self._on_report = on_report
        self._failed: list[_Failed] = []
        self._output = {"out": output.Output(output.stdout), "err": output.Output(output.stderr)}

    def give(self, task: Sequence[memoryview], workers: Sequence[Worker] = ()) -> None:
        """Send a packed function without arguments to some workers, or to all of them."""
        self._failed.clear()
        for worker in workers or self.workers:
            if worker.process is None:
                worker.start(self._settings)
            elif "end" not in worker.open:
                raise worker.failure or worker.death()
            worker.give(task)

    def gather(self, timeout_s: float = math.inf, deadline_s: float = math.inf) -> list[Any]:
        """Wait for all answers and return them, or raise the reason why one will not come.

        Args:
            timeout_s: what a collective may wait; it stands in an error only.
            deadline_s: seconds from now to the last answer.
        """
        end = time.monotonic() + deadline_s
        while self._busy() and not self._failed:
            if time.monotonic() >= end:
                raise self._too_late(f"the launch took longer than deadline_s = {deadline_s:g} s.")
            self._step(end - time.monotonic())
        if self._failed:
            raise self._reason(timeout_s)
        return [worker.value for worker in self.workers]

    def _busy(self) -> bool:
        return any(worker.busy for worker in self.workers)

    def _reason(self, timeout_s: float) -> BaseException:
        """After a first error: the one that caused it, which may still be on its way."""
        self._step_until(time.monotonic() + _PATIENCE_S, lambda: self._cause() or not self._busy())
        cause = self._cause()
        if cause is not None:
            return cause
        # Each of them perhaps because of another one.
        if not any(failed.late for failed in self._failed):
            return self._failed[0].error
        text = f"a collective waited longer than timeout_s = {timeout_s:g} s: "
        return self._too_late(text + "not every rank took part in it.")

    def _cause(self) -> BaseException | None:
        """The first error that no other worker can have caused."""
        return next((failed.error for failed in self._failed if not failed.doubtful), None)

    def _too_late(self, text: str) -> BaseException:
        """The timeout, with the place of each worker; or the cause, if it arrives meanwhile."""
        asked = [worker for worker in self.workers if worker.busy]
        for worker in asked:
            worker.tell("where")
        end = time.monotonic() + _PATIENCE_S
        self._step_until(end, lambda: all(w.place or not w.busy for w in asked))
        missing = [worker for worker in asked if worker.busy and not worker.waits]
        if not missing:
            missing = [w for w in self.workers if not w.busy and w.failure is None]
        for worker in self.workers:
            text += f"\n[{worker.label}] {worker.place or 'is in compiled code'}"
        error = LaunchTimeout(text, missing[0].index if len(missing) == 1 else None)
        error.__cause__ = next((one.error.__cause__ for one in self._failed if one.late), None)
        return self._cause() or error

    def _step_until(self, end: float, done: Callable[[], Any]) -> None:
        """Take in what arrives until something is done, or the time has come."""
        while not done() and time.monotonic() < end:
            self._step(end - time.monotonic())

    def _step(self, timeout_s: float) -> None:
        """Take in what has arrived, or wait for the next of it."""
        sources = {end: (w, name) for w in self.workers for name, end in w.open.items()}
        handlers = {"link": self._on_message, "end": self._on_end}
        for end in wait(sources, max(0.0, min(timeout_s, 60.0))):
            worker, name = sources[end]
            if name in worker.open:  # not closed by one before it
                handlers.get(name, self._on_output)(worker, name)

    def _close(self, worker: Worker, name: str) -> None:
        worker.open.pop(name).close()
        if name in self._output:
            self._note(worker, self._output[name].end(worker.label))

    def _on_output(self, worker: Worker, name: str) -> None:
        data = os.read(worker.open[name].fileno(), 1 << 20)
        if not data:
            return self._close(worker, name)
        self._note(worker, self._output[name].add(worker.label, data))

    def _note(self, worker: Worker, lines: list[bytes]) -> None:
        """Take in what a worker's lines say of its end."""
        worker.late = worker.late or any(b"operation timeout" in line for line in lines)

    def _on_message(self, worker: Worker, name: str) -> None:
        try:
            kind, packed = receive(worker.open[name])
        except (EOFError, OSError):
            return self._close(worker, name)
        try:
            value = unpack(packed)
        except Exception as error:
            what = f"the {kind} of {worker.label} arrived, but cannot be read here"
            raise WorkerError(f"{what}: {type(error).__name__}: {error}.", worker.index) from error
        if kind == "where":
            self._on_place(worker, value)
        elif kind == "error":
            self._on_error(worker, value)
        elif kind == "result":
            worker.busy, worker.value, worker.place = False, value, "its function has returned"
        elif self._on_report is not None:
            self._on_report(worker.index, value)

    def _on_place(self, worker: Worker, place: Place) -> None:
        if worker.busy:
            worker.place, worker.waits = place.text, place.waits

    def _on_error(self, worker: Worker, failure: Failure) -> None:
        error = revived(failure, worker.index, worker.label, worker.who)
        self._failed.append(_Failed(error, failure.doubtful, failure.late))
        worker.fail(error, failure.place)

    def _on_end(self, worker: Worker, name: str) -> None:
        """A process has ended: read its last message, and find out why."""
        worker.process.join()
        del worker.open[name]
        while "link" in worker.open and worker.open["link"].poll():
            self._on_message(worker, "link")
        if worker.failure is None:
            error = worker.death()
            # A library that loses another rank in a thread of its own aborts, such as NCCL's.
            aborted = error.signal == signal.SIGABRT
            self._failed.append(_Failed(error, aborted, worker.late))
            worker.fail(error, f"{error}")
        worker.kill()

    def __exit__(self, kind: type | None, *_: Any) -> None:
        """Leave no process, no connection and no unshown line behind."""
        self._on_report = None
        try:
            for worker in self.workers:
                self._dismiss(worker, at_once=kind is not None)
            end = time.monotonic() + _LEAVING_S
            self._step_until(end, lambda: not any(w.open.keys() - {"link"} for w in self.workers))
        finally:
            for worker in self.workers:
                self._let_go(worker)

    def _dismiss(self, worker: Worker, at_once: bool) -> None:
        """Ask a worker to leave, or end it."""
        if not at_once:
            return worker.tell("leave")
        if "end" in worker.open:
            worker.kill()
        if "link" in worker.open:  # we may have stopped inside a message
            self._close(worker, "link")

    def _let_go(self, worker: Worker) -> None:
        """Close what is open, and end the worker if it is still there."""
        if worker.open.pop("end", None) is not None:
            worker.kill()
        for name in list(worker.open):
            self._close(worker, name)  # a worker whose link ends, leaves
        with suppress(ValueError, AttributeError):
            worker.process.close()


def _lives(pid: int) -> bool:
    """Whether there is a process of this number."""
    try:
        os.kill(pid, 0)
    except OSError:
        return False
    return True
