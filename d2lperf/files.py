"""Files that are written whole or not at all."""

from __future__ import annotations

import os
import tempfile
from contextlib import suppress
from pathlib import Path


def write_whole(path: str | Path, text: str, errors: str = "strict") -> None:
    """Write a file so that nobody ever finds half of it: aside first, then in its place."""
    path = Path(path)
    if not path.parent.is_dir():
        raise FileNotFoundError(
            f"{path.name} cannot be written: there is no folder {path.parent}. Make it first."
        )
    handle, aside = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".tmp", dir=path.parent)
    try:
        with open(handle, "w", encoding="utf-8", errors=errors) as file:
            file.write(text)
        if path.exists():
            os.chmod(aside, path.stat().st_mode)
        else:
            mask = os.umask(0)
            os.umask(mask)
            os.chmod(aside, 0o666 & ~mask)
        os.replace(aside, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(aside)
        raise
