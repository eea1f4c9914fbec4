"""Standard outputs that cannot be written to."""

from __future__ import annotations

import io

KINDS = ("closed", "none", "broken")


class _Broken(io.StringIO):
    def write(self, text):
        raise BrokenPipeError(32, "Broken pipe")


def unwritable(kind: str) -> io.StringIO | None:
    """A closed stream, none at all, or a pipe whose reader went away."""
    if kind == "none":
        return None
    stream = {"closed": io.StringIO, "broken": _Broken}[kind]()
    if kind == "closed":
        stream.close()
    return stream
