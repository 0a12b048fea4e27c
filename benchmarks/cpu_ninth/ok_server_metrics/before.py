"""Anomaly detection on server metrics: temporal convolutional autoencoder."""
import argparse
import statistics
import time

import torch
import torch.nn.functional as F
from torch import nn


def metrics(length=40_000, channels=12, seed=19):
    g = torch.Generator().manual_seed(seed)
    t = torch.arange(length).float()
    period = torch.rand(channels, 1, generator=g) * 200 + 50
    x = torch.sin(6.2832 * t / period) + 0.3 * torch.randn(channels, length, generator=g)
    return (x - x.mean(1, keepdim=True)) / x.std(1, keepdim=True)


def window_batches(series, batch=64, width=192, seed=1):
    """Windows are views of one tensor; a batch is one gather."""
    g = torch.Generator().manual_seed(seed)
    windows = series.unfold(1, width, 1)
    while True:
        starts = torch.randint(0, windows.size(1), (batch,), generator=g)
        yield windows[:, starts].transpose(0, 1).contiguous()


class TCNAutoencoder(nn.Module):
    def __init__(self, channels, width=64):
        super().__init__()
        self.enc = nn.Sequential(
            nn.Conv1d(channels, width, 5, stride=2, padding=2), nn.ReLU(),
            nn.Conv1d(width, width, 5, stride=2, padding=2), nn.ReLU(),
            nn.Conv1d(width, 16, 3, padding=1))
        self.dec = nn.Sequential(
            nn.Conv1d(16, width, 3, padding=1), nn.ReLU(),
            nn.ConvTranspose1d(width, width, 4, stride=2, padding=1), nn.ReLU(),
            nn.ConvTranspose1d(width, channels, 4, stride=2, padding=1))

    def forward(self, x):
        return self.dec(self.enc(x))


def train_step(model, opt, x):
    opt.zero_grad(set_to_none=True)
    loss = F.mse_loss(model(x), x)
    loss.backward()
    opt.step()
    return loss.detach()


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=60)
    ap.add_argument("--seconds", type=float)
    args = ap.parse_args()
    torch.manual_seed(0)
    series = metrics()
    model = TCNAutoencoder(series.size(0))
    opt = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    batches = window_batches(series)
    times, total, start = [], torch.zeros(()), time.perf_counter()
    while len(times) < args.steps or (args.seconds and time.perf_counter() - start < args.seconds):
        t0 = time.perf_counter()
        total += train_step(model, opt, next(batches))
        times.append(time.perf_counter() - t0)
    print(f"step_ms {statistics.median(times[5:]) * 1000:.3f}")
    return total.item()


if __name__ == "__main__":
    main()
