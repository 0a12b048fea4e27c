"""Claim-frequency regression (Poisson) on insurance policies."""
import argparse
import time

import numpy as np
import torch
import torch.nn as nn
from torch.utils.data import BatchSampler, DataLoader, Dataset, RandomSampler

CARDS = [12, 7, 80, 24, 11, 6]


def make_policies(n, seed):
    rng = np.random.default_rng(seed)
    numeric = rng.normal(size=(n, 14)).astype(np.float32)
    categ = np.stack([rng.integers(0, c, n) for c in CARDS], 1)
    exposure = rng.uniform(0.1, 1.0, n).astype(np.float32)
    rate = np.exp(-1.5 + 0.4 * numeric[:, 0] - 0.3 * numeric[:, 1] + 0.05 * categ[:, 1])
    claims = rng.poisson(rate * exposure).astype(np.float32)
    return numeric, categ, exposure, claims


class PolicyDataset(Dataset):
    def __init__(self, numeric, categ, exposure, claims):
        self.numeric = torch.from_numpy(numeric)
        self.categ = torch.from_numpy(categ)
        self.exposure = torch.from_numpy(exposure)
        self.claims = torch.from_numpy(claims)

    def __len__(self):
        return len(self.claims)

    def __getitem__(self, i):
        return {
            "numeric": self.numeric[i],
            "categ": self.categ[i],
            "exposure": self.exposure[i],
            "claims": self.claims[i],
        }


class ClaimNet(nn.Module):
    def __init__(self, width=320, depth=3):
        super().__init__()
        self.embeds = nn.ModuleList(nn.Embedding(c, min(16, c)) for c in CARDS)
        dim = 14 + sum(min(16, c) for c in CARDS)
        self.inp = nn.Linear(dim, width)
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.LayerNorm(width), nn.Linear(width, width), nn.SiLU(), nn.Linear(width, width))
            for _ in range(depth))
        self.out = nn.Linear(width, 1)

    def forward(self, numeric, categ):
        parts = [emb(categ[:, j]) for j, emb in enumerate(self.embeds)]
        h = self.inp(torch.cat([numeric, *parts], 1))
        for block in self.blocks:
            h = h + block(h)
        return self.out(h).squeeze(1)


def endless(loader):
    while True:
        yield from loader


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=60)
    ap.add_argument("--batch-size", type=int, default=1024)
    ap.add_argument("--rows", type=int, default=80_000)
    args = ap.parse_args()
    torch.manual_seed(13)

    data = PolicyDataset(*make_policies(args.rows, 1))
    sampler = BatchSampler(RandomSampler(data), args.batch_size, drop_last=True)
    loader = DataLoader(data, batch_sampler=sampler)
    model = ClaimNet()
    opt = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    loss_fn = nn.PoissonNLLLoss(log_input=True)

    times, running = [], None
    batches = endless(loader)
    for step in range(args.steps):
        t0 = time.perf_counter()
        batch = next(batches)
        log_rate = model(batch["numeric"], batch["categ"]) + batch["exposure"].log()
        loss = loss_fn(log_rate, batch["claims"])
        opt.zero_grad()
        loss.backward()
        opt.step()
        running = loss.detach() if running is None else running.lerp(loss.detach(), 0.1)
        times.append(time.perf_counter() - t0)
        if step % 20 == 0:
            print(f"step {step} deviance {running.item():.4f}")
    print(f"final deviance {running.item():.4f}")
    kept = times[5:] or times
    print(f"mean step {1000 * sum(kept) / len(kept):.2f} ms")


if __name__ == "__main__":
    main()
