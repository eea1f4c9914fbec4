"""What the tests of measuring share."""

import pytest
from clocks import FakeClock
from comparisons import made


@pytest.fixture
def clock():
    return FakeClock()


@pytest.fixture
def three():
    return made({"eager": 1.0, "scripted": 0.8, "compiled": 1.5})
