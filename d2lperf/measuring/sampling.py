"""Functions under the clock: warm-up, plan, samples, phases and interleaved rounds.

* A *sample* is a quarter of a millisecond of calls in a row: beside a busy core a long one always
  catches a disturbance, a short one often does not.
* A *phase* is a few untimed calls, then up to five samples. Its value is their lower quartile.
* A *round* runs every function's phase in a random order and then in the mirrored one, so that a
  steady drift cancels exactly: ABBA or BAAB for two functions.
* A round in which a phase goes far beyond its plan is discarded and counted.
"""

from __future__ import annotations

import gc
import math
import random
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import repeat
from typing import Any

import numpy as np
import torch

from d2lperf.device import synchronizer
from d2lperf.machine import usable_cores
from d2lperf.measuring import stats
from d2lperf.measuring.verdict import Rounds

__all__ = ["ISOLATED_RULES", "RULES", "Instruments", "Plan", "Rules", "Subject", "Turns"]
__all__ += ["common_plans", "lower_value", "undisturbed", "upper_value"]


@dataclass(frozen=True)
class Instruments:
    """What measuring depends on beside the functions; tests inject their own.

    Attributes:
        clock: returns seconds.
        cpu_clock: returns the processor seconds of this process, all threads.
        synchronize: waits for the devices in use; None where there are none; "auto" asks torch.
        rng: draws the order within a round.
        cores: returns how many cores this process may use.
    """

    clock: Callable[[], float] = time.perf_counter
    cpu_clock: Callable[[], float] = time.process_time
    synchronize: Callable[[], None] | str | None = "auto"
    rng: random.Random = field(default_factory=random.Random)
    cores: Callable[[], int] = usable_cores


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

    @property
    def calls(self) -> int:
        """Calls in a phase."""
        return self.settle + self.loops * self.samples


@dataclass(frozen=True)
class Rules:
    """The constants of the method; `benchmarks/verdicts.py` is how they were chosen.

    Times in seconds. `device_sample_s` is longer because each sample on an accelerator ends with a
    synchronisation, whose own cost must stay small beside it. `rest_s` and `settle_s` are for
    functions in processes of their own, which wait at each change of turn until the threads of the
    one before have gone to sleep.
    """

    sample_s: float = 0.25e-3
    device_sample_s: float = 2e-3
    samples: int = 5
    warm_up_calls: int = 5
    warm_up_most: int = 60
    warm_up_s: float = 0.2
    medium_s: float = 1e-3
    slow_s: float = 30e-3
    very_slow_s: float = 0.5
    most_loops: int = 10**6
    ticks: int = 10
    plan_checks: tuple[int, ...] = (3, 8)
    void_factor: float = 3.0
    limit_factor: float = 12.0
    settle_s: float = 0.0
    rest_s: float = 0.0


RULES = Rules()
# A rest costs more than a phase, so phases are long, and no phase is repeated for being slow.
ISOLATED_RULES = Rules(samples=40, settle_s=5e-3, limit_factor=math.inf, rest_s=0.1)


def _keep_random_state() -> Callable[[], None]:
    """Note the state of the global random generators; return what puts it back.

    In a thread they are left alone: the other threads draw from them meanwhile.
    """
    if threading.current_thread() is not threading.main_thread():
        return lambda: None
    states = random.getstate(), np.random.get_state(), torch.get_rng_state()
    restore_device = _keep_device_random_state()

    def restore() -> None:
        random.setstate(states[0])
        np.random.set_state(states[1])
        torch.set_rng_state(states[2])
        restore_device()

    return restore


def _keep_device_random_state() -> Callable[[], None]:
    """The same for the accelerator, of whatever kind."""
    if not torch.accelerator.is_available():
        return lambda: None
    module = torch.get_device_module(torch.accelerator.current_accelerator())
    if not getattr(module, "is_initialized", lambda: True)():
        # Its generators will be seeded like the CPU's when they come to be.
        seed = torch.initial_seed()
        return lambda: module.manual_seed_all(seed) if module.is_initialized() else None
    ending = "_all" if hasattr(module, "get_rng_state_all") else ""
    if not hasattr(module, f"get_rng_state{ending}"):
        return lambda: None
    state = getattr(module, f"get_rng_state{ending}")()
    return lambda: getattr(module, f"set_rng_state{ending}")(state)


