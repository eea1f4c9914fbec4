"""One comparison in progress: its steps in order, and the result at any moment."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from d2lperf.measuring import neighbours
from d2lperf.measuring.builds import ROUNDS, Builds
from d2lperf.measuring.defaults import LIMIT_S, MOST_SLOW_S, PRECISE_S, WATCH_S
from d2lperf.measuring.equality import check_results, snapshot, warn_if_unfinished
from d2lperf.measuring.interference import CHECK_S, find_interference
from d2lperf.measuring.judging import least_builds, least_rounds, precise, round_up, settled
from d2lperf.measuring.results import Comparison
from d2lperf.measuring.sampling import RULES, Turns
from d2lperf.measuring.verdict import Ratio
from d2lperf.progress import progress_bar

ENOUGH_ROUNDS = 64  # to see whether a function varies by itself
# Rounds after which we look whether the verdicts are known: 2, 3, 4, 6, 8, 12, ...
LOOKS = tuple(n for e in range(1, 24) for n in (2**e, 3 * 2 ** (e - 1)))


class Run:
    """Takes a comparison from the first calls to its result."""

    def __init__(self, turns: Turns, found: Comparison, builds: Builds | None = None):
        self.turns, self.found, self.builds = turns, found, builds
        self.subjects, self.clock = turns.subjects, turns.instruments.clock
        self.began, k = self.clock(), len(self.subjects)
        self.need = least_rounds(found.confidence, k - 1)
        if builds is not None:
            self.need = ROUNDS * least_builds(found.confidence, k - 1)
            turns.build = builds.count
        # Limits are seconds for each function, three times as many for one in its own process.
        self.shares = 3 * k if found.isolated else k
        self.build_s = 0.0  # seconds that the last build took
        # Seen from here on, and anew from the first round on: first calls have other threads.
        self.neighbours = neighbours.Neighbours(turns.instruments)
        self._next_look = 0

    def result(self, **others: Any) -> Comparison:
        """The comparison as it stands."""
        elapsed_s = self.clock() - self.began
        return replace(self.found, rounds=self.turns.rounds(), elapsed_s=elapsed_s, **others)

    def check(
        self, check: bool | Callable, rtol: float | None, atol: float | None, stacklevel: int
    ) -> None:
        """Call each function once; unless told otherwise compare what they return."""
        wanted, baseline = check is not False, self.found.baseline
        # The baseline first: every other result is compared at once and need not be kept.
        for subject in sorted(self.subjects, key=lambda s: s.name != baseline):
            result = subject.first_result(wanted or not self.found.isolated)
            warn_if_unfinished(subject.name, result, stacklevel + 1)
            if wanted and subject.name == baseline:
                expected = snapshot(result)
            elif wanted:
                check_results(subject.name, baseline, expected, result, check, rtol, atol)
        self.found = replace(self.found, checked=wanted)

    def sample(self, budget_s: float | None, progress: bool | None) -> None:
        """Warm up, take rounds until the verdicts are known or the time is up."""
        calls_s = self._warm_up(budget_s)
        ends = self._planned(calls_s, budget_s) if calls_s else None
        if ends is None:
            return self._note_neighbours()
        self.neighbours = neighbours.Neighbours(self.turns.instruments)
        with progress_bar(ends - self.began, progress) as show:
            self._take_rounds(budget_s, show)
        self._note_neighbours()
        self._check_thread_pools(calls_s)

    # -------------------------------------------------------------------- before the rounds

    def _warm_up(self, budget_s: float | None) -> dict[str, float]:
        """Estimate the seconds of a call of each function; nothing if the budget is too small."""
        ends = self.began + (math.inf if budget_s is None else budget_s)
        calls_s: dict[str, float] = {}
        # The slowest first: it decides whether the budget suffices.
        for subject in sorted(self.subjects, key=lambda s: -s.first_calls_s[0]):
            left, least_s = ends - self.clock(), 2 * self.need * sum(calls_s.values())
            if left < max(subject.first_calls_s[0] / 2, least_s):
                firsts_s = sum(s.first_calls_s[0] for s in self.subjects)
                self._refuse(ends, max(least_s, 2 * self.need * firsts_s))
                return {}
            most_s = LIMIT_S * self.shares if budget_s is None else left
            calls_s[subject.name] = subject.warm_up(most_s / (4 * len(self.subjects)))
        return calls_s

    def _planned(self, calls_s: dict[str, float], budget_s: float | None) -> float | None:
        """Plan the rounds; return when they end, or None if the budget is too small for them."""
        began = self.clock()
        self.turns.begin(calls_s, before_s=began - self.began)
        ends, needed_s = self._ends(budget_s, began), self._needed_s()
        if began + needed_s > ends * (1 + 1e-9):
            self._refuse(ends, needed_s)
            return None
        return ends

    def _needed_s(self, quickest: bool = False) -> float:
        """Seconds of the rounds, and of the builds, that an interval needs."""
        builds = 0 if self.builds is None else self.need // ROUNDS
        return self.need * self.turns.round_s(quickest) + builds * self.build_s

    def _ends(self, budget_s: float | None, began: float) -> float:
        """When sampling that has begun then ends: without a budget, later for slow functions."""
        if budget_s is not None:
            return self.began + budget_s
        slow_s = 3 * self._needed_s(quickest=True)
        if self.neighbours.refusal():
            slow_s = 0.0  # a neighbour makes them slow: more time would not give a verdict
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

    # ------------------------------------------------------------------------------- rounds

    def _take_rounds(self, budget_s: float | None, show: Callable[[float], None]) -> None:
        """Take rounds until all is known or the time is up."""
        turns, began = self.turns, self.clock()
        varied: set[str] = set()
        rounds_of_build, since_window = 0, 0
        while True:
            if self.builds is not None and rounds_of_build >= ROUNDS:
                self._renew(self.builds)
                rounds_of_build = 0
            turns.take()
            rounds_of_build += 1
            since_window = min(since_window, turns.count)
            # Room for the check for thread pools, where there will be one.
            reserve_s = len(self.subjects) * CHECK_S if self._threaded else 0.0
            ends = self._ends(budget_s, began)
            ends -= min(reserve_s, 0.2 * (ends - self.began))
            last = self.clock() + turns.round_s() > ends
            looks = self.neighbours.window_ended
            if looks or last:
                if self.neighbours.end_window():
                    # A parallel region waits for a thread that a neighbour keeps from its core.
                    turns.drop(since_window)
                since_window = turns.count
            now = self.clock()
            show(now - self.began)
            if looks and self._time_to_look(now - began):
                run = self.result()
                ratios = [run[name] for name in run.names if name != run.baseline]
                before, varied = varied, {ratio.varies for ratio in ratios}
                # A neighbour can hit one function for a while: two looks must say that it varies.
                if varied <= {"", *before} and self._all_known(ratios, now - began):
                    return
            if last:
                return

    def _renew(self, builds: Builds) -> None:
        start = self.clock()
        builds.renew(self.subjects, self.turns.levels_s())
        self.turns.build = builds.count
        self.build_s = self.clock() - start

    @property
    def _threaded(self) -> bool:
        return not self.found.isolated and self.neighbours.threads > 1

    def _time_to_look(self, passed_s: float) -> bool:
        """Whether there are so many rounds more that it is worth while to judge them."""
        count = self.turns.count
        if count < self._next_look or not count:
            return False
        self._next_look = next(n for n in LOOKS if n > count)
        return count >= ENOUGH_ROUNDS or passed_s >= WATCH_S * self.shares

    def _all_known(self, ratios: list[Ratio], passed_s: float) -> bool:
        """Whether all verdicts are known, and the ratios precisely if there is still time."""
        narrow = passed_s >= PRECISE_S * self.shares or all(map(precise, ratios))
        return narrow and all(settled(ratio, self.found.margin) for ratio in ratios)

    # -------------------------------------------------------------------- after the rounds

    def _note_neighbours(self) -> None:
        """Keep what other processes did; refuse a verdict if they left too few rounds."""
        seen = self.neighbours
        refusal = seen.refusal() if self.turns.count < self.need else ""
        self.found = replace(
            self.found,
            refusal=refusal or self.found.refusal,
            others_cores=seen.cores_busy,
            notes=[*self.found.notes, *seen.notes()],
        )

    def _check_thread_pools(self, calls_s: dict[str, float]) -> None:
        """Thread pools may be in each other's way; functions on one thread cannot be."""
        # Beside a neighbour the check cannot tell, because a fight takes all the cores.
        if not self._threaded or self.found.refusal or self.neighbours.refusal():
            return
        plans = self.turns.plans
        if max(calls_s[name] * plans[name].loops for name in plans) > RULES.slow_s:
            note = "whether thread pools disturb each other is not checked for calls this long"
            self.found = replace(self.found, notes=[*self.found.notes, note])
            return
        self.found = replace(self.found, refusal=find_interference(self.turns))
