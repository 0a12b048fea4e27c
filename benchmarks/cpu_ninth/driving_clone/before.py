"""Behaviour cloning: steering angle from a front camera, with a callback-style trainer."""
import argparse
import os
import statistics
import tempfile
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def drive_log(n=384, h=66, w=200, seed=17):
    g = torch.Generator().manual_seed(seed)
    angle = torch.rand(n, generator=g) * 2 - 1
    ys = torch.linspace(0, 1, h)[None, :, None]
    xs = torch.linspace(-1, 1, w)[None, None, :]
    lane = torch.exp(-((xs - angle[:, None, None] * (1 - ys) ** 2) / 0.08) ** 2)
    frames = torch.stack([lane, lane * ys, 1 - lane], dim=1)
    frames += 0.1 * torch.randn(frames.shape, generator=g)
    return TensorDataset(frames, angle + 0.02 * torch.randn(n, generator=g))


class PilotNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(3, 24, 5, stride=2), nn.ELU(),
            nn.Conv2d(24, 36, 5, stride=2), nn.ELU(),
            nn.Conv2d(36, 48, 5, stride=2), nn.ELU(),
            nn.Conv2d(48, 64, 3), nn.ELU(),
            nn.Conv2d(64, 64, 3), nn.ELU(), nn.Flatten())
        self.head = nn.Sequential(
            nn.Linear(1152, 512), nn.ELU(), nn.Dropout(0.2),
            nn.Linear(512, 100), nn.ELU(), nn.Linear(100, 1))

    def forward(self, x):
        return self.head(self.features(x)).squeeze(1)


class Callback:
    def on_step_begin(self, trainer):
        pass

    def on_step_end(self, trainer):
        pass


class StepTimer(Callback):
    def __init__(self):
        self.times = []

    def on_step_begin(self, trainer):
        self.t0 = time.perf_counter()

    def on_step_end(self, trainer):
        self.times.append(time.perf_counter() - self.t0)


class Checkpoint(Callback):
    """Keeps the newest state on disk so that a killed job can be resumed."""

    def __init__(self, folder, every=1):
        self.path = os.path.join(folder, "last.pt")
        self.every = every

    def on_step_end(self, trainer):
        if trainer.step % self.every == 0:
            state = {"step": trainer.step, "model": trainer.model.state_dict(),
                     "optimizer": trainer.opt.state_dict()}
            torch.save(state, self.path + ".tmp")
            os.replace(self.path + ".tmp", self.path)


class Trainer:
    def __init__(self, model, loader, callbacks):
        self.model, self.loader, self.callbacks = model, loader, callbacks
        self.opt = torch.optim.Adam(model.parameters(), lr=1e-4)
        self.loss_fn = nn.MSELoss()
        self.step, self.loss = 0, None

    def emit(self, name):
        for cb in self.callbacks:
            getattr(cb, name)(self)

    def batches(self):
        while True:
            yield from self.loader

    def fit(self, steps, seconds):
        start = time.perf_counter()
        batches = self.batches()
        while self.step < steps or (seconds and time.perf_counter() - start < seconds):
            self.emit("on_step_begin")
            frames, angle = next(batches)
            self.opt.zero_grad()
            self.loss = self.loss_fn(self.model(frames), angle)
            self.loss.backward()
            self.opt.step()
            self.step += 1
            self.emit("on_step_end")


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=60)
    ap.add_argument("--seconds", type=float)
    args = ap.parse_args()
    torch.manual_seed(0)
    loader = DataLoader(drive_log(), batch_size=32, shuffle=True, drop_last=True)
    timer = StepTimer()
    with tempfile.TemporaryDirectory() as folder:
        trainer = Trainer(PilotNet(), loader, [Checkpoint(folder), timer])
        trainer.fit(args.steps, args.seconds)
    print(f"step_ms {statistics.median(timer.times[5:]) * 1000:.3f}")
    return trainer.loss.item()


if __name__ == "__main__":
    main()
