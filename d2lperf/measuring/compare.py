"""`measure`, `compare` and `sweep`: from functions to results."""

from __future__ import annotations

import ast
import inspect
import math
import os
import random
import textwrap
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import replace
from typing import Any

from d2lperf.machine import machine_card
from d2lperf.measuring import sampling, stats
from d2lperf.measuring.equality import check_results, snapshot, unfinished
from d2lperf.measuring.results import Comparison, Measurement, Sweep
from d2lperf.measuring.sampling import Instruments, Plan, Subject, Turns, undisturbed
from d2lperf.measuring.verdict import least_rounds, precise, round_up, settled

# Default budgets are multiplied by this. The tests' kernels set it to be done sooner.
SHARE = float(os.environ.get("D2LPERF_BUDGET", 1))
BUDGET_S = 0.5 * SHARE  # of measure
# Of compare, in seconds for each function: how long we improve the precision, how long we look for
# a function that varies by itself, and when sampling ends without a verdict.
PRECISE_S, WATCH_S, LIMIT_S = 0.2 * SHARE, 0.75 * SHARE, 1.7 * SHARE
ENOUGH_ROUNDS = 64  # to see whether a function varies by itself
MOST_SLOW_S = 30.0 * SHARE  # in all, for functions so slow that few rounds fit
# Rounds after which we look whether the verdicts are known: 2, 3, 4, 6, 8, 12, ...
LOOKS = tuple(n for e in range(1, 24) for n in (2**e, 3 * 2 ** (e - 1)))


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

    To find out which of two functions is faster use `compare`: the machine's speed changes between
    two separate measurements.

    Args:
        fn: called without arguments, or with what `setup` returns. It must wait for its own result
            where its library computes in the background (torch's devices are waited for).
        name: shown in results; by default the function's name, or the code of a lambda.
        budget_s: seconds for everything, warm-up included. Two calls are made in any case.
        confidence: of the median's interval.
        setup, progress, instruments: as for `compare`.

    Returns:
        A `Measurement`, all times in seconds for one call.

    Raises:
        TypeError, ValueError, RuntimeError, Exception: as `compare`; `partial` is a `Measurement`.

    >>> measure(lambda: sum(range(100)), budget_s=0.01).name
    'sum(range(100))'
    """
    _check_callable(fn, "fn")
    _check_options(setup, budget_s, confidence)
    instruments = instruments or Instruments()
    clock = instruments.clock
    subject = Subject(name or _name_of(fn), fn, setup=setup, instruments=instruments)
    samples_s: list[float] = []
    found = Measurement(subject.name, samples_s, subject.first_calls_s, confidence=confidence)
    plan, began = Plan(0, 1, 1, math.inf), clock()

    def result() -> Measurement:
        how = {"loops": plan.loops, "samples_per_phase": plan.samples, "elapsed_s": clock() - began}
        return replace(found, machine=machine_card(touch=False), **how)

    with _kept(result), undisturbed(), _progress(progress, budget_s) as show:
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
                low, high = result().interval_s
                if high - low <= 0.02 * found.median_s:
                    break
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

    It compares lower quartiles, in rounds that seem undisturbed. The mean over many calls,
    disturbances included, is another quantity. The first call is reported separately. Sampling
    goes on until the verdicts are known; the intervals are wider to allow for it.

    Args:
        functions: name -> function (or a list of functions), each called without arguments, or
            with what `setup` returns. A function must wait for its own result where its library
            computes in the background: `.block_until_ready()` (JAX), `.asnumpy()` (MXNet),
            `.numpy()` (TensorFlow). torch's devices are waited for.
        baseline: the name that the others are compared with; the first by default.
        check: compare the results first; False to leave that out, or a function of two results
            (the baseline's first) that returns True or None where they agree, and False or raises
            where they do not.
        rtol, atol: relative and absolute tolerance of the check; 0 where only the other is given.
            With neither, those of `torch.testing.assert_close`: 1.3e-6 and 1e-5 for float32, 1e-7
            and 1e-7 for float64.
        setup: called before each sample, outside the clock, for functions that use up their input;
            a sample is then one call.
        budget_s: seconds for everything, warm-up included; a comparison that cannot be decided in
            them is refused, where possible before the warm-up. By default about half a second; up
            to 1.7 s for each function (three times that if isolated) where that does not decide,
            and up to 30 s for slow functions or slow first calls.
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
        TypeError, ValueError: fewer than two functions, or an argument that cannot be used.
        ResultsDiffer: the functions do not give the same result.
        RuntimeError: the clock did not move during a million calls.
        WorkerError, NotImplementedError: with isolated=True, as `launch`.
        Exception: whatever a function raises (and `KeyboardInterrupt`), with what was measured
            until then as its attribute `partial` (a `Comparison`).

    >>> table = compare({"sum": lambda: sum(range(50)), "more": lambda: sum(range(500)) - 123525},
    ...                 check=lambda a, b: a == b)
    >>> table["more"].verdict
    'slower'
    """
    fns = _named(functions)
    baseline = next(iter(fns)) if baseline is None else baseline
    if baseline not in fns:
        raise ValueError(f"the baseline {baseline!r} is not among the functions {list(fns)}.")
    _check_options(setup, budget_s, confidence, check, rtol, atol)
    if margin is None:
        margin = 0.05 if isolated else 0.01
    if not 0 <= margin < 1:
        raise ValueError(f"margin is a fraction such as 0.01 for 1 %, but got {margin!r}.")
    if isolated and instruments is not None:
        raise ValueError("isolated=True: other processes cannot use the instruments; omit one.")
    instruments = instruments or Instruments()
    if seed is not None:
        instruments = replace(instruments, rng=random.Random(seed))
    if isolated:
        from d2lperf.processes.isolated import isolated_subjects

        under_the_clock = isolated_subjects(fns, setup=setup)
    else:
        options = {"setup": setup, "instruments": instruments}
        under_the_clock = nullcontext([Subject(name, fn, **options) for name, fn in fns.items()])
    with under_the_clock as subjects:
        rules = sampling.ISOLATED_RULES if isolated else sampling.RULES
        turns = Turns(subjects, baseline, instruments=instruments, rules=rules)
        run = _Run(turns, Comparison(turns.kept, confidence, margin, isolated))
        with _kept(lambda: run.result(refusal="the comparison was cut off")), undisturbed():
            run.check(check, rtol, atol)
            run.sample(budget_s, progress)
        return run.result(machine=machine_card(touch=False))


def sweep(make: Callable, values: Iterable, *, label: str = "size", **options: Any) -> Sweep:
    """Compare functions for each of several values, such as sizes: one table, one figure.

    Args:
        make: takes a value and returns the functions to compare, as for `compare`.
        values: what to vary.
        label: what the values are, for the table and the figure.
        options: of `compare`, for every value.

    Returns:
        A `Sweep`; `sweep[value]` is the `Comparison` for that value. An error's attribute `partial`
        is the `Sweep` until then.
    """
    _check_callable(make, "make")
    values, done = list(values), []
    with _kept(lambda: Sweep(label, values[: len(done)], done)):
        for value in values:
            done.append(compare(make(value), **options))
    return Sweep(label, values, done)


class _Run:
    """One comparison in progress: its steps in order, and the result at any moment."""

    def __init__(self, turns: Turns, found: Comparison):
        self.turns, self.found = turns, found
        self.subjects, self.clock = turns.subjects, turns.instruments.clock
        self.began, k = self.clock(), len(self.subjects)
        self.need = least_rounds(found.confidence, k - 1)
        # Limits are seconds for each function, three times as many for one in its own process.
        self.shares = 3 * k if found.isolated else k

    def result(self, **others: Any) -> Comparison:
        """The comparison as it stands."""
        elapsed_s = self.clock() - self.began
        return replace(self.found, rounds=self.turns.rounds(), elapsed_s=elapsed_s, **others)

    def check(self, check: bool | Callable, rtol: float | None, atol: float | None) -> None:
        """Call each function once; unless told otherwise compare what they return."""
        wanted, baseline = check is not False, self.found.baseline
        # The baseline first: every other result is compared at once and need not be kept.
        for subject in sorted(self.subjects, key=lambda s: s.name != baseline):
            result = subject.first_result(wanted or not self.found.isolated)
            _warn_if_unfinished(subject.name, result)
            if wanted and subject.name == baseline:
                expected = snapshot(result)
            elif wanted:
                check_results(subject.name, baseline, expected, result, check, rtol, atol)
        self.found = replace(self.found, checked=wanted)

    def sample(self, budget_s: float | None, progress: bool | None) -> None:
        """Warm up, take rounds until the verdicts are known or the time is up."""
        ends = self.began + (math.inf if budget_s is None else budget_s)
        calls_s: dict[str, float] = {}
        # The slowest first: it decides whether the budget suffices.
        for subject in sorted(self.subjects, key=lambda s: -s.first_calls_s[0]):
            left, least_s = ends - self.clock(), 2 * self.need * sum(calls_s.values())
            if left < max(subject.first_calls_s[0] / 2, least_s):
                firsts_s = sum(s.first_calls_s[0] for s in self.subjects)
                return self._refuse(ends, max(least_s, 2 * self.need * firsts_s))
            most_s = LIMIT_S * self.shares if budget_s is None else left
            calls_s[subject.name] = subject.warm_up(most_s / (4 * len(self.subjects)))
        began = self.clock()
        self.turns.begin(calls_s, before_s=began - self.began)
        ends, needed_s = self._ends(budget_s, began), self.need * self.turns.round_s()
        if began + needed_s > ends * (1 + 1e-9):
            return self._refuse(ends, needed_s)
        with _progress(progress, ends - self.began) as show:
            threaded = self._take_rounds(budget_s, show)
        # Thread pools may be in each other's way. Functions on one thread cannot be.
        if not threaded or self.found.isolated:
            return
        plans = self.turns.plans
        if max(calls_s[name] * plans[name].loops for name in plans) > sampling.RULES.slow_s:
            note = "whether thread pools disturb each other is not checked for calls this long"
            self.found.notes.append(note)
        else:
            self.found = replace(self.found, refusal=sampling.find_interference(self.turns))

    def _ends(self, budget_s: float | None, began: float) -> float:
        """When sampling that has begun then ends: without a budget, later for slow functions."""
        if budget_s is not None:
            return self.began + budget_s
        slow_s = 3 * self.need * self.turns.round_s(quickest=True)
        after_s = max(WATCH_S * self.shares, min(slow_s, MOST_SLOW_S))
        return max(self.began + LIMIT_S * self.shares, began + after_s)

    def _refuse(self, ends: float, needed_s: float) -> None:
        """Give up before the rounds; say which budget would do."""
        now = self.clock()
        enough_s = round_up(now - self.began + 1.5 * needed_s)
        refusal = (
            f"the rounds that an interval needs take about {needed_s:.2g} s, and the budget leaves "
            f"{max(0.0, ends - now):.2g} s: budget_s={enough_s:g} should decide"
        )
        self.found = replace(self.found, refusal=refusal)

    def _take_rounds(self, budget_s: float | None, show: Callable[[float], None]) -> bool:
        """Take rounds until all is known or the time is up; were several threads at work?"""
        turns, began, cpu_clock = self.turns, self.clock(), self.turns.instruments.cpu_clock
        cpu, varied = cpu_clock(), [""] * (len(self.subjects) - 1)
        while True:
            looks = turns.take() and turns.count in LOOKS
            now = self.clock()
            threaded = cpu_clock() - cpu > sampling.THREADED * (now - began)
            show(now - self.began)
            if looks and (turns.count >= ENOUGH_ROUNDS or now >= began + WATCH_S * self.shares):
                run = self.result()
                ratios = [run[name] for name in run.names if name != run.baseline]
                narrow = now >= began + PRECISE_S * self.shares or all(map(precise, ratios))
                # A neighbour can hit one function for a while: two looks must say that it varies.
                before, varied = varied, [ratio.varies for ratio in ratios]
                sure = {*varied} <= {"", *before}
                if narrow and sure and all(settled(ratio, run.margin) for ratio in ratios):
                    return threaded
            ends = self._ends(budget_s, began)
            # Room for the check for thread pools, where there will be one.
            reserve_s = len(self.subjects) * sampling.CHECK_S if threaded else 0.0
            if now + turns.round_s() > ends - min(reserve_s, 0.2 * (ends - self.began)):
                return threaded


def _check_callable(fn: Any, what: str) -> None:
    if not callable(fn):
        kind = type(fn).__name__
        raise TypeError(f"{what} must be a function, but got {kind}; wrap the work: lambda: net(x)")


def _named(functions: Mapping[str, Callable] | Iterable[Callable]) -> dict[str, Callable]:
    """Return name -> function, or raise an error that says what is wrong."""
    wanted = 'a dictionary of functions, such as {"eager": f, "scripted": g}'
    if callable(functions) or isinstance(functions, str) or not isinstance(functions, Iterable):
        raise TypeError(f"compare takes {wanted}, but got {type(functions).__name__}.")
    if isinstance(functions, Mapping):
        pairs = [(str(name), fn) for name, fn in functions.items()]
    else:
        pairs = [(_name_of(fn), fn) for fn in functions]
    for name, fn in pairs:
        _check_callable(fn, repr(name))
    found, names = dict(pairs), [name for name, _ in pairs]
    if len(found) < len(names):
        raise ValueError(f"two functions share a name: {names}. Give {wanted}.")
    if len(found) < 2:
        raise ValueError(f"compare needs at least two functions: {names}. measure() times one.")
    return found


def _name_of(fn: Callable) -> str:
    """A function's name; of a lambda the text of its code."""
    name = getattr(fn, "__name__", None) or type(fn).__name__
    if name != "<lambda>":
        return name
    text = ""
    with suppress(OSError, TypeError, SyntaxError, ValueError):
        code, source = fn.__code__, "".join(inspect.findsource(fn)[0])
        lambdas = (node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Lambda))
        found = [node.body for node in lambdas if node.lineno == code.co_firstlineno]
        if len(found) > 1 and hasattr(code, "co_positions"):  # not before Python 3.11
            places = set(code.co_positions())
            ends = [(b.lineno, b.end_lineno, b.col_offset, b.end_col_offset) for b in found]
            found = [body for body, place in zip(found, ends) if place in places]
        text = ast.get_source_segment(source, found[0]) if len(found) == 1 else ""
    return textwrap.shorten(text, 40, placeholder="...") or "function"


