"""DCGAN on 32x32 images of coloured shapes."""
import argparse
import time

import numpy as np
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset


def weights_init(m):
    name = m.__class__.__name__
    if name.find("Conv") != -1:
        nn.init.normal_(m.weight.data, 0.0, 0.02)
    elif name.find("BatchNorm") != -1:
        nn.init.normal_(m.weight.data, 1.0, 0.02)
        nn.init.constant_(m.bias.data, 0)


class Generator(nn.Module):
    def __init__(self, nz, ngf, nc=3):
        super().__init__()
        self.ngf = ngf
        self.l1 = nn.Linear(nz, ngf * 2 * 8 * 8)
        self.main = nn.Sequential(
            nn.BatchNorm2d(ngf * 2),
            nn.Upsample(scale_factor=2),
            nn.Conv2d(ngf * 2, ngf * 2, 3, 1, 1),
            nn.BatchNorm2d(ngf * 2),
            nn.LeakyReLU(0.2, inplace=True),
            nn.Upsample(scale_factor=2),
            nn.Conv2d(ngf * 2, ngf, 3, 1, 1),
            nn.BatchNorm2d(ngf),
            nn.LeakyReLU(0.2, inplace=True),
            nn.Conv2d(ngf, nc, 3, 1, 1),
            nn.Tanh(),
        )

    def forward(self, z):
        return self.main(self.l1(z).view(z.size(0), self.ngf * 2, 8, 8))


class Discriminator(nn.Module):
    def __init__(self, ndf, nc=3):
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


def make_shapes(n, seed):
    rng = np.random.default_rng(seed)
    yy, xx = np.mgrid[0:32, 0:32]
    images = np.full((n, 3, 32, 32), -1.0, dtype=np.float32)
    for i in range(n):
        cx, cy, r = rng.uniform(10, 22), rng.uniform(10, 22), rng.uniform(4, 9)
        if rng.random() < 0.5:
            mask = (xx - cx) ** 2 + (yy - cy) ** 2 < r * r
        else:
            mask = (abs(xx - cx) < r) & (abs(yy - cy) < r)
        images[i, :, mask] = rng.uniform(-0.5, 1.0, 3)
    return torch.from_numpy(images)


class GANTrainer:
    def __init__(self, args):
        self.args = args
        self.netG = Generator(args.nz, args.ngf)
        self.netD = Discriminator(args.ndf)
        self.netG.apply(weights_init)
        self.netD.apply(weights_init)
        self.optG = torch.optim.Adam(self.netG.parameters(), lr=args.lr, betas=(0.5, 0.999))
        self.optD = torch.optim.Adam(self.netD.parameters(), lr=args.lr, betas=(0.5, 0.999))
        self.criterion = nn.BCEWithLogitsLoss()

    def train_discriminator(self, real):
        b = real.size(0)
        self.optD.zero_grad()
        loss_real = self.criterion(self.netD(real), torch.full((b,), 0.9))
        loss_real.backward()
        noise = torch.randn(b, self.args.nz)
        fake = self.netG(noise)
        loss_fake = self.criterion(self.netD(fake), torch.zeros(b))
        loss_fake.backward()
        self.optD.step()
        return loss_real.item() + loss_fake.item()

    def train_generator(self, b):
        self.optG.zero_grad()
        noise = torch.randn(b, self.args.nz)
        loss = self.criterion(self.netD(self.netG(noise)), torch.ones(b))
        loss.backward()
        self.optG.step()
        return loss.item()

    def fit(self, loader):
        step, epoch = 0, 0
        d_losses, g_losses = [], []
        while step < self.args.steps:
            epoch += 1
            start = time.time()
            for (real,) in loader:
                d_losses.append(self.train_discriminator(real))
                g_losses.append(self.train_generator(real.size(0)))
                step += 1
                if step >= self.args.steps:
                    break
            print(f"[{epoch}] Loss_D: {d_losses[-1]:.4f} Loss_G: {g_losses[-1]:.4f} "
                  f"({time.time() - start:.1f}s)")
        return d_losses, g_losses


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=250)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--nz", type=int, default=64)
    parser.add_argument("--ngf", type=int, default=16)
    parser.add_argument("--ndf", type=int, default=16)
    parser.add_argument("--lr", type=float, default=2e-4)
    parser.add_argument("--seed", type=int, default=999)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    images = make_shapes(960, args.seed)
    loader = DataLoader(TensorDataset(images), batch_size=args.batch_size, shuffle=True)
    d_losses, g_losses = GANTrainer(args).fit(loader)
    print(f"final D {np.mean(d_losses[-10:]):.3f} G {np.mean(g_losses[-10:]):.3f}")


if __name__ == "__main__":
    main()
