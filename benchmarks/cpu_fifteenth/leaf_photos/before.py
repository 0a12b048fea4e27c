"""Train a small residual network on photographs of leaves (synthetic stand-in)."""
import argparse
import os
import random
import tempfile

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from PIL import Image
from torch.utils.data import DataLoader, Dataset

MEAN = np.array([0.485, 0.456, 0.406], dtype=np.float32)
STD = np.array([0.229, 0.224, 0.225], dtype=np.float32)
CLASSES = 6


def write_photos(root, count, size, seed):
    """One bitmap per leaf; the class decides colour and vein frequency."""
    rng = np.random.default_rng(seed)
    yy, xx = np.mgrid[0:size, 0:size].astype(np.float32) / size
    samples = []
    for i in range(count):
        label = int(rng.integers(CLASSES))
        angle = rng.uniform(0, np.pi)
        veins = np.sin((4 + 5 * label) * (xx * np.cos(angle) + yy * np.sin(angle)) * 2 * np.pi)
        img = np.stack([60 + 20 * label + 30 * veins, 140 + 40 * veins, 50 + 20 * yy], axis=-1)
        img = np.clip(img, 0, 255).astype(np.uint8)
        path = os.path.join(root, f"leaf_{i:04d}.bmp")
        Image.fromarray(img).save(path)
        samples.append((path, label))
    return samples


class Compose:
    def __init__(self, transforms):
        self.transforms = transforms

    def __call__(self, img):
        for t in self.transforms:
            img = t(img)
        return img


class ToArray:
    def __call__(self, img):
        return np.asarray(img, dtype=np.float32) / 255.0


class ColorJitter:
    """Random brightness and contrast."""

    def __init__(self, amount):
        self.amount = amount
        self.rng = random.Random(1)

    def __call__(self, img):
        gain = 1.0 + self.rng.uniform(-self.amount, self.amount)
        shift = self.rng.uniform(-self.amount, self.amount) * 0.5
        return np.clip(img * gain + shift, 0.0, 1.0)


class Normalize:
    def __call__(self, img):
        return (img - MEAN) / STD


class RandomCrop:
    def __init__(self, size):
        self.size = size
        self.rng = random.Random(2)

    def __call__(self, img):
        h, w = img.shape[:2]
        top = self.rng.randint(0, h - self.size)
        left = self.rng.randint(0, w - self.size)
        return img[top:top + self.size, left:left + self.size]


class ToTensor:
    def __call__(self, img):
        return torch.from_numpy(np.ascontiguousarray(img.transpose(2, 0, 1)))


class LeafDataset(Dataset):
    def __init__(self, samples, transform):
        self.samples = samples
        self.transform = transform

    def __len__(self):
        return len(self.samples)

    def __getitem__(self, index):
        path, label = self.samples[index]
        with Image.open(path) as img:
            img = img.convert("RGB")
        return self.transform(img), label


class Block(nn.Module):
    def __init__(self, cin, cout, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(cin, cout, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(cout)
        self.conv2 = nn.Conv2d(cout, cout, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(cout)
        self.skip = nn.Conv2d(cin, cout, 1, stride, bias=False)

    def forward(self, x):
        h = F.relu(self.bn1(self.conv1(x)))
        return F.relu(self.bn2(self.conv2(h)) + self.skip(x))


class LeafNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 16, 3, 2, 1)
        self.blocks = nn.Sequential(Block(16, 32, 1), Block(32, 48, 2), Block(48, 64, 2))
        self.fc = nn.Linear(64, CLASSES)

    def forward(self, x):
        x = self.blocks(F.relu(self.stem(x)))
        return self.fc(x.mean(dim=(2, 3)))


def endless(loader):
    while True:
        yield from loader


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60)
    args = parser.parse_args()
    torch.manual_seed(0)

    with tempfile.TemporaryDirectory() as root:
        samples = write_photos(root, count=128, size=320, seed=0)
        transform = Compose([
            ToArray(),
            ColorJitter(0.2),
            Normalize(),
            RandomCrop(64),
            ToTensor(),
        ])
        loader = DataLoader(LeafDataset(samples, transform), batch_size=16, shuffle=True, drop_last=True)
        model = LeafNet()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9, weight_decay=1e-4)

        model.train()
        batches = endless(loader)
        total = 0.0
        for step in range(args.steps):
            images, labels = next(batches)
            loss = F.cross_entropy(model(images), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item()
    print(f"mean training loss {total / args.steps:.4f}")


if __name__ == "__main__":
    main()
