"""Point cloud autoencoder (PointNet encoder, MLP decoder) trained with the Chamfer distance."""
import argparse
import statistics
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

POINTS = 512


class ScannedObjects(Dataset):
    """Boxes, ellipsoids and cylinders as seen by a scanner, unit-normalised, with noise."""

    def __init__(self, n=256, seed=4):
        g = torch.Generator().manual_seed(seed)
        clouds = []
        for i in range(n):
            u = torch.randn(POINTS, 3, generator=g)
            scale = 0.4 + 0.6 * torch.rand(3, generator=g)
            if i % 3 == 0:
                pts = u / u.norm(dim=1, keepdim=True)
            elif i % 3 == 1:
                pts = u / u.abs().amax(dim=1, keepdim=True)
            else:
                xy = u[:, :2] / u[:, :2].norm(dim=1, keepdim=True)
                pts = torch.cat([xy, u[:, 2:].clamp(-1, 1)], dim=1)
            clouds.append(pts * scale + 0.01 * torch.randn(POINTS, 3, generator=g))
        self.clouds = torch.stack(clouds)

    def __len__(self):
        return len(self.clouds)

    def __getitem__(self, i):
        return self.clouds[i]


class PointAE(nn.Module):
    def __init__(self, latent=128):
        super().__init__()
        self.encoder = nn.Sequential(
            nn.Conv1d(3, 64, 1), nn.BatchNorm1d(64), nn.ReLU(),
            nn.Conv1d(64, 128, 1), nn.BatchNorm1d(128), nn.ReLU(),
            nn.Conv1d(128, 256, 1), nn.BatchNorm1d(256), nn.ReLU(),
            nn.Conv1d(256, latent, 1))
        self.decoder = nn.Sequential(
            nn.Linear(latent, 256), nn.ReLU(),
            nn.Linear(256, 512), nn.ReLU(),
            nn.Linear(512, POINTS * 3))

    def forward(self, pts):
        code = self.encoder(pts.transpose(1, 2)).amax(dim=2)
        return self.decoder(code).view(-1, POINTS, 3)


def chamfer_distance(a, b):
    diff = a.unsqueeze(2) - b.unsqueeze(1)
    dist = (diff ** 2).sum(dim=-1)
    return dist.min(dim=2).values.mean() + dist.min(dim=1).values.mean()


class Run:
    def __init__(self, args):
        self.args = args
        torch.manual_seed(0)
        self.loader = DataLoader(ScannedObjects(), batch_size=8, shuffle=True, drop_last=True)
        self.model = PointAE()
        self.opt = torch.optim.Adam(self.model.parameters(), lr=5e-4)
        self.times = []

    def batches(self):
        while True:
            yield from self.loader

    def step(self, pts):
        recon = self.model(pts)
        loss = chamfer_distance(recon, pts)
        self.opt.zero_grad()
        loss.backward()
        self.opt.step()
        return loss

    def go(self):
        start = t0 = time.perf_counter()
        for pts in self.batches():
            self.loss = self.step(pts)
            now = time.perf_counter()
            self.times.append(now - t0)
            if len(self.times) >= self.args.steps and now - start >= (self.args.seconds or 0):
                break
            t0 = time.perf_counter()


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=60)
    ap.add_argument("--seconds", type=float)
    run = Run(ap.parse_args())
    run.go()
    print(f"step_ms {statistics.median(run.times[5:]) * 1000:.3f}")
    return run.loss.item()


if __name__ == "__main__":
    main()
