"""Pneumonia detection on chest radiographs: JPEG folder, small CNN, epoch functions."""
import argparse
import os
import statistics
import tempfile
import time

import numpy as np
import torch
from PIL import Image
from torch import nn
from torch.utils.data import DataLoader, Dataset


def write_study(folder, n=48, size=768, seed=6):
    """Write n synthetic radiographs and return a list of (path, label)."""
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[0:size, 0:size] / size
    items = []
    for i in range(n):
        label = i % 2
        img = 200 - 120 * np.exp(-((x - 0.3) ** 2 + (y - 0.5) ** 2) / 0.03)
        img -= 120 * np.exp(-((x - 0.7) ** 2 + (y - 0.5) ** 2) / 0.03)
        if label:
            cx, cy = rng.uniform(0.25, 0.75), rng.uniform(0.35, 0.65)
            img += 70 * np.exp(-((x - cx) ** 2 + (y - cy) ** 2) / 0.004)
        img += rng.normal(0, 3, img.shape)
        path = os.path.join(folder, f"{i:04d}.jpg")
        Image.fromarray(np.clip(img, 0, 255).astype(np.uint8)).save(path, quality=90)
        items.append((path, label))
    return items


class XrayDataset(Dataset):
    def __init__(self, items, size=128):
        self.items = items
        self.size = size
        self.images = [self.load(path) for path, _ in items]

    def load(self, path):
        img = Image.open(path).convert("L")
        img = img.resize((self.size, self.size), Image.BILINEAR)
        return torch.from_numpy(np.array(img)).float().div(255)

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        _, label = self.items[i]
        img = self.images[i]
        if torch.rand(1) < 0.5:
            img = img.flip(-1)
        img = (img - 0.55) / 0.22
        return img.unsqueeze(0), float(label)


def build_model():
    def stage(cin, cout):
        return [nn.Conv2d(cin, cout, 3, padding=1, bias=False), nn.BatchNorm2d(cout), nn.ReLU(), nn.MaxPool2d(2)]
    return nn.Sequential(*stage(1, 16), *stage(16, 32), *stage(32, 64), *stage(64, 96),
                         nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(0.3), nn.Linear(96, 1))


def train_one_epoch(model, loader, opt, criterion, times, stop):
    model.train()
    last = None
    t0 = time.perf_counter()
    for x, y in loader:
        opt.zero_grad()
        loss = criterion(model(x).squeeze(1), y.float())
        loss.backward()
        opt.step()
        last = loss.item()
        times.append(time.perf_counter() - t0)
        if stop():
            break
        t0 = time.perf_counter()
    return last


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=60)
    ap.add_argument("--seconds", type=float)
    args = ap.parse_args()
    torch.manual_seed(0)
    with tempfile.TemporaryDirectory() as folder:
        items = write_study(folder)
        loader = DataLoader(XrayDataset(items), batch_size=8, shuffle=True)
        model = build_model()
        opt = torch.optim.Adam(model.parameters(), lr=3e-4)
        criterion = nn.BCEWithLogitsLoss()
        times, start = [], time.perf_counter()

        def stop():
            return len(times) >= args.steps and time.perf_counter() - start >= (args.seconds or 0)

        while not stop():
            last = train_one_epoch(model, loader, opt, criterion, times, stop)
    print(f"step_ms {statistics.median(times[5:]) * 1000:.3f}")
    return last


if __name__ == "__main__":
    main()
