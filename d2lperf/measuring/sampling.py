"""Functions under the clock: warm-up, plan, samples, phases and interleaved rounds.

* A *sample* is a quarter of a millisecond of calls in a row: beside a busy core a long one always
  catches a disturbance, a short one often does not.
* A *phase* is a few untimed calls, then five samples. On a CPU it has three of more than a
  millisecond, and one of more than 30. Its value is the second quickest of them (or the only one).
  With `ISOLATED_RULES` it has many samples, and its value is their lower quartile.
* A *round* runs every function's phase in a random order and then in the mirrored one, so that a
  steady drift cancels exactly: ABBA or BAAB for two functions.
* A round in which a phase goes far beyond its plan is discarded and counted. So is, once all are
  taken, one whose turns together lie far above their quiet level (`stats.quiet_rounds`).
"""

from __future__ import annotations

import gc
import math
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial
from itertools import repeat
from typing import Any, NamedTuple

import numpy as np

from d2lperf.device import synchronizer
from d2lperf.measuring import stats
from d2lperf.measuring.instruments import Instruments, instruments
from d2lperf.measuring.rounds import Rounds


@dataclass(frozen=True)
class Plan:
    """How a phase of one function is laid out."""

    settle: int  # calls at the start that are not timed: another function ran before
    loops: int  # calls in a sample
    samples: int  # samples in a phase
    limit_s: float  # a settling or a sample that takes longer ends the phase at once

    @property
    def calls(self) -> int:
        """Calls in a phase."""
        return self.settle + self.loops * self.samples


@dataclass(frozen=True)
class Rules:
    """The constants of the method, chosen with `benchmarks/verdicts.py`; `_s`: in seconds."""

    sample_s: float = 0.25e-3  # length of a sample
    device_sample_s: float = 2e-3  # it ends with a synchronisation, whose share must stay small
    samples: int = 5  # in a phase
    warm_up_most: int = 60  # calls of the warm-up
    medium_s: float = 1e-3  # a longer sample is taken three times in a phase
    slow_s: float = 30e-3  # and one longer than this once
    most_loops: int = 10**6  # calls in a sample
    ticks: int = 10  # steps of a coarse clock that a sample lasts at least
    plan_checks: tuple[int, ...] = (3, 8)  # numbers of rounds after which plans are checked
    void_factor: float = 3.0  # a phase this much slower than expected discards its round
    limit_factor: float = 12.0  # a sample this much longer than planned ends its phase
    settle_s: float = 0.0  # untimed calls at the start of a phase last this long at least
    rest_s: float = 0.0  # before another function's phase, until this one's threads are asleep


RULES = Rules()
# A rest takes longer than a usual phase, so phases are long here, and none is cut short.
ISOLATED_RULES = Rules(samples=40, settle_s=5e-3, limit_factor=math.inf, rest_s=0.1)
# Where functions can run beside this process: a place -> what makes their subjects there, called as
# `with make(functions by name, setup=setup) as subjects`. `processes.isolated` adds "processes".
APART: dict[str, Callable[..., Any]] = {}


class Subject:
    """A function under the clock: the only place where a function is called and timed.

    With `setup`, which prepares its argument, a sample is one call.
    """

    def __init__(
        self,
        name: str,
        fn: Callable,
        *,
        setup: Callable | None = None,
        tools: Instruments | None = None,
        rules: Rules = RULES,
    ):
        tools = tools or instruments()
        self.name = name
        self.first_calls_s: list[float] = []  # those of the warm-up, one by one
        self._fn, self._setup, self._rules = fn, setup, rules
        self._clock = tools.clock
        wait = tools.synchronize
        self._ask_torch = isinstance(wait, str)
        self._wait = synchronizer() if isinstance(wait, str) else wait
        self._tick_s = 0.0

    def use(self, fn: Callable) -> None:
        """Put another build of the function in the place of the last one."""
        self._fn = fn

    def settle(self, usual_s: float) -> None:
        """Call a new build until it is as quick as usual, two to eight times."""
        for call in range(8):
            took = self.run(1)
            if call >= 1 and took <= 2 * usual_s:
                break

    @property
    def on_device(self) -> bool:
        """Whether samples end with a synchronisation."""
        return self._wait is not None

    def _prepared(self) -> Callable[[], Any]:
        """The function with the argument for one call, where there is a `setup`."""
        given = None if self._setup is None else self._setup()
        return self._fn if given is None else partial(self._fn, given)

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
        clock, wait, calls = self._clock, self._wait, repeat(None, loops)
        if wait is not None:
            wait()
        start = clock()
        for _ in calls:
            fn()
        if wait is not None:
            wait()
        return clock() - start

    def warm_up(self, most_s: float = math.inf) -> float:
        """Call until the times settle, for `most_s` or less; return the seconds of one call."""
        rules, calls = self._rules, self.first_calls_s
        if not calls:
            self.call()
        spent = 0.0
        while len(calls) < rules.warm_up_most:
            fastest = min(calls)
            least = 2 if fastest > 0.5 else 3 if fastest > rules.slow_s else 5
            settled = max(calls[-3:]) <= 2 * fastest or spent >= 0.2
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
        rules, loops = self._rules, self._loops(call_s)
        one = call_s * loops
        settle, samples = loops, rules.samples
        if one > rules.slow_s and self._tick_s <= 0:
            settle, samples = 0, 1
        elif one > rules.medium_s and not self.on_device:
            samples = 3
        settle = max(settle, round(rules.settle_s / call_s))
        return Plan(settle, loops, samples, rules.limit_factor * one)

    def phase(self, plan: Plan) -> list[float]:
        """Run one phase; return the seconds of one call by sample, fewer where one runs away."""
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


