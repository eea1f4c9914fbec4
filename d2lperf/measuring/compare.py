"""`measure`, `compare` and `sweep`: from functions to results.

`compare` checks that the results are equal, warms up, and takes rounds until the verdicts are
known. It looks at 2, 3, 4, 6, 8, 12, ... rounds, and the intervals allow for so many looks.
"""

from __future__ import annotations

import math
import os
import random
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any

from d2lperf.machine import machine_card
from d2lperf.measuring import stats
from d2lperf.measuring.equality import ResultsDiffer, check_results, snapshot, unfinished
from d2lperf.measuring.interference import CHECK_S, THREADED, find_interference
from d2lperf.measuring.naming import check_callable, name_of, named
from d2lperf.measuring.results import Comparison, Measurement, Sweep
from d2lperf.measuring.sampling import (
    ISOLATED_RULES,
    RULES,
    Instruments,
    Subject,
    Turns,
    undisturbed,
)
from d2lperf.measuring.verdict import Rounds, judge, least_rounds, precise, round_up, settled

__all__ = ["ResultsDiffer", "compare", "measure", "sweep"]

# Default budgets are multiplied by this. The tests' kernels set it to be done sooner.
SHARE = float(os.environ.get("D2LPERF_BUDGET", 1))
BUDGET_S = 0.5 * SHARE  # of measure
# Of compare, in seconds for each function: until when precision is improved, for how long a
# function that varies by itself is looked for, and when sampling ends without a verdict.
PRECISE_S, WATCH_S, LIMIT_S = 0.3 * SHARE, 0.75 * SHARE, 1.7 * SHARE
ENOUGH_ROUNDS = 64  # to see whether a function varies by itself
MOST_SLOW_S = 30.0 * SHARE  # in all, for functions so slow that few rounds fit

LOOKS = tuple(n for e in range(1, 24) for n in (2**e, 3 * 2 ** (e - 1)))  # 2, 3, 4, 6, 8, 12, ...


def measure(
    fn: Callable[..., Any],
    *,
    name: str | None = None,
    setup: Callable[[], Any] | None = None,
    budget_s: float = BUDGET_S,
    confidence: float = 0.95,
    progress: bool | None = None,
    instruments: Instruments | None = None,
) -> Measurement:
    """Time one function: first calls apart, then short samples until the median is known to 1 %.

    To find out which of two functions is faster use `compare`: two measurements taken one after
    the other meet different machines.

    Args:
        fn: called without arguments, or with what `setup` returns. It must wait for its own result
            where its library computes in the background (torch's devices are waited for).
        name: shown in results; by default the function's name, or the code of a lambda.
        setup: called before each sample, outside the clock, for a function that uses up its input;
            a sample is then one call.
        budget_s: seconds for everything, warm-up included. Two calls are made in any case.
        confidence: of the median's interval.
        progress: show a progress bar; by default after a second.
        instruments: clocks and synchronisation, for tests.

    Returns:
        A `Measurement`, all times in seconds for one call.

    Raises:
        TypeError: `fn` or `setup` cannot be called.
        ValueError: a budget of 0 or less, or a confidence outside 0 to 1.
        RuntimeError: the clock did not move during a million calls.
        Exception: whatever `fn` raises (and `KeyboardInterrupt`), with what was measured until
            then as its attribute `partial` (a `Measurement`).

    >>> measure(lambda: sum(range(100)), budget_s=0.01).name
    'sum(range(100))'
    """
    check_callable(fn, "fn")
    _check_options(setup, budget_s)
    stats.min_pairs(confidence)  # complains about one that cannot be
    instruments = instruments or Instruments()
    clock = instruments.clock
    subject = Subject(name or name_of(fn), fn, setup=setup, instruments=instruments)
    samples_s: list[float] = []
    plan, began = None, clock()

    def result() -> Measurement:
        return Measurement(
            name=subject.name,
            samples_s=samples_s,
            first_calls_s=subject.first_calls_s,
            loops=plan.loops if plan else 1,
            samples_per_phase=plan.samples if plan else 1,
            confidence=confidence,
            elapsed_s=clock() - began,
            machine=machine_card(touch=False),
        )

    try:
        with undisturbed(), _progress(progress, budget_s) as show:
            _warn_if_unfinished(subject.name, subject.call())
            ends = began + budget_s
            call_s, left = subject.first_calls_s[0], ends - clock()
            if call_s < left:
                call_s = subject.warm_up(left / 3)
            # A phase that runs away is a disturbance to compare(), but part of the spread here.
            plan = replace(subject.plan(call_s), limit_s=math.inf)
            left = ends - clock()
            if call_s * plan.calls > left:
                fit = max(1, min(plan.samples, int(left / (call_s * plan.loops))))
                plan = replace(plan, settle=0, samples=fit)
            while True:
                started = clock()
                samples_s += subject.phase(plan)
                now = clock()
                show(now - began)
                # No phase is begun that would end after the budget.
                if now + min(now - started, call_s * plan.calls) > ends:
                    break
                if len(samples_s) // plan.samples in LOOKS[4:]:
                    found = result()
                    low, high = found.interval_s
                    if high - low <= 0.02 * found.median_s:
                        break
    except BaseException as error:
        _attach(error, result, f"measure() stopped after {len(samples_s)} samples")
        raise
    return result()


