"""How a reader's program sees the types of the package: mypy checks it, nobody runs it."""

from typing import Any, Literal

import torch
from matplotlib.axes import Axes
from typing_extensions import assert_type  # torch brings it

import d2lperf
from d2lperf.explaining.advice import Limit
from d2lperf.measuring.predictions import Prediction, Predictions
from d2lperf.measuring.sweeps import Crossing
from d2lperf.measuring.verdict import Verdict
from d2lperf.roofline import Estimate


def work() -> torch.Tensor:
    return torch.ones(3)


def program() -> None:
    measured = d2lperf.measure(work, threads=1)
    assert_type(measured, d2lperf.Measurement)
    assert_type(measured.median_s, float)

    found = d2lperf.compare({"one": work, "other": work}, baseline="one")
    assert_type(found, d2lperf.Comparison)
    assert_type(found["other"], d2lperf.Ratio)
    assert_type(found["other"].verdict, Verdict)
    assert_type(list(found), list[str])
    assert_type(
        found.expect("other", faster_than="one").outcome,
        Literal["borne out", "contradicted", "open"],
    )
    assert_type(found.plot(), Axes)
    assert_type(found.break_even("other").verdict, Verdict)
    found.require("other", at_most=1.1)

    explained = d2lperf.explain(work)
    assert_type(explained.regime, Limit)
    assert_type(explained.operations[0][1].regime, Literal["overhead", "memory", "compute"])

    assert_type(d2lperf.record(work), d2lperf.Timeline)
    assert_type(d2lperf.measure_ceilings(), d2lperf.Ceilings)
    assert_type(d2lperf.try_gpu(), torch.device)
    assert_type(d2lperf.try_all_gpus(), list[torch.device])
    assert_type(d2lperf.describe_machine(), d2lperf.Machine)

    swept = d2lperf.sweep(lambda size: {"one": work, "other": work}, [1, 2], baseline="one")
    assert_type(swept, d2lperf.Sweep)
    assert_type(swept[1], d2lperf.Comparison)
    assert_type(swept.crossing("other"), Crossing)
    assert_type(swept.plot(), Axes)

    predicted = d2lperf.predict("two against one", 2.0)
    assert_type(predicted, Prediction)
    predicted.score(measured)
    predicted.score(found["other"])
    predicted.score(1.9, low=1.8, high=2.0)
    assert_type(d2lperf.predictions(), Predictions)

    assert_type(d2lperf.launch(work, workers=2, on_report=print), list[Any])
    d2lperf.report(1)

    ceilings = d2lperf.datasheet("NVIDIA H100 SXM")
    assert_type(ceilings, d2lperf.Ceilings)
    roofline = d2lperf.Roofline(ceilings)
    assert_type(roofline.predict(1e9, 1e6, dtype=torch.float32), Estimate)
    assert_type(roofline.plot({}), Axes)
