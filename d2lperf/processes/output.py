"""What the workers print: whole lines, each with its worker's label, and moving progress bars."""

import re
import sys
from collections.abc import Callable
from typing import TextIO

# What gloo prints for each group.
_GREETING = re.compile(rb"\[Gloo\] Rank \d+ is connected to (\d+) peer ranks\. Expected .* is : \1")


class Output:
    """One of the two streams of all workers, shown in one of ours.

    A line is shown when it is complete, so that lines of several workers do not mix. A progress
    bar returns to the start of its line instead (by a carriage return): each of its states is drawn
    at once, in place of what was drawn before, and the last state becomes a line of its own.
    """

    def __init__(self, stream: Callable[[], TextIO]):
        self._stream = stream  # asked each time: a cell's stdout is not that of the next cell
        self._begun: dict[str, bytes] = {}  # label -> a line without its end
        self._drawn = ""  # the state of a bar that stands in the last line now

    def add(self, label: str, data: bytes) -> list[bytes]:
        """Take what a worker has printed; return the lines that are complete now."""
        *lines, begun = (self._begun.get(label, b"") + data).split(b"\n")
        self._show(label, lines)
        if b"\r" in begun:
            state = _last_state(begun)
            self._draw(f"[{label}] {state.decode(errors='replace')}")
            # Earlier states are over. A "\r" at the end makes room for the next state.
            begun = b"\r" + state + (b"\r" if begun.endswith(b"\r") else b"")
        self._begun[label] = begun
        return lines

    def end(self, label: str) -> list[bytes]:
        """Show what a worker has printed in a line that it did not end, and return it."""
        begun = self._begun.pop(label, b"")
        lines = [begun] if begun else []
        self._show(label, lines)
        return lines

    def _show(self, label: str, lines: list[bytes]) -> None:
        wanted = [line for line in lines if not _GREETING.fullmatch(line)]
        if not wanted:
            return
        self._draw("")
        stream = self._stream()
        for line in wanted:
            stream.write(f"[{label}] {_last_state(line).decode(errors='replace')}\n")
        stream.flush()

    def _draw(self, text: str) -> None:
        """Put a text without a line's end in the place of the one that stands there."""
        if text == self._drawn:
            return
        rest = " " * (len(self._drawn) - len(text))
        # Where nothing stays, the next line begins at the start of this one.
        stream = self._stream()
        stream.write(f"\r{text}{rest}" if text else f"\r{rest}\r")
        stream.flush()
        self._drawn = text


def _last_state(line: bytes) -> bytes:
    """What a line shows at last, if it returns to its start in between."""
    return line.rstrip(b"\r").rsplit(b"\r", 1)[-1]


def stdout() -> TextIO:
    """Return where this process prints now."""
    return sys.stdout


def stderr() -> TextIO:
    """Return where this process complains now."""
    return sys.stderr
