"""Claim-cost regression on two gloo ranks with gradient accumulation."""
import argparse
import contextlib
import json
import os
import statistics
import sys
import tempfile
import time

import numpy as np
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel as DDP

WORLD = 2
N_NUMERIC, N_CATEGORICAL, CARDINALITY = 60, 12, 40
MICRO_BATCH = 32
ACCUMULATE = 4


class Claims:
    """Generated insurance claims, sharded by rank."""

    def __init__(self, rank, n=6000):
        truth = np.random.default_rng(7)
        w = truth.normal(0, 1, (N_NUMERIC, 6)) / np.sqrt(N_NUMERIC)
        effects = truth.normal(0, 0.3, (N_CATEGORICAL, CARDINALITY))
        self.rng = np.random.default_rng(100 + rank)
        self.numeric = self.rng.normal(0, 1, (n, N_NUMERIC)).astype(np.float32)
        self.categorical = self.rng.integers(0, CARDINALITY, (n, N_CATEGORICAL))
        cost = np.tanh(self.numeric @ w).sum(1)
        cost += effects[np.arange(N_CATEGORICAL), self.categorical].sum(1)
        self.cost = (cost + self.rng.normal(0, 0.2, n)).astype(np.float32)

    def batch(self, size):
        rows = self.rng.integers(0, len(self.cost), size)
        return (torch.from_numpy(self.numeric[rows]), torch.from_numpy(self.categorical[rows]),
                torch.from_numpy(self.cost[rows]))


class CostModel(nn.Module):
    def __init__(self, emb=16, width=768, depth=3):
        super().__init__()
        self.embed = nn.Embedding(N_CATEGORICAL * CARDINALITY, emb)
        self.register_buffer("offsets", torch.arange(N_CATEGORICAL) * CARDINALITY)
        self.stem = nn.Linear(N_NUMERIC + N_CATEGORICAL * emb, width)
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 2 * width), nn.ReLU(),
                          nn.Linear(2 * width, width)) for _ in range(depth))
        self.head = nn.Linear(width, 1)

    def forward(self, numeric, categorical):
        e = self.embed(categorical + self.offsets).flatten(1)
        h = self.stem(torch.cat([numeric, e], 1))
        for block in self.blocks:
            h = h + block(h)
        return self.head(h).squeeze(1)


def train_step(model, optimizer, data):
    optimizer.zero_grad()
    total = 0.0
    for micro in range(ACCUMULATE):
        numeric, categorical, cost = data.batch(MICRO_BATCH)
        last = micro == ACCUMULATE - 1
        with contextlib.nullcontext() if last else model.no_sync():
            loss = F.huber_loss(model(numeric, categorical), cost) / ACCUMULATE
            loss.backward()
        total += loss.item()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    return total


def worker(rank, init_file, steps):
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{init_file}", rank=rank, world_size=WORLD)
    torch.manual_seed(0)
    data = Claims(rank)
    model = DDP(CostModel())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    scheduler = torch.optim.lr_scheduler.LinearLR(optimizer, 0.1, 1.0, total_iters=20)

    times = []
    for step in range(steps):
        t0 = time.perf_counter()
        loss = train_step(model, optimizer, data)
        scheduler.step()
        times.append((time.perf_counter() - t0) * 1000)
        if (step + 1) % 20 == 0:
            mean = torch.tensor([loss])
            dist.all_reduce(mean)
            if rank == 0:
                print(f"step {step + 1} loss {mean.item() / WORLD:.5f}", file=sys.stderr)

    if rank == 0:
        timed = times[5:] or times
        print(json.dumps({"ms": statistics.median(timed), "steps": steps}), flush=True)
    dist.barrier()
    dist.destroy_process_group()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=80)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        mp.spawn(worker, (os.path.join(folder, "init"), args.steps), nprocs=WORLD)


if __name__ == "__main__":
    main()
