"""Where does the time go? Measuring deep learning on the machine at hand.

``Benchmark``, ``measure`` and ``compare`` time code; ``describe_machine`` says on what;
``record`` shows what ran when, as a ``Timeline``; ``plot`` draws; ``%load_ext d2lperf`` brings
``%%benchmark`` and ``%compare`` to Jupyter.

``import d2lperf as d2l`` also stands in for the library of the book *Dive into Deep
Learning* in its chapter on computational performance: names that are not ours are taken
from the book's library, which is imported when the first of them is used.
"""

from importlib import import_module as _import_module

from d2lperf._version import __version__
from d2lperf.benchmark import Benchmark, ClockTooCoarse, ResultsDiffer, Timer, compare, measure
from d2lperf.device import (
    Machine,
    cpu,
    describe_machine,
    gpu,
    num_gpus,
    synchronize,
    try_all_gpus,
    try_gpu,
    usable_cores,
)
from d2lperf.results import Claim, ClaimContradicted, Comparison, Entry, Measurement, Ratio

__all__ = [
    "Benchmark",
    "BookImportError",
    "BookNotInstalled",
    "Claim",
    "ClaimContradicted",
    "ClockTooCoarse",
    "Comparison",
    "DatasetNotAvailable",
    "EmptyTimeline",
    "Entry",
    "InvalidSpan",
    "LaunchTimeout",
    "Machine",
    "Measurement",
    "OverlappingSpans",
    "ProfilerBusy",
    "Ratio",
    "ResultsDiffer",
    "Span",
    "Timeline",
    "Timer",
    "UnknownLane",
    "WorkerError",
    "__version__",
    "compare",
    "cpu",
    "describe_machine",
    "digits",
    "gpu",
    "launch",
    "load_data_digits",
    "load_data_fashion_mnist",
    "measure",
    "num_gpus",
    "plot",
    "record",
    "set_figsize",
    "split_batch",
    "synchronize",
    "try_all_gpus",
    "try_gpu",
    "usable_cores",
]

# Our own names that are imported when they are first used.
_LAZY = {
    "BookImportError": "book",
    "BookNotInstalled": "book",
    "DatasetNotAvailable": "data",
    "EmptyTimeline": "timeline",
    "InvalidSpan": "timeline",
    "LaunchTimeout": "launch",
    "OverlappingSpans": "timeline",
    "ProfilerBusy": "timeline",
    "Span": "timeline",
    "Timeline": "timeline",
    "UnknownLane": "timeline",
    "WorkerError": "launch",
    "digits": "data",
    "load_data_digits": "data",
    "load_data_fashion_mnist": "data",
    "record": "timeline",
    "set_figsize": "plot",
    "split_batch": "data",
}

_MODULES = frozenset(
    {"book", "data", "exercises", "isolate", "launch", "magics", "plot", "stats", "timeline"}
)


def __getattr__(name: str):
    if name in _MODULES:
        return _import_module(f"d2lperf.{name}")
    if name in _LAZY:
        value = getattr(_import_module(f"d2lperf.{_LAZY[name]}"), name)
    elif not name.startswith("_") and name in _import_module("d2lperf.book").NAMES:
        value = getattr(_import_module("d2lperf.book").load(), name)
    else:
        raise AttributeError(f"module 'd2lperf' has no attribute {name!r}{_advice(name)}")
    globals()[name] = value
    return value


def __dir__():
    book = _import_module("d2lperf.book")
    own = {name for name in globals() if not name.startswith("_") or name.endswith("__")}
    return sorted(own | {*__all__, *_LAZY, *_MODULES, *(book.NAMES if book.installed() else ())})


def _advice(name: str) -> str:
    """What a wrong name was probably meant to be."""
    if name.startswith("_"):
        return ""
    from difflib import get_close_matches

    known = {*__all__, *_LAZY, *_MODULES, *_import_module("d2lperf.book").NAMES}
    lower = {other.lower(): other for other in known}
    close = get_close_matches(name.lower(), lower, n=1, cutoff=0.7)
    if close:
        return f". Did you mean {lower[close[0]]!r}?"
    return (
        f". The rest of the book's library is at d2lperf.book.load(), such as .{name} if it has it."
    )


def load_ipython_extension(ipython) -> None:
    """Called by ``%load_ext d2lperf``: adds ``%%benchmark``, ``%compare`` and ``%%compare``."""
    _import_module("d2lperf.magics").load_ipython_extension(ipython)


def unload_ipython_extension(ipython) -> None:
    """Called by ``%unload_ext d2lperf``: takes the magics away again."""
    _import_module("d2lperf.magics").unload_ipython_extension(ipython)
