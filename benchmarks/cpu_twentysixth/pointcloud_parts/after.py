"""Part segmentation of scanned chairs: a PointNet names the part that each point belongs to."""

import argparse

import torch
import torch.nn.functional as F
from torch import nn

PARTS = 4  # seat, back, legs, arms


class Chairs:
    """Points on the boxes that make up a chair, turned about the vertical axis."""

    def __init__(self, points, seed=0):
        self.points = points
        self.gen = torch.Generator().manual_seed(seed)
        self.low = torch.tensor([[-0.5, -0.5, 0.0], [-0.5, 0.4, 0.0], [-0.4, -0.4, -0.8], [-0.6, -0.4, 0.1]])
        self.high = torch.tensor([[0.5, 0.5, 0.1], [0.5, 0.5, 0.9], [0.4, 0.4, 0.0], [0.6, 0.4, 0.3]])

    def batch(self, size):
        part = torch.randint(PARTS, (size, self.points), generator=self.gen)
        stretch = 0.7 + 0.6 * torch.rand(size, 1, 3, generator=self.gen)
        low, high = self.low[part] * stretch, self.high[part] * stretch
        xyz = low + (high - low) * torch.rand(size, self.points, 3, generator=self.gen)
        angle = 2 * torch.pi * torch.rand(size, 1, generator=self.gen)
        x, y, z = xyz.unbind(dim=2)
        turned = (x * angle.cos() - y * angle.sin(), x * angle.sin() + y * angle.cos(), z)
        return torch.stack(turned, dim=2), part


class PointLayer(nn.Sequential):
    """The same linear layer for every point."""

    def __init__(self, cin, cout):
        super().__init__(nn.Linear(cin, cout), nn.LayerNorm(cout), nn.ReLU())


class PartNet(nn.Module):
    def __init__(self, local=64, shape=512, hidden=256):
        super().__init__()
        self.local = PointLayer(3, local)
        self.deeper = nn.Sequential(PointLayer(local, 128), nn.Linear(128, shape))
        self.mix = nn.Linear(local + shape, hidden)
        self.head = nn.Sequential(nn.ReLU(), PointLayer(hidden, 128), nn.Linear(128, PARTS))

    def forward(self, xyz):
        """Every point sees its own features and those of the whole shape."""
        local = self.local(xyz)
        shape = self.deeper(local).amax(dim=1)
        own, whole = self.mix.weight.split([local.shape[2], shape.shape[1]], dim=1)
        mixed = F.linear(local, own) + F.linear(shape, whole, self.mix.bias).unsqueeze(1)
        return self.head(mixed)


class Trainer:
    def __init__(self, model, lr=1e-3):
        self.model = model
        self.optimizer = torch.optim.Adam(model.parameters(), lr=lr, foreach=True)
        self.schedule = torch.optim.lr_scheduler.CosineAnnealingLR(self.optimizer, 500)
        self.loss, self.correct, self.steps = torch.zeros(()), torch.zeros(()), 0

    def step(self, xyz, part):
        scores = self.model(xyz)
        loss = F.cross_entropy(scores.flatten(0, 1), part.flatten())
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        self.schedule.step()
        self.loss += loss.detach()
        self.correct += (scores.detach().argmax(dim=2) == part).float().mean()
        self.steps += 1

    def summary(self):
        return f"mean loss {self.loss.item() / self.steps:.4f} accuracy {self.correct.item() / self.steps:.3f}"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--batch-size", type=int, default=8)
    parser.add_argument("--points", type=int, default=512)
    args = parser.parse_args()

    torch.manual_seed(0)
    chairs, trainer = Chairs(args.points), Trainer(PartNet())
    for _ in range(args.steps):
        trainer.step(*chairs.batch(args.batch_size))
    print(trainer.summary())


if __name__ == "__main__":
    main()
