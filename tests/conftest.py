"""What tests of several folders share. Those of the web page have neither torch nor matplotlib."""

import sys

import pytest


@pytest.fixture(autouse=True)
def no_figure_stays():
    yield
    if pyplot := sys.modules.get("matplotlib.pyplot"):
        pyplot.close("all")


@pytest.fixture
def accelerators(monkeypatch):
    """Pretend that the machine has some accelerators of a kind."""
    import torch

    def pretend(count, kind="cuda"):
        there = torch.device(kind) if count else None
        monkeypatch.setattr(torch.accelerator, "is_available", lambda: count > 0)
        monkeypatch.setattr(torch.accelerator, "device_count", lambda: count)
        monkeypatch.setattr(torch.accelerator, "current_accelerator", lambda: there)

    return pretend


@pytest.fixture
def bars(monkeypatch):
    """The progress bars that are made."""
    import tqdm.auto

    made = []

    class Bar:
        def __init__(self, total, **layout):
            self.total, self.n, self.closed = total, 0.0, False
            made.append(self)

        def update(self, more):
            self.n += more

        def close(self):
            self.closed = True

    monkeypatch.setattr(tqdm.auto, "tqdm", Bar)
    return made
