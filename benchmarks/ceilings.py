"""Are the ceilings of `d2lperf.measure_ceilings` what this machine can do, and do they predict?

Independent measurements, each in a process of its own and in turns with ours: a triad in C,
compiled here, on torch's number of threads (as in J. McCalpin's STREAM, best run), and
single-precision matrix products of BLAS, called directly: of torch's own, which must agree with
ours, and of scipy's, which is another library and shown beside it. Then eight operations: what
limits each by `explain` and by an experiment. Then the 33 functions of `typical.py`, predicted and
measured, each as a user would write it.

    python benchmarks/ceilings.py                     # about three minutes
    python benchmarks/ceilings.py --check             # status 1 where a target is missed
    python benchmarks/ceilings.py --part functions    # or ceilings, or limits

Run it on a machine that does nothing else. What it cannot know: clock rates that depend on how
many cores work and for how long, and how much of a shared cache others use.
"""

from __future__ import annotations

import argparse
import ctypes
import math
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch.nn import functional
from typical import functions

import d2lperf
from d2lperf.formats import format_value
from d2lperf.measuring.instruments import Instruments, using

MOST_OFF = 0.10  # of a ceiling, to either side
MOST_LOG2 = 0.5  # median of |log2(measured / predicted)| over the functions
PARTS = ("ceilings", "limits", "functions")
SECONDS = 2.0  # of an independent measurement
STREAM, TORCH, SCIPY = "triad in C", "BLAS of torch", "BLAS of scipy"
LIBRARY = None
with suppress(OSError, StopIteration):
    LIBRARY = ctypes.CDLL(str(next(Path(torch.__file__).parent.glob("lib/libtorch_cpu.*"))))

TRIAD = r"""
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
int main(int argc, char **argv) {
  long n = atol(argv[1]) / sizeof(float);
  double ends, best = 0;
  float *a = malloc(4 * n), *b = malloc(4 * n), *c = malloc(4 * n);
  #pragma omp parallel for
  for (long i = 0; i < n; i++) { a[i] = 0; b[i] = 1; c[i] = 2; }
  ends = omp_get_wtime() + atof(argv[2]);
  do {
    double start = omp_get_wtime();
    #pragma omp parallel for
    for (long i = 0; i < n; i++) a[i] = b[i] + 2.0f * c[i];
    double rate = 12.0 * n / (omp_get_wtime() - start);
    if (rate > best) best = rate;
  } while (omp_get_wtime() < ends);
  printf("%g %g\n", best, a[n / 2]);
}
"""


def build_triad(folder: Path) -> list[str] | None:
    """Compile the triad; return its command, or None where there is no compiler for it."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        return None
    source, program = folder / "triad.c", folder / "triad"
    source.write_text(TRIAD)
    command = [compiler, "-O3", "-march=native", "-fopenmp", source, "-o", program]
    run = subprocess.run(command, capture_output=True, text=True)
    return [str(program)] if run.returncode == 0 else None


def torchs_product(a, b, c) -> None:
    """Product a b into c by the BLAS in torch's library, where that exports it (Linux)."""
    n, one, zero = ctypes.c_int(len(a)), ctypes.c_float(1), ctypes.c_float(0)
    size, no = ctypes.byref(n), ctypes.c_char_p(b"N")
    x, y, z = (ctypes.c_void_p(array.ctypes.data) for array in (a, b, c))
    scale, keep = ctypes.byref(one), ctypes.byref(zero)
    LIBRARY.sgemm_(no, no, size, size, size, scale, x, size, y, size, keep, z, size)


def scipys_product(a, b, c) -> None:
    """Product a b into c by the BLAS that scipy brings."""
    from scipy.linalg.blas import sgemm

    sgemm(1.0, a, b, c=c, overwrite_c=1)


def blas_rate(product: Callable, seconds: float) -> float:
    """Best rate of a product in FLOP/s, over the sizes that ours has."""
    best = 0.0
    for size in (256, 512, 1024, 2048):
        draw = np.random.default_rng(0).normal(size=(3, size, size)).astype(np.float32)
        a, b, c = (np.asfortranarray(array) for array in draw)
        ends = time.perf_counter() + seconds / 4
        while time.perf_counter() < ends:
            start = time.perf_counter()
            product(a, b, c)
            best = max(best, 2.0 * size**3 / (time.perf_counter() - start))
    assert np.allclose(c[:2], (a @ b)[:2], atol=1e-2)
    return best


