"""Programs in a process of their own, without the seconds that importing torch takes each time.

On Linux a server imports torch once and is forked for each program. In the fork a program is the
module `__main__`, with environment variables and folders of imports of its own, as in a new Python.
Two things differ: variables that are read when Python or OpenMP loads (OMP_NUM_THREADS,
PYTHONHASHSEED, PYTHONWARNINGS) are those of the server, and what Python does at its end is left
out.
"""

import atexit
import gc
import json
import os
import signal
import subprocess
import sys
import tempfile
import traceback
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).parents[1]
PATIENCE_S = 300
CLEARING_S = 60  # torchrun gives its workers 30 s to end before it kills them


def run_fresh(program, *folders, cwd=None, **variables):
    """Run a program as `python -c` does, and return the same as `subprocess.run`.

    Modules are taken from the given folders first; `variables` are added to the environment's.
    """
    path = [*map(str, folders), str(ROOT)]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(path), **variables}
    if sys.platform != "linux":  # elsewhere torch may not be forked
        return run_python("-c", program, cwd=cwd, **env)
    with tempfile.TemporaryDirectory() as folder:
        order = {"program": program, "path": path, "env": env, "out": folder}
        order["cwd"] = str(cwd or os.getcwd())
        with suppress(BrokenPipeError):
            print(json.dumps(order), file=server().stdin, flush=True)
        if not (code := server().stdout.readline()):
            raise RuntimeError("the server of fresh.py has ended")
        said = [Path(folder, stream).read_text(encoding="utf-8") for stream in ("1", "2")]
    return subprocess.CompletedProcess(program, int(code), *said)


def run_python(*arguments, cwd=None, **variables):
    """Run Python with these arguments: a process of its own from its first import to its end."""
    command = [sys.executable, *map(str, arguments)]
    env = {**os.environ, "PYTHONPATH": str(ROOT), **variables}
    return subprocess.run(
        command, env=env, cwd=cwd, capture_output=True, text=True, timeout=PATIENCE_S
    )


def torchrun(*arguments, **options):
    """What `torchrun` does with these arguments; its workers are new processes as ever."""
    command = ["torchrun", *map(str, arguments)]
    return run_fresh(
        f"import runpy, sys\nsys.argv = {command}\n"
        "runpy.run_module('torch.distributed.run', run_name='__main__', alter_sys=True)",
        **options,
    )


@lru_cache
def server():
    """The process that is forked; it ends with its standard input."""
    process = subprocess.Popen(
        [sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    atexit.register(process.communicate)
    return process


def serve():
    import torch  # noqa: F401

    gc.freeze()
    for order in map(json.loads, sys.stdin):
        pid = os.fork()
        if pid == 0:
            os._exit(work(**order))
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)


def give_up(*_):
    """End a program that hangs: first by an error, so that torchrun ends its workers too."""
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.alarm(CLEARING_S)
    raise TimeoutError(f"the program took longer than {PATIENCE_S} s")


def work(program, path, env, cwd, out):
    """Run the program in the fork and return its exit status."""
    signal.signal(signal.SIGALRM, give_up)
    signal.alarm(PATIENCE_S)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    for stream in (1, 2):
        os.dup2(os.open(f"{out}/{stream}", os.O_WRONLY | os.O_CREAT), stream)
    os.environ.clear()
    os.environ.update(env)
    os.chdir(cwd)
    sys.path[:1] = ["", *path]
    sys.modules["__main__"] = main = ModuleType("__main__")
    try:
        exec(compile(program, "<string>", "exec"), vars(main))
        return 0
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
        return 1
    finally:
        sys.stdout.flush()
        sys.stderr.flush()


if __name__ == "__main__":
    serve()
