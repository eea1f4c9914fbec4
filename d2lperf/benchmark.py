"""Measuring: the book's `Timer` and `Benchmark`, and the `measure` and `compare` to rely on.

How `compare` arranges its calls, and why:

* Before anything is timed the results are compared, and each function is called until it has
  warmed up; those calls are kept apart.
* The garbage collector rests while samples are taken.
* A *sample* is short, about a quarter of a millisecond: beside a busy core a long one always
  catches a disturbance, a short one often does not.
* A *phase* is a few calls to settle in, then up to five samples; its value is their lower
  quartile.
* A *round* runs every function's phase in a random order and then in the mirrored one, so that a
  steady drift cancels exactly. For two functions that is ABBA or BAAB, a *quad*.
* The logarithms of the rounds' ratios give a Hodges-Lehmann estimate with an exact signed-rank
  interval. Sampling stops when the interval is narrow, or when the budget ends; never because a
  difference has shown itself, which would find differences where there are none.
"""

from __future__ import annotations

import gc
import math
import os
import random
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import repeat
from typing import Any

import numpy as np
import torch

from d2lperf import stats
from d2lperf.device import machine_card, synchronize, synchronizer, usable_cores
from d2lperf.results import (
    Comparison,
    Measurement,
    interval_confidence,
    log_ratios,
    print_line,
)

__all__ = ["Benchmark", "ClockTooCoarse", "ResultsDiffer", "Timer", "compare", "measure"]


class ResultsDiffer(AssertionError):
    """Functions that were to be compared do not compute the same."""


class ClockTooCoarse(RuntimeError):
    """The clock did not move while a function was called very often."""


# ----------------------------------------------------------------------------- the book's tools


class Timer:
    """A stopwatch that keeps its laps: the book's `Timer` on a clock that never steps back.

    Like `Benchmark` it waits for every accelerator the process has used before it starts and
    before it stops, so that a lap holds the work and not only its launch.

    Attributes:
        times: the laps so far, in seconds.

    >>> timer = Timer()
    >>> lap = timer.stop()
    >>> lap == timer.times[0] == timer.sum()
    True
    """

    def __init__(
        self,
        *,
        clock: Callable[[], float] = time.perf_counter,
        synchronize: Callable[[], None] = synchronize,
    ):
        """Start the first lap.

        Args:
            clock: returns seconds.
            synchronize: waits for the devices in use.
        """
        self._clock = clock
        self._synchronize = synchronize
        self.times: list[float] = []
        self.start()

    def start(self) -> None:
        """Start a lap."""
        self._synchronize()
        self._start = self._clock()

    def stop(self) -> float:
        """End the lap, keep it and return its seconds."""
        self._synchronize()
        self.times.append(self._clock() - self._start)
        return self.times[-1]

    def _laps(self) -> list[float]:
        if not self.times:
            raise ValueError(
                "this Timer has no lap yet: call stop() before asking for its average or sums."
            )
        return self.times

    def avg(self) -> float:
        """Return the mean lap in seconds.

        Raises:
            ValueError: no lap has ended yet.
        """
        return sum(self._laps()) / len(self.times)

    def sum(self) -> float:
        """Return the sum of the laps in seconds, 0 without any."""
        return sum(self.times)

    def cumsum(self) -> list[float]:
        """Return the running sums of the laps in seconds."""
        return np.cumsum(self.times).tolist()


class Benchmark:
    """Time a block and print it: `with Benchmark("eager"): ...` prints `eager: 0.1234 sec`.

    A drop-in for the book's class. This one waits for every accelerator the process has used
    before it starts and before it stops, prints also when the block raises (the error goes on),
    and keeps the time. One such time says little about which of two snippets is faster: use
    `compare` for that.

    Attributes:
        description: what is printed before the time.
        elapsed_s: seconds the block took, None until it has ended.

    >>> with Benchmark("nothing") as bench:  # doctest: +ELLIPSIS
    ...     pass
    nothing: 0.0... sec
    """

    def __init__(
        self,
        description: str = "Done",
        *,
        clock: Callable[[], float] = time.perf_counter,
        synchronize: Callable[[], None] = synchronize,
    ):
        """Set up the benchmark.

        Args:
            description: printed before the time.
            clock: returns seconds.
            synchronize: waits for the devices in use.
        """
        self.description = description
        self.elapsed_s: float | None = None
        self._clock = clock
        self._synchronize = synchronize

    def __enter__(self) -> Benchmark:
        self._synchronize()
        self._start = self._clock()
        return self

    def __exit__(self, kind, error, traceback) -> None:
        try:
            self._synchronize()
        except Exception:
            # A device that failed inside the block fails here again; the block's own error,
            # where there is one, is the one to show.
            if error is None:
                raise
        finally:
            self.elapsed_s = self._clock() - self._start
            print_line(f"{self.description}: {self.elapsed_s:.4f} sec")


# --------------------------------------------------------------------- leaving things as they were


def _device_random_state() -> Callable[[], None]:
    """Note the random state of the accelerators; return what puts it back.

    A generator that does not exist yet is seeded like the CPU's when it comes to be, so that is
    its state to go back to.
    """
    if torch.cuda.is_initialized():
        states = torch.cuda.get_rng_state_all()
        return lambda: torch.cuda.set_rng_state_all(states)
    for module in (getattr(torch, "xpu", None), getattr(torch, "mps", None)):
        if module is None or not module.is_available():
            continue
        if hasattr(module, "get_rng_state_all"):
            states = module.get_rng_state_all()
            return lambda: module.set_rng_state_all(states)
        state = module.get_rng_state()
        return lambda: module.set_rng_state(state)
    seed = torch.initial_seed()
    return lambda: torch.cuda.manual_seed_all(seed) if torch.cuda.is_initialized() else None


