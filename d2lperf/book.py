"""The book's own library, ``d2l``, on any build of torch.

*Dive into Deep Learning* ships the code of its chapters as the package `d2l` (version 1.0.3 is the
last one). Its requirements are pinned to releases of 2023, so it is installed without them. It
imports torchvision, which fails beside a build of torch that it was not compiled for; `load` works
around this.
"""

from __future__ import annotations

import importlib
import re
import sys
import threading
import warnings
from importlib.util import find_spec
from types import ModuleType

import torch

# Names of the book's library that d2lperf passes on: those of chapter 13, and related ones.
NAMES = (
    *("Accumulator", "Animator", "Residual", "accuracy", "evaluate_accuracy_gpu", "evaluate_loss"),
    *("get_dataloader_workers", "get_fashion_mnist_labels", "linreg", "load_array", "resnet18"),
    *("set_axes", "sgd", "show_images", "squared_loss", "train_batch_ch13", "train_ch13"),
    *("train_ch6", "use_svg_display"),
)

# What d2l/torch.py imports at its top. pip knows all of them, but PIL, by the same name.
REQUIREMENTS = (
    *("IPython", "PIL", "matplotlib", "matplotlib_inline", "numpy", "pandas", "requests"),
    *("scipy", "torchvision"),
)

_lock = threading.RLock()
_book: ModuleType | None = None
_declared: torch.library.Library | None = None  # the schemas live as long as it does


class BookNotInstalled(ImportError):
    """The book's library, or a package that it imports, is not installed."""


class BookImportError(ImportError):
    """The book's library is installed, but importing it failed; the cause is chained."""


def load() -> ModuleType:
    """Import the book's library, once and without its warnings: the module `d2l.torch`.

    Where torchvision misses its operators, as beside a CPU build of torch, they are declared. They
    cannot be called, but what torchvision does in Python works.

    Raises:
        BookNotInstalled: d2l or a package that it imports is missing; the message says what to do.
        BookImportError: everything is installed, but the import fails.
    """
    global _book
    with _lock:
        if _book is None:
            _check_installed()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                _book = _import_book()
        return _book


def installed() -> bool:
    """Return whether d2l and what it imports are installed, without importing any of it."""
    return all(map(find_spec, ("d2l", *REQUIREMENTS)))


def _check_installed() -> None:
    absent = [name.replace("PIL", "pillow") for name in REQUIREMENTS if not find_spec(name)]
    commands = [f"pip install {' '.join(absent)}"] if absent else []
    if not find_spec("d2l"):
        absent.insert(0, "d2l")
        commands.insert(0, "pip install --no-deps d2l==1.0.3")
    if absent:
        raise BookNotInstalled(
            f"Needed for the book's library and not installed: {', '.join(absent)}. "
            "To install:\n    " + "\n    ".join(commands),
            name="d2l",
        )


def _import_book() -> ModuleType:
    """Import torchvision, with its operators declared if it fails for lack of them, and d2l."""
    global _declared
    try:
        importlib.import_module("torchvision")
        return importlib.import_module("d2l.torch")
    except ModuleNotFoundError as error:
        text = f"The book needs the package {error.name!r}, which is not installed ({error})."
        raise BookNotInstalled(text, name=error.name) from error
    except Exception as error:
        missing = re.search(r"operator torchvision::\w+ does not exist", str(error))
        if _declared is not None or not missing:
            raise BookImportError(
                "The book's library could not be imported beside torch "
                f"{torch.__version__}: {type(error).__name__}: {error}. Reinstalling torchvision "
                "and d2l for this torch, in this environment, usually cures it.",
                name="d2l",
            ) from error
    # The failed import left incomplete modules behind.
    for name in [name for name in sys.modules if name.partition(".")[0] == "torchvision"]:
        del sys.modules[name]
    # torchvision's Python code registers kernels for these operators, which its compiled part
    # declares. That part loads only beside the build of torch it was made for.
    _declared = torch.library.Library("torchvision", "FRAGMENT")
    for name in ("nms", "qnms"):
        _declared.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    return _import_book()
