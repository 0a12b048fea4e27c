"""SimCLR-style contrastive pretraining on small aerial image patches."""
import argparse
import json
import statistics
import sys
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

PATCH = 48
CROP = 40
BATCH = 48
MEAN = np.array([0.45, 0.45, 0.42], dtype=np.float32)[:, None, None]
STD = np.array([0.24, 0.23, 0.25], dtype=np.float32)[:, None, None]


class Patches:
    """Smooth random textures standing in for tiles cut from an aerial survey."""

    def __init__(self, n, seed):
        self.rng = np.random.default_rng(seed)
        coarse = self.rng.random((n, 6, 6, 3)).astype(np.float32)
        smooth = coarse.repeat(PATCH // 6, axis=1).repeat(PATCH // 6, axis=2)
        grain = self.rng.normal(0, 0.08, (n, PATCH, PATCH, 3)).astype(np.float32)
        self.images = (np.clip(smooth + grain, 0, 1) * 255).astype(np.uint8)

    def augment(self, image):
        top, left = self.rng.integers(0, PATCH - CROP + 1, 2)
        view = image[top:top + CROP, left:left + CROP].astype(np.float32) / np.float32(255)
        if self.rng.random() < 0.5:
            view = view[:, ::-1]
        gain = np.float32(self.rng.uniform(0.7, 1.3))
        shift = self.rng.uniform(-0.1, 0.1, 3).astype(np.float32)
        view = np.clip(view * gain + shift, 0, 1)
        if self.rng.random() < 0.2:
            view = np.broadcast_to(view.mean(axis=2, keepdims=True), view.shape)
        return (view.transpose(2, 0, 1) - MEAN) / STD

    def pair_batch(self, size):
        rows = self.rng.integers(0, len(self.images), size)
        first = [self.augment(self.images[r]) for r in rows]
        second = [self.augment(self.images[r]) for r in rows]
        return torch.tensor(first + second)


class Encoder(nn.Module):
    def __init__(self, width=24, out=64):
        super().__init__()
        layers = []
        channels = 3
        for i, c in enumerate([width, 2 * width, 4 * width]):
            layers += [nn.Conv2d(channels, c, 3, stride=2, padding=1, bias=False),
                       nn.BatchNorm2d(c), nn.ReLU(inplace=True)]
            if i > 0:
                layers += [nn.Conv2d(c, c, 3, padding=1, bias=False),
                           nn.BatchNorm2d(c), nn.ReLU(inplace=True)]
            channels = c
        self.trunk = nn.Sequential(*layers)
        self.project = nn.Sequential(nn.Linear(channels, channels), nn.ReLU(),
                                     nn.Linear(channels, out))

    def forward(self, x):
        h = self.trunk(x).mean(dim=(2, 3))
        return F.normalize(self.project(h), dim=1)


def nt_xent(z, temperature=0.2):
    n = z.shape[0] // 2
    logits = z @ z.t() / temperature
    logits.fill_diagonal_(-1e9)
    target = torch.cat([torch.arange(n, 2 * n), torch.arange(n)])
    return F.cross_entropy(logits, target)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60)
    args = parser.parse_args()

    torch.manual_seed(0)
    data = Patches(2000, seed=0)
    model = Encoder()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-4)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=1000)

    times = []
    for step in range(args.steps):
        t0 = time.perf_counter()
        x = data.pair_batch(BATCH)
        loss = nt_xent(model(x))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        times.append((time.perf_counter() - t0) * 1000)
        if (step + 1) % 20 == 0:
            print(f"step {step + 1} loss {loss.item():.6f}", file=sys.stderr)

    timed = times[5:] or times
    print(json.dumps({"ms": statistics.median(timed), "steps": args.steps}))


if __name__ == "__main__":
    main()
