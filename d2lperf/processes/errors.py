"""What goes wrong in a worker: its errors, how they travel, how it died, and who is to blame.

A worker that fails stays alive until the kernel ends it, so that the first error to arrive is the
cause, and not what the other workers said about a lost connection.
"""

import os
import pickle
import re
import signal
import traceback
from collections.abc import Sequence
from contextlib import suppress
from types import TracebackType
from typing import Any, NamedTuple

import cloudpickle
import torch.distributed as dist

from d2lperf import _compat
from d2lperf.installed import OURS, is_installed

SERVER_ENDED = "the process that starts the workers has ended. Launch again."

_COLLECTIVES = os.path.dirname(dist.__file__) + os.sep
_CELL = re.compile(r"ipykernel|<ipython-input")  # names that kernels give to a cell's code
# What gloo, NCCL and the store say when another rank is gone, or did not come in time.
_SPEAKER = re.compile("gloo|c10d|nccl|ProcessGroup")
_LOST = re.compile("(?i)connection|closed|broken pipe|failed to|remote|nccl(remote|system)error")
_LATE = re.compile("(?i)time(d )?out")


class WorkerError(RuntimeError):
    """A worker died (`.rank`, by `.signal` or None), or what it gets or returns cannot be sent."""

    def __init__(self, text: str, rank: int | None = None, signal: int | None = None):
        super().__init__(text)
        self.rank, self.signal = rank, signal


class LaunchTimeout(WorkerError):
    """A collective waited longer than `timeout_s`, or the whole launch longer than `deadline_s`."""


class WorkerTraceback(Exception):
    """Shows the traceback of a worker, as the cause of the error that was raised there."""


class Place(NamedTuple):
    """Where a worker is in the user's code."""

    text: str
    waits: bool  # there, for other ranks


class Sent(NamedTuple):
    """An error as it travels."""

    pickled: bytes | None  # None: not even its class can be sent
    left_out: list[str]  # what of it cannot be sent, in words


class Failure(NamedTuple):
    """What a worker tells of an error that its function raised."""

    sent: "Sent"
    said: str  # class and message
    text: str  # with the traceback
    place: str
    doubtful: bool  # another worker may have caused it
    late: bool  # it waited too long for another worker


def place_of(verb: str, frames: Sequence[traceback.FrameSummary]) -> Place:
    """Return where in the user's code that is, the innermost call first."""
    theirs = list(frames)
    ours = [i for i, frame in enumerate(theirs) if frame.filename.startswith(OURS)]
    if ours:  # before our first frame stands the code of the fork server
        theirs = theirs[ours[0] :]
    words = []
    for frame in reversed(theirs):
        if not is_installed(frame.filename):
            file = "cell" if _CELL.search(frame.filename) else os.path.basename(frame.filename)
            words.append(f"{file}, line {frame.lineno}, in {frame.name}: {frame.line}")
    text = f"{verb} " + ("\n    called from ".join(words) or "not in the function yet")
    return Place(text, bool(frames) and frames[-1].filename.startswith(_COLLECTIVES))


def described(error: BaseException) -> Failure:
    """Return what the kernel has to know of an error."""
    frames = error.__traceback__
    while frames is not None and frames.tb_frame.f_code.co_filename.startswith(OURS):
        frames = frames.tb_next
    others = [_said_of_others(one) for one in _chain(error)]
    return Failure(
        sent=_sent(error),
        said="".join(traceback.format_exception_only(error)).strip(),
        text="".join(traceback.format_exception(type(error), error, frames)).rstrip(),
        place=place_of("gave up at", traceback.extract_tb(frames)).text,
        doubtful=any(others),
        late=others[0] == "late",
    )


def revived(failure: Failure, rank: int, label: str, who: str) -> BaseException:
    """Return the error as it was raised in the worker, caused by the worker's traceback.

    Args:
        failure: what the worker told.
        rank: of the worker; becomes the error's attribute `rank`, unless it has one.
        label, who: the worker's names, in short and in sentences.
    """
    unsent = "(its traceback is above; the error itself cannot be sent to the notebook)"
    error: BaseException = WorkerError(f"{label} raised {failure.said} {unsent}")
    if failure.sent.pickled is not None:
        with suppress(Exception):
            error = pickle.loads(failure.sent.pickled)
    with suppress(Exception):
        if getattr(error, "rank", None) is None:
            vars(error)["rank"] = rank
    text = f"\n{who} raised this:\n{failure.text}"
    if failure.sent.left_out:
        text += f"\n(left out, because it cannot be sent: {', '.join(failure.sent.left_out)})"
    error.__cause__ = WorkerTraceback(text)
    return error


