"""Checkers of notebook 01b, comparing programs: on seeded noise; nothing is timed."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable

import numpy as np

from d2lperf.exercises import Feedback, checker, failed, gave, passed, show
from d2lperf.exercises.values import as_list, as_number, as_whole, close, off
from d2lperf.measuring.results import Comparison
from d2lperf.measuring.rounds import Rounds

__all__ = [
    "SAVED",
    "check_may_claim",
    "check_paired_ratio",
    "check_rounds_needed",
    "check_turns",
]


# ------------------------------------------------------------------------------ paired_ratio


def _pairs(
    ratio: float, pairs: int, *, seed: int, drift: float = 0.0, struck: int = 0
) -> tuple[np.ndarray, np.ndarray]:
    """Times of A and B in pairs, in seconds: B takes `ratio` times as long.

    The machine's speed changes from pair to pair by factors of about e**drift; `struck` of B's
    times are ten times too long.
    """
    rng = np.random.default_rng(seed)
    slowness = np.exp(drift * rng.standard_normal(pairs))
    noise = np.exp(0.003 * rng.standard_normal((2, pairs)))
    a_s = 1e-4 * slowness * noise[0]
    b_s = 1e-4 * ratio * slowness * noise[1]
    b_s[rng.choice(pairs, struck, replace=False)] *= 10
    return a_s, b_s


@checker
def check_paired_ratio(paired_ratio: Callable[[np.ndarray, np.ndarray], float]) -> Feedback:
    """Check an estimator of a time ratio: drift between pairs, interruptions, symmetry.

    Args:
        paired_ratio: function of two arrays, seconds of A and of B, that returns B's time
            relative to A's.
    """
    cases = [
        ("on a steady machine", _pairs(1.10, 24, seed=0)),
        (
            "on a machine whose speed changes between the pairs, with 10 of 50 times interrupted",
            _pairs(1.10, 50, seed=1, drift=1.0, struck=10),
        ),
    ]
    for where, (a_s, b_s) in cases:
        found = paired_ratio(a_s.copy(), b_s.copy())
        got = as_number(found)
        call = f"{len(a_s)} pairs {where}: you return {show(found)}"
        if got is None:
            return failed(f"{call}, which is no number.")
        if not abs(got / 1.10 - 1) <= 0.01:
            return failed(
                f"{call}, which is {off(got, 1.10)} by more than 1 %. Wanted is the time of B "
                "relative to A."
            )
    a_s, b_s = np.array([2.0, 2.0, 2.0, 2.0]), np.array([3.0, 2.0, 2.5, 6.0])
    there, back = paired_ratio(a_s.copy(), b_s.copy()), paired_ratio(b_s.copy(), a_s.copy())
    if not close(back, 1 / (as_number(there) or math.inf)):
        return failed(
            f"For A's times {a_s.tolist()} and B's times {b_s.tolist()} you return {show(there)}; "
            f"with A and B swapped {show(back)}, which is not the inverse."
        )
    return passed("Drift, interruptions and the order of the two leave your ratio alone.")


# ------------------------------------------------------------------------------------- turns


@checker
def check_turns(turns: Callable[[int, random.Random], list[str]]) -> Feedback:
    """Check a schedule of rounds: drift and order effect cancel, and chance chooses.

    Args:
        turns: function of a number of rounds and a `random.Random` that returns the orders.
    """
    for n in (7, 200):
        found = turns(n, random.Random(0))
        got = _orders(found)
        call = f"turns({n}, rng) gave {show(found if got is None else got)}"
        if got is None or len(got) != n:
            return failed(f"{call}; wanted is a list of {n} strings.")
        problem = next(filter(None, map(_not_mirrored, got)), "")
        if not problem and n > 100:
            problem = _not_by_chance(got)
        if problem:
            return failed(f"{call}: {problem}")
    again = _orders(turns(n, random.Random(0)))
    if got != again:
        return failed(f"{call}, and {show(again)} with the same seed: use only rng.")
    if got == _orders(turns(n, random.Random(1))):
        return failed(
            f"{call}, and the same with another seed: a disturbance in step with it would always "
            "hit the same side. Let rng choose."
        )
    return passed("A steady drift cancels in every round, and nothing can fall into step with it.")


def _orders(found: object) -> list[str] | None:
    """The orders of the rounds as strings, also where a round is a list of letters."""
    rounds = as_list(found)
    if rounds is None:
        return None
    return ["".join(map(str, as_list(order) or [order])) for order in rounds]


def _not_mirrored(order: str) -> str:
    """What is wrong with the order of one round; "" where nothing is."""
    if sorted(order) != list("AABB"):
        return f"a round has two turns of each, but one is {show(order)}."
    later = sum(slot for slot, who in enumerate(order) if who == "A")
    if later == 3:  # slots 0 to 3: each has half of their sum
        return ""
    who = "A" if later > 3 else "B"
    return f"in {show(order)} a steady drift does not cancel: {who} runs later."


def _not_by_chance(orders: list[str]) -> str:
    """What is wrong with a series of mirrored rounds; "" where chance may have chosen them."""
    n, mirrored = len(orders), orders.count("BAAB")
    if not n // 4 <= mirrored <= n - n // 4:
        return (
            f"{max(mirrored, n - mirrored)} of {n} rounds have the same order: what a bent drift "
            "leaves nearly always hits the same side."
        )
    for period in range(1, 9):
        if orders[period:] == orders[:-period]:
            return (
                f"the rounds repeat after {period}. A disturbance of the same period always hits "
                "the same side. Let rng choose each round."
            )
    changes = sum(a != b for a, b in itertools.pairwise(orders))
    if changes < n // 4:
        return (
            f"in {n} rounds the order changes {changes} time(s): a bent drift hits whole stretches "
            "on the same side. Let rng choose each round."
        )
    return ""


# --------------------------------------------------------------------------------- may_claim


def _comparison(**candidates: tuple[float, float]) -> Comparison:
    """A comparison as if measured: name -> (ratio, noise of a round), 40 rounds each."""
    rng = random.Random(5)
    eager_s, count = 40e-6, 40
    lower_s = {"eager": [(eager_s, eager_s)] * count}
    for name, (ratio, noise) in candidates.items():
        # Mirrored pairs of noise, so that the centre is the ratio asked for.
        logs = [abs(rng.gauss(0, noise)) for _ in range(count // 2)]
        logs = [sign * log for log in logs for sign in (1, -1)]
        lower_s[name] = [(eager_s * ratio * math.exp(log),) * 2 for log in logs]
    samples_s = {name: [t for pair in pairs for t in pair] for name, pairs in lower_s.items()}
    rounds = Rounds(
        names=list(lower_s),
        baseline="eager",
        lower_s=lower_s,
        upper_s=lower_s,
        samples_s=samples_s,
        first_calls_s={name: values[:1] for name, values in samples_s.items()},
        loops=dict.fromkeys(lower_s, 8),
        discarded=[],
    )
    return Comparison(rounds=rounds, checked=True)


SAVED: Comparison = _comparison(
    scripted=(0.76, 0.01), frozen=(0.79, 0.05), fused=(0.90, 0.01), ported=(1.02, 0.10)
)
"""A comparison made up for the exercise: eager against four candidates."""


@checker
def check_may_claim(may_claim: Callable[[Comparison, str, float], str]) -> Feedback:
    """Check a decision about the claim "takes at least so much less time".

    Args:
        may_claim: function of a `Comparison`, a name and a fraction saved, that returns "yes",
            "no" or "cannot tell".
    """
    comparison = SAVED
    for saving in (0.20, 0.05, 0.0, 0.26):
        for name in comparison.names[1:]:
            entry = comparison[name]
            line = 1 - saving
            expected = "cannot tell"
            if entry.high <= line:
                expected = "yes"
            elif entry.low > line:
                expected = "no"
            got = may_claim(comparison, name, saving)
            if got != expected:
                return failed(
                    f"{name} has the ratio {entry.ratio:.3f} with the interval "
                    f"[{entry.low:.3f}, {entry.high:.3f}]. For a saving of {saving:.0%}, "
                    f"{show(got)} is not what this supports."
                )
    return passed("You claim what the whole interval supports, and no more.")


# ------------------------------------------------------------------------------ rounds_needed


@checker
def check_rounds_needed(rounds_needed: Callable[[int, float, float], int]) -> Feedback:
    """Check how many rounds are planned for a wanted half-width.

    Args:
        rounds_needed: function of the pilot's number of rounds, its half-width and the wanted one,
            that returns a number of rounds.
    """
    # Where a case comes out at a whole number its arguments are powers of two, or two right
    # formulas might round to two answers.
    cases = [((12, 0.03125, 0.015625), 48), ((24, 0.012, 0.005), 139)]
    cases += [((16, 0.004, 0.020), 6), ((8, 0.050, 0.0041), 1190)]
    for arguments, expected in cases:
        found = rounds_needed(*arguments)
        call, number = gave(found, rounds_needed, *arguments), as_whole(found)
        if number is None or number < 1:
            return failed(f"{call}; wanted is a whole number of rounds.")
        if number > expected:
            return failed(f"{call}, which is more than needed.")
        if number < expected:
            n, half_width, target = arguments
            width = half_width * math.sqrt(n / number)
            if width <= target:
                return failed(f"{call}, too few rounds for a 95 % interval.")
            return failed(
                f"{call}; with so many rounds the half-width is {width:.6g}, more than {target:g}."
            )
    return passed("You plan by the width, before you have seen the result.")
