"""N-BEATS-like forecaster for hourly electricity load of several hundred meters."""
import argparse
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
import torch.nn as nn


def write_meter_csv(path: Path, n_meters: int, hours: int, seed: int) -> None:
    """Hourly readings, one column per meter, as exported by the metering system."""
    rng = np.random.default_rng(seed)
    t = np.arange(hours)
    daily = rng.uniform(0.5, 1.5, n_meters) * np.sin(2 * np.pi * (t[:, None] - rng.uniform(0, 24, n_meters)) / 24)
    weekly = rng.uniform(0.1, 0.5, n_meters) * np.sin(2 * np.pi * t[:, None] / 168)
    noise = np.zeros((hours, n_meters))
    shock = 0.15 * rng.standard_normal((hours, n_meters))
    for h in range(1, hours):
        noise[h] = 0.8 * noise[h - 1] + shock[h]
    load = rng.uniform(3, 9, n_meters) * np.exp(0.4 * (daily + weekly + noise))
    header = ",".join(f"meter_{m:04d}" for m in range(n_meters))
    np.savetxt(path, load, fmt="%.4f", delimiter=",", header=header, comments="")


def load_meter_csv(path: Path) -> np.ndarray:
    with open(path) as f:
        f.readline()
        return np.array([line.split(",") for line in f], dtype=np.float64)


class Standardizer:
    def fit(self, values: np.ndarray) -> "Standardizer":
        self.mean, self.std = values.mean(axis=0), values.std(axis=0) + 1e-8
        return self

    def transform(self, values: np.ndarray) -> np.ndarray:
        return (values - self.mean) / self.std


class WindowSampler:
    """Random (meter, start) windows as one batch of backcast / forecast pairs."""

    def __init__(self, values: np.ndarray, backcast: int, horizon: int, batch_size: int, seed: int):
        self.series = torch.from_numpy(np.ascontiguousarray(values.T, dtype=np.float32))
        self.windows = self.series.unfold(1, backcast + horizon, 1)
        self.backcast, self.batch_size = backcast, batch_size
        self.generator = torch.Generator().manual_seed(seed)

    def next(self):
        meters = torch.randint(self.windows.shape[0], (self.batch_size,), generator=self.generator)
        starts = torch.randint(self.windows.shape[1], (self.batch_size,), generator=self.generator)
        w = self.windows[meters, starts]
        return w[:, : self.backcast], w[:, self.backcast:]


class Block(nn.Module):
    def __init__(self, backcast, horizon, width, depth=3):
        super().__init__()
        dims = [backcast] + [width] * depth
        self.fc = nn.Sequential(*(m for a, b in zip(dims, dims[1:]) for m in (nn.Linear(a, b), nn.ReLU())))
        self.theta = nn.Linear(width, backcast + horizon)
        self.backcast = backcast

    def forward(self, x):
        theta = self.theta(self.fc(x))
        return theta[:, : self.backcast], theta[:, self.backcast:]


class NBeats(nn.Module):
    def __init__(self, backcast, horizon, blocks=4, width=320):
        super().__init__()
        self.blocks = nn.ModuleList(Block(backcast, horizon, width) for _ in range(blocks))
        self.horizon = horizon

    def forward(self, x):
        residual, forecast = x, x.new_zeros(len(x), self.horizon)
        for block in self.blocks:
            b, f = block(residual)
            residual, forecast = residual - b, forecast + f
        return forecast


def pinball(pred, target, q):
    diff = target - pred
    return torch.maximum(q * diff, (q - 1) * diff).mean()


@torch.no_grad()
def backtest(model, sampler, rounds):
    model.eval()
    mae, naive = 0.0, 0.0
    for _ in range(rounds):
        x, y = sampler.next()
        mae += (model(x) - y).abs().mean().item()
        naive += (x[:, -168:-168 + y.shape[1]] - y).abs().mean().item()
    model.train()
    return mae / rounds, naive / rounds


class EarlyStopping:
    def __init__(self, patience, path):
        self.patience, self.path, self.best, self.bad = patience, path, float("inf"), 0

    def step(self, value, model):
        if value < self.best:
            self.best, self.bad = value, 0
            torch.save(model.state_dict(), self.path)
        else:
            self.bad += 1
        return self.bad >= self.patience


def parse():
    p = argparse.ArgumentParser()
    p.add_argument("--meters", type=int, default=240)
    p.add_argument("--hours", type=int, default=24 * 7 * 16)
    p.add_argument("--backcast", type=int, default=24 * 14)
    p.add_argument("--horizon", type=int, default=24)
    p.add_argument("--batch-size", type=int, default=640)
    p.add_argument("--steps", type=int, default=50)
    p.add_argument("--quantile", type=float, default=0.5)
    p.add_argument("--lr", type=float, default=1e-3)
    p.add_argument("--seed", type=int, default=31)
    return p.parse_args()


def main():
    cfg = parse()
    torch.manual_seed(cfg.seed)
    workdir = Path(tempfile.mkdtemp(prefix="load_forecast_"))
    write_meter_csv(workdir / "load.csv", cfg.meters, cfg.hours, cfg.seed)
    load = np.log(load_meter_csv(workdir / "load.csv"))
    split = int(0.8 * len(load))
    scaler = Standardizer().fit(load[:split])
    values = scaler.transform(load)
    train = WindowSampler(values[:split], cfg.backcast, cfg.horizon, cfg.batch_size, cfg.seed)
    test = WindowSampler(values[split:], cfg.backcast, cfg.horizon, cfg.batch_size, cfg.seed + 1)

    model = NBeats(cfg.backcast, cfg.horizon)
    optimizer = torch.optim.Adam(model.parameters(), lr=cfg.lr)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=20, gamma=0.5)
    stopper = EarlyStopping(3, workdir / "best.pt")
    print(f"{cfg.meters} meters x {cfg.hours} hours, {sum(p.numel() for p in model.parameters()) / 1e6:.2f}M parameters")

    total, since = 0.0, time.perf_counter()
    for step in range(1, cfg.steps + 1):
        x, y = train.next()
        loss = pinball(model(x), y, cfg.quantile)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        scheduler.step()
        total += loss.item()
        if step % 10 == 0:
            ms = (time.perf_counter() - since) * 100
            print(f"step {step:4d}  pinball {total / 10:.5f}  {ms:.0f} ms/step")
            if step % 20 == 0:
                mae, naive = backtest(model, test, 1)
                print(f"           backtest mae {mae:.4f} (seasonal naive {naive:.4f})")
                if stopper.step(mae, model):
                    print("early stop")
                    break
            total, since = 0.0, time.perf_counter()
    print(f"best mae {stopper.best:.4f}, weights {(workdir / 'best.pt').stat().st_size / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
