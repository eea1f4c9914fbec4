"""The book's own library, ``d2l``, on any build of torch.

*Dive into Deep Learning* ships the code of its chapters as the package ``d2l``
(version 1.0.3 is the last one). Its requirements are pinned to releases of 2023,
so it is installed without them, and it imports torchvision, which fails beside a
build of torch that it was not compiled for. `load` copes with both.

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
"""The command that installs the book's library. Without ``--no-deps`` pip would
insist on the library's pins, which have no wheels for today's Python."""

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
"""Names of the book's library that ``d2lperf`` hands on: those that chapter 13 uses
and d2lperf has no version of its own for, and those that stand beside them in the book."""

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

# torchvision's Python code attaches fake (shape-only) kernels to these operators when it
# is imported. They are declared in its compiled part, which loads only beside the very
# build of torch it was made for.
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
    """Import the book's library and return it: the module ``d2l.torch``.

    A torchvision that works is used as it is. Beside a CPU build of torch the registry's
    torchvision does not import ("operator torchvision::nms does not exist"): then, and only
    then, the schemas it misses are declared through ``torch.library`` and the import is tried
    again. Everything that torchvision does in Python works afterwards; its compiled operators
    (such as ``torchvision.ops.nms``) still say that they are missing.

    May be called again, and from several threads: the import happens once. Warnings of the
    libraries being imported are not shown, and the warning filters are afterwards as they were.

    Returns:
        The module ``d2l.torch``.

    Raises:
        BookNotInstalled: d2l or a package that it imports is absent; the message names the
            command that installs it.
        BookImportError: everything is there, but the import fails all the same.
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
    """Whether d2l and what it imports can be found; imports none of it."""
    return all(map(_installed, ("d2l", *_REQUIREMENTS)))


def _installed(package: str) -> bool:
    if package in sys.modules:
        return sys.modules[package] is not None
    try:
        return importlib.util.find_spec(package) is not None
    except (ImportError, ValueError):
        return False


def _check_installed() -> None:
    book = _installed("d2l")
    absent = [pip for package, pip in _REQUIREMENTS.items() if not _installed(package)]
    if book and not absent:
        return
    commands = [] if book else [INSTALL]
    if absent:
        commands.append("pip install " + " ".join(absent))
    what = [] if book else ["the book's library (d2l) is not installed"]
    if absent:
        verb = "is" if len(absent) == 1 else "are"
        what.append(f"the book's library imports {', '.join(absent)}, which {verb} not installed")
    raise BookNotInstalled(
        "; ".join(what) + ". To install:\n    " + "\n    ".join(commands), name="d2l"
    )


def _import(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        missing = error.name if isinstance(error, ModuleNotFoundError) else None
        if missing is not None:
            raise BookNotInstalled(
                f"{name} needs the package {missing.partition('.')[0]!r}, which is not installed."
                f" Install it with pip, then try again ({error}).",
                name=missing,
            ) from error
        raise _broken(name, error) from error
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
    """Drop what a failed import, ours or an earlier one, has left behind: half a package."""
    for name in [name for name in sys.modules if name.partition(".")[0] == "torchvision"]:
        del sys.modules[name]