def ask(command: list[str]) -> float:
    """Run a program with as many threads as torch has; return the first number it prints."""
    threads = str(torch.get_num_threads())
    names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
    env = {**os.environ, **dict.fromkeys(names, threads)}
    run = subprocess.run(command, capture_output=True, text=True, check=True, env=env)
    return float(run.stdout.split()[0])


def ratios(rounds: int) -> dict[str, list[float]]:
    """Our ceilings relative to the independent measurements, round by round."""
    found: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        triad = build_triad(Path(folder))
        if triad is None:
            print("The triad is left out: there is no C compiler with OpenMP here.\n")
        for _ in range(rounds):
            with using(Instruments()):  # then nothing is remembered
                made = d2lperf.measure_ceilings("cpu")
            size = 4 * max(made.caches.values(), default=32 * 2**20)
            flops, bandwidth = (made.flops["float32"], "FLOP/s"), (made.bandwidth["triad"], "B/s")
            own = [sys.executable, __file__, "--blas"]
            pairs = {SCIPY: (*flops, [*own, SCIPY])}
            if hasattr(LIBRARY, "sgemm_"):
                pairs[TORCH] = (*flops, [*own, TORCH])
            if triad:
                pairs[STREAM] = (*bandwidth, [*triad, str(size), str(SECONDS)])
            for name, (ours, unit, command) in pairs.items():
                theirs = ask(command)
                texts = format_value(ours, unit), format_value(theirs, unit)
                print(f"{name}: ours {texts[0]}, independent {texts[1]}", flush=True)
                found.setdefault(name, []).append(ours / theirs)
        print(f"\n{made}\n")
    return found


