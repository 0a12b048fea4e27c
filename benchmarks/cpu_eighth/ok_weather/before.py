"""Statistical downscaling of weather fields: coarse reanalysis to a 4x finer grid."""
import argparse
import copy
import statistics
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

SCALE = 4
VARIABLES = 3


def make_fields(count, size, rng):
    """Random smooth fields with a power-law spectrum over fixed orography."""
    fy = np.fft.fftfreq(size)[:, None]
    fx = np.fft.rfftfreq(size)[None, :]
    amplitude = 1.0 / (np.hypot(fy, fx) + 1.0 / size) ** 1.6
    noise = rng.normal(size=(count, VARIABLES, size, size // 2 + 1, 2))
    fields = np.fft.irfft2((noise[..., 0] + 1j * noise[..., 1]) * amplitude, s=(size, size))
    relief = np.fft.irfft2(amplitude * np.exp(2j * np.pi * rng.random(amplitude.shape)), s=(size, size))
    relief = (relief - relief.mean()) / relief.std()
    fields = (fields - fields.mean((0, 2, 3), keepdims=True)) / fields.std((0, 2, 3), keepdims=True)
    fields[:, 0] -= 0.5 * relief
    return torch.from_numpy(fields.astype(np.float32)), torch.from_numpy(relief.astype(np.float32))


class ResidualBlock(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.conv1 = nn.Conv2d(width, width, 3, padding=1)
        self.conv2 = nn.Conv2d(width, width, 3, padding=1)

    def forward(self, x):
        return x + 0.2 * self.conv2(F.silu(self.conv1(x)))


class Downscaler(nn.Module):
    """Works on the coarse grid; the fine relief enters folded into channels."""

    def __init__(self, width=64, depth=6):
        super().__init__()
        self.fold = nn.PixelUnshuffle(SCALE)
        self.entry = nn.Conv2d(VARIABLES + SCALE * SCALE, width, 3, padding=1)
        self.body = nn.Sequential(*(ResidualBlock(width) for _ in range(depth)))
        self.exit = nn.Conv2d(width, VARIABLES * SCALE * SCALE, 3, padding=1)
        self.unfold = nn.PixelShuffle(SCALE)

    def forward(self, coarse, relief):
        x = self.entry(torch.cat([coarse, self.fold(relief)], dim=1))
        detail = self.unfold(self.exit(self.body(x)))
        return detail + F.interpolate(coarse, scale_factor=SCALE, mode="bilinear", align_corners=False)


class PatchSampler:
    def __init__(self, fields, relief, patch, batch_size, rng):
        self.fields, self.relief = fields, relief
        self.patch, self.batch_size, self.rng = patch, batch_size, rng

    def next(self):
        size = self.fields.shape[-1]
        days = self.rng.integers(0, len(self.fields), self.batch_size)
        corners = SCALE * self.rng.integers(0, (size - self.patch) // SCALE + 1, (self.batch_size, 2))
        fine, relief = [], []
        for day, (top, left) in zip(days, corners):
            window = (slice(top, top + self.patch), slice(left, left + self.patch))
            fine.append(self.fields[day][:, window[0], window[1]])
            relief.append(self.relief[window].unsqueeze(0))
        fine = torch.stack(fine)
        return F.avg_pool2d(fine, SCALE), torch.stack(relief), fine


def gradient_loss(pred, target):
    dx = F.l1_loss(pred.diff(dim=-1), target.diff(dim=-1))
    dy = F.l1_loss(pred.diff(dim=-2), target.diff(dim=-2))
    return dx + dy


@torch.no_grad()
def validate(model, sampler_args):
    coarse, relief, fine = sampler_args
    model.eval()
    rmse = (model(coarse, relief) - fine).square().mean().sqrt().item()
    model.train()
    return rmse


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--batch-size", type=int, default=12)
    parser.add_argument("--patch", type=int, default=128)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--seed", type=int, default=13)
    args = parser.parse_args()

    torch.manual_seed(args.seed)
    rng = np.random.default_rng(args.seed)
    fields, relief = make_fields(40, 256, rng)
    sampler = PatchSampler(fields[:-8], relief, args.patch, args.batch_size, rng)
    held_out = PatchSampler(fields[-8:], relief, args.patch, 8, rng).next()

    model = Downscaler()
    averaged = copy.deepcopy(model).requires_grad_(False)
    params, shadow = list(model.parameters()), list(averaged.parameters())
    optimizer = torch.optim.AdamW(params, lr=args.lr, weight_decay=1e-4, fused=True)
    warmup = 10
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda s: min(1.0, (s + 1) / warmup))

    times = []
    total = torch.zeros(())
    for step in range(args.steps):
        start = time.perf_counter()
        coarse, terrain, fine = sampler.next()
        pred = model(coarse, terrain)
        loss = F.smooth_l1_loss(pred, fine) + 0.2 * gradient_loss(pred, fine)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(params, 1.0)
        optimizer.step()
        schedule.step()
        with torch.no_grad():
            torch._foreach_lerp_(shadow, params, 0.1)
        total += loss.detach()
        times.append(time.perf_counter() - start)
        if step % 20 == 19 or step == args.steps - 1:
            rmse = validate(averaged, held_out)
            print(f"step {step:3d}  mean loss {total.item() / (step + 1):.4f}  held-out rmse {rmse:.4f}")

    print(f"step_ms: {1000 * statistics.median(times):.1f}")


if __name__ == "__main__":
    main()
