"""Long-horizon load forecasting with trend/season decomposition and one model per meter."""
import argparse
import math
import time

import torch
from torch import nn


class MovingAverage(nn.Module):
    def __init__(self, kernel):
        super().__init__()
        self.kernel = kernel
        self.pool = nn.AvgPool1d(kernel, stride=1)

    def forward(self, x):
        half = (self.kernel - 1) // 2
        front = x[..., :1].expand(-1, -1, half)
        back = x[..., -1:].expand(-1, -1, half)
        return self.pool(torch.cat([front, x, back], dim=-1))


class MeterMixer(nn.Module):
    """Lets the meters see each other before each is forecast by itself."""

    def __init__(self, history, width):
        super().__init__()
        self.embed = nn.Linear(history, width)
        layer = nn.TransformerEncoderLayer(width, 4, 2 * width, dropout=0.0, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 1)
        self.out = nn.Linear(width, history)

    def forward(self, x):
        return x + self.out(self.encoder(self.embed(x)))


class Forecaster(nn.Module):
    def __init__(self, meters, history, horizon, width=96, kernel=25):
        super().__init__()
        self.meters = meters
        self.smooth = MovingAverage(kernel)
        self.mixer = MeterMixer(history, width)
        self.seasonal = nn.ModuleList()
        self.trend = nn.ModuleList()
        for _ in range(meters):
            self.seasonal.append(nn.Linear(history, horizon))
            self.trend.append(nn.Linear(history, horizon))

    def forward(self, x):
        level = x.mean(-1, keepdim=True)
        x = self.mixer(x - level)
        trend = self.smooth(x)
        season = x - trend
        forecast = []
        for i in range(self.meters):
            forecast.append(self.seasonal[i](season[:, i]) + self.trend[i](trend[:, i]))
        return torch.stack(forecast, dim=1) + level


class LoadCurves:
    """Hourly curves with daily and weekly cycles and a random-walk level."""

    def __init__(self, meters, hours=4000, seed=0):
        g = torch.Generator().manual_seed(seed)
        t = torch.arange(hours).float()
        phase = 2 * math.pi * torch.rand(meters, 2, 1, generator=g)
        day = torch.sin(2 * math.pi * t / 24 + phase[:, 0])
        week = 0.5 * torch.sin(2 * math.pi * t / 168 + phase[:, 1])
        drift = 0.02 * torch.randn(meters, hours, generator=g).cumsum(1)
        self.series = day + week + drift + 0.2 * torch.randn(meters, hours, generator=g)
        self.g = g

    def windows(self, batch, history, horizon):
        latest = self.series.size(1) - history - horizon
        starts = torch.randint(latest, (batch, 1), generator=self.g)
        span = starts + torch.arange(history + horizon)
        block = self.series[:, span].transpose(0, 1)
        return block[..., :history], block[..., history:]


parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=60)
parser.add_argument("--batch", type=int, default=32)
parser.add_argument("--meters", type=int, default=48)
parser.add_argument("--history", type=int, default=144)
parser.add_argument("--horizon", type=int, default=48)


def main(args):
    torch.manual_seed(0)
    curves = LoadCurves(args.meters)
    model = Forecaster(args.meters, args.history, args.horizon)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    criterion = nn.MSELoss()
    for step in range(args.steps):
        if step in (0, 5):
            start = time.perf_counter()
        past, future = curves.windows(args.batch, args.history, args.horizon)
        loss = criterion(model(past), future)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 10 == 0:
            print(f"step {step} mse {loss.item():.5f}")
    print(f"mean step {1e3 * (time.perf_counter() - start) / max(1, args.steps - 5):.2f} ms")


if __name__ == "__main__":
    main(parser.parse_args())
