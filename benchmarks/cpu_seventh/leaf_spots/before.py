"""Leaf disease classifier for the greenhouse project: phone photos -> 5 classes."""
import argparse
import statistics
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from PIL import Image, ImageDraw
from torch.utils.data import DataLoader, Dataset

CLASSES = ["healthy", "rust", "blight", "mildew", "scorch"]
SPOT_COLOURS = [None, (168, 84, 30), (70, 50, 30), (225, 225, 215), (205, 170, 60)]
MEAN = torch.tensor([0.485, 0.456, 0.406]).view(3, 1, 1)
STD = torch.tensor([0.229, 0.224, 0.225]).view(3, 1, 1)


def write_photos(root: Path, count: int, seed: int = 3):
    """Stand-in for the photo folder: root/<class>/<n>.jpg, 1024x768 like the phones write."""
    rng = np.random.default_rng(seed)
    for n in range(count):
        label = n % len(CLASSES)
        base = rng.integers(0, 60, (24, 32, 3)) + np.array([40, 110, 40])
        img = Image.fromarray(base.astype(np.uint8)).resize((1024, 768), Image.BICUBIC)
        draw = ImageDraw.Draw(img)
        if SPOT_COLOURS[label]:
            for _ in range(int(rng.integers(25, 60))):
                x, y, r = rng.integers(0, 1024), rng.integers(0, 768), rng.integers(12, 50)
                draw.ellipse((x - r, y - r, x + r, y + r), fill=SPOT_COLOURS[label])
        folder = root / CLASSES[label]
        folder.mkdir(exist_ok=True)
        img.save(folder / f"{n:04d}.jpg", quality=92)


class LeafPhotos(Dataset):
    def __init__(self, root: Path, size: int = 144, train: bool = True):
        self.files = sorted(root.glob("*/*.jpg"))
        self.labels = [CLASSES.index(f.parent.name) for f in self.files]
        self.size = size
        self.train = train

    def __len__(self):
        return len(self.files)

    def _load(self, i):
        with Image.open(self.files[i]) as img:
            img = img.convert("RGB").resize((self.size + 16, self.size + 16), Image.BILINEAR)
        return torch.from_numpy(np.asarray(img).copy())

    def __getitem__(self, i):
        x = self._load(i).permute(2, 0, 1).float().div_(255)
        if self.train:
            top, left = torch.randint(0, 17, (2,)).tolist()
            if torch.rand(()) < 0.5:
                x = x.flip(-1)
            gain = 0.8 + 0.4 * torch.rand(())
            x = (x * gain).clamp_(0, 1)
        else:
            top = left = 8
        x = x[:, top:top + self.size, left:left + self.size]
        return (x - MEAN) / STD, self.labels[i]


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
        return F.relu(self.bn2(self.conv2(y)) + self.skip(x))


class LeafNet(nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 16, 5, 2, 2, bias=False), nn.BatchNorm2d(16), nn.ReLU())
        self.body = nn.Sequential(Block(16, 24, 2), Block(24, 48, 2), Block(48, 96, 2))
        self.fc = nn.Linear(96, classes)

    def forward(self, x):
        return self.fc(self.body(self.stem(x)).mean((2, 3)))


def forever(loader):
    while True:
        yield from loader


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=60)
    ap.add_argument("--batch", type=int, default=12)
    ap.add_argument("--photos", type=int, default=120)
    args = ap.parse_args()
    torch.manual_seed(0)

    with tempfile.TemporaryDirectory() as tmp:
        root = Path(tmp)
        write_photos(root, args.photos)
        dataset = LeafPhotos(root)
        loader = DataLoader(dataset, args.batch, shuffle=True, drop_last=True,
                            num_workers=2, persistent_workers=True)
        model = LeafNet(len(CLASSES)).to(memory_format=torch.channels_last)
        opt = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=0.01)
        sched = torch.optim.lr_scheduler.OneCycleLR(opt, 4e-3, total_steps=args.steps + 1)

        times, losses = [], []
        batches = forever(loader)
        for step in range(args.steps):
            t0 = time.perf_counter()
            x, y = next(batches)
            loss = F.cross_entropy(model(x.contiguous(memory_format=torch.channels_last)), y)
            opt.zero_grad(set_to_none=True)
            loss.backward()
            opt.step()
            sched.step()
            losses.append(loss.item())
            times.append(time.perf_counter() - t0)
            if (step + 1) % 20 == 0:
                print(f"step {step + 1}  loss {statistics.mean(losses[-20:]):.4f}")
        del batches
    steady = times[max(3, len(times) // 10):]
    print(f"step_ms: {1e3 * statistics.median(steady):.1f}")


if __name__ == "__main__":
    main()
