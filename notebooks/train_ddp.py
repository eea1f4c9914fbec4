"""Train a ResNet-18 on digits (torchrun --standalone --nproc-per-node=2 train_ddp.py)."""

import os
from contextlib import suppress
from itertools import pairwise

import torch
import torch.distributed as dist
import torch.distributed.nn  # workaround: without this and `del`, gloo may abort at exit
from sklearn.datasets import load_digits
from torch import nn
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, Subset, TensorDataset

EPOCHS, BATCH, LEARNING_RATE = 5, 64, 0.02


class Residual(nn.Module):
    """Two convolutions and a shortcut around them."""

    def __init__(self, inputs, outputs):
        super().__init__()
        stride = 1 if inputs == outputs else 2
        self.main = nn.Sequential(
            *[nn.Conv2d(inputs, outputs, 3, stride, 1), nn.BatchNorm2d(outputs), nn.ReLU()],
            *[nn.Conv2d(outputs, outputs, 3, 1, 1), nn.BatchNorm2d(outputs)],
        )
        self.shortcut = nn.Identity() if stride == 1 else nn.Conv2d(inputs, outputs, 1, stride)

    def forward(self, images):
        return F.relu(self.main(images) + self.shortcut(images))


def resnet18(width=32):
    """A ResNet-18 for small images; `width` is the number of channels of its first layers."""
    widths = [width * factor for factor in (1, 1, 1, 2, 2, 4, 4, 8, 8)]
    stem = [nn.Conv2d(1, width, 3, padding=1), nn.BatchNorm2d(width), nn.ReLU()]
    blocks = [Residual(*pair) for pair in pairwise(widths)]
    head = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(widths[-1], 10)]
    return nn.Sequential(*stem, *blocks, *head)


def digits():
    """Handwritten digits of 8 x 8 pixels: 1,540 to train on, every seventh of all to test."""
    images, labels = load_digits(return_X_y=True)
    images = torch.tensor(images, dtype=torch.float32).reshape(-1, 1, 8, 8) / 16
    data = TensorDataset(images, torch.tensor(labels))
    train = [i for i in range(len(data)) if i % 7]
    return Subset(data, train), Subset(data, range(0, len(data), 7))


def main():
    device, backend = torch.device("cpu"), "gloo"
    here = int(os.environ["LOCAL_WORLD_SIZE"])
    if torch.accelerator.is_available() and torch.accelerator.device_count() >= here:
        accelerator = torch.accelerator.current_accelerator()
        with suppress(ValueError):  # not every kind of device has a backend of its own
            backend = dist.get_default_backend_for_device(accelerator)
            torch.accelerator.set_device_index(int(os.environ["LOCAL_RANK"]))
            device = accelerator
    dist.init_process_group(backend)
    rank, world = dist.get_rank(), dist.get_world_size()

    train, test = digits()
    sampler = DistributedSampler(train)
    loader = DataLoader(train, BATCH // world, sampler=sampler, drop_last=True)
    test_part = Subset(test, range(rank, len(test), world))
    torch.manual_seed(0)
    net = DDP(resnet18().to(device))
    optimizer = torch.optim.SGD(net.parameters(), LEARNING_RATE, momentum=0.9)
    accuracy = []
    for epoch in range(EPOCHS):
        sampler.set_epoch(epoch)
        net.train()
        for images, labels in loader:
            loss = F.cross_entropy(net(images.to(device)), labels.to(device))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()

        net.eval()
        right = torch.zeros(1, device=device)
        with torch.no_grad():
            for images, labels in DataLoader(test_part, BATCH):
                right += (net(images.to(device)).argmax(1) == labels.to(device)).sum()
        dist.all_reduce(right)
        accuracy.append(right.item() / len(test))
        if rank == 0:
            print(f"epoch {epoch + 1}: {right.item():.0f} of {len(test)} right", flush=True)
    if rank == 0:
        torch.save({"net": net.module.state_dict(), "accuracy": accuracy}, "digits.pt")
    del net  # workaround: see the import (1 of 28 runs aborted, PyTorch 2.13)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
