"""Train a DCGAN with two optimizers."""

import argparse
import json
import time

import torch
from torch import nn
from torch.nn import functional as F

WARMUP = 10


def now(device):
    if device.type == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter()


class Generator(nn.Module):
    def __init__(self, latent, width):
        super().__init__()
        self.first = nn.Linear(latent, 8 * width * 16)
        layers = []
        for scale in (8, 4, 2):
            layers += [
                nn.ConvTranspose2d(scale * width, scale * width // 2, 4, 2, 1, bias=False),
                nn.BatchNorm2d(scale * width // 2),
                nn.ReLU(inplace=True),
                nn.Conv2d(scale * width // 2, scale * width // 2, 3, padding=1, bias=False),
                nn.BatchNorm2d(scale * width // 2),
                nn.ReLU(inplace=True),
            ]
        self.layers = nn.Sequential(*layers, nn.ConvTranspose2d(width, 3, 4, 2, 1), nn.Tanh())
        self.width = width

    def forward(self, z):
        return self.layers(self.first(z).view(-1, 8 * self.width, 4, 4))


def discriminator(width):
    return nn.Sequential(
        nn.Conv2d(3, width, 4, 2, 1),
        nn.LeakyReLU(0.2, inplace=True),
        nn.Conv2d(width, 2 * width, 4, 2, 1),
        nn.LeakyReLU(0.2, inplace=True),
        nn.Conv2d(2 * width, 4 * width, 4, 2, 1),
        nn.LeakyReLU(0.2, inplace=True),
        nn.Conv2d(4 * width, 8 * width, 4, 2, 1),
        nn.LeakyReLU(0.2, inplace=True),
        nn.Flatten(),
        nn.Linear(8 * width * 16, 1),
    )


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--small", action="store_true")
    args = parser.parse_args()
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    batch, latent, width = (4, 8, 4) if args.small else (256, 128, 128)

    images = torch.rand(4 * batch, 3, 64, 64, device=device) * 2 - 1
    g = Generator(latent, width).to(device)
    d = discriminator(width // 2).to(device)
    optimizer_d = torch.optim.Adam(d.parameters(), lr=2e-4, betas=(0.5, 0.999))
    optimizer_g = torch.optim.Adam(g.parameters(), lr=2e-4, betas=(0.5, 0.999))
    for step in range(WARMUP + args.steps):
        real = images[torch.randint(len(images), (batch,), device=device)]
        with torch.autocast(device.type, torch.bfloat16):
            fake = g(torch.randn(batch, latent, device=device))
            d_loss = F.softplus(-d(real)).mean() + F.softplus(d(fake.detach())).mean()
        optimizer_d.zero_grad()
        d_loss.backward()
        optimizer_d.step()

        with torch.autocast(device.type, torch.bfloat16):
            g_loss = F.softplus(-d(fake)).mean()
        optimizer_g.zero_grad()
        g_loss.backward()
        optimizer_g.step()
        if step + 1 == WARMUP:
            begin = now(device)
    ms = (now(device) - begin) / args.steps * 1e3
    peak = torch.cuda.max_memory_allocated() / 2**20 if device.type == "cuda" else 0.0
    print(json.dumps({"ms": round(ms, 3), "peak_mb": round(peak, 1)}))


if __name__ == "__main__":
    main()
