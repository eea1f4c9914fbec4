"""What every pytest run needs, from whichever folder it starts: nbval runs notebooks strictly."""

import gc
import os
import signal
import time
import uuid
from contextlib import suppress
from fnmatch import fnmatch
from pathlib import Path

import psutil
import pytest

ROOT = Path(__file__).parent
pytest_plugins = ["pytester"]  # tests that run a small pytest session of their own

# Nothing may be left behind in these folders, except what tools (and make) keep there.
WATCHED = (ROOT, *(ROOT / "notebooks" / folder for folder in ("", "deeper", "frameworks")))
CACHES = (
    *("__pycache__", ".pytest_cache", ".ruff_cache", ".hypothesis", ".benchmarks", ".coverage*"),
    *(".ipynb_checkpoints", ".virtual_documents", ".git", ".venv", "*.egg-info", "*.sw?", ".*.tmp"),
    ".mypy_cache",
)

# Kernels and tests inherit these. A contradicted claim raises. Progress bars would get into stored
# outputs. A backend from outside would keep the kernels from drawing inline.
os.environ.setdefault("D2LPERF_STRICT", "1")
os.environ["TQDM_DISABLE"] = "1"
os.environ.pop("MPLBACKEND", None)
# In the tests' kernels default budgets of compare and measure are multiplied by this.
# benchmarks/strict_runs.py sets 1, and with it all is as in a reader's kernel.
BUDGET = "0.3"
if "D2LPERF_BUDGET" not in os.environ:
    # Threads that wait for each other sleep. By default they would keep a core busy, which the
    # thread that is waited for may need: the tests run beside it.
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    # Inductor takes the processor's word for its vector operations, without compiling a trial.
    os.environ.setdefault("TORCHINDUCTOR_VEC_ISA_OK", "1")

BEFORE, PROBLEMS = pytest.StashKey[set](), pytest.StashKey[list]()
OUTER = pytest.StashKey[str | None]()
MARK = "D2LPERF_TEST_SESSION"  # all that a session starts inherits its value
PATIENCE_S = 10.0  # for what is about to end


def pytest_configure(config):
    # A shell without job control starts background jobs with SIGINT ignored, and their children
    # inherit that: tests of the stop button would fail.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    import matplotlib
    import tqdm.auto  # noqa: F401 - imported first by a test with IPython, it would draw widgets

    # For this process only: an environment variable would reach the kernels.
    matplotlib.use("Agg")
    if not config.pluginmanager.hasplugin("nbval"):
        return  # reported where a notebook is met, so that `pytest tests/test_data.py` still runs
    from nbval import kernel

    kernel.KernelManager = kernel_manager
    option = config.option
    option.nbval = not option.nbval_lax
    option.nbval_current_env = option.nbval_kernel_name is None
    if option.nbval_sanitize_with is None:
        option.nbval_sanitize_with = str(ROOT / "tests" / "sanitize.cfg")
    if "--nbval-cell-timeout" not in " ".join(config.invocation_params.args):
        # The longest cells take more than a minute on two quiet cores. Here three
        # workers of pytest share the cores, and a busy host can make them several times slower.
        option.nbval_cell_timeout = 900.0


def pytest_collect_file(file_path, parent):
    if file_path.suffix == ".ipynb" and not parent.config.pluginmanager.hasplugin("nbval"):
        raise pytest.UsageError(
            f"{file_path.name} cannot be tested: nbval is not installed. "
            "Install it with: python -m pip install -e '.[notebooks,test]'"
        )


def scope(nodeid):
    """What runs in one process and in order: the course's notebooks; any other file by itself."""
    file = nodeid.partition("::")[0]
    return "notebooks" if fnmatch(file, "notebooks/[0-9]*.ipynb") else file


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """For `pytest -n`: two lessons at once would disturb each other's measurements."""
    from xdist.scheduler import LoadScopeScheduling

    class ByScope(LoadScopeScheduling):
        def _split_scope(self, nodeid):
            return scope(nodeid)

    return ByScope(config, log)


