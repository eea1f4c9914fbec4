"""Which code is the reader's, and which is installed."""

from __future__ import annotations

import os
import sysconfig

OURS = os.path.dirname(os.path.abspath(__file__)) + os.sep
_PLACES = map(sysconfig.get_path, ("stdlib", "platstdlib", "purelib", "platlib"))
_INSTALLED = ("<frozen", OURS, *{os.path.abspath(place) + os.sep for place in _PLACES})


def is_installed(file: str) -> bool:
    """Return whether code of this file belongs to Python, an installed package or d2lperf.

    >>> is_installed(os.__file__), is_installed("train.py")
    (True, False)
    """
    return file.startswith(_INSTALLED)
