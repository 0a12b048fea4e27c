"""Fine-grained photo classification: augmented crops of larger photos, small residual CNN."""
import argparse
import json
import statistics
import sys
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from PIL import Image, ImageDraw

HEIGHT, WIDTH, CROP = 384, 512, 96
CLASSES = 6
BATCH = 16


class ToFloat:
    def __call__(self, image):
        return image.astype(np.float32) / 255.0


class GammaJitter:
    """Random exposure: x ** g, with g log-uniform around one."""

    def __init__(self, strength, seed):
        self.strength = strength
        self.rng = np.random.default_rng(seed)

    def __call__(self, image):
        gamma = float(np.exp(self.rng.uniform(-self.strength, self.strength)))
        return np.power(image, np.float32(gamma))


class WhiteBalance:
    def __init__(self, strength, seed):
        self.strength = strength
        self.rng = np.random.default_rng(seed)

    def __call__(self, image):
        gain = self.rng.uniform(1 - self.strength, 1 + self.strength, 3).astype(np.float32)
        return np.clip(image * gain, 0.0, 1.0)


class RandomCrop:
    def __init__(self, size, seed):
        self.size = size
        self.rng = np.random.default_rng(seed)

    def __call__(self, image):
        top = self.rng.integers(0, image.shape[0] - self.size + 1)
        left = self.rng.integers(0, image.shape[1] - self.size + 1)
        return image[top:top + self.size, left:left + self.size]


class RandomFlip:
    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)

    def __call__(self, image):
        return image[:, ::-1] if self.rng.random() < 0.5 else image


class Normalize:
    def __call__(self, image):
        return (image - np.float32(0.45)) / np.float32(0.25)


class Compose:
    def __init__(self, *transforms):
        self.transforms = transforms

    def __call__(self, image):
        for transform in self.transforms:
            image = transform(image)
        return image


def make_photos(n, seed):
    rng = np.random.default_rng(seed)
    photos, labels = [], []
    for _ in range(n):
        label = int(rng.integers(0, CLASSES))
        canvas = Image.new("RGB", (WIDTH, HEIGHT), tuple(int(v) for v in rng.integers(60, 200, 3)))
        draw = ImageDraw.Draw(canvas)
        for _ in range(90):
            x, y, r = rng.integers(0, WIDTH), rng.integers(0, HEIGHT), rng.integers(5, 14)
            colour = tuple(int(v) for v in rng.integers(0, 255, 3))
            draw.regular_polygon((int(x), int(y), int(r)), label + 3, fill=colour)
        photos.append(np.asarray(canvas).copy())
        labels.append(label)
    return photos, np.array(labels)


class Block(nn.Module):
    def __init__(self, cin, cout, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(cin, cout, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(cout)
        self.conv2 = nn.Conv2d(cout, cout, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(cout)
        self.short = nn.Conv2d(cin, cout, 1, stride, bias=False)

    def forward(self, x):
        y = F.relu(self.bn1(self.conv1(x)))
        return F.relu(self.bn2(self.conv2(y)) + self.short(x))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=160)
    args = parser.parse_args()

    torch.manual_seed(0)
    photos, labels = make_photos(96, seed=0)
    augment = Compose(
        ToFloat(),
        GammaJitter(0.4, seed=1),
        WhiteBalance(0.15, seed=2),
        RandomCrop(CROP, seed=3),
        RandomFlip(seed=4),
        Normalize(),
    )
    model = nn.Sequential(
        nn.Conv2d(3, 16, 5, 2, 2), nn.ReLU(),
        Block(16, 32, 2), Block(32, 64, 2), Block(64, 96, 2),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(96, CLASSES),
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.03, momentum=0.9, weight_decay=1e-4)
    rng = np.random.default_rng(5)

    times = []
    for step in range(args.steps):
        t0 = time.perf_counter()
        rows = rng.integers(0, len(photos), BATCH)
        batch = np.stack([augment(photos[r]) for r in rows])
        x = torch.from_numpy(batch).permute(0, 3, 1, 2).contiguous()
        y = torch.from_numpy(labels[rows])
        loss = F.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        times.append((time.perf_counter() - t0) * 1000)
        if (step + 1) % 20 == 0:
            print(f"step {step + 1} loss {loss.item():.5f}", file=sys.stderr)

    timed = times[5:] or times
    print(json.dumps({"ms": statistics.median(timed), "steps": args.steps}))


if __name__ == "__main__":
    main()
