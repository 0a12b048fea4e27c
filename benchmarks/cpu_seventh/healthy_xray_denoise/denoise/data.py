"""Low-dose radiographs: clean images in one memory-mapped file, noise added on the fly."""
from pathlib import Path

import numpy as np
import torch
from torch.utils.data import Dataset


def write_radiographs(path: Path, count, size, seed):
    rng = np.random.default_rng(seed)
    yy, xx = np.mgrid[0:size, 0:size].astype(np.float32) / size
    store = np.lib.format.open_memmap(path, "w+", np.uint8, (count, size, size))
    for n in range(count):
        depth = np.zeros((size, size), np.float32)
        for _ in range(10):
            cx, cy, a, b, angle = rng.uniform(0, 1, 5)
            a, b, angle = 0.05 + 0.25 * a, 0.03 + 0.15 * b, angle * np.pi
            u = (xx - cx) * np.cos(angle) + (yy - cy) * np.sin(angle)
            v = (yy - cy) * np.cos(angle) - (xx - cx) * np.sin(angle)
            depth += rng.uniform(0.2, 0.8) * ((u / a) ** 2 + (v / b) ** 2 < 1)
        store[n] = 255 * np.exp(-depth)
    store.flush()


class NoisyCrops(Dataset):
    """Random crops; photon noise of a random dose is part of the augmentation."""

    def __init__(self, path, crop, length):
        self.path, self.crop, self.length = path, crop, length
        self.images = np.load(path, mmap_mode="r")

    def __len__(self):
        return self.length

    def __getitem__(self, i):
        h = self.images.shape[1] - self.crop
        top, left = torch.randint(0, h + 1, (2,)).tolist()
        patch = self.images[i % len(self.images), top:top + self.crop, left:left + self.crop]
        clean = torch.from_numpy(patch.astype(np.float32)).div_(255)[None]
        turn = int(torch.randint(0, 4, ()))
        clean = torch.rot90(clean, turn, (1, 2)).contiguous()
        dose = 15 + 60 * torch.rand(())
        return torch.poisson(clean * dose) / dose, clean


def fixed_pairs(path, count, crop, seed):
    g = torch.Generator().manual_seed(seed)
    images = np.load(path, mmap_mode="r")[:count, :crop, :crop]
    clean = torch.from_numpy(images.astype(np.float32)).div_(255)[:, None]
    return torch.poisson(clean * 30, generator=g) / 30, clean
