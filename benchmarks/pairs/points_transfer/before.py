"""Train a PointNet on point clouds that are held in memory."""

import argparse
import json
import random
import time

import torch
from torch import nn
from torch.nn import functional as F

WARMUP = 10


def now(device):
    if device.type == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter()


class PointNet(nn.Module):
    def __init__(self, width, classes):
        super().__init__()
        self.points = nn.Sequential(
            nn.Linear(3, width),
            nn.LayerNorm(width),
            nn.ReLU(),
            nn.Linear(width, 2 * width),
            nn.LayerNorm(2 * width),
            nn.ReLU(),
            nn.Linear(2 * width, 4 * width),
        )
        self.head = nn.Sequential(nn.Linear(4 * width, 2 * width), nn.ReLU(), nn.Linear(2 * width, classes))

    def forward(self, x):
        return self.head(self.points(x).amax(1))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--small", action="store_true")
    args = parser.parse_args()
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    random.seed(0)
    batch, points, width = (4, 32, 8) if args.small else (256, 1024, 64)

    clouds = [torch.randn(points, 3) for _ in range(2000)]
    labels = torch.randint(40, (2000,))
    model = PointNet(width, 40).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for step in range(WARMUP + args.steps):
        picks = random.sample(range(len(clouds)), batch)
        x = torch.stack([clouds[i].to(device) for i in picks])
        y = labels[picks].to(device)
        with torch.autocast(device.type, torch.bfloat16):
            loss = F.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step + 1 == WARMUP:
            begin = now(device)
    ms = (now(device) - begin) / args.steps * 1e3
    peak = torch.cuda.max_memory_allocated() / 2**20 if device.type == "cuda" else 0.0
    print(json.dumps({"ms": round(ms, 3), "peak_mb": round(peak, 1)}))


if __name__ == "__main__":
    main()
