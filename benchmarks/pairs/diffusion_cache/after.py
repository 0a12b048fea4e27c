"""Train a diffusion U-Net to predict noise."""

import argparse
import json
import math
import time

import torch
from torch import nn
from torch.nn import functional as F

WARMUP = 10


def now(device):
    if device.type == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter()


class ResBlock(nn.Module):
    def __init__(self, inside, outside, time_width):
        super().__init__()
        self.norm1, self.norm2 = nn.GroupNorm(4, inside), nn.GroupNorm(4, outside)
        self.conv1 = nn.Conv2d(inside, outside, 3, padding=1)
        self.conv2 = nn.Conv2d(outside, outside, 3, padding=1)
        self.time = nn.Linear(time_width, outside)
        self.skip = nn.Conv2d(inside, outside, 1)

    def forward(self, x, t):
        y = self.conv1(F.silu(self.norm1(x))) + self.time(t)[:, :, None, None]
        return self.conv2(F.silu(self.norm2(y))) + self.skip(x)


class UNet(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.width = width
        self.time = nn.Sequential(nn.Linear(width, 4 * width), nn.SiLU(), nn.Linear(4 * width, 4 * width))
        self.first = nn.Conv2d(3, width, 3, padding=1)
        self.down1 = ResBlock(width, width, 4 * width)
        self.down2 = ResBlock(width, 2 * width, 4 * width)
        self.middle = ResBlock(2 * width, 2 * width, 4 * width)
        self.up2 = ResBlock(4 * width, width, 4 * width)
        self.up1 = ResBlock(2 * width, width, 4 * width)
        self.last = nn.Conv2d(width, 3, 3, padding=1)

    def forward(self, x, t):
        half = self.width // 2
        rates = torch.exp(-math.log(10000) * torch.arange(half, device=x.device) / half)
        angles = t[:, None].float() * rates
        t = self.time(torch.cat([angles.sin(), angles.cos()], 1))
        a = self.down1(self.first(x), t)
        b = self.down2(F.avg_pool2d(a, 2), t)
        c = self.middle(F.avg_pool2d(b, 2), t)
        c = self.up2(torch.cat([b, F.interpolate(c, scale_factor=2.0)], 1), t)
        return self.last(self.up1(torch.cat([a, F.interpolate(c, scale_factor=2.0)], 1), t))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--small", action="store_true")
    args = parser.parse_args()
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    batch, side, width = (2, 16, 8) if args.small else (64, 64, 128)

    model = UNet(width).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    keep = torch.cos(torch.linspace(0, math.pi / 2, 1000, device=device)) ** 2
    images = torch.rand(4 * batch, 3, side, side, device=device) * 2 - 1
    for step in range(WARMUP + args.steps):
        clean = images[torch.randint(len(images), (batch,), device=device)]
        t = torch.randint(1000, (batch,), device=device)
        noise = torch.randn_like(clean)
        a = keep[t][:, None, None, None]
        noisy = a.sqrt() * clean + (1 - a).sqrt() * noise
        with torch.autocast(device.type, torch.bfloat16):
            loss = F.mse_loss(model(noisy, t), noise)
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
