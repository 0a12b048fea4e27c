"""Credit default prediction: MLP with categorical embeddings on a flat table.

Notebook turned into a script; the table used to come from a parquet export.
"""
import argparse
import os
import statistics
import time

import numpy as np
import pandas as pd
import torch
from torch import nn
from torch.utils.data import BatchSampler, DataLoader, Dataset, RandomSampler

NUM_COLS = [f"num_{i:02d}" for i in range(24)]
CAT_COLS = {"region": 50, "product": 20, "channel": 6, "branch": 400}


def make_table(rows, seed):
    rng = np.random.default_rng(seed)
    df = pd.DataFrame(rng.normal(size=(rows, len(NUM_COLS))).astype(np.float32), columns=NUM_COLS)
    for col, card in CAT_COLS.items():
        df[col] = rng.integers(0, card, rows)
    score = df["num_00"] * 1.2 - df["num_03"] + 0.05 * df["region"] - 1.5
    df["default"] = (rng.random(rows) < 1 / (1 + np.exp(-score))).astype(np.float32)
    return df


class CreditDataset(Dataset):
    def __init__(self, df):
        num = df[NUM_COLS].to_numpy(dtype=np.float32)
        num = (num - num.mean(0)) / num.std(0)
        self.num = torch.from_numpy(num)
        self.cat = torch.from_numpy(df[list(CAT_COLS)].to_numpy(dtype=np.int64))
        self.target = torch.from_numpy(df["default"].to_numpy(dtype=np.float32))

    def __len__(self):
        return len(self.target)

    def __getitem__(self, idx):
        return self.num[idx], self.cat[idx], self.target[idx]


class TabularNet(nn.Module):
    def __init__(self, n_num, cards, emb=4, hidden=(64, 32), p=0.1):
        super().__init__()
        self.embeds = nn.ModuleList([nn.Embedding(c, emb) for c in cards])
        dims = [n_num + emb * len(cards), *hidden]
        blocks = []
        for a, b in zip(dims, dims[1:]):
            blocks += [nn.Linear(a, b), nn.BatchNorm1d(b), nn.ReLU(), nn.Dropout(p)]
        self.mlp = nn.Sequential(*blocks, nn.Linear(dims[-1], 1))

    def forward(self, num, cat):
        parts = [num] + [emb(cat[:, i]) for i, emb in enumerate(self.embeds)]
        return self.mlp(torch.cat(parts, dim=1)).squeeze(1)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=300_000)
    parser.add_argument("--batch-size", type=int, default=4096)
    parser.add_argument("--lr", type=float, default=2e-3)
    parser.add_argument("--steps", type=int, default=int(os.environ.get("STEPS", 250)))
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()

    torch.manual_seed(args.seed)
    df = make_table(args.rows, args.seed)
    print(df.shape, "default rate", round(float(df["default"].mean()), 4))
    train_ds = CreditDataset(df)
    model = TabularNet(len(NUM_COLS), list(CAT_COLS.values()))
    loss_fn = nn.BCEWithLogitsLoss()
    opt = torch.optim.Adam(model.parameters(), lr=args.lr, weight_decay=1e-5)
    batches = BatchSampler(RandomSampler(train_ds), args.batch_size, drop_last=True)
    train_dl = DataLoader(train_ds, sampler=batches, batch_size=None)

    times, step, epoch = [], 0, 0
    model.train()
    while step < args.steps:
        total, seen = 0.0, 0
        t0 = time.perf_counter()
        for num, cat, y in train_dl:
            opt.zero_grad()
            loss = loss_fn(model(num, cat), y)
            loss.backward()
            opt.step()
            total += loss.item() * len(y)
            seen += len(y)
            step += 1
            t1 = time.perf_counter()
            times.append(t1 - t0)
            t0 = t1
            if step >= args.steps:
                break
        epoch += 1
        print(f"epoch {epoch}: train bce {total / seen:.6f}")
    print(f"step {statistics.median(times[5:]) * 1000:.2f} ms")


if __name__ == "__main__":
    main()