def eight_operations() -> dict[str, tuple[Callable[[int], Callable[[], object]], int]]:
    """Operations by name; the notebook on hardware predicts the same kinds.

    Each is a function that takes `n` and gives an n-th of the operation's work, and an `n` for
    which its data fit into a core's own cache (about 1 MB or less).
    """
    torch.manual_seed(0)
    square, row, weights = torch.randn(1024, 1024), torch.randn(1, 4096), torch.randn(4096, 4096)
    large, out = torch.randn(2**25), torch.empty(2**25)
    images, kernels = torch.randn(16, 32, 56, 56), torch.randn(64, 32, 3, 3)
    scores, ids = torch.randn(2048, 1024), torch.randint(4096, (1024,))

    def product(n):
        # A side of 203 would compute at another rate than one of 256: a part has fewer columns.
        side = 1024 if n == 1 else 256
        part, columns = square[:side, :side], square[:side, : 1024**3 // (n * side**2)]
        part, columns = part.contiguous(), columns.contiguous()
        return lambda: part @ columns

    def additions(n):
        few = torch.ones(8 // n)

        def run():
            total = few
            for _ in range(50):
                total = total + few
            return total

        return run

    def on_part(fn, data, n):
        if len(data) < n:
            raise ValueError(f"{len(data)} rows cannot be divided by {n}")
        part = data[: len(data) // n]
        return lambda: fn(part)

    def add(part):
        return torch.add(part, part, out=out[: len(part)])

    return {
        "product of 1024 x 1024": (product, 64),
        "convolution": (partial(on_part, lambda x: functional.conv2d(x, kernels), images), 8),
        "linear layer, one row": (partial(on_part, partial(functional.linear, row), weights), 64),
        "sum of two large arrays": (partial(on_part, add, large), 256),
        "sum of a large array": (partial(on_part, torch.sum, large), 128),
        "softmax": (partial(on_part, lambda x: torch.softmax(x, 1), scores), 32),
        "embedding": (partial(on_part, lambda i: functional.embedding(i, weights), ids), 64),
        "50 tiny additions": (additions, 4),
    }


def regime_by_experiment(make: Callable[[int], Callable[[], object]], n: int) -> str:
    """What an operation waits for, by an experiment without ceilings: doing small parts of it.

    Overhead, where an n-th takes more than half as long. Otherwise two parts, whose data are in a
    core's own cache, show what the work takes there, without the fixed cost that both have. Memory,
    where that is less than two thirds of what it takes; otherwise arithmetic. Medians of three.
    """
    parts = {"all": make(1), "part": make(n), "half a part": make(2 * n)}
    shares, near = [], []
    for _ in range(3):
        found = d2lperf.compare(parts, check=False, progress=False)
        shares.append(found["part"].ratio)
        near.append((found["part"].ratio - found["half a part"].ratio) * 2 * n)
    if statistics.median(shares) > 1 / 2:
        return "overhead"
    return "memory" if statistics.median(near) < 2 / 3 else "compute"


def wrong_limits(ceilings: d2lperf.Ceilings) -> int:
    """Print the limits of eight operations; return how many the experiment contradicts."""
    print("| operation | limit | by experiment |")
    print("|---|---|---|")
    wrong = 0
    for name, (make, n) in eight_operations().items():
        found, regime = d2lperf.explain(make(1), ceilings=ceilings), regime_by_experiment(make, n)
        if regime == "compute" and not any(op.flops or op.functions for op, _ in found.operations):
            regime = "memory"  # there is nothing to compute
        if found.regime != regime:
            wrong += 1
        print(f"| {name} | {found.regime} | {regime} |", flush=True)
    return wrong


class Errors(NamedTuple):
    """Medians of |log2(measured / predicted)|."""

    all: float
    counted: float  # of the functions whose limit is known


def prediction_errors(ceilings: d2lperf.Ceilings) -> Errors:
    """Print predicted and measured times of the typical functions; return the median errors."""
    print("| function | limit | not counted | predicted | measured | measured / predicted |")
    print("|---|---|---|---|---|---|")
    off, counted = [], []
    for name, fn in functions().items():
        found = d2lperf.explain(fn, ceilings=ceilings)
        ratio = found.measured_s / found.predicted_s
        off.append(abs(math.log2(ratio)))
        if found.regime != "not known":
            counted.append(off[-1])
        times = " | ".join(format_value(s, "s") for s in (found.predicted_s, found.measured_s))
        share = f"{sum(found.uncounted.values()):.0%}"
        print(f"| {name} | {found.regime} | {share} | {times} | {ratio:.2f} |", flush=True)
    return Errors(statistics.median(off), statistics.median(counted))


def check_ceilings(rounds: int) -> bool:
    """Compare the ceilings with independent measurements; return whether all are near."""
    near = True
    for name, values in ratios(rounds).items():
        ratio = statistics.median(values)
        near &= name == SCIPY or abs(ratio - 1) <= MOST_OFF
        ends = f"{min(values):.2f} to {max(values):.2f}"
        target = "not checked" if name == SCIPY else f"at most {MOST_OFF:.0%} off"
        print(f"{name}: ours is {ratio:.2f} of it ({ends}; {target})")
    return near


def check_limits(ceilings: d2lperf.Ceilings) -> bool:
    """Compare limits with an experiment; return whether all agree."""
    wrong = wrong_limits(ceilings)
    print(f"\nlimits that the experiment contradicts: {wrong} (none)")
    return wrong == 0


def check_functions(ceilings: d2lperf.Ceilings) -> bool:
    """Compare predicted and measured times; return whether the median error is small."""
    errors = prediction_errors(ceilings)
    print(f"\nmedian of |log2(measured / predicted)|: {errors.all:.2f} (at most {MOST_LOG2:g})")
    print(f"of the functions with a known limit: {errors.counted:.2f} (at most {MOST_LOG2:g})")
    return max(errors) <= MOST_LOG2


def main() -> int:
    """Measure and print; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--part", choices=PARTS, help="only one of the three parts")
    parser.add_argument("--check", action="store_true", help="status 1 where a target is missed")
    parser.add_argument("--blas", choices=(TORCH, SCIPY), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.blas:
        print(blas_rate(torchs_product if options.blas == TORCH else scipys_product, SECONDS))
        return 0
    parts, good = [options.part] if options.part else PARTS, []
    if "ceilings" in parts:
        good.append(check_ceilings(options.rounds))
    if "limits" in parts:
        good.append(check_limits(d2lperf.measure_ceilings("cpu")))
    if "functions" in parts:
        good.append(check_functions(d2lperf.measure_ceilings("cpu")))
    return 1 if options.check and not all(good) else 0


if __name__ == "__main__":
    sys.exit(main())
