"""Surrogate model for a chemical reactor: operating point -> outlet composition."""
import argparse
import time

import numpy as np
import torch
import torch.nn as nn


def simulate(count, rng):
    """Cheap stand-in for the simulator's export (single precision columns)."""
    x = rng.uniform(0.0, 1.0, (count, 40)).astype(np.float32)
    mix = rng.normal(0, 1, (40, 12)).astype(np.float32)
    rate = np.exp(-1.5 * np.abs(x @ mix) / 3)
    y = np.cumsum(rate, axis=1) / np.arange(1, 13)
    return x, y.astype(np.float32)


def standardise(columns):
    """Zero mean, unit variance; statistics in double so long columns stay exact."""
    mean = columns.mean(axis=0, dtype=np.float64)
    std = columns.std(axis=0, dtype=np.float64)
    return torch.from_numpy((columns - mean) / (std + 1e-8)), mean, std


def residual_block(width):
    return nn.Sequential(nn.LayerNorm(width), nn.Linear(width, width), nn.SiLU(), nn.Linear(width, width))


class Surrogate(nn.Module):
    def __init__(self, inputs, outputs, width=256, depth=4):
        super().__init__()
        self.lift = nn.Linear(inputs, width)
        self.blocks = nn.ModuleList(residual_block(width) for _ in range(depth))
        self.mean = nn.Linear(width, outputs)
        self.log_var = nn.Linear(width, outputs)

    def forward(self, x):
        h = self.lift(x)
        for block in self.blocks:
            h = h + block(h)
        return self.mean(h), self.log_var(h).clamp(-8, 4)


def gaussian_nll(mean, log_var, target):
    return 0.5 * (log_var + (target - mean).square() * torch.exp(-log_var)).mean()


def minibatches(x, y, size, gen):
    while True:
        order = torch.randperm(len(x), generator=gen)
        for start in range(0, len(x) - size + 1, size):
            idx = order[start : start + size]
            yield x[idx], y[idx]


def warm_cosine(step, warm, total):
    if step < warm:
        return (step + 1) / warm
    return 0.5 * (1 + np.cos(np.pi * (step - warm) / max(1, total - warm)))


parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=60)
parser.add_argument("--batch", type=int, default=384)
parser.add_argument("--samples", type=int, default=20000)
args = parser.parse_args()

torch.manual_seed(0)
raw_x, raw_y = simulate(args.samples, np.random.default_rng(0))
inputs, x_mean, x_std = standardise(raw_x)
targets, y_mean, y_std = standardise(raw_y)

model = Surrogate(inputs.shape[1], targets.shape[1]).to(inputs.dtype)
optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=1e-4)
schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda s: warm_cosine(s, 10, args.steps))
loader = minibatches(inputs, targets, args.batch, torch.Generator().manual_seed(1))

began = time.perf_counter()
for step in range(args.steps):
    if step == 5:
        began = time.perf_counter()
    x, y = next(loader)
    mean, log_var = model(x)
    loss = gaussian_nll(mean, log_var, y)
    optimizer.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    schedule.step()
    if (step + 1) % 20 == 0:
        rmse = ((mean - y).detach().square().mean(0).sqrt().numpy() * y_std).mean()
        print(f"step {step + 1} nll {loss.item():.4f} rmse {rmse:.5f}")
took = (time.perf_counter() - began) / max(1, args.steps - 5)
print(f"mean step {took * 1000:.2f} ms")
