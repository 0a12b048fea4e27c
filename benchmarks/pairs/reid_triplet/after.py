"""Train person re-identification: identities and a batch-hard triplet loss on the embeddings."""

import argparse
import json
import time

import torch
from torch import nn
from torch.nn import functional as F

WARMUP = 10


def now(device):
    if device.type == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter()


class Residual(nn.Module):
    def __init__(self, inside, outside, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(inside, outside, 3, stride, 1, bias=False)
        self.conv2 = nn.Conv2d(outside, outside, 3, 1, 1, bias=False)
        self.bn1, self.bn2 = nn.BatchNorm2d(outside), nn.BatchNorm2d(outside)
        self.skip = nn.Identity()
        if stride > 1 or inside != outside:
            self.skip = nn.Sequential(
                nn.Conv2d(inside, outside, 1, stride, bias=False), nn.BatchNorm2d(outside)
            )

    def forward(self, x):
        y = F.relu(self.bn1(self.conv1(x)))
        return F.relu(self.bn2(self.conv2(y)) + self.skip(x))


class Embedder(nn.Module):
    """A residual network over crops of people, with a neck between embedding and identities."""

    def __init__(self, widths, size, people):
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(3, widths[0], 5, 2, 2, bias=False), nn.BatchNorm2d(widths[0]), nn.ReLU()
        )
        stages = zip(widths, widths[1:])
        self.stages = nn.Sequential(*[Residual(a, b, 2) for a, b in stages])
        self.project = nn.Linear(widths[-1], size)
        self.neck = nn.BatchNorm1d(size)
        self.identity = nn.Linear(size, people, bias=False)

    def forward(self, x):
        x = self.stages(self.stem(x)).mean((2, 3))
        features = self.project(x)
        return features, self.identity(self.neck(features))


def pairwise_distances(x, y):
    """Euclidean distance of every row of x to every row of y."""
    squared = x.pow(2).sum(1).unsqueeze(1) + y.pow(2).sum(1) - 2 * x @ y.T
    return squared.clamp(min=1e-12).sqrt()


class BatchHardTriplet(nn.Module):
    """Pulls the farthest crop of a person nearer than the closest crop of anybody else."""

    def __init__(self, margin=0.3):
        super().__init__()
        self.margin = margin

    def forward(self, features, people):
        features = F.normalize(features.float())
        distance = pairwise_distances(features, features)
        same = people.unsqueeze(0) == people.unsqueeze(1)
        farthest = distance.masked_fill(~same, 0).amax(1)
        closest = distance.masked_fill(same, float("inf")).amin(1)
        return F.relu(farthest - closest + self.margin).mean()


class Trainer:
    def __init__(self, model, device):
        self.model, self.device = model, device
        self.triplet = BatchHardTriplet()
        self.optimizer = torch.optim.SGD(
            model.parameters(), lr=0.01, momentum=0.9, nesterov=True, fused=device.type == "cuda"
        )

    def step(self, images, people):
        self.optimizer.zero_grad()
        with torch.autocast(self.device.type, torch.bfloat16):
            features, logits = self.model(images)
        identity = F.cross_entropy(logits.float(), people, label_smoothing=0.1)
        loss = identity + self.triplet(features, people)
        loss.backward()
        self.optimizer.step()
        return loss.detach()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--small", action="store_true")
    args = parser.parse_args()
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    persons, views, height, widths, size, people = (
        (4, 2, 32, (8, 16), 16, 20) if args.small else (128, 8, 128, (64, 128, 256, 512), 512, 4096)
    )
    torch.backends.cudnn.benchmark = True

    model = Embedder(widths, size, people).to(device, memory_format=torch.channels_last)
    trainer = Trainer(model, device)
    images = torch.randn(persons * views, 3, height, height // 2, device=device)
    images = images.contiguous(memory_format=torch.channels_last)
    chosen = torch.stack([torch.randperm(people)[:persons] for _ in range(8)])
    chosen = chosen.repeat_interleave(views, 1).to(device)
    for step in range(WARMUP + args.steps):
        loss = trainer.step(images, chosen[step % len(chosen)])
        if step + 1 == WARMUP:
            begin = now(device)
    ms = (now(device) - begin) / args.steps * 1e3
    peak = torch.cuda.max_memory_allocated() / 2**20 if device.type == "cuda" else 0.0
    print(f"last loss {loss.item():.4f}")
    print(json.dumps({"ms": round(ms, 3), "peak_mb": round(peak, 1)}))


if __name__ == "__main__":
    main()
