"""Day-ahead electricity load forecasting with a GRU on hourly weather and calendar features."""
import argparse
import statistics
import time

import numpy as np
import pandas as pd
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

FEATURES = ["load", "temp", "wind", "solar", "hour_sin", "hour_cos", "dow_sin", "dow_cos"]


def make_frame(hours=24 * 365 * 2, seed=7):
    rng = np.random.default_rng(seed)
    t = pd.date_range("2022-01-01", periods=hours, freq="h")
    df = pd.DataFrame(index=t)
    hour, dow = t.hour.to_numpy(), t.dayofweek.to_numpy()
    season = np.sin(2 * np.pi * np.arange(hours) / (24 * 365))
    df["temp"] = 10 - 12 * season + 4 * np.sin(2 * np.pi * hour / 24) + rng.normal(0, 1.5, hours)
    df["wind"] = rng.gamma(2.0, 3.0, hours)
    df["solar"] = np.clip(np.sin(2 * np.pi * (hour - 6) / 24), 0, None) * rng.uniform(0.4, 1, hours)
    df["load"] = 50 - 0.8 * df["temp"] + 10 * np.sin(2 * np.pi * (hour - 8) / 24) - 6 * (dow >= 5) + rng.normal(0, 1, hours)
    df["hour_sin"], df["hour_cos"] = np.sin(2 * np.pi * hour / 24), np.cos(2 * np.pi * hour / 24)
    df["dow_sin"], df["dow_cos"] = np.sin(2 * np.pi * dow / 7), np.cos(2 * np.pi * dow / 7)
    for col in ("load", "temp", "wind", "solar"):
        df[col] = (df[col] - df[col].mean()) / df[col].std()
    return df


class LoadWindows(Dataset):
    def __init__(self, df, lookback=72, horizon=24):
        self.df = df
        self.lookback = lookback
        self.horizon = horizon

    def __len__(self):
        return len(self.df) - self.lookback - self.horizon

    def __getitem__(self, i):
        past = self.df.iloc[i:i + self.lookback]
        future = self.df.iloc[i + self.lookback:i + self.lookback + self.horizon]
        x = torch.tensor(past[FEATURES].values, dtype=torch.float32)
        y = torch.tensor(future["load"].values, dtype=torch.float32)
        return x, y


class Forecaster(nn.Module):
    def __init__(self, n_features, hidden=64, horizon=24):
        super().__init__()
        self.rnn = nn.GRU(n_features, hidden, batch_first=True)
        self.head = nn.Sequential(nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, horizon))

    def forward(self, x):
        out, _ = self.rnn(x)
        return self.head(out[:, -1])


class Trainer:
    def __init__(self, model, loader, lr=1e-3):
        self.model, self.loader = model, loader
        self.opt = torch.optim.Adam(model.parameters(), lr=lr)
        self.loss_fn = nn.L1Loss()
        self.times = []
        self.loss = None

    def train_step(self, x, y):
        self.opt.zero_grad()
        loss = self.loss_fn(self.model(x), y)
        loss.backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.opt.step()
        return loss

    def fit(self, steps, seconds):
        start = time.perf_counter()
        while True:
            t0 = time.perf_counter()
            for x, y in self.loader:
                self.loss = self.train_step(x, y)
                t1 = time.perf_counter()
                self.times.append(t1 - t0)
                if len(self.times) >= steps and (seconds is None or t1 - start >= seconds):
                    return
                t0 = time.perf_counter()


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=60)
    ap.add_argument("--seconds", type=float)
    args = ap.parse_args()
    torch.manual_seed(0)
    df = make_frame()
    loader = DataLoader(LoadWindows(df), batch_size=64, shuffle=True, drop_last=True)
    trainer = Trainer(Forecaster(len(FEATURES)), loader)
    trainer.fit(args.steps, args.seconds)
    print(f"step_ms {statistics.median(trainer.times[5:]) * 1000:.3f}")
    return trainer.loss.item()


if __name__ == "__main__":
    main()
