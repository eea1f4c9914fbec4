"""The training step of a script, with the arguments that the script calls it with.

The script runs as it does from the shell, up to the step's second call. There it is stopped, and
the step can be called on with the same arguments.
"""

from __future__ import annotations

import inspect
import io
import os
import runpy
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout, suppress
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from types import CodeType, FrameType, MethodType
from typing import Any

from d2lperf import _compat

__all__ = ["ScriptError", "step_of", "time_limit"]

CALLS = 2  # the step is stopped at this call: the first one may set things up


class ScriptError(RuntimeError):
    """The step of a script cannot be explained: what was asked, what was found, what to do."""


class _Reached(BaseException):
    """Stops a script at the call of its step; `except Exception` in the script lets it through."""

    def __init__(self, step: Callable[[], Any]):
        self.step = step


def step_of(script: str | Path, name: str, arguments: list[str]) -> Callable[[], Any]:
    """Run a script up to the second call of a function; return that call as a function.

    Args:
        script: path of a Python file.
        name: of a function at the top level of the script: defined there, or imported.
        arguments: of the script, as on its command line.

    Raises:
        ScriptError: the file or the function is not there, the script ends or raises before, or it
            never calls a function that needs arguments.
    """
    path = Path(script)
    if not path.is_file():
        raise ScriptError(f"{script} was asked for, but there is no such file. Give its path.")
    stopper = _Stopper(str(path), name)
    with _as_main(path, arguments):
        try:
            sys.setprofile(stopper.look)
            with redirect_stdout(io.StringIO()):
                found = runpy.run_path(str(path), run_name="__main__")
        except _Reached as reached:
            return reached.step
        except SystemExit as error:
            if error.code:
                raise ScriptError(_ended(path, name, error.code, arguments)) from None
            found = stopper.top_level
        except Exception as error:
            last = traceback.extract_tb(error.__traceback__)[-1]
            raise ScriptError(
                f"{path.name} raised {type(error).__name__} before {name} was called twice "
                f"({Path(last.filename).name}:{last.lineno}): {error}"
            ) from error
        finally:
            sys.setprofile(None)
    return _uncalled(path, name, found, stopper)


@contextmanager
def _as_main(path: Path, arguments: list[str]) -> Iterator[None]:
    """Give a script the command line and the search path that it has from the shell."""
    argv, search = sys.argv, list(sys.path)
    sys.argv = [str(path), *arguments]
    sys.path.insert(0, str(path.resolve().parent))
    try:
        yield
    finally:
        sys.argv, sys.path[:] = argv, search


class _Stopper:
    """Looks at each call of a script, and stops it at a call of the step."""

    def __init__(self, file: str, name: str):
        self.file, self.name, self.calls = file, name, 0
        self.module: CodeType | None = None
        self.top_level: dict[str, Any] = {}  # names at the script's top level
        self.known: Any = None  # by the name of the step there, decorated
        self.lines: set[int] = set()  # where its code begins

    def look(self, frame: FrameType, event: str, argument: Any) -> None:
        """What `sys.setprofile` calls at each call of any function, so it must be quick."""
        if event != "call":
            return
        code = frame.f_code
        if self.module is None and code.co_name == "<module>" and code.co_filename == self.file:
            self.module, self.top_level = code, frame.f_globals
        known: Any = self.top_level.get(self.name)
        if known is not self.known:
            self.known, self.lines = known, self.lines_of(known)
        if code.co_firstlineno not in self.lines or not self.is_step(frame):
            return
        given = _positional(code, frame)[1 if _method(known) else 0 :]
        self.calls += 1
        self.last = partial(known, *given, **_named(code, frame))  # with its decorators
        if self.calls == CALLS:
            sys.setprofile(None)
            raise _Reached(self.last)

    def lines_of(self, known: Any) -> set[int]:
        """Where the code of a function begins, without its decorators.

        A decorator that is a class does not say what it decorates; that stands at the top level.
        """
        if self.module is None or not callable(known):
            return set()
        inner = getattr(inspect.unwrap(known), "__code__", None)
        codes = [inner] if inner else _functions(self.module, self.name)
        return {code.co_firstlineno for code in codes}

    def is_step(self, frame: FrameType) -> bool:
        """Whether a frame that begins on the right line is a call of what the top level knows.

        Names are compared: torch.compile makes other code of the same line. What a decorator
        returns for several functions has the same code, but another closure.
        """
        function, code = inspect.unwrap(self.known), frame.f_code
        inner = getattr(function, "__code__", None)
        if inner is None:
            return (code.co_filename, code.co_name) == (self.file, self.name)
        if (code.co_filename, code.co_name) != (inner.co_filename, inner.co_name):
            return False
        method = _method(self.known)
        if method and frame.f_locals.get(code.co_varnames[0]) is not method.__self__:
            return False
        return all(frame.f_locals.get(name) is value for name, value in _held(function).items())


def _method(known: Any) -> MethodType | None:
    """The bound method that a name stands for, with or without decorators; None for a function."""
    methods = (f for f in (known, inspect.unwrap(known)) if inspect.ismethod(f))
    return next(methods, None)


