"""Functions under the clock: warm-up, plan, samples, phases and interleaved rounds.

* A *sample* is a quarter of a millisecond of calls in a row: beside a busy core a long one always
  catches a disturbance, a short one often does not.
* A *phase* is a few untimed calls, then up to five samples. Its value is their lower quartile.
* A *round* runs every function's phase in a random order and then in the mirrored one, so that a
  steady drift cancels exactly: ABBA or BAAB for two functions.
"""

from __future__ import annotations

import gc
import math
import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import repeat
from typing import Any

from d2lperf.device import synchronizer

__all__ = ["RULES", "Instruments", "Plan", "Rules", "Subject"]


@dataclass(frozen=True)
class Instruments:
    """What measuring depends on beside the functions; tests inject their own.

    Attributes:
        clock: returns seconds.
        cpu_clock: returns the processor seconds of this process.
        synchronize: waits for the devices in use; None where there are none; "auto" asks torch.
        rng: draws the order within a round.
    """

    clock: Callable[[], float] = time.perf_counter
    cpu_clock: Callable[[], float] = time.process_time
    synchronize: Callable[[], None] | str | None = "auto"
    rng: random.Random = field(default_factory=random.Random)


@dataclass(frozen=True)
class Plan:
    """How a phase of one function is laid out.

    Attributes:
        settle: calls that are not timed, to get used to following another function.
        loops: calls in a sample.
        samples: samples in a phase.
        limit_s: a settling or a sample that takes longer ends the phase at once, in seconds.
    """

    settle: int
    loops: int
    samples: int
    limit_s: float


@dataclass(frozen=True)
class Rules:
    """The constants of the method; `benchmarks/verdicts.py` is how they were chosen.

    Times in seconds. `sample_s` is longer on an accelerator, where each sample ends with a
    synchronisation whose own cost must stay small beside it. In processes of their own (`rest_s`)
    functions wait for each other's threads to fall asleep at each change of turn.
    """

    sample_s: float = 0.25e-3
    device_sample_s: float = 2e-3
    samples: int = 5
    warm_up_calls: int = 5
    warm_up_most: int = 60
    warm_up_s: float = 0.2
    medium_s: float = 1e-3
    slow_s: float = 30e-3
    most_loops: int = 1 << 22
    limit_factor: float = 12.0
    settle_s: float = 0.0
    rest_s: float = 0.0


RULES = Rules()
ISOLATED_RULES = Rules(samples=40, settle_s=5e-3, rest_s=0.1)


class Subject:
    """A function under the clock: the only place where a function is called and timed.

    Attributes:
        name: its name.
        first_calls_s: the calls of the warm-up one by one, in seconds.
    """

    def __init__(
        self,
        name: str,
        fn: Callable[..., Any],
        *,
        setup: Callable[[], Any] | None = None,
        instruments: Instruments | None = None,
        rules: Rules = RULES,
    ):
        self.name = name
        self.first_calls_s: list[float] = []
        self._fn = fn
        self._setup = setup
        self._instruments = instruments or Instruments()
        self._clock = self._instruments.clock
        given = self._instruments.synchronize
        self._wait = None if given == "auto" else given
        self._rules = rules

    @property
    def on_device(self) -> bool:
        """Whether samples end with a synchronisation."""
        return self._wait is not None

    def call(self) -> Any:
        """Call once, note the time among the first calls, return the result."""
        raise NotImplementedError

    def first_result(self, keep: bool) -> Any:
        """Make the first call; return its result only where it is wanted."""
        result = self.call()
        return result if keep else None

    def warm_up(self, most_s: float = math.inf) -> float:
        """Call until the times have settled; return the estimated seconds of one call."""
        raise NotImplementedError

    def phase(self, plan: Plan) -> list[float]:
        """Run one phase; return its samples in seconds for one call."""
        raise NotImplementedError
