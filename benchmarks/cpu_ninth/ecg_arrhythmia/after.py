"""Arrhythmia classification from two-lead ECG beats, 1-D residual network."""
import argparse
import statistics
import time

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

CLASSES = 5
FS = 250


def synth_ecg(n=1024, length=500, seed=3):
    """Two leads, beats with class dependent QRS width, T amplitude and rhythm."""
    rng = np.random.default_rng(seed)
    t = np.arange(length) / FS
    labels = rng.integers(0, CLASSES, n)
    signals = np.zeros((n, 2, length))
    for i, c in enumerate(labels):
        rr = 0.8 - 0.08 * c + rng.normal(0, 0.02)
        for beat in np.arange(0.2, t[-1], rr):
            jitter = rng.normal(0, 0.02 * c)
            qrs = np.exp(-((t - beat - jitter) / (0.015 + 0.006 * c)) ** 2)
            twave = (0.3 - 0.1 * c) * np.exp(-((t - beat - 0.25) / 0.05) ** 2)
            signals[i, 0] += qrs + twave
            signals[i, 1] += 0.6 * qrs - 0.5 * twave
    signals += rng.normal(0, 0.1, signals.shape)
    signals = (signals - signals.mean(-1, keepdims=True)) / signals.std(-1, keepdims=True)
    return signals, labels


class Block(nn.Module):
    def __init__(self, cin, cout, stride):
        super().__init__()
        self.c1 = nn.Conv1d(cin, cout, 7, stride=stride, padding=3, bias=False)
        self.b1 = nn.BatchNorm1d(cout)
        self.c2 = nn.Conv1d(cout, cout, 7, padding=3, bias=False)
        self.b2 = nn.BatchNorm1d(cout)
        self.skip = nn.Conv1d(cin, cout, 1, stride=stride, bias=False)

    def forward(self, x):
        h = F.relu(self.b1(self.c1(x)))
        h = self.b2(self.c2(h))
        return F.relu(h + self.skip(x))


class ECGNet(nn.Module):
    def __init__(self, width=24):
        super().__init__()
        self.stem = nn.Conv1d(2, width, 15, padding=7)
        self.blocks = nn.Sequential(
            Block(width, width, 2),
            Block(width, 2 * width, 2),
            Block(2 * width, 4 * width, 2),
        )
        self.fc = nn.Linear(4 * width, CLASSES)

    def forward(self, x):
        h = self.blocks(F.relu(self.stem(x)))
        return self.fc(h.mean(-1))


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=60)
    ap.add_argument("--seconds", type=float)
    args = ap.parse_args()
    torch.manual_seed(1)

    signals, labels = synth_ecg()
    dataset = TensorDataset(torch.from_numpy(signals).float(), torch.from_numpy(labels))
    loader = DataLoader(dataset, batch_size=32, shuffle=True, drop_last=True)

    model = ECGNet()
    weights = torch.tensor([0.6, 1.0, 1.2, 1.0, 1.2])
    opt = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=1e-2)

    times = []
    start = time.perf_counter()
    done = False
    while not done:
        t0 = time.perf_counter()
        for x, y in loader:
            opt.zero_grad()
            logits = model(x)
            loss = F.cross_entropy(logits, y, weight=weights)
            loss.backward()
            opt.step()
            now = time.perf_counter()
            times.append(now - t0)
            if len(times) >= args.steps and (args.seconds is None or now - start >= args.seconds):
                done = True
                break
            t0 = time.perf_counter()
    print(f"step_ms {statistics.median(times[5:]) * 1000:.3f}")
    return loss.item()


if __name__ == "__main__":
    main()
