"""Leaf pictures kept as JPEG bytes, decoded when asked for."""
import io

import numpy as np
import torch
from PIL import Image
from torch.utils.data import DataLoader, Dataset

from . import transforms as T

MEAN, STD = (0.46, 0.51, 0.38), (0.21, 0.20, 0.22)


def _draw_leaf(rng, label, size):
    yy, xx = np.mgrid[0:size, 0:size].astype(np.float32) / size - 0.5
    angle = rng.uniform(0, np.pi)
    u = xx * np.cos(angle) + yy * np.sin(angle)
    v = -xx * np.sin(angle) + yy * np.cos(angle)
    lobes = 1 + 0.15 * np.cos((label + 2) * np.arctan2(v, u + 1e-6))
    inside = (u ** 2 / 0.16 + v ** 2 / 0.05) < lobes
    img = np.where(inside[..., None], [70, 140, 60], [190, 180, 160]).astype(np.float32)
    img += 25 * np.sin(40 * v * (1 + label))[..., None]
    img += rng.normal(0, 6, img.shape)
    return np.clip(img, 0, 255).astype(np.uint8)


class LeafDataset(Dataset):
    def __init__(self, n, size, num_classes, transform, seed=0):
        rng = np.random.default_rng(seed)
        self.transform = transform
        self.items = []
        for i in range(n):
            label = i % num_classes
            buf = io.BytesIO()
            Image.fromarray(_draw_leaf(rng, label, size)).save(buf, "JPEG", quality=88)
            self.items.append((buf.getvalue(), label))

    def __len__(self):
        return len(self.items)

    def __getitem__(self, index):
        raw, label = self.items[index]
        with Image.open(io.BytesIO(raw)) as im:
            pixels = np.array(im.convert("RGB"))
        img = torch.from_numpy(pixels).permute(2, 0, 1)
        return self.transform(img), label


class LeafDataModule:
    def __init__(self, batch_size=12, image_size=224, crop_size=112, num_classes=5, seed=0):
        self.batch_size = batch_size
        self.image_size = image_size
        self.crop_size = crop_size
        self.num_classes = num_classes
        self.seed = seed

    def setup(self):
        train_tf = T.Compose([
            T.ToFloat(),
            T.ColorJitter(seed=self.seed + 1),
            T.Normalize(MEAN, STD),
            T.RandomCrop(self.crop_size, seed=self.seed + 2),
            T.RandomHorizontalFlip(seed=self.seed + 3),
        ])
        self.train_set = LeafDataset(72, self.image_size, self.num_classes, train_tf, self.seed)

    def train_dataloader(self):
        gen = torch.Generator().manual_seed(self.seed)
        return DataLoader(self.train_set, batch_size=self.batch_size, shuffle=True,
                          drop_last=True, generator=gen)
