"""Two-tower retrieval model with in-batch softmax (implicit feedback)."""
import argparse
import logging
import os
import statistics
import time

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

logging.basicConfig(level=logging.INFO, format="%(asctime)s | %(message)s", datefmt="%H:%M:%S")
log = logging.getLogger("two_tower")


class Tower(nn.Module):
    """ID embedding + a small projection of side features."""

    def __init__(self, num_ids, num_feats, dim, hidden=128):
        super().__init__()
        self.emb = nn.Embedding(num_ids, dim, sparse=True)
        nn.init.normal_(self.emb.weight, std=0.05)
        self.mlp = nn.Sequential(nn.Linear(dim + num_feats, hidden), nn.ReLU(), nn.Linear(hidden, dim))

    def forward(self, ids, feats):
        x = torch.cat([self.emb(ids), feats], dim=1)
        return F.normalize(self.mlp(x), dim=1)


class TwoTower(nn.Module):
    def __init__(self, users, items, dim=48, user_feats=12, item_feats=20, temperature=0.07):
        super().__init__()
        self.user_tower = Tower(users, user_feats, dim)
        self.item_tower = Tower(items, item_feats, dim)
        self.temperature = temperature

    def forward(self, user, user_x, item, item_x, log_q):
        u = self.user_tower(user, user_x)
        v = self.item_tower(item, item_x)
        # logQ correction for popularity-sampled negatives
        logits = u @ v.T / self.temperature - log_q
        return F.cross_entropy(logits, torch.arange(len(user)))


class Interactions:
    """Click log held in memory; popularity follows a power law."""

    def __init__(self, users, items, clicks, seed):
        rng = np.random.default_rng(seed)
        pop = 1.0 / np.arange(1, items + 1) ** 0.8
        pop /= pop.sum()
        self.user = torch.from_numpy(rng.integers(0, users, clicks))
        self.item = torch.from_numpy(rng.choice(items, clicks, p=pop))
        self.user_x = torch.from_numpy(rng.normal(size=(users, 12)).astype(np.float32))
        self.item_x = torch.from_numpy(rng.normal(size=(items, 20)).astype(np.float32))
        self.log_q = torch.from_numpy(np.log(pop).astype(np.float32))

    def batches(self, size, generator):
        while True:
            order = torch.randperm(len(self.user), generator=generator)
            for idx in order.split(size):
                if len(idx) < size:
                    continue
                u, i = self.user[idx], self.item[idx]
                yield u, self.user_x[u], i, self.item_x[i], self.log_q[i]


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--users", type=int, default=250_000)
    ap.add_argument("--items", type=int, default=120_000)
    ap.add_argument("--clicks", type=int, default=600_000)
    ap.add_argument("--batch-size", type=int, default=1024)
    ap.add_argument("--lr", type=float, default=0.02)
    ap.add_argument("--steps", type=int, default=int(os.environ.get("STEPS", 120)))
    args = ap.parse_args()

    torch.manual_seed(5)
    data = Interactions(args.users, args.items, args.clicks, seed=5)
    model = TwoTower(args.users, args.items)
    optimizer = torch.optim.Adagrad(model.parameters(), lr=args.lr)
    log.info("%.1fM parameters", sum(p.numel() for p in model.parameters()) / 1e6)

    stream = data.batches(args.batch_size, torch.Generator().manual_seed(11))
    times, ema = [], None
    for step in range(1, args.steps + 1):
        t0 = time.perf_counter()
        batch = next(stream)
        loss = model(*batch)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        value = loss.item()
        times.append(time.perf_counter() - t0)
        ema = value if ema is None else 0.95 * ema + 0.05 * value
        if step % 50 == 0:
            log.info("step %d loss %.6f (ema %.4f)", step, value, ema)
    print(f"final loss {value:.6f}")
    print(f"step {statistics.median(times[5:]) * 1000:.2f} ms")


if __name__ == "__main__":
    main()
