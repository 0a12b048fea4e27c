"""Scores a land-cover segmenter on stored tiles: overall accuracy, per-class IoU, kappa."""
import argparse
import statistics
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

NAMES = ["water", "crop", "grass", "forest", "urban", "bare", "wetland", "road", "shrub",
         "snow", "rail", "cloud"]
CLASSES = len(NAMES)
BANDS = 4


def smooth_field(rng, size, cells):
    coarse = torch.from_numpy(rng.standard_normal((1, CLASSES, cells, cells)).astype(np.float32))
    return F.interpolate(coarse, (size, size), mode="bicubic", align_corners=False)[0]


def write_tiles(folder: Path, count, size, seed):
    rng = np.random.default_rng(seed)
    signature = np.random.default_rng(17).uniform(0.05, 0.9, (CLASSES, BANDS))
    for n in range(count):
        truth = smooth_field(rng, size, 8).argmax(0).numpy().astype(np.uint8)
        bands = signature[truth] + 0.08 * rng.standard_normal((size, size, BANDS))
        np.savez(folder / f"tile_{n:03d}.npz", truth=truth,
                 bands=(bands.clip(0, 1).transpose(2, 0, 1) * 255).astype(np.uint8))


def read_batch(files):
    bands, truth = [], []
    for f in files:
        with np.load(f) as tile:
            bands.append(tile["bands"])
            truth.append(tile["truth"])
    images = torch.from_numpy(np.stack(bands)).float().div_(255)
    return images.contiguous(memory_format=torch.channels_last), torch.from_numpy(np.stack(truth)).long()


def double_conv(cin, cout):
    return nn.Sequential(nn.Conv2d(cin, cout, 3, padding=1, bias=False), nn.BatchNorm2d(cout), nn.ReLU(),
                         nn.Conv2d(cout, cout, 3, padding=1, bias=False), nn.BatchNorm2d(cout), nn.ReLU())


class Segmenter(nn.Module):
    def __init__(self, width=8):
        super().__init__()
        self.down1, self.down2 = double_conv(BANDS, width), double_conv(width, 2 * width)
        self.bottom = double_conv(2 * width, 4 * width)
        self.up2, self.up1 = double_conv(6 * width, 2 * width), double_conv(3 * width, width)
        self.out = nn.Conv2d(width, CLASSES, 1)

    def forward(self, x):
        a = self.down1(x)
        b = self.down2(F.max_pool2d(a, 2))
        c = self.bottom(F.max_pool2d(b, 2))
        b = self.up2(torch.cat([F.interpolate(c, scale_factor=2), b], 1))
        return self.out(self.up1(torch.cat([F.interpolate(b, scale_factor=2), a], 1)))


def fit_briefly(model, files, steps):
    opt = torch.optim.Adam(model.parameters(), lr=4e-3)
    for step in range(steps):
        images, truth = read_batch(files[2 * step % len(files):][:2])
        loss = F.cross_entropy(model(images[..., :128, :128]), truth[:, :128, :128])
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()


class Scores:
    def __init__(self, classes):
        self.table = torch.zeros(classes, classes, dtype=torch.int64)

    def add(self, pred, truth):
        n = self.table.shape[0]
        self.table += torch.bincount((truth * n + pred).flatten(), minlength=n * n).view(n, n)

    def summary(self):
        t = self.table.double()
        total, hit = t.sum(), t.diagonal()
        accuracy = hit.sum() / total
        iou = hit / (t.sum(0) + t.sum(1) - hit).clamp(min=1)
        chance = (t.sum(0) * t.sum(1)).sum() / total ** 2
        return accuracy.item(), iou, ((accuracy - chance) / (1 - chance)).item()


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=60, help="batches to score")
    ap.add_argument("--batch", type=int, default=3)
    ap.add_argument("--size", type=int, default=256)
    args = ap.parse_args()
    torch.manual_seed(0)
    with tempfile.TemporaryDirectory() as tmp:
        folder = Path(tmp)
        write_tiles(folder, 24, args.size, seed=1)
        files = sorted(folder.glob("*.npz"))
        model = Segmenter().to(memory_format=torch.channels_last)
        fit_briefly(model, files[:6], 12)
        model.eval()
        scores, times = Scores(CLASSES), []
        with torch.inference_mode():
            for step in range(args.steps):
                start = time.perf_counter()
                first = step * args.batch % (len(files) - args.batch + 1)
                images, truth = read_batch(files[first:first + args.batch])
                scores.add(model(images).argmax(1), truth)
                times.append(time.perf_counter() - start)
    accuracy, iou, kappa = scores.summary()
    print("  ".join(f"{name} {v:.3f}" for name, v in zip(NAMES, iou.tolist())))
    print(f"accuracy {accuracy:.5f}  mIoU {iou.mean().item():.5f}  kappa {kappa:.5f}")
    print(f"step_ms: {1e3 * statistics.median(times[max(3, len(times) // 10):]):.1f}")


if __name__ == "__main__":
    main()
