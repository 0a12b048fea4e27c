"""Tabular regression with a small Lightning-style trainer and callbacks."""
import argparse
import os
import tempfile

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset


class Callback:
    def on_fit_start(self, trainer, module): ...
    def on_train_batch_end(self, trainer, module, loss, batch_idx): ...
    def on_train_epoch_end(self, trainer, module): ...
    def on_fit_end(self, trainer, module): ...


class LossMeter(Callback):
    """Mean of the training loss over each epoch."""

    def on_fit_start(self, trainer, module):
        self.history = []
        self.total, self.count = 0.0, 0

    def on_train_batch_end(self, trainer, module, loss, batch_idx):
        self.total += loss.item()
        self.count += 1

    def on_train_epoch_end(self, trainer, module):
        if self.count:
            self.history.append(self.total / self.count)
        self.total, self.count = 0.0, 0


class LearningRateWarmup(Callback):
    def __init__(self, steps):
        self.steps = steps

    def on_fit_start(self, trainer, module):
        self.base = [g["lr"] for g in trainer.optimizer.param_groups]

    def on_train_batch_end(self, trainer, module, loss, batch_idx):
        scale = min(1.0, (trainer.global_step + 1) / self.steps)
        for group, base in zip(trainer.optimizer.param_groups, self.base):
            group["lr"] = base * scale


class LastCheckpoint(Callback):
    """Keeps last.ckpt so that an interrupted run can be resumed."""

    def __init__(self, dirpath):
        self.path = os.path.join(dirpath, "last.ckpt")

    def save(self, trainer, module):
        state = {
            "epoch": trainer.epoch,
            "global_step": trainer.global_step,
            "model": module.state_dict(),
            "optimizer": trainer.optimizer.state_dict(),
        }
        torch.save(state, self.path + ".tmp")
        os.replace(self.path + ".tmp", self.path)

    def on_train_batch_end(self, trainer, module, loss, batch_idx):
        self.save(trainer, module)

    def on_fit_end(self, trainer, module):
        self.save(trainer, module)


class Trainer:
    def __init__(self, max_steps, callbacks, gradient_clip_val=None):
        self.max_steps = max_steps
        self.callbacks = callbacks
        self.gradient_clip_val = gradient_clip_val
        self.global_step = 0
        self.epoch = 0

    def call(self, hook, *args):
        for callback in self.callbacks:
            getattr(callback, hook)(self, *args)

    def fit(self, module, loader):
        self.optimizer = module.configure_optimizers()
        module.train()
        self.call("on_fit_start", module)
        while self.global_step < self.max_steps:
            for batch_idx, batch in enumerate(loader):
                loss = module.training_step(batch, batch_idx)
                self.optimizer.zero_grad()
                loss.backward()
                if self.gradient_clip_val:
                    nn.utils.clip_grad_norm_(module.parameters(), self.gradient_clip_val)
                self.optimizer.step()
                self.global_step += 1
                self.call("on_train_batch_end", module, loss.detach(), batch_idx)
                if self.global_step == self.max_steps:
                    break
            self.call("on_train_epoch_end", module)
            self.epoch += 1
        self.call("on_fit_end", module)


class Residual(nn.Module):
    def __init__(self, dim, hidden, dropout):
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.net = nn.Sequential(nn.Linear(dim, hidden), nn.ReLU(), nn.Dropout(dropout), nn.Linear(hidden, dim))

    def forward(self, x):
        return x + self.net(self.norm(x))


class PriceModule(nn.Module):
    def __init__(self, features=40, dim=320, depth=4, lr=1e-3):
        super().__init__()
        self.lr = lr
        self.net = nn.Sequential(
            nn.Linear(features, dim),
            *[Residual(dim, 2 * dim, 0.1) for _ in range(depth)],
            nn.LayerNorm(dim), nn.Linear(dim, 1),
        )

    def forward(self, x):
        return self.net(x).squeeze(1)

    def training_step(self, batch, batch_idx):
        x, y = batch
        return F.smooth_l1_loss(self(x), y)

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=self.lr, weight_decay=1e-2)


def make_table(rows, features, seed):
    gen = torch.Generator().manual_seed(seed)
    x = torch.randn(rows, features, generator=gen)
    w = torch.randn(features, 8, generator=gen) / features ** 0.5
    y = torch.tanh(x @ w).sum(1) + 0.1 * torch.randn(rows, generator=gen)
    return TensorDataset(x, y)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60)
    args = parser.parse_args()
    torch.manual_seed(0)

    loader = DataLoader(make_table(8192, 40, seed=0), batch_size=256, shuffle=True, drop_last=True)
    meter = LossMeter()
    with tempfile.TemporaryDirectory() as dirpath:
        trainer = Trainer(args.steps, [meter, LearningRateWarmup(20), LastCheckpoint(dirpath)], gradient_clip_val=1.0)
        trainer.fit(PriceModule(), loader)
    print(f"epochs {len(meter.history)}, last epoch loss {meter.history[-1]:.4f}")


if __name__ == "__main__":
    main()
