"""Masked autoencoder pre-training on small textured images."""
import argparse
import math
import statistics
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

IMAGE = 96
PATCH = 8
CHANNELS = 3
TOKENS = (IMAGE // PATCH) ** 2


def make_images(count, rng):
    """Oriented gratings with a soft blob, in colour, stored as bytes."""
    yy, xx = np.mgrid[0:IMAGE, 0:IMAGE].astype(np.float32) / IMAGE
    angle = rng.uniform(0, np.pi, (count, 1, 1)).astype(np.float32)
    freq = rng.uniform(3, 16, (count, 1, 1)).astype(np.float32)
    grating = np.sin(2 * np.pi * freq * (xx * np.cos(angle) + yy * np.sin(angle)))
    centre = rng.uniform(0.2, 0.8, (2, count, 1, 1)).astype(np.float32)
    blob = np.exp(-((xx - centre[0]) ** 2 + (yy - centre[1]) ** 2) / 0.03)
    colour = rng.uniform(-1, 1, (2, count, CHANNELS, 1, 1)).astype(np.float32)
    image = colour[0] * grating[:, None] + colour[1] * blob[:, None]
    return torch.from_numpy((127.5 + 60 * image).clip(0, 255).astype(np.uint8))


def patchify(images):
    n, side = images.shape[0], IMAGE // PATCH
    x = images.view(n, CHANNELS, side, PATCH, side, PATCH)
    return x.permute(0, 2, 4, 3, 5, 1).reshape(n, TOKENS, PATCH * PATCH * CHANNELS)


class Block(nn.Module):
    def __init__(self, dim, heads, ratio=4):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.qkv = nn.Linear(dim, 3 * dim)
        self.out = nn.Linear(dim, dim)
        self.mlp = nn.Sequential(nn.Linear(dim, ratio * dim), nn.GELU(), nn.Linear(ratio * dim, dim))

    def forward(self, x):
        n, t, d = x.shape
        qkv = self.qkv(self.norm1(x)).view(n, t, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        attended = F.scaled_dot_product_attention(qkv[0], qkv[1], qkv[2])
        x = x + self.out(attended.transpose(1, 2).reshape(n, t, d))
        return x + self.mlp(self.norm2(x))


class MaskedAutoencoder(nn.Module):
    def __init__(self, dim=192, depth=6, dec_dim=96, dec_depth=2, mask_ratio=0.75):
        super().__init__()
        self.keep = int(TOKENS * (1 - mask_ratio))
        patch_dim = PATCH * PATCH * CHANNELS
        self.embed = nn.Linear(patch_dim, dim)
        self.register_buffer("enc_pos", self.sincos(dim))
        self.register_buffer("dec_pos", self.sincos(dec_dim))
        self.encoder = nn.Sequential(*(Block(dim, 6) for _ in range(depth)), nn.LayerNorm(dim))
        self.bridge = nn.Linear(dim, dec_dim)
        self.mask_token = nn.Parameter(torch.zeros(dec_dim))
        self.decoder = nn.Sequential(*(Block(dec_dim, 3) for _ in range(dec_depth)), nn.LayerNorm(dec_dim))
        self.predict = nn.Linear(dec_dim, patch_dim)

    @staticmethod
    def sincos(dim):
        side = IMAGE // PATCH
        omega = torch.exp(-math.log(1e4) * torch.arange(dim // 4) / (dim // 4))
        rows, cols = torch.meshgrid(torch.arange(side), torch.arange(side), indexing="ij")
        parts = [f(axis.reshape(-1, 1) * omega) for axis in (rows, cols) for f in (torch.sin, torch.cos)]
        return torch.cat(parts, dim=1)

    def forward(self, patches):
        n = len(patches)
        order = torch.rand(n, TOKENS).argsort(dim=1)
        visible, masked = order[:, :self.keep], order[:, self.keep:]
        rows = torch.arange(n).unsqueeze(1)
        encoded = self.encoder(self.embed(patches[rows, visible]) + self.enc_pos[visible])
        seen = self.bridge(encoded) + self.dec_pos[visible]
        hidden = self.mask_token + self.dec_pos[masked]
        decoded = self.decoder(torch.cat([seen, hidden], dim=1))[:, self.keep:]
        target = patches[rows, masked]
        var, mean = torch.var_mean(target, dim=-1, keepdim=True)
        return F.mse_loss(self.predict(decoded), (target - mean) / (var + 1e-4).sqrt())


def parameter_groups(model, decay):
    matrices = [p for p in model.parameters() if p.ndim >= 2]
    others = [p for p in model.parameters() if p.ndim < 2]
    return [{"params": matrices, "weight_decay": decay}, {"params": others, "weight_decay": 0.0}]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--seed", type=int, default=41)
    args = parser.parse_args()

    torch.manual_seed(args.seed)
    images = make_images(768, np.random.default_rng(args.seed))

    model = MaskedAutoencoder()
    optimizer = torch.optim.AdamW(parameter_groups(model, 0.05), lr=args.lr, betas=(0.9, 0.95), fused=True)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=max(args.steps, 1), eta_min=1e-5)

    times = []
    smoothed = torch.ones(())
    for step in range(args.steps):
        start = time.perf_counter()
        idx = torch.randint(len(images), (args.batch_size,))
        batch = images[idx].float().div_(127.5).sub_(1.0)
        if torch.rand(()) < 0.5:
            batch = batch.flip(-1)
        loss = model(patchify(batch.contiguous()))
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 3.0)
        optimizer.step()
        schedule.step()
        smoothed.lerp_(loss.detach(), 0.1)
        times.append(time.perf_counter() - start)
        if step % 15 == 14 or step == args.steps - 1:
            print(f"step {step:3d}  loss {loss.item():.4f}  smoothed {smoothed.item():.4f}")

    print(f"step_ms: {1000 * statistics.median(times):.1f}")


if __name__ == "__main__":
    main()