def compare(
    functions: Mapping[str, Callable[..., Any]] | Iterable[Callable[..., Any]],
    *,
    baseline: str | None = None,
    check: bool | Callable[[Any, Any], Any] = True,
    rtol: float | None = None,
    atol: float | None = None,
    setup: Callable[[], Any] | None = None,
    budget_s: float | None = None,
    isolated: bool = False,
    margin: float | None = None,
    confidence: float = 0.95,
    seed: int | None = None,
    progress: bool | None = None,
    instruments: Instruments | None = None,
) -> Comparison:
    """Tell which of several functions is faster and by how much, with an interval.

    Compared are *quiet levels*: what a call takes after the warm-up when nothing disturbs it. A
    mean over many calls, with all that neighbours do to it, is another quantity; so is the first
    call, which is reported apart. Sampling goes on until the verdicts are known.

    Args:
        functions: name -> function (or a list of functions), each called without arguments, or
            with what `setup` returns. A function must wait for its own result where its library
            computes in the background: `.block_until_ready()` (JAX), `.asnumpy()` (MXNet),
            `.numpy()` (TensorFlow). torch's devices are waited for.
        baseline: the name that the others are compared with; the first by default.
        check: compare the results first; False to leave that out, or a function of two results
            (the baseline's first) that returns True or None where they agree, and False or raises
            where they do not.
        rtol: relative tolerance of the check; 0 where only `atol` is given. With neither, those of
            `torch.testing.assert_close`: 1.3e-6 and 1e-5 for float32, 1e-7 and 1e-7 for float64.
        atol: absolute tolerance of the check; 0 where only `rtol` is given.
        setup: called before each sample, outside the clock, for functions that use up their input;
            a sample is then one call.
        budget_s: seconds for everything, warm-up included; a comparison that cannot be decided in
            them is refused, where possible before the warm-up. By default about half a second, up
            to 4 s where that does not decide, and up to 30 s for very slow functions.
        isolated: run each function in a process of its own; for functions whose thread pools
            disturb each other. Takes seconds more, and is less precise.
        margin: a difference smaller than this fraction does not count. By default 0.01, or
            0.05 where functions are isolated.
        confidence: that all the intervals against the baseline hold together.
        seed: of the random orders; drawn anew by default.
        progress: show a progress bar; by default after a second.
        instruments: clocks, synchronisation and random generator, for tests.

    Returns:
        A `Comparison`; `comparison["name"]` is the `Ratio` to the baseline.

    Raises:
        TypeError: something that cannot be called, or a `check` that is neither a bool nor a
            function.
        ValueError: fewer than two functions, an unknown baseline, a bad number, or instruments
            together with `isolated`.
        ResultsDiffer: the functions do not give the same result.
        RuntimeError: the clock did not move during a million calls.
        Exception: whatever a function raises (and `KeyboardInterrupt`), with what was measured
            until then as its attribute `partial` (a `Comparison`).

    >>> table = compare({"sum": lambda: sum(range(50)), "more": lambda: sum(range(500)) - 123525},
    ...                 check=lambda a, b: a == b)
    >>> table["more"].verdict
    'slower'
    """
    fns = named(functions)
    baseline = next(iter(fns)) if baseline is None else baseline
    if baseline not in fns:
        raise ValueError(f"the baseline {baseline!r} is not among the functions {list(fns)}.")
    _check_options(setup, budget_s)
    _check_check(check, rtol, atol)
    if margin is None:
        margin = 0.05 if isolated else 0.01
    if not 0 <= margin < 1:
        raise ValueError(f"margin is a fraction such as 0.01 for 1 %, but got {margin!r}.")
    stats.simultaneous_confidence(confidence, len(fns) - 1)  # complains about a bad one
    if isolated and instruments is not None:
        raise ValueError(
            "isolated=True runs the functions in other processes, which cannot use the instruments "
            "given here. Leave out one or the other."
        )
    instruments = instruments or Instruments()
    if seed is not None:
        instruments = replace(instruments, rng=random.Random(seed))
    with _subjects(fns, setup, isolated, instruments) as subjects:
        run = _Run(subjects, baseline, confidence, margin, isolated, instruments)
        try:
            with undisturbed():
                run.check(check, rtol, atol)
                run.sample(budget_s, progress)
        except BaseException as error:
            at = f"{run.stage}; {run.count} rounds were measured until then"
            _attach(error, lambda: run.comparison(partial=True), f"compare() stopped at {at}")
            raise
        return run.comparison()


