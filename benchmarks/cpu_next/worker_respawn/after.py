"""Activity recognition from wearable IMU windows (Dataset + DataLoader + fit loop)."""
import argparse
import time

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class ImuWindows(Dataset):
    """Windows of six-axis IMU recordings with light augmentation."""

    def __init__(self, subjects=12, per_subject=16, length=128, seed=0):
        rng = np.random.default_rng(seed)
        t = np.arange(length, dtype=np.float32) / 50.0
        self.windows, self.targets = [], []
        for _ in range(subjects):
            gait = rng.uniform(0.8, 1.2)
            for _ in range(per_subject):
                activity = int(rng.integers(0, 6))
                freq = gait * (0.5 + 0.6 * activity)
                phase = rng.uniform(0, 2 * np.pi, (6, 1))
                wave = np.sin(2 * np.pi * freq * t[None] + phase)
                wave = wave + rng.normal(0, 0.3, wave.shape)
                self.windows.append(wave.astype(np.float32))
                self.targets.append(activity)

    def __len__(self):
        return len(self.windows)

    def __getitem__(self, i):
        x = torch.from_numpy(self.windows[i])
        shift = int(torch.randint(-8, 9, ()))
        x = torch.roll(x, shift, dims=1)
        x = x * (1 + 0.1 * torch.randn(6, 1))
        return x, self.targets[i]


class ConvGRU(nn.Module):
    def __init__(self, classes=6):
        super().__init__()
        self.conv = nn.Sequential(
            nn.Conv1d(6, 64, 7, stride=2, padding=3), nn.BatchNorm1d(64), nn.ReLU(),
            nn.Conv1d(64, 96, 5, stride=2, padding=2), nn.BatchNorm1d(96), nn.ReLU(),
        )
        self.rnn = nn.GRU(96, 64, batch_first=True)
        self.out = nn.Linear(64, classes)

    def forward(self, x):
        h, _ = self.rnn(self.conv(x).transpose(1, 2))
        return self.out(h.mean(1))


def build_loader(dataset, args):
    return DataLoader(
        dataset,
        batch_size=args.batch,
        shuffle=True,
        drop_last=True,
        num_workers=args.workers,
        persistent_workers=args.workers > 0,
    )


def endless(loader):
    epoch = 0
    while True:
        for batch in loader:
            yield epoch, batch
        epoch += 1


def fit(args):
    torch.manual_seed(0)
    dataset = ImuWindows()
    loader = build_loader(dataset, args)
    model = ConvGRU()
    opt = torch.optim.Adam(model.parameters(), lr=2e-3)
    loss_fn = nn.CrossEntropyLoss()
    batches = endless(loader)
    right = seen = 0

    began = time.perf_counter()
    for step in range(args.steps):
        if step == 5:
            began = time.perf_counter()
        epoch, (x, y) = next(batches)
        logits = model(x)
        loss = loss_fn(logits, y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        right += (logits.argmax(1) == y).sum().item()
        seen += len(y)
        if (step + 1) % 20 == 0:
            print(f"step {step + 1} epoch {epoch} loss {loss.item():.4f} acc {right / seen:.3f}")
            right = seen = 0
    return (time.perf_counter() - began) / max(1, args.steps - 5)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--workers", type=int, default=2)
    mean = fit(parser.parse_args())
    print(f"mean step {mean * 1000:.2f} ms")
