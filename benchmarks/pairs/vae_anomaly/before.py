"""Train a convolutional VAE."""

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


def down(inside, outside):
    return nn.Sequential(nn.Conv2d(inside, outside, 4, 2, 1), nn.BatchNorm2d(outside), nn.LeakyReLU(0.2))


def up(inside, outside):
    return nn.Sequential(nn.ConvTranspose2d(inside, outside, 4, 2, 1), nn.BatchNorm2d(outside), nn.LeakyReLU(0.2))


class VAE(nn.Module):
    def __init__(self, width, latent, side):
        super().__init__()
        self.small, self.width = side // 16, width
        self.encoder = nn.Sequential(
            down(3, width), down(width, 2 * width), down(2 * width, 4 * width), down(4 * width, 8 * width), nn.Flatten()
        )
        self.moments = nn.Linear(8 * width * self.small**2, 2 * latent)
        self.start = nn.Linear(latent, 8 * width * self.small**2)
        self.decoder = nn.Sequential(
            up(8 * width, 4 * width), up(4 * width, 2 * width), up(2 * width, width), up(width, width)
        )
        self.last = nn.Conv2d(width, 3, 3, padding=1)

    def forward(self, x):
        mean, spread = self.moments(self.encoder(x)).chunk(2, 1)
        z = mean + torch.randn_like(mean) * torch.exp(0.5 * spread)
        y = self.decoder(self.start(z).view(-1, 8 * self.width, self.small, self.small))
        return torch.sigmoid(self.last(y)), mean, spread


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--small", action="store_true")
    args = parser.parse_args()
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    torch.autograd.set_detect_anomaly(True)
    batch, side, width, latent = (4, 32, 4, 8) if args.small else (128, 64, 64, 128)

    images = torch.rand(4 * batch, 3, side, side, device=device)
    model = VAE(width, latent, side).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for step in range(WARMUP + args.steps):
        x = images[torch.randint(len(images), (batch,), device=device)]
        y, mean, spread = model(x)
        divergence = -0.5 * (1 + spread - mean**2 - spread.exp()).mean()
        loss = F.mse_loss(y, x) + 0.01 * divergence
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step + 1 == WARMUP:
            begin = now(device)
    ms = (now(device) - begin) / args.steps * 1e3
    peak = torch.cuda.max_memory_allocated() / 2**20 if device.type == "cuda" else 0.0
    print(json.dumps({"ms": round(ms, 3), "peak_mb": round(peak, 1)}))


if __name__ == "__main__":
    main()
