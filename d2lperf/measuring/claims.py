"""Claims about a comparison: `expect` prints how they turn out, `require` also raises."""

from __future__ import annotations

import math
import os
from contextlib import suppress
from dataclasses import dataclass
from typing import Literal, NamedTuple

from d2lperf.formats import format_ratio, print_line
from d2lperf.measuring.verdict import Ratio

Outcome = Literal["borne out", "contradicted", "open"]


class ClaimContradicted(AssertionError):
    """A claim is not borne out: by `require`, or contradicted with D2LPERF_STRICT=1."""


@dataclass(frozen=True)
class Claim:
    """The outcome of `Comparison.expect`, which has printed the line `text`."""

    outcome: Outcome
    text: str

    def _ipython_display_(self) -> None:
        """Show nothing in a notebook."""


class Claimed(NamedTuple):
    """What is claimed: words for the line, and the ratios of times for which it is true."""

    words: str  # such as "faster than eager"
    least: float
    most: float

    def outcome(self, found: Ratio, refused: bool) -> Outcome:
        """Hold the claim against the interval; a narrower interval never takes the outcome back."""
        if refused:
            return "open"
        if self.least <= found.low and found.high <= self.most:
            return "borne out"
        if found.high < self.least or found.low > self.most:
            return "contradicted"
        return "open"


def faster(other: str, margin: float) -> Claimed:
    """Below the margin: the ratio is less than 1/(1 + margin)."""
    return Claimed(f"faster than {other}", 0.0, math.nextafter(1 / (1 + margin), 0))


def slower(other: str, margin: float) -> Claimed:
    """Above the margin: the ratio is more than 1 + margin."""
    return Claimed(f"slower than {other}", math.nextafter(1 + margin, 2), math.inf)


def same(other: str, within: float) -> Claimed:
    """No further from 1 than `within`, a fraction."""
    words = f"the same as {other} within {100 * within:g} %"
    return Claimed(words, 1 / (1 + within), 1 + within)


def at_most(other: str, most: float) -> Claimed:
    """The ratio is `most` or less: at most 1.1 times as long is "not slower than 10 %"."""
    return Claimed(f"at most {most:g} times as long as {other}", 0.0, most)


def hold_against(found: Ratio, claimed: Claimed, refused: bool) -> Claim:
    """Print how the claim turned out; raise if it is contradicted and D2LPERF_STRICT=1."""
    __tracebackhide__ = True
    outcome = claimed.outcome(found, refused)
    why = f"time ratio {format_ratio(found.ratio, found.low, found.high)}"
    why += f"; {found.reason}" if found.reason else ""
    sentence = f"{found.name} is {claimed.words} ({why})"
    line = f"claim {outcome}{' here' if outcome == 'open' else ''}: {sentence}"
    print_line(line)
    _note(f"{outcome}\t{sentence}\n")
    if outcome == "contradicted" and os.environ.get("D2LPERF_STRICT") == "1":
        raise ClaimContradicted(line)
    return Claim(outcome, line)


def _note(line: str) -> None:
    """Keep a line for benchmarks/strict_runs.py, which counts the outcomes."""
    path = os.environ.get("D2LPERF_CLAIMS", "")
    if path:
        with suppress(OSError), open(path, "a", encoding="utf-8") as file:
            file.write(line)
