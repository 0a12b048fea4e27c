"""A convolutional digit classifier trained with a Lightning-style Trainer."""

import argparse
import json
import statistics
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset


class LightningLikeModule(nn.Module):
    trainer = None

    def log(self, name, value):
        self.trainer.logged.setdefault(name, []).append(float(value))

    def training_step(self, batch, batch_idx):
        raise NotImplementedError

    def configure_optimizers(self):
        raise NotImplementedError


class Callback:
    def on_fit_start(self, trainer, module): ...
    def on_train_batch_start(self, trainer, module, batch_idx): ...
    def on_train_batch_end(self, trainer, module, batch_idx): ...
    def on_fit_end(self, trainer, module): ...


class StepTimer(Callback):
    def __init__(self):
        self.times = []

    def on_train_batch_start(self, trainer, module, batch_idx):
        self.start = time.perf_counter()

    def on_train_batch_end(self, trainer, module, batch_idx):
        self.times.append((time.perf_counter() - self.start) * 1e3)

    def median(self):
        return statistics.median(self.times[5:] or self.times)


class ActivationMonitor(Callback):
    """Tracks the spread of every ReLU's output to spot dead units."""

    def __init__(self, quantiles=(1, 50, 99)):
        self.quantiles = quantiles
        self.stats = {}
        self.handles = []

    def on_fit_start(self, trainer, module):
        self.trainer = trainer
        for name, sub in module.named_modules():
            if isinstance(sub, nn.ReLU):
                self.handles.append(sub.register_forward_hook(self._make_hook(name)))

    def _make_hook(self, name):
        def hook(mod, inputs, output):
            if self.trainer.global_step % 50 != 0:
                return
            values = output.detach().numpy()
            low, mid, high = np.percentile(values, self.quantiles)
            dead = float((values.max(axis=(0, 2, 3)) <= 0).mean())
            self.stats.setdefault(name, []).append((low, mid, high, dead))

        return hook

    def on_fit_end(self, trainer, module):
        for handle in self.handles:
            handle.remove()


class Trainer:
    def __init__(self, max_steps, callbacks=(), gradient_clip_val=None):
        self.max_steps = max_steps
        self.callbacks = list(callbacks)
        self.gradient_clip_val = gradient_clip_val
        self.global_step = 0
        self.logged = {}

    def _call(self, hook, *args):
        for cb in self.callbacks:
            getattr(cb, hook)(self, self.module, *args)

    def fit(self, module, loader):
        self.module, module.trainer = module, self
        optimizer = module.configure_optimizers()
        module.train()
        self._call("on_fit_start")
        while self.global_step < self.max_steps:
            for batch_idx, batch in enumerate(loader):
                self._call("on_train_batch_start", batch_idx)
                optimizer.zero_grad()
                loss = module.training_step(batch, batch_idx)
                loss.backward()
                if self.gradient_clip_val:
                    nn.utils.clip_grad_norm_(module.parameters(), self.gradient_clip_val)
                optimizer.step()
                self.global_step += 1
                self._call("on_train_batch_end", batch_idx)
                if self.global_step >= self.max_steps:
                    break
        self._call("on_fit_end")


class DigitNet(LightningLikeModule):
    def __init__(self, width=32, lr=1e-3):
        super().__init__()
        self.lr = lr
        self.body = nn.Sequential(
            nn.Conv2d(1, width, 3, padding=1),
            nn.ReLU(),
            nn.Conv2d(width, width, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(width, width * 2, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
        )
        self.head = nn.Linear(width * 2 * 49, 10)

    def training_step(self, batch, batch_idx):
        x, y = batch
        logits = self.head(self.body(x).flatten(1))
        loss = F.cross_entropy(logits, y)
        self.log("train_loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=self.lr)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=40)
    args = parser.parse_args()
    torch.manual_seed(0)
    y = torch.randint(0, 10, (2048,))
    x = torch.randn(10, 1, 28, 28)[y] + 0.7 * torch.randn(2048, 1, 28, 28)
    loader = DataLoader(TensorDataset(x, y), batch_size=64, shuffle=True)
    timer, monitor = StepTimer(), ActivationMonitor()
    trainer = Trainer(args.steps, callbacks=[timer, monitor], gradient_clip_val=1.0)
    trainer.fit(DigitNet(), loader)
    for name, rows in monitor.stats.items():
        print(name, "p1/p50/p99/dead:", np.round(rows[-1], 3))
    print("final loss", round(trainer.logged["train_loss"][-1], 4))
    print(json.dumps({"ms": round(timer.median(), 3)}))


if __name__ == "__main__":
    main()
