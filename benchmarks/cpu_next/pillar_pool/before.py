"""Bird's-eye-view object heatmaps from LiDAR sweeps (pillar encoder)."""
import argparse
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F


class Sweep:
    """Random driving scenes: ground returns plus a few car-sized boxes."""

    def __init__(self, points, extent, grid, seed):
        self.points, self.extent, self.grid = points, extent, grid
        self.rng = np.random.default_rng(seed)

    def __iter__(self):
        return self

    def __next__(self):
        rng = self.rng
        cars = rng.uniform(0.1, 0.9, (5, 2)) * self.extent
        ground = np.abs(rng.normal(0.5, 0.12, (self.points // 2, 2))).clip(0, 0.999) * self.extent
        which = rng.integers(0, len(cars), self.points - len(ground))
        body = cars[which] + rng.uniform(-1.0, 1.0, (len(which), 2)) * [2.2, 0.9]
        xy = np.concatenate([ground, body.clip(0, self.extent * 0.999)])
        z = np.concatenate([rng.normal(0, 0.05, len(ground)), rng.uniform(0.2, 1.6, len(body))])
        intensity = rng.uniform(0, 1, len(xy))
        heat = np.zeros((self.grid, self.grid), np.float32)
        cells = (cars / self.extent * self.grid).astype(int)
        heat[cells[:, 1], cells[:, 0]] = 1.0
        cloud = np.column_stack([xy, z, intensity]).astype(np.float32)
        return torch.from_numpy(cloud), torch.from_numpy(heat)


class PillarEncoder(nn.Module):
    def __init__(self, extent, grid, channels=64):
        super().__init__()
        self.extent, self.grid = extent, grid
        self.point_net = nn.Sequential(
            nn.Linear(6, 64), nn.LayerNorm(64), nn.ReLU(), nn.Linear(64, channels), nn.ReLU()
        )

    def forward(self, cloud):
        cell = self.extent / self.grid
        col_row = (cloud[:, :2] / cell).long().clamp_(0, self.grid - 1)
        pillar = col_row[:, 1] * self.grid + col_row[:, 0]
        offset = cloud[:, :2] / cell - col_row - 0.5
        feats = self.point_net(torch.cat([cloud, offset], 1))
        ids, owner = pillar.unique(return_inverse=True)
        pooled = torch.stack([feats[owner == i].mean(0) for i in range(len(ids))])
        canvas = feats.new_zeros(self.grid * self.grid, feats.shape[1])
        canvas = canvas.index_copy(0, ids, pooled)
        return canvas.t().reshape(1, -1, self.grid, self.grid)


class HeatmapNet(nn.Module):
    def __init__(self, extent=40.0, grid=32, channels=64):
        super().__init__()
        self.encoder = PillarEncoder(extent, grid, channels)
        layers = []
        for dilation in (1, 2, 1):
            layers += [
                nn.Conv2d(channels, channels, 3, padding=dilation, dilation=dilation, bias=False),
                nn.GroupNorm(8, channels),
                nn.ReLU(),
            ]
        self.backbone = nn.Sequential(*layers)
        self.head = nn.Conv2d(channels, 1, 1)
        nn.init.constant_(self.head.bias, -2.0)

    def forward(self, cloud):
        return self.head(self.backbone(self.encoder(cloud)))[0, 0]


def focal_loss(logits, target, gamma=2.0):
    p = logits.sigmoid()
    ce = F.binary_cross_entropy_with_logits(logits, target, reduction="none")
    weight = torch.where(target > 0, (1 - p) ** gamma, 0.25 * p ** gamma)
    return (weight * ce).sum() / target.sum().clamp(min=1)


def train(args):
    torch.manual_seed(0)
    model = HeatmapNet()
    sweeps = Sweep(args.points, 40.0, 32, seed=1)
    opt = torch.optim.Adam(model.parameters(), lr=1e-3)
    mark = time.perf_counter()
    for step, (cloud, heat) in enumerate(sweeps):
        if step == args.steps:
            break
        if step == 5:
            mark = time.perf_counter()
        loss = focal_loss(model(cloud), heat)
        opt.zero_grad()
        loss.backward()
        opt.step()
        if (step + 1) % 20 == 0:
            print(f"sweep {step + 1} loss {loss.item():.4f}")
    return (time.perf_counter() - mark) / max(1, args.steps - 5)


if __name__ == "__main__":
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=60)
    ap.add_argument("--points", type=int, default=4000)
    print(f"mean step {train(ap.parse_args()) * 1000:.2f} ms")
