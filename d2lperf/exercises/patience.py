"""Waiting for a learner's threads, so that an answer that never ends is told so.

Whether two tasks run at the same time is found out by letting them meet, not by a clock.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

__all__ = ["MEETING_S", "NeverEnds", "meeting", "within_patience"]

PATIENCE_S = 20.0  # for something that must happen
MEETING_S = 2.0  # for two tasks to meet that do nothing else


class NeverEnds(Exception):
    """Something that should have ended did not."""


def within_patience(function: Callable[[], Any]) -> Any:
    """Call a function in another thread; raise what it raises, or `NeverEnds`."""
    outcome: dict[str, Any] = {}

    def call() -> None:
        try:
            outcome["value"] = function()
        except BaseException as error:
            outcome["error"] = error

    thread = threading.Thread(target=call, daemon=True, name="checker")
    thread.start()
    thread.join(PATIENCE_S)
    if thread.is_alive():
        raise NeverEnds
    if "error" in outcome:
        raise outcome["error"]
    return outcome["value"]


def meeting() -> Callable[..., str]:
    """A task for two names: neither ends before both are under way."""
    barrier = threading.Barrier(2, timeout=MEETING_S)

    def task(*inputs: Any) -> str:
        barrier.wait()
        return "met"

    return task
