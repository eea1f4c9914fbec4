"""The book's own library, ``d2l``, on any build of torch.

*Dive into Deep Learning* ships the code of its chapters as the package `d2l` (version 1.0.3 is the
last one). Its requirements are pinned to releases of 2023, so it is installed without them. It
imports torchvision, which fails beside a build of torch that it was not compiled for; `load` works
around this.

>>> "Animator" in NAMES and "Timer" not in NAMES
True
"""

from __future__ import annotations

import importlib
import importlib.util
import re
import sys
import threading
import warnings
from types import ModuleType
from typing import Any

__all__ = ["NAMES", "BookImportError", "BookNotInstalled", "installed", "load"]

INSTALL = "pip install --no-deps d2l==1.0.3"
"""The command that installs the book's library. Its pins have no wheels for today's Python."""

NAMES: tuple[str, ...] = (
    "Accumulator",
    "Animator",
    "Residual",
    "accuracy",
    "evaluate_accuracy_gpu",
    "evaluate_loss",
    "get_dataloader_workers",
    "get_fashion_mnist_labels",
    "linreg",
    "load_array",
    "resnet18",
    "set_axes",
    "sgd",
    "show_images",
    "squared_loss",
    "train_batch_ch13",
    "train_ch13",
    "train_ch6",
    "use_svg_display",
)
"""Names of the book's library that `d2lperf` passes on: those that chapter 13 uses and that d2lperf
does not define itself, and related ones."""

# What d2l/torch.py imports at its top, and how pip calls it.
_REQUIREMENTS = {
    "IPython": "ipython",
    "PIL": "pillow",
    "matplotlib": "matplotlib",
    "matplotlib_inline": "matplotlib-inline",
    "numpy": "numpy",
    "pandas": "pandas",
    "requests": "requests",
    "scipy": "scipy",
    "torchvision": "torchvision",
}

# torchvision's Python code registers shape-only kernels for these operators, which its compiled
# part declares. That part loads only beside the build of torch it was made for.
_SCHEMAS = (
    "nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
)
_MISSING_OPERATOR = re.compile(r"operator torchvision::\w+ does not exist")

_lock = threading.RLock()
_book: ModuleType | None = None
_declared: Any = None  # keeps the torch.library.Library alive: its schemas live as long as it does


class BookNotInstalled(ImportError):
    """The book's library, or a package that it imports, is not installed."""


class BookImportError(ImportError):
    """The book's library is installed, but importing it failed; the cause is chained."""


def load() -> ModuleType:
    """Import the book's library and return it: the module `d2l.torch`.

    A torchvision that can be imported is used as it is. If it fails with "operator
    torchvision::nms does not exist", as beside a CPU build of torch, the missing schemas are
    declared through `torch.library` and the import is tried again. torchvision's compiled
    operators remain missing; everything that it does in Python works.

    The import happens once, also with several threads. Its warnings are not shown.

    Returns:
        The module `d2l.torch`.

    Raises:
        BookNotInstalled: d2l or a package that it imports is not installed; the message names
            the command that installs it.
        BookImportError: everything is installed, but the import fails.
    """
    global _book
    with _lock:
        if _book is None:
            _check_installed()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                _import_torchvision()
                _book = _import("d2l.torch")
        return _book


def installed() -> bool:
    """Return whether d2l and what it imports are installed, without importing any of it."""
    return all(map(_installed, ("d2l", *_REQUIREMENTS)))


def _installed(package: str) -> bool:
    if package in sys.modules:
        return sys.modules[package] is not None
    try:
        return importlib.util.find_spec(package) is not None
    except (ImportError, ValueError):
        return False


def _check_installed() -> None:
    absent = [pip for package, pip in _REQUIREMENTS.items() if not _installed(package)]
    commands = [] if _installed("d2l") else [INSTALL]
    if absent:
        commands.append("pip install " + " ".join(absent))
    if commands:
        missing = ["d2l"] * (not _installed("d2l")) + absent
        raise BookNotInstalled(
            f"Needed for the book's library and not installed: {', '.join(missing)}. "
            "To install:\n    " + "\n    ".join(commands),
            name="d2l",
        )


def _import(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        text = f"{name} needs the package {error.name!r}, which is not installed ({error})."
        raise BookNotInstalled(text, name=error.name) from error
    except Exception as error:
        raise _broken(name, error) from error


def _broken(name: str, error: Exception) -> BookImportError:
    import torch

    return BookImportError(
        f"{name} is installed but could not be imported beside torch {torch.__version__}: "
        f"{type(error).__name__}: {error}. Reinstalling {name.partition('.')[0]} for this "
        "torch, in this environment, usually cures it.",
        name=name,
    )


def _import_torchvision() -> None:
    """Import torchvision, declaring its missing operators if that is what it fails for."""
    global _declared
    if "torchvision" not in sys.modules:
        _forget_torchvision()
    try:
        importlib.import_module("torchvision")
        return
    except RuntimeError as error:
        if _declared is not None or not _MISSING_OPERATOR.search(str(error)):
            raise _broken("torchvision", error) from error
    except Exception as error:
        raise _broken("torchvision", error) from error
    import torch

    _forget_torchvision()
    _declared = torch.library.Library("torchvision", "FRAGMENT")
    for schema in _SCHEMAS:
        _declared.define(schema)
    _import("torchvision")


def _forget_torchvision() -> None:
    """Remove the modules that a failed import has left behind."""
    for name in [name for name in sys.modules if name.partition(".")[0] == "torchvision"]:
        del sys.modules[name]
