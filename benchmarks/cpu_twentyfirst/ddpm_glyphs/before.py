"""Denoising diffusion on rendered glyphs, with an exponential moving average of the weights."""
import argparse
import copy
import json
import math
import statistics
import sys
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from PIL import Image, ImageDraw, ImageFont

SIZE = 16
T = 200
BATCH = 8


def glyph_images(n, seed):
    rng = np.random.default_rng(seed)
    font = ImageFont.load_default(size=12)
    images = np.zeros((n, SIZE, SIZE), dtype=np.float32)
    for i in range(n):
        canvas = Image.new("L", (SIZE, SIZE), 0)
        glyph = "0123456789"[int(rng.integers(10))]
        x, y = rng.uniform(2, 7), rng.uniform(-1, 3)
        ImageDraw.Draw(canvas).text((x, y), glyph, fill=255, font=font)
        images[i] = np.asarray(canvas.rotate(rng.uniform(-12, 12))) / 127.5 - 1
    return torch.from_numpy(images).unsqueeze(1)


class ResBlock(nn.Module):
    def __init__(self, c_in, c_out, t_dim):
        super().__init__()
        self.norm1, self.conv1 = nn.GroupNorm(4, c_in), nn.Conv2d(c_in, c_out, 3, padding=1)
        self.norm2, self.conv2 = nn.GroupNorm(4, c_out), nn.Conv2d(c_out, c_out, 3, padding=1)
        self.time = nn.Linear(t_dim, c_out)
        self.skip = nn.Conv2d(c_in, c_out, 1) if c_in != c_out else nn.Identity()

    def forward(self, x, t):
        h = self.conv1(F.silu(self.norm1(x)))
        h = h + self.time(F.silu(t))[:, :, None, None]
        return self.skip(x) + self.conv2(F.silu(self.norm2(h)))


class Attention(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.norm, self.qkv, self.out = nn.GroupNorm(4, c), nn.Conv2d(c, 3 * c, 1), nn.Conv2d(c, c, 1)

    def forward(self, x):
        b, c, h, w = x.shape
        q, k, v = self.qkv(self.norm(x)).flatten(2).transpose(1, 2).chunk(3, dim=2)
        a = F.scaled_dot_product_attention(q, k, v)
        return x + self.out(a.transpose(1, 2).reshape(b, c, h, w))


class UNet(nn.Module):
    def __init__(self, c=16, t_dim=64):
        super().__init__()
        self.t_dim = t_dim
        self.time = nn.Sequential(nn.Linear(t_dim, t_dim), nn.SiLU(), nn.Linear(t_dim, t_dim))
        self.stem = nn.Conv2d(1, c, 3, padding=1)
        self.down1 = nn.ModuleList([ResBlock(c, c, t_dim), ResBlock(c, c, t_dim)])
        self.pool1 = nn.Conv2d(c, 2 * c, 3, stride=2, padding=1)
        self.down2 = nn.ModuleList([ResBlock(2 * c, 2 * c, t_dim), ResBlock(2 * c, 2 * c, t_dim)])
        self.pool2 = nn.Conv2d(2 * c, 2 * c, 3, stride=2, padding=1)
        self.mid1, self.attention, self.mid2 = ResBlock(2 * c, 2 * c, t_dim), Attention(2 * c), ResBlock(2 * c, 2 * c, t_dim)
        self.up2 = nn.ModuleList([ResBlock(4 * c, 2 * c, t_dim), ResBlock(2 * c, 2 * c, t_dim)])
        self.up1 = nn.ModuleList([ResBlock(3 * c, c, t_dim), ResBlock(c, c, t_dim)])
        self.norm, self.out = nn.GroupNorm(4, c), nn.Conv2d(c, 1, 3, padding=1)

    def forward(self, x, t):
        freqs = torch.exp(-math.log(1e4) * torch.arange(self.t_dim // 2) / (self.t_dim // 2))
        angles = t[:, None].float() * freqs
        emb = self.time(torch.cat([angles.sin(), angles.cos()], 1))
        h1 = self.stem(x)
        for block in self.down1:
            h1 = block(h1, emb)
        h2 = self.pool1(h1)
        for block in self.down2:
            h2 = block(h2, emb)
        h = self.mid2(self.attention(self.mid1(self.pool2(h2), emb)), emb)
        h = torch.cat([F.interpolate(h, scale_factor=2), h2], 1)
        for block in self.up2:
            h = block(h, emb)
        h = torch.cat([F.interpolate(h, scale_factor=2), h1], 1)
        for block in self.up1:
            h = block(h, emb)
        return self.out(F.silu(self.norm(h)))


class EMA:
    def __init__(self, model, decay=0.995):
        self.decay = decay
        self.model = copy.deepcopy(model).eval().requires_grad_(False)
        self.shadow = self.model.state_dict()

    @torch.no_grad()
    def update(self, model):
        for name, average in self.shadow.items():
            average.lerp_(model.state_dict()[name], 1 - self.decay)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=160)
    args = parser.parse_args()

    torch.manual_seed(0)
    images = glyph_images(600, seed=0)
    alpha_bar = torch.cumprod(1 - torch.linspace(1e-4, 0.04, T), 0)
    model = UNet()
    ema = EMA(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

    times = []
    for step in range(args.steps):
        t0 = time.perf_counter()
        x0 = images[torch.randint(len(images), (BATCH,))]
        t = torch.randint(T, (BATCH,))
        noise = torch.randn_like(x0)
        a = alpha_bar[t].view(-1, 1, 1, 1)
        loss = F.mse_loss(model(a.sqrt() * x0 + (1 - a).sqrt() * noise, t), noise)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        ema.update(model)
        times.append((time.perf_counter() - t0) * 1000)
        if (step + 1) % 20 == 0:
            drift = sum(v.double().abs().sum().item() for v in ema.shadow.values())
            print(f"step {step + 1} loss {loss.item():.5f} ema {drift:.4f}", file=sys.stderr)

    timed = times[5:] or times
    print(json.dumps({"ms": statistics.median(timed), "steps": args.steps}))


if __name__ == "__main__":
    main()
