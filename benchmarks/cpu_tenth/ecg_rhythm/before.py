"""Rhythm classification of two-lead ECG windows.

Each patient's recording is stored as one compressed .npz with all of its
ten-second windows and their labels, as exported by the annotation tool.
"""
import argparse
import tempfile
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

RHYTHMS = ("sinus", "afib", "flutter", "bigeminy")
FS = 100           # Hz
WINDOW = 10 * FS   # samples
LEADS = 2


def synth_window(rng, rhythm):
    """One window in ADC counts, shape (LEADS, WINDOW)."""
    rate = rng.uniform(55, 95) / 60
    if rhythm == 0:
        gaps = np.full(24, 1 / rate)
    elif rhythm == 1:
        gaps = rng.gamma(6.0, 1 / (6.0 * rate), size=24)
    elif rhythm == 2:
        gaps = np.full(40, 0.4)
    else:
        gaps = np.tile([0.6 / rate, 1.4 / rate], 12)
    beats = np.cumsum(gaps) + rng.uniform(0, 0.5)
    t = np.arange(WINDOW) / FS
    base = np.zeros(WINDOW)
    for b in beats[beats < WINDOW / FS]:
        base += np.exp(-0.5 * ((t - b) / 0.02) ** 2) + 0.25 * np.exp(-0.5 * ((t - b - 0.25) / 0.05) ** 2)
    leads = np.stack([base, 0.6 * base + 0.1 * np.sin(2 * np.pi * 0.3 * t)])
    return ((leads + rng.normal(0, 0.05, leads.shape)) * 1000).astype(np.int16)


def export_recordings(folder, patients=32, windows=24, seed=11):
    rng = np.random.default_rng(seed)
    for p in range(patients):
        labels = rng.integers(0, len(RHYTHMS), size=windows)
        signals = np.stack([synth_window(rng, int(r)) for r in labels])
        np.savez_compressed(folder / f"patient_{p:03d}.npz", signals=signals, labels=labels)


class EcgWindows(Dataset):
    """All windows of all patients found in a folder."""

    def __init__(self, folder):
        self.files = sorted(Path(folder).glob("patient_*.npz"))
        self.index = []
        for f, path in enumerate(self.files):
            with np.load(path) as rec:
                n = len(rec["labels"])
            self.index.extend((f, w) for w in range(n))

    def __len__(self):
        return len(self.index)

    def __getitem__(self, i):
        f, w = self.index[i]
        with np.load(self.files[f]) as rec:
            signal = rec["signals"][w]
            label = int(rec["labels"][w])
        x = torch.from_numpy(signal.astype(np.float32) / 1000.0)
        return x, label


class Block(nn.Module):
    def __init__(self, cin, cout, stride):
        super().__init__()
        self.conv1 = nn.Conv1d(cin, cout, 9, stride=stride, padding=4, bias=False)
        self.bn1 = nn.BatchNorm1d(cout)
        self.conv2 = nn.Conv1d(cout, cout, 9, padding=4, bias=False)
        self.bn2 = nn.BatchNorm1d(cout)
        self.skip = nn.Conv1d(cin, cout, 1, stride=stride, bias=False)

    def forward(self, x):
        y = torch.relu(self.bn1(self.conv1(x)))
        return torch.relu(self.bn2(self.conv2(y)) + self.skip(x))


class RhythmNet(nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.stem = nn.Conv1d(LEADS, 24, 15, stride=2, padding=7)
        self.blocks = nn.Sequential(Block(24, 32, 2), Block(32, 48, 2), Block(48, 64, 2))
        self.head = nn.Linear(64, classes)

    def forward(self, x):
        return self.head(self.blocks(torch.relu(self.stem(x))).mean(dim=2))


def endless(loader):
    while True:
        yield from loader


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60)
    args = parser.parse_args()

    torch.manual_seed(0)
    with tempfile.TemporaryDirectory() as tmp:
        folder = Path(tmp)
        export_recordings(folder)
        data = EcgWindows(folder)
        loader = DataLoader(data, batch_size=32, shuffle=True, drop_last=True)

        model = RhythmNet(len(RHYTHMS))
        optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, fused=True)
        criterion = nn.CrossEntropyLoss()

        model.train()
        running = torch.zeros(())
        for step, (x, y) in zip(range(args.steps), endless(loader)):
            loss = criterion(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            running = 0.9 * running + 0.1 * loss.detach()

    print(f"steps {args.steps}  running loss {running.item():.4f}")


if __name__ == "__main__":
    main()
