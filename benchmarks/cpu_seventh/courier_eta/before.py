"""Predicts courier delivery times from order records (quantile regression)."""
import argparse
import statistics
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import BatchSampler, DataLoader, Dataset, RandomSampler, SequentialSampler

CARDINALITIES = {"restaurant": 3000, "zone": 180, "weekday": 7, "vehicle": 4, "weather": 6}
QUANTILES = torch.tensor([0.1, 0.5, 0.9])


def make_orders(rows, seed):
    rng = np.random.default_rng(seed)
    cats = np.stack([rng.integers(0, n, rows) for n in CARDINALITIES.values()], 1)
    distance = rng.gamma(2.0, 1.6, rows)
    items = rng.poisson(3, rows) + 1
    hour = rng.uniform(8, 23, rows)
    load = rng.beta(2, 3, rows)
    prep = np.random.default_rng(99).gamma(4.0, 2.5, CARDINALITIES["restaurant"])
    minutes = (prep[cats[:, 0]] + 3.2 * distance * (1 + 0.4 * (cats[:, 3] == 0)) + 0.8 * items
               + 6 * load * np.exp(-0.5 * ((hour - 19) / 1.5) ** 2) + rng.gumbel(0, 2.0, rows))
    nums = np.stack([distance, items, np.sin(hour / 24 * 2 * np.pi), np.cos(hour / 24 * 2 * np.pi),
                     load, np.log1p(distance), distance * load, hour / 24], 1)
    return nums.astype(np.float32), cats, minutes.astype(np.float32)


class Orders(Dataset):
    def __init__(self, nums, cats, minutes, stats=None):
        self.stats = stats or (nums.mean(0), nums.std(0))
        self.nums = torch.from_numpy((nums - self.stats[0]) / self.stats[1])
        self.cats = torch.from_numpy(cats)
        self.minutes = torch.from_numpy(minutes) / 30.0

    def __len__(self):
        return len(self.minutes)

    def __getitem__(self, index):
        return self.nums[index], self.cats[index], self.minutes[index]


class EtaNet(nn.Module):
    def __init__(self, n_num, width=256):
        super().__init__()
        dims = [min(32, 2 + n // 8) for n in CARDINALITIES.values()]
        self.tables = nn.ModuleList(nn.Embedding(n, d) for n, d in zip(CARDINALITIES.values(), dims))
        inputs = n_num + sum(dims)
        self.net = nn.Sequential(
            nn.Linear(inputs, width), nn.SiLU(), nn.LayerNorm(width),
            nn.Linear(width, width), nn.SiLU(), nn.LayerNorm(width),
            nn.Linear(width, len(QUANTILES)))

    def forward(self, nums, cats):
        parts = [table(cats[:, j]) for j, table in enumerate(self.tables)]
        return self.net(torch.cat([nums, *parts], 1))


def pinball(pred, target):
    diff = target[:, None] - pred
    return torch.maximum(QUANTILES * diff, (QUANTILES - 1) * diff).mean()


@torch.inference_mode()
def evaluate(model, data, batch):
    model.eval()
    total = 0.0
    for rows in BatchSampler(SequentialSampler(data), batch, drop_last=False):
        nums, cats, minutes = data[rows]
        total += pinball(model(nums, cats), minutes).item() * len(rows)
    model.train()
    return total / len(data)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=60)
    ap.add_argument("--batch", type=int, default=4096)
    args = ap.parse_args()
    torch.manual_seed(0)

    train = Orders(*make_orders(200_000, 1))
    valid = Orders(*make_orders(20_000, 2), stats=train.stats)
    order = torch.Generator().manual_seed(7)
    loader = DataLoader(train, batch_size=args.batch, drop_last=True,
                        sampler=RandomSampler(train, generator=order))
    model = EtaNet(train.nums.shape[1])
    opt = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=1e-4, fused=True)

    times, done = [], 0
    while done < args.steps:
        t0 = time.perf_counter()
        for nums, cats, minutes in loader:
            loss = pinball(model(nums, cats), minutes)
            opt.zero_grad(set_to_none=True)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            opt.step()
            times.append(time.perf_counter() - t0)
            done += 1
            if done % 20 == 0:
                print(f"step {done}  pinball {loss.item():.5f}")
            if done == args.steps:
                break
            t0 = time.perf_counter()
    print(f"validation pinball {evaluate(model, valid, 8192):.5f}")
    print(f"step_ms: {1e3 * statistics.median(times[max(3, done // 10):]):.1f}")


if __name__ == "__main__":
    main()
