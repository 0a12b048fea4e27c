"""Multi-organ segmentation of abdominal CT slices with a small feature pyramid network."""
import argparse
import statistics
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

NUM_CLASSES = 14
IMAGE_SIZE = 192


def make_slices(count, size, rng):
    """Synthetic slices: overlapping ellipses of different density, one per organ."""
    yy, xx = np.mgrid[0:size, 0:size].astype(np.float32) / size - 0.5
    images = rng.normal(0.0, 0.15, (count, 1, size, size)).astype(np.float32)
    labels = np.zeros((count, size, size), dtype=np.int64)
    for i in range(count):
        for organ in range(1, NUM_CLASSES):
            angle = 2 * np.pi * organ / (NUM_CLASSES - 1) + rng.normal(0, 0.1)
            cx, cy = 0.28 * np.cos(angle), 0.28 * np.sin(angle)
            rx, ry = rng.uniform(0.04, 0.10, 2)
            inside = ((xx - cx) / rx) ** 2 + ((yy - cy) / ry) ** 2 < 1.0
            labels[i][inside] = organ
            images[i, 0][inside] += 0.15 * organ - 0.8
    return torch.from_numpy(images), torch.from_numpy(labels)


class ConvBlock(nn.Sequential):
    def __init__(self, c_in, c_out, stride=1):
        super().__init__(
            nn.Conv2d(c_in, c_out, 3, stride=stride, padding=1, bias=False),
            nn.BatchNorm2d(c_out),
            nn.ReLU(inplace=True),
        )


class PyramidSegmenter(nn.Module):
    def __init__(self, width=32, pyramid=96, num_classes=NUM_CLASSES):
        super().__init__()
        self.stem = nn.Sequential(ConvBlock(1, width // 2, stride=2), ConvBlock(width // 2, width, stride=2))
        self.stage1 = nn.Sequential(ConvBlock(width, width), ConvBlock(width, width))
        self.stage2 = nn.Sequential(ConvBlock(width, 2 * width, stride=2), ConvBlock(2 * width, 2 * width))
        self.stage3 = nn.Sequential(ConvBlock(2 * width, 4 * width, stride=2), ConvBlock(4 * width, 4 * width))
        self.lateral = nn.ModuleList(
            nn.Conv2d(c, pyramid, 1) for c in (width, 2 * width, 4 * width)
        )
        self.smooth = ConvBlock(pyramid, pyramid)
        self.dropout = nn.Dropout2d(0.1)
        self.classifier = nn.Conv2d(pyramid, num_classes, kernel_size=1)

    def forward(self, image):
        c1 = self.stage1(self.stem(image))
        c2 = self.stage2(c1)
        c3 = self.stage3(c2)
        p3 = self.lateral[2](c3)
        p2 = self.lateral[1](c2) + F.interpolate(p3, scale_factor=2, mode="nearest")
        p1 = self.lateral[0](c1) + F.interpolate(p2, scale_factor=2, mode="nearest")
        x = self.dropout(self.smooth(p1))
        logits = self.classifier(x)
        return F.interpolate(logits, size=image.shape[-2:], mode="bilinear", align_corners=False)


def dice_terms(probs, labels):
    onehot = torch.zeros_like(probs).scatter_(1, labels.unsqueeze(1), 1.0)
    inter = (probs * onehot).sum(dim=(0, 2, 3))
    total = probs.sum(dim=(0, 2, 3)) + onehot.sum(dim=(0, 2, 3))
    return (2 * inter + 1.0) / (total + 1.0)


def segmentation_loss(logits, labels):
    ce = F.cross_entropy(logits, labels)
    dice = dice_terms(logits.softmax(dim=1), labels)[1:].mean()
    return ce + (1.0 - dice), dice


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--batch-size", type=int, default=4)
    parser.add_argument("--lr", type=float, default=2e-3)
    parser.add_argument("--seed", type=int, default=3)
    args = parser.parse_args()

    torch.manual_seed(args.seed)
    rng = np.random.default_rng(args.seed)
    images, labels = make_slices(48, IMAGE_SIZE, rng)

    model = PyramidSegmenter()
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr, weight_decay=1e-4)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=max(args.steps, 1))

    times = []
    model.train()
    for step in range(args.steps):
        start = time.perf_counter()
        idx = torch.from_numpy(rng.choice(len(images), args.batch_size, replace=False))
        batch, target = images[idx], labels[idx]
        if rng.random() < 0.5:
            batch, target = batch.flip(-1), target.flip(-1)
        logits = model(batch)
        loss, dice = segmentation_loss(logits, target)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        schedule.step()
        times.append(time.perf_counter() - start)
        if step % 10 == 0 or step == args.steps - 1:
            print(f"step {step:3d}  loss {loss.item():.4f}  soft dice {dice.item():.4f}")

    print(f"step_ms: {1000 * statistics.median(times):.1f}")


if __name__ == "__main__":
    main()
