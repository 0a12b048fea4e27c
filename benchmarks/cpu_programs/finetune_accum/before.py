"""Fine-tune a new classification head with gradient accumulation."""

import argparse
import json
import statistics
import time

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset


class FlowerDataset(Dataset):
    """Colourful synthetic petals, 64x64."""

    def __init__(self, n=1024, classes=12, size=64):
        self.n, self.classes = n, classes
        axis = torch.linspace(-1, 1, size)
        self.radius = (axis[:, None] ** 2 + axis[None, :] ** 2).sqrt()
        self.angle = torch.atan2(axis[:, None], axis[None, :])

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        g = torch.Generator().manual_seed(i)
        label = i % self.classes
        petals = 0.4 + 0.3 * torch.cos((label + 2) * self.angle)
        mask = (self.radius < petals).float()
        colour = torch.rand(3, 1, 1, generator=g)
        return colour * mask + 0.1 * torch.randn(3, *mask.shape, generator=g), label


class BasicBlock(nn.Module):
    def __init__(self, cin, cout, stride=1):
        super().__init__()
        self.conv1 = nn.Conv2d(cin, cout, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(cout)
        self.conv2 = nn.Conv2d(cout, cout, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(cout)
        self.skip = nn.Identity()
        if stride != 1 or cin != cout:
            self.skip = nn.Sequential(nn.Conv2d(cin, cout, 1, stride, bias=False), nn.BatchNorm2d(cout))

    def forward(self, x):
        y = F.relu(self.bn1(self.conv1(x)))
        return F.relu(self.bn2(self.conv2(y)) + self.skip(x))


class Backbone(nn.Module):
    def __init__(self, width=24):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, width, 5, 2, 2, bias=False), nn.BatchNorm2d(width), nn.ReLU())
        self.stages = nn.Sequential(
            BasicBlock(width, width),
            BasicBlock(width, width * 2, 2),
            BasicBlock(width * 2, width * 2),
            BasicBlock(width * 2, width * 4, 2),
        )
        self.out_features = width * 4

    def forward(self, x):
        return self.stages(self.stem(x)).mean(dim=(2, 3))


class Classifier(nn.Module):
    def __init__(self, backbone, classes):
        super().__init__()
        self.backbone = backbone
        self.head = nn.Sequential(nn.Linear(backbone.out_features, 128), nn.ReLU(), nn.Linear(128, classes))

    def forward(self, x):
        return self.head(self.backbone(x))


def load_pretrained():
    torch.manual_seed(1234)  # stands in for a downloaded checkpoint
    return Backbone()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=40, help="optimizer steps")
    parser.add_argument("--micro-batch", type=int, default=8)
    parser.add_argument("--accumulate", type=int, default=4)
    args = parser.parse_args()

    backbone = load_pretrained()
    backbone.eval()  # keep the running statistics of the pre-training
    model = Classifier(backbone, classes=12)
    optimizer = torch.optim.AdamW(model.head.parameters(), lr=1e-3)
    loader = DataLoader(FlowerDataset(), batch_size=args.micro_batch, shuffle=True, drop_last=True)

    def micro_batches():
        while True:
            yield from loader

    stream = micro_batches()
    times = []
    for step in range(args.steps):
        t0 = time.perf_counter()
        total = 0.0
        optimizer.zero_grad()
        for _ in range(args.accumulate):
            images, labels = next(stream)
            loss = F.cross_entropy(model(images), labels) / args.accumulate
            loss.backward()
            total += loss.item()
        nn.utils.clip_grad_norm_(model.head.parameters(), 1.0)
        optimizer.step()
        times.append((time.perf_counter() - t0) * 1e3)
        if (step + 1) % 10 == 0:
            print(f"step {step + 1}/{args.steps} loss {total:.4f}")
    print(json.dumps({"ms": round(statistics.median(times[5:] or times), 3)}))


if __name__ == "__main__":
    main()
