"""Denoising diffusion on 16x16 glyphs with a small U-Net."""
import argparse
import math
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(99)
torch.autograd.set_detect_anomaly(True)


def timestep_embedding(t, dim):
    freqs = torch.exp(-math.log(10000) * torch.arange(dim // 2) / (dim // 2))
    angles = t[:, None].float() * freqs
    return torch.cat([angles.sin(), angles.cos()], dim=1)


class ResBlock(nn.Module):
    def __init__(self, inputs, outputs, temb):
        super().__init__()
        self.norm1 = nn.GroupNorm(4, inputs)
        self.conv1 = nn.Conv2d(inputs, outputs, 3, padding=1)
        self.time = nn.Linear(temb, outputs)
        self.norm2 = nn.GroupNorm(4, outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, padding=1)
        self.skip = nn.Conv2d(inputs, outputs, 1) if inputs != outputs else nn.Identity()

    def forward(self, x, temb):
        h = self.conv1(F.silu(self.norm1(x)))
        h = h + self.time(F.silu(temb))[:, :, None, None]
        h = self.conv2(F.silu(self.norm2(h)))
        return h + self.skip(x)


class UNet(nn.Module):
    def __init__(self, width=16, temb=64):
        super().__init__()
        self.width = width
        self.embed = nn.Sequential(nn.Linear(width, temb), nn.SiLU(), nn.Linear(temb, temb))
        self.inp = nn.Conv2d(1, width, 3, padding=1)
        self.down1 = ResBlock(width, width, temb)
        self.down2 = ResBlock(width, width * 2, temb)
        self.mid1 = ResBlock(width * 2, width * 2, temb)
        self.mid2 = ResBlock(width * 2, width * 2, temb)
        self.up2 = ResBlock(width * 4, width, temb)
        self.up1 = ResBlock(width * 2, width, temb)
        self.norm = nn.GroupNorm(4, width)
        self.out = nn.Conv2d(width, 1, 3, padding=1)

    def forward(self, x, t):
        temb = self.embed(timestep_embedding(t, self.width))
        a = self.down1(self.inp(x), temb)
        b = self.down2(F.avg_pool2d(a, 2), temb)
        h = self.mid2(self.mid1(F.avg_pool2d(b, 2), temb), temb)
        h = self.up2(torch.cat([F.interpolate(h, scale_factor=2), b], 1), temb)
        h = self.up1(torch.cat([F.interpolate(h, scale_factor=2), a], 1), temb)
        return self.out(F.silu(self.norm(h)))


class Diffusion:
    def __init__(self, steps=400):
        self.steps = steps
        betas = torch.linspace(1e-4, 0.02, steps)
        alphas_bar = torch.cumprod(1 - betas, 0)
        self.signal = alphas_bar.sqrt()
        self.noise = (1 - alphas_bar).sqrt()

    def loss(self, model, x0):
        t = torch.randint(self.steps, (len(x0),))
        eps = torch.randn_like(x0)
        xt = self.signal[t][:, None, None, None] * x0 + self.noise[t][:, None, None, None] * eps
        return F.mse_loss(model(xt, t), eps)


def glyphs(batch):
    """Random crosses and frames."""
    grid = torch.arange(16)
    centre = torch.randint(4, 12, (batch, 2, 1))
    rows = (grid - centre[:, 0]).abs()
    cols = (grid - centre[:, 1]).abs()
    cross = (rows[:, :, None] < 1) | (cols[:, None, :] < 1)
    frame = torch.maximum(rows[:, :, None], cols[:, None, :]) == 3
    pick = torch.rand(batch, 1, 1) < 0.5
    return torch.where(pick, cross, frame).float().unsqueeze(1) * 2 - 1


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--batch", type=int, default=16)
    args = parser.parse_args()
    model = UNet()
    diffusion = Diffusion()
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-4)
    warm = min(5, args.steps - 1)
    for step in range(args.steps):
        if step == warm:
            start = time.perf_counter()
        loss = diffusion.loss(model, glyphs(args.batch))
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if step % 10 == 0:
            print(f"{step:5d}  {loss.item():.5f}")
    print(f"mean step {1000 * (time.perf_counter() - start) / (args.steps - warm):.2f} ms")