class PhaseValues(NamedTuple):
    """Order statistics near the quartiles: of five the second and the fourth, of three the second
    and the third.
    """

    lower: float
    upper: float


def phase_values(samples: list[float]) -> PhaseValues:
    """Return the values of a phase, from its samples in seconds: of many the quartiles."""
    # Not interpolated: with few samples the next one is too often disturbed.
    ordered, beyond = sorted(samples), (len(samples) - 1) // 4
    # Never the quickest of several: an extreme varies so much that strong noise hides differences.
    lower = max(beyond, 1) if len(samples) > 2 else 0
    return PhaseValues(ordered[lower], ordered[-1 - beyond])


def _median_of_few(values: Iterable[float]) -> float:
    """The median. numpy's takes a tenth of a comparison; `statistics` is slow to import."""
    ordered = sorted(values)
    middle = len(ordered) // 2
    return (ordered[middle] + ordered[-1 - middle]) / 2


def common_plans(
    subjects: list[Subject], calls_s: dict[str, float], within: float = 2.0
) -> dict[str, Plan]:
    """Plan all phases; functions of like speed, by the factor `within`, get the very same layout.

    With different numbers of calls, two copies of one function were judged different.
    """
    on_device = [subject for subject in subjects if subject.on_device]
    groups: list[list[Subject]] = []
    for subject in sorted(subjects, key=lambda s: calls_s[s.name]):
        if not groups or calls_s[subject.name] > within * calls_s[groups[-1][0].name]:
            groups.append([])
        groups[-1].append(subject)
    plans = {}
    for group in groups:
        call_s = math.exp(sum(math.log(calls_s[s.name]) for s in group) / len(group))
        for subject in group:
            # Where one of them is on a device, all get its longer samples.
            plans[subject.name] = (on_device or [subject])[0].plan(call_s)
    return plans


class Phases(NamedTuple):
    """What one round gave."""

    by_name: dict[str, list[list[float]]]  # the samples of both phases of each function
    beyond: list[str]  # functions that went far beyond their plan


