"""Session-based recommendation: GRU over clicked items, popularity-sampled negatives."""
import argparse
import json
import statistics
import sys
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

ITEMS = 80000
GENRES = 200
SESSION = 20
NEGATIVES = 64
BATCH = 64


class Sessions:
    """Click sessions that stay mostly within one genre, with a long popularity tail."""

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)
        self.popularity = 1.0 / np.arange(1, ITEMS + 1) ** 0.8
        self.per_genre = ITEMS // GENRES

    def batch(self, size):
        genre = self.rng.integers(0, GENRES, (size, 1))
        rank = (self.per_genre * self.rng.random((size, SESSION + 1)) ** 2).astype(np.int64)
        clicks = rank * GENRES + genre
        stray = self.rng.random(clicks.shape) < 0.15
        clicks[stray] = self.rng.integers(0, ITEMS, stray.sum())
        return clicks


class NegativeSampler:
    """Draws items in proportion to a power of their popularity."""

    def __init__(self, popularity, power, seed):
        p = popularity ** power
        self.p = p / p.sum()
        self.cdf = self.p.cumsum()
        self.cdf /= self.cdf[-1]
        self.rng = np.random.default_rng(seed)

    def draw(self, k):
        return self.cdf.searchsorted(self.rng.random(k), side="right")

    def log_prob(self, items):
        return np.log(self.p[items])


class SessionModel(nn.Module):
    def __init__(self, width=64):
        super().__init__()
        self.items = nn.Embedding(ITEMS, width, sparse=True)
        nn.init.normal_(self.items.weight, std=0.1)
        self.gru = nn.GRU(width, 2 * width, num_layers=2, batch_first=True)
        self.proj = nn.Linear(2 * width, width)

    def forward(self, history, candidates):
        y, _ = self.gru(self.items(history))
        query = self.proj(y[:, -1])
        return torch.einsum("bd,bkd->bk", query, self.items(candidates))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=150)
    args = parser.parse_args()

    torch.manual_seed(0)
    sessions = Sessions(seed=0)
    sampler = NegativeSampler(sessions.popularity, 0.75, seed=1)
    model = SessionModel()
    dense = torch.optim.Adam([*model.gru.parameters(), *model.proj.parameters()], lr=1e-3)
    sparse = torch.optim.SparseAdam([model.items.weight], lr=2e-3)

    times = []
    recall = 0.0
    for step in range(args.steps):
        t0 = time.perf_counter()
        clicks = sessions.batch(BATCH)
        history, target = clicks[:, :-1], clicks[:, -1:]
        negatives = np.stack([sampler.draw(NEGATIVES) for _ in range(BATCH)])
        candidates = np.concatenate([target, negatives], axis=1)
        correction = torch.from_numpy(sampler.log_prob(candidates).astype(np.float32))
        scores = model(torch.from_numpy(history), torch.from_numpy(candidates))
        loss = F.cross_entropy(scores - correction, torch.zeros(BATCH, dtype=torch.long))
        dense.zero_grad()
        sparse.zero_grad()
        loss.backward()
        dense.step()
        sparse.step()
        hit = (scores[:, :1] >= scores.topk(10, dim=1).values[:, -1:]).float().mean().item()
        recall = 0.95 * recall + 0.05 * hit
        times.append((time.perf_counter() - t0) * 1000)
        if (step + 1) % 20 == 0:
            print(f"step {step + 1} loss {loss.item():.5f} recall@10 {recall:.5f}", file=sys.stderr)

    timed = times[5:] or times
    print(json.dumps({"ms": statistics.median(timed), "steps": args.steps}))


if __name__ == "__main__":
    main()
