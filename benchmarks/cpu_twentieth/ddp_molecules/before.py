"""Energy regression on molecules of varying size: message passing under DDP, two gloo ranks."""
import argparse
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
from torch.nn.parallel import DistributedDataParallel

WORLD = 2
SPECIES = 6
NEIGHBOURS = 8
GLOBAL_BATCH = 64


class Molecules:
    """Random point clouds with species; the energy is a sum over near pairs."""

    def __init__(self, n, seed):
        rng = np.random.default_rng(seed)
        self.items = []
        charge = rng.normal(0, 1, SPECIES)
        for size in np.clip(rng.lognormal(3.2, 0.8, n).astype(int), NEIGHBOURS + 1, 300):
            species = rng.integers(0, SPECIES, size)
            place = rng.normal(0, 1, (size, 3)) * size ** (1 / 3)
            gap = np.linalg.norm(place[:, None] - place[None], axis=2)
            np.fill_diagonal(gap, np.inf)
            near = np.argpartition(gap, NEIGHBOURS, axis=1)[:, :NEIGHBOURS]
            length = np.take_along_axis(gap, near, 1)
            pair = charge[species][:, None] * charge[species][near] * np.exp(-length)
            self.items.append((
                torch.from_numpy(species), torch.from_numpy(near),
                torch.from_numpy(length.astype(np.float32)), float(pair.sum() / size),
            ))

    def __len__(self):
        return len(self.items)


def pack(items):
    """Concatenates molecules into one graph; no padding needed."""
    species, near, length, owner, start = [], [], [], [], 0
    for k, (s, n, d, _) in enumerate(items):
        species.append(s)
        near.append(n + start)
        length.append(d)
        owner.append(torch.full((len(s),), k))
        start += len(s)
    energy = torch.tensor([e for *_, e in items])
    return torch.cat(species), torch.cat(near), torch.cat(length), torch.cat(owner), energy


class EnergyNet(nn.Module):
    def __init__(self, width=64, layers=3, radial=16):
        super().__init__()
        self.species = nn.Embedding(SPECIES, width)
        self.register_buffer("centres", torch.linspace(0, 4, radial))
        self.messages = nn.ModuleList(
            nn.Sequential(nn.Linear(2 * width + radial, width), nn.SiLU(), nn.Linear(width, width))
            for _ in range(layers))
        self.updates = nn.ModuleList(
            nn.Sequential(nn.Linear(2 * width, width), nn.SiLU(), nn.Linear(width, width))
            for _ in range(layers))
        self.out = nn.Linear(width, 1)

    def forward(self, species, near, length, owner, count):
        h = self.species(species)
        basis = torch.exp(-4 * (length.unsqueeze(-1) - self.centres) ** 2)
        for message, update in zip(self.messages, self.updates):
            mine = h.unsqueeze(1).expand(-1, NEIGHBOURS, -1)
            m = message(torch.cat([mine, h[near], basis], dim=-1)).sum(1)
            h = h + update(torch.cat([h, m], dim=-1))
        atom = self.out(h).squeeze(-1)
        total = torch.zeros(count).index_add(0, owner, atom)
        return total / torch.bincount(owner, minlength=count)


def draw(data, rng, rank):
    """The rank's share of one global batch, in order of size."""
    rows = rng.choice(len(data), GLOBAL_BATCH, replace=False)
    rows = sorted(rows, key=lambda r: len(data.items[r][0]))
    share = len(rows) // WORLD
    mine = rows[rank * share:(rank + 1) * share]
    return [data.items[r] for r in mine]


def work(rank, steps, rendezvous):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{rendezvous}", rank=rank, world_size=WORLD)
    torch.manual_seed(0)
    data = Molecules(600, seed=0)
    model = DistributedDataParallel(EnergyNet())
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    rng = np.random.default_rng(1)

    times = []
    for step in range(steps):
        t0 = time.perf_counter()
        species, near, length, owner, energy = pack(draw(data, rng, rank))
        loss = F.mse_loss(model(species, near, length, owner, len(energy)), energy)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        times.append((time.perf_counter() - t0) * 1000)
        if (step + 1) % 20 == 0:
            mean = loss.detach().clone()
            dist.all_reduce(mean)
            if rank == 0:
                print(f"step {step + 1} loss {mean.item() / WORLD:.6f}", file=sys.stderr)

    if rank == 0:
        timed = times[5:] or times
        print(json.dumps({"ms": statistics.median(timed), "steps": steps}))
    dist.destroy_process_group()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=100)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        mp.spawn(work, args=(args.steps, os.path.join(folder, "rendezvous")), nprocs=WORLD)


if __name__ == "__main__":
    main()
