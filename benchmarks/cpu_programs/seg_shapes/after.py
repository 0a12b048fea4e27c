"""Semantic segmentation of synthetic shapes with a small U-Net-like network."""

import argparse
import json
import statistics
import time

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

NUM_CLASSES = 6


class ShapesDataset(Dataset):
    """Random discs and rectangles on a noisy background."""

    def __init__(self, length=512, size=128, stride=4):
        self.length = length
        self.size = size
        self.stride = stride
        ys, xs = torch.meshgrid(torch.arange(size), torch.arange(size), indexing="ij")
        self.ys, self.xs = ys, xs

    def __len__(self):
        return self.length

    def __getitem__(self, index):
        g = torch.Generator().manual_seed(index)
        image = torch.randn(3, self.size, self.size, generator=g) * 0.2
        label = torch.zeros(self.size, self.size, dtype=torch.long)
        for cls in range(1, NUM_CLASSES):
            cy, cx = torch.randint(10, self.size - 10, (2,), generator=g).tolist()
            r = int(torch.randint(8, 24, (1,), generator=g))
            if cls % 2:
                inside = (self.ys - cy) ** 2 + (self.xs - cx) ** 2 < r * r
            else:
                inside = ((self.ys - cy).abs() < r) & ((self.xs - cx).abs() < r)
            label[inside] = cls
            image[cls % 3][inside] += cls / NUM_CLASSES
        return image, label[:: self.stride, :: self.stride]


def block(cin, cout, stride=1):
    return nn.Sequential(
        nn.Conv2d(cin, cout, 3, stride=stride, padding=1, bias=False),
        nn.BatchNorm2d(cout),
        nn.ReLU(inplace=True),
    )


class SegNet(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.stem = block(3, width, stride=2)
        self.down1 = nn.Sequential(block(width, width * 2, stride=2), block(width * 2, width * 2))
        self.down2 = nn.Sequential(block(width * 2, width * 4, stride=2), block(width * 4, width * 4))
        self.fuse = block(width * 6, width * 2)
        self.head = nn.Conv2d(width * 2, NUM_CLASSES, 1)

    def forward(self, x):
        x = self.stem(x)
        a = self.down1(x)
        b = self.down2(a)
        b = F.interpolate(b, size=a.shape[-2:], mode="bilinear", align_corners=False)
        return self.head(self.fuse(torch.cat([a, b], dim=1)))


class SegmentationMetrics:
    def __init__(self, num_classes):
        self.num_classes = num_classes
        self.confusion = torch.zeros(num_classes, num_classes, dtype=torch.long)

    def update(self, preds, labels):
        index = labels.reshape(-1) * self.num_classes + preds.reshape(-1)
        counts = torch.bincount(index, minlength=self.num_classes**2)
        self.confusion += counts.view(self.num_classes, self.num_classes)

    def miou(self):
        inter = self.confusion.diag().float()
        union = self.confusion.sum(0) + self.confusion.sum(1) - self.confusion.diag()
        return (inter / union.clamp(min=1).float()).mean().item()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--batch-size", type=int, default=8)
    args = parser.parse_args()
    torch.manual_seed(0)

    loader = DataLoader(ShapesDataset(), batch_size=args.batch_size, shuffle=True, drop_last=True)
    model = SegNet()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    metrics = SegmentationMetrics(NUM_CLASSES)
    times, step = [], 0
    while step < args.steps:
        start = time.perf_counter()
        for images, labels in loader:
            optimizer.zero_grad()
            logits = model(images)
            loss = F.cross_entropy(logits, labels)
            loss.backward()
            optimizer.step()
            metrics.update(logits.argmax(dim=1), labels)
            now = time.perf_counter()
            times.append((now - start) * 1e3)
            start = now
            step += 1
            if step % 20 == 0:
                print(f"step {step} loss {loss.item():.4f} mIoU {metrics.miou():.4f}")
            if step >= args.steps:
                break
    print(json.dumps({"ms": round(statistics.median(times[5:] or times), 3)}))


if __name__ == "__main__":
    main()
