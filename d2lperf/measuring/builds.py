"""Functions that are made anew for each block of rounds, for `compare(..., build=True)`.

Where data lies in memory makes a function faster or slower, by up to 2 % for a small network, and
keeps it so for as long as the data lives. Rounds of one build share this luck; several builds show
its size (Mytkowicz et al., ASPLOS 2009; Curtsinger and Berger, *STABILIZER*, ASPLOS 2013; Kalibera
and Jones, *Rigorous benchmarking in reasonable time*, ISMM 2013).
"""

from __future__ import annotations

import gc
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from d2lperf.measuring.arguments import check_callable
from d2lperf.measuring.sampling import Subject

ROUNDS = 4  # of one build
# Between two functions memory of random sizes is taken, so that they do not get the old places.
GAPS, LARGEST_GAP = 6, 1 << 18


class Builds:
    """Makes the functions, again and again; only one build is kept alive.

    Args:
        makers: name -> function that makes the function to be timed.
        rng: draws the order of making and the sizes of the gaps.
    """

    def __init__(self, makers: dict[str, Callable], rng: random.Random):
        self._makers, self._rng = makers, rng
        self._gaps: list[bytearray] = []
        self.count = 0

    def first(self) -> dict[str, Callable]:
        """Make all functions for the first time; return them in the order given."""
        self.count += 1
        order = self._rng.sample(list(self._makers), len(self._makers))
        made = {name: self._make(name) for name in order}
        return {name: made[name] for name in self._makers}

    @contextmanager
    def collected(self) -> Iterator[None]:
        """Make collecting the garbage of a build quick: what was there before is left out."""
        gc.freeze()
        try:
            yield
        finally:
            gc.unfreeze()

    def renew(self, subjects: list[Subject], calls_s: dict[str, float]) -> None:
        """Free the last build, make another one, and call each function until it is quick.

        Args:
            subjects: get the new functions.
            calls_s: name -> seconds that a call takes when it is quick.
        """
        for subject in subjects:
            subject.use(_freed)
        self._gaps.clear()
        gc.collect()
        self.count += 1
        for subject in self._rng.sample(subjects, len(subjects)):
            subject.use(self._make(subject.name))
        for subject in subjects:
            subject.settle(calls_s[subject.name])

    def _make(self, name: str) -> Callable:
        fn = self._makers[name]()
        check_callable(fn, f"with build=True, what {name!r} returns")
        sizes = [self._rng.randrange(1, LARGEST_GAP) for _ in range(self._rng.randrange(GAPS))]
        self._gaps += [bytearray(size) for size in sizes]
        return fn


def _freed() -> None:
    """Stands in for a function while its next build is not there yet."""
