"""Two-tower recommender trained with BPR loss and popularity-weighted negatives."""
import argparse
import json
import statistics
import sys
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

N_USERS = 260_000
N_ITEMS = 90_000
DIM = 32
BATCH = 2048
N_NEG = 4


class TwoTower(nn.Module):
    def __init__(self, n_users, n_items, dim):
        super().__init__()
        self.user = nn.Embedding(n_users, dim)
        self.item = nn.Embedding(n_items, dim)
        nn.init.normal_(self.user.weight, std=0.05)
        nn.init.normal_(self.item.weight, std=0.05)
        self.user_mlp = nn.Sequential(nn.Linear(dim, 64), nn.ReLU(), nn.Linear(64, dim))
        self.item_mlp = nn.Sequential(nn.Linear(dim, 64), nn.ReLU(), nn.Linear(64, dim))

    def forward(self, users, items):
        u = self.user_mlp(self.user(users))            # B, D
        v = self.item_mlp(self.item(items))            # B, 1 + K, D
        return torch.einsum("bd,bkd->bk", u, v)


class Interactions:
    """Synthetic click log: a Zipf-like item popularity and uniform users."""

    def __init__(self, n_rows, seed):
        rng = np.random.default_rng(seed)
        self.users = rng.integers(0, N_USERS, n_rows)
        ranks = np.floor(N_ITEMS ** rng.random(n_rows)).astype(np.int64)
        self.items = np.minimum(ranks, N_ITEMS - 1)
        counts = np.bincount(self.items, minlength=N_ITEMS).astype(np.float64)
        weights = (counts + 1.0) ** 0.75
        self.cdf = np.cumsum(weights / weights.sum())
        self.rng = rng

    def batches(self, batch_size):
        while True:
            order = self.rng.permutation(len(self.users))
            for start in range(0, len(order) - batch_size + 1, batch_size):
                rows = order[start:start + batch_size]
                draws = self.rng.random((batch_size, N_NEG))
                neg = np.minimum(np.searchsorted(self.cdf, draws), N_ITEMS - 1)
                items = np.concatenate([self.items[rows, None], neg], axis=1)
                yield torch.from_numpy(self.users[rows]), torch.from_numpy(items)


def bpr_loss(scores):
    pos, neg = scores[:, :1], scores[:, 1:]
    return -F.logsigmoid(pos - neg).mean()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60)
    args = parser.parse_args()

    torch.manual_seed(0)
    data = Interactions(600_000, seed=0)
    model = TwoTower(N_USERS, N_ITEMS, DIM)
    optimizer = torch.optim.Adagrad(model.parameters(), lr=0.05)

    times = []
    running = 0.0
    stream = data.batches(BATCH)
    for step in range(args.steps):
        t0 = time.perf_counter()
        users, items = next(stream)
        optimizer.zero_grad()
        loss = bpr_loss(model(users, items))
        loss.backward()
        optimizer.step()
        running = 0.9 * running + 0.1 * loss.item()
        times.append((time.perf_counter() - t0) * 1000)
        if (step + 1) % 20 == 0:
            print(f"step {step + 1} bpr {running:.6f}", file=sys.stderr)

    timed = times[5:] or times
    print(json.dumps({"ms": statistics.median(timed), "steps": args.steps}))


if __name__ == "__main__":
    main()
