"""River gauges as a graph: predicts tomorrow's level at every gauge from the last fortnight.

Edges run downstream (and back), messages are weighted by travel time.
"""
import argparse
import statistics
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F


def river_network(gauges, seed):
    """Tree of gauges: each drains into an earlier one; coordinates follow the tree."""
    rng = np.random.default_rng(seed)
    parent = np.array([0] + [int(rng.integers(max(0, i - 60), i)) for i in range(1, gauges)])
    place = np.zeros((gauges, 2))
    for i in range(1, gauges):
        place[i] = place[parent[i]] + rng.normal(0.5, 1.0, 2)
    child = np.arange(1, gauges)
    hours = np.hypot(*(place[child] - place[parent[1:]]).T) + 0.2
    near = rng.integers(0, gauges, (2, 3 * gauges))
    near[1] = np.clip(near[0] + rng.integers(-30, 31, near.shape[1]), 0, gauges - 1)
    source = np.concatenate([child, parent[1:], near[0]])
    dest = np.concatenate([parent[1:], child, near[1]])
    weight = np.concatenate([1 / hours, 0.3 / hours, np.full(near.shape[1], 0.1)])
    order = np.argsort(dest, kind="stable")
    return place, parent, np.stack([source, dest])[:, order], weight[order]


def simulate_levels(parent, days, seed):
    rng = np.random.default_rng(seed)
    gauges = len(parent)
    level, out = np.zeros(gauges), []
    region = rng.integers(0, 12, gauges)
    for _ in range(days):
        rain = rng.gamma(0.4, 1.0, 12)[region] * rng.uniform(0.6, 1.4, gauges)
        inflow = np.bincount(parent, 0.35 * level, minlength=gauges)
        level = 0.55 * level + rain + 0.4 * np.log1p(inflow)
        out.append(level)
    levels = np.stack(out, 1)
    return (levels - levels.mean(1, keepdims=True)) / (levels.std(1, keepdims=True) + 1e-6)


class FlowLayer(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.send = nn.Linear(width, width, bias=False)
        self.keep = nn.Linear(width, width)
        self.gate = nn.Linear(2 * width, width)
        self.norm = nn.LayerNorm(width)

    def forward(self, x, edges, weight):
        message = self.send(x).index_select(0, edges[0]) * weight[:, None]
        received = torch.zeros_like(x).index_add(0, edges[1], message)
        gate = torch.sigmoid(self.gate(torch.cat([x, received], 1)))
        return x + F.relu(self.norm(gate * received + (1 - gate) * self.keep(x)))


class GaugeNet(nn.Module):
    def __init__(self, inputs, width=128, depth=3):
        super().__init__()
        self.embed = nn.Linear(inputs, width)
        self.layers = nn.ModuleList(FlowLayer(width) for _ in range(depth))
        self.out = nn.Sequential(nn.Linear(width, 64), nn.ReLU(), nn.Linear(64, 1))

    def forward(self, x, edges, weight):
        h = F.relu(self.embed(x))
        for layer in self.layers:
            h = layer(h, edges, weight)
        return self.out(h).squeeze(1)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=60)
    ap.add_argument("--gauges", type=int, default=1500)
    ap.add_argument("--window", type=int, default=14)
    args = ap.parse_args()
    torch.manual_seed(0)

    place, parent, edges, weight = river_network(args.gauges, seed=1)
    levels = torch.from_numpy(simulate_levels(parent, 300, seed=2)).float()
    static = torch.from_numpy((place - place.mean(0)) / place.std(0)).float()
    edges, weight = torch.from_numpy(edges), torch.from_numpy(weight).float()
    degree = torch.zeros(args.gauges, dtype=weight.dtype).index_add(0, edges[1], weight)
    weight = weight / degree[edges[1]]

    model = GaugeNet(args.window + 2)
    opt = torch.optim.Adam(model.parameters(), lr=2e-3)
    days = torch.Generator().manual_seed(4)
    last_train = 260

    times = []
    for step in range(1, args.steps + 1):
        t0 = time.perf_counter()
        day = int(torch.randint(args.window, last_train, (1,), generator=days))
        x = torch.cat([levels[:, day - args.window:day], static], 1)
        loss = F.mse_loss(model(x, edges, weight), levels[:, day])
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        times.append(time.perf_counter() - t0)
        if step % 20 == 0:
            print(f"step {step}  mse {loss.item():.4f}")
    model.eval()
    with torch.inference_mode():
        errors = [F.mse_loss(model(torch.cat([levels[:, d - args.window:d], static], 1), edges, weight),
                             levels[:, d]).item() for d in range(last_train, 300, 5)]
    print(f"held-out mse {statistics.mean(errors):.4f}")
    print(f"step_ms: {1e3 * statistics.median(times[max(3, len(times) // 10):]):.1f}")


if __name__ == "__main__":
    main()
