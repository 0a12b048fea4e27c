"""Train an unrolled network that reconstructs accelerated multi-coil MRI slices."""
import argparse
import json
import math
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset, RandomSampler

WARMUP = 10


def fft2c(image):
    image = torch.fft.ifftshift(image, dim=(-2, -1))
    spectrum = torch.fft.fft2(image, norm="ortho")
    return torch.fft.fftshift(spectrum, dim=(-2, -1))


def ifft2c(spectrum):
    spectrum = torch.fft.ifftshift(spectrum, dim=(-2, -1))
    image = torch.fft.ifft2(spectrum, norm="ortho")
    return torch.fft.fftshift(image, dim=(-2, -1))


def coil_maps(coils, size):
    axis = torch.linspace(-1, 1, size)
    y, x = torch.meshgrid(axis, axis, indexing="ij")
    angle = 2 * math.pi * torch.arange(coils) / coils
    cy, cx = angle.sin()[:, None, None], angle.cos()[:, None, None]
    magnitude = torch.exp(-1.2 * ((y - cy) ** 2 + (x - cx) ** 2))
    maps = torch.polar(magnitude, cx * x * 2 + cy * y * 2)
    return maps / maps.abs().square().sum(0, keepdim=True).sqrt()


class SliceDataset(Dataset):
    """Fully sampled slices with the zero frequency in the middle, undersampled on the fly."""

    def __init__(self, slices, maps, size, acceleration=4, centre=0.08):
        coarse = torch.rand(slices, 1, size // 16, size // 16)
        self.targets = F.interpolate(coarse, size=(size, size), mode="bilinear")[:, 0]
        self.kspace = torch.stack([fft2c(target * maps) for target in self.targets])
        self.size, self.acceleration = size, acceleration
        self.low = int(size * centre)

    def __len__(self):
        return len(self.targets)

    def __getitem__(self, index):
        mask = torch.rand(self.size) < 1 / self.acceleration
        start = (self.size - self.low) // 2
        mask[start:start + self.low] = True
        mask = mask.float()[None, None, :]
        return self.kspace[index] * mask, mask, self.targets[index]


class Regulariser(nn.Module):
    def __init__(self, channels, depth):
        super().__init__()
        layers = [nn.Conv2d(2, channels, 3, padding=1), nn.ReLU(inplace=True)]
        for _ in range(depth - 2):
            layers += [nn.Conv2d(channels, channels, 3, padding=1), nn.ReLU(inplace=True)]
        layers.append(nn.Conv2d(channels, 2, 3, padding=1))
        self.net = nn.Sequential(*layers)

    def forward(self, image):
        planes = torch.stack([image.real, image.imag], dim=1)
        planes = self.net(planes)
        return torch.complex(planes[:, 0], planes[:, 1])


class Cascade(nn.Module):
    def __init__(self, channels, depth):
        super().__init__()
        self.regulariser = Regulariser(channels, depth)
        self.eta = nn.Parameter(torch.ones(()))

    def forward(self, kspace, measured, mask, maps):
        image = (torch.fft.ifft2(kspace, norm="ortho") * maps.conj()).sum(dim=1)
        update = torch.fft.fft2(self.regulariser(image)[:, None] * maps, norm="ortho")
        residual = (kspace - measured) * mask
        return kspace - self.eta * residual - update


class UnrolledNet(nn.Module):
    def __init__(self, maps, cascades, channels, depth):
        super().__init__()
        self.register_buffer("maps", maps)
        size = maps.shape[-1]
        sign = 1.0 - 2.0 * (torch.arange(size) % 2)
        self.register_buffer("sign", sign[:, None] * sign)
        self.cascades = nn.ModuleList([Cascade(channels, depth) for _ in range(cascades)])

    def forward(self, measured, mask):
        measured = torch.fft.ifftshift(measured, dim=(-2, -1)) * self.sign
        mask = torch.fft.ifftshift(mask, dim=-1)
        kspace = measured
        for cascade in self.cascades:
            kspace = cascade(kspace, measured, mask, self.maps)
        return (torch.fft.ifft2(kspace, norm="ortho") * self.maps.conj()).sum(dim=1).abs()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--small", action="store_true")
    args = parser.parse_args()
    torch.manual_seed(0)
    np.random.seed(0)
    device = "cuda" if torch.cuda.is_available() else "cpu"

    if args.small:
        slices, coils, size, cascades, channels, depth, workers = 4, 3, 32, 2, 4, 3, 2
    else:
        slices, coils, size, cascades, channels, depth, workers = 8, 20, 320, 12, 32, 4, 4

    total = WARMUP + args.steps
    maps = coil_maps(coils, size)
    dataset = SliceDataset(slices, maps, size)
    sampler = RandomSampler(dataset, replacement=True, num_samples=total)
    loader = DataLoader(dataset, batch_size=1, sampler=sampler, num_workers=workers,
                        pin_memory=device == "cuda")
    model = UnrolledNet(maps, cascades, channels, depth).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-4)
    running = torch.zeros((), device=device)

    for step, (measured, mask, target) in enumerate(loader, start=1):
        measured = measured.to(device, non_blocking=True)
        mask = mask.to(device, non_blocking=True)
        target = target.to(device, non_blocking=True)
        image = model(measured, mask)
        loss = F.l1_loss(image, target)
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

    print(f"running l1 {running.item():.5f}")
    peak = torch.cuda.max_memory_allocated() / 2**20 if device == "cuda" else 0
    print(json.dumps({"ms": elapsed / args.steps * 1e3, "peak_mb": peak}))


if __name__ == "__main__":
    main()