def sweep(
    make: Callable[[Any], Mapping[str, Callable[..., Any]]],
    values: Iterable[Any],
    *,
    label: str = "size",
    **options: Any,
) -> Sweep:
    """Compare functions for each of several values, such as sizes: one table, one figure.

    Args:
        make: takes a value and returns the functions to compare, as for `compare`.
        values: what to vary.
        label: what the values are, for the table and the figure.
        options: of `compare`, for every value.

    Returns:
        A `Sweep`; `sweep[value]` is the `Comparison` for that value.

    Raises:
        TypeError: `make` cannot be called.
        Exception: as `compare`; its attribute `partial` is the `Sweep` until then.
    """
    check_callable(make, "make")
    values, done = list(values), []
    try:
        for value in values:
            done.append(compare(make(value), **options))
    except BaseException as error:
        part = Sweep(label, values[: len(done)], done)
        _attach(error, lambda: part, f"sweep() stopped at {label} {values[len(done)]!r}")
        raise
    return Sweep(label, values, done)


@contextmanager
def _subjects(
    fns: dict[str, Callable], setup: Callable | None, isolated: bool, instruments: Instruments
) -> Iterator[list[Subject]]:
    """The functions under the clock, here or each in a process of its own."""
    if isolated:
        from d2lperf.processes.isolated import isolated_subjects

        with isolated_subjects(fns, setup=setup) as subjects:
            yield subjects
    else:
        yield [Subject(name, fn, setup=setup, instruments=instruments) for name, fn in fns.items()]