def death_of(who: str, rank: int, status: int, busy: bool) -> WorkerError:
    """Return the error that says how a worker's process ended, and what may be the cause.

    Args:
        who: the worker's name in sentences.
        rank: of the worker.
        status: its exit status, or minus the number of the signal that killed it.
        busy: whether its function had not returned.
    """
    if status < 0:
        names = {-number: number.name for number in signal.Signals}
        how = f"was killed by signal {-status} ({names.get(status, 'without a name')})"
        hint = "That is a crash in compiled code; what it wrote is above, if it did."
    else:
        how = f"exited with status {status}"
        hint = "Something called sys.exit or os._exit. Let the function return instead."
    if status in (-signal.SIGKILL, -signal.SIGTERM):
        hint = "If nobody did that by hand, the system may have run out of memory."
    when = "" if busy else " after its function had returned"
    return WorkerError(f"{who} {how}{when}. {hint}", rank, max(0, -status) or None)


def _chain(error: BaseException) -> list[BaseException]:
    """The error, its cause, the cause of that, ..."""
    chain = [error]
    while True:
        cause = chain[-1].__cause__ or chain[-1].__context__
        if cause is None or cause in chain:
            return chain
        chain.append(cause)


def _sent(error: BaseException) -> Sent:
    """The pickle of an error, from which an error of the same class can be read."""
    # By default an error is pickled as its class and `args`, with which the class is then called.
    # That fails for a class whose __init__ takes other arguments than it gives to Exception.
    for form in (lambda: error, lambda: _Unbuilt(*_parts(error))):
        with suppress(Exception):
            pickled = cloudpickle.dumps(form())
            if _alike(pickle.loads(pickled), error):
                return Sent(pickled, [])
    # The caller's `except` asks for the class, so we send it without what cannot be sent.
    attributes = {name: value for name, value in vars(error).items() if _travels(value)}
    args = tuple(value if _travels(value) else repr(value) for value in error.args)
    left_out = [f"attribute {name!r}" for name in vars(error) if name not in attributes]
    left_out += [f"argument {value!r}" for value in error.args if not _travels(value)]
    with suppress(Exception):
        pickled = cloudpickle.dumps(_Unbuilt(type(error), args, attributes))
        if type(pickle.loads(pickled)) is type(error):
            return Sent(pickled, left_out)
    return Sent(None, [])


def _alike(read: Any, error: BaseException) -> bool:
    return type(read) is type(error) and repr(read.args) == repr(error.args)


def _travels(value: Any) -> bool:
    try:
        pickle.loads(cloudpickle.dumps(value))
    except Exception:
        return False
    return True


class _Parts(NamedTuple):
    """What an error is made of."""

    kind: type[BaseException]
    args: tuple
    attributes: dict[str, Any]


def _parts(error: BaseException) -> _Parts:
    args: Any = error.__reduce__()[1]  # with what an OSError keeps beside `args`
    return _Parts(type(error), args, vars(error))


class _Unbuilt(_Parts):
    """An error that is read without a call of its class's own __new__ and __init__."""

    def __reduce__(self) -> tuple:
        return _read_error, tuple(self)


def _read_error(kind: type, args: tuple, attributes: dict) -> BaseException:
    builtin: Any = next(base for base in kind.__mro__ if base.__module__ == "builtins")
    error = builtin.__new__(kind, *args)
    builtin.__init__(error, *args)
    vars(error).update(attributes)
    return error


def _said_of_others(error: BaseException) -> str:
    """What torch.distributed says of other ranks by this error: "lost", "late" or nothing."""
    # A RuntimeError that the user's code raises is the user's own, whatever its words.
    if not isinstance(error, RuntimeError) or error.__traceback__ is None:
        return ""
    message = "".join(traceback.format_exception_only(error))
    theirs = isinstance(error, dist.DistError)
    if not theirs and not (_raised_by_libraries(error.__traceback__) and _SPEAKER.search(message)):
        return ""
    if _LATE.search(message):
        return "late"
    return "lost" if _LOST.search(message) else ""


def _raised_by_libraries(innermost: TracebackType) -> bool:
    """Whether torch.distributed raised the error of this traceback, or a call into C++."""
    while innermost.tb_next is not None:
        innermost = innermost.tb_next
    file = innermost.tb_frame.f_code.co_filename
    return file.startswith(_COLLECTIVES) or not _compat.stopped_at_raise(innermost)
