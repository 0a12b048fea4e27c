"""Fit a surrogate of a simulation: parameters in, fields out."""

import argparse
import json
import time

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

WARMUP = 10


def now(device):
    if device.type == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter()


class Surrogate(nn.Module):
    def __init__(self, inputs, width, depth, outputs):
        super().__init__()
        self.first = nn.Linear(inputs, width)
        self.hidden = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))
        self.last = nn.Linear(width, outputs)

    def forward(self, x):
        x = F.gelu(self.first(x))
        for layer in self.hidden:
            x = x + F.gelu(layer(x))
        return self.last(x)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--small", action="store_true")
    args = parser.parse_args()
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    torch.set_float32_matmul_precision("high")
    rng = np.random.default_rng(0)
    batch, width, depth = (32, 32, 2) if args.small else (8192, 1536, 6)

    parameters = rng.uniform(-1, 1, (4 * batch, 24))
    fields = np.sin(parameters @ rng.normal(size=(24, 64)))
    x = torch.from_numpy(parameters).float().to(device)
    y = torch.from_numpy(fields).float().to(device)
    model = Surrogate(24, width, depth, 64).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for step in range(WARMUP + args.steps):
        picks = torch.randint(len(x), (batch,), device=device)
        loss = F.mse_loss(model(x[picks]), y[picks])
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