@contextmanager
def _undisturbed() -> Iterator[None]:
    """Measure without traces: no collector meanwhile; threads, modes, random state put back."""
    collecting = gc.isenabled()
    threads = torch.get_num_threads()
    grad = torch.is_grad_enabled()
    states = random.getstate(), np.random.get_state(), torch.get_rng_state()
    restore_devices = _device_random_state()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()
        if torch.get_num_threads() != threads:
            torch.set_num_threads(threads)
        torch.set_grad_enabled(grad)
        random.setstate(states[0])
        np.random.set_state(states[1])
        torch.set_rng_state(states[2])
        restore_devices()


# ------------------------------------------------------------------------------- one function


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
    """The constants of the method; the benchmark `verdicts.py` is how they were chosen.

    Times in seconds. `sample_s` is longer on an accelerator, where each sample ends with a
    synchronisation whose own cost must stay small beside it.
    """

    sample_s: float = 0.25e-3
    device_sample_s: float = 2e-3
    samples: int = 5
    quantile: float = 0.25
    warm_up_calls: int = 5
    warm_up_most: int = 60
    warm_up_s: float = 0.2
    medium_s: float = 1e-3
    long_s: float = 5e-3
    slow_s: float = 30e-3
    most_loops: int = 1 << 22
    plan_checks: tuple[int, ...] = (3, 8)
    void_factor: float = 3.0
    limit_factor: float = 12.0
    looks: tuple[int, ...] = (16, 24, 32, 48, 64, 96, 128)
    least_half_width: float = 0.005
    wide: float = 0.01
    share_of_effect: float = 0.05
    grace_s: float = 0.2
    threaded_grace_s: float = 0.1
    alone_s: float = 0.08
    again_s: float = 0.1
    settle_s: float = 0.0
    rest_s: float = 0.0


RULES = Rules()

# Rounds in which this process kept more than this share of the cores busy are its own doing.
OWN_SHARE = 0.85

# So much more processor time than wall time means that several threads are at work.
THREADED = 1.1

# measure() looks after so many phases whether the median is known well enough.
MEASURE_LOOKS = (8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512)
MEASURE_HALF_WIDTH = 0.01

# In processes of their own the functions wait for each other's threads to go to sleep at each
# change of turn. That costs far more than a phase, so phases are longer and rounds fewer.
ISOLATED_RULES = Rules(samples=40, settle_s=5e-3, looks=(8, 12, 16, 24, 32), rest_s=0.1)


