"""Whether this Python has what d2lperf needs: the packages, and a torch that is new enough.

Nothing is imported to find it out. The notebooks' set-up cell calls `check`, and so does what
measures or records when it is imported. A Python that has no torch at all is told by Python first.
"""

import re
import sys
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec

# As in pyproject.toml. A clone that is used without being installed has no list of its own.
PACKAGES = (
    "torch",
    "numpy",
    "matplotlib",
    "pandas",
    "cloudpickle",
    "networkx",
    "scipy",
    "pooch",
    "requests",
    "tqdm",
    "psutil",
)
OLDEST_TORCH = "2.7"


def check() -> None:
    """Raise an error that says what to do, unless this Python has what d2lperf needs.

    Raises:
        ModuleNotFoundError: a package is missing.
        ImportError: torch is too old.
    """
    absent = [name for name in PACKAGES if find_spec(name) is None]
    if absent:
        raise ModuleNotFoundError(
            f"d2lperf needs {', '.join(absent)}, and the Python of this kernel does not have "
            f"{'it' if len(absent) == 1 else 'them'}: {sys.executable}. Choose another kernel "
            f"(`make lab` starts one that has everything), or run\n"
            f"    {sys.executable} -m pip install {' '.join(absent)}",
            name=absent[0],
        )
    try:
        found = version("torch")
    except PackageNotFoundError:  # built from source and put on the path
        return
    if _release(found) < _release(OLDEST_TORCH):
        raise ImportError(
            f"d2lperf needs torch {OLDEST_TORCH} or newer, but torch {found} is installed. Run\n"
            f"    {sys.executable} -m pip install --upgrade torch torchvision\n"
            "and restart the kernel.",
            name="torch",
        )


def _release(text: str) -> tuple[int, ...]:
    """Return the first two numbers of a version.

    >>> _release("2.13.0+cpu")
    (2, 13)
    """
    return tuple(map(int, re.findall(r"\d+", text)[:2]))
