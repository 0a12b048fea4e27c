"""Anomaly detection on plant telemetry: GRU autoencoder over sliding windows."""
import argparse
import json
import statistics
import sys
import time

import numpy as np
import torch
import torch.nn as nn

N_CHANNELS = 24
WINDOW = 48
BATCH = 96


class StandardScaler:
    def fit(self, x):
        self.mean_ = x.mean(axis=0)
        self.scale_ = x.std(axis=0) + 1e-8
        return self

    def transform(self, x):
        return (x - self.mean_) / self.scale_


def simulate_telemetry(n, seed):
    """Daily and hourly cycles, drift and sensor noise, sampled each minute."""
    rng = np.random.default_rng(seed)
    minutes = np.arange(n)[:, None]
    period = rng.choice([60, 180, 1440], N_CHANNELS)
    phase = rng.uniform(0, 2 * np.pi, N_CHANNELS)
    amplitude = rng.uniform(1.0, 20.0, N_CHANNELS)
    offset = rng.uniform(0, 300, N_CHANNELS)
    series = offset + amplitude * np.sin(2 * np.pi * minutes / period + phase)
    series += np.cumsum(rng.normal(0, 0.01, (n, N_CHANNELS)), axis=0)
    return series + rng.normal(0, 0.5, (n, N_CHANNELS))


class WindowAutoencoder(nn.Module):
    def __init__(self, n_channels, hidden=128, code=16):
        super().__init__()
        self.encoder = nn.GRU(n_channels, hidden, batch_first=True)
        self.squeeze = nn.Linear(hidden, code)
        self.expand = nn.Linear(code, hidden)
        self.decoder = nn.GRU(hidden, hidden, batch_first=True)
        self.out = nn.Linear(hidden, n_channels)

    def forward(self, x):
        _, h = self.encoder(x)
        code = torch.tanh(self.squeeze(h[-1]))
        seed = self.expand(code).unsqueeze(1).expand(-1, x.shape[1], -1)
        y, _ = self.decoder(seed)
        return self.out(y)


class AnomalyThreshold:
    """Running mean and variance of the reconstruction error per window."""

    def __init__(self, decay=0.98):
        self.decay = decay
        self.mean, self.var = 0.0, 1.0

    def update(self, errors):
        self.mean = self.decay * self.mean + (1 - self.decay) * errors.mean()
        self.var = self.decay * self.var + (1 - self.decay) * errors.var()
        return self.mean + 3.0 * self.var ** 0.5


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60)
    args = parser.parse_args()

    torch.manual_seed(0)
    rng = np.random.default_rng(1)
    raw = simulate_telemetry(40_000, seed=0)
    series = StandardScaler().fit(raw).transform(raw)
    windows = np.lib.stride_tricks.sliding_window_view(series, WINDOW, axis=0)

    model = WindowAutoencoder(N_CHANNELS).double()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    threshold = AnomalyThreshold()

    times = []
    limit, flagged = 0.0, 0
    for step in range(args.steps):
        t0 = time.perf_counter()
        starts = rng.integers(0, len(windows), BATCH)
        x = torch.from_numpy(windows[starts]).transpose(1, 2).contiguous()
        error = (model(x) - x).square().mean(dim=(1, 2))
        loss = error.mean()
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        scores = error.detach().numpy()
        limit = threshold.update(scores)
        flagged = int((scores > limit).sum())
        times.append((time.perf_counter() - t0) * 1000)
        if (step + 1) % 20 == 0:
            print(f"step {step + 1} loss {loss.item():.6f} limit {limit:.4f} flagged {flagged}",
                  file=sys.stderr)

    timed = times[5:] or times
    print(json.dumps({"ms": statistics.median(timed), "steps": args.steps}))


if __name__ == "__main__":
    main()
