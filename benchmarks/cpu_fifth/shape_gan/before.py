"""DCGAN on 32x32 grey images of discs, rings and bars."""
import argparse
import statistics
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset


def make_shapes(n, size=32, seed=0):
    rng = np.random.default_rng(seed)
    yy, xx = np.mgrid[0:size, 0:size]
    images = np.empty((n, 1, size, size), dtype=np.float32)
    for i in range(n):
        cy, cx = rng.uniform(10, size - 10, 2)
        r = rng.uniform(5, 10)
        dist = np.hypot(yy - cy, xx - cx)
        kind = rng.integers(0, 3)
        if kind == 0:
            soft = 1 / (1 + np.exp(2 * (dist - r)))
        elif kind == 1:
            soft = np.exp(-((dist - r) / 1.5) ** 2)
        else:
            a = rng.uniform(0, np.pi)
            across = np.abs((xx - cx) * np.sin(a) - (yy - cy) * np.cos(a))
            soft = 1 / (1 + np.exp(2 * (across - r / 3)))
        images[i, 0] = 2 * soft - 1
    return torch.from_numpy(images)


class Generator(nn.Module):
    def __init__(self, nz=64, ngf=64):
        super().__init__()
        self.net = nn.Sequential(
            nn.ConvTranspose2d(nz, ngf * 4, 4, 1, 0, bias=False), nn.BatchNorm2d(ngf * 4), nn.ReLU(True),
            nn.ConvTranspose2d(ngf * 4, ngf * 2, 4, 2, 1, bias=False), nn.BatchNorm2d(ngf * 2), nn.ReLU(True),
            nn.ConvTranspose2d(ngf * 2, ngf, 4, 2, 1, bias=False), nn.BatchNorm2d(ngf), nn.ReLU(True),
            nn.ConvTranspose2d(ngf, 1, 4, 2, 1, bias=False), nn.Tanh(),
        )

    def forward(self, z):
        return self.net(z[:, :, None, None])


class Discriminator(nn.Module):
    def __init__(self, ndf=16):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(1, ndf, 4, 2, 1), nn.LeakyReLU(0.2, True),
            nn.Conv2d(ndf, ndf * 2, 4, 2, 1, bias=False), nn.BatchNorm2d(ndf * 2), nn.LeakyReLU(0.2, True),
            nn.Conv2d(ndf * 2, ndf * 4, 4, 2, 1, bias=False), nn.BatchNorm2d(ndf * 4), nn.LeakyReLU(0.2, True),
            nn.Conv2d(ndf * 4, 1, 4, 1, 0),
        )

    def forward(self, x):
        return self.net(x).flatten()


def init_weights(m):
    if isinstance(m, (nn.Conv2d, nn.ConvTranspose2d)):
        nn.init.normal_(m.weight, 0.0, 0.02)
    elif isinstance(m, nn.BatchNorm2d):
        nn.init.normal_(m.weight, 1.0, 0.02)
        nn.init.zeros_(m.bias)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--nz", type=int, default=64)
    parser.add_argument("--lr", type=float, default=2e-4)
    args = parser.parse_args()

    torch.manual_seed(999)
    torch.set_num_threads(1)

    loader = DataLoader(TensorDataset(make_shapes(2048)), batch_size=args.batch_size, shuffle=True, drop_last=True)
    netG, netD = Generator(args.nz), Discriminator()
    netG.apply(init_weights)
    netD.apply(init_weights)
    optG = torch.optim.Adam(netG.parameters(), lr=args.lr, betas=(0.5, 0.999), fused=True)
    optD = torch.optim.Adam(netD.parameters(), lr=args.lr, betas=(0.5, 0.999), fused=True)
    real_label = torch.full((args.batch_size,), 0.9)
    fake_label = torch.zeros(args.batch_size)
    gen_label = torch.ones(args.batch_size)

    step, times, d_losses, g_losses = 0, [], [], []
    while step < args.steps:
        tick = time.perf_counter()
        for (real,) in loader:
            fake = netG(torch.randn(args.batch_size, args.nz))

            # discriminator
            netD.requires_grad_(True)
            optD.zero_grad(set_to_none=True)
            loss_real = F.binary_cross_entropy_with_logits(netD(real), real_label)
            loss_fake = F.binary_cross_entropy_with_logits(netD(fake), fake_label)
            loss_d = loss_real + loss_fake
            loss_d.backward(retain_graph=True)
            optD.step()

            # generator
            netD.requires_grad_(False)
            optG.zero_grad(set_to_none=True)
            loss_g = F.binary_cross_entropy_with_logits(netD(fake), gen_label)
            loss_g.backward()
            optG.step()

            d_losses.append(loss_d.detach())
            g_losses.append(loss_g.detach())
            now = time.perf_counter()
            times.append(now - tick)
            tick = now
            step += 1
            if step >= args.steps:
                break

    print(f"loss_d {torch.stack(d_losses[-10:]).mean().item():.4f}")
    print(f"loss {torch.stack(g_losses[-10:]).mean().item():.4f}")
    print(f"step {1000 * statistics.median(times[5:]):.2f} ms")


if __name__ == "__main__":
    main()
