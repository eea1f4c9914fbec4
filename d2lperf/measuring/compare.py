"""`measure`, `compare` and `sweep`: from functions to results."""

from __future__ import annotations

import math
import random
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any

from d2lperf.machine import machine_card
from d2lperf.measuring import arguments, sampling
from d2lperf.measuring.builds import Builds
from d2lperf.measuring.defaults import BUDGET_S, CONFIDENCE, ISOLATED_MARGIN, MARGIN
from d2lperf.measuring.equality import warn_if_unfinished
from d2lperf.measuring.instruments import Instruments, instruments
from d2lperf.measuring.neighbours import Neighbours
from d2lperf.measuring.results import Comparison, Measurement
from d2lperf.measuring.running import LOOKS, Run
from d2lperf.measuring.sampling import Plan, Subject, Turns
from d2lperf.measuring.sweeps import Sweep
from d2lperf.measuring.undisturbed import undisturbed
from d2lperf.progress import progress_bar


def measure(
    fn: Callable[..., Any],
    *,
    name: str | None = None,
    setup: Callable[[], Any] | None = None,
    budget_s: float = BUDGET_S,
    threads: int | None = None,
    confidence: float = CONFIDENCE,
    progress: bool | None = None,
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
        setup, threads, progress: as for `compare`.

    Returns:
        A `Measurement`, all times in seconds for one call.

    Raises:
        TypeError, ValueError, RuntimeError, Exception: as `compare`; `partial` is a `Measurement`.

    >>> measure(lambda: sum(range(100)), budget_s=0.01).name
    'sum(range(100))'
    """
    arguments.check_callable(fn, "fn")
    arguments.check_setup(setup)
    arguments.check_budget(budget_s, confidence, threads)
    tools = instruments()
    clock = tools.clock
    subject = Subject(name or arguments.name_of(fn), fn, setup=setup, tools=tools)
    samples_s: list[float] = []
    found = Measurement(subject.name, samples_s, subject.first_calls_s, confidence=confidence)
    plan, began, neighbours = Plan(0, 1, 1, math.inf), clock(), Neighbours(tools)

    def so_far() -> Measurement:
        return replace(found, loops=plan.loops, samples_per_phase=plan.samples)

    def result() -> Measurement:
        return replace(
            so_far(),
            elapsed_s=clock() - began,
            machine=machine_card(touch=False),
            others_cores=neighbours.cores_busy,
            notes=neighbours.notes(),
        )

    with _kept(result), undisturbed(threads), progress_bar(budget_s, progress) as show:
        warn_if_unfinished(subject.name, subject.call(), stacklevel=2)
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
                low, high = so_far().interval_s
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
    build: bool = False,
    budget_s: float | None = None,
    threads: int | None = None,
    isolated: bool = False,
    margin: float | None = None,
    confidence: float = CONFIDENCE,
    seed: int | None = None,
    progress: bool | None = None,
) -> Comparison:
    """Tell which of several functions is faster and by how much, with an interval and a verdict.

    The interval decides among the verdicts:

    * *faster* or *slower*: the whole interval lies beyond the margin (2 % by default).
    * *no difference above X %*: otherwise, if neither end is farther than 5 % from 1 (or than the
      margin, if that is larger). X is the end that is farther from 1, rounded up.
    * *not decided*: anything else. The reason says why, and which budget would decide.

    A narrower interval inside another one says at least as much: X is at most as large, and
    *faster* or *slower* stays.

    It compares the second quickest of a few samples, in rounds that seem undisturbed. The mean over
    many calls, disturbances included, is another quantity. The first call is reported separately.
    Sampling goes on until a difference is shown, or none above the margin, or the budget ends; the
    intervals are wider to allow for it.

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
            a sample is then one call. Where it returns None, they are called without an argument.
        build: each value is a function that *makes* the function to be timed, such as a network
            with weights of its own. It is made anew for each block of rounds, and the interval
            covers how builds differ. Needed to compare programs: without it, a difference of up to
            2 % may come from where the weights of these two copies lie in memory. Only one build
            is alive at a time; results are compared for the first.
        budget_s: seconds for everything, warm-up included; a comparison that cannot be decided in
            them is refused, where possible before the warm-up. By default about half a second; up
            to 1.7 s for each function (three times that if isolated) where that does not decide,
            and up to 30 s for slow functions or slow first calls.
        threads: torch's threads inside of an operation; by default as many as now. Functions with
            several threads cannot be compared beside processes that keep the cores busy.
        isolated: run each function in a process of its own; for functions whose thread pools
            disturb each other. Takes seconds more, and is less precise.
        margin: a difference smaller than this fraction does not count. By default 0.02, or
            0.05 where functions are isolated.
        confidence: that all the intervals against the baseline hold together.
        seed: of the random orders; drawn anew by default.
        progress: show a progress bar; by default after a second.

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
    fns = arguments.named(functions)
    baseline = next(iter(fns)) if baseline is None else str(baseline)  # as their names
    if baseline not in fns:
        raise ValueError(f"the baseline {baseline!r} is not among the functions {list(fns)}.")
    arguments.check_setup(setup)
    arguments.check_budget(budget_s, confidence, threads)
    arguments.check_of_results(check, rtol, atol)
    if margin is None:
        margin = ISOLATED_MARGIN if isolated else MARGIN
    arguments.check_margin(margin)
    if isolated and build:
        raise ValueError(
            "build=True makes functions anew in this process, and isolated=True keeps each in a "
            "process of its own: choose one of them."
        )
    tools = instruments()
    if seed is not None:
        tools = replace(tools, rng=random.Random(seed))
    builds = Builds(fns, tools.rng) if build else None
    with undisturbed(threads), _under_the_clock(fns, builds, setup, isolated, tools) as subjects:
        rules = sampling.RULES
        if isolated:
            rules, tools = sampling.ISOLATED_RULES, _of_workers(tools, subjects)
        turns = Turns(subjects, baseline, tools=tools, rules=rules)
        turns.kept = replace(turns.kept, uses_up_input=setup is not None)
        run = Run(turns, Comparison(turns.kept, confidence, margin, isolated), builds)
        with _kept(lambda: run.result(refusal="the comparison was cut off")):
            run.check(check, rtol, atol, stacklevel=2)
            run.sample(budget_s, progress)
        return run.result(machine=machine_card(touch=False))


@contextmanager
def _under_the_clock(
    fns: dict[str, Callable],
    builds: Builds | None,
    setup: Callable | None,
    isolated: bool,
    tools: Instruments,
) -> Iterator[list[Subject]]:
    """Yield the functions as subjects: as they are, made anew, or each in its own process."""
    if isolated:
        if "processes" not in sampling.APART:
            raise RuntimeError("isolated=True needs processes: import d2lperf.processes.isolated.")
        with sampling.APART["processes"](fns, setup=setup) as subjects:
            yield subjects
        return
    given = fns if builds is None else builds.first()
    subjects = [Subject(name, fn, setup=setup, tools=tools) for name, fn in given.items()]
    if builds is None:
        yield subjects
        return
    del given  # nothing but the subjects may keep a build alive
    with builds.collected():
        yield subjects


def _of_workers(tools: Instruments, subjects: Sequence[Any]) -> Instruments:
    """The clocks of functions in processes of their own: what these have used, not this one."""

    def all_of(what: str) -> Callable[[], float]:
        return lambda: sum(getattr(subject.used, what) for subject in subjects)

    return replace(
        tools,
        cpu_clock=all_of("cpu_s"),
        thread_clock=all_of("thread_s"),
        waiting_clock=all_of("waiting_s"),
        work_clock=all_of("work_s"),
    )


def sweep(make: Callable, values: Iterable, *, label: str = "size", **options: Any) -> Sweep:
    """Compare functions for each of several values, such as sizes: one table, one figure.

    Args:
        make: takes a value and returns the functions to compare, as for `compare`.
        values: what to vary: numbers, or anything else, such as dtypes or pairs of sizes.
        label: what the values are, for the table and the figure.
        options: of `compare`, for every value.

    Returns:
        A `Sweep`; `sweep[value]` is the `Comparison` for that value. An error's attribute `partial`
        is the `Sweep` until then.
    """
    arguments.check_callable(make, "make")
    values = list(values)
    done: list[Comparison] = []
    with _kept(lambda: Sweep(label, values[: len(done)], done)):
        for value in values:
            done.append(compare(make(value), **options))
    return Sweep(label, values, done)


@contextmanager
def _kept(result: Callable[[], Any]) -> Iterator[None]:
    """Attach what was measured to an error that comes through, so that nothing is lost."""
    try:
        yield
    except BaseException as error:
        with suppress(Exception):  # an error that takes no attributes: it still must come through
            _attach(result(), error)
        raise


def _attach(found: Any, error: Any) -> None:
    """Attach what was measured; say it below the traceback, so that nobody has to catch it."""
    if hasattr(error, "partial"):  # of an inner call, which has said so
        error.partial = found
        return
    error.partial = found
    where = "this error's attribute `partial` (in a notebook: sys.last_value.partial)"
    text = f"What was measured until then is in {where}:\n{found}"
    if hasattr(error, "add_note"):  # since Python 3.11
        error.add_note(text)
    elif isinstance(error, KeyboardInterrupt):
        print(text, file=sys.stderr)