def own_kernel(item):
    """The framework whose kernel a notebook names; "" where it runs in this interpreter."""
    name = item.parent.nb.metadata.get("kernelspec", {}).get("name", "")
    return name.removeprefix("d2lperf-") if name.startswith("d2lperf-") else ""


def pytest_collection_modifyitems(items):
    """The course takes longest, so it comes first, beside the tests; studies fill what is left."""
    items.sort(key=lambda item: (scope(item.nodeid) != "notebooks", item.path.suffix == ".ipynb"))
    for item in items:
        if item.path.suffix == ".ipynb" and (framework := own_kernel(item)):
            from notebooks import kernels

            if reason := kernels.why_skipped(framework):
                item.add_marker(pytest.mark.skip(reason=reason))


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection():
    gc.disable()  # little of what the tests import is garbage
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()  # what is there stays, so that looking for garbage takes no time with each test


def kernel_manager(**arguments):
    """For nbval: no port that another process could take first, and the kernel's log is kept."""
    from jupyter_client import KernelManager

    from notebooks.build import over_files

    class Manager(KernelManager):
        def start_kernel(self, **arguments):
            # nbval sends it to /dev/null. pytest captures ours and shows it with a failure.
            return super().start_kernel(**arguments | {"stderr": None})

    return Manager(**over_files(), **arguments)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_setup(item):
    if item.path.suffix != ".ipynb":
        return (yield)
    if item.config.option.nbval_kernel_name is None:
        item.config.option.nbval_current_env = not own_kernel(item)
    if "D2LPERF_BUDGET" in os.environ:
        return (yield)
    os.environ["D2LPERF_BUDGET"] = BUDGET  # for the kernel, which starts now
    try:
        return (yield)
    finally:
        del os.environ["D2LPERF_BUDGET"]


def listing():
    """Names in the watched folders, relative to the root, without the tools' caches."""
    return {
        str(path.relative_to(ROOT))
        for folder in WATCHED
        if folder.is_dir()
        for path in folder.iterdir()
        if not any(fnmatch(path.name, pattern) for pattern in CACHES)
    }


def orphans(mark):
    """Processes that this session started and whose parents have ended."""
    ours = {process.pid for process in psutil.Process().children(recursive=True)}
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if process.pid in ours or process.environ().get(MARK) != mark:
                continue
            if process.status() != psutil.STATUS_ZOMBIE:
                found.append(f"{process.pid}: {' '.join(process.cmdline())[:200]}")
    return found


def pytest_sessionstart(session):
    if hasattr(session.config, "workerinput"):
        return  # one of several processes of a session
    session.config.stash[BEFORE] = listing()
    # A session inside a test has its own mark.
    session.config.stash[OUTER] = os.environ.get(MARK)
    os.environ[MARK] = uuid.uuid4().hex


@pytest.hookimpl(trylast=True)  # after the session's other processes have ended
def pytest_sessionfinish(session):
    if hasattr(session.config, "workerinput"):
        return
    before, after = session.config.stash[BEFORE], listing()
    # Somebody may add a notebook while the tests run.
    left = sorted(name for name in after - before if not name.endswith(".ipynb"))
    problems = []
    if left:
        problems.append(
            f"left behind: {', '.join(left)}. A test or a notebook wrote beside itself; "
            "write into a temporary folder (tmp_path, tempfile.TemporaryDirectory()) instead."
        )
    if before - after:
        problems.append(f"gone: {', '.join(sorted(before - after))}.")
    mark, end = os.environ[MARK], time.monotonic() + PATIENCE_S
    while (running := orphans(mark)) and time.monotonic() < end:
        time.sleep(0.1)
    if running:
        problems.append(f"processes left running: {'; '.join(running)}")
    if session.config.stash[OUTER] is None:
        del os.environ[MARK]
    else:
        os.environ[MARK] = session.config.stash[OUTER]
    session.config.stash[PROBLEMS] = problems
    if problems and session.exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter, config):
    for problem in config.stash.get(PROBLEMS, []):
        terminalreporter.write_line(f"NOT TIDY - {problem}", red=True)
