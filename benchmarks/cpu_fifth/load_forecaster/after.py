"""Forecast the next day of a household's electricity load with a small temporal transformer."""
import argparse

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

from tinytrainer import EarlyStopping, LossHistory, StepTimer, Trainer, TrainModule


def simulate_load(n_households, n_hours, seed=0):
    """Hourly load: daily and weekly cycles, temperature, and heavy-tailed appliances."""
    rng = np.random.default_rng(seed)
    hours = np.arange(n_hours)
    temperature = 8 * np.sin(2 * np.pi * hours / (24 * 365)) + 4 * np.sin(2 * np.pi * hours / 24 - 2)
    temperature = temperature + rng.normal(0, 1, n_hours)
    series = []
    for _ in range(n_households):
        daily = rng.uniform(0.5, 1.5) * np.sin(2 * np.pi * hours / 24 - rng.uniform(1, 2))
        weekend = rng.uniform(0.1, 0.5) * (hours // 24 % 7 >= 5)
        appliances = rng.gamma(0.5, 0.4, n_hours)
        series.append(1.5 + daily + weekend + 0.05 * np.abs(temperature) + appliances)
    return np.stack(series).astype(np.float32)


def windows(series, context, horizon, n, seed):
    rng = np.random.default_rng(seed)
    rows = rng.integers(0, len(series), n)
    starts = rng.integers(0, series.shape[1] - context - horizon, n)
    x = np.stack([series[r, s:s + context] for r, s in zip(rows, starts)])
    y = np.stack([series[r, s + context:s + context + horizon] for r, s in zip(rows, starts)])
    return TensorDataset(torch.from_numpy(x), torch.from_numpy(y))


class MixerLayer(nn.Module):
    """Self-attention over patches, then a gated feed-forward, both pre-normed."""

    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.qkv, self.out = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.up, self.down = nn.Linear(dim, 4 * dim), nn.Linear(2 * dim, dim)

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(b, t, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v)
        x = x + self.out(y.transpose(1, 2).reshape(b, t, d))
        return x + self.down(F.glu(self.up(self.norm2(x))))


class LoadForecaster(TrainModule):
    def __init__(self, context, horizon, patch=12, dim=96, depth=5, heads=4, lr=1e-3, total_steps=100):
        super().__init__()
        self.patch, self.lr, self.total_steps = patch, lr, total_steps
        self.embed = nn.Linear(patch, dim)
        self.position = nn.Parameter(0.02 * torch.randn(context // patch, dim))
        self.layers = nn.ModuleList([MixerLayer(dim, heads) for _ in range(depth)])
        self.norm = nn.LayerNorm(dim)
        self.head = nn.Linear(dim * (context // patch), horizon)

    def forward(self, x):
        mean, std = x.mean(1, keepdim=True), x.std(1, keepdim=True) + 1e-4
        h = self.embed(((x - mean) / std).unflatten(1, (-1, self.patch))) + self.position
        for layer in self.layers:
            h = layer(h)
        return self.head(self.norm(h).flatten(1)) * std + mean

    def training_step(self, batch):
        x, y = batch
        return F.huber_loss(self(x), y)

    def validation_step(self, batch):
        x, y = batch
        return F.l1_loss(self(x), y)

    def configure_optimizers(self):
        optimizer = torch.optim.AdamW(self.parameters(), lr=self.lr, weight_decay=0.01, fused=True)
        scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=self.lr, total_steps=self.total_steps + 1)
        return optimizer, scheduler


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--context", type=int, default=336)
    parser.add_argument("--horizon", type=int, default=24)
    parser.add_argument("--lr", type=float, default=1e-3)
    args = parser.parse_args()

    torch.manual_seed(11)
    torch.set_num_threads(1)

    series = simulate_load(40, 24 * 200)
    train = windows(series, args.context, args.horizon, 4096, seed=1)
    val = windows(series, args.context, args.horizon, 256, seed=2)
    train_loader = DataLoader(train, batch_size=args.batch_size, shuffle=True, drop_last=True)
    val_loader = DataLoader(val, batch_size=128)

    module = LoadForecaster(args.context, args.horizon, lr=args.lr, total_steps=args.steps)
    timer, history = StepTimer(), LossHistory()
    trainer = Trainer(
        max_steps=args.steps,
        callbacks=[history, timer, EarlyStopping(patience=5)],
        gradient_clip_val=1.0,
    )
    trainer.fit(module, train_loader, val_loader)

    print(f"val MAE {trainer.validate(module, val_loader):.4f}")
    print(f"loss {history.recent():.4f}")
    print(f"step {timer.median_ms:.2f} ms")


if __name__ == "__main__":
    main()
