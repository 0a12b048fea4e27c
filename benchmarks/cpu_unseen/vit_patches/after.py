"""A small vision transformer trained on synthetic textures."""
import argparse
import math
import time

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset


def make_textures(n, size, classes, seed=3):
    """Sinusoidal gratings whose angle is the class."""
    g = torch.Generator().manual_seed(seed)
    labels = torch.randint(0, classes, (n,), generator=g)
    angle = labels.float() * math.pi / classes
    freq = 0.3 + 0.3 * torch.rand(n, generator=g)
    phase = 2 * math.pi * torch.rand(n, generator=g)
    ys, xs = torch.meshgrid(torch.arange(size), torch.arange(size), indexing="ij")
    proj = (torch.cos(angle)[:, None, None] * xs + torch.sin(angle)[:, None, None] * ys)
    wave = torch.sin(freq[:, None, None] * proj + phase[:, None, None])
    images = wave[:, None].repeat(1, 3, 1, 1)
    images += 0.5 * torch.randn(images.shape, generator=g)
    return TensorDataset(images, labels)


class PatchEmbed(nn.Module):
    def __init__(self, size, patch, dim):
        super().__init__()
        self.proj = nn.Conv2d(3, dim, kernel_size=patch, stride=patch)
        self.cls = nn.Parameter(torch.zeros(1, 1, dim))
        self.pos = nn.Parameter(0.02 * torch.randn(1, (size // patch) ** 2 + 1, dim))

    def forward(self, x):
        x = self.proj(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.cls.expand(x.size(0), -1, -1), x], dim=1)
        return x + self.pos


class Block(nn.Module):
    def __init__(self, dim, heads, mlp_ratio=2):
        super().__init__()
        self.norm1 = nn.LayerNorm(dim)
        self.attn = nn.MultiheadAttention(dim, heads, batch_first=True)
        self.norm2 = nn.LayerNorm(dim)
        self.mlp = nn.Sequential(
            nn.Linear(dim, dim * mlp_ratio),
            nn.GELU(),
            nn.Linear(dim * mlp_ratio, dim),
        )

    def forward(self, x):
        y = self.norm1(x)
        y, _ = self.attn(y, y, y, need_weights=False)
        x = x + y
        return x + self.mlp(self.norm2(x))


class ViT(nn.Module):
    def __init__(self, size=64, patch=4, dim=96, depth=3, heads=4, classes=8):
        super().__init__()
        self.embed = PatchEmbed(size, patch, dim)
        self.blocks = nn.Sequential(*[Block(dim, heads) for _ in range(depth)])
        self.norm = nn.LayerNorm(dim)
        self.head = nn.Linear(dim, classes)

    def forward(self, x):
        x = self.blocks(self.embed(x))
        return self.head(self.norm(x[:, 0]))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--lr", type=float, default=5e-4)
    args = parser.parse_args()
    torch.manual_seed(0)

    loader = DataLoader(make_textures(320, 64, 8), batch_size=args.batch_size,
                        shuffle=True, drop_last=True)
    model = ViT()
    criterion = nn.CrossEntropyLoss(label_smoothing=0.1)
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr, weight_decay=0.05)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, args.steps)

    model.train()
    step, start = 0, time.perf_counter()
    while step < args.steps:
        for images, labels in loader:
            if step == 5:
                start = time.perf_counter()
            loss = criterion(model(images), labels)
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            scheduler.step()
            step += 1
            if step % 10 == 0:
                print(f"step {step}: loss {loss.item():.4f}")
            if step >= args.steps:
                break
    elapsed = time.perf_counter() - start
    print(f"final loss {loss.item():.5f}")
    print(f"mean step {1000 * elapsed / max(1, step - 5):.2f} ms")


if __name__ == "__main__":
    main()
