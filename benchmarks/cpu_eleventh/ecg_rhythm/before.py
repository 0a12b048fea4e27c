"""Rhythm classification on single-lead ECG strips with a small patch transformer."""
import argparse
import math

import torch
import torch.nn as nn
import torch.nn.functional as F

SAMPLE_RATE = 250
STRIP = 4096          # samples per strip, ~16 s
PATCH = 8             # samples per token
CLASSES = ["sinus", "afib", "bigeminy", "tachy"]


def synth_strip(label, g):
    """One strip: a train of QRS-like bumps whose spacing depends on the rhythm."""
    t = torch.arange(STRIP) / SAMPLE_RATE
    base = {0: 0.85, 1: 0.75, 2: 0.8, 3: 0.42}[label]
    beats, now, k = [], 0.2, 0
    while now < STRIP / SAMPLE_RATE:
        beats.append(now)
        step = base
        if label == 1:
            step = base * (0.6 + 0.8 * torch.rand(1, generator=g).item())
        elif label == 2:
            step = base * (0.65 if k % 2 == 0 else 1.35)
        now += step
        k += 1
    centres = torch.tensor(beats)
    qrs = torch.exp(-((t[None] - centres[:, None]) / 0.02) ** 2).sum(0)
    wave = 0.2 * torch.exp(-((t[None] - centres[:, None] - 0.25) / 0.06) ** 2).sum(0)
    drift = 0.15 * torch.sin(2 * math.pi * 0.2 * t + 6.28 * torch.rand(1, generator=g))
    return qrs + wave + drift + 0.08 * torch.randn(STRIP, generator=g)


class EcgData:
    def __init__(self, n=320, batch_size=4, seed=3):
        g = torch.Generator().manual_seed(seed)
        self.labels = torch.randint(0, len(CLASSES), (n,), generator=g)
        strips = torch.stack([synth_strip(int(y), g) for y in self.labels])
        self.patches = strips.view(n, STRIP // PATCH, PATCH)
        self.batch_size = batch_size
        self.g = g

    def batches(self):
        order = torch.randperm(len(self.labels), generator=self.g)
        for idx in order.split(self.batch_size):
            if len(idx) == self.batch_size:
                yield self.patches[idx], self.labels[idx]


class Block(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.norm1 = nn.LayerNorm(dim)
        self.attn = nn.MultiheadAttention(dim, heads, batch_first=True)
        self.norm2 = nn.LayerNorm(dim)
        self.ff = nn.Sequential(nn.Linear(dim, 3 * dim), nn.GELU(), nn.Linear(3 * dim, dim))

    def forward(self, x):
        h = self.norm1(x)
        h, _ = self.attn(h, h, h)
        x = x + h
        return x + self.ff(self.norm2(x))


class RhythmModule(nn.Module):
    """Lightning-like module: training_step / configure_optimizers."""

    def __init__(self, dim=64, heads=8, depth=2, lr=1e-3):
        super().__init__()
        self.lr = lr
        self.patch = nn.Linear(PATCH, dim)
        self.pos = nn.Parameter(torch.randn(1, STRIP // PATCH, dim) * 0.02)
        self.blocks = nn.ModuleList(Block(dim, heads) for _ in range(depth))
        self.norm = nn.LayerNorm(dim)
        self.head = nn.Linear(dim, len(CLASSES))

    def forward(self, patches):
        x = self.patch(patches) + self.pos
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x).mean(dim=1))

    def training_step(self, batch):
        patches, labels = batch
        logits = self(patches)
        return F.cross_entropy(logits, labels)

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=self.lr, weight_decay=0.01, fused=True)


class Fitter:
    def __init__(self, max_steps):
        self.max_steps = max_steps

    def fit(self, module, data):
        optimizer = module.configure_optimizers()
        module.train()
        losses = []
        while len(losses) < self.max_steps:
            for batch in data.batches():
                loss = module.training_step(batch)
                optimizer.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(module.parameters(), 1.0)
                optimizer.step()
                losses.append(loss.item())
                if len(losses) == self.max_steps:
                    break
        return losses


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60)
    args = parser.parse_args()

    torch.manual_seed(0)
    data = EcgData()
    module = RhythmModule()
    losses = Fitter(args.steps).fit(module, data)
    tail = losses[-10:]
    print(f"mean loss of the last {len(tail)} steps: {sum(tail) / len(tail):.4f}")


if __name__ == "__main__":
    main()