@contextmanager
def undisturbed() -> Iterator[None]:
    """Measure without traces: no collector meanwhile; threads, grad mode, random state put back."""
    collecting = gc.isenabled()
    threads, grad = torch.get_num_threads(), torch.is_grad_enabled()
    restore_random_state = _keep_random_state()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()
        if torch.get_num_threads() != threads:
            torch.set_num_threads(threads)
        torch.set_grad_enabled(grad)
        restore_random_state()


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
        """Take a function; with `setup` a sample is one call, prepared outside the clock."""
        instruments = instruments or Instruments()
        self.name, self.first_calls_s = name, []
        self._fn, self._setup, self._rules = fn, setup, rules
        self._clock = instruments.clock
        self._ask_torch = instruments.synchronize == "auto"
        self._wait = None if self._ask_torch else instruments.synchronize
        self._tick_s = 0.0

    @property
    def on_device(self) -> bool:
        """Whether samples end with a synchronisation."""
        return self._wait is not None

    def _prepared(self) -> Callable[[], Any]:
        """The function with the argument for one call, where there is a `setup`."""
        if self._setup is None:
            return self._fn
        given, fn = self._setup(), self._fn
        return fn if given is None else lambda: fn(given)

    def call(self) -> Any:
        """Call once, note the time among the first calls, return the result."""
        fn, clock = self._prepared(), self._clock
        if self._wait is not None:
            self._wait()
        start = clock()
        result = fn()
        if self._ask_torch:  # the first call may be what sets an accelerator to work
            self._wait = synchronizer()
        if self._wait is not None:
            self._wait()
        self.first_calls_s.append(clock() - start)
        # The collector is off, but cycles that calls leave must not pile up.
        gc.collect(0)
        return result

    def first_result(self, keep: bool) -> Any:
        """Make the first call; return its result only where it is wanted."""
        result = self.call()
        return result if keep else None

    def run(self, loops: int) -> float:
        """Call `loops` times in a row and return the seconds they took together."""
        if self._setup is not None:
            return sum(self._timed(self._prepared(), 1) for _ in range(loops))
        return self._timed(self._fn, loops)

    def _timed(self, fn: Callable[[], Any], loops: int) -> float:
        clock, wait = self._clock, self._wait
        calls = repeat(None, loops)
        if wait is not None:
            wait()
            start = clock()
            for _ in calls:
                fn()
            wait()
        else:
            start = clock()
            for _ in calls:
                fn()
        return clock() - start

    def warm_up(self, most_s: float = math.inf) -> float:
        """Call until the times have settled; return the estimated seconds of one call.

        Settled: at least five calls (three of more than 30 ms, two of more than half a second), the
        last three within twice the fastest. At most 60 calls or 0.2 s after the first, and none
        that would probably end after `most_s` seconds.
        """
        rules, calls = self._rules, self.first_calls_s
        if not calls:
            self.call()
        spent = 0.0
        while len(calls) < rules.warm_up_most:
            fastest = min(calls)
            slow = (fastest > rules.slow_s) + (fastest > rules.very_slow_s)
            least = (rules.warm_up_calls, 3, 2)[slow]
            settled = max(calls[-3:]) <= 2 * fastest or spent >= rules.warm_up_s
            over = len(calls) >= 2 and spent + fastest > most_s
            if over or (len(calls) >= least and settled):
                break
            self.call()
            spent += calls[-1]
        return self._estimate(most_s - spent)

    def _estimate(self, left_s: float) -> float:
        """Seconds of one call: the least of three samples, each long enough for the clock."""
        guess = min(self.first_calls_s[1:] or self.first_calls_s)
        long = guess > self._rules.slow_s or 3 * guess > left_s or self._setup is not None
        if long and guess > 0:
            return guess
        readings = list(self.first_calls_s)
        loops = self._loops(guess) if guess > 0 else 1
        while True:
            took = self.run(loops)
            readings.append(took)
            if min(readings) <= 0 < max(readings):
                # The clock goes in steps: a sample must last many of them.
                self._tick_s = min(reading for reading in readings if reading > 0)
            if took >= self.sample_s / 2 or loops >= self._rules.most_loops:
                break
            wanted = max(2 * loops, self._loops(took / loops)) if took > 0 else 10 * loops
            loops = min(self._rules.most_loops, 10 * loops, wanted)
        if took <= 0:
            raise RuntimeError(
                f"{self.name!r} was called {loops} times and the clock did not move. "
                "Put a loop inside the function, so that one call does more work."
            )
        more = 2 if took < self._rules.slow_s else 0
        return min([took, *(self.run(loops) for _ in range(more))]) / loops

    @property
    def sample_s(self) -> float:
        """How long a sample should last, in seconds."""
        usual = self._rules.device_sample_s if self.on_device else self._rules.sample_s
        return max(usual, self._rules.ticks * self._tick_s)

    def _loops(self, call_s: float) -> int:
        """Calls that fill a sample."""
        if self._setup is not None:
            return 1
        return max(1, min(self._rules.most_loops, round(self.sample_s / call_s)))

    def plan(self, call_s: float) -> Plan:
        """Lay out a phase for calls of `call_s` seconds: fewer samples where each is long."""
        rules = self._rules
        loops = self._loops(call_s)
        one = call_s * loops
        if one > rules.slow_s and self._tick_s <= 0:
            settle, samples = 0, 1
        elif one > rules.medium_s and not self.on_device:
            settle, samples = loops, 3
        else:
            settle, samples = loops, rules.samples
        if rules.settle_s:
            settle = max(settle, round(rules.settle_s / call_s))
        return Plan(settle, loops, samples, rules.limit_factor * one)

    def phase(self, plan: Plan) -> list[float]:
        """Run one phase; return its samples in seconds for one call.

        One that runs away ends at once: then there are fewer samples than planned, the last of
        them (or the settling calls) beyond the limit.
        """
        samples: list[float] = []
        if plan.settle:
            took = self.run(plan.settle)
            if took > plan.limit_s:
                return [took / plan.settle]
        while len(samples) < plan.samples:
            took = self.run(plan.loops)
            samples.append(took / plan.loops)
            if took > plan.limit_s:
                break
        gc.collect(0)
        return samples


