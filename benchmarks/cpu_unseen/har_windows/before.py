"""Human activity recognition from wearable sensors: a 1-D CNN on sliding windows."""
import argparse
import time

import numpy as np
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset

CHANNELS = 12


def record_subject(rng, minutes, hz=50):
    """One subject's stream: a piecewise periodic signal and its activity per sample."""
    total = minutes * 60 * hz
    stream = rng.normal(0, 0.4, (total, CHANNELS)).astype(np.float32)
    labels = np.zeros(total, dtype=np.int64)
    t = 0
    while t < total:
        length = int(rng.integers(5, 20)) * hz
        activity = int(rng.integers(0, 6))
        span = np.arange(min(length, total - t)) / hz
        wave = np.sin(2 * np.pi * (0.5 + 0.5 * activity) * span)
        stream[t:t + length] += wave[:, None].astype(np.float32)
        labels[t:t + length] = activity
        t += length
    return stream, labels


class SensorWindows(Dataset):
    def __init__(self, subjects=6, window=256, hop=64, seed=0):
        rng = np.random.default_rng(seed)
        self.window = window
        self.streams, self.labels, self.index = [], [], []
        for subject in range(subjects):
            stream, labels = record_subject(rng, minutes=4)
            stream = (stream - stream.mean(0)) / stream.std(0)
            self.streams.append(stream)
            self.labels.append(labels)
            starts = range(0, len(stream) - window, hop)
            self.index += [(subject, start) for start in starts]

    def __len__(self):
        return len(self.index)

    def __getitem__(self, i):
        subject, start = self.index[i]
        stop = start + self.window
        label = np.bincount(self.labels[subject][start:stop], minlength=6).argmax()
        return self.streams[subject][start:stop], int(label)


def collate(samples):
    windows = [window for window, _ in samples]
    labels = [label for _, label in samples]
    return torch.tensor(windows).transpose(1, 2), torch.tensor(labels)


class ActivityNet(nn.Module):
    def __init__(self, width=64, classes=6):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv1d(CHANNELS, width, 7, padding=3), nn.BatchNorm1d(width), nn.ReLU(),
            nn.MaxPool1d(2),
            nn.Conv1d(width, width, 5, padding=2), nn.BatchNorm1d(width), nn.ReLU(),
            nn.MaxPool1d(2),
            nn.Conv1d(width, 2 * width, 3, padding=1), nn.ReLU(),
        )
        self.classifier = nn.Sequential(nn.Dropout(0.2), nn.Linear(2 * width, classes))

    def forward(self, x):
        return self.classifier(self.features(x).mean(dim=2))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=80)
    parser.add_argument("--batch-size", type=int, default=64)
    args = parser.parse_args()
    torch.manual_seed(0)

    loader = DataLoader(SensorWindows(), batch_size=args.batch_size, shuffle=True,
                        collate_fn=collate, drop_last=True)
    model = ActivityNet()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    criterion = nn.CrossEntropyLoss()

    step, start = 0, time.perf_counter()
    done = False
    while not done:
        for windows, labels in loader:
            optimizer.zero_grad()
            loss = criterion(model(windows), labels)
            loss.backward()
            optimizer.step()
            step += 1
            if step == 5:
                start = time.perf_counter()
            if step % 25 == 0:
                print(f"[{step}/{args.steps}] loss {loss.item():.4f}")
            if step == args.steps:
                done = True
                break
    elapsed = time.perf_counter() - start
    print(f"final loss {loss.item():.5f}")
    print(f"mean step {1000 * elapsed / max(1, step - 5):.2f} ms")


if __name__ == "__main__":
    main()
