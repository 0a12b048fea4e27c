"""Fit a neural radiance field to posed photographs of one object."""
import argparse
import json
import math
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

WARMUP = 10


def make_views(count, size, device):
    """Smooth pictures and cameras on a circle around the object."""
    coarse = torch.rand(count, 3, 20, 20, device=device)
    images = F.interpolate(coarse, size=(size, size), mode="bicubic", align_corners=False).clamp(0, 1)
    poses = []
    for i in range(count):
        a = 2 * math.pi * i / count
        centre = torch.tensor([4 * math.cos(a), 4 * math.sin(a), 1.5])
        back = F.normalize(centre, dim=0)
        right = F.normalize(torch.linalg.cross(torch.tensor([0.0, 0.0, 1.0]), back), dim=0)
        up = torch.linalg.cross(back, right)
        poses.append(torch.cat([torch.stack([right, up, back], dim=1), centre[:, None]], dim=1))
    return images.permute(0, 2, 3, 1).flatten(1, 2).contiguous(), torch.stack(poses).to(device)


class Encoding(nn.Module):
    def __init__(self, bands):
        super().__init__()
        self.register_buffer("scales", math.pi * 2.0 ** torch.arange(bands))
        self.size = 3 + 6 * bands

    def forward(self, x):
        angles = (x[..., None, :] * self.scales[:, None]).flatten(-2)
        return torch.cat([x, angles.sin(), angles.cos()], dim=-1)


class RadianceField(nn.Module):
    def __init__(self, width, depth, point_bands=8, view_bands=4):
        super().__init__()
        self.point_code = Encoding(point_bands)
        self.view_code = Encoding(view_bands)
        self.skip = depth // 2
        size = self.point_code.size
        layers = []
        for i in range(depth):
            cin = size if i == 0 else width + (size if i == self.skip else 0)
            layers.append(nn.Linear(cin, width))
        self.layers = nn.ModuleList(layers)
        self.density = nn.Linear(width, 1)
        self.feature = nn.Linear(width, width)
        self.colour1 = nn.Linear(width + self.view_code.size, width // 2)
        self.colour2 = nn.Linear(width // 2, 3)

    def forward(self, points, views):
        code = self.point_code(points)
        h = code
        for i, layer in enumerate(self.layers):
            if i == self.skip:
                h = torch.cat([h, code], dim=-1)
            h = F.relu(layer(h))
        density = F.softplus(self.density(h).squeeze(-1))
        view = self.view_code(views)[:, None].expand(-1, points.shape[1], -1)
        h = F.relu(self.colour1(torch.cat([self.feature(h), view], dim=-1)))
        return density, torch.sigmoid(self.colour2(h))


class RayBatches:
    """Random pixels of a random view, as rays with their true colours."""

    def __init__(self, images, poses, size, focal, rays):
        self.images, self.poses = images, poses
        self.size, self.focal, self.rays = size, focal, rays

    def draw(self):
        view = np.random.randint(len(self.images))
        chosen = np.random.choice(self.size * self.size, size=self.rays, replace=False)
        pixel = torch.from_numpy(chosen).to(self.images.device)
        row, column = pixel // self.size, pixel % self.size
        x = (column - self.size * 0.5) / self.focal
        y = -(row - self.size * 0.5) / self.focal
        local = torch.stack([x, y, -torch.ones_like(x)], dim=-1)
        pose = self.poses[view]
        direction = local @ pose[:, :3].T
        return pose[:, 3].expand_as(direction), direction, self.images[view][pixel]


def render(field, origin, direction, near, far, samples):
    rays = len(origin)
    edges = torch.linspace(near, far, samples + 1, device=origin.device)
    depth = edges[:-1] + (edges[1:] - edges[:-1]) * torch.rand(rays, samples, device=origin.device)
    points = origin[:, None] + direction[:, None] * depth[..., None]
    density, colour = field(points / far, F.normalize(direction, dim=-1))
    gaps = torch.cat([depth[:, 1:] - depth[:, :-1], torch.full_like(depth[:, :1], 1e3)], dim=1)
    optical = density * gaps * direction.norm(dim=-1, keepdim=True)
    alpha = 1 - torch.exp(-optical)
    through = torch.exp(-torch.cumsum(optical, dim=1) + optical)
    weights = alpha * through
    rgb = (weights[..., None] * colour).sum(dim=1)
    return rgb + (1 - weights.sum(dim=1, keepdim=True))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--small", action="store_true")
    args = parser.parse_args()
    torch.manual_seed(0)
    np.random.seed(0)
    device = "cuda" if torch.cuda.is_available() else "cpu"

    if args.small:
        count, size, rays, samples, width, depth = 3, 32, 32, 8, 16, 4
    else:
        count, size, rays, samples, width, depth = 24, 800, 4096, 64, 128, 6

    images, poses = make_views(count, size, device)
    batches = RayBatches(images, poses, size, focal=1.1 * size, rays=rays)
    field = RadianceField(width, depth).to(device)
    optimizer = torch.optim.Adam(field.parameters(), lr=5e-4)
    schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9999)
    running = torch.zeros((), device=device)

    for step in range(WARMUP + args.steps):
        if step == WARMUP:
            if device == "cuda":
                torch.cuda.synchronize()
            start = time.perf_counter()
        origin, direction, target = batches.draw()
        rgb = render(field, origin, direction, near=2.0, far=6.0, samples=samples)
        loss = F.mse_loss(rgb, target)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        schedule.step()
        running.lerp_(loss.detach(), 0.05)

    if device == "cuda":
        torch.cuda.synchronize()
    elapsed = time.perf_counter() - start

    print(f"running psnr {-10 * math.log10(running.item()):.2f}")
    peak = torch.cuda.max_memory_allocated() / 2**20 if device == "cuda" else 0
    print(json.dumps({"ms": elapsed / args.steps * 1e3, "peak_mb": peak}))


if __name__ == "__main__":
    main()
