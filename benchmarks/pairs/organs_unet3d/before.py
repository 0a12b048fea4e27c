"""Train a 3D U-Net to segment organs in a small set of CT volumes."""

import argparse
import json
import time

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset

WARMUP = 10
CLASSES = 5


def now(device):
    if device.type == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter()


class Volumes(Dataset):
    """CT scans held in memory; a sample is a random flipped crop of one of them."""

    def __init__(self, count, side, crop):
        generator = np.random.default_rng(0)
        self.scans = [generator.integers(-1000, 1000, (side,) * 3, dtype=np.int16) for _ in range(count)]
        self.masks = [(scan > 300).astype(np.uint8) + (scan > 700) for scan in self.scans]
        self.crop = crop

    def __len__(self):
        return len(self.scans)

    def __getitem__(self, index):
        scan, mask = self.scans[index], self.masks[index]
        corner = torch.randint(scan.shape[0] - self.crop + 1, (3,)).tolist()
        window = tuple(slice(start, start + self.crop) for start in corner)
        axes = [axis for axis in range(3) if torch.rand(()) < 0.5]
        scan, mask = np.flip(scan[window], axes), np.flip(mask[window], axes)
        return torch.from_numpy(scan.copy()), torch.from_numpy(mask.copy())


class Double(nn.Sequential):
    def __init__(self, inside, outside):
        super().__init__(
            nn.Conv3d(inside, outside, 3, padding=1, bias=False), nn.InstanceNorm3d(outside, affine=True),
            nn.LeakyReLU(0.01, inplace=True),
            nn.Conv3d(outside, outside, 3, padding=1, bias=False), nn.InstanceNorm3d(outside, affine=True),
            nn.LeakyReLU(0.01, inplace=True),
        )


class UNet3d(nn.Module):
    def __init__(self, base, levels):
        super().__init__()
        widths = [base * 2**level for level in range(levels)]
        self.encode = nn.ModuleList(Double(a, b) for a, b in zip([1] + widths, widths))
        pairs = list(zip(widths[1:], widths))[::-1]
        self.up = nn.ModuleList(nn.ConvTranspose3d(a, b, 2, 2) for a, b in pairs)
        self.decode = nn.ModuleList(Double(2 * b, b) for _, b in pairs)
        self.head = nn.Conv3d(base, CLASSES, 1)

    def forward(self, x):
        skips = []
        for level, block in enumerate(self.encode):
            x = block(F.max_pool3d(x, 2) if level else x)
            skips.append(x)
        skips.pop()
        for up, block in zip(self.up, self.decode):
            x = block(torch.cat((up(x), skips.pop()), 1))
        return self.head(x)


def dice_loss(logits, masks):
    chance = logits.softmax(1).flatten(2)
    truth = F.one_hot(masks, CLASSES).movedim(-1, 1).flatten(2)
    overlap = (chance * truth).sum((0, 2))
    return 1 - (2 * overlap / (chance.sum((0, 2)) + truth.sum((0, 2)) + 1)).mean()


def make_loader(dataset, batch, workers, device):
    return DataLoader(
        dataset, batch, shuffle=True, num_workers=workers, drop_last=True,
        pin_memory=device.type == "cuda",
    )


def fit(model, optimizer, loader, device, steps):
    done = 0
    while done < steps:
        for scans, masks in loader:
            scans = scans.to(device, non_blocking=True)
            masks = masks.to(device, non_blocking=True).long()
            windowed = (scans.float().clamp(-160, 240) / 200).unsqueeze(1)
            with torch.autocast(device.type, torch.bfloat16):
                logits = model(windowed)
            logits = logits.float()
            loss = F.cross_entropy(logits, masks) + dice_loss(logits, masks)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            done += 1
            if done == WARMUP:
                begin = now(device)
            if done == steps:
                break
    return (now(device) - begin) / (steps - WARMUP) * 1e3, loss.item()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=64)
    parser.add_argument("--small", action="store_true")
    args = parser.parse_args()
    torch.manual_seed(0)
    torch.backends.cudnn.benchmark = True
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    count, side, crop, base, levels, workers = (8, 24, 16, 4, 2, 2) if args.small else (16, 128, 96, 16, 4, 8)

    loader = make_loader(Volumes(count, side, crop), 2, workers, device)
    model = UNet3d(base, levels).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, fused=device.type == "cuda")
    ms, loss = fit(model, optimizer, loader, device, WARMUP + args.steps)
    peak = torch.cuda.max_memory_allocated() / 2**20 if device.type == "cuda" else 0.0
    print(f"last loss {loss:.4f}")
    print(json.dumps({"ms": round(ms, 3), "peak_mb": round(peak, 1)}))


if __name__ == "__main__":
    main()
