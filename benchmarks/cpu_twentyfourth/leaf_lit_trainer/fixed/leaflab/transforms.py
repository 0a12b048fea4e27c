"""Small image transforms working on CHW tensors. Each random transform owns its generator."""
import random

import torch


class Compose:
    def __init__(self, transforms):
        self.transforms = list(transforms)

    def __call__(self, img):
        for t in self.transforms:
            img = t(img)
        return img


class ToFloat:
    """uint8 CHW -> float32 CHW in [0, 1]."""

    def __call__(self, img):
        return img.to(torch.float32).div_(255.0)


class ColorJitter:
    """Brightness and gamma, per picture."""

    def __init__(self, brightness=0.2, gamma=0.3, seed=0):
        self.brightness = brightness
        self.gamma = gamma
        self.rng = random.Random(seed)

    def __call__(self, img):
        b = 1.0 + self.rng.uniform(-self.brightness, self.brightness)
        g = 1.0 + self.rng.uniform(-self.gamma, self.gamma)
        return img.mul(b).clamp_(0.0, 1.0).pow(g)


class Normalize:
    def __init__(self, mean, std):
        self.mean = torch.tensor(mean).view(-1, 1, 1)
        self.std = torch.tensor(std).view(-1, 1, 1)

    def __call__(self, img):
        return img.sub(self.mean).div_(self.std)


class RandomCrop:
    def __init__(self, size, seed=0):
        self.size = size
        self.rng = random.Random(seed)

    def __call__(self, img):
        h, w = img.shape[-2:]
        top = self.rng.randint(0, h - self.size)
        left = self.rng.randint(0, w - self.size)
        return img[:, top:top + self.size, left:left + self.size]


class RandomHorizontalFlip:
    def __init__(self, p=0.5, seed=0):
        self.p = p
        self.rng = random.Random(seed)

    def __call__(self, img):
        return img.flip(-1) if self.rng.random() < self.p else img
