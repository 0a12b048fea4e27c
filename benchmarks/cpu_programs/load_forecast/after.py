"""Forecast electricity load with a temporal convolutional network."""

import argparse
import json
import statistics
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset


def make_series(hours=24 * 365, meters=8, seed=0):
    rng = np.random.default_rng(seed)
    t = np.arange(hours)
    daily = np.sin(2 * np.pi * t / 24)[:, None] * rng.uniform(0.5, 1.5, meters)
    weekly = np.sin(2 * np.pi * t / 168)[:, None] * rng.uniform(0.2, 0.6, meters)
    noise = rng.normal(0, 0.1, (hours, meters))
    return 3.0 + daily + weekly + noise


class LoadDataset(Dataset):
    """Sliding windows over the standardised series."""

    def __init__(self, series, context=192, horizon=24):
        self.mean, self.std = series.mean(axis=0), series.std(axis=0)
        self.values = ((series - self.mean) / self.std).astype(np.float32)
        self.context, self.horizon = context, horizon

    def __len__(self):
        return len(self.values) - self.context - self.horizon + 1

    def __getitem__(self, i):
        past = self.values[i : i + self.context].T
        future = self.values[i + self.context : i + self.context + self.horizon].T
        return torch.from_numpy(past.copy()), torch.from_numpy(future.copy())


class TCNBlock(nn.Module):
    def __init__(self, channels, dilation, dropout=0.1):
        super().__init__()
        self.pad = 2 * dilation
        self.conv1 = nn.Conv1d(channels, channels, 3, dilation=dilation)
        self.conv2 = nn.Conv1d(channels, channels, 1)
        self.norm = nn.GroupNorm(4, channels)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        y = F.gelu(self.conv1(F.pad(x, (self.pad, 0))))
        return x + self.dropout(self.norm(self.conv2(y)))


class TCNForecaster(nn.Module):
    def __init__(self, meters, horizon, channels=64, levels=5):
        super().__init__()
        self.meters, self.horizon = meters, horizon
        self.inp = nn.Conv1d(meters, channels, 1)
        self.blocks = nn.Sequential(*[TCNBlock(channels, 2**k) for k in range(levels)])
        self.out = nn.Linear(channels, meters * horizon)

    def forward(self, x):
        h = self.blocks(self.inp(x))[:, :, -1]
        return self.out(h).view(-1, self.meters, self.horizon)


def train_step(model, batch, optimizer):
    past, future = batch
    forecast = model(past)
    loss = F.smooth_l1_loss(forecast, future)
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    return loss.item(), (forecast - future).abs().mean().item()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--batch-size", type=int, default=32)
    args = parser.parse_args()
    torch.manual_seed(0)

    dataset = LoadDataset(make_series())
    loader = DataLoader(dataset, batch_size=args.batch_size, shuffle=True, drop_last=True)
    model = TCNForecaster(meters=8, horizon=dataset.horizon)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)

    times = []
    stream = iter(loader)
    for step in range(1, args.steps + 1):
        start = time.perf_counter()
        batch = next(stream, None)
        if batch is None:
            stream = iter(loader)
            batch = next(stream)
        loss, mae = train_step(model, batch, optimizer)
        times.append((time.perf_counter() - start) * 1e3)
        if step % 10 == 0:
            print(f"step {step:3d}  loss {loss:.4f}  mae {mae:.4f}")
    print(json.dumps({"ms": round(statistics.median(times[5:] or times), 3)}))


if __name__ == "__main__":
    main()