class Subject:
    """A function under the clock: the only place where a function is called and timed."""

    def __init__(
        self,
        name: str,
        fn: Callable[[], Any],
        *,
        clock: Callable[[], float],
        wait: Callable[[], None] | None,
        rules: Rules = RULES,
    ):
        self.name = name
        self.first_calls_s: list[float] = []
        self._fn = fn
        self._clock = clock
        self._given_wait = wait
        self._wait = wait
        self._rules = rules

    def call(self) -> Any:
        """Call once, note the time among the first calls, return the result."""
        fn, clock = self._fn, self._clock
        if self._wait is not None:
            self._wait()
        start = clock()
        result = fn()
        # The first call may be what sets an accelerator to work, so ask again after it.
        if self._given_wait is None:
            self._wait = synchronizer()
        if self._wait is not None:
            self._wait()
        self.first_calls_s.append(clock() - start)
        # The collector is off: cycles that a call leaves must not pile up. Never inside the clock.
        gc.collect(0)
        return result

    def first_result(self, keep: bool) -> Any:
        """Make the first call; return its result only where it is wanted."""
        result = self.call()
        return result if keep else None

    @property
    def on_device(self) -> bool:
        """Whether samples end with a synchronisation."""
        return self._wait is not None

    def run(self, loops: int) -> float:
        """Call `loops` times in a row and return the seconds they took together."""
        fn, clock, wait = self._fn, self._clock, self._wait
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

        Settled: at least five calls, the last three within twice the fastest. A slow function
        gets by with three calls, and with two where more would take longer than `most_s`
        seconds. At most 60 calls or 0.2 s after the first.
        """
        rules, calls = self._rules, self.first_calls_s
        if not calls:
            self.call()
        spent = 0.0
        while len(calls) < rules.warm_up_most:
            fastest = min(calls)
            least = 3 if fastest > rules.slow_s else rules.warm_up_calls
            if len(calls) >= 2 and spent + fastest > most_s:
                break
            if len(calls) >= least and (max(calls[-3:]) <= 2 * fastest or spent >= rules.warm_up_s):
                break
            self.call()
            spent += calls[-1]
        return self._estimate()

    def _estimate(self) -> float:
        """Seconds of one call: the least of three samples, each long enough for the clock."""
        guess = min(self.first_calls_s[1:] or self.first_calls_s)
        if guess > self._rules.slow_s:
            return guess
        target = self.sample_s
        loops = self._loops(guess)
        # A single call is timed with the overhead of the clock, and on some machines in its
        # steps: take more calls until they really last as long as a sample should.
        while True:
            took = self.run(loops)
            if took >= target / 2 or loops >= self._rules.most_loops:
                break
            loops = min(self._rules.most_loops, max(2 * loops, self._loops(took / loops)))
        if took <= 0:
            raise ClockTooCoarse(
                f"{self.name!r} was called {loops} times and the clock did not move. "
                "Put a loop inside the function, so that one call does more work."
            )
        more = 2 if took < self._rules.slow_s else 0
        return min([took, *(self.run(loops) for _ in range(more))]) / loops

    @property
    def sample_s(self) -> float:
        """How long a sample should last, in seconds."""
        return self._rules.device_sample_s if self.on_device else self._rules.sample_s

    def _loops(self, call_s: float) -> int:
        """Calls that fill a sample."""
        if call_s <= 0:
            return self._rules.most_loops
        return max(1, min(self._rules.most_loops, round(self.sample_s / call_s)))

    def plan(self, call_s: float) -> Plan:
        """Lay out a phase for calls of `call_s` seconds: fewer samples where each is long."""
        rules = self._rules
        loops = self._loops(call_s)
        one = call_s * loops
        if one > rules.slow_s:
            settle, samples = 0, 1
        elif one > rules.medium_s and not self.on_device:
            settle, samples = loops, 3
        else:
            settle, samples = loops, rules.samples
        if rules.settle_s:
            settle = max(settle, round(rules.settle_s / call_s))
        # Where a rest costs more than a phase, a long phase shrugs a disturbance off better than
        # it could be repeated.
        limit_s = math.inf if rules.rest_s else rules.limit_factor * one
        return Plan(settle, loops, samples, limit_s)

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


def _phase_value(samples: list[float], quantile: float) -> float:
    """The order statistic at or below the given quantile: of five the second, of three the least.

    Not interpolated: with few samples the next higher one is too often a disturbed one.
    """
    return sorted(samples)[math.floor(quantile * (len(samples) - 1))]


def _upper_value(samples: list[float]) -> float:
    """The order statistic at or above the upper quartile: of five the fourth, of three the most."""
    return sorted(samples)[math.ceil(0.75 * (len(samples) - 1))]


def _check_callable(fn: Any, what: str) -> None:
    if not callable(fn):
        raise TypeError(
            f"{what} must be a function that is called without arguments, but got "
            f"{type(fn).__name__}. Wrap the work: lambda: net(x)."
        )


def _check_budget(budget_s: float | None) -> None:
    if budget_s is not None and not budget_s > 0:
        raise ValueError(f"budget_s is a time in seconds above 0, but got {budget_s!r}.")


def measure(
    fn: Callable[[], Any],
    *,
    name: str | None = None,
    budget_s: float = 0.5,
    confidence: float = 0.95,
    progress: bool | None = None,
    clock: Callable[[], float] = time.perf_counter,
    synchronize: Callable[[], None] | None = None,
) -> Measurement:
    """Time one function: first calls apart, then short samples until the median is known to 1 %.

    To tell which of two functions is faster use `compare`: two measurements taken one after the
    other meet different machines.

    Args:
        fn: called without arguments; what it returns is thrown away.
        name: shown in results; the function's own name by default.
        budget_s: seconds for the sampling after the warm-up. At least as many phases are taken
            as an interval needs (six for 95 %).
        confidence: of the median's interval.
        progress: show a progress bar; by default only where it takes more than five seconds.
        clock: returns seconds.
        synchronize: waits for the devices that `fn` uses; found out by default.

    Returns:
        A `Measurement`, all times in seconds for one call.

    Raises:
        TypeError: `fn` cannot be called.
        ValueError: a budget of 0 or less, or a confidence outside 0 to 1.
        ClockTooCoarse: the clock did not move during millions of calls.
        Exception: whatever `fn` raises.

    >>> measure(lambda: sum(range(100)), name="sum", budget_s=0.01).median_s > 0
    True
    """
    _check_callable(fn, "fn")
    _check_budget(budget_s)
    least = stats.min_pairs(interval_confidence(confidence))
    subject = Subject(name or _name_of(fn), fn, clock=clock, wait=synchronize)
    samples: list[float] = []
    values: list[float] = []
    began = clock()
    with _undisturbed():
        call_s = subject.warm_up()
        # A phase that runs away is a disturbance to compare(), but part of the spread here.
        plan = replace(subject.plan(call_s), limit_s=math.inf)
        sampling = clock()
        lasts = max(budget_s, least * call_s * (plan.settle + plan.samples * plan.loops))
        with _progress(progress, lasts) as show:
            while len(values) < MEASURE_LOOKS[-1]:
                taken = subject.phase(plan)
                samples += taken
                values.append(stats.median(taken))
                show(clock() - sampling)
                if len(values) < least:
                    continue
                if clock() - sampling >= budget_s:
                    break
                if len(values) in MEASURE_LOOKS:
                    low, high = stats.median_interval(values, interval_confidence(confidence))
                    if high - low <= 2 * MEASURE_HALF_WIDTH * stats.median(values):
                        break
    return Measurement(
        name=subject.name,
        samples_s=samples,
        first_calls_s=subject.first_calls_s,
        loops=plan.loops,
        phases_s=values,
        confidence=confidence,
        elapsed_s=clock() - began,
        machine=machine_card(touch=False),
    )


# --------------------------------------------------------------------------- several functions


def _name_of(fn: Callable) -> str:
    name = getattr(fn, "__name__", None) or type(fn).__name__
    return "function" if name == "<lambda>" else name


def _named(functions: Mapping[str, Callable] | Iterable[Callable]) -> dict[str, Callable]:
    """Return name -> function, with clear complaints."""
    if isinstance(functions, Mapping):
        named = {str(name): fn for name, fn in functions.items()}
        if len(named) != len(functions):
            raise ValueError(f"two of the names read the same: {list(functions)}.")
    elif callable(functions) or isinstance(functions, str) or not isinstance(functions, Iterable):
        raise TypeError(
            "compare takes a dictionary of functions, such as "
            f'{{"eager": f, "scripted": g}}, but got {type(functions).__name__}.'
        )
    else:
        functions = list(functions)
        for place, fn in enumerate(functions):
            _check_callable(fn, f"function number {place}")
        named = {_name_of(fn): fn for fn in functions}
        if len(named) != len(functions):
            raise ValueError(
                f"these functions share names: {[_name_of(fn) for fn in functions]}. "
                'Give a dictionary, such as {"eager": f, "scripted": g}.'
            )
    if len(named) < 2:
        raise ValueError(
            f"compare needs at least two functions, but got {len(named)}: {list(named)}. "
            "Use measure() for a single one."
        )
    for name, fn in named.items():
        _check_callable(fn, f"{name!r}")
    return named


def results_equal(a: Any, b: Any) -> str:
    """Return "" when two results agree to their precision, else what differs.

    Tensors, numeric arrays and numbers agree within the tolerance that
    `torch.testing.assert_close` has for their dtype (the coarser of the two); lists, tuples and
    dictionaries agree where all they hold does; anything else must be equal.
    """
    if isinstance(a, Mapping) and isinstance(b, Mapping):
        if a.keys() != b.keys():
            return f"the keys differ: {_brief(sorted(a, key=str))}, {_brief(sorted(b, key=str))}"
        return _first_difference((f"[{key!r}]", a[key], b[key]) for key in a)
    if isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)):
        if len(a) != len(b):
            return f"the lengths differ: {len(a)}, {len(b)}"
        return _first_difference((f"[{i}]", x, y) for i, (x, y) in enumerate(zip(a, b)))
    if _numeric(a) and _numeric(b):
        options = {"check_dtype": False, "check_device": False, "check_stride": False}
        try:
            torch.testing.assert_close(a, b, equal_nan=True, **options)
        except (AssertionError, TypeError, ValueError) as error:
            # A tensor beside an array or a number: the same values will do.
            if type(a) is type(b):
                return str(error).strip()
            return results_equal(torch.as_tensor(a), torch.as_tensor(b))
        return ""
    try:
        equal = a == b
        return "" if bool(np.all(equal)) else f"{_brief(a)} is not equal to {_brief(b)}"
    except Exception as error:  # an == that does not give a truth value
        return f"no way to tell whether {_brief(a)} equals {_brief(b)}: {error}"


def _first_difference(parts: Iterable[tuple[str, Any, Any]]) -> str:
    for place, x, y in parts:
        wrong = results_equal(x, y)
        if wrong:
            return f"at {place}: {wrong}"
    return ""


def _numeric(value: Any) -> bool:
    if isinstance(value, np.ndarray):
        return value.dtype.kind in "biufc"
    return isinstance(value, (torch.Tensor, np.number, int, float, complex))


def _snapshot(result: Any) -> Any:
    """A copy of the arrays in a result, so that the next function cannot write over them."""
    if isinstance(result, torch.Tensor):
        return result.detach().clone()
    if isinstance(result, np.ndarray):
        return result.copy()
    if isinstance(result, dict):
        return {key: _snapshot(value) for key, value in result.items()}
    if isinstance(result, (list, tuple)):  # of namedtuples the values are enough
        kind = list if isinstance(result, list) else tuple
        return kind(_snapshot(value) for value in result)
    return result


def _brief(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."


def _check_result(name: str, baseline: str, expected: Any, result: Any, check: Any) -> None:
    """Complain where a function's result differs from the baseline's."""
    if callable(check):
        wrong = "" if check(expected, result) else "the given check returned False"
    else:
        wrong = results_equal(expected, result)
    if wrong:
        raise ResultsDiffer(
            f"{name!r} and {baseline!r} do not give the same result, so their times "
            f"cannot be compared.\n{wrong}\n"
            "Mend one of them; where a difference is meant (random numbers, say) "
            "pass check=False, or check=a_function(a, b) that returns True when they agree."
        )


def _common_plans(subjects: list[Subject], calls_s: dict[str, float]) -> dict[str, Plan]:
    """Plan all phases; functions of like speed get the very same layout.

    A different number of calls is itself a difference between the sides: two copies of one
    function were told apart by it. Like: within twice the fastest of their group.
    """
    on_device = [subject for subject in subjects if subject.on_device]
    groups: list[list[Subject]] = []
    for subject in sorted(subjects, key=lambda s: calls_s[s.name]):
        if groups and calls_s[subject.name] <= 2 * calls_s[groups[-1][0].name]:
            groups[-1].append(subject)
        else:
            groups.append([subject])
    plans = {}
    for group in groups:
        logs = [math.log(calls_s[subject.name]) for subject in group]
        call_s = math.exp(sum(logs) / len(logs))
        for subject in group:
            # Where one of them is on a device, all get its longer samples.
            plans[subject.name] = (on_device or [subject])[0].plan(call_s)
    return plans


class _Rounds:
    """Takes rounds of phases and keeps what they gave."""

    def __init__(self, subjects, calls_s, rng: random.Random, rules: Rules, clock, cpu_clock):
        self.subjects = subjects
        self.clock = clock
        self.cpu_clock = cpu_clock
        # Processor and wall time spent in void rounds: who was busy while they ran away?
        self.void_cpu_s = self.void_wall_s = 0.0
        self.plans = _common_plans(subjects, calls_s)
        self.rng = rng
        self.rules = rules
        self.phases_s: dict[str, list[tuple[float, float]]] = {s.name: [] for s in subjects}
        self.uppers_s: dict[str, list[tuple[float, float]]] = {s.name: [] for s in subjects}
        self.samples: dict[str, list[float]] = {s.name: [] for s in subjects}
        self.void = 0
        self._void_in_a_row = 0
        self._outdated = False
        # What a phase is expected to give. It follows the machine: where a load has come to stay,
        # its level becomes the plan, and rounds are not void for ever.
        self._recent = {s.name: deque([calls_s[s.name]], maxlen=5) for s in subjects}
        self._fastest_s = dict(calls_s)

    @property
    def slowest_s(self) -> float:
        """Seconds of a call of the slowest function, by the fastest of its phases so far.

        By its latest ones a short function would pass for a long one where a neighbour has just
        taken a core from its threads, and would be given seconds.
        """
        return max(self._fastest_s.values())

    @property
    def count(self) -> int:
        """Rounds that were not void."""
        return min(len(pairs) for pairs in self.phases_s.values())

    def good(self, baseline: str) -> int:
        """Rounds on which the poorest of the ratios rests: neither void nor set aside."""
        base = self.phases_s[baseline]
        others = [pairs for name, pairs in self.phases_s.items() if name != baseline]
        return min(len(stats.quiet_rounds(pairs, base)) for pairs in others)

    def take(self) -> bool:
        """Take one round; return whether it counts."""
        if self._void_in_a_row >= 6 or self._outdated:
            # So many in a row are no accident: the functions, or the machine, have changed.
            self.plans = _common_plans(
                self.subjects, {name: stats.median(last) for name, last in self._recent.items()}
            )
            self._void_in_a_row, self._outdated = 0, False
        order = self.rng.sample(self.subjects, len(self.subjects))
        values: dict[str, list[float]] = {s.name: [] for s in self.subjects}
        uppers: dict[str, list[float]] = {s.name: [] for s in self.subjects}
        void = False
        cpu, wall = self.cpu_clock(), self.clock()
        for subject in (*order, *reversed(order)):
            name, plan = subject.name, self.plans[subject.name]
            expected = stats.median(self._recent[name])
            taken = subject.phase(plan)
            ran_away = len(taken) < plan.samples
            # Samples are kept whatever becomes of the round: they are part of the spread.
            self.samples[name] += taken
            value = taken[-1] if ran_away else _phase_value(taken, self.rules.quantile)
            if 0 < value < expected / self.rules.void_factor:
                # The warm-up was over too early (slow first calls that look like a slow function).
                # A plan for long calls would treat this function unlike the others.
                self._recent[name].clear()
                self._outdated = void = True
            self._recent[name].append(value)
            self._fastest_s[name] = min(self._fastest_s[name], value)
            values[name].append(value)
            uppers[name].append(_upper_value(taken))
            if ran_away or not 0 < value <= self.rules.void_factor * expected:
                void = True
                # The rest of the round cannot count any more. But what the others would take is
                # needed to make a new plan.
                if self._void_in_a_row < 5:
                    break
        if void:
            self.void_cpu_s += self.cpu_clock() - cpu
            self.void_wall_s += self.clock() - wall
            self.void += 1
            self._void_in_a_row += 1
            return False
        self._void_in_a_row = 0
        for name in values:
            self.phases_s[name].append(tuple(values[name]))
            self.uppers_s[name].append(tuple(uppers[name]))
        if self.count in self.rules.plan_checks and self._planned_badly():
            # These rounds treated like functions unlike: they do not count.
            self.void += self.count
            for name in values:
                self.phases_s[name].clear()
                self.uppers_s[name].clear()
            return False
        return True

    def _planned_badly(self) -> bool:
        """Whether the rounds so far ask for other plans than the warm-up did; if so, take them.

        A disturbance in the warm-up of one function makes it look slow and gives it fewer calls
        in a sample than its own copy gets, which is enough to tell the two apart.
        """
        levels = {
            name: stats.quartiles([value for pair in pairs for value in pair])[0]
            for name, pairs in self.phases_s.items()
        }
        old, new = self.plans, _common_plans(self.subjects, levels)
        names = list(old)
        far = any(
            max(old[n].loops, new[n].loops) > 1.5 * min(old[n].loops, new[n].loops) for n in names
        )
        parted = any(new[a] == new[b] and old[a] != old[b] for a in names for b in names)
        if far or parted:
            self.plans = new
        return far or parted

    def narrow(self, baseline: str, confidence: float, least: float) -> bool:
        """Whether every interval against the baseline is as narrow as it need be.

        That is a half-width of at most `least`, or of a share of the effect where that is more.
        """
        for name, phases in self.phases_s.items():
            if name == baseline:
                continue
            logs = log_ratios(phases, self.phases_s[baseline])
            if not logs:
                return False
            low, high = stats.signed_rank_interval(logs, confidence)
            effect = abs(stats.hodges_lehmann(logs))
            target = max(least, self.rules.share_of_effect * effect)
            if not (high - low) / 2 <= target:
                return False
        return True


def compare(
    functions: Mapping[str, Callable[[], Any]] | Iterable[Callable[[], Any]],
    *,
    baseline: str | None = None,
    check: bool | Callable[[Any, Any], bool] = True,
    budget_s: float | None = None,
    isolated: bool = False,
    margin: float | None = None,
    confidence: float = 0.95,
    seed: int | None = None,
    progress: bool | None = None,
    clock: Callable[[], float] = time.perf_counter,
    cpu_clock: Callable[[], float] | None = None,
    synchronize: Callable[[], None] | None = None,
) -> Comparison:
    """Tell which of several functions is faster and by how much, with an interval.

    Compared are *quiet levels*: what a call takes after the warm-up when nothing disturbs it (the
    lower quartile of a few samples, again and again, in turns). A mean over many calls, with all
    that neighbours do to it, is another quantity; so is the first call, which is reported apart.

    Args:
        functions: name -> function called without arguments (or a list of functions).
        baseline: the name that the others are held against; the first by default.
        check: compare the results first; False to leave that out, or a function of two results
            that returns True when they agree.
        budget_s: seconds for everything, warm-up included. By default about a third of a second
            for each function, up to 0.2 s more where the interval is still wide, and up to 10 s
            more for slow ones so that an interval comes out. A budget that cannot hold the rounds
            an interval needs is not spent on a part of them.
        isolated: run each function in a process of its own; for functions whose thread pools
            disturb each other. Takes seconds more, and is less precise: between two turns all
            rest, and after a rest the machine's speed varies.
        margin: a difference smaller than this fraction is never called one. By default 1 %, or
            5 % where functions are isolated.
        confidence: that all the intervals against the baseline hold together.
        seed: of the random orders; drawn anew by default.
        progress: show a progress bar; by default only for budgets above five seconds.
        clock: returns seconds.
        cpu_clock: returns seconds of processor time of this process, all threads.
        synchronize: waits for the devices that the functions use; found out by default.

    Returns:
        A `Comparison`.

    Raises:
        TypeError: something that cannot be called.
        ValueError: fewer than two functions, an unknown baseline, a bad number, or a clock of
            one's own together with `isolated`.
        ResultsDiffer: the functions do not give the same result.
        ClockTooCoarse: the clock did not move during millions of calls.
        Exception: whatever a function raises, with what was measured until then as its
            attribute `partial` (a `Comparison`).

    >>> table = compare({"sum": lambda: sum(range(50)), "more": lambda: sum(range(500)) - 123525},
    ...                 check=lambda a, b: a == b, budget_s=0.2)
    >>> table["more"].verdict
    'slower'
    """
    named = _named(functions)
    baseline = next(iter(named)) if baseline is None else baseline
    if baseline not in named:
        raise ValueError(f"the baseline {baseline!r} is not among the functions {list(named)}.")
    if margin is None:
        margin = 0.05 if isolated else 0.01
    if not 0 <= margin < 1:
        raise ValueError(f"margin is a fraction such as 0.01 for 1 %, but got {margin!r}.")
    _check_budget(budget_s)
    each = interval_confidence(confidence, len(named) - 1)
    rules = ISOLATED_RULES if isolated else RULES
    if isolated:
        if clock is not time.perf_counter or synchronize is not None:
            raise ValueError(
                "isolated=True runs the functions in other processes, which cannot use the clock "
                "or the synchronize function given here. Leave out one or the other."
            )
        from d2lperf.isolate import isolated_subjects

        opened = isolated_subjects(named)
    else:
        opened = _local_subjects(named, clock, synchronize)
    with opened as subjects:
        run = _Run(
            subjects=subjects,
            baseline=baseline,
            confidence=confidence,
            each=each,
            margin=margin,
            isolated=isolated,
            clock=clock,
            cpu_clock=cpu_clock or time.process_time,
            rng=random.Random(seed),
            rules=rules,
        )
        try:
            with _undisturbed():
                run.check(check)
                run.sample(budget_s, progress)
        except BaseException as error:
            _attach(error, run)
            raise
        return run.comparison()


def _attach(error: BaseException, run: _Run) -> None:
    """Keep what was measured on the error itself, so that nothing is lost."""
    try:
        error.partial = run.comparison(partial=True)
        if sys.version_info >= (3, 11):
            error.add_note(
                f"compare() stopped at {run.stage}; the {run.rounds_taken} rounds measured until "
                "then are in this error's attribute `partial` (in a notebook: "
                "sys.last_value.partial)."
            )
    except Exception:  # an error that takes no attributes: it still must come through
        pass


@contextmanager
def _local_subjects(named, clock, wait) -> Iterator[list[Subject]]:
    yield [Subject(name, fn, clock=clock, wait=wait) for name, fn in named.items()]


class _Run:
    """One comparison in progress: its stages in order, and the result at any moment."""

    def __init__(
        self,
        *,
        subjects,
        baseline,
        confidence,
        each,
        margin,
        isolated,
        clock,
        cpu_clock,
        rng,
        rules,
    ):
        self.subjects = subjects
        self.baseline = baseline
        self.confidence = confidence
        self.each = each
        self.margin = margin
        self.isolated = isolated
        self.clock = clock
        self.cpu_clock = cpu_clock
        self.rng = rng
        self.rules = rules
        self.began = clock()
        self.stage = "the first calls"
        self.rounds: _Rounds | None = None
        self.refusal = ""
        self.notes: list[str] = []
        self.checked = False

    @property
    def rounds_taken(self) -> int:
        return self.rounds.count if self.rounds else 0

    def check(self, check: bool | Callable) -> None:
        """Call each function once; unless told otherwise compare what they return."""
        keep = check is not False
        expected = None
        # The baseline first: every other result is compared at once and need not be kept.
        for subject in sorted(self.subjects, key=lambda s: s.name != self.baseline):
            name = subject.name
            self.stage = f"the first call of {name!r}"
            result = subject.first_result(keep)
            if name == self.baseline:
                expected = _snapshot(result)
            elif keep:
                self.stage = "the check of the results"
                _check_result(name, self.baseline, expected, result, check)
        self.checked = keep

    def sample(self, budget_s: float | None, progress: bool | None) -> None:
        """Warm up, take rounds until the intervals are narrow or the budget ends."""
        calls_s = {}
        for subject in self.subjects:
            self.stage = f"the warm-up of {subject.name!r}"
            left = self.began + budget_s - self.clock() if budget_s is not None else 10.0
            calls_s[subject.name] = subject.warm_up(max(0.0, left) / len(self.subjects))
        self.rounds = _Rounds(
            self.subjects, calls_s, self.rng, self.rules, self.clock, self.cpu_clock
        )
        needed_s = stats.min_pairs(self.each) * self._round_s(calls_s)
        ends, latest = self._deadlines(budget_s, needed_s)
        cpu, wall = self.cpu_clock(), self.clock()
        # A part of the rounds would take its time and decide nothing. (The estimate may be off.)
        if wall + needed_s > latest + max(1.0, needed_s / 2):
            self.refusal = (
                f"the rounds that an interval needs would take about {needed_s:.2g} s, more than "
                f"the budget holds: give budget_s={self._round_up(wall - self.began + needed_s)}"
            )
            return
        self.stage = "the rounds"
        with _progress(progress, max(ends, min(latest, wall + needed_s)) - wall) as show:
            self._take_rounds(ends, latest, lambda: show(self.clock() - wall))
        cpu, wall = self.cpu_clock() - cpu, self.clock() - wall
        # More processor time than wall time: thread pools are at work, and may be in each
        # other's way. Functions on one thread cannot be.
        if not self.isolated and wall > 0 and cpu > THREADED * wall:
            self.stage = "the check for thread pools that disturb each other"
            longest = max(calls_s[name] * plan.loops for name, plan in self.rounds.plans.items())
            if longest > self.rules.slow_s:
                self.notes.append(
                    "whether thread pools disturb each other is not checked for calls this long"
                )
            else:
                self.refusal = self._find_interference(self.rounds.plans)

    def _round_s(self, calls_s: dict[str, float]) -> float:
        """Seconds that a round takes."""
        return sum(
            2 * (self.rules.rest_s + calls_s[name] * (plan.settle + plan.samples * plan.loops))
            for name, plan in self.rounds.plans.items()
        )

    @staticmethod
    def _round_up(seconds: float) -> float:
        """A budget to recommend: half as much again, in a round number."""
        wanted = 1.5 * seconds
        step = 10 ** math.floor(math.log10(wanted))
        return math.ceil(wanted / step) * step

    def _deadlines(self, budget_s: float | None, needed_s: float) -> tuple[float, float]:
        """When sampling ends, and until when it goes on for want of enough rounds."""
        if budget_s is not None:
            return self.began + budget_s, self.began + budget_s
        now, k = self.clock(), len(self.subjects)
        if self.isolated:
            # Most of a round is rest; twice the fewest rounds give a fair interval.
            return now + 2 * needed_s, now + 3 * needed_s
        # The very first calls may have compiled for seconds; sampling gets its time all the same.
        ends = max(self.began + 0.33 * k, now + 0.2 * k)
        return ends, max(ends, now + min(10.0, 1.5 * needed_s))

    def _take_rounds(self, ends: float, latest: float, show: Callable[[], None]) -> None:
        rounds, rules, start = self.rounds, self.rules, stats.min_pairs(self.each)
        looks = sorted({max(look, start) for look in rules.looks})
        cpu, wall = self.cpu_clock(), self.clock()
        while True:
            counts = rounds.take()
            show()
            n, now = rounds.count, self.clock()
            # A grace for short calls, also where the warm-up took them for long ones. It is shorter
            # where several threads are at work: their check is still to come.
            short = rounds.slowest_s <= rules.long_s and not self.isolated
            threaded = self.cpu_clock() - cpu > THREADED * (now - wall)
            grace_s = rules.threaded_grace_s if threaded else rules.grace_s
            last = min(latest, ends + grace_s * len(self.subjects)) if short else latest
            if n >= looks[-1] or now >= last:
                return
            if (
                counts
                and n in looks
                and rounds.narrow(self.baseline, self.each, rules.least_half_width)
            ):
                return
            enough = n >= start and rounds.good(self.baseline) >= start
            # More time for a wide interval: its width decides, and never what it says.
            if (
                now >= ends
                and enough
                and (not short or rounds.narrow(self.baseline, self.each, rules.wide))
            ):
                return

    def _find_interference(self, plans: dict[str, Plan]) -> str:
        """Why no verdict can be given, or "" where each runs alone as it runs in turns.

        Each function is run alone for a while. One that then needs much less time than in turns,
        or runs smoothly while in turns its rounds are void again and again, was held up by the
        others. To tell that from a load that has just ended, it is put in turns once more.
        """
        rounds = self.rounds
        # Where functions are in each other's way, their own threads keep all the cores busy. Where
        # a neighbour has taken a core away, this process gets less than that.
        own_doing = rounds.void_cpu_s > OWN_SHARE * usable_cores() * rounds.void_wall_s
        stumbling = own_doing and rounds.void >= 4 and 3 * rounds.void >= rounds.count + rounds.void
        alone, smooth = {}, True
        for subject in self.subjects:
            alone[subject.name], slow_share = self._alone(subject, plans[subject.name])
            smooth = smooth and slow_share < 0.05
        slowed = self._slowed(alone, 0)
        if not slowed and not (stumbling and smooth):
            return ""
        before, void_before = rounds.count, rounds.void
        tries, ends = 0, self.clock() + self.rules.again_s
        # Beside a busy core the least number may take long: twice the time is the end of it.
        latest = ends + self.rules.again_s
        cpu, wall = self.cpu_clock(), self.clock()
        while tries < 1 or (tries < 8 and self.clock() < (latest if tries < 3 else ends)):
            rounds.take()
            tries += 1
        again = self._slowed(alone, before)
        busy = self.cpu_clock() - cpu > OWN_SHARE * usable_cores() * (self.clock() - wall)
        if slowed and again and busy:
            name, factor = again
            others = " and ".join(repr(s.name) for s in self.subjects if s.name != name)
            found = f"{name!r} takes {factor:.1f} times as long in turns with {others} as alone"
        elif stumbling and smooth and 3 * (rounds.void - void_before) >= tries:
            found = (
                f"each runs smoothly alone, but in turns {rounds.void} of "
                f"{rounds.count + rounds.void} rounds went far beyond their plan"
            )
        else:
            return ""
        return (
            f"{found}: the functions disturb each other (their thread pools, most likely). "
            "Use isolated=True, which gives each a process of its own"
        )

    def _slowed(self, alone: dict[str, float], since: int) -> tuple[str, float] | None:
        """The function that turns slow down most, with the factor, if that is above 1.3."""
        factors = {}
        for name, level in alone.items():
            turns = [min(pair) for pair in self.rounds.phases_s[name][since:]]
            if turns:
                factors[name] = stats.quartiles(turns)[0] / level
        worst = max(factors, key=factors.get, default=None)
        return (worst, factors[worst]) if worst and factors[worst] > 1.3 else None

    def _alone(self, subject: Subject, plan: Plan) -> tuple[float, float]:
        """Run one function alone: the lower quartile of its phases, the share of slow ones."""
        values = []
        plan = replace(plan, limit_s=math.inf)
        ends = self.clock() + self.rules.alone_s
        latest = ends + self.rules.alone_s
        while not values or (
            self.clock() < (latest if len(values) < 4 else ends) and len(values) < 400
        ):
            values.append(_phase_value(subject.phase(plan), self.rules.quantile))
        # The early phases may still suffer from what ran before.
        late = values[len(values) * 3 // 5 :]
        level = stats.quartiles(late)[0]
        slow = sum(value > self.rules.void_factor * level for value in late)
        return level, slow / len(late)

    def comparison(self, partial: bool = False) -> Comparison:
        """The result as it stands."""
        rounds = self.rounds
        names = [s.name for s in self.subjects]
        refusal = self.refusal
        if partial:
            refusal = f"the comparison was cut off at {self.stage}"
        return Comparison(
            names=names,
            baseline=self.baseline,
            phases_s=rounds.phases_s if rounds else {name: [] for name in names},
            # Without any round the calls of the warm-up are the best there is.
            samples={
                s.name: (rounds.samples[s.name] if rounds else []) or s.first_calls_s[1:]
                for s in self.subjects
            },
            first_calls_s={s.name: list(s.first_calls_s) for s in self.subjects},
            loops={name: plan.loops for name, plan in rounds.plans.items()} if rounds else {},
            void=rounds.void if rounds else 0,
            elapsed_s=self.clock() - self.began,
            confidence=self.confidence,
            margin=self.margin,
            isolated=self.isolated,
            checked=self.checked,
            uppers_s=rounds.uppers_s if rounds else {},
            refusal=refusal,
            notes=self.notes,
            machine=None if partial else machine_card(touch=False),
        )


@contextmanager
def _progress(wanted: bool | None, seconds: float) -> Iterator[Callable[[float], None]]:
    """A progress bar over the seconds for long measurements; nothing for short ones.

    The environment variable TQDM_DISABLE=1 turns it off; `tqdm.auto` ignores it in a kernel.
    """
    disabled = os.environ.get("TQDM_DISABLE", "") not in ("", "0")
    if wanted is False or disabled or (wanted is None and seconds <= 5):
        yield lambda passed: None
        return
    from tqdm.auto import tqdm

    total = round(seconds, 1)
    layout = "{l_bar}{bar}| {n:.1f} of at most {total:.1f} s"
    with tqdm(total=total, bar_format=layout, leave=False) as bar:
        yield lambda passed: bar.update(min(total, passed) - bar.n)
