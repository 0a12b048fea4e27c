"""LightGCN (He et al., 2020) on implicit feedback, trained with BPR.

    python before.py --dim 64 --layers 3 --epochs 2
"""
import argparse
import time
from collections import defaultdict

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F


class InteractionData:
    """Synthetic stand-in for Gowalla/Yelp style user-item clicks."""

    def __init__(self, n_users, n_items, n_inter, seed=0):
        rng = np.random.default_rng(seed)
        self.n_users, self.n_items = n_users, n_items
        taste = rng.integers(0, 20, n_users)
        genre = rng.integers(0, 20, n_items)
        by_genre = [np.flatnonzero(genre == g) for g in range(20)]
        pop = rng.zipf(1.6, n_items).astype(np.float64).clip(max=200)
        pop /= pop.sum()
        users = rng.integers(0, n_users, n_inter)
        items = rng.choice(n_items, n_inter, p=pop)
        for k in np.flatnonzero(rng.random(n_inter) < 0.6):
            pool = by_genre[taste[users[k]]]
            items[k] = pool[rng.integers(len(pool))]
        keys = np.unique(users.astype(np.int64) * n_items + items)
        rng.shuffle(keys)
        n_test = len(keys) // 10
        self.test = self._split(keys[:n_test])
        self.train = self._split(keys[n_test:])
        self.train_keys = np.sort(keys[n_test:])
        self.test_by_user = defaultdict(set)
        for u, i in self.test:
            self.test_by_user[int(u)].add(int(i))

    def _split(self, keys):
        return np.stack([keys // self.n_items, keys % self.n_items], axis=1)

    def adjacency(self):
        n = self.n_users + self.n_items
        u = torch.from_numpy(self.train[:, 0])
        i = torch.from_numpy(self.train[:, 1]) + self.n_users
        rows, cols = torch.cat([u, i]), torch.cat([i, u])
        deg = torch.bincount(rows, minlength=n).clamp(min=1).float()
        vals = deg[rows].rsqrt() * deg[cols].rsqrt()
        return torch.sparse_coo_tensor(torch.stack([rows, cols]), vals, (n, n)).coalesce()

    def is_positive(self, u, i):
        keys = u * self.n_items + i
        pos = np.searchsorted(self.train_keys, keys).clip(max=len(self.train_keys) - 1)
        return self.train_keys[pos] == keys

    def epoch(self, batch_size, rng):
        order = rng.permutation(len(self.train))
        for s in range(0, len(order) - batch_size + 1, batch_size):
            pairs = self.train[order[s:s + batch_size]]
            u, i = pairs[:, 0], pairs[:, 1]
            j = rng.integers(0, self.n_items, len(u))
            bad = self.is_positive(u, j)
            while bad.any():
                j[bad] = rng.integers(0, self.n_items, bad.sum())
                bad = self.is_positive(u, j)
            yield torch.from_numpy(u), torch.from_numpy(i), torch.from_numpy(j)


class LightGCN(nn.Module):
    def __init__(self, data, dim, n_layers):
        super().__init__()
        self.n_users, self.n_items = data.n_users, data.n_items
        self.n_layers = n_layers
        self.user_emb = nn.Embedding(data.n_users, dim)
        self.item_emb = nn.Embedding(data.n_items, dim)
        nn.init.normal_(self.user_emb.weight, std=0.1)
        nn.init.normal_(self.item_emb.weight, std=0.1)
        self.register_buffer("graph", data.adjacency())

    def computer(self):
        """Propagate over the user-item graph, mean over layers."""
        x = torch.cat([self.user_emb.weight, self.item_emb.weight])
        out = x
        for _ in range(self.n_layers):
            x = torch.sparse.mm(self.graph, x)
            out = out + x
        out = out / (self.n_layers + 1)
        return out.split([self.n_users, self.n_items])

    def forward(self, users, items):
        all_users, all_items = self.computer()
        u = all_users[users]
        i = all_items[items]
        return (u * i).sum(dim=1)

    def reg_loss(self, users, pos, neg):
        u, p, n = self.user_emb(users), self.item_emb(pos), self.item_emb(neg)
        return 0.5 * (u.pow(2).sum() + p.pow(2).sum() + n.pow(2).sum()) / len(users)


class BPRTrainer:
    def __init__(self, model, lr, decay):
        self.model = model
        self.decay = decay
        self.opt = torch.optim.Adam(model.parameters(), lr=lr)
        self.sched = torch.optim.lr_scheduler.StepLR(self.opt, 1, gamma=0.95)

    def step(self, users, pos, neg):
        pos_scores = self.model(users, pos)
        neg_scores = self.model(users, neg)
        bpr = F.softplus(neg_scores - pos_scores).mean()
        reg = self.model.reg_loss(users, pos, neg)
        loss = bpr + self.decay * reg
        self.opt.zero_grad()
        loss.backward()
        self.opt.step()
        return bpr.item()


@torch.no_grad()
def recall_at_k(model, data, k=20, n_users=500):
    model.eval()
    all_users, all_items = model.computer()
    ids = sorted(data.test_by_user)[:n_users]
    scores = all_users[torch.tensor(ids)] @ all_items.t()
    row = {u: r for r, u in enumerate(ids)}
    seen = data.train[np.isin(data.train[:, 0], ids)]
    scores[[row[u] for u in seen[:, 0].tolist()], seen[:, 1]] = -1e9
    top = scores.topk(k, dim=1).indices.tolist()
    rec = [len(data.test_by_user[u] & set(t)) / min(k, len(data.test_by_user[u]))
           for u, t in zip(ids, top)]
    model.train()
    return float(np.mean(rec))


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--users", type=int, default=6000)
    ap.add_argument("--items", type=int, default=8000)
    ap.add_argument("--interactions", type=int, default=130_000)
    ap.add_argument("--dim", type=int, default=64)
    ap.add_argument("--layers", type=int, default=3)
    ap.add_argument("--batch-size", type=int, default=4096)
    ap.add_argument("--epochs", type=int, default=2)
    ap.add_argument("--lr", type=float, default=5e-3)
    ap.add_argument("--decay", type=float, default=1e-4)
    ap.add_argument("--seed", type=int, default=2020)
    args = ap.parse_args()

    torch.manual_seed(args.seed)
    rng = np.random.default_rng(args.seed)
    data = InteractionData(args.users, args.items, args.interactions)
    print(f"{len(data.train)} train / {len(data.test)} test interactions")
    model = LightGCN(data, args.dim, args.layers)
    trainer = BPRTrainer(model, args.lr, args.decay)

    for epoch in range(args.epochs):
        t0, losses = time.perf_counter(), []
        for batch in data.epoch(args.batch_size, rng):
            losses.append(trainer.step(*batch))
        dt = time.perf_counter() - t0
        trainer.sched.step()
        print(f"EPOCH[{epoch + 1}/{args.epochs}] loss {np.mean(losses):.5f} "
              f"({len(losses)} iters, {1000 * dt / len(losses):.1f} ms/iter)")
    print(f"recall@20 {recall_at_k(model, data):.4f}")


if __name__ == "__main__":
    main()
