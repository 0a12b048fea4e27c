"""DCGAN on small procedural texture tiles (game art)."""
import argparse
import statistics
import time

import torch
import torch.nn as nn

Z = 64


def textures(n=512, size=32, seed=8):
    g = torch.Generator().manual_seed(seed)
    y, x = torch.meshgrid(torch.linspace(-1, 1, size), torch.linspace(-1, 1, size), indexing="ij")
    out = torch.zeros(n, 3, size, size)
    for i in range(n):
        for c in range(3):
            f = 2 + 8 * torch.rand(2, generator=g)
            ph = 6.28 * torch.rand(1, generator=g)
            out[i, c] = torch.sin(f[0] * x + f[1] * y + ph)
    return (out + 0.1 * torch.randn(out.shape, generator=g)).clamp(-1, 1)


def weights_init(m):
    if isinstance(m, (nn.Conv2d, nn.ConvTranspose2d)):
        nn.init.normal_(m.weight, 0.0, 0.02)
    elif isinstance(m, nn.BatchNorm2d):
        nn.init.normal_(m.weight, 1.0, 0.02)
        nn.init.zeros_(m.bias)


def up(cin, cout):
    return nn.Sequential(nn.ConvTranspose2d(cin, cout, 4, 2, 1, bias=False), nn.BatchNorm2d(cout), nn.ReLU(True))


def down(cin, cout):
    return nn.Sequential(nn.Conv2d(cin, cout, 4, 2, 1, bias=False), nn.BatchNorm2d(cout), nn.LeakyReLU(0.2))


class Generator(nn.Module):
    def __init__(self, w=64):
        super().__init__()
        self.net = nn.Sequential(
            nn.ConvTranspose2d(Z, 4 * w, 4, 1, 0, bias=False), nn.BatchNorm2d(4 * w), nn.ReLU(True),
            up(4 * w, 2 * w), up(2 * w, w),
            nn.ConvTranspose2d(w, 3, 4, 2, 1), nn.Tanh())

    def forward(self, z):
        return self.net(z)


class Discriminator(nn.Module):
    def __init__(self, w=16):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(3, w, 4, 2, 1), nn.LeakyReLU(0.2),
            down(w, 2 * w), down(2 * w, 4 * w),
            nn.Conv2d(4 * w, 1, 4, 1, 0))

    def forward(self, x):
        return self.net(x).flatten()


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=60)
    ap.add_argument("--seconds", type=float)
    args = ap.parse_args()
    torch.manual_seed(0)
    data = textures()
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(data), batch_size=64,
                                         shuffle=True, drop_last=True)
    netG, netD = Generator().apply(weights_init), Discriminator().apply(weights_init)
    optG = torch.optim.Adam(netG.parameters(), lr=2e-4, betas=(0.5, 0.999))
    optD = torch.optim.Adam(netD.parameters(), lr=2e-4, betas=(0.5, 0.999))
    criterion = nn.BCEWithLogitsLoss()
    real_label, fake_label = torch.full((64,), 0.9), torch.zeros(64)

    times, start, running = [], time.perf_counter(), True
    while running:
        t0 = time.perf_counter()
        for (real,) in loader:
            # train the discriminator
            netD.zero_grad()
            errD_real = criterion(netD(real), real_label)
            fake = netG(torch.randn(64, Z, 1, 1))
            errD_fake = criterion(netD(fake.detach()), fake_label)
            errD = errD_real + errD_fake
            errD.backward()
            optD.step()

            # train the generator
            netG.zero_grad()
            errG = criterion(netD(fake), real_label)
            errG.backward()
            optG.step()

            now = time.perf_counter()
            times.append(now - t0)
            if len(times) >= args.steps and now - start >= (args.seconds or 0):
                running = False
                break
            t0 = time.perf_counter()
    print(f"step_ms {statistics.median(times[5:]) * 1000:.3f}")
    return errG.item() + errD.item()


if __name__ == "__main__":
    main()
