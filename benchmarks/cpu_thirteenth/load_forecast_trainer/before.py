"""Electricity load forecasting with a small trainer, modules and callbacks."""
import argparse
from dataclasses import dataclass, field

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset, RandomSampler

CONTEXT, HORIZON, SITES = 96, 24, 16


def make_series(hours=6000, seed=13):
    rng = np.random.default_rng(seed)
    t = np.arange(hours)
    phase = rng.uniform(0, 6.28, (SITES, 2))
    day = np.sin(2 * np.pi * t / 24 + phase[:, :1])
    week = 0.5 * np.sin(2 * np.pi * t / 168 + phase[:, 1:])
    noise = rng.standard_normal((SITES, hours)).cumsum(1) * 0.01
    return torch.from_numpy((day + week + noise).astype(np.float32))


class WindowDataset(Dataset):
    def __init__(self, series):
        self.series = series

    def __len__(self):
        return self.series.shape[1] - CONTEXT - HORIZON

    def __getitem__(self, i):
        window = self.series[:, i:i + CONTEXT + HORIZON]
        return window[:, :CONTEXT], window[:, CONTEXT:]


class MixerBlock(nn.Module):
    """Mixing over time, then over features, each with a residual."""

    def __init__(self, dim, length):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.time = nn.Sequential(nn.Linear(length, length), nn.GELU(), nn.Linear(length, length))
        self.feat = nn.Sequential(nn.Linear(dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim))
        self.gate = nn.Parameter(torch.ones(dim))

    def forward(self, x):
        x = x + self.gate * self.time(self.norm1(x).transpose(1, 2)).transpose(1, 2)
        return x + self.feat(self.norm2(x))


class LoadForecaster(nn.Module):
    def __init__(self, dim=32, patch=8, depth=6, lr=2e-3):
        super().__init__()
        self.lr, self.patch = lr, patch
        n_patches = CONTEXT // patch
        self.embed = nn.Linear(patch, dim)
        self.blocks = nn.Sequential(*[MixerBlock(dim, n_patches) for _ in range(depth)])
        self.head = nn.Linear(dim * n_patches, HORIZON)

    def forward(self, x):
        last = x[..., -1:]
        x = (x - last).flatten(0, 1).unflatten(1, (-1, self.patch))
        x = self.blocks(self.embed(x))
        return self.head(x.flatten(1)).view(*last.shape[:2], HORIZON) + last

    def training_step(self, batch):
        context, target = batch
        return F.smooth_l1_loss(self(context), target)

    def configure_optimizers(self):
        optimizer = torch.optim.AdamW(self.parameters(), lr=self.lr)
        return optimizer, torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.995)


class Callback:
    def on_train_start(self, trainer, module): ...
    def on_train_batch_end(self, trainer, module, loss, step): ...
    def on_train_end(self, trainer, module): ...


@dataclass
class LossHistory(Callback):
    every: int = 5
    values: list = field(default_factory=list)

    def on_train_batch_end(self, trainer, module, loss, step):
        if step % self.every == self.every - 1:
            self.values.append(loss.item())


class LearningRateMonitor(Callback):
    def on_train_start(self, trainer, module):
        self.rates = []

    def on_train_batch_end(self, trainer, module, loss, step):
        self.rates.append(trainer.scheduler.get_last_lr()[0])


@dataclass
class Trainer:
    max_steps: int
    callbacks: list = field(default_factory=list)
    gradient_clip_val: float = 0.0
    detect_anomaly: bool = False

    def call(self, hook, *args):
        for callback in self.callbacks:
            getattr(callback, hook)(self, *args)

    def fit(self, module, loader):
        self.optimizer, self.scheduler = module.configure_optimizers()
        module.train()
        self.call("on_train_start", module)
        with torch.autograd.set_detect_anomaly(self.detect_anomaly):
            for step, batch in enumerate(loader):
                loss = module.training_step(batch)
                self.optimizer.zero_grad()
                loss.backward()
                if self.gradient_clip_val:
                    nn.utils.clip_grad_norm_(module.parameters(), self.gradient_clip_val)
                self.optimizer.step()
                self.scheduler.step()
                self.call("on_train_batch_end", module, loss.detach(), step)
        self.call("on_train_end", module)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60)
    args = parser.parse_args()
    torch.manual_seed(0)

    data = WindowDataset(make_series())
    sampler = RandomSampler(data, replacement=True, num_samples=args.steps * 16)
    loader = DataLoader(data, batch_size=16, sampler=sampler)

    history = LossHistory(every=1)
    trainer = Trainer(
        max_steps=args.steps,
        callbacks=[history, LearningRateMonitor()],
        gradient_clip_val=1.0,
        detect_anomaly=True,
    )
    trainer.fit(LoadForecaster(), loader)
    print(f"loss {np.mean(history.values[-10:]):.4f}")


if __name__ == "__main__":
    main()