def _check_options(setup, budget_s, confidence, check=True, rtol=None, atol=None) -> None:
    stats.min_pairs(confidence)  # raises an error if it is invalid
    if setup is not None:
        _check_callable(setup, "setup")
    if budget_s is not None and not budget_s > 0:
        raise ValueError(f"budget_s is a time in seconds above 0, but got {budget_s!r}.")
    if not isinstance(check, bool) and not callable(check):
        wanted = "True, False or a function of two results (tolerances are rtol= and atol=)"
        raise TypeError(f"check must be {wanted}, but got {check!r}.")
    if check is not True and (rtol, atol) != (None, None):
        raise ValueError("rtol and atol belong to check=True; a check of your own has its own.")
    for name, value in {"rtol": rtol, "atol": atol}.items():
        if value is not None and not value >= 0:
            raise ValueError(f"{name} must be a number of 0 or more, but got {value!r}.")


def _warn_if_unfinished(name: str, result: Any) -> None:
    if unfinished(result):
        warnings.warn(
            f"{name!r} returns before its result is computed, so that only the start of the work "
            "is timed. Wait in the function: .block_until_ready() for JAX, .asnumpy() for MXNet.",
            stacklevel=4,
        )


@contextmanager
def _kept(result: Callable[[], Any]) -> Iterator[None]:
    """Attach what was measured to an error that comes through, so that nothing is lost."""
    try:
        yield
    except BaseException as error:
        with suppress(Exception):  # an error that takes no attributes: it still must come through
            error.partial = result()
            where = "this error's attribute `partial` (in a notebook: sys.last_value.partial)"
            error.add_note(f"What was measured until then is in {where}.")  # since Python 3.11
        raise


@contextmanager
def _progress(wanted: bool | None, seconds: float) -> Iterator[Callable[[float], None]]:
    """A progress bar over the seconds, by default from the first second on."""
    total, bars = round(seconds, 1), []
    # tqdm.auto ignores the variable in a notebook's kernel.
    off = wanted is False or os.environ.get("TQDM_DISABLE", "") not in ("", "0")

    def show(passed: float) -> None:
        if not off and not bars and (wanted or passed > 1):
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
