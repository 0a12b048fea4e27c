"""Train a small CNN on crops of microscope tiles (plankton classes)."""
import argparse
import os
import tempfile

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset, RandomSampler

CLASSES = 6
TILE = 448
CROP = 96
MEAN = np.array([0.52, 0.48, 0.44], dtype=np.float32)
STD = np.array([0.21, 0.20, 0.23], dtype=np.float32)


def write_tiles(root, n=48, seed=3):
    """One uint8 HWC array per tile; the texture's period tells the class."""
    rng = np.random.default_rng(seed)
    yy, xx = np.mgrid[0:TILE, 0:TILE].astype(np.float32)
    labels = rng.integers(0, CLASSES, n)
    for i, label in enumerate(labels):
        phase = rng.uniform(0, 6.28, 3)
        base = np.sin(xx / (3 + 2 * label) + phase[0]) * np.cos(yy / (4 + label) + phase[1])
        tile = np.empty((TILE, TILE, 3), dtype=np.uint8)
        for c in range(3):
            noise = rng.integers(0, 40, (TILE, TILE))
            tile[..., c] = np.clip(110 + 60 * base + noise + 6 * c, 0, 255)
        np.save(os.path.join(root, f"tile_{i:03d}.npy"), tile)
    np.save(os.path.join(root, "labels.npy"), labels)


class TileDataset(Dataset):
    def __init__(self, root, seed=0):
        self.labels = np.load(os.path.join(root, "labels.npy"))
        self.files = [os.path.join(root, f"tile_{i:03d}.npy") for i in range(len(self.labels))]
        self.rng = np.random.default_rng(seed)

    def __len__(self):
        return len(self.files)

    def __getitem__(self, i):
        image = np.load(self.files[i])

        exposure = self.rng.uniform(0.8, 1.2)
        flip = self.rng.random() < 0.5
        top, left = self.rng.integers(0, TILE - CROP, 2)
        if flip:
            image = image[:, ::-1]
        image = image[top:top + CROP, left:left + CROP]

        # to [0, 1], random exposure, standardise
        image = image.astype(np.float32) / 255.0
        image = np.clip(image * exposure, 0.0, 1.0)
        image = (image - MEAN) / STD

        image = np.ascontiguousarray(image.transpose(2, 0, 1), dtype=np.float32)
        return torch.from_numpy(image), int(self.labels[i])


class Block(nn.Module):
    def __init__(self, cin, cout, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(cin, cout, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(cout)
        self.conv2 = nn.Conv2d(cout, cout, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(cout)
        self.skip = nn.Conv2d(cin, cout, 1, stride, bias=False)

    def forward(self, x):
        y = F.relu(self.bn1(self.conv1(x)))
        y = self.bn2(self.conv2(y))
        return F.relu(y + self.skip(x))


class PlanktonNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 24, 5, 2, 2)
        self.blocks = nn.Sequential(Block(24, 32, 2), Block(32, 64, 2), Block(64, 96, 2))
        self.head = nn.Linear(96, CLASSES)

    def forward(self, x):
        x = self.blocks(F.relu(self.stem(x)))
        return self.head(x.mean(dim=(2, 3)))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60)
    args = parser.parse_args()
    torch.manual_seed(0)

    with tempfile.TemporaryDirectory() as root:
        write_tiles(root)
        data = TileDataset(root)
        sampler = RandomSampler(data, replacement=True, num_samples=args.steps * 12)
        loader = DataLoader(data, batch_size=12, sampler=sampler)

        model = PlanktonNet()
        optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=1e-2)
        losses = []
        model.train()
        for images, labels in loader:
            loss = F.cross_entropy(model(images), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.detach())

    print(f"loss of the last 10 steps: {torch.stack(losses[-10:]).mean().item():.4f}")


if __name__ == "__main__":
    main()