def lower_value(samples: list[float]) -> float:
    """The order statistic at or below the lower quartile: of five the second, of three the least.

    Not interpolated: with few samples the next higher one is too often a disturbed one.
    """
    return sorted(samples)[(len(samples) - 1) // 4]


def upper_value(samples: list[float]) -> float:
    """The order statistic at or above the upper quartile: of five the fourth, of three the most."""
    return sorted(samples)[-1 - (len(samples) - 1) // 4]


def common_plans(
    subjects: list[Subject], calls_s: dict[str, float], within: float = 2.0
) -> dict[str, Plan]:
    """Plan all phases; functions of like speed get the very same layout.

    A different number of calls is itself a difference: two copies of one function were told apart
    by it. Like: not slower than the fastest of their group by more than the factor `within`.
    """
    on_device = [subject for subject in subjects if subject.on_device]
    groups: list[list[Subject]] = []
    for subject in sorted(subjects, key=lambda s: calls_s[s.name]):
        if groups and calls_s[subject.name] <= within * calls_s[groups[-1][0].name]:
            groups[-1].append(subject)
        else:
            groups.append([subject])
    plans = {}
    for group in groups:
        call_s = math.exp(sum(math.log(calls_s[s.name]) for s in group) / len(group))
        for subject in group:
            # Where one of them is on a device, all get its longer samples.
            plans[subject.name] = (on_device or [subject])[0].plan(call_s)
    return plans


class Turns:
    """Runs rounds of phases and keeps what they gave.

    Attributes:
        plans: name -> how its phases are laid out now.
        kept: the rounds so far.
        discarded_cpu_s: processor seconds spent in discarded rounds: who was busy meanwhile?
        discarded_wall_s: seconds that they took.
    """

    def __init__(
        self,
        subjects: list[Subject],
        calls_s: dict[str, float],
        baseline: str,
        *,
        instruments: Instruments,
        rules: Rules = RULES,
        before_s: float = 0.0,
    ):
        """Plan the phases, from the estimated seconds of a call (`calls_s`, by name)."""
        self.subjects, self._instruments, self._rules = subjects, instruments, rules
        self.plans = common_plans(subjects, calls_s)
        self.discarded_cpu_s = self.discarded_wall_s = 0.0
        names = [s.name for s in subjects]
        empty = [{name: [] for name in names} for _ in range(3)]
        first_calls_s = {s.name: s.first_calls_s for s in subjects}
        self.kept = Rounds(names, baseline, *empty, first_calls_s, {}, before_s=before_s)
        self._in_a_row = 0  # rounds discarded
        self._outdated = False
        self._patience = 1.0  # factor on what goes beyond the plan
        # What a phase is expected to give. It follows the machine: where a load has come to stay,
        # its level becomes the plan, and rounds are not discarded for ever.
        self._recent = {name: deque([calls_s[name]], maxlen=5) for name in names}
        self._quickest_s = dict(calls_s)

    @property
    def count(self) -> int:
        """Rounds that were kept."""
        return len(self.kept.lower_s[self.kept.baseline])

    @property
    def round_s(self) -> float:
        """Seconds that a round is expected to take."""
        return sum(
            2 * (self._rules.rest_s + stats.median(self._recent[name]) * plan.calls)
            for name, plan in self.plans.items()
        )

    @property
    def quickest_round_s(self) -> float:
        """Seconds of a round in which each call takes as long as in its quickest sample so far.

        A short function that a neighbour holds up is not taken for a long one by this.
        """
        return sum(
            2 * (self._rules.rest_s + self._quickest_s[name] * plan.calls)
            for name, plan in self.plans.items()
        )

    def rounds(self) -> Rounds:
        """What was measured so far."""
        return replace(self.kept, loops={name: plan.loops for name, plan in self.plans.items()})

    def take(self) -> bool:
        """Run one round; return whether it was kept."""
        if self._in_a_row >= 6 or self._outdated:
            # So many in a row are no accident: the functions, or the machine, have changed.
            levels = {name: stats.median(last) for name, last in self._recent.items()}
            self.plans = common_plans(self.subjects, levels, within=4.0)  # from a few noisy phases
            # Where times jump all the time that is how this machine is: allow for more.
            self._patience *= 1 if self._outdated else 2
            self._in_a_row, self._outdated = 0, False
        clock, cpu_clock = self._instruments.clock, self._instruments.cpu_clock
        cpu, wall = cpu_clock(), clock()
        phases, beyond = self._run_round()
        took = clock() - wall
        self.kept = replace(self.kept, rounds_s=self.kept.rounds_s + took)
        if beyond or self._outdated:
            self.discarded_cpu_s += cpu_clock() - cpu
            self.discarded_wall_s += took
            self.kept.discarded.append(beyond)
            self._in_a_row += 1
            return False
        self._in_a_row, self._patience = 0, max(1.0, 0.9 * self._patience)
        for name, (first, second) in phases.items():
            self.kept.lower_s[name].append((lower_value(first), lower_value(second)))
            self.kept.upper_s[name].append((upper_value(first), upper_value(second)))
        if self.count in self._rules.plan_checks and self._planned_badly():
            # These rounds treated like functions unlike: they do not count.
            self.kept.discarded.extend([] for _ in range(self.count))
            for name in phases:
                self.kept.lower_s[name].clear()
                self.kept.upper_s[name].clear()
            return False
        return True

    def _run_round(self) -> tuple[dict[str, list[list[float]]], list[str]]:
        """The phases of one round, and the functions that went far beyond their plan."""
        order = self._instruments.rng.sample(self.subjects, len(self.subjects))
        phases: dict[str, list[list[float]]] = {s.name: [] for s in self.subjects}
        beyond: list[str] = []
        for subject in (*order, *reversed(order)):
            name, plan = subject.name, self.plans[subject.name]
            expected = stats.median(self._recent[name])
            factor = self._rules.void_factor * self._patience
            taken = subject.phase(replace(plan, limit_s=plan.limit_s * self._patience))
            phases[name].append(taken)
            # Samples are kept whatever becomes of the round: they are part of the spread.
            self.kept.samples_s[name].extend(taken)
            ran_away = len(taken) < plan.samples
            value = taken[-1] if ran_away else lower_value(taken)
            if 0 < value < expected / factor:
                # The warm-up was over too early: slow first calls that look like a slow function.
                self._recent[name].clear()
                self._outdated = True
            self._recent[name].append(value)
            self._quickest_s[name] = min(self._quickest_s[name], *taken)
            if ran_away or not 0 < value <= factor * expected:
                beyond += [name] if name not in beyond else []
                # The rest of the round cannot count any more. But what the others would take is
                # needed to make a new plan.
                if self._in_a_row < 5:
                    break
        return phases, beyond

    def _planned_badly(self) -> bool:
        """Whether the rounds so far ask for other plans than the warm-up did; if so, take them.

        A disturbance in the warm-up of one function makes it look slow and gives it fewer calls
        in a sample than its own copy gets, which is enough to tell the two apart.
        """
        levels = {
            name: stats.quartiles([value for pair in pairs for value in pair])[0]
            for name, pairs in self.kept.lower_s.items()
        }
        old, new = self.plans, common_plans(self.subjects, levels)
        far = any(
            max(old[n].loops, new[n].loops) > 1.5 * min(old[n].loops, new[n].loops) for n in old
        )
        parted = any(new[a] == new[b] and old[a] != old[b] for a in old for b in old)
        if far or parted:
            self.plans = new
        return far or parted
