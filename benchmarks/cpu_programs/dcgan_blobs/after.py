"""DCGAN on 32x32 synthetic images."""

import argparse
import json
import statistics
import time

import torch
import torch.nn as nn


class Generator(nn.Module):
    def __init__(self, nz=64, ngf=48, nc=3):
        super().__init__()
        self.main = nn.Sequential(
            nn.ConvTranspose2d(nz, ngf * 4, 4, 1, 0, bias=False),
            nn.BatchNorm2d(ngf * 4),
            nn.ReLU(True),
            nn.ConvTranspose2d(ngf * 4, ngf * 2, 4, 2, 1, bias=False),
            nn.BatchNorm2d(ngf * 2),
            nn.ReLU(True),
            nn.ConvTranspose2d(ngf * 2, ngf, 4, 2, 1, bias=False),
            nn.BatchNorm2d(ngf),
            nn.ReLU(True),
            nn.ConvTranspose2d(ngf, nc, 4, 2, 1, bias=False),
            nn.Tanh(),
        )

    def forward(self, z):
        return self.main(z)


class Discriminator(nn.Module):
    def __init__(self, nc=3, ndf=32):
        super().__init__()
        self.main = nn.Sequential(
            nn.Conv2d(nc, ndf, 4, 2, 1, bias=False),
            nn.LeakyReLU(0.2, inplace=True),
            nn.Conv2d(ndf, ndf * 2, 4, 2, 1, bias=False),
            nn.BatchNorm2d(ndf * 2),
            nn.LeakyReLU(0.2, inplace=True),
            nn.Conv2d(ndf * 2, ndf * 4, 4, 2, 1, bias=False),
            nn.BatchNorm2d(ndf * 4),
            nn.LeakyReLU(0.2, inplace=True),
            nn.Conv2d(ndf * 4, 1, 4, 1, 0, bias=False),
        )

    def forward(self, x):
        return self.main(x).view(-1)


def weights_init(m):
    name = m.__class__.__name__
    if "Conv" in name:
        nn.init.normal_(m.weight, 0.0, 0.02)
    elif "BatchNorm" in name:
        nn.init.normal_(m.weight, 1.0, 0.02)
        nn.init.zeros_(m.bias)


def make_images(n, size=32, seed=2):
    """Soft coloured blobs in [-1, 1]."""
    g = torch.Generator().manual_seed(seed)
    axis = torch.linspace(-1, 1, size)
    centre = torch.rand(n, 2, 1, generator=g) * 1.2 - 0.6
    dist = (axis - centre[:, 0])[:, None, :] ** 2 + (axis - centre[:, 1])[:, :, None] ** 2
    colour = torch.rand(n, 3, 1, 1, generator=g)
    return colour * torch.exp(-dist / 0.1)[:, None] * 2 - 1


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--nz", type=int, default=64)
    parser.add_argument("--lr", type=float, default=2e-4)
    opt = parser.parse_args()
    torch.manual_seed(999)

    images = make_images(2048)
    netG, netD = Generator(opt.nz), Discriminator()
    netG.apply(weights_init)
    netD.apply(weights_init)
    criterion = nn.BCEWithLogitsLoss()
    optimizerD = torch.optim.Adam(netD.parameters(), lr=opt.lr, betas=(0.5, 0.999))
    optimizerG = torch.optim.Adam(netG.parameters(), lr=opt.lr, betas=(0.5, 0.999))
    ones, zeros = torch.ones(opt.batch_size), torch.zeros(opt.batch_size)

    times = []
    for step in range(opt.steps):
        t0 = time.perf_counter()
        real = images[torch.randint(0, len(images), (opt.batch_size,))]

        # (1) update D: maximise log(D(x)) + log(1 - D(G(z)))
        netD.zero_grad()
        errD_real = criterion(netD(real), ones)
        fake = netG(torch.randn(opt.batch_size, opt.nz, 1, 1))
        errD_fake = criterion(netD(fake.detach()), zeros)
        errD = errD_real + errD_fake
        errD.backward()
        optimizerD.step()

        # (2) update G: maximise log(D(G(z)))
        netG.zero_grad()
        errG = criterion(netD(fake), ones)
        errG.backward()
        optimizerG.step()
        times.append((time.perf_counter() - t0) * 1000)

        if (step + 1) % 20 == 0:
            print(f"[{step + 1}/{opt.steps}] Loss_D: {errD.item():.4f} Loss_G: {errG.item():.4f}")
    print(json.dumps({"ms": round(statistics.median(times[5:] or times), 3)}))


if __name__ == "__main__":
    main()
