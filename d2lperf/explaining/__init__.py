"""What limits a function, and what would help.

* `explain`: counts, predicts and measures a function.
* `explanation`: what was found, as a table and a figure.
* `advice`: what would help, and how much at most.
* `state`: puts back what the function changes.
* `stacks`: which Python functions take the time outside of torch.
"""

from d2lperf.explaining.advice import Lever
from d2lperf.explaining.explain import explain
from d2lperf.explaining.explanation import Explanation

__all__ = ["Explanation", "Lever", "explain"]
