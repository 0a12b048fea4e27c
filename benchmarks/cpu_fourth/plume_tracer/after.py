"""Odour plumes in a turbulent channel, sampled by learned sniffers (rollout only)."""
import argparse
import math
import time

import torch
import torch.nn as nn
import torch.nn.functional as F


class Channel:
    """Puffs carried by a steady wind on a grid, with decay and mixing."""

    def __init__(self, puffs, height, width, gen):
        self.field = torch.zeros(puffs, 1, height, width)
        self.gen = gen
        self.decay = 0.90
        self.mix = torch.tensor([[0.0, 0.02, 0.0], [0.02, 0.92, 0.02], [0.0, 0.02, 0.0]]).view(1, 1, 3, 3)
        y = torch.linspace(-1, 1, height).view(1, 1, height, 1)
        self.wind = 0.4 * (1 - y ** 2)

    def release(self):
        n, _, h, w = self.field.shape
        rows = torch.randint(h // 3, 2 * h // 3, (n,), generator=self.gen)
        cols = torch.randint(2, w // 8, (n,), generator=self.gen)
        self.field[torch.arange(n), 0, rows, cols] += 1.0

    def advance(self):
        f = self.field
        upstream = F.pad(f[..., :-1], (1, 0))
        f = f - self.wind * (f - upstream)
        f = F.pad(f, (1, 1, 1, 1), mode="replicate")
        mixed = (self.mix[0, 0, 1, 1] * f[..., 1:-1, 1:-1]
                 + self.mix[0, 0, 0, 1] * (f[..., :-2, 1:-1] + f[..., 2:, 1:-1])
                 + self.mix[0, 0, 1, 0] * (f[..., 1:-1, :-2] + f[..., 1:-1, 2:]))
        self.field = self.decay * mixed


class Sniffer(nn.Module):
    def __init__(self, patch=15, hidden=64):
        super().__init__()
        self.patch = patch
        self.net = nn.Sequential(nn.Linear(patch * patch, hidden), nn.Tanh(), nn.Linear(hidden, 3))

    def forward(self, field, pos):
        half = self.patch // 2
        h, w = field.shape[-2:]
        off = torch.arange(-half, half + 1)
        rows = (pos[..., 0, None] + off).clamp(0, h - 1)
        cols = (pos[..., 1, None] + off).clamp(0, w - 1)
        n = torch.arange(field.shape[0]).view(-1, 1, 1, 1)
        seen = field[n, 0, rows.unsqueeze(-1), cols.unsqueeze(-2)]
        return self.net((seen + 1e-6).log().flatten(-2))


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=60)
    ap.add_argument("--substeps", type=int, default=12)
    ap.add_argument("--agents", type=int, default=32)
    args = ap.parse_args()
    torch.set_flush_denormal(True)
    torch.manual_seed(19)
    gen = torch.Generator().manual_seed(10)

    channel = Channel(8, 96, 192, gen)
    sniffer = Sniffer().eval()
    pos = torch.stack([torch.randint(0, 96, (8, args.agents), generator=gen),
                       torch.randint(10, 60, (8, args.agents), generator=gen)], -1)
    times, dose = [], torch.zeros(8, args.agents)
    with torch.no_grad():
        for i in range(400):
            if i % 40 == 0:
                channel.release()
            channel.advance()
        for step in range(args.steps):
            t0 = time.perf_counter()
            if step % 3 == 0:
                channel.release()
            for _ in range(args.substeps):
                channel.advance()
            turn = sniffer(channel.field, pos).argmax(-1) - 1
            pos[..., 0] = (pos[..., 0] + turn).clamp(0, 95)
            pos[..., 1] = (pos[..., 1] - 1).clamp(min=0)
            n = torch.arange(8).view(-1, 1)
            dose += channel.field[n, 0, pos[..., 0], pos[..., 1]]
            times.append(time.perf_counter() - t0)
            if step % 20 == 0:
                print(f"step {step} mass {channel.field.sum().item():.5f}")
    print(f"dose {dose.sum().item():.4e} best log10 {math.log10(dose.max().item() + 1e-12):.3f}")
    kept = times[5:] or times
    print(f"mean step {1000 * sum(kept) / len(kept):.2f} ms")


if __name__ == "__main__":
    main()