class _Run:
    """One comparison in progress: its stages in order, and the result at any moment."""

    def __init__(
        self,
        subjects: list[Subject],
        baseline: str,
        confidence: float,
        margin: float,
        isolated: bool,
        instruments: Instruments,
    ):
        self.subjects, self.baseline, self.isolated = subjects, baseline, isolated
        self.confidence, self.margin = confidence, margin
        self.instruments, self.clock = instruments, instruments.clock
        self.rules = ISOLATED_RULES if isolated else RULES
        self.began = self.clock()
        self.stage = "the first calls"
        self.turns: Turns | None = None
        self.refusal, self.notes, self.checked = "", [], False

    @property
    def count(self) -> int:
        """Rounds that were kept so far."""
        return self.turns.count if self.turns else 0

    def check(self, check: bool | Callable, rtol: float | None, atol: float | None) -> None:
        """Call each function once; unless told otherwise compare what they return."""
        wanted = check is not False
        expected = None
        # The baseline first: every other result is compared at once and need not be kept.
        for subject in sorted(self.subjects, key=lambda s: s.name != self.baseline):
            name = subject.name
            self.stage = f"the first call of {name!r}"
            result = subject.first_result(wanted or not self.isolated)
            _warn_if_unfinished(name, result)
            if not wanted:
                continue
            if name == self.baseline:
                expected = snapshot(result)
            else:
                self.stage = "the check of the results"
                check_results(name, self.baseline, expected, result, check, rtol, atol)
        self.checked = wanted

    def sample(self, budget_s: float | None, progress: bool | None) -> None:
        """Warm up, take rounds until the verdicts are known or the time is up."""
        k = len(self.subjects)
        need = least_rounds(self.confidence, k - 1)
        ends = self.began + (math.inf if budget_s is None else budget_s)
        calls_s: dict[str, float] = {}
        # The slowest first: it decides whether the budget suffices.
        for subject in sorted(self.subjects, key=lambda s: -s.first_calls_s[0]):
            self.stage = f"the warm-up of {subject.name!r}"
            left = ends - self.clock()
            least_s = 2 * need * sum(calls_s.values())
            if left < max(subject.first_calls_s[0] / 2, least_s):
                firsts = sum(s.first_calls_s[0] for s in self.subjects)
                self._refuse(ends, max(least_s, 2 * need * firsts))
                return
            calls_s[subject.name] = subject.warm_up(left / (4 * k))
        self.turns = Turns(
            self.subjects,
            calls_s,
            self.baseline,
            instruments=self.instruments,
            rules=self.rules,
            before_s=self.clock() - self.began,
        )
        now, needed_s = self.clock(), need * self.turns.round_s
        if budget_s is None:
            ends = self._default_end(now)
        if now + needed_s > ends * (1 + 1e-9):
            self._refuse(ends, needed_s)
            return
        self.stage = "the rounds"
        cpu, wall = self.instruments.cpu_clock(), self.clock()
        with _progress(progress, ends - self.began) as show:
            self._take_rounds(None if budget_s is None else ends, show)
        # More processor time than wall time: thread pools are at work, and may be in each
        # other's way. Functions on one thread cannot be.
        if self._threaded(cpu, wall) and not self.isolated:
            self.stage = "the check for thread pools that disturb each other"
            if max(calls_s[n] * p.loops for n, p in self.turns.plans.items()) > self.rules.slow_s:
                self.notes.append(
                    "whether thread pools disturb each other is not checked for calls this long"
                )
            else:
                self.refusal = find_interference(self.turns, self.instruments)

    def _default_end(self, began: float) -> float:
        """When sampling that has begun then ends without a budget: later for slow functions."""
        k = len(self.subjects)
        slow_s = 3 * least_rounds(self.confidence, k - 1) * self.turns.quickest_round_s
        return began + max(LIMIT_S * k * (3 if self.isolated else 1), min(slow_s, MOST_SLOW_S))

    def _refuse(self, ends: float, needed_s: float) -> None:
        """Give up before the rounds; say which budget would do."""
        passed = self.clock() - self.began
        left = max(0.0, ends - self.clock())
        self.refusal = (
            f"the rounds that an interval needs take about {needed_s:.2g} s, and the budget leaves "
            f"{left:.2g} s: budget_s={round_up(passed + 1.5 * needed_s):g} should decide"
        )

    def _threaded(self, cpu: float, wall: float) -> bool:
        """Whether several threads have been at work since these readings of the clocks."""
        return self.instruments.cpu_clock() - cpu > THREADED * (self.clock() - wall)

    def _take_rounds(self, given: float | None, show: Callable[[float], None]) -> None:
        turns, k, began = self.turns, len(self.subjects), self.clock()
        slower = 3 if self.isolated else 1
        precise_at = began + PRECISE_S * k * slower
        watched_at = began + WATCH_S * k * slower
        cpu = self.instruments.cpu_clock()
        while True:
            looks = turns.take() and turns.count in LOOKS
            now = self.clock()
            show(now - self.began)
            if looks and (turns.count >= ENOUGH_ROUNDS or now >= watched_at):
                found = self._found()
                narrow = now >= precise_at or all(map(precise, found))
                if narrow and all(settled(each, self.margin) for each in found):
                    return
            ends = self._default_end(began) if given is None else given
            # Room for the check for thread pools, where there will be one.
            reserve = k * CHECK_S if self._threaded(cpu, began) else 0.0
            reserve = min(reserve, 0.2 * (ends - self.began))
            if now + turns.round_s > ends - reserve:
                return

    def _found(self) -> list:
        rounds = self.turns.rounds()
        options = {"confidence": self.confidence, "margin": self.margin}
        others = [name for name in rounds.names if name != self.baseline]
        return [
            judge(rounds, name, self.baseline, intervals=len(others), **options) for name in others
        ]

    def comparison(self, partial: bool = False) -> Comparison:
        """The result as it stands."""
        names = [s.name for s in self.subjects]
        if self.turns:
            rounds = self.turns.rounds()
        else:
            empty = [{name: [] for name in names} for _ in range(3)]
            calls = {s.name: list(s.first_calls_s) for s in self.subjects}
            rounds = Rounds(names, self.baseline, *empty, calls, {})
        # Without any round the calls of the warm-up are the best there is.
        samples_s = {
            name: rounds.samples_s[name] or calls[1:] or calls
            for name, calls in rounds.first_calls_s.items()
        }
        cut_off = f"the comparison was cut off at {self.stage}"
        return Comparison(
            rounds=replace(rounds, samples_s=samples_s),
            confidence=self.confidence,
            margin=self.margin,
            isolated=self.isolated,
            checked=self.checked,
            elapsed_s=self.clock() - self.began,
            refusal=cut_off if partial else self.refusal,
            notes=self.notes,
            machine=None if partial else machine_card(touch=False),
        )


