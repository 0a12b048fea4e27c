"""Detect objects: a dense head, then a threshold and non-maximum suppression."""

import argparse
import json
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

WARMUP = 10


def now(device):
    if device.type == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter()


class Images(Dataset):
    def __init__(self, count, side):
        self.images = torch.randn(32, 3, side, side)
        self.count = count

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        return self.images[index % 32]


def conv(inside, outside, stride):
    return nn.Sequential(
        nn.Conv2d(inside, outside, 3, stride, 1, bias=False), nn.GroupNorm(4, outside), nn.ReLU(inplace=True)
    )


class Detector(nn.Module):
    def __init__(self, width, classes):
        super().__init__()
        self.features = nn.Sequential(
            conv(3, width, 2), conv(width, 2 * width, 2), conv(2 * width, 4 * width, 2), conv(4 * width, 4 * width, 1)
        )
        self.classes = nn.Conv2d(4 * width, classes, 1)
        self.boxes = nn.Conv2d(4 * width, 4, 1)
        nn.init.normal_(self.classes.weight, std=0.08)
        nn.init.constant_(self.classes.bias, -4.6)

    def forward(self, x):
        features = self.features(x)
        scores = self.classes(features).flatten(2).transpose(1, 2).sigmoid()
        sizes = self.boxes(features).flatten(2).transpose(1, 2).sigmoid() * 64
        rows, columns = torch.meshgrid(
            torch.arange(features.shape[2], device=x.device),
            torch.arange(features.shape[3], device=x.device),
            indexing="ij",
        )
        centres = (torch.stack([columns, rows], -1).flatten(0, 1) * 8 + 4).float()
        return torch.cat([centres - sizes[..., :2], centres + sizes[..., 2:]], -1), scores


def suppress(boxes, scores, limit):
    order = scores.argsort(descending=True)
    boxes = boxes[order]
    area = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])
    corner = torch.maximum(boxes[:, None, :2], boxes[None, :, :2])
    other = torch.minimum(boxes[:, None, 2:], boxes[None, :, 2:])
    shared = (other - corner).clamp(min=0).prod(-1)
    overlap = shared / (area[:, None] + area[None, :] - shared)
    return order[overlap.triu(1).amax(0) <= limit]


def detect(boxes, scores, threshold=0.05, limit=0.5):
    rows, c = (scores > threshold).nonzero(as_tuple=True)
    candidates, values = boxes[rows], scores[rows, c]
    if not len(rows):
        return boxes.new_zeros(0, 6)
    best = suppress(candidates + 4096 * c[:, None], values, limit)
    return torch.cat([candidates[best], values[best, None], c[best, None].float()], 1)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--small", action="store_true")
    args = parser.parse_args()
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    batch, side, width, classes = (2, 32, 4, 3) if args.small else (8, 384, 64, 20)

    data = Images(batch * (WARMUP + args.steps), side)
    loader = DataLoader(data, batch_size=batch, num_workers=4, pin_memory=device.type == "cuda")
    model = Detector(width, classes).to(device).eval()
    count = 0
    with torch.inference_mode():
        for step, images in enumerate(loader):
            boxes, scores = model(images.to(device, non_blocking=True))
            for index in range(len(images)):
                count += len(detect(boxes[index], scores[index]))
            if step + 1 == WARMUP:
                begin = now(device)
    print(f"{count} boxes")
    ms = (now(device) - begin) / args.steps * 1e3
    peak = torch.cuda.max_memory_allocated() / 2**20 if device.type == "cuda" else 0.0
    print(json.dumps({"ms": round(ms, 3), "peak_mb": round(peak, 1)}))


if __name__ == "__main__":
    main()
