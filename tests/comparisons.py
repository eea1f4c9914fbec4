"""Made-up comparisons: rounds as a machine would give them, without measuring anything."""

import random

from d2lperf.measuring.results import Comparison
from d2lperf.measuring.rounds import Rounds


def made(times, *, n=24, noise=0.004, seed=0, discarded=(), before_s=0.05, slow=None, **options):
    """A comparison of functions that take the given multiples of 100 µs; the first is the baseline.

    slow: name -> factor, for a function that is so much slower in every third round.
    """
    chance = random.Random(seed)
    lower, upper = {}, {}
    for name, time in times.items():
        level = [(slow or {}).get(name, 1.0) if i % 3 == 2 else 1.0 for i in range(n)]
        lower[name] = [
            tuple(1e-4 * time * f * (1 + noise * chance.random()) for _ in range(2)) for f in level
        ]
        upper[name] = [tuple(1.01 * value for value in pair) for pair in lower[name]]
    rounds = Rounds(
        names=list(times),
        baseline=next(iter(times)),
        lower_s=lower,
        upper_s=upper,
        samples_s={name: [v for pair in pairs for v in pair] for name, pairs in lower.items()},
        first_calls_s={name: [0.02, 1e-4 * time] for name, time in times.items()},
        loops=dict.fromkeys(times, 3),
        discarded=[list(names) for names in discarded],
        before_s=before_s,
        rounds_s=0.01 * n,
    )
    return Comparison(**{"rounds": rounds, "elapsed_s": 0.25, **options})
