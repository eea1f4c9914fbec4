"""Which Python functions take the time between torch's operations: a sampling of the stack."""

from __future__ import annotations

import threading
from collections import Counter
from pathlib import Path
from types import FrameType, TracebackType

import torch

from d2lperf import _compat
from d2lperf.installed import OURS, is_installed

__all__ = ["StackSampler"]

EVERY_S = 1e-3
LOADER = str(Path(torch.__file__).parent / "utils" / "data")


class StackSampler:
    """Looks at the stack of the thread that enters it, a thousand times a second.

    Attributes:
        seen: name of a function -> how often it ran outside of torch's operations.
    """

    def __init__(self) -> None:
        self.seen: Counter[str] = Counter()
        self._ended = threading.Event()

    def __enter__(self) -> StackSampler:
        watched = threading.get_ident()
        self._thread = threading.Thread(target=self._watch, args=(watched,), daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._ended.set()
        self._thread.join()

    def _watch(self, thread: int) -> None:
        while not self._ended.wait(EVERY_S):
            frame = _compat.frame_of(thread)
            name = name_of(frame) if frame else None
            if name:
                self.seen[name] += 1

    def shares(self) -> dict[str, float]:
        """Return name -> share of the samples outside of torch, the largest first."""
        total = sum(self.seen.values())
        return {name: count / total for name, count in self.seen.most_common()}


def name_of(frame: FrameType) -> str | None:
    """Return the function that the time of a stack goes to, such as "load (train.py:12)".

    That is the innermost function of the reader's own files. It is None inside one of torch's
    operations, and where there is no such function. A wait of a data loader for its workers, or its
    own work, is named after the loader.
    """
    at: FrameType | None = frame
    loading = False
    while at is not None:
        file = at.f_code.co_filename
        if file.startswith(OURS):
            return None  # our counter runs or notes an operation
        loading |= file.startswith(LOADER)
        if not is_installed(file):
            via = " in a DataLoader" if loading else ""
            return f"{at.f_code.co_name} ({Path(file).name}:{at.f_code.co_firstlineno}){via}"
        at = at.f_back
    return None
