"""Train a graph network on one large graph."""

import argparse
import json
import os
import time

import torch
from torch import nn
from torch.nn import functional as F

WARMUP = 10


def now(device):
    if device.type == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter()


class Layer(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.message = nn.Linear(width, width)
        self.update = nn.Linear(2 * width, width)
        self.norm = nn.LayerNorm(width)

    def forward(self, x, source, target):
        messages = self.message(x).index_select(0, source)
        gathered = torch.zeros_like(x).index_add_(0, target, messages)
        return self.norm(x + F.relu(self.update(torch.cat([x, gathered], 1))))


class Net(nn.Module):
    def __init__(self, inputs, width, depth, classes):
        super().__init__()
        self.first = nn.Linear(inputs, width)
        self.layers = nn.ModuleList(Layer(width) for _ in range(depth))
        self.last = nn.Linear(width, classes)

    def forward(self, x, source, target):
        x = F.relu(self.first(x))
        for layer in self.layers:
            x = layer(x, source, target)
        return self.last(x)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--small", action="store_true")
    args = parser.parse_args()
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"
    torch.use_deterministic_algorithms(True)
    nodes, edges, width, depth = (100, 400, 16, 2) if args.small else (100_000, 1_000_000, 128, 4)

    features = torch.randn(nodes, 64, device=device)
    source = torch.randint(nodes, (edges,), device=device)
    target = torch.randint(nodes, (edges,), device=device)
    labels = torch.randint(16, (nodes,), device=device)
    model = Net(64, width, depth, 16).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for step in range(WARMUP + args.steps):
        loss = F.cross_entropy(model(features, source, target), labels)
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
