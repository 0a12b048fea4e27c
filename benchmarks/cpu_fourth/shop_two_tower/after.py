"""Two-tower recommender trained on click logs with in-batch negatives."""
import argparse
import time

import torch
import torch.nn as nn
import torch.nn.functional as F


class ClickLog:
    def __init__(self, users, items, history, gen):
        self.users, self.items, self.history, self.gen = users, items, history, gen
        self.topic = torch.randint(0, 50, (users,), generator=gen)

    def batch(self, size):
        user = torch.randint(0, self.users, (size,), generator=self.gen)
        span = self.items // 50
        draw = torch.rand(size, self.history + 1, generator=self.gen).pow(2)
        ids = self.topic[user, None] * span + (draw * span).long()
        return user, ids[:, 1:], ids[:, 0]


class UserTower(nn.Module):
    def __init__(self, users, dim):
        super().__init__()
        self.profile = nn.Embedding(users, dim)
        self.mlp = nn.Sequential(nn.Linear(2 * dim, 256), nn.ReLU(), nn.Linear(256, 128), nn.ReLU(),
                                 nn.Linear(128, dim))

    def forward(self, user, clicked):
        return self.mlp(torch.cat([self.profile(user), clicked.mean(1)], -1))


class ItemTower(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.mlp = nn.Sequential(nn.Linear(dim, 256), nn.ReLU(), nn.Linear(256, 128), nn.ReLU(),
                                 nn.Linear(128, dim))

    def forward(self, item):
        return self.mlp(item)


class TwoTower(nn.Module):
    def __init__(self, users, items, dim=32):
        super().__init__()
        self.catalog = nn.Embedding(items, dim, sparse=True)
        nn.init.normal_(self.catalog.weight, std=0.1)
        self.user_tower = UserTower(users, dim)
        self.item_tower = ItemTower(dim)
        self.log_scale = nn.Parameter(torch.tensor(2.0))

    def forward(self, user, clicked, target):
        u = F.normalize(self.user_tower(user, self.catalog(clicked)), dim=-1)
        v = F.normalize(self.item_tower(self.catalog(target)), dim=-1)
        return self.log_scale.exp() * u @ v.t()


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=60)
    ap.add_argument("--batch-size", type=int, default=768)
    ap.add_argument("--users", type=int, default=4000)
    ap.add_argument("--items", type=int, default=120_000)
    args = ap.parse_args()
    torch.manual_seed(17)

    log = ClickLog(args.users, args.items, 10, torch.Generator().manual_seed(6))
    model = TwoTower(args.users, args.items)
    opt = torch.optim.Adagrad(model.parameters(), lr=0.03)
    target = torch.arange(args.batch_size)

    times, loss = [], None
    for step in range(args.steps):
        t0 = time.perf_counter()
        user, clicked, item = log.batch(args.batch_size)
        scores = model(user, clicked, item)
        loss = F.cross_entropy(scores, target)
        opt.zero_grad()
        loss.backward()
        opt.step()
        times.append(time.perf_counter() - t0)
        if step % 20 == 0:
            print(f"step {step} loss {loss.item():.4f}")
    print(f"final loss {loss.item():.4f}")
    kept = times[5:] or times
    print(f"mean step {1000 * sum(kept) / len(kept):.2f} ms")


if __name__ == "__main__":
    main()
