"""How code is timed and judged."""

from d2lperf.measuring.claims import Claim, ClaimContradicted
from d2lperf.measuring.compare import compare, measure, sweep
from d2lperf.measuring.equality import ResultsDiffer
from d2lperf.measuring.predictions import Prediction, predict, predictions
from d2lperf.measuring.results import Comparison, Measurement
from d2lperf.measuring.sweeps import Crossing, Sweep
from d2lperf.measuring.verdict import Ratio

__all__ = ["Claim", "ClaimContradicted", "Comparison", "Crossing", "Measurement", "Prediction"]
__all__ += ["Ratio", "ResultsDiffer", "Sweep", "compare", "measure", "predict", "predictions"]
__all__ += ["sweep"]
