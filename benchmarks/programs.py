"""Programs for the study of verdicts: copies that do not share their data, and parallel regions."""

from __future__ import annotations

import copy
from collections.abc import Callable

import torch


def mlp() -> Callable:
    """A network of three layers and its batch."""
    net = torch.nn.Sequential(
        torch.nn.Linear(256, 256),
        torch.nn.ReLU(),
        torch.nn.Linear(256, 256),
        torch.nn.ReLU(),
        torch.nn.Linear(256, 10),
    )
    return _forward(net, torch.randn(32, 256))


def convolution() -> Callable:
    """A convolution and its images."""
    return _forward(torch.nn.Conv2d(16, 32, 3, padding=1), torch.randn(4, 16, 32, 32))


def transformer_layer() -> Callable:
    """A layer with attention and its sequences."""
    layer = torch.nn.TransformerEncoderLayer(64, 4, 128, batch_first=True)
    return _forward(layer, torch.randn(4, 32, 64))


def _forward(net: torch.nn.Module, x: torch.Tensor) -> Callable:
    net.eval()

    def forward():
        with torch.no_grad():
            return net(x)

    forward.again = lambda: _forward(copy.deepcopy(net), x)
    return forward


# Each makes a function; `.again()` of it makes the same one with a deep copy of the weights.
PROGRAMS = {"MLP": mlp, "convolution": convolution, "transformer layer": transformer_layer}


def attention() -> dict[str, Callable]:
    """One call against six: the six have more parallel regions."""
    q, k, v = (torch.randn(4, 4, 128, 32) for _ in range(3))

    def fused():
        with torch.no_grad():
            return torch.nn.functional.scaled_dot_product_attention(q, k, v)

    def by_hand():
        with torch.no_grad():
            scores = q @ k.transpose(-2, -1) / 32**0.5
            return torch.softmax(scores, -1) @ v

    return {"fused": fused, "by hand": by_hand}


def sums() -> dict[str, Callable]:
    """One sum of a large tensor against sixteen of its pieces."""
    x = torch.randn(2**21)
    pieces = x.chunk(16)
    return {"whole": x.sum, "pieces": lambda: [piece.sum() for piece in pieces]}


# Each makes two functions that share their work differently among threads.
REGIONS = {"attention": attention, "sums": sums}
