"""Train an EfficientNet-like network."""

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


class MBConv(nn.Module):
    def __init__(self, inside, outside, stride, expand=4):
        super().__init__()
        hidden = inside * expand
        self.expand = nn.Sequential(nn.Conv2d(inside, hidden, 1, bias=False), nn.BatchNorm2d(hidden), nn.SiLU())
        self.depthwise = nn.Sequential(
            nn.Conv2d(hidden, hidden, 3, stride, 1, groups=hidden, bias=False), nn.BatchNorm2d(hidden), nn.SiLU()
        )
        self.squeeze = nn.Conv2d(hidden, max(1, inside // 4), 1)
        self.excite = nn.Conv2d(max(1, inside // 4), hidden, 1)
        self.project = nn.Sequential(nn.Conv2d(hidden, outside, 1, bias=False), nn.BatchNorm2d(outside))
        self.residual = stride == 1 and inside == outside

    def forward(self, x):
        y = self.depthwise(self.expand(x))
        scale = self.excite(F.silu(self.squeeze(y.mean((2, 3), keepdim=True))))
        y = self.project(y * torch.sigmoid(scale))
        return x + y if self.residual else y


class Net(nn.Module):
    def __init__(self, widths, depths, classes):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, widths[0], 3, 2, 1, bias=False), nn.BatchNorm2d(widths[0]), nn.SiLU())
        blocks, inside = [], widths[0]
        for width, depth in zip(widths, depths, strict=True):
            for index in range(depth):
                blocks.append(MBConv(inside, width, 2 if index == 0 else 1))
                inside = width
        self.blocks = nn.Sequential(*blocks)
        self.head = nn.Linear(inside, classes)

    def forward(self, x):
        return self.head(self.blocks(self.stem(x)).mean((2, 3)))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--small", action="store_true")
    args = parser.parse_args()
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if args.small:
        batch, side, widths, depths = 2, 32, (8, 8), (1, 2)
    else:
        batch, side, widths, depths = 32, 160, (32, 48, 96, 160), (6, 8, 12, 14)

    model = Net(widths, depths, 100).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.05)
    images = torch.randn(batch, 3, side, side, device=device)
    labels = torch.randint(100, (batch,), device=device)
    for step in range(WARMUP + args.steps):
        loss = F.cross_entropy(model(images), labels)
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
