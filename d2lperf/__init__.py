"""Where does the time go? Measure deep learning on your machine.

Time code
    Benchmark                 a with-block that prints how long it took, like the book's
    Timer                     a stopwatch with average and sum, like the book's
    measure                   times one function -> Measurement
    compare                   times several functions in turns -> Comparison
    sweep                     compares them for each of several sizes -> Sweep
    Measurement               median, quartiles, first call of one function
    Comparison                name -> Ratio; .expect() and .require() claims, .plot()
    Ratio                     a ratio of times with its interval and a verdict
    Sweep                     one Comparison for each size, as one table and one figure
    predict                   states a number before it is measured; .score() compares
    predictions               the table of all predictions so far
    ResultsDiffer             error of compare: the functions give different results
    ClaimContradicted         error of .require(): a claim is not borne out here

See what ran when
    record                    runs a function and records it -> Timeline
    Timeline                  spans on lanes: busy time, overlap, .plot(), .save()
    Span                      one piece of work: name, start, end, lane, device
    TimelineError             error of a timeline: a lane, a span or a file is not as needed

Where is the limit?
    explain                   tells what limits a function, and what would help -> Explanation
    measure_ceilings, datasheet  what this machine does at best, or another by its data sheet
    Ceilings, Roofline        ceilings to keep; times predicted from FLOPs and bytes, .plot()

Run on several processes
    launch                    runs a function on several workers -> results by rank
    report                    sends a value from a worker to the caller while it runs
    WorkerError               error of launch: a worker died, or a value could not be sent
    LaunchTimeout             error of launch: a worker did not finish in time

Devices
    try_gpu, try_all_gpus     the accelerators that are there, or the CPU
    gpu, cpu                  a device by name, whether or not it is there
    num_gpus                  how many accelerators there are
    synchronize               waits until all accelerators in use are idle
    describe_machine          the card of this machine -> Machine
    Machine                   processor, cores, memory, accelerators, versions

Draw, and load data
    plot, set_figsize         the book's helpers for figures
    plotting                  figures of this package: lines, bars, distributions, gantt, ...
    split_batch               cuts a batch into one piece for each device
    load_data_fashion_mnist   the book's data set; d2lperf.data also has digits, without a network

`%load_ext d2lperf` adds `%%benchmark` and `%compare` to Jupyter. `import d2lperf as d2l` also takes
the place of the book's own library in its chapter on computational performance.
"""

from importlib import import_module as _import_module
from typing import TYPE_CHECKING
from typing import Any as _Any

from d2lperf import _messages
from d2lperf._version import __version__ as __version__

_messages.keep_out()

# Where each name is defined. Imported at first use, so that `import d2lperf` costs nothing.
_HOMES = {
    "stopwatch": ("Benchmark", "Timer"),
    "measuring": (
        *("measure", "compare", "sweep", "Measurement", "Comparison", "Ratio", "Sweep"),
        *("predict", "predictions", "ResultsDiffer", "ClaimContradicted"),
    ),
    "timeline": ("record", "Timeline", "Span", "TimelineError"),
    "ceilings": ("measure_ceilings", "Ceilings"),
    "datasheets": ("datasheet",),
    "explaining": ("explain",),
    "roofline": ("Roofline",),
    "processes": ("launch", "report", "WorkerError", "LaunchTimeout"),
    "device": ("try_gpu", "try_all_gpus", "num_gpus", "gpu", "cpu", "synchronize"),
    "machine": ("describe_machine", "Machine"),
    "plotting": ("plot", "set_figsize"),
    "data": ("split_batch", "load_data_fashion_mnist"),
}
if TYPE_CHECKING:  # what a type checker reads; tests/test_import.py compares it with the list above
    from d2lperf import plotting as plotting
    from d2lperf.ceilings import Ceilings as Ceilings
    from d2lperf.ceilings import measure_ceilings as measure_ceilings
    from d2lperf.data import load_data_fashion_mnist as load_data_fashion_mnist
    from d2lperf.data import split_batch as split_batch
    from d2lperf.datasheets import datasheet as datasheet
    from d2lperf.device import cpu as cpu
    from d2lperf.device import gpu as gpu
    from d2lperf.device import num_gpus as num_gpus
    from d2lperf.device import synchronize as synchronize
    from d2lperf.device import try_all_gpus as try_all_gpus
    from d2lperf.device import try_gpu as try_gpu
    from d2lperf.explaining.explain import explain as explain
    from d2lperf.machine import Machine as Machine
    from d2lperf.machine import describe_machine as describe_machine
    from d2lperf.measuring import ClaimContradicted as ClaimContradicted
    from d2lperf.measuring import Comparison as Comparison
    from d2lperf.measuring import Measurement as Measurement
    from d2lperf.measuring import Ratio as Ratio
    from d2lperf.measuring import ResultsDiffer as ResultsDiffer
    from d2lperf.measuring import Sweep as Sweep
    from d2lperf.measuring import measure as measure
    from d2lperf.measuring import predict as predict
    from d2lperf.measuring import sweep as sweep
    from d2lperf.measuring.compare import compare as compare
    from d2lperf.measuring.predictions import predictions as predictions
    from d2lperf.plotting import plot as plot
    from d2lperf.plotting import set_figsize as set_figsize
    from d2lperf.processes import LaunchTimeout as LaunchTimeout
    from d2lperf.processes import WorkerError as WorkerError
    from d2lperf.processes import report as report
    from d2lperf.processes.launch import launch as launch
    from d2lperf.roofline import Roofline as Roofline
    from d2lperf.stopwatch import Benchmark as Benchmark
    from d2lperf.stopwatch import Timer as Timer
    from d2lperf.timeline import Span as Span
    from d2lperf.timeline import Timeline as Timeline
    from d2lperf.timeline import TimelineError as TimelineError
    from d2lperf.timeline.record import record as record

# What is imported with a module: `compare(isolated=True)` gets its subjects from `processes`.
_BESIDE = {"measuring": "processes.isolated"}
_MODULES = {*_HOMES, "book", "costs", "counting", "exercises", "magics"}
_HOME = {name: home for home, names in _HOMES.items() for name in names}
__all__ = sorted({*_HOME, "plotting"})

_HOME["load_ipython_extension"] = "magics"  # what `%load_ext d2lperf` asks for


def __getattr__(name: str) -> _Any:
    if name in _MODULES:
        return _module(name)
    if name in _HOME:
        value = getattr(_module(_HOME[name]), name)
    elif name.startswith("_"):
        raise AttributeError(f"module 'd2lperf' has no attribute {name!r}")
    else:
        value = _of_the_book(name)
    globals()[name] = value
    return value


def _module(name: str) -> _Any:
    if name in _BESIDE:
        _import_module(f"d2lperf.{_BESIDE[name]}")
    return _import_module(f"d2lperf.{name}")


def __dir__() -> list[str]:
    return sorted({*__all__, *_MODULES, "__all__", "__doc__", "__version__"})


def _of_the_book(name: str) -> _Any:
    """The book's value of this name, or an error with the name that was probably meant."""
    from difflib import get_close_matches

    book = _import_module("d2lperf.book")
    if name in book.NAMES:
        return getattr(book.load(), name)
    known = {other.lower(): other for other in (*_HOME, *_MODULES, *book.NAMES)}
    advice = f"The rest of the book's library is at d2lperf.book.load(), perhaps with .{name}."
    for close in get_close_matches(name.lower(), known, n=1, cutoff=0.7):
        advice = f"Did you mean {known[close]!r}?"
    raise AttributeError(f"module 'd2lperf' has no attribute {name!r}. {advice}")
