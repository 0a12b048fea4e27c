"""Grades of diabetic damage in pictures of the retina, as an ordinal regression; trained fold by fold."""

import argparse
import gc

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset, Subset

GRADES = 5


def paint(rng, grade, size=96):
    """A round reddish disc with vessels, and the more bright spots the worse the grade."""
    y, x = np.mgrid[-1 : 1 : size * 1j, -1 : 1 : size * 1j].astype(np.float32)
    disc = (x * x + y * y < 0.9).astype(np.float32)
    vessels = np.abs(np.sin(6 * x + 3 * np.sin(4 * y + rng.uniform(0, 6)))) < 0.08
    picture = np.stack([0.7 * disc, 0.3 * disc - 0.2 * vessels * disc, 0.1 * disc])
    for _ in range(6 * grade):
        cx, cy = rng.uniform(-0.6, 0.6, 2)
        picture += 0.5 * ((x - cx) ** 2 + (y - cy) ** 2 < 0.002)
    picture += rng.normal(0, 0.05, picture.shape)
    return (picture.clip(0, 1) * 255).astype(np.uint8)


class RetinaDataset(Dataset):
    def __init__(self, count, seed=0):
        rng = np.random.default_rng(seed)
        self.grades = rng.integers(GRADES, size=count)
        self.pictures = [paint(rng, grade) for grade in self.grades]

    def __len__(self):
        return len(self.grades)

    def __getitem__(self, i):
        picture = torch.from_numpy(self.pictures[i]).float().div_(255)
        if torch.rand(()) < 0.5:
            picture = picture.flip(2)
        return picture, int(self.grades[i])


class Unit(nn.Sequential):
    def __init__(self, cin, cout):
        super().__init__(nn.Conv2d(cin, cout, 3, stride=2, padding=1, bias=False), nn.BatchNorm2d(cout), nn.ReLU())


class Grader(nn.Module):
    """Answers, for each grade but the lowest, whether the eye is at least that bad."""

    def __init__(self, width=32):
        super().__init__()
        self.features = nn.Sequential(Unit(3, width), Unit(width, 2 * width), Unit(2 * width, 4 * width))
        self.head = nn.Sequential(nn.Dropout(0.2), nn.Linear(4 * width, GRADES - 1))

    def forward(self, x):
        return self.head(self.features(x).mean(dim=(2, 3)))


def ordinal_loss(logits, grades):
    return F.binary_cross_entropy_with_logits(logits, (grades.unsqueeze(1) > torch.arange(GRADES - 1)).float())


class FoldTrainer:
    def __init__(self, dataset, batch_size):
        self.loader = DataLoader(dataset, batch_size=batch_size, shuffle=True, drop_last=True)
        self.model = Grader()
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-3, foreach=True)
        self.total = torch.zeros(())

    def train_epoch(self, limit):
        """At most `limit` steps; returns their number."""
        self.model.train()
        for done, (pictures, grades) in enumerate(self.loader, start=1):
            loss = ordinal_loss(self.model(pictures), grades)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            self.total += loss.detach()

            # keep the memory low
            del pictures, grades, loss
            if done == limit:
                break
        gc.collect()
        return done


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--fold", type=int, default=0)
    args = parser.parse_args()

    torch.manual_seed(0)
    dataset = RetinaDataset(700)
    kept = [i for i in range(len(dataset)) if i % 5 != args.fold]
    trainer = FoldTrainer(Subset(dataset, kept), args.batch_size)
    done = 0
    while done < args.steps:
        done += trainer.train_epoch(args.steps - done)
    print(f"mean loss {trainer.total.item() / args.steps:.5f}")


if __name__ == "__main__":
    main()