def _held(function: Any) -> dict[str, Any]:
    """What the closure of a function holds, by name; cells that are empty by now are left out."""
    held = {}
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or ()):
        with suppress(ValueError):
            held[name] = cell.cell_contents
    return held


def _functions(outer: CodeType, name: str) -> list[CodeType]:
    """The functions of a name that are defined directly in a module, a class or a function."""
    inner = [code for code in outer.co_consts if isinstance(code, CodeType)]
    return [code for code in inner if code.co_name == name]


def _around(outer: CodeType, name: str) -> CodeType | None:
    """The class or the function in which a function of a name is defined, None for no such one."""
    for inner in (code for code in outer.co_consts if isinstance(code, CodeType)):
        found = inner if _functions(inner, name) else _around(inner, name)
        if found:
            return found
    return None


def _positional(code: CodeType, frame: FrameType) -> list[Any]:
    """The positional arguments of a call that has just begun."""
    given = [frame.f_locals[name] for name in code.co_varnames[: code.co_argcount]]
    if code.co_flags & inspect.CO_VARARGS:
        given += frame.f_locals[code.co_varnames[code.co_argcount + code.co_kwonlyargcount]]
    return given


def _named(code: CodeType, frame: FrameType) -> dict[str, Any]:
    """The arguments of a call that are given by name only."""
    count, only = code.co_argcount, code.co_kwonlyargcount
    given = {name: frame.f_locals[name] for name in code.co_varnames[count : count + only]}
    if code.co_flags & inspect.CO_VARKEYWORDS:
        at = count + only + (1 if code.co_flags & inspect.CO_VARARGS else 0)
        given |= frame.f_locals[code.co_varnames[at]]
    return given


def _ended(path: Path, name: str, code: Any, arguments: list[str]) -> str:
    """What to say where a script has ended by itself before its step."""
    asked = f"{path.name} ended with status {code} before {name} was called twice"
    given = " ".join(arguments) or "none"
    return (
        f"{asked}. It may need arguments (given: {given}). Put them at the end, after --: "
        f"python -m d2lperf explain {path.name} --step {name} -- --epochs 1"
    )


def _uncalled(path: Path, name: str, found: dict, stopper: _Stopper) -> Callable[[], Any]:
    """The step of a script that has ended without a second call of it."""
    if stopper.calls:
        return stopper.last
    step = found.get(name)
    if not callable(step):
        method = name.rpartition(".")[2]  # of Trainer.train_step
        around = _around(stopper.module, method) if stopper.module else None
        if around:
            raise ScriptError(f"{name} was asked for, but in {path.name} {_inside(around, method)}")
        functions = [n for n, v in found.items() if getattr(v, "__module__", "") == "__main__"]
        close = get_close_matches(name, functions, n=1)
        advice = f" Did you mean {close[0]!r}?" if close else ""
        known = ", ".join(functions) or "none"
        raise ScriptError(
            f"the function {name} was asked for, but {path.name} has no such function at its top "
            f"level. It has: {known}.{advice}"
        )
    needed = _needed(step)
    if needed and not stopper.lines_of(step):
        raise ScriptError(
            f"{name} needs {needed} arguments, and it is a {type(step).__name__}: only calls of "
            f"functions that are written in Python are seen. Add one to {path.name} that calls it, "
            "and give its name to --step."
        )
    if needed:
        raise ScriptError(
            f"{name} needs {needed} arguments, and {path.name} ended without calling it. Let the "
            "script call it twice, as it does in training."
        )
    return step


def _inside(around: CodeType, name: str) -> str:
    """What to say of a function that is defined in a class or in another function."""
    if around.co_flags & inspect.CO_OPTIMIZED:  # the body of a function, not that of a class
        return "it is defined inside another function. Move it to the top level of the file."
    return (
        f"it is a method of {around.co_name}. Add a function at the top level of the file that "
        f"calls it, such as: def one_step(trainer, batch): return trainer.{name}(batch). Let the "
        "script call that function, and give its name to --step."
    )


def _needed(step: Callable) -> int:
    """How many arguments a function cannot do without; 0 where Python does not know."""
    try:
        parameters = inspect.signature(step).parameters.values()
    except (TypeError, ValueError):  # some functions of C
        return 0
    optional = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return sum(p.default is p.empty and p.kind not in optional for p in parameters)


@contextmanager
def time_limit(seconds: float, what: str, advice: str) -> Iterator[None]:
    """End the process with status 2 and a message where the block takes longer than `seconds`.

    It ends the process, since nothing else stops a thread that waits inside of a library.

    Args:
        seconds: that the block may take.
        what: does not end, for the message.
        advice: what to do about it.
    """
    main = threading.get_ident()

    def expire() -> None:
        frame = _compat.frame_of(main)
        where = f" It is in {_innermost(frame)}." if frame else ""
        print(f"error: {what} has not ended after {seconds:g} s.{where} {advice}", file=sys.stderr)
        sys.stderr.flush()
        os._exit(2)

    timer = threading.Timer(seconds, expire)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _innermost(frame: FrameType) -> str:
    code = frame.f_code
    return f"{code.co_name} ({Path(code.co_filename).name}:{frame.f_lineno})"
