#!/usr/bin/env python
# Click-through ranking model (wide & deep style) on streaming impression logs.
import argparse
import sys
import time
from collections import deque

import numpy as np
import torch
import torch.nn as nn

FIELDS = [
    # name, cardinality, zipf exponent
    ("user_id", 300_000, 1.10),
    ("item_id", 120_000, 1.15),
    ("seller_id", 12_000, 1.20),
    ("query_hash", 160_000, 1.05),
    ("category", 400, 1.30),
    ("device", 12, 1.50),
    ("hour", 24, None),
]
N_DENSE = 6


class ImpressionLog:
    """Synthetic impressions with a planted user/item affinity."""

    def __init__(self, n, seed):
        rng = np.random.default_rng(seed)
        cols = []
        for _, card, a in FIELDS:
            if a is None:
                cols.append(rng.integers(0, card, size=n))
            else:
                u = rng.random(n)
                cols.append(np.minimum((card ** u - 1).astype(np.int64), card - 1))
        self.sparse = np.stack(cols, axis=1)
        self.dense = rng.lognormal(0.0, 1.0, size=(n, N_DENSE)).astype(np.float32)
        bias_u = rng.normal(0, 1.0, size=FIELDS[0][1])
        bias_i = rng.normal(0, 1.0, size=FIELDS[1][1])
        logit = -2.0 + bias_u[self.sparse[:, 0]] + bias_i[self.sparse[:, 1]] + 0.3 * np.log1p(self.dense[:, 0])
        self.click = (rng.random(n) < 1 / (1 + np.exp(-logit))).astype(np.float32)

    def __len__(self):
        return len(self.click)

    def stream(self, lo, hi, batch):
        for s in range(lo, hi - batch + 1, batch):
            sl = slice(s, s + batch)
            yield (torch.from_numpy(self.sparse[sl]),
                   torch.from_numpy(np.log1p(self.dense[sl])),
                   torch.from_numpy(self.click[sl]))


class FieldEmbedding(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.tables = nn.ModuleList()
        for _, card, _ in FIELDS:
            table = nn.Embedding(card, dim, sparse=True)
            nn.init.uniform_(table.weight, -dim ** -0.5, dim ** -0.5)
            self.tables.append(table)

    def forward(self, sparse):
        return torch.stack([t(sparse[:, f]) for f, t in enumerate(self.tables)], dim=1)


class CTRModel(nn.Module):
    def __init__(self, dim, hidden):
        super().__init__()
        self.fields = FieldEmbedding(dim)
        self.bottom = nn.Sequential(nn.Linear(N_DENSE, hidden), nn.ReLU(), nn.Linear(hidden, dim), nn.ReLU())
        n = len(FIELDS) + 1
        rows, cols = torch.triu_indices(n, n, offset=1)
        self.register_buffer("rows", rows)
        self.register_buffer("cols", cols)
        top_in = n * (n - 1) // 2 + dim
        self.top = nn.Sequential(
            nn.Linear(top_in, hidden * 4), nn.ReLU(),
            nn.Linear(hidden * 4, hidden * 2), nn.ReLU(),
            nn.Linear(hidden * 2, 1))

    def forward(self, sparse, dense):
        d = self.bottom(dense)
        z = torch.cat([d[:, None], self.fields(sparse)], dim=1)
        inter = torch.bmm(z, z.transpose(1, 2))[:, self.rows, self.cols]
        return self.top(torch.cat([d, inter], dim=1)).squeeze(1)


def auc(score, label):
    order = np.argsort(score, kind="mergesort")
    rank = np.empty(len(score))
    rank[order] = np.arange(1, len(score) + 1)
    pos = label > 0.5
    n_pos, n_neg = pos.sum(), (~pos).sum()
    return (rank[pos].sum() - n_pos * (n_pos + 1) / 2) / max(1, n_pos * n_neg)


@torch.no_grad()
def holdout(model, log, lo, hi, batch):
    model.eval()
    scores, labels = [], []
    for sparse, dense, click in log.stream(lo, hi, batch):
        scores.append(model(sparse, dense).numpy())
        labels.append(click.numpy())
    model.train()
    return auc(np.concatenate(scores), np.concatenate(labels))


def main(argv):
    ap = argparse.ArgumentParser()
    ap.add_argument("--iters", type=int, default=60)
    ap.add_argument("--batch", type=int, default=4096)
    ap.add_argument("--dim", type=int, default=32)
    ap.add_argument("--hidden", type=int, default=64)
    ap.add_argument("--lr", type=float, default=0.05)
    ap.add_argument("--report", type=int, default=10)
    ap.add_argument("--seed", type=int, default=2024)
    a = ap.parse_args(argv)
    torch.manual_seed(a.seed)

    n_train = a.iters * a.batch
    n_hold = 4 * a.batch
    log = ImpressionLog(n_train + n_hold, a.seed)
    model = CTRModel(a.dim, a.hidden)
    n_emb = sum(p.numel() for p in model.fields.parameters())
    print("impressions %d, ctr %.3f, embedding weights %.1fM, other weights %.0fk" % (
        len(log), log.click.mean(), n_emb / 1e6,
        (sum(p.numel() for p in model.parameters()) - n_emb) / 1e3))

    opt = torch.optim.Adagrad(model.parameters(), lr=a.lr, initial_accumulator_value=0.1)
    criterion = nn.BCEWithLogitsLoss()
    recent = deque(maxlen=a.report)
    t0, seen = time.perf_counter(), 0
    for it, (sparse, dense, click) in enumerate(log.stream(0, n_train, a.batch), 1):
        warm = min(1.0, it / 10)
        for g in opt.param_groups:
            g["lr"] = a.lr * warm
        loss = criterion(model(sparse, dense), click)
        opt.zero_grad()
        loss.backward()
        opt.step()
        recent.append(loss.item())
        seen += len(click)
        if it % a.report == 0:
            dt = time.perf_counter() - t0
            print("iter %4d  logloss %.5f  %.0f examples/s" % (it, sum(recent) / len(recent), seen / dt))
        if it % (3 * a.report) == 0:
            print("          holdout auc %.4f" % holdout(model, log, n_train, n_train + n_hold, a.batch))
    print("final logloss %.5f" % recent[-1])


if __name__ == "__main__":
    main(sys.argv[1:])
