"""Classify plankton-like microscope images kept as PNG files in class folders."""
import argparse
import pathlib
import tempfile
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from PIL import Image, ImageDraw
from torch.utils.data import DataLoader, Dataset

CLASSES = ["copepod", "diatom", "krill", "larva"]
MEAN, STD = 0.55, 0.2


def write_images(root, per_class=30, size=448, seed=0):
    """Stand-in for the survey's picture archive."""
    rng = np.random.default_rng(seed)
    for label, name in enumerate(CLASSES):
        folder = root / name
        folder.mkdir(parents=True)
        for i in range(per_class):
            noise = rng.normal(150, 12, (size, size, 3)).clip(0, 255).astype(np.uint8)
            image = Image.fromarray(noise)
            draw = ImageDraw.Draw(image)
            for _ in range(4):
                x, y = rng.integers(40, size - 160, 2).tolist()
                w, h = 40 + 25 * label, 130 - 25 * label
                draw.ellipse([x, y, x + w, y + h], fill=(60, 70 + 20 * label, 90))
            image.save(folder / f"{i:03d}.png", compress_level=1)


class PlanktonDataset(Dataset):
    def __init__(self, root, image_size=64, train=True):
        self.image_size = image_size
        self.train = train
        self.samples = [
            (path, CLASSES.index(path.parent.name)) for path in sorted(root.glob("*/*.png"))
        ]

    def __len__(self):
        return len(self.samples)

    def load(self, path):
        image = Image.open(path).convert("RGB")
        image = image.resize((self.image_size, self.image_size), Image.BILINEAR)
        array = np.asarray(image, dtype=np.float32) / 255.0
        return torch.from_numpy((array - MEAN) / STD).permute(2, 0, 1)

    def __getitem__(self, index):
        path, label = self.samples[index]
        image = self.load(path)
        if self.train and torch.rand(()) < 0.5:
            image = image.flip(-1)
        return image, label


class Net(nn.Module):
    def __init__(self, classes):
        super().__init__()
        widths = [3, 32, 64, 96]
        self.convs = nn.ModuleList(
            nn.Conv2d(a, b, 3, padding=1) for a, b in zip(widths, widths[1:]))
        self.norms = nn.ModuleList(nn.BatchNorm2d(b) for b in widths[1:])
        self.fc = nn.Linear(widths[-1], classes)

    def forward(self, x):
        for conv, norm in zip(self.convs, self.norms):
            x = F.max_pool2d(F.relu(norm(conv(x))), 2)
        return self.fc(x.mean(dim=(2, 3)))


def train(model, loader, steps, lr):
    optimizer = torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9)
    step, start, correct, seen = 0, time.perf_counter(), 0, 0
    while step < steps:
        for images, labels in loader:
            logits = model(images)
            loss = F.cross_entropy(logits, labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            correct += (logits.argmax(1) == labels).sum().item()
            seen += len(labels)
            step += 1
            if step == 5:
                start = time.perf_counter()
            if step >= steps:
                break
    elapsed = time.perf_counter() - start
    print(f"final loss {loss.item():.5f}, train accuracy {correct / seen:.3f}")
    print(f"mean step {1000 * elapsed / max(1, steps - 5):.2f} ms")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--lr", type=float, default=0.01)
    args = parser.parse_args()
    torch.manual_seed(0)
    with tempfile.TemporaryDirectory() as tmp:
        root = pathlib.Path(tmp) / "plankton"
        write_images(root)
        dataset = PlanktonDataset(root)
        loader = DataLoader(dataset, batch_size=args.batch_size, shuffle=True, drop_last=True)
        train(Net(len(CLASSES)), loader, args.steps, args.lr)


if __name__ == "__main__":
    main()
