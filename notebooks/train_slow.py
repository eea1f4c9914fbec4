"""Train a small transformer on Python's own documentation, slowly (python train_slow.py)."""

import math
import random
import time
from pydoc_data.topics import topics

import torch
from torch import nn
from torch.nn import functional as F

STEPS, BATCH, CONTEXT, WIDTH, HEADS, LAYERS = 300, 8, 64, 256, 8, 4
documents = [text for text in topics.values() if len(text) > CONTEXT]
characters = sorted(set("".join(documents)))


def make_batch():
    windows = []
    for document in draw.choices(documents, k=BATCH):
        codes = torch.tensor([characters.index(character) for character in document])
        start = draw.randrange(len(codes) - CONTEXT)
        windows.append(codes[start : start + CONTEXT + 1])
    windows = torch.stack(windows).to(device)
    return windows[:, :-1], windows[:, 1:]


def gelu(x):
    return 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


class Head(nn.Module):
    def __init__(self):
        super().__init__()
        self.query, self.key, self.value = (nn.Linear(WIDTH, WIDTH // HEADS) for _ in range(3))

    def forward(self, x):
        scores = self.query(x) @ self.key(x).transpose(1, 2) / math.sqrt(WIDTH // HEADS)
        past = torch.ones(CONTEXT, CONTEXT, device=x.device).tril()
        return scores.masked_fill(past == 0, -math.inf).softmax(-1) @ self.value(x)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.heads = nn.ModuleList(Head() for _ in range(HEADS))
        self.project = nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        y = self.norm1(x)
        x = x + self.project(torch.cat([head(y) for head in self.heads], -1))
        x = x + self.down(gelu(self.up(self.norm2(x))))
        activations.append(x.detach())
        return x


def train_step():
    inputs, targets = make_batch()
    logits = model(inputs)
    loss = F.cross_entropy(logits.flatten(0, 1), targets.flatten())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    for guess, target in zip(logits.argmax(-1).flatten(), targets.flatten()):
        right.append(guess.item() == target.item())
    losses.append(loss.item())
    return losses[-1]


device = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else "cpu"
draw = random.Random(0)
torch.manual_seed(0)
blocks = nn.Sequential(*[Block() for _ in range(LAYERS)])  # the causal mask tells places apart
ends = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, len(characters))
model = nn.Sequential(nn.Embedding(len(characters), WIDTH), blocks, *ends).to(device)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
losses, activations, right = [], [], []

if __name__ == "__main__":
    start = time.perf_counter()
    for step in range(1, STEPS + 1):
        train_step()
        if step % 20 == 0:
            print(f"step {step}: loss {losses[-1]:.3f}, right {sum(right) / len(right):.3f}")
    print(f"spread of activations {sum(x.std() for x in activations) / len(activations):.3f}")
    print(f"time of a step {1e3 * (time.perf_counter() - start) / STEPS:.1f} ms")