class Turns:
    """Runs rounds of phases and keeps what they gave, once `begin` has planned them."""

    def __init__(
        self, subjects: list[Subject], baseline: str, *, tools: Instruments, rules: Rules = RULES
    ):
        self.subjects, self.baseline = subjects, baseline
        self.instruments, self._rules = tools, rules
        self.plans: dict[str, Plan] = {}
        self.discarded_cpu_s = self.discarded_wall_s = 0.0  # who was busy in discarded rounds?
        names = [s.name for s in subjects]
        self.kept = Rounds(
            names,
            baseline,
            lower_s={name: [] for name in names},
            upper_s={name: [] for name in names},
            samples_s={name: [] for name in names},
            first_calls_s={},
            loops={},
        )
        self.build: int | None = None  # number of the present build, if functions are made anew
        self._in_a_row = 0  # rounds discarded
        self._outdated = False
        self._patience = 1.0  # factor on what goes beyond the plan

    def begin(self, calls_s: dict[str, float], before_s: float = 0.0) -> None:
        """Plan the phases, from the estimated seconds of a call by name."""
        self.kept = replace(self.kept, before_s=before_s)
        self.plans = common_plans(self.subjects, calls_s)
        # The last values of phases: what we expect of the next one follows a load that stays.
        self._recent = {name: deque([call_s], maxlen=5) for name, call_s in calls_s.items()}
        self._quickest_s = dict(calls_s)

    @property
    def count(self) -> int:
        """Rounds that were kept."""
        return len(self.kept.lower_s[self.baseline])

    def round_s(self, quickest: bool = False) -> float:
        """Expected seconds of a round, from recent times or from the `quickest` so far."""
        calls_s = self._quickest_s if quickest else self.levels_s()
        rest_s = self._rules.rest_s
        return sum(2 * (rest_s + calls_s[name] * plan.calls) for name, plan in self.plans.items())

    def levels_s(self) -> dict[str, float]:
        """Seconds that a call of each function is expected to take."""
        return {name: _median_of_few(last) for name, last in self._recent.items()}

    def rounds(self) -> Rounds:
        """What was measured so far; calls of the warm-up stand in for samples if there are none."""
        first = {subject.name: subject.first_calls_s for subject in self.subjects}
        samples = {name: self.kept.samples_s[name] or s[1:] or s for name, s in first.items()}
        loops = {name: plan.loops for name, plan in self.plans.items()}
        return replace(self.kept, samples_s=samples, first_calls_s=first, loops=loops)

    def drop(self, since: int) -> None:
        """Discard the kept rounds from number `since` on: nobody knows whose time they show."""
        dropped = max(0, self.count - since)
        for pairs in (self.kept.lower_s, self.kept.upper_s):
            for rounds in pairs.values():
                del rounds[since:]
        del self.kept.builds[since:]
        self.kept.discarded.extend([] for _ in range(dropped))

    def take(self) -> bool:
        """Run one round; return whether it was kept."""
        if self._in_a_row >= 6 or self._outdated:
            self._plan_anew()
        clock, cpu_clock = self.instruments.clock, self.instruments.cpu_clock
        cpu, wall = cpu_clock(), clock()
        phases = self._run_round()
        took = clock() - wall
        self.kept = replace(self.kept, rounds_s=self.kept.rounds_s + took)
        if phases.beyond or self._outdated:
            self.discarded_cpu_s += cpu_clock() - cpu
            self.discarded_wall_s += took
            self.kept.discarded.append(phases.beyond)
            self._in_a_row += 1
            return False
        self._in_a_row, self._patience = 0, max(1.0, 0.9 * self._patience)
        self._keep(phases)
        if self.count in self._rules.plan_checks and self._planned_badly():
            # These rounds were taken by plans that do not fit the functions, so we discard them.
            self.drop(since=0)
            return False
        return True

    def _plan_anew(self) -> None:
        """So many discarded in a row are no accident: the functions or the machine have changed."""
        self.plans = common_plans(self.subjects, self.levels_s(), within=4.0)
        if not self._outdated:
            # If this happens again and again, times jump on this machine: allow for more.
            self._patience *= 2
        self._in_a_row, self._outdated = 0, False

    def _keep(self, phases: Phases) -> None:
        for name, pair in phases.by_name.items():
            first, second = (phase_values(samples) for samples in pair)
            self.kept.lower_s[name].append((first.lower, second.lower))
            self.kept.upper_s[name].append((first.upper, second.upper))
        if self.build is not None:
            self.kept.builds.append(self.build)

    def _run_round(self) -> Phases:
        """The phases of one round, and the functions that went far beyond their plan."""
        order = self.instruments.rng.sample(self.subjects, len(self.subjects))
        phases: dict[str, list[list[float]]] = {s.name: [] for s in self.subjects}
        beyond: list[str] = []
        for subject in (*order, *reversed(order)):
            within_plan = self._run_phase(subject, phases[subject.name])
            if not within_plan and subject.name not in beyond:
                beyond.append(subject.name)
            # The round is discarded. But before a new plan we need the times of all functions.
            if not within_plan and self._in_a_row < 5:
                break
        return Phases(phases, beyond)

    def _run_phase(self, subject: Subject, taken: list[list[float]]) -> bool:
        """Run a phase and add its samples; return whether it stayed within what was planned."""
        name, plan, patience = subject.name, self.plans[subject.name], self._patience
        level_s, factor = _median_of_few(self._recent[name]), self._rules.void_factor * patience
        most_s, least_s = factor * level_s, level_s / factor
        samples = subject.phase(replace(plan, limit_s=plan.limit_s * patience))
        taken.append(samples)
        # We keep the samples of discarded rounds, too: they are part of the spread.
        self.kept.samples_s[name].extend(samples)
        ran_away = len(samples) < plan.samples
        value = samples[-1] if ran_away else phase_values(samples).lower
        if 0 < value < least_s:
            # The warm-up was over too early: slow first calls that look like a slow function.
            self._recent[name].clear()
            self._outdated = True
        self._recent[name].append(value)
        self._quickest_s[name] = min(self._quickest_s[name], *samples)
        return not ran_away and 0 < value <= most_s

    def _planned_badly(self) -> bool:
        """Whether the rounds call for other plans than the warm-up did; if so, use the new ones."""
        kept = self.kept.lower_s.items()
        levels = {name: stats.quartiles(np.ravel(pairs))[0] for name, pairs in kept}
        old, new = self.plans, common_plans(self.subjects, levels)
        loops = [sorted((old[name].loops, new[name].loops)) for name in old]
        far = any(most > 1.5 * least for least, most in loops)
        parted = any(new[a] == new[b] and old[a] != old[b] for a in old for b in old)
        if far or parted:
            self.plans = new
        return far or parted
