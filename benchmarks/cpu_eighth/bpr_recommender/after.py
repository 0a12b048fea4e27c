"""Pairwise (BPR) training of a two-tower recommender on implicit feedback."""
import argparse
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F


class Interactions:
    """Synthetic click log: users have a taste, items have a topic, both long-tailed."""

    def __init__(self, n_users, n_items, n_clicks, seed=0):
        rng = np.random.default_rng(seed)
        self.n_users = n_users
        self.n_items = n_items
        users = (n_users * rng.random(n_clicks) ** 2).astype(np.int64)
        n_topics = 50
        items = (n_items // n_topics * rng.random(n_clicks) ** 2).astype(np.int64) * n_topics
        liked = rng.random(n_clicks) < 0.8
        topic = np.where(liked, users % n_topics, rng.integers(0, n_topics, n_clicks))
        self.users = users
        self.items = np.minimum(items + topic, n_items - 1)
        self.rng = rng

    def epoch(self, batch_size):
        order = self.rng.permutation(len(self.users))
        for start in range(0, len(order) - batch_size + 1, batch_size):
            idx = order[start:start + batch_size]
            negatives = self.rng.integers(0, self.n_items, batch_size)
            yield (
                torch.from_numpy(self.users[idx]),
                torch.from_numpy(self.items[idx]),
                torch.from_numpy(negatives),
            )

    def stream(self, batch_size):
        while True:
            yield from self.epoch(batch_size)


def mlp(dim, hidden):
    return nn.Sequential(nn.Linear(dim, hidden), nn.ReLU(), nn.Linear(hidden, dim))


class TwoTower(nn.Module):
    def __init__(self, n_users, n_items, dim=32, hidden=256):
        super().__init__()
        self.user_embedding = nn.Embedding(n_users, dim, sparse=True)
        self.item_embedding = nn.Embedding(n_items, dim, sparse=True)
        nn.init.normal_(self.user_embedding.weight, std=0.05)
        nn.init.normal_(self.item_embedding.weight, std=0.05)
        self.user_tower = mlp(dim, hidden)
        self.item_tower = mlp(dim, hidden)

    def encode_users(self, users):
        e = self.user_embedding(users)
        return e + self.user_tower(e)

    def encode_items(self, items):
        e = self.item_embedding(items)
        return e + self.item_tower(e)

    def forward(self, users, positives, negatives):
        u = self.encode_users(users)
        p = self.encode_items(positives)
        n = self.encode_items(negatives)
        return (u * p).sum(dim=1), (u * n).sum(dim=1)


def bpr_loss(pos_scores, neg_scores):
    return -F.logsigmoid(pos_scores - neg_scores).mean()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--users", type=int, default=250_000)
    parser.add_argument("--items", type=int, default=100_000)
    parser.add_argument("--clicks", type=int, default=1_000_000)
    parser.add_argument("--batch-size", type=int, default=8192)
    parser.add_argument("--dim", type=int, default=32)
    parser.add_argument("--lr", type=float, default=0.05)
    args = parser.parse_args()

    torch.manual_seed(42)
    data = Interactions(args.users, args.items, args.clicks, seed=42)
    model = TwoTower(args.users, args.items, args.dim)
    optimizer = torch.optim.Adagrad(model.parameters(), lr=args.lr)
    n_params = sum(p.numel() for p in model.parameters())
    print(f"{len(data.users)} clicks, {n_params / 1e6:.1f}M parameters")

    elapsed = []
    running_auc = 0.0
    stream = data.stream(args.batch_size)
    for step in range(args.steps):
        t0 = time.perf_counter()
        users, positives, negatives = next(stream)
        pos_scores, neg_scores = model(users, positives, negatives)
        loss = bpr_loss(pos_scores, neg_scores)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        auc = (pos_scores > neg_scores).float().mean().item()
        running_auc = auc if step == 0 else 0.9 * running_auc + 0.1 * auc
        elapsed.append(time.perf_counter() - t0)
        if step % 10 == 0 or step == args.steps - 1:
            print(f"[{step:4d}] bpr {loss.item():.5f}  auc {running_auc:.4f}")

    elapsed.sort()
    print(f"step_ms: {elapsed[len(elapsed) // 2] * 1000:.2f}")


if __name__ == "__main__":
    main()
