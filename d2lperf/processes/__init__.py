"""A function on several processes that can talk to each other."""

from d2lperf.processes.errors import LaunchTimeout, WorkerError
from d2lperf.processes.launch import launch, report

__all__ = ["LaunchTimeout", "WorkerError", "launch", "report"]
