"""Sequence forecasting with gradient accumulation: hourly weather, layer-normalised GRU."""
import argparse
import math

import torch
import torch.nn as nn
import torch.nn.functional as F

STATIONS = 12
WINDOW = 12
HORIZON = 3


def make_weather(hours, seed):
    """Daily and yearly cycles, a slow random walk and noise for every station."""
    gen = torch.Generator().manual_seed(seed)
    t = torch.arange(hours, dtype=torch.float).unsqueeze(1)
    phase = torch.rand(1, STATIONS, generator=gen) * 2 * math.pi
    daily = torch.sin(2 * math.pi * t / 24 + phase)
    yearly = 2.0 * torch.sin(2 * math.pi * t / 8766 + phase)
    walk = torch.cumsum(0.03 * torch.randn(hours, STATIONS, generator=gen), dim=0)
    series = daily + yearly + walk + 0.1 * torch.randn(hours, STATIONS, generator=gen)
    return (series - series.mean(0)) / series.std(0)


class LayerNormGRUCell(nn.Module):
    def __init__(self, inputs, hidden):
        super().__init__()
        self.x2h = nn.Linear(inputs, 3 * hidden)
        self.h2h = nn.Linear(hidden, 3 * hidden)
        self.norm_x = nn.LayerNorm(3 * hidden)
        self.norm_h = nn.LayerNorm(3 * hidden)

    def forward(self, x, h):
        xr, xz, xn = self.norm_x(self.x2h(x)).chunk(3, dim=1)
        hr, hz, hn = self.norm_h(self.h2h(h)).chunk(3, dim=1)
        r = torch.sigmoid(xr + hr)
        z = torch.sigmoid(xz + hz)
        n = torch.tanh(xn + r * hn)
        return (1 - z) * n + z * h


class Forecaster(nn.Module):
    """Encodes the window, then predicts HORIZON hours one after another."""

    def __init__(self, hidden=96):
        super().__init__()
        self.hidden = hidden
        self.encoder = LayerNormGRUCell(STATIONS, hidden)
        self.decoder = LayerNormGRUCell(STATIONS, hidden)
        self.head = nn.Linear(hidden, STATIONS)

    def forward(self, window):
        h = window.new_zeros(window.size(0), self.hidden)
        for t in range(window.size(1)):
            h = self.encoder(window[:, t], h)
        last = window[:, -1]
        outputs = []
        for _ in range(HORIZON):
            h = self.decoder(last, h)
            last = last + self.head(h)
            outputs.append(last)
        return torch.stack(outputs, dim=1)


class WindowSampler:
    def __init__(self, series, batch_size, seed):
        self.series = series
        self.batch_size = batch_size
        self.gen = torch.Generator().manual_seed(seed)

    def next(self):
        last = len(self.series) - WINDOW - HORIZON
        starts = torch.randint(last, (self.batch_size, 1), generator=self.gen)
        index = starts + torch.arange(WINDOW + HORIZON)
        chunk = self.series[index]
        return chunk[:, :WINDOW], chunk[:, WINDOW:]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--accumulate", type=int, default=2)
    parser.add_argument("--lr", type=float, default=3e-3)
    args = parser.parse_args()
    torch.manual_seed(0)

    sampler = WindowSampler(make_weather(6000, seed=0), batch_size=192, seed=1)
    model = Forecaster()
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=400)

    history = []
    for step in range(args.steps):
        optimizer.zero_grad()
        step_loss = 0.0
        for _ in range(args.accumulate):
            window, target = sampler.next()
            loss = F.l1_loss(model(window), target) / args.accumulate
            loss.backward()
            step_loss += loss.item()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        scheduler.step()
        history.append(step_loss)
    tail = history[-10:]
    print(f"mean absolute error of the last updates {sum(tail) / len(tail):.4f}")


if __name__ == "__main__":
    main()
