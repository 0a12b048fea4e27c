"""Classify point clouds with dynamic edge convolutions."""
import argparse
import math
import time

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset


class Solids(Dataset):
    """Points on spheres, cubes, cylinders and cones, jittered and rotated."""

    def __init__(self, n=160, points=384, seed=0):
        g = torch.Generator().manual_seed(seed)
        self.labels = torch.randint(0, 4, (n,), generator=g)
        clouds = []
        for label in self.labels.tolist():
            u = torch.rand(points, generator=g) * 2 * math.pi
            z = torch.rand(points, generator=g) * 2 - 1
            if label == 0:
                r = (1 - z * z).sqrt()
                cloud = torch.stack([r * u.cos(), r * u.sin(), z], 1)
            elif label == 1:
                cloud = torch.rand(points, 3, generator=g) * 2 - 1
                cloud = cloud / cloud.abs().amax(dim=1, keepdim=True)
            else:
                r = torch.ones(points) if label == 2 else (1 - z) / 2
                cloud = torch.stack([r * u.cos(), r * u.sin(), z], 1)
            clouds.append(cloud + 0.02 * torch.randn(points, 3, generator=g))
        self.clouds = torch.stack(clouds)

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, i):
        angle = torch.rand(()) * 2 * math.pi
        c, s = angle.cos(), angle.sin()
        rotation = torch.stack([torch.stack([c, -s]), torch.stack([s, c])])
        cloud = self.clouds[i].clone()
        cloud[:, :2] = cloud[:, :2] @ rotation
        return cloud, self.labels[i]


@torch.no_grad()
def nearest(x, k):
    """Indices (B, N, k) of the k nearest points in feature space."""
    distance = torch.cdist(x, x)
    return distance.argsort(dim=-1)[:, :, :k]


class EdgeConv(nn.Module):
    def __init__(self, cin, cout, k):
        super().__init__()
        self.k = k
        self.mlp = nn.Sequential(nn.Linear(2 * cin, cout), nn.LayerNorm(cout), nn.LeakyReLU(0.2))

    def forward(self, x):
        b, n, c = x.shape
        index = nearest(x, self.k).reshape(b, n * self.k, 1).expand(-1, -1, c)
        neighbours = x.gather(1, index).view(b, n, self.k, c)
        center = x.unsqueeze(2).expand_as(neighbours)
        edges = torch.cat([center, neighbours - center], dim=-1)
        return self.mlp(edges).amax(dim=2)


class DGCNN(nn.Module):
    def __init__(self, k=8, classes=4):
        super().__init__()
        self.conv1 = EdgeConv(3, 24, k)
        self.conv2 = EdgeConv(24, 32, k)
        self.conv3 = EdgeConv(32, 32, k)
        self.head = nn.Sequential(nn.Linear(88, 64), nn.ReLU(), nn.Linear(64, classes))

    def forward(self, x):
        a = self.conv1(x)
        b = self.conv2(a)
        c = self.conv3(b)
        return self.head(torch.cat([a, b, c], dim=-1).amax(dim=1))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--batch-size", type=int, default=8)
    parser.add_argument("--k", type=int, default=8)
    args = parser.parse_args()
    torch.manual_seed(0)

    loader = DataLoader(Solids(), batch_size=args.batch_size, shuffle=True, drop_last=True)
    model = DGCNN(args.k)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    step, start = 0, time.perf_counter()
    while step < args.steps:
        for clouds, labels in loader:
            if step == 5:
                start = time.perf_counter()
            loss = F.cross_entropy(model(clouds), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            step += 1
            if step % 20 == 0:
                print(f"step {step}: loss {loss.item():.4f}")
            if step >= args.steps:
                break
    elapsed = time.perf_counter() - start
    print(f"final loss {loss.item():.5f}")
    print(f"mean step {1000 * elapsed / max(1, step - 5):.2f} ms")


if __name__ == "__main__":
    main()
