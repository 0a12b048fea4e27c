"""Land-cover segmentation of aerial tiles with a small U-Net."""
import argparse
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

CLASSES = [
    "water", "forest", "field", "road", "roof", "soil", "wetland", "sand", "rail", "orchard",
    "vineyard", "meadow", "heath", "quarry", "parking", "airfield", "greenhouse", "harbour", "other",
]


def make_tiles(count, size, rng):
    """Synthetic tiles: blobs of land cover with class-dependent colours."""
    palette = rng.uniform(0.0, 1.0, (len(CLASSES), 3)).astype(np.float32)
    coarse = rng.integers(0, len(CLASSES), (count, size // 16, size // 16))
    labels = coarse.repeat(16, axis=1).repeat(16, axis=2)
    shift = rng.integers(0, 16, count)
    labels = np.stack([np.roll(lab, s, axis=(0, 1)) for lab, s in zip(labels, shift)])
    images = palette[labels] + rng.normal(0, 0.15, labels.shape + (3,)).astype(np.float32)
    return torch.from_numpy(images).permute(0, 3, 1, 2).contiguous(), torch.from_numpy(labels)


def double_conv(cin, cout):
    return nn.Sequential(
        nn.Conv2d(cin, cout, 3, padding=1, bias=False), nn.BatchNorm2d(cout), nn.ReLU(inplace=True),
        nn.Conv2d(cout, cout, 3, padding=1, bias=False), nn.BatchNorm2d(cout), nn.ReLU(inplace=True),
    )


class UNet(nn.Module):
    def __init__(self, classes, width=8):
        super().__init__()
        self.enc1 = double_conv(3, width)
        self.enc2 = double_conv(width, width * 2)
        self.mid = double_conv(width * 2, width * 4)
        self.dec2 = double_conv(width * 6, width * 2)
        self.dec1 = double_conv(width * 3, width)
        self.head = nn.Conv2d(width, classes, 1)

    def forward(self, x):
        a = self.enc1(x)
        b = self.enc2(F.max_pool2d(a, 2))
        c = self.mid(F.max_pool2d(b, 2))
        b = self.dec2(torch.cat([F.interpolate(c, scale_factor=2), b], 1))
        a = self.dec1(torch.cat([F.interpolate(b, scale_factor=2), a], 1))
        return self.head(a)


class ConfusionMatrix:
    def __init__(self, classes):
        self.classes = classes
        self.counts = torch.zeros(classes, classes, dtype=torch.int64)

    def update(self, logits, target):
        pred = logits.detach().argmax(1)
        pair = (target * self.classes + pred).flatten()
        self.counts += torch.bincount(pair, minlength=self.classes ** 2).view(self.classes, self.classes)

    def mean_iou(self):
        hit = self.counts.diag().float()
        union = self.counts.sum(0) + self.counts.sum(1) - self.counts.diag()
        return (hit / union.clamp(min=1)).mean().item()


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=60)
    ap.add_argument("--batch", type=int, default=6)
    args = ap.parse_args()
    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    images, labels = make_tiles(96, 96, rng)
    model = UNet(len(CLASSES))
    opt = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    metric = ConfusionMatrix(len(CLASSES))

    start = time.perf_counter()
    for step in range(args.steps):
        if step == 5:
            start = time.perf_counter()
        pick = torch.from_numpy(rng.integers(0, len(images), args.batch))
        x, y = images[pick], labels[pick]
        logits = model(x)
        loss = F.cross_entropy(logits, y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        metric.update(logits, y)
        if step % 20 == 19:
            print(f"step {step + 1} loss {loss.item():.4f} mIoU {metric.mean_iou():.4f}")
    took = time.perf_counter() - start
    print(f"mean step {took / max(1, args.steps - 5) * 1000:.2f} ms")


if __name__ == "__main__":
    main()
