"""Click-through-rate model: hashed categorical fields, cross network and a deep tower."""
import argparse
import statistics
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

FIELD_SIZES = [400_000, 250_000, 180_000, 120_000, 80_000, 40_000, 20_000, 8_000, 2_000, 500, 100, 24]
NUM_DENSE = 13


def make_impressions(count, rng):
    """Impressions with long-tailed ids; the click depends on a hidden weight of each id."""
    ids = np.empty((count, len(FIELD_SIZES)), dtype=np.int64)
    logit = np.full(count, -1.2)
    for f, size in enumerate(FIELD_SIZES):
        ids[:, f] = (size * rng.random(count) ** 3).astype(np.int64)
        logit += rng.normal(0, 0.5, size)[ids[:, f]]
    dense = rng.lognormal(0.0, 1.0, (count, NUM_DENSE)).astype(np.float32)
    logit += 0.3 * np.log1p(dense[:, 0]) - 0.2 * np.log1p(dense[:, 1])
    click = (rng.random(count) < 1 / (1 + np.exp(-logit))).astype(np.float32)
    return torch.from_numpy(ids), torch.from_numpy(np.log1p(dense)), torch.from_numpy(click)


class FieldEmbedding(nn.Module):
    """All fields share one table; each field starts at its own offset."""

    def __init__(self, sizes, dim):
        super().__init__()
        offsets = torch.tensor([0] + sizes[:-1]).cumsum(0)
        self.register_buffer("offsets", offsets)
        self.table = nn.Embedding(sum(sizes), dim, sparse=True)
        nn.init.normal_(self.table.weight, std=0.05)

    def forward(self, ids):
        return self.table(ids + self.offsets).flatten(1)


class CrossNetwork(nn.Module):
    def __init__(self, dim, depth):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(dim, dim) for _ in range(depth))

    def forward(self, x0):
        x = x0
        for layer in self.layers:
            x = x + x0 * layer(x)
        return x


class ClickModel(nn.Module):
    def __init__(self, dim=16, hidden=(512, 256)):
        super().__init__()
        self.embedding = FieldEmbedding(FIELD_SIZES, dim)
        width = dim * len(FIELD_SIZES) + NUM_DENSE
        self.cross = CrossNetwork(width, depth=3)
        tower, last = [], width
        for h in hidden:
            tower += [nn.Linear(last, h), nn.ReLU()]
            last = h
        self.tower = nn.Sequential(*tower)
        self.output = nn.Linear(width + last, 1)

    def forward(self, ids, dense):
        x = torch.cat([self.embedding(ids), dense], dim=1)
        return self.output(torch.cat([self.cross(x), self.tower(x)], dim=1)).squeeze(1)


def auc(scores, labels):
    order = scores.argsort()
    ranks = torch.empty_like(order)
    ranks[order] = torch.arange(1, len(scores) + 1)
    positives = labels.sum()
    negatives = len(labels) - positives
    rank_sum = ranks[labels > 0.5].sum()
    return (rank_sum - positives * (positives + 1) / 2) / (positives * negatives).clamp(min=1)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--batch-size", type=int, default=2048)
    parser.add_argument("--lr", type=float, default=0.02)
    parser.add_argument("--seed", type=int, default=21)
    args = parser.parse_args()

    torch.manual_seed(args.seed)
    rng = np.random.default_rng(args.seed)
    ids, dense, click = make_impressions(160_000, rng)

    model = ClickModel()
    optimizer = torch.optim.Adagrad(model.parameters(), lr=args.lr)

    times = []
    window_loss = torch.zeros(())
    window = 0
    order = torch.randperm(len(click))
    cursor = 0
    for step in range(args.steps):
        start = time.perf_counter()
        if cursor + args.batch_size > len(order):
            order, cursor = torch.randperm(len(click)), 0
        idx = order[cursor:cursor + args.batch_size]
        cursor += args.batch_size
        target = click[idx]
        logits = model(ids[idx], dense[idx])
        loss = F.binary_cross_entropy_with_logits(logits, target)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        window_loss += loss.detach()
        window += 1
        times.append(time.perf_counter() - start)
        if step % 10 == 9 or step == args.steps - 1:
            value = auc(logits.detach(), target).item()
            print(f"step {step:3d}  logloss {window_loss.item() / window:.4f}  auc {value:.4f}")
            window_loss.zero_()
            window = 0

    print(f"step_ms: {1000 * statistics.median(times):.1f}")


if __name__ == "__main__":
    main()
