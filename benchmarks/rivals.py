"""The tools that the study of verdicts compares: ours, and what people use instead."""

from __future__ import annotations

import statistics
import time
import timeit
from collections.abc import Callable

import numpy as np
import torch
import torch.utils.benchmark
from scipy.stats import ttest_ind

import d2lperf

# A tool gets two functions and returns (verdict, ratio): verdict -1 when it says that the second
# is faster, +1 slower, 0 neither, None that it cannot tell; ratio is time of the second over time
# of the first, nan where the tool gives none.
VERDICTS = {"faster": -1, "slower": 1, "no difference": 0, "not decided": None}


def _beyond(ratio: float, threshold: float) -> int:
    if ratio > 1 + threshold:
        return 1
    return -1 if ratio < 1 / (1 + threshold) else 0


def _calls_for(fn: Callable[[], object], seconds: float, most: int = 10**7) -> int:
    start = time.perf_counter()
    fn()
    return max(1, min(most, int(seconds / max(time.perf_counter() - start, 1e-9))))


def book(a, b):
    """One loop of up to 1000 calls each, one after the other; more than 5 % counts.

    Nothing warms up in here, as in the book. But `study` has called each function once before,
    except where slow first calls are the question, so that elsewhere this protocol is spared what
    a very first call costs.
    """
    times = []
    # The book writes the number of calls by hand; here a fresh copy would be needed to find it
    # without warming up, so both get what lasts about 0.2 s by the snippet's nominal speed.
    for fn in (a, b):
        calls = min(1000, max(10, int(0.2 / NOMINAL_S["now"])))
        start = time.perf_counter()
        for _ in range(calls):
            fn()
        times.append((time.perf_counter() - start) / calls)
    ratio = times[1] / times[0]
    return _beyond(ratio, 0.05), ratio


def torch_benchmark(a, b):
    """torch.utils.benchmark, blocked_autorange; a verdict where the quartile ranges are apart."""
    found = []
    for fn in (a, b):
        timer = torch.utils.benchmark.Timer(
            "fn()", globals={"fn": fn}, num_threads=torch.get_num_threads()
        )
        found.append(timer.blocked_autorange(min_run_time=0.2))
    (a25, a75), (b25, b75) = (np.percentile(m.times, [25, 75]) for m in found)
    ratio = found[1].median / found[0].median
    return (1 if b25 > a75 else -1 if b75 < a25 else 0), ratio


def best_of_five(a, b):
    """Timeit, the least of five repeats of 50 ms; more than 5 % counts."""
    times = []
    for fn in (a, b):
        timer = timeit.Timer(fn)
        number = 1
        while timer.timeit(number) < 0.05:
            number *= 2
        times.append(min(timer.repeat(5, number)) / number)
    ratio = times[1] / times[0]
    return _beyond(ratio, 0.05), ratio


def welch(a, b):
    """Twenty means of 10 ms each, one function after the other; Welch's test at 5 %."""
    means = []
    for fn in (a, b):
        fn()
        calls = _calls_for(fn, 0.01)
        sample = []
        for _ in range(20):
            start = time.perf_counter()
            for _ in range(calls):
                fn()
            sample.append((time.perf_counter() - start) / calls)
        means.append(sample)
    ratio = statistics.mean(means[1]) / statistics.mean(means[0])
    differs = ttest_ind(means[0], means[1], equal_var=False).pvalue < 0.05
    return (0 if not differs else 1 if ratio > 1 else -1), ratio


def ours(a, b):
    """Run `d2lperf.compare` as it comes."""
    found = d2lperf.compare({"a": a, "b": b}, check=False)["b"]
    return VERDICTS[found.verdict], found.ratio


TOOLS = {
    "book": ("the book's protocol (> 5 %)", book),
    "torch": ("torch.utils.benchmark, quartiles apart", torch_benchmark),
    "timeit": ("timeit, best of 5 (> 5 %)", best_of_five),
    "welch": ("20 means each, Welch's test", welch),
    "d2lperf": ("d2lperf.compare", ours),
}
NOMINAL_S = {"now": 1e-4}
