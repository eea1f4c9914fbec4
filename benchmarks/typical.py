"""Thirty-three functions as users write them: operations, steps of training, whole models.

Thirteen are those by which a review found what `explain` did not see; twenty more go beyond them.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn
from torch.nn import functional

__all__ = ["functions"]


class Block(nn.Module):
    """Two convolutions with a way around them, as in ResNet-18."""

    def __init__(self, inputs: int, outputs: int, stride: int):
        super().__init__()
        self.first = nn.Conv2d(inputs, outputs, 3, stride, padding=1, bias=False)
        self.second = nn.Conv2d(outputs, outputs, 3, padding=1, bias=False)
        self.norms = nn.ModuleList([nn.BatchNorm2d(outputs), nn.BatchNorm2d(outputs)])
        self.around = nn.Identity()
        if stride > 1:
            around = nn.Conv2d(inputs, outputs, 1, stride, bias=False)
            self.around = nn.Sequential(around, nn.BatchNorm2d(outputs))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Images (n, inputs, h, w) to images (n, outputs, h / stride, w / stride)."""
        y = functional.relu(self.norms[0](self.first(x)))
        return functional.relu(self.norms[1](self.second(y)) + self.around(x))


def resnet() -> nn.Module:
    """ResNet-18 with ten classes."""
    blocks: list[nn.Module] = []
    for inputs, outputs in ((64, 64), (64, 128), (128, 256), (256, 512)):
        blocks += [Block(inputs, outputs, outputs // inputs), Block(outputs, outputs, 1)]
    stem = [nn.Conv2d(3, 64, 7, 2, padding=3, bias=False), nn.BatchNorm2d(64), nn.ReLU()]
    stem.append(nn.MaxPool2d(3, 2, padding=1))
    return nn.Sequential(*stem, *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 10))


class LanguageModel(nn.Module):
    """A small transformer over tokens."""

    def __init__(self, tokens: int = 1000, width: int = 128):
        super().__init__()
        layer = nn.TransformerEncoderLayer(width, 4, 4 * width, dropout=0.0, batch_first=True)
        self.embedding = nn.Embedding(tokens, width)
        self.encoder = nn.TransformerEncoder(layer, 2)
        self.head = nn.Linear(width, tokens)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Tokens (n, length) to scores (n * length, tokens)."""
        return self.head(self.encoder(self.embedding(tokens))).flatten(0, 1)


def without_gradients(fn: Callable[[], object]) -> Callable[[], object]:
    """The function as it is called in inference."""

    def run() -> object:
        with torch.no_grad():
            return fn()

    return run


def training_step(
    model: nn.Module, loss: Callable[[], torch.Tensor], kind: type = torch.optim.Adam
) -> Callable[[], None]:
    """One step of an optimizer on the loss of a model."""
    optimizer = kind(model.parameters(), lr=1e-3)

    def step() -> None:
        optimizer.zero_grad()
        loss().backward()
        optimizer.step()

    return step


def reviewed() -> dict[str, Callable[[], object]]:
    """The thirteen functions of the review."""
    layers = [nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10)]
    mlp, rows = nn.Sequential(*layers), torch.randn(256, 784)
    heads, words = torch.randn(8, 8, 128, 64), torch.randn(8, 128, 256)
    layer = nn.TransformerEncoderLayer(256, 8, 1024, batch_first=True)
    norm, hidden = nn.LayerNorm(512), torch.randn(4096, 512)
    convolution, images = nn.Conv2d(64, 64, 3, padding=1), torch.randn(8, 64, 56, 56)
    square, matrix, vector = torch.randn(1024, 1024), torch.randn(2048, 2048), torch.randn(2048)
    table, ids = nn.Embedding(10000, 256), torch.randint(10000, (512,))
    batches, few = torch.randn(64, 64, 64), torch.ones(8)
    lstm, series = nn.LSTM(128, 128, batch_first=True), torch.randn(16, 50, 128)
    values = torch.randn(1_000_000)
    trained = nn.Sequential(nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 512))
    trained(hidden).sum().backward()
    adam = torch.optim.Adam(trained.parameters())

    def tiny_operations() -> torch.Tensor:
        total = few
        for _ in range(400):
            total = total + few
        return total

    return {
        "MLP": lambda: mlp(rows),
        "scaled dot product attention": lambda: functional.scaled_dot_product_attention(
            heads, heads, heads
        ),
        "transformer layer, forward and backward": lambda: layer(words).sum().backward(),
        "layer norm": lambda: norm(hidden),
        "convolution": lambda: convolution(images),
        "GELU": lambda: functional.gelu(square),
        "embedding": lambda: table(ids),
        "batched product": lambda: batches @ batches,
        "400 tiny operations": tiny_operations,
        "step of Adam": adam.step,
        "LSTM": without_gradients(lambda: lstm(series)),
        "sort": lambda: values.sort(),
        "matrix times vector": lambda: matrix @ vector,
    }


def other_operations() -> dict[str, Callable[[], object]]:
    """Fifteen operations."""
    rows, scores = torch.randn(4096, 512), torch.randn(256, 1000)
    labels = torch.randint(1000, (256,))
    large, other = torch.randn(2**22), torch.randn(2**22)
    square, weights = torch.randn(1024, 1024), torch.randn(2048, 2048)
    images, norm = torch.randn(8, 64, 56, 56), nn.BatchNorm2d(64)
    wide, narrow = torch.randn(512, 512).double(), torch.randn(512, 512).bfloat16()
    places, sums = torch.randint(1000, (4096,)), torch.zeros(1000, 512)
    depthwise = nn.Conv2d(64, 64, 3, padding=1, groups=64)
    return {
        "softmax": lambda: torch.softmax(rows, 1),
        "cross entropy": lambda: functional.cross_entropy(scores, labels),
        "sum of two large arrays": lambda: large + other,
        "chain of pointwise operations": lambda: (torch.relu(large) * 1.1 + other).sigmoid(),
        "sum of a large array": lambda: large.sum(),
        "transposed copy": lambda: square.t().contiguous(),
        "max pooling": lambda: functional.max_pool2d(images, 2),
        "batch norm, training": lambda: norm(images),
        "product in float64": lambda: wide @ wide,
        "product in bfloat16": lambda: narrow @ narrow,
        "index_add": lambda: sums.index_add(0, places, rows),
        "dropout": lambda: functional.dropout(square, 0.1),
        "cumulative sum": lambda: rows.cumsum(0),
        "linear layer, one row": lambda: functional.linear(weights[:1], weights),
        "depthwise convolution": lambda: depthwise(images),
    }


def models() -> dict[str, Callable[[], object]]:
    """Five whole models."""
    net, pictures = resnet(), torch.randn(4, 3, 64, 64)
    classes = torch.randint(10, (4,))
    language, tokens = LanguageModel(), torch.randint(1000, (8, 64))
    lstm, series = nn.LSTM(128, 128, batch_first=True), torch.randn(16, 50, 128)
    bags = nn.Sequential(nn.EmbeddingBag(20_000, 64), nn.Linear(64, 10))
    ids, kinds = torch.randint(20_000, (256, 32)), torch.randint(10, (256,))

    def classify() -> torch.Tensor:
        return functional.cross_entropy(net(pictures), classes)

    return {
        "ResNet-18, inference": without_gradients(lambda: net(pictures)),
        "ResNet-18, step of SGD": training_step(net, classify, torch.optim.SGD),
        "transformer, step of Adam": training_step(
            language, lambda: functional.cross_entropy(language(tokens), tokens.flatten())
        ),
        "LSTM, step of Adam": training_step(lstm, lambda: lstm(series)[0].square().mean()),
        "embedding model, step of Adam": training_step(
            bags, lambda: functional.cross_entropy(bags(ids), kinds)
        ),
    }


def functions() -> dict[str, Callable[[], object]]:
    """Return all by name."""
    torch.manual_seed(0)
    return {**reviewed(), **other_operations(), **models()}
