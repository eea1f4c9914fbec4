"""Every test draws with Agg, closes its figures and leaves matplotlib's settings as they were."""

import matplotlib
import pytest

matplotlib.use("Agg")


@pytest.fixture(autouse=True)
def no_traces():
    from matplotlib import pyplot as plt

    before = dict(matplotlib.rcParams)
    plt.close("all")
    yield
    assert dict(matplotlib.rcParams) == before
    plt.close("all")
