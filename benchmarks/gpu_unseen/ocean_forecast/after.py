"""Train a U-Net that steps a regional ocean state forward by six hours."""
import argparse
import json
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset, RandomSampler

WARMUP = 10


def write_archive(root, months, frames, channels, height, width):
    """One .npy file a month, (time, channel, lat, lon)."""
    rng = np.random.default_rng(0)
    base = rng.standard_normal((frames, channels, height, width), dtype=np.float32)
    files = []
    for month in range(months):
        path = Path(root) / f"ocean_{month:02d}.npy"
        np.save(path, base * np.float32(1 + 0.1 * month) + np.float32(0.05 * month))
        files.append(path)
    return files


class OceanArchive(Dataset):
    def __init__(self, files, frames, mean, std):
        self.files = files
        self.pairs_per_file = frames - 1
        self.mean = mean[:, None, None]
        self.std = std[:, None, None]

    def __len__(self):
        return len(self.files) * self.pairs_per_file

    def __getitem__(self, index):
        month, t = divmod(index, self.pairs_per_file)
        fields = np.load(self.files[month], mmap_mode="r")
        now = (fields[t] - self.mean) / self.std
        later = (fields[t + 1] - self.mean) / self.std
        return torch.from_numpy(now), torch.from_numpy(later)


class ResBlock(nn.Module):
    def __init__(self, cin, cout):
        super().__init__()
        self.norm1 = nn.GroupNorm(8, cin)
        self.conv1 = nn.Conv2d(cin, cout, 3, padding=1)
        self.norm2 = nn.GroupNorm(8, cout)
        self.conv2 = nn.Conv2d(cout, cout, 3, padding=1)
        self.skip = nn.Conv2d(cin, cout, 1) if cin != cout else nn.Identity()

    def forward(self, x):
        h = self.conv1(F.silu(self.norm1(x)))
        h = self.conv2(F.silu(self.norm2(h)))
        return h + self.skip(x)


class OceanUNet(nn.Module):
    def __init__(self, channels, width):
        super().__init__()
        w = width
        self.stem = nn.Conv2d(channels + 1, w, 3, padding=1)
        self.enc0 = nn.Sequential(ResBlock(w, w), ResBlock(w, w))
        self.down0 = nn.Conv2d(w, 2 * w, 3, stride=2, padding=1)
        self.enc1 = nn.Sequential(ResBlock(2 * w, 2 * w), ResBlock(2 * w, 2 * w))
        self.down1 = nn.Conv2d(2 * w, 4 * w, 3, stride=2, padding=1)
        self.mid = nn.Sequential(*[ResBlock(4 * w, 4 * w) for _ in range(3)])
        self.up1 = nn.ConvTranspose2d(4 * w, 2 * w, 2, stride=2)
        self.dec1 = ResBlock(4 * w, 2 * w)
        self.up0 = nn.ConvTranspose2d(2 * w, w, 2, stride=2)
        self.dec0 = ResBlock(2 * w, w)
        self.head = nn.Conv2d(w, channels, 3, padding=1)

    def forward(self, state, sea):
        mask = sea.expand(state.shape[0], -1, -1, -1)
        e0 = self.enc0(self.stem(torch.cat([state, mask], dim=1)))
        e1 = self.enc1(self.down0(e0))
        h = self.mid(self.down1(e1))
        h = self.dec1(torch.cat([self.up1(h), e1], dim=1))
        h = self.dec0(torch.cat([self.up0(h), e0], dim=1))
        return state + self.head(h)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--small", action="store_true")
    args = parser.parse_args()
    torch.manual_seed(0)
    device = "cuda" if torch.cuda.is_available() else "cpu"

    if args.small:
        months, frames, channels, height, lon, width, batch, workers = 2, 6, 4, 16, 32, 8, 2, 2
    else:
        months, frames, channels, height, lon, width, batch, workers = 8, 40, 12, 96, 192, 80, 8, 4

    total = WARMUP + args.steps
    with tempfile.TemporaryDirectory() as root:
        files = write_archive(root, months, frames, channels, height, lon)
        mean = np.zeros(channels, dtype=np.float32)
        std = np.full(channels, 1.4, dtype=np.float32)
        dataset = OceanArchive(files, frames, mean, std)
        sampler = RandomSampler(dataset, replacement=True, num_samples=total * batch)
        loader = DataLoader(dataset, batch_size=batch, sampler=sampler, num_workers=workers,
                            pin_memory=device == "cuda", drop_last=True)

        sea = (torch.rand(1, 1, height, lon, device=device) > 0.3).float()
        area = torch.cos(torch.linspace(-0.6, 0.6, height, device=device))[None, None, :, None]
        weight = sea * area
        weight = weight / weight.mean()
        model = OceanUNet(channels, width).to(device)
        optimizer = torch.optim.AdamW(model.parameters(), lr=2e-4, weight_decay=1e-2)
        running = torch.zeros((), device=device)

        for step, (now, later) in enumerate(loader, start=1):
            now = now.to(device, non_blocking=True)
            later = later.to(device, non_blocking=True)
            forecast = model(now, sea)
            loss = (weight * (forecast - later) ** 2).mean()
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
            running.lerp_(loss.detach(), 0.05)
            if step == WARMUP:
                if device == "cuda":
                    torch.cuda.synchronize()
                start = time.perf_counter()

        if device == "cuda":
            torch.cuda.synchronize()
        elapsed = time.perf_counter() - start

    print(f"running loss {running.item():.4f}")
    peak = torch.cuda.max_memory_allocated() / 2**20 if device == "cuda" else 0
    print(json.dumps({"ms": elapsed / args.steps * 1e3, "peak_mb": peak}))


if __name__ == "__main__":
    main()
