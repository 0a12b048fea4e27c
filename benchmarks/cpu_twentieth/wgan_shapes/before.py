"""Wasserstein GAN with weight clipping on small images of shapes."""
import argparse
import json
import statistics
import sys
import time

import numpy as np
import torch
import torch.nn as nn
from PIL import Image, ImageDraw

SIZE = 32
LATENT = 48
BATCH = 24
N_CRITIC = 3
CLIP = 0.02


def make_shapes(n, seed):
    rng = np.random.default_rng(seed)
    images = np.zeros((n, 1, SIZE, SIZE), dtype=np.float32)
    for i in range(n):
        canvas = Image.new("L", (SIZE, SIZE), 0)
        draw = ImageDraw.Draw(canvas)
        cx, cy = (int(v) for v in rng.integers(10, SIZE - 10, 2))
        r = int(rng.integers(4, 10))
        if rng.random() < 0.5:
            draw.ellipse((cx - r, cy - r, cx + r, cy + r), fill=255)
        else:
            draw.regular_polygon((cx, cy, r), int(rng.integers(3, 6)), int(rng.integers(0, 90)), fill=255)
        images[i, 0] = np.asarray(canvas, dtype=np.float32) / 127.5 - 1.0
    return torch.from_numpy(images)


class Generator(nn.Module):
    def __init__(self, width=64):
        super().__init__()
        self.width = width
        self.project = nn.Linear(LATENT, 2 * width * 16)

        def up(cin, cout):
            return [nn.Upsample(scale_factor=2), nn.Conv2d(cin, cout, 3, padding=1),
                    nn.BatchNorm2d(cout), nn.ReLU()]

        self.body = nn.Sequential(
            *up(2 * width, width), *up(width, width // 2), *up(width // 2, width // 4),
            nn.Conv2d(width // 4, 1, 3, padding=1), nn.Tanh(),
        )

    def forward(self, z):
        return self.body(self.project(z).view(-1, 2 * self.width, 4, 4))


class Critic(nn.Module):
    def __init__(self, width=24):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(1, width, 4, 2, 1), nn.LeakyReLU(0.2),
            nn.Conv2d(width, 2 * width, 4, 2, 1), nn.LeakyReLU(0.2),
            nn.Conv2d(2 * width, 4 * width, 4, 2, 1), nn.LeakyReLU(0.2),
            nn.Flatten(), nn.Linear(4 * width * 16, 1),
        )

    def forward(self, x):
        return self.body(x).squeeze(1)


def train_critic(generator, critic, optimizer, real):
    """One critic update; returns the negative Wasserstein estimate."""
    z = torch.randn(len(real), LATENT)
    fake = generator(z)
    loss = critic(fake).mean() - critic(real).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    with torch.no_grad():
        for p in critic.parameters():
            p.clamp_(-CLIP, CLIP)
    return loss.item()


def train_generator(generator, critic, optimizer):
    z = torch.randn(BATCH, LATENT)
    loss = -critic(generator(z)).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.item()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=110)
    args = parser.parse_args()

    torch.manual_seed(0)
    shapes = make_shapes(2000, seed=0)
    generator, critic = Generator(), Critic()
    opt_g = torch.optim.RMSprop(generator.parameters(), lr=2e-4)
    opt_c = torch.optim.RMSprop(critic.parameters(), lr=2e-4)

    times = []
    for step in range(args.steps):
        t0 = time.perf_counter()
        for _ in range(N_CRITIC):
            real = shapes[torch.randint(0, len(shapes), (BATCH,))]
            loss_c = train_critic(generator, critic, opt_c, real)
        loss_g = train_generator(generator, critic, opt_g)
        times.append((time.perf_counter() - t0) * 1000)
        if (step + 1) % 20 == 0:
            print(f"step {step + 1} critic {loss_c:.5f} generator {loss_g:.5f}", file=sys.stderr)

    timed = times[5:] or times
    print(json.dumps({"ms": statistics.median(timed), "steps": args.steps}))


if __name__ == "__main__":
    main()
