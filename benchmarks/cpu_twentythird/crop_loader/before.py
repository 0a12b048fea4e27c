"""Train a small classifier on random crops taken from larger colour plates."""

import argparse
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset, RandomSampler

PLATE = 224
CROP = 64
CLASSES = 8
MEAN = torch.tensor([0.45, 0.44, 0.42]).view(3, 1, 1)
STD = torch.tensor([0.24, 0.23, 0.25]).view(3, 1, 1)


def make_plates(count, seed):
    """Striped plates; the class sets the direction and the spacing of the stripes."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, CLASSES, count)
    rows, cols = np.mgrid[0:PLATE, 0:PLATE].astype(np.float32) / PLATE
    plates = np.empty((count, PLATE, PLATE, 3), dtype=np.uint8)
    for i, label in enumerate(labels):
        angle = np.pi * label / CLASSES
        phase = rng.uniform(0, 2 * np.pi)
        wave = np.sin(2 * np.pi * (10 + label) * (rows * np.sin(angle) + cols * np.cos(angle)) + phase)
        tint = rng.uniform(0.4, 1.0, 3)
        plate = 110 + 70 * wave[..., None] * tint + rng.normal(0, 12, (PLATE, PLATE, 1))
        plates[i] = plate.clip(0, 255).astype(np.uint8)
    return plates, torch.from_numpy(labels)


@dataclass
class Recipe:
    gamma: float
    saturation: float
    gain: torch.Tensor
    top: int
    left: int
    flip: bool


class PlateCrops(Dataset):
    def __init__(self, plates, labels, seed):
        self.plates = plates
        self.labels = labels
        self.rng = np.random.default_rng(seed)

    def __len__(self):
        return len(self.plates)

    def draw_recipe(self):
        rng = self.rng
        return Recipe(
            gamma=float(rng.uniform(0.7, 1.4)),
            saturation=float(rng.uniform(0.5, 1.5)),
            gain=torch.from_numpy(rng.uniform(0.8, 1.2, (3, 1, 1)).astype(np.float32)),
            top=int(rng.integers(0, PLATE - CROP + 1)),
            left=int(rng.integers(0, PLATE - CROP + 1)),
            flip=bool(rng.random() < 0.5),
        )

    def apply_recipe(self, image, recipe):
        image = image.float() / 255
        image = image.pow(recipe.gamma)
        image = torch.lerp(image.mean(0, keepdim=True), image, recipe.saturation)
        image = (image * recipe.gain).clamp(0, 1)
        top, left = recipe.top, recipe.left
        image = image[:, top:top + CROP, left:left + CROP]
        if recipe.flip:
            image = image.flip(2)
        return (image - MEAN) / STD

    def __getitem__(self, index):
        image = torch.from_numpy(self.plates[index]).permute(2, 0, 1)
        return self.apply_recipe(image, self.draw_recipe()), self.labels[index]


class StripeNet(nn.Module):
    def __init__(self, width=24):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(3, width, 3, stride=2, padding=1),
            nn.ReLU(inplace=True),
            nn.Conv2d(width, 2 * width, 3, stride=2, padding=1),
            nn.ReLU(inplace=True),
            nn.Conv2d(2 * width, 4 * width, 3, stride=2, padding=1),
            nn.ReLU(inplace=True),
        )
        self.head = nn.Linear(4 * width, CLASSES)

    def forward(self, x):
        return self.head(self.body(x).mean((2, 3)))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--batch", type=int, default=32)
    args = parser.parse_args()

    torch.manual_seed(7)
    plates, labels = make_plates(160, seed=3)
    dataset = PlateCrops(plates, labels, seed=11)
    sampler = RandomSampler(dataset, replacement=True, num_samples=args.steps * args.batch)
    loader = DataLoader(dataset, batch_size=args.batch, sampler=sampler)

    model = StripeNet()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    loss = None
    for images, targets in loader:
        loss = F.cross_entropy(model(images), targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(f"final loss {loss.item():.6f}")


if __name__ == "__main__":
    main()
