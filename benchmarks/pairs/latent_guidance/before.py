"""Sample images from a class-conditional latent diffusion transformer with classifier-free guidance (DDIM)."""

import argparse
import json
import math
import time

import torch
from torch import nn
from torch.nn import functional as F

WARMUP = 10


def now(device):
    if device.type == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter()


def timestep_features(t, width):
    frequencies = torch.exp(-math.log(10_000) * torch.arange(width // 2, device=t.device) / (width // 2))
    angles = t[:, None].float() * frequencies
    return torch.cat([angles.cos(), angles.sin()], -1)


class DiTBlock(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1 = nn.LayerNorm(width, elementwise_affine=False)
        self.norm2 = nn.LayerNorm(width, elementwise_affine=False)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.modulation = nn.Linear(width, 6 * width)

    def forward(self, x, c):
        b, n, w = x.shape
        shift1, scale1, gate1, shift2, scale2, gate2 = self.modulation(F.silu(c))[:, None].chunk(6, -1)
        h = self.norm1(x) * (1 + scale1) + shift1
        q, k, v = self.qkv(h).view(b, n, 3, self.heads, w // self.heads).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(b, n, w)
        x = x + gate1 * self.out(y)
        h = self.norm2(x) * (1 + scale2) + shift2
        return x + gate2 * self.down(F.gelu(self.up(h), approximate="tanh"))


class DiT(nn.Module):
    def __init__(self, side, patch, channels, width, depth, heads, classes):
        super().__init__()
        self.side, self.patch = side, patch
        self.embed = nn.Conv2d(channels, width, patch, patch)
        self.position = nn.Parameter(torch.randn(1, (side // patch) ** 2, width) * 0.02)
        self.labels = nn.Embedding(classes + 1, width)
        self.times = nn.Sequential(nn.Linear(256, width), nn.SiLU(), nn.Linear(width, width))
        self.blocks = nn.ModuleList([DiTBlock(width, heads) for _ in range(depth)])
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, patch * patch * channels)

    def forward(self, latents, t, labels):
        x = self.embed(latents).flatten(2).transpose(1, 2) + self.position
        c = self.times(timestep_features(t, 256).to(x.dtype)) + self.labels(labels)
        for block in self.blocks:
            x = block(x, c)
        x = self.head(self.norm(x)).transpose(1, 2)
        return F.pixel_shuffle(x.unflatten(2, (self.side // self.patch, -1)), self.patch)


class Sampler:
    def __init__(self, model, steps, guidance, null_label, device):
        self.model, self.guidance, self.null_label = model, guidance, null_label
        self.alphas = torch.cumprod(1 - torch.linspace(1e-4, 0.02, 1000), 0).tolist()
        self.times = torch.linspace(999, 0, steps).long().tolist()
        self.device = device

    def predict(self, latents, t, labels):
        t = torch.full((len(latents),), t, device=self.device)
        conditional = self.model(latents, t, labels)
        if self.guidance == 1:
            return conditional
        unconditional = self.model(latents, t, torch.full_like(labels, self.null_label))
        return unconditional + self.guidance * (conditional - unconditional)

    @torch.inference_mode()
    def __call__(self, noise, labels):
        latents = noise
        for t, following in zip(self.times, [*self.times[1:], None], strict=False):
            alpha = self.alphas[t]
            after = self.alphas[following] if following is not None else 1.0
            eps = self.predict(latents, t, labels)
            clean = (latents - math.sqrt(1 - alpha) * eps) / math.sqrt(alpha)
            latents = math.sqrt(after) * clean.clamp(-4, 4) + math.sqrt(1 - after) * eps
        return latents


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--small", action="store_true")
    args = parser.parse_args()
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    sizes = (2, 8, 32, 2, 2, 3) if args.small else (2, 32, 768, 12, 12, 16)
    batch, side, width, depth, heads, denoise = sizes

    dtype = torch.bfloat16 if device.type == "cuda" else torch.float32
    model = DiT(side, 2, 4, width, depth, heads, 1000).to(device, dtype).eval()
    sampler = Sampler(model, denoise, 4.0, 1000, device)
    labels = torch.randint(1000, (WARMUP + args.steps, batch), device=device)
    for step in range(WARMUP + args.steps):
        noise = torch.randn(batch, 4, side, side, device=device, dtype=dtype)
        images = sampler(noise, labels[step])
        if step + 1 == WARMUP:
            begin = now(device)
    ms = (now(device) - begin) / args.steps * 1e3
    print("deviation", images.float().std().item())
    peak = torch.cuda.max_memory_allocated() / 2**20 if device.type == "cuda" else 0.0
    print(json.dumps({"ms": round(ms, 3), "peak_mb": round(peak, 1)}))


if __name__ == "__main__":
    main()
