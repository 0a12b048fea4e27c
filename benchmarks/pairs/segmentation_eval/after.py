"""Evaluate a segmentation network: mean intersection over union."""

import argparse
import json
import time

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset

WARMUP = 10


def now(device):
    if device.type == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter()


class Scenes(Dataset):
    def __init__(self, count, side, classes):
        self.images = torch.randn(32, 3, side, side)
        self.masks = torch.randint(classes, (32, side, side), dtype=torch.uint8)
        self.count = count

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        return self.images[index % 32], self.masks[index % 32]


def conv(inside, outside, stride, dilation=1):
    return nn.Sequential(
        nn.Conv2d(inside, outside, 3, stride, dilation, dilation, bias=False), nn.BatchNorm2d(outside), nn.ReLU()
    )


class Segmenter(nn.Module):
    def __init__(self, width, classes):
        super().__init__()
        self.features = nn.Sequential(
            conv(3, width, 2),
            conv(width, 2 * width, 2),
            conv(2 * width, 4 * width, 2),
            conv(4 * width, 4 * width, 1, 2),
            conv(4 * width, 4 * width, 1, 4),
            conv(4 * width, 4 * width, 1, 8),
        )
        self.head = nn.Conv2d(4 * width, classes, 1)

    def forward(self, x):
        return F.interpolate(self.head(self.features(x)), scale_factor=8, mode="bilinear")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--small", action="store_true")
    args = parser.parse_args()
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    batch, side, width, classes = (2, 32, 4, 5) if args.small else (8, 320, 64, 21)

    data = Scenes(batch * (WARMUP + args.steps), side, classes)
    loader = DataLoader(data, batch_size=batch, num_workers=4, pin_memory=device.type == "cuda")
    model = Segmenter(width, classes).to(device).eval()
    counts = torch.zeros(classes * classes, dtype=torch.long)
    with torch.inference_mode():
        for step, (images, masks) in enumerate(loader):
            with torch.autocast(device.type, torch.bfloat16):
                logits = model(images.to(device, non_blocking=True))
            predicted = logits.argmax(1).cpu()
            counts += torch.bincount((masks.long() * classes + predicted).flatten(), minlength=classes * classes)
            if step + 1 == WARMUP:
                begin = now(device)
    table = counts.view(classes, classes)
    union = table.sum(0) + table.sum(1) - table.diag()
    print(f"mean IoU {(table.diag() / union.clamp(min=1)).mean():.4f}")
    ms = (now(device) - begin) / args.steps * 1e3
    peak = torch.cuda.max_memory_allocated() / 2**20 if device.type == "cuda" else 0.0
    print(json.dumps({"ms": round(ms, 3), "peak_mb": round(peak, 1)}))


if __name__ == "__main__":
    main()
