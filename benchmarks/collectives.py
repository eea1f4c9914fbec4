"""How fast are the all-reduces of notebook 09 beside the library's?

Every way runs in every round, in an order that turns round, on workers of one thread that begin
together; the time is that of the slowest worker. Two targets, at 16 MiB and more with 4 workers:
the ring within 1.25 times the library's time, and gather and broadcast (one server) at least twice
the ring's. The second one needs what it is about: a link, or at least a core, for each worker.
`--mbit` gives each worker a link of so many Mbit/s, in the private network of the study
deeper/09-slow-network (Linux).

    python benchmarks/collectives.py [--workers 4] [--mib 1 16 64] [--launches 3] [--mbit 400]
    python benchmarks/collectives.py --check     # status 1 where a target is missed
"""

from __future__ import annotations

import argparse
import math
import statistics
import sys
from functools import partial
from typing import NamedTuple

import torch.distributed as dist
from shown import shown

from d2lperf import launch
from d2lperf.formats import format_ratio, format_seconds
from d2lperf.machine import usable_cores
from d2lperf.measuring import stats

RING, SERVER, LIBRARY = "ring", "one server", "library"
WITHIN, SLOWER, FROM_MIB = 1.25, 2.0, 16


def library(data, wire) -> None:
    """What the others are compared with."""
    dist.all_reduce(data)


class Interval(NamedTuple):
    """A ratio with the ends of its 95 % interval."""

    ratio: float
    low: float
    high: float


def ratio(times: list[float], base: list[float]) -> Interval:
    """Return the ratio of two ways, from pairs of rounds."""
    logs = [math.log(a / b) for a, b in zip(times, base, strict=True)]
    low, high = stats.signed_rank_interval(logs)
    return Interval(math.exp(stats.hodges_lehmann(logs)), math.exp(low), math.exp(high))


def main() -> int:
    """Measure and print the table; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--mib", type=int, nargs="+", default=[1, 16, 64])
    parser.add_argument("--launches", type=int, default=3)
    parser.add_argument("--mbit", type=float, help="speed of a link for each worker")
    parser.add_argument("--check", action="store_true", help="status 1 where a target is missed")
    options = parser.parse_args()

    names = (
        "ROUNDS",
        "Wire",
        "others",
        "finish",
        "servers",
        "every_worker_serves",
        "reduce_scatter",
        "all_gather",
        "ring",
    )
    code = shown("09-collectives", *names, "all_sizes")
    ways = {SERVER: code.servers, "every worker serves": code.every_worker_serves}
    ways |= {RING: code.ring, LIBRARY: library}
    sizes = [mib * 2**20 for mib in options.mib]
    task = partial(code.all_sizes, ways, sizes, code.Wire)
    times: dict[tuple[str, int], list[float]] = {}
    for _ in range(options.launches):
        if options.mbit:
            network = shown("deeper/09-slow-network", "NETWORK", "WORKER", "on_network")
            results = network.on_network(task, [options.mbit] * options.workers, timeout_s=600)
        else:
            results = launch(task, options.workers, backend="gloo", threads=1)
        for key, seconds in results[0].items():  # every worker knows the slowest one's time
            times.setdefault(key, []).extend(seconds)

    kind = f"links of {options.mbit:g} Mbit/s" if options.mbit else f"{usable_cores()} cores"
    print(f"| {options.workers} workers, {kind} | MiB | median | time / library | 95 % |")
    print("|---|---|---|---|---|")
    for (name, size), seconds in times.items():
        text = format_ratio(*ratio(seconds, times[LIBRARY, size])).split(" ", 1)
        row = name, f"{size / 2**20:g}", format_seconds(statistics.median(seconds)), *text
        print(f"| {' | '.join(row)} |")
    if max(options.mib) < FROM_MIB or options.workers != 4:
        print(f"* not checked: the targets are for 4 workers and {FROM_MIB} MiB or more")
        return int(options.check)
    missed = False
    for mib, size in zip(options.mib, sizes):
        if mib < FROM_MIB:
            continue
        median = {name: statistics.median(times[name, size]) for name in ways}
        slower, within = median[SERVER] / median[RING], median[RING] / median[LIBRARY]
        for what, value, target, reached in (
            ("one server / ring", slower, f"at least {SLOWER}", slower >= SLOWER),
            ("ring / library", within, f"at most {WITHIN}", within <= WITHIN),
        ):
            missed |= not reached
            word = "reached" if reached else "missed"
            print(f"* {word}: {mib} MiB: {what} {value:.2f} ({target})")
    return int(missed and options.check)


if __name__ == "__main__":
    sys.exit(main())
