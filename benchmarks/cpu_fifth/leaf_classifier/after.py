"""Train a small residual network to tell leaf species apart from JPEG photographs."""
import argparse
import io
import random
import statistics
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from PIL import Image, ImageDraw, ImageEnhance
from torch.utils.data import DataLoader, Dataset

NUM_CLASSES = 6
MEAN = torch.tensor([0.55, 0.58, 0.45]).view(3, 1, 1)
STD = torch.tensor([0.22, 0.20, 0.24]).view(3, 1, 1)


def draw_leaf(species, rng, size=448):
    """A synthetic photograph of a leaf, returned as JPEG bytes."""
    noise = rng.normal(170, 18, (size // 8, size // 8, 3)).clip(0, 255).astype(np.uint8)
    img = Image.fromarray(noise).resize((size, size), Image.BILINEAR)
    draw = ImageDraw.Draw(img)
    lobes = species + 3
    phase = rng.uniform(0, 2 * np.pi)
    theta = np.linspace(0, 2 * np.pi, 90)
    radius = size * (0.28 + 0.10 * np.cos(lobes * theta + phase))
    cx, cy = size / 2 + rng.normal(0, size / 24, 2)
    points = [(cx + r * np.cos(t), cy + r * np.sin(t)) for r, t in zip(radius, theta)]
    green = int(rng.uniform(110, 170))
    draw.polygon(points, fill=(int(rng.uniform(30, 80)), green, 40))
    for i in range(lobes):
        a = 2 * np.pi * i / lobes - phase / lobes
        draw.line([(cx, cy), (cx + size * 0.33 * np.cos(a), cy + size * 0.33 * np.sin(a))],
                  fill=(90, min(255, green + 60), 70), width=6)
    buf = io.BytesIO()
    img.save(buf, "JPEG", quality=90)
    return buf.getvalue()


class LeafDataset(Dataset):
    def __init__(self, n, seed=0, base_size=80, out_size=64):
        rng = np.random.default_rng(seed)
        self.labels = rng.integers(0, NUM_CLASSES, n).tolist()
        self.out_size = out_size
        self.images = [Image.open(io.BytesIO(draw_leaf(y, rng))).convert("RGB")
                       .resize((base_size, base_size), Image.BICUBIC) for y in self.labels]
        self.seed = seed

    def __len__(self):
        return len(self.images)

    def augment(self, img, rng):
        w, h = img.size
        scale = rng.uniform(0.6, 1.0)
        ratio = rng.uniform(0.8, 1.25)
        cw, ch = min(w, int(w * scale * ratio ** 0.5)), min(h, int(h * scale / ratio ** 0.5))
        x, y = rng.randint(0, w - cw), rng.randint(0, h - ch)
        img = img.rotate(rng.uniform(-20, 20), Image.BILINEAR)
        img = img.resize((self.out_size, self.out_size), Image.BICUBIC, box=(x, y, x + cw, y + ch))
        if rng.random() < 0.5:
            img = img.transpose(Image.FLIP_LEFT_RIGHT)
        img = ImageEnhance.Brightness(img).enhance(rng.uniform(0.7, 1.3))
        img = ImageEnhance.Contrast(img).enhance(rng.uniform(0.7, 1.3))
        img = ImageEnhance.Color(img).enhance(rng.uniform(0.7, 1.3))
        return img

    def __getitem__(self, index):
        index, epoch = index
        rng = random.Random(self.seed + 1_000_003 * epoch + index)  # reproducible augmentation
        img = self.augment(self.images[index], rng)
        x = torch.from_numpy(np.asarray(img, dtype=np.float32) / 255.0).permute(2, 0, 1)
        return (x - MEAN) / STD, self.labels[index]


class EpochSampler(torch.utils.data.Sampler):
    """Shuffled indices, paired with the epoch so that augmentation differs every time."""

    def __init__(self, n, seed=0):
        self.n, self.seed, self.epoch = n, seed, 0

    def __len__(self):
        return self.n

    def __iter__(self):
        g = torch.Generator().manual_seed(self.seed + self.epoch)
        order = torch.randperm(self.n, generator=g).tolist()
        epoch, self.epoch = self.epoch, self.epoch + 1
        return iter([(i, epoch) for i in order])


class Block(nn.Module):
    def __init__(self, cin, cout, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(cin, cout, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(cout)
        self.conv2 = nn.Conv2d(cout, cout, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(cout)
        self.short = nn.Identity()
        if stride != 1 or cin != cout:
            self.short = nn.Sequential(nn.Conv2d(cin, cout, 1, stride, bias=False), nn.BatchNorm2d(cout))

    def forward(self, x):
        y = F.relu(self.bn1(self.conv1(x)), inplace=True)
        return F.relu(self.bn2(self.conv2(y)) + self.short(x), inplace=True)


class LeafNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 24, 5, 2, 2, bias=False), nn.BatchNorm2d(24), nn.ReLU(inplace=True))
        self.body = nn.Sequential(Block(24, 32, 2), Block(32, 64, 2), Block(64, 96, 2))
        self.head = nn.Linear(96, NUM_CLASSES)

    def forward(self, x):
        return self.head(self.body(self.stem(x)).mean((2, 3)))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--lr", type=float, default=0.05)
    args = parser.parse_args()

    torch.manual_seed(0)
    torch.set_num_threads(1)

    train_set = LeafDataset(512)
    loader = DataLoader(train_set, batch_size=args.batch_size, sampler=EpochSampler(len(train_set)),
                        drop_last=True, num_workers=2, persistent_workers=True)
    model = LeafNet().to(memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr, momentum=0.9, weight_decay=5e-4, nesterov=True)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=max(args.steps, 1))

    step, times, losses = 0, [], []
    while step < args.steps:
        model.train()
        tick = time.perf_counter()
        for images, labels in loader:
            images = images.to(memory_format=torch.channels_last)
            optimizer.zero_grad(set_to_none=True)
            loss = F.cross_entropy(model(images), labels, label_smoothing=0.05)
            loss.backward()
            optimizer.step()
            scheduler.step()
            losses.append(loss.detach())
            now = time.perf_counter()
            times.append(now - tick)
            tick = now
            step += 1
            if step >= args.steps:
                break

    print(f"loss {torch.stack(losses[-10:]).mean().item():.4f}")
    print(f"step {1000 * statistics.median(times[5:]):.2f} ms")


if __name__ == "__main__":
    main()
