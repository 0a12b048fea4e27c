"""Tabular regression with a residual MLP, driven by a small Trainer with callbacks."""
import json
import os
import tempfile
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

torch.set_num_threads(2)
torch.manual_seed(61)

ROWS = 16384
COLUMNS = 64
WIDTH = 320
DEPTH = 4
BATCH = 256
STEPS = 80
LOG_EVERY = 20
WARMUP = 4


def make_table():
    g = torch.Generator().manual_seed(17)
    x = torch.randn(ROWS, COLUMNS, generator=g)
    w = torch.randn(COLUMNS, 6, generator=g) / COLUMNS ** 0.5
    z = x @ w
    y = z[:, 0].sin() + z[:, 1] * z[:, 2] + z[:, 3].abs() - z[:, 4] * (z[:, 5] > 0)
    return x, (y - y.mean()) / y.std()


class ResidualMLP(nn.Module):
    def __init__(self):
        super().__init__()
        self.enter = nn.Linear(COLUMNS, WIDTH)
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 2 * WIDTH), nn.SiLU(), nn.Linear(2 * WIDTH, WIDTH))
            for _ in range(DEPTH))
        self.exit = nn.Sequential(nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 1))

    def forward(self, x):
        h = self.enter(x)
        for block in self.blocks:
            h = h + block(h)
        return self.exit(h).squeeze(-1)


class Callback:
    def on_backward_end(self, trainer): ...

    def on_step_end(self, trainer): ...


class Timer(Callback):
    def __init__(self):
        self.times, self.last = [], time.perf_counter()

    def on_step_end(self, trainer):
        now = time.perf_counter()
        self.times.append(now - self.last)
        self.last = now


class LossAverage(Callback):
    def __init__(self, decay=0.95):
        self.decay, self.value = decay, None

    def on_step_end(self, trainer):
        loss = trainer.loss.item()
        self.value = loss if self.value is None else self.decay * self.value + (1 - self.decay) * loss


class GradientReport(Callback):
    """Writes the spread of every parameter's gradient to a JSON-lines file."""

    def __init__(self, path, every):
        self.path, self.every, self.record = path, every, {}

    def on_backward_end(self, trainer):
        for name, p in trainer.model.named_parameters():
            size = p.grad.abs().flatten()
            self.record[name] = {
                "median": size.median().item(),
                "p99": size.quantile(0.99).item(),
                "max": size.max().item(),
            }

    def on_step_end(self, trainer):
        if trainer.step % self.every == 0:
            with open(self.path, "a") as f:
                f.write(json.dumps({"step": trainer.step, "grad": self.record}) + "\n")


class Trainer:
    def __init__(self, model, optimizer, data, callbacks):
        self.model, self.optimizer, self.callbacks = model, optimizer, callbacks
        self.x, self.y = data
        self.step, self.loss = 0, None
        self.generator = torch.Generator().manual_seed(2)

    def call(self, event):
        for callback in self.callbacks:
            getattr(callback, event)(self)

    def train_step(self):
        rows = torch.randint(0, ROWS, (BATCH,), generator=self.generator)
        self.loss = F.smooth_l1_loss(self.model(self.x[rows]), self.y[rows])
        self.optimizer.zero_grad()
        self.loss.backward()
        self.call("on_backward_end")
        self.optimizer.step()
        self.call("on_step_end")

    def fit(self, steps):
        for self.step in range(steps):
            self.train_step()
            if self.step % LOG_EVERY == 0:
                print(f"step {self.step:3d}  loss {self.loss.item():.4f}")


def main():
    model = ResidualMLP()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    data = make_table()
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "gradients.jsonl")
        average, timer = LossAverage(), Timer()
        Trainer(model, optimizer, data, [average, GradientReport(path, LOG_EVERY), timer]).fit(STEPS)
        with open(path) as f:
            last = json.loads(f.readlines()[-1])
    mean = sum(timer.times[WARMUP:]) / len(timer.times[WARMUP:])
    print(f"last report: step {last['step']}, enter.weight p99 {last['grad']['enter.weight']['p99']:.6f}")
    print(f"final loss {average.value:.5f}")
    print(f"mean step time {mean * 1000:.2f} ms")


if __name__ == "__main__":
    main()
