"""Spiking classifier with direct input coding and surrogate gradients."""
import argparse
import math
import time

import torch
import torch.nn as nn
import torch.nn.functional as F


class Spike(torch.autograd.Function):
    """Heaviside step forward, arctan surrogate backward."""

    @staticmethod
    def forward(ctx, membrane, alpha):
        ctx.save_for_backward(membrane)
        ctx.alpha = alpha
        return (membrane >= 0).to(membrane.dtype)

    @staticmethod
    def backward(ctx, grad):
        (membrane,) = ctx.saved_tensors
        scaled = (math.pi / 2) * ctx.alpha * membrane
        return grad * (ctx.alpha / 2) / (1 + scaled * scaled), None


class LIF(nn.Module):
    def __init__(self, tau=2.0, threshold=1.0):
        super().__init__()
        self.tau, self.threshold = tau, threshold
        self.v = None

    def reset(self):
        self.v = None

    def forward(self, current):
        v = current / self.tau if self.v is None else self.v + (current - self.v) / self.tau
        spike = Spike.apply(v - self.threshold, 2.0)
        self.v = v * (1 - spike.detach())
        return spike


class SpikingNet(nn.Module):
    def __init__(self, classes=10, width=24, timesteps=6):
        super().__init__()
        self.timesteps = timesteps
        self.stem = nn.Sequential(
            nn.Conv2d(3, width, 3, padding=1, bias=False),
            nn.GroupNorm(4, width),
            nn.ReLU(),
            nn.Conv2d(width, width, 3, padding=1, bias=False),
            nn.GroupNorm(4, width),
        )
        self.lif1 = LIF()
        self.conv2 = nn.Conv2d(width, width * 2, 3, padding=1, bias=False)
        self.norm2 = nn.GroupNorm(4, width * 2)
        self.lif2 = LIF()
        self.conv3 = nn.Conv2d(width * 2, width * 2, 3, padding=1, bias=False)
        self.norm3 = nn.GroupNorm(4, width * 2)
        self.lif3 = LIF()
        self.head = nn.Linear(width * 2 * 16, classes)

    def reset(self):
        for m in self.modules():
            if isinstance(m, LIF):
                m.reset()

    def forward(self, image):
        self.reset()
        total = 0
        for _ in range(self.timesteps):
            current = self.stem(image)
            s = F.avg_pool2d(self.lif1(current), 2)
            s = F.avg_pool2d(self.lif2(self.norm2(self.conv2(s))), 2)
            s = F.avg_pool2d(self.lif3(self.norm3(self.conv3(s))), 2)
            total = total + self.head(s.flatten(1))
        return total / self.timesteps


def image_stream(batch, generator):
    prototypes = torch.rand(10, 3, 32, 32, generator=generator)
    while True:
        y = torch.randint(10, (batch,), generator=generator)
        x = prototypes[y] + 0.3 * torch.randn(batch, 3, 32, 32, generator=generator)
        yield x, y


parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=60)
parser.add_argument("--batch", type=int, default=12)
args = parser.parse_args()

torch.manual_seed(11)
stream = image_stream(args.batch, torch.Generator().manual_seed(12))
net = SpikingNet()
optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)

t0 = time.perf_counter()
for step in range(args.steps):
    if step == 5:
        t0 = time.perf_counter()
    x, y = next(stream)
    logits = net(x)
    loss = F.cross_entropy(logits, y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 15 == 0:
        print(f"{step:4d} loss {loss.item():.4f}")
elapsed = time.perf_counter() - t0
print(f"mean step {1000 * elapsed / max(1, args.steps - 5):.2f} ms")
