"""Train a small residual CNN to recognise leaf diseases from field photographs.

The photographs come as JPEG files in class folders (the layout of ImageFolder);
when no folder is given, a synthetic set is rendered into a temporary directory.
"""
import argparse
import math
import os
import random
import tempfile
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from PIL import Image, ImageEnhance, ImageFilter
from torch.utils.data import DataLoader, Dataset

CLASSES = ["healthy", "rust", "mildew", "scab", "blight", "mosaic"]
MEAN = np.array([0.46, 0.52, 0.38], dtype=np.float32)
STD = np.array([0.21, 0.20, 0.22], dtype=np.float32)


def render_photos(root, per_class, size, seed=0):
    """Smooth green-brown backgrounds with spots whose look depends on the class."""
    rng = np.random.default_rng(seed)
    w, h = size
    for label, name in enumerate(CLASSES):
        os.makedirs(os.path.join(root, name), exist_ok=True)
        for i in range(per_class):
            base = rng.integers(40, 200, size=(9, 12, 3), dtype=np.uint8)
            base[..., 1] = np.clip(base[..., 1].astype(int) + 40, 0, 255)
            img = Image.fromarray(base).resize((w, h), Image.BICUBIC)
            spots = (rng.random((h // 8, w // 8)) < 0.01 * label).astype(np.uint8) * 255
            mask = Image.fromarray(spots).resize((w, h), Image.BILINEAR)
            colour = [int(c) for c in rng.integers(0, 255, 3)]
            img.paste(Image.new("RGB", (w, h), tuple(colour)), mask=mask)
            img.save(os.path.join(root, name, f"img_{i:04d}.jpg"), quality=90)


class Compose:
    def __init__(self, transforms):
        self.transforms = transforms

    def __call__(self, img):
        for t in self.transforms:
            img = t(img)
        return img


class RandomResizedCrop:
    def __init__(self, size, scale=(0.15, 0.6), ratio=(3 / 4, 4 / 3)):
        self.size, self.scale, self.ratio = size, scale, ratio

    def __call__(self, img):
        w, h = img.size
        area = w * h
        for _ in range(10):
            target = area * random.uniform(*self.scale)
            aspect = math.exp(random.uniform(math.log(self.ratio[0]), math.log(self.ratio[1])))
            cw, ch = int(round(math.sqrt(target * aspect))), int(round(math.sqrt(target / aspect)))
            if cw <= w and ch <= h:
                x, y = random.randint(0, w - cw), random.randint(0, h - ch)
                return img.resize((self.size, self.size), Image.BILINEAR, box=(x, y, x + cw, y + ch))
        return img.resize((self.size, self.size), Image.BILINEAR)


class RandomFlip:
    def __call__(self, img):
        return img.transpose(Image.FLIP_LEFT_RIGHT) if random.random() < 0.5 else img


class ColorJitter:
    def __init__(self, brightness, contrast, saturation):
        self.ops = [(ImageEnhance.Brightness, brightness), (ImageEnhance.Contrast, contrast),
                    (ImageEnhance.Color, saturation)]

    def __call__(self, img):
        ops = list(self.ops)
        random.shuffle(ops)
        for enhancer, amount in ops:
            img = enhancer(img).enhance(random.uniform(1 - amount, 1 + amount))
        return img


class RandomBlur:
    def __init__(self, p, radius=(0.3, 1.5)):
        self.p, self.radius = p, radius

    def __call__(self, img):
        if random.random() < self.p:
            img = img.filter(ImageFilter.GaussianBlur(random.uniform(*self.radius)))
        return img


class ToTensor:
    def __call__(self, img):
        arr = (np.asarray(img, dtype=np.float32) / 255.0 - MEAN) / STD
        return torch.from_numpy(arr.transpose(2, 0, 1).copy())


def build_transforms(size, train):
    if not train:
        return Compose([lambda im: im.resize((size, size), Image.BILINEAR), ToTensor()])
    return Compose([
        RandomResizedCrop(size),
        RandomFlip(),
        ColorJitter(0.4, 0.4, 0.3),
        RandomBlur(p=0.5),
        ToTensor(),
    ])


class PhotoFolder(Dataset):
    def __init__(self, root, transform, split, holdout=0.12):
        self.transform = transform
        self.samples = []
        for label, name in enumerate(CLASSES):
            files = sorted(os.listdir(os.path.join(root, name)))
            cut = int(len(files) * (1 - holdout))
            chosen = files[:cut] if split == "train" else files[cut:]
            self.samples += [(os.path.join(root, name, f), label) for f in chosen]

    def __len__(self):
        return len(self.samples)

    def __getitem__(self, idx):
        path, label = self.samples[idx]
        with Image.open(path) as im:
            img = im.convert("RGB")
        return self.transform(img), label


class Block(nn.Module):
    def __init__(self, cin, cout, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(cin, cout, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(cout)
        self.conv2 = nn.Conv2d(cout, cout, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(cout)
        self.down = None
        if stride != 1 or cin != cout:
            self.down = nn.Sequential(nn.Conv2d(cin, cout, 1, stride, bias=False), nn.BatchNorm2d(cout))

    def forward(self, x):
        skip = x if self.down is None else self.down(x)
        x = F.relu(self.bn1(self.conv1(x)), inplace=True)
        return F.relu(self.bn2(self.conv2(x)) + skip, inplace=True)


class LeafNet(nn.Module):
    def __init__(self, num_classes, width=24):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, width, 5, 4, 2, bias=False), nn.BatchNorm2d(width), nn.ReLU(True))
        self.stages = nn.Sequential(Block(width, width, 1), Block(width, 2 * width, 2), Block(2 * width, 4 * width, 2))
        self.head = nn.Linear(4 * width, num_classes)

    def forward(self, x):
        return self.head(self.stages(self.stem(x)).mean((2, 3)))


@torch.no_grad()
def validate(model, loader):
    model.eval()
    hits = total = 0
    for images, labels in loader:
        hits += (model(images).argmax(1) == labels).sum().item()
        total += labels.numel()
    model.train()
    return hits / max(total, 1)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--data", default=None)
    ap.add_argument("--epochs", type=int, default=4)
    ap.add_argument("--batch-size", type=int, default=20)
    ap.add_argument("--size", type=int, default=144)
    ap.add_argument("--workers", type=int, default=2)
    ap.add_argument("--lr", type=float, default=0.05)
    args = ap.parse_args()
    random.seed(0)
    torch.manual_seed(0)

    tmp = None
    if args.data is None:
        tmp = tempfile.TemporaryDirectory()
        args.data = tmp.name
        render_photos(args.data, per_class=30, size=(800, 600))

    train_set = PhotoFolder(args.data, build_transforms(args.size, True), "train")
    val_set = PhotoFolder(args.data, build_transforms(args.size, False), "val")
    loader = DataLoader(train_set, args.batch_size, shuffle=True, num_workers=args.workers,
                        persistent_workers=args.workers > 0, drop_last=True)
    val_loader = DataLoader(val_set, args.batch_size)

    model = LeafNet(len(CLASSES))
    opt = torch.optim.SGD(model.parameters(), lr=args.lr, momentum=0.9, weight_decay=1e-4, nesterov=True)
    total = args.epochs * len(loader)
    sched = torch.optim.lr_scheduler.OneCycleLR(opt, max_lr=args.lr, total_steps=total)

    seen, start = 0, time.time()
    for epoch in range(args.epochs):
        running = 0.0
        for images, labels in loader:
            loss = F.cross_entropy(model(images), labels, label_smoothing=0.05)
            opt.zero_grad(set_to_none=True)
            loss.backward()
            opt.step()
            sched.step()
            running += loss.item()
            seen += labels.numel()
        speed = seen / (time.time() - start)
        print(f"epoch {epoch + 1}/{args.epochs} loss {running / len(loader):.4f} {speed:.1f} img/s", flush=True)
    print(f"val acc {validate(model, val_loader):.3f}")
    if tmp is not None:
        tmp.cleanup()


if __name__ == "__main__":
    main()
