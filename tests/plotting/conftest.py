"""Every test leaves matplotlib's settings as they were."""

import matplotlib
import pytest


@pytest.fixture(autouse=True)
def settings_stay():
    before = dict(matplotlib.rcParams)
    yield
    assert dict(matplotlib.rcParams) == before
