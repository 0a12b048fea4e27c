"""Neural collaborative filtering on implicit feedback."""

import argparse
import json
import statistics
import time

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset


class Interactions(Dataset):
    """(user, item) clicks with a long-tailed popularity."""

    def __init__(self, num_users, num_items, n=200_000, seed=0):
        g = torch.Generator().manual_seed(seed)
        self.users = torch.randint(0, num_users, (n,), generator=g)
        self.items = (torch.rand(n, generator=g) ** 3 * num_items).long()
        self.num_items = num_items

    def __len__(self):
        return len(self.users)

    def __getitem__(self, index):
        return self.users[index], self.items[index]


class NeuMF(nn.Module):
    def __init__(self, num_users, num_items, dim=32, hidden=(256, 128)):
        super().__init__()
        self.user_embedding = nn.Embedding(num_users, dim, sparse=True)
        self.item_embedding = nn.Embedding(num_items, dim, sparse=True)
        nn.init.normal_(self.user_embedding.weight, std=0.05)
        nn.init.normal_(self.item_embedding.weight, std=0.05)
        layers, width = [], 2 * dim
        for h in hidden:
            layers += [nn.Linear(width, h), nn.ReLU()]
            width = h
        self.mlp = nn.Sequential(*layers)
        self.output = nn.Linear(width + dim, 1)

    def forward(self, users, items):
        u = self.user_embedding(users)
        v = self.item_embedding(items)
        deep = self.mlp(torch.cat([u, v], dim=-1))
        return self.output(torch.cat([deep, u * v], dim=-1)).squeeze(-1)


class NegativeSampler:
    def __init__(self, num_items, negatives):
        self.num_items = num_items
        self.negatives = negatives

    def __call__(self, users, items):
        neg = torch.randint(0, self.num_items, (len(users) * self.negatives,))
        all_users = torch.cat([users, users.repeat_interleave(self.negatives)])
        all_items = torch.cat([items, neg])
        target = torch.zeros(len(all_users))
        target[: len(users)] = 1.0
        return all_users, all_items, target


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--batch-size", type=int, default=1024)
    parser.add_argument("--users", type=int, default=150_000)
    parser.add_argument("--items", type=int, default=50_000)
    parser.add_argument("--negatives", type=int, default=4)
    args = parser.parse_args()
    torch.manual_seed(0)

    dataset = Interactions(args.users, args.items)
    loader = DataLoader(dataset, batch_size=args.batch_size, shuffle=True, drop_last=True)
    sampler = NegativeSampler(args.items, args.negatives)
    model = NeuMF(args.users, args.items)
    tables = [model.user_embedding.weight, model.item_embedding.weight]
    dense = [p for n, p in model.named_parameters() if "embedding" not in n]
    optimizer = torch.optim.Adam(dense, lr=1e-3)
    sparse_optimizer = torch.optim.SparseAdam(tables, lr=1e-3)

    times, running = [], 0.0
    step = 0
    while step < args.steps:
        start = time.perf_counter()
        for users, items in loader:
            users, items, target = sampler(users, items)
            optimizer.zero_grad()
            sparse_optimizer.zero_grad()
            loss = F.binary_cross_entropy_with_logits(model(users, items), target)
            loss.backward()
            optimizer.step()
            sparse_optimizer.step()
            running += loss.item()
            now = time.perf_counter()
            times.append((now - start) * 1e3)
            start = now
            step += 1
            if step % 20 == 0:
                print(f"step {step:4d}  bce {running / 20:.4f}")
                running = 0.0
            if step >= args.steps:
                break
    print(json.dumps({"ms": round(statistics.median(times[5:] or times), 3)}))


if __name__ == "__main__":
    main()
