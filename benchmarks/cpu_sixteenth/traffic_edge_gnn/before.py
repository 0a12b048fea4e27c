"""Forecast of traffic speed at road sensors with a message-passing network over the road graph.

Plain PyTorch (index_add for the aggregation), several time windows stacked into one big graph per batch.
"""
import argparse
import time
from collections import namedtuple

import numpy as np
import torch
from torch import nn
import torch.nn.functional as F

Graph = namedtuple("Graph", "edge_index edge_attr num_nodes")


def make_road_graph(n, k, rng):
    pos = rng.random((n, 2)).astype(np.float32)
    d = ((pos[:, None] - pos[None]) ** 2).sum(-1)
    np.fill_diagonal(d, np.inf)
    nbr = np.argpartition(d, k, axis=1)[:, :k]
    dst = np.repeat(np.arange(n), k)
    src = nbr.reshape(-1)
    dist = np.sqrt(d[dst, src])
    attr = np.stack([dist / dist.max(), np.exp(-dist / dist.std())], 1).astype(np.float32)
    return Graph(torch.from_numpy(np.stack([src, dst])), torch.from_numpy(attr), n)


def make_series(graph, steps, rng):
    """Daily rhythm plus congestion that diffuses along the edges."""
    n = graph.num_nodes
    src, dst = graph.edge_index.numpy()
    phase = rng.random(n) * 0.6
    x = np.zeros((steps, n), dtype=np.float32)
    jam = np.zeros(n)
    for t in range(steps):
        jam *= 0.9
        jam[rng.integers(0, n, 3)] += rng.random(3)
        spread = np.zeros(n)
        np.add.at(spread, dst, jam[src])
        jam = 0.8 * jam + 0.2 * spread / 12
        x[t] = 60 + 12 * np.sin(2 * np.pi * t / 288 + phase) - 20 * np.minimum(jam, 2) + rng.normal(size=n)
    return torch.from_numpy(x)


class WindowSampler:
    def __init__(self, series, history, horizon, batch, lo, hi, seed):
        self.s, self.h, self.f, self.batch = series, history, horizon, batch
        self.lo, self.hi = lo, hi - history - horizon
        self.gen = torch.Generator().manual_seed(seed)

    def __call__(self):
        starts = torch.randint(self.lo, self.hi, (self.batch,), generator=self.gen).tolist()
        x = torch.stack([self.s[t: t + self.h].T for t in starts])
        y = torch.stack([self.s[t + self.h: t + self.h + self.f].T for t in starts])
        return x.flatten(0, 1), y.flatten(0, 1)


def replicate(graph, copies):
    offset = (torch.arange(copies) * graph.num_nodes).repeat_interleave(graph.edge_index.size(1))
    return Graph(graph.edge_index.repeat(1, copies) + offset, graph.edge_attr.repeat(copies, 1),
                 graph.num_nodes * copies)


class GatedConv(nn.Module):
    """Residual gated graph convolution: h_i + sum_j sigmoid(gate_ij) * V h_j."""

    def __init__(self, dim, edge_dim):
        super().__init__()
        self.key = nn.Linear(dim, dim)
        self.query = nn.Linear(dim, dim)
        self.value = nn.Linear(dim, dim)
        self.edge = nn.Linear(edge_dim, dim, bias=False)
        self.norm = nn.LayerNorm(dim)

    def message(self, h_src, h_dst, edge_attr):
        gate = torch.sigmoid(self.key(h_dst) + self.query(h_src) + self.edge(edge_attr))
        return gate * self.value(h_src)

    def forward(self, h, g):
        src, dst = g.edge_index
        m = self.message(h[src], h[dst], g.edge_attr)
        agg = torch.zeros_like(h).index_add(0, dst, m)
        return h + F.relu(self.norm(agg))


class SpeedForecaster(nn.Module):
    def __init__(self, history, horizon, dim=64, layers=3, edge_dim=2):
        super().__init__()
        self.encode = nn.Sequential(nn.Linear(history, dim), nn.ReLU(), nn.Linear(dim, dim))
        self.convs = nn.ModuleList(GatedConv(dim, edge_dim) for _ in range(layers))
        self.decode = nn.Sequential(nn.Linear(dim, dim), nn.ReLU(), nn.Linear(dim, horizon))

    def forward(self, x, g):
        h = self.encode(x)
        for conv in self.convs:
            h = conv(h, g)
        return self.decode(h)


class Standardizer:
    def __init__(self, series):
        self.mean, self.std = series.mean(), series.std()

    def __call__(self, x):
        return (x - self.mean) / self.std

    def invert(self, x):
        return x * self.std + self.mean


def evaluate(model, sampler, graph, scaler, rounds=2):
    model.eval()
    mae = 0.0
    with torch.no_grad():
        for _ in range(rounds):
            x, y = sampler()
            mae += (scaler.invert(model(scaler(x), graph)) - y).abs().mean().item()
    model.train()
    return mae / rounds


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--sensors", type=int, default=207)
    ap.add_argument("--neighbours", type=int, default=12)
    ap.add_argument("--batch", type=int, default=6)
    ap.add_argument("--steps", type=int, default=40)
    ap.add_argument("--lr", type=float, default=3e-3)
    args = ap.parse_args()
    rng = np.random.default_rng(0)
    torch.manual_seed(0)

    road = make_road_graph(args.sensors, args.neighbours, rng)
    series = make_series(road, 2000, rng)
    scaler = Standardizer(series[:1600])
    train = WindowSampler(series, 12, 12, args.batch, 0, 1600, 1)
    valid = WindowSampler(series, 12, 12, args.batch, 1600, 2000, 2)
    batch_graph = replicate(road, args.batch)

    model = SpeedForecaster(12, 12)
    opt = torch.optim.AdamW(model.parameters(), lr=args.lr)
    sched = torch.optim.lr_scheduler.StepLR(opt, 20, 0.5)
    print(f"graph: {batch_graph.num_nodes} nodes, {batch_graph.edge_index.size(1)} edges")

    best, clock = float("inf"), time.time()
    for it in range(1, args.steps + 1):
        x, y = train()
        pred = scaler.invert(model(scaler(x), batch_graph))
        loss = F.smooth_l1_loss(pred, y)
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        opt.step()
        sched.step()
        if it % 20 == 0:
            per = (time.time() - clock) / 20 * 1e3
            mae = evaluate(model, valid, batch_graph, scaler)
            best = min(best, mae)
            print(f"iter {it:3d} train {loss.item():.3f} val MAE {mae:.3f} ({per:.0f} ms/iter)", flush=True)
            clock = time.time()
    print(f"best val MAE {best:.3f} mph")


if __name__ == "__main__":
    main()
