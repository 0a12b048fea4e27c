"""Train a class-conditional diffusion transformer on image latents."""
import argparse
import json
import math
import resource
import time

import torch
import torch.nn as nn
import torch.nn.functional as F


def modulate(x, shift, scale):
    return x * (1 + scale.unsqueeze(1)) + shift.unsqueeze(1)


class TimestepEmbedder(nn.Module):
    """Sinusoidal timestep features followed by an MLP."""

    def __init__(self, dim, freq_dim=256):
        super().__init__()
        half = freq_dim // 2
        freqs = torch.exp(-math.log(10000) * torch.arange(half) / half)
        self.register_buffer("freqs", freqs)
        self.mlp = nn.Sequential(nn.Linear(freq_dim, dim), nn.SiLU(), nn.Linear(dim, dim))

    def forward(self, t):
        angles = t.float()[:, None] * self.freqs[None]
        return self.mlp(torch.cat([angles.cos(), angles.sin()], dim=-1))


class DiTBlock(nn.Module):
    """Transformer block with adaptive layer norm conditioning."""

    def __init__(self, dim, heads, mlp_ratio=4):
        super().__init__()
        self.heads = heads
        self.norm1 = nn.LayerNorm(dim, elementwise_affine=False, eps=1e-6)
        self.norm2 = nn.LayerNorm(dim, elementwise_affine=False, eps=1e-6)
        self.qkv = nn.Linear(dim, 3 * dim)
        self.proj = nn.Linear(dim, dim)
        self.mlp = nn.Sequential(nn.Linear(dim, mlp_ratio * dim), nn.GELU(approximate="tanh"),
                                 nn.Linear(mlp_ratio * dim, dim))
        self.ada = nn.Sequential(nn.SiLU(), nn.Linear(dim, 6 * dim))

    def forward(self, x, c):
        s1, b1, g1, s2, b2, g2 = self.ada(c).chunk(6, dim=-1)
        B, N, D = x.shape
        qkv = self.qkv(modulate(self.norm1(x), b1, s1))
        q, k, v = qkv.view(B, N, 3, self.heads, D // self.heads).permute(2, 0, 3, 1, 4)
        attn = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(B, N, D)
        x = x + g1.unsqueeze(1) * self.proj(attn)
        return x + g2.unsqueeze(1) * self.mlp(modulate(self.norm2(x), b2, s2))


class DiT(nn.Module):
    def __init__(self, size=32, patch=2, channels=4, dim=512, depth=12, heads=8, classes=1000):
        super().__init__()
        self.patch = nn.Conv2d(channels, dim, patch, stride=patch)
        self.pos = nn.Parameter(torch.randn(1, (size // patch) ** 2, dim) * 0.02)
        self.time = TimestepEmbedder(dim)
        self.label = nn.Embedding(classes + 1, dim)
        self.blocks = nn.ModuleList(DiTBlock(dim, heads) for _ in range(depth))
        self.norm = nn.LayerNorm(dim, eps=1e-6)
        self.head = nn.Linear(dim, patch * patch * channels)
        self.fold = nn.PixelShuffle(patch)
        self.grid = size // patch

    def forward(self, x, t, y):
        x = self.patch(x).flatten(2).transpose(1, 2) + self.pos
        c = self.time(t) + self.label(y)
        for block in self.blocks:
            x = block(x, c)
        x = self.head(self.norm(x))
        x = x.transpose(1, 2).reshape(x.shape[0], -1, self.grid, self.grid)
        return self.fold(x)


@torch.no_grad()
def update_ema(ema_params, params, decay=0.9999):
    torch._foreach_lerp_(ema_params, params, 1 - decay)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--small", action="store_true")
    args = parser.parse_args()

    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if args.small:
        batch_size, model = 4, DiT(size=8, dim=64, depth=2, heads=2)
    else:
        batch_size, model = 64, DiT()
    size = model.grid * 2
    model = model.to(device)
    params = list(model.parameters())
    ema_params = [p.detach().clone() for p in params]
    optimizer = torch.optim.AdamW(params, lr=1e-4, weight_decay=0.0,
                                  fused=device.type == "cuda")

    # cached VAE latents of the training set
    latents = torch.randn(2048 if not args.small else 64, 4, size, size, device=device)
    labels = torch.randint(0, 1000, (latents.shape[0],), device=device)
    betas = torch.linspace(1e-4, 0.02, 1000, device=device)
    alpha_bar = torch.cumprod(1 - betas, dim=0)

    def train_step():
        idx = torch.randint(0, latents.shape[0], (batch_size,), device=device)
        x0, y = latents[idx], labels[idx]
        y = torch.where(torch.rand(batch_size, device=device) < 0.1, 1000, y)
        t = torch.randint(0, 1000, (batch_size,), device=device)
        noise = torch.randn_like(x0)
        a = alpha_bar[t].view(-1, 1, 1, 1)
        x_t = a.sqrt() * x0 + (1 - a).sqrt() * noise
        pred = model(x_t, t, y)
        loss = F.mse_loss(pred, noise)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        update_ema(ema_params, params)
        return loss.detach()

    for _ in range(10):
        train_step()

    if device.type == "cuda":
        torch.cuda.synchronize()
    total = torch.zeros((), device=device)
    start = time.perf_counter()
    for step in range(1, args.steps + 1):
        total += train_step()
        if step % 20 == 0:
            print(f"step {step:5d} | mean loss {total.item() / step:.4f}")
    if device.type == "cuda":
        torch.cuda.synchronize()
    elapsed = time.perf_counter() - start

    print(f"mean loss {total.item() / args.steps:.4f}")
    if device.type == "cuda":
        peak = torch.cuda.max_memory_allocated() / 2**20
    else:
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({"ms": elapsed / args.steps * 1000, "peak_mb": peak}))


if __name__ == "__main__":
    main()
