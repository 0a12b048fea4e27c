"""Leaf species classifier: photos on disk, random crops, a small residual network."""
import argparse
import math
import os
import random
import tempfile

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from PIL import Image
from torch.utils.data import DataLoader, Dataset

NUM_CLASSES = 8
PHOTO_SIZE = 288
CROP = 64
MEAN = np.array([0.485, 0.456, 0.406], dtype=np.float32)
STD = np.array([0.229, 0.224, 0.225], dtype=np.float32)


def make_photos(root, count=128, seed=7):
    """Draw leaves (rosette curves with noise) and store them as JPEG photos."""
    rng = np.random.default_rng(seed)
    yy, xx = np.mgrid[-1:1:PHOTO_SIZE * 1j, -1:1:PHOTO_SIZE * 1j].astype(np.float32)
    radius, angle = np.sqrt(xx ** 2 + yy ** 2), np.arctan2(yy, xx)
    rows = []
    for i in range(count):
        label = int(rng.integers(NUM_CLASSES))
        phase = rng.uniform(0, 2 * math.pi)
        leaf = radius < 0.6 + 0.25 * np.cos((label + 2) * angle + phase)
        green = np.where(leaf, 150 + 10 * label, 60)
        img = np.stack([np.where(leaf, 50, 110), green, np.full_like(green, 70)], axis=-1)
        img = img + rng.integers(-20, 20, size=(PHOTO_SIZE, PHOTO_SIZE, 1))
        path = os.path.join(root, f"leaf_{i:04d}.jpg")
        Image.fromarray(img.clip(0, 255).astype(np.uint8)).save(path, quality=90)
        rows.append((path, label))
    return rows


class LeafPhotos(Dataset):
    def __init__(self, rows):
        self.rows = rows

    def __len__(self):
        return len(self.rows)

    def sample_params(self, index):
        # Augmentation is tied to the photo so that runs can be compared.
        rng = random.Random(index * 9973 + 11)
        return dict(
            gamma=rng.uniform(0.8, 1.25),
            gain=rng.uniform(0.8, 1.2),
            top=rng.randint(0, PHOTO_SIZE - CROP),
            left=rng.randint(0, PHOTO_SIZE - CROP),
            flip=rng.random() < 0.5,
        )

    def __getitem__(self, index):
        path, label = self.rows[index]
        params = self.sample_params(index)
        with Image.open(path) as img:
            pixels = np.asarray(img.convert("RGB"))

        # photometric part
        x = pixels.astype(np.float32) / 255.0
        x = x ** params["gamma"]
        x = np.clip(x * params["gain"], 0.0, 1.0)
        x = (x - MEAN) / STD

        # geometric part
        top, left = params["top"], params["left"]
        x = x[top:top + CROP, left:left + CROP]
        if params["flip"]:
            x = x[:, ::-1]

        x = torch.from_numpy(np.ascontiguousarray(x.transpose(2, 0, 1)))
        return x, label


class Residual(nn.Module):
    def __init__(self, cin, cout, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(cin, cout, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(cout)
        self.conv2 = nn.Conv2d(cout, cout, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(cout)
        self.skip = nn.Conv2d(cin, cout, 1, stride, bias=False)

    def forward(self, x):
        out = F.relu(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out))
        return F.relu(out + self.skip(x))


class LeafNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(3, 16, 5, 4, 2, bias=False), nn.BatchNorm2d(16), nn.ReLU()
        )
        self.body = nn.Sequential(Residual(16, 32, 2), Residual(32, 64, 2))
        self.head = nn.Linear(64, NUM_CLASSES)

    def forward(self, x):
        x = self.body(self.stem(x))
        return self.head(x.mean(dim=(2, 3)))


def train(rows, steps):
    loader = DataLoader(
        LeafPhotos(rows),
        batch_size=16,
        shuffle=True,
        drop_last=True,
        num_workers=2,
        persistent_workers=True,
        generator=torch.Generator().manual_seed(3),
    )
    model = LeafNet()
    opt = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-4)

    done, running = 0, 0.0
    while done < steps:
        for images, labels in loader:
            loss = F.cross_entropy(model(images), labels)
            opt.zero_grad()
            loss.backward()
            opt.step()
            running = 0.9 * running + 0.1 * loss.item() if done else loss.item()
            done += 1
            if done == steps:
                break
    return running


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60)
    args = parser.parse_args()
    torch.manual_seed(0)
    with tempfile.TemporaryDirectory() as root:
        rows = make_photos(root)
        loss = train(rows, args.steps)
    print(f"steps {args.steps} smoothed loss {loss:.5f}")


if __name__ == "__main__":
    main()
