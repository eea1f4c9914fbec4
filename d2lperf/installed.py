"""Which code is the reader's, and which is installed."""

from __future__ import annotations

import os
import site
import sysconfig
from importlib.util import find_spec

OURS = os.path.dirname(os.path.abspath(__file__)) + os.sep
_torch = find_spec("torch")  # it is not imported for this
_PLACES = {
    *map(sysconfig.get_path, ("stdlib", "platstdlib", "purelib", "platlib")),
    *site.getsitepackages(),  # Debian's packages are elsewhere than pip's
    site.getusersitepackages(),
    *(_torch.submodule_search_locations or () if _torch else ()),  # it may be used from its source
}
_INSTALLED = ("<frozen", OURS, *(os.path.abspath(place) + os.sep for place in _PLACES))


def is_installed(file: str) -> bool:
    """Return whether code of this file belongs to Python, an installed package or d2lperf.

    >>> is_installed(os.__file__), is_installed("train.py")
    (True, False)
    >>> is_installed(os.path.join(site.getusersitepackages(), "numpy", "core.py"))
    True
    """
    return file.startswith(_INSTALLED)