def _check_options(setup: Any, budget_s: Any) -> None:
    if setup is not None:
        check_callable(setup, "setup")
    if budget_s is not None and not budget_s > 0:
        raise ValueError(f"budget_s is a time in seconds above 0, but got {budget_s!r}.")


def _check_check(check: Any, rtol: Any, atol: Any) -> None:
    if not isinstance(check, bool) and not callable(check):
        raise TypeError(
            "check must be True, False or a function of two results, but got "
            f"{check!r}. Tolerances are given by rtol= and atol=."
        )
    if check is not True and (rtol, atol) != (None, None):
        raise ValueError("rtol and atol belong to check=True; a check of your own has its own.")
    for name, value in (("rtol", rtol), ("atol", atol)):
        if value is not None and not value >= 0:
            raise ValueError(f"{name} must be a number of 0 or more, but got {value!r}.")


def _warn_if_unfinished(name: str, result: Any) -> None:
    if unfinished(result):
        warnings.warn(
            f"{name!r} returns before its result is computed, so that only the start of the work "
            "is timed. Wait in the function: .block_until_ready() for JAX, .asnumpy() for MXNet.",
            UserWarning,
            stacklevel=4,
        )


def _attach(error: BaseException, result: Callable[[], Any], note: str) -> None:
    """Keep what was measured on the error itself, so that nothing is lost."""
    with suppress(Exception):  # an error that takes no attributes: it still must come through
        error.partial = result()
        if sys.version_info >= (3, 11):
            error.add_note(
                f"{note}. What was measured is in this error's attribute `partial` (in a notebook: "
                "sys.last_value.partial)."
            )


@contextmanager
def _progress(wanted: bool | None, seconds: float) -> Iterator[Callable[[float], None]]:
    """A progress bar over the seconds, by default from the first second on.

    The environment variable TQDM_DISABLE=1 turns it off; `tqdm.auto` ignores it in a kernel.
    """
    if wanted is False or os.environ.get("TQDM_DISABLE", "") not in ("", "0"):
        yield lambda passed: None
        return
    total, bars = round(seconds, 1), []

    def show(passed: float) -> None:
        if not bars and (wanted or passed > 1):
            from tqdm.auto import tqdm

            layout = "{l_bar}{bar}| {n:.1f} of at most {total:.1f} s"
            bars.append(tqdm(total=total, bar_format=layout, leave=False))
        for bar in bars:
            bar.update(min(total, passed) - bar.n)

    try:
        yield show
    finally:
        for bar in bars:
            bar.close()
