"""What every pytest run needs, from whichever folder it starts: nbval runs notebooks strictly."""

import os
import signal
import time
import uuid
from contextlib import suppress
from fnmatch import fnmatch
from pathlib import Path

import pytest

ROOT = Path(__file__).parent

# Here nothing may be left behind, and this is what tools (and make) keep here all the same.
WATCHED = (ROOT, ROOT / "notebooks")
CACHES = (
    *("__pycache__", ".pytest_cache", ".ruff_cache", ".hypothesis", ".benchmarks", ".coverage*"),
    *(".ipynb_checkpoints", ".virtual_documents", ".git", ".venv", "*.egg-info", "*.sw?", ".*.tmp"),
)

# Kernels and tests inherit these. A contradicted claim raises; bars are for people, not for
# stored outputs; a backend from outside would keep the kernels from drawing inline.
os.environ.setdefault("D2LPERF_STRICT", "1")
os.environ["TQDM_DISABLE"] = "1"
os.environ.pop("MPLBACKEND", None)

BEFORE, PROBLEMS = pytest.StashKey[set](), pytest.StashKey[list]()
OUTER = pytest.StashKey[str | None]()
MARK = "D2LPERF_TEST_SESSION"  # all that a session starts inherits its value
PATIENCE_S = 10.0  # for what is about to end


def pytest_configure(config):
    # What a shell without job control starts in the background is deaf to SIGINT, and so is all
    # that it starts: tests of the stop button would press it in vain.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        import matplotlib

        # For this process only: an environment variable would reach the kernels.
        matplotlib.use("Agg")
    except ImportError:
        pass
    if not config.pluginmanager.hasplugin("nbval"):
        return  # said where a notebook is met, so that `pytest tests/test_stats.py` still runs
    option = config.option
    option.nbval = not option.nbval_lax
    option.nbval_current_env = option.nbval_kernel_name is None
    if option.nbval_sanitize_with is None:
        option.nbval_sanitize_with = str(ROOT / "tests" / "sanitize.cfg")
    if "--nbval-cell-timeout" not in " ".join(config.invocation_params.args):
        option.nbval_cell_timeout = 300.0


def pytest_collect_file(file_path, parent):
    if file_path.suffix == ".ipynb" and not parent.config.pluginmanager.hasplugin("nbval"):
        raise pytest.UsageError(
            f"{file_path.name} cannot be tested: nbval is not installed. "
            "Install it with: python -m pip install -e '.[notebooks,test]'"
        )


def listing():
    """Names in the watched folders, relative to the root, without the caches of tools."""
    return {
        str(path.relative_to(ROOT))
        for folder in WATCHED
        if folder.is_dir()
        for path in folder.iterdir()
        if not any(fnmatch(path.name, pattern) for pattern in CACHES)
    }


def orphans(mark):
    """Processes of this session that nobody of it will end: their parents are gone."""
    try:
        import psutil
    except ImportError:  # of the notebooks' extra
        return []
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
    session.config.stash[BEFORE] = listing()
    # A session that a test starts keeps its own books, and leaves the outer one's value to others.
    session.config.stash[OUTER] = os.environ.get(MARK)
    os.environ[MARK] = uuid.uuid4().hex


def pytest_sessionfinish(session):
    before, after = session.config.stash[BEFORE], listing()
    # A person may well add a notebook while the tests run; a notebook writes none.
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
