"""How code is timed and judged."""

from d2lperf.measuring.claims import Claim, ClaimContradicted, Prediction, predict, predictions
from d2lperf.measuring.compare import compare, measure, sweep
from d2lperf.measuring.equality import ResultsDiffer
from d2lperf.measuring.results import Comparison, Measurement, Sweep
from d2lperf.measuring.verdict import Ratio

__all__ = ["Claim", "ClaimContradicted", "Comparison", "Measurement", "Prediction", "Ratio"]
__all__ += ["ResultsDiffer", "Sweep", "compare", "measure", "predict", "predictions", "sweep"]
