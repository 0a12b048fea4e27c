"""Aerial tiles on disk: JPEG photo + PNG class mask per tile."""
import os

import numpy as np
import torch
from PIL import Image
from torch.utils.data import Dataset

MEAN = torch.tensor([0.485, 0.456, 0.406]).view(3, 1, 1)
STD = torch.tensor([0.229, 0.224, 0.225]).view(3, 1, 1)


def write_tiles(root, count=24, size=(1600, 1200), num_classes=5, seed=0):
    """Write `count` synthetic tiles the way the survey camera delivers them."""
    rng = np.random.default_rng(seed)
    palette = rng.integers(40, 216, (num_classes, 3))
    for i in range(count):
        field = rng.random((8, 10, num_classes)).argmax(-1).astype(np.uint8)
        mask = Image.fromarray(field).resize(size, Image.NEAREST)
        texture = rng.normal(0, 18, (size[1] // 4, size[0] // 4, 3))
        texture = np.repeat(np.repeat(texture, 4, 0), 4, 1)
        photo = np.clip(palette[np.asarray(mask)] + texture, 0, 255).astype(np.uint8)
        Image.fromarray(photo).save(os.path.join(root, f"{i:04d}.jpg"), quality=92)
        mask.save(os.path.join(root, f"{i:04d}.png"))


class TileDataset(Dataset):
    """Returns (image, mask) at the network's input size, randomly flipped."""

    def __init__(self, root, image_size=128, augment=True, repeats=1):
        self.root = root
        self.image_size = image_size
        self.augment = augment
        self.repeats = repeats
        self.names = sorted(f[:-4] for f in os.listdir(root) if f.endswith(".jpg"))

    def __len__(self):
        return len(self.names) * self.repeats

    def load_tile(self, name):
        size = (self.image_size, self.image_size)
        image = Image.open(os.path.join(self.root, name + ".jpg")).convert("RGB")
        mask = Image.open(os.path.join(self.root, name + ".png"))
        image = image.resize(size, Image.BILINEAR)
        mask = mask.resize(size, Image.NEAREST)
        return np.asarray(image), np.asarray(mask)

    def __getitem__(self, index):
        image, mask = self.load_tile(self.names[index % len(self.names)])
        image = torch.from_numpy(image.copy()).permute(2, 0, 1).float() / 255.0
        mask = torch.from_numpy(mask.copy()).long()
        if self.augment:
            if torch.rand(()) < 0.5:
                image, mask = image.flip(-1), mask.flip(-1)
            if torch.rand(()) < 0.5:
                image, mask = image.flip(-2), mask.flip(-2)
        return (image - MEAN) / STD, mask
