"""Train a small transformer on Python's own documentation, fast (python train_fast.py)."""

import random
import time
from pydoc_data.topics import topics

import torch
from torch import nn
from torch.nn import functional as F

STEPS, BATCH, CONTEXT, WIDTH, HEADS, LAYERS = 300, 8, 64, 256, 8, 4
documents = [text for text in topics.values() if len(text) > CONTEXT]
characters = sorted(set("".join(documents)))
encoded = [torch.tensor([characters.index(c) for c in document]) for document in documents]


def make_batch():
    windows = []
    for codes in draw.choices(encoded, k=BATCH):
        start = draw.randrange(len(codes) - CONTEXT)
        windows.append(codes[start : start + CONTEXT + 1])
    windows = torch.stack(windows).to(device)
    return windows[:, :-1], windows[:, 1:]


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)
        self.project = nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        parts = self.qkv(self.norm1(x)).unflatten(-1, (3, HEADS, -1))
        query, key, value = parts.permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.project(mixed.transpose(1, 2).flatten(2))
        x = x + self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh"))
        activations.append(x.detach().std())
        return x


def train_step():
    inputs, targets = make_batch()
    # With units for bfloat16, under torch.autocast(inputs.device.type, torch.bfloat16), on a CPU
    # with attention in float32 (notebook 10, section 5):
    logits = model(inputs)
    loss = F.cross_entropy(logits.flatten(0, 1), targets.flatten())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    right.append((logits.argmax(-1) == targets).float().mean())
    losses.append(loss.detach())
    return losses[-1]


device = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else "cpu"
draw = random.Random(0)
torch.manual_seed(0)
blocks = nn.Sequential(*[Block() for _ in range(LAYERS)])  # the causal mask tells places apart
ends = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, len(characters))
model = nn.Sequential(nn.Embedding(len(characters), WIDTH), blocks, *ends).to(device)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
losses, activations, right = [], [], []

if __name__ == "__main__":
    start = time.perf_counter()
    for step in range(1, STEPS + 1):
        train_step()
        if step % 20 == 0:
            print(f"step {step}: loss {losses[-1]:.3f}, right {sum(right) / len(right):.3f}")
    print(f"spread of activations {sum(activations) / len(activations):.3f}")
    print(f"time of a step {1e3 * (time.perf_counter() - start) / STEPS:.1f} ms")
