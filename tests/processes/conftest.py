"""What the tests of processes share: the fork server's workers, and a real notebook kernel."""

import multiprocessing
import os
import time
from pathlib import Path

import psutil
import pytest

ROOT = Path(__file__).parents[2]

if "forkserver" not in multiprocessing.get_all_start_methods():
    collect_ignore_glob = ["*"]  # Windows: see test_system_without_a_fork_server


def wait_until(true, seconds=20.0):
    """Whether it came true in time."""
    end = time.monotonic() + seconds
    while not true():
        if time.monotonic() > end:
            return False
        time.sleep(0.01)
    return True


def alive(process):
    return process.is_running() and process.status() != psutil.STATUS_ZOMBIE


def server_of(pid):
    """The fork server of a process, or None."""
    for process in psutil.Process(pid).children():
        try:
            if "multiprocessing.forkserver" in " ".join(process.cmdline()) and alive(process):
                return process
        except psutil.Error:
            continue
    return None


def workers_of(pid):
    server = server_of(pid)
    return [p for p in server.children(recursive=True) if alive(p)] if server else []


@pytest.fixture(autouse=True)
def no_worker_is_left_over():
    yield
    assert wait_until(lambda: not workers_of(os.getpid()), 5), workers_of(os.getpid())


class Kernel:
    """A real kernel, as in a notebook."""

    def __init__(self):
        jupyter_client = pytest.importorskip("jupyter_client")
        from notebooks.build import over_files

        folder = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
        self.manager = jupyter_client.KernelManager(kernel_name="python3", **over_files())
        self.manager.start_kernel(env={**os.environ, "PYTHONPATH": folder})
        self.client = self.manager.client()
        self.client.start_channels()
        try:
            self.client.wait_for_ready(timeout=60)
        except RuntimeError:
            self.stop()
            raise

    @property
    def pid(self):
        return self.manager.provisioner.pid

    def start(self, code):
        """Send a cell; return what `take` wants."""
        # After an error an older ipykernel would not run a cell that comes at once.
        cell = self.client.execute(code, stop_on_error=False)
        return cell, {"stdout": "", "stderr": "", "error": None}

    def take(self, cell, until=lambda seen: False, timeout=60):
        """Hear a cell's messages until it is over, or something was seen."""
        wanted, seen = cell
        while True:
            message = self.client.get_iopub_msg(timeout=timeout)
            if message["parent_header"].get("msg_id") != wanted:
                continue
            content = message["content"]
            if message["msg_type"] == "stream":
                seen[content["name"]] += content["text"]
            elif message["msg_type"] == "error":
                seen["error"] = content
            elif content.get("execution_state") == "idle":
                return seen
            if until(seen):
                return seen

    def run(self, code):
        return self.take(self.start(code))

    def stop(self):
        self.client.stop_channels()
        self.manager.shutdown_kernel(now=True)


@pytest.fixture(scope="module")
def kernel():
    kernel = Kernel()
    try:
        # As in a lesson: torch has computed before, with all of its threads.
        seen = kernel.run(
            "import os, sys, time, torch, torch.distributed as dist\n"
            "x = torch.randn(600, 600); x = x @ x\n"
            "from d2lperf import launch, report, LaunchTimeout"
        )
        assert seen["error"] is None, seen["error"]["traceback"]
        yield kernel
    finally:
        kernel.stop()
